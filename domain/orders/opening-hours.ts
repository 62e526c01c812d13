// Opening hours and days off in words, for pages and search engines.
import type { DayOff, OpenSpan } from '../deliveries/delivery-promise.ts';
import { nairobiDay, startOfNairobiDay } from '../nairobi-time.ts';

export interface Opening {
  /** Such as `Mon-Sat 9:00-17:00`, for days with the same hours. */
  hours: string[];
  /** Such as `Fri 25 Dec 2026: Christmas`: the next days off. */
  daysOff: string[];
  /** `hours` in the vocabulary of schema.org, such as `Mo-Sa 09:00-17:00`. */
  schema: string[];
}

const weekdays = ['Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat', 'Sun'];
const shownDaysOff = 3;
const dayMs = 24 * 60 * 60_000;

/** The end of the day in Nairobi, after which the next days off are others. */
export const endOfDay = (now: number): string =>
  new Date(startOfNairobiDay(nairobiDay(now)) + dayMs).toISOString();

/**
 * @param openingHours as stored; none: always open
 * @returns null while the shop is open at any time, and has no day off from today on
 */
export function describeOpening(
  openingHours: readonly OpenSpan[],
  daysOff: readonly DayOff[],
  now: number,
): Opening | null {
  const spansOn = (day: number) =>
    openingHours.length === 0
      ? ['00:00-24:00']
      : openingHours
          .filter((span) => span.day === day)
          .map(({ from, to }) => `${from}-${to}`)
          .sort();
  const groups: { days: string[]; spans: string[] }[] = [];
  weekdays.forEach((name, index) => {
    const [spans, before] = [spansOn(index + 1), groups.at(-1)];
    if (before && before.spans.join() === spans.join()) before.days.push(name);
    else groups.push({ days: [name], spans });
  });
  const next = daysOff
    .filter(({ day }) => day >= nairobiDay(now))
    .sort((one, other) => (one.day < other.day ? -1 : 1))
    .slice(0, shownDaysOff);
  const [first] = groups;
  if (next.length === 0 && groups.length === 1 && first?.spans.join() === '00:00-24:00') return null;
  const open = groups.filter(({ spans }) => spans.length > 0);
  return {
    hours: open.map(({ days, spans }) => `${rangeOf(days)} ${spans.map(wordsOf).join(' and ')}`),
    daysOff: next.map(({ day, reason }) => `${writeDay(day)}: ${reason}`),
    schema: open.flatMap(({ days, spans }) =>
      spans.map(
        (span) => `${rangeOf(days.map((name) => name.slice(0, 2)))} ${span.replace('24:00', '23:59')}`,
      ),
    ),
  };
}

const rangeOf = (days: readonly string[]): string =>
  days.length > 1 ? `${days[0]}-${days.at(-1)}` : `${days[0]}`;

const wordsOf = (span: string): string =>
  span === '00:00-24:00' ? 'all day' : span.replaceAll(/\b0(?=\d:)/g, '');

function writeDay(day: string): string {
  // "Fri, 25 Dec 2026 00:00:00 GMT"
  const written = new Date(`${day}T00:00Z`).toUTCString();
  return `${written.slice(0, 3)} ${+written.slice(5, 7)} ${written.slice(8, 16)}`;
}
