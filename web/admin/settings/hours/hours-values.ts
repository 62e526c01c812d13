// Opening hours and days off in the form of the settings, which holds them as JSON, and in the database.
import type { DayOff, OpenSpan } from '../../../../domain/deliveries/delivery-promise.ts';

/** By ISO weekday. */
export const weekdays = [
  [1, 'Monday'],
  [2, 'Tuesday'],
  [3, 'Wednesday'],
  [4, 'Thursday'],
  [5, 'Friday'],
  [6, 'Saturday'],
  [7, 'Sunday'],
] as const;

const nameOfDay = (day: number): string => weekdays[(day - 1) % 7]?.[1] ?? '';

/** Whether the shop never closes, as text of the form. */
export const always = '';

const isSpan = (value: unknown): value is OpenSpan => {
  const { day, from, to } = (value ?? {}) as Record<string, unknown>;
  return typeof day === 'number' && typeof from === 'string' && typeof to === 'string';
};

/** Times of the form are those of the browser's field, in which midnight at the end of a day is `00:00`. */
const byTime = (one: OpenSpan, other: OpenSpan): number =>
  one.day - other.day || (one.from < other.from ? -1 : one.from > other.from ? 1 : 0);

/** @param column as stored; null or empty: always open */
export function hoursText(column: unknown): string {
  const spans = Array.isArray(column) ? column.filter(isSpan) : [];
  return spans.length === 0
    ? always
    : writeSpans(
        spans.map(({ day, from, to }) => ({ day, from, to: to === '24:00' ? '00:00' : to })).sort(byTime),
      );
}

export const writeSpans = (spans: readonly OpenSpan[]): string => JSON.stringify(spans);

/** The spans of the form's text, in the order they were typed; none while it is always open. */
export const readSpans = (text: string): OpenSpan[] =>
  text === always ? [] : (JSON.parse(text) as unknown[]).filter(isSpan);

/** Whether a span ends on the next day; not while its end is not typed yet. */
export const endsNextDay = ({ from, to }: OpenSpan): boolean => to !== '' && to !== '00:00' && to < from;

/** The day after that of a span. */
export const nextDayOf = ({ day }: OpenSpan): string => nameOfDay(day + 1);

const maxSpans = 42;

/** @returns what is wrong with opening hours, or null */
export function checkHours(text: string): string | null {
  if (text === always) return null;
  const spans = readSpans(text);
  if (spans.length === 0) return 'Add a time at which you are open, or choose Always';
  if (spans.length > maxSpans) return `Please use at most ${maxSpans} times`;
  for (const { day, from, to } of spans) {
    if (from === '' || to === '') return `${nameOfDay(day)}: please enter both times`;
    if (from === to && from !== '00:00') return `${nameOfDay(day)}: opening and closing are the same`;
  }
  return null;
}

/** Text of the form as a column. */
export const hoursColumn = (text: string): OpenSpan[] =>
  readSpans(text)
    .sort(byTime)
    .map(({ day, from, to }) => ({ day, from, to: to === '00:00' ? '24:00' : to }));

/** The hours of the first open day on every day. */
export function sameEveryDay(text: string): string {
  const spans = readSpans(text);
  const first = weekdays.find(([day]) => spans.some((span) => span.day === day))?.[0];
  return writeSpans(
    weekdays.flatMap(([day]) => spans.filter((span) => span.day === first).map((span) => ({ ...span, day }))),
  );
}

/** For members who compare two versions: `Always`, or `Monday 08:00-22:00, Tuesday closed, …` */
export function describeHours(text: string): string {
  if (text === always) return 'Always';
  const spans = readSpans(text).sort(byTime);
  return weekdays
    .map(([day, name]) => {
      const own = spans.filter((span) => span.day === day);
      return `${name} ${own.length === 0 ? 'closed' : own.map(({ from, to }) => `${from}-${to}`).join(' and ')}`;
    })
    .join(', ');
}

const isDayOff = (value: unknown): value is DayOff => {
  const { day, reason } = (value ?? {}) as Record<string, unknown>;
  return typeof day === 'string' && typeof reason === 'string';
};

export const daysOffText = (column: unknown): string =>
  writeDaysOff(
    (Array.isArray(column) ? column : [])
      .filter(isDayOff)
      .map(({ day, reason }) => ({ day, reason }))
      .sort(byDay),
  );

const byDay = (one: DayOff, other: DayOff): number =>
  one.day < other.day ? -1 : one.day > other.day ? 1 : 0;

export const writeDaysOff = (days: readonly DayOff[]): string => JSON.stringify(days);

export const readDaysOff = (text: string): DayOff[] => (JSON.parse(text) as unknown[]).filter(isDayOff);

const maxDaysOff = 60;
const maxReason = 80;

/** @returns what is wrong with days off, or null */
export function checkDaysOff(text: string): string | null {
  const days = readDaysOff(text);
  if (days.length > maxDaysOff) return `Please use at most ${maxDaysOff} days. Remove those that are over`;
  for (const [index, { day, reason }] of days.entries()) {
    if (!/^20\d\d-\d\d-\d\d$/.test(day)) return 'Please choose the date of each day off';
    if (reason.trim() === '') return `${day}: please say why, such as Christmas`;
    if (reason.trim().length > maxReason) return `${day}: the reason is longer than ${maxReason} characters`;
    if (days.findIndex((other) => other.day === day) !== index) return `${day} is in the list twice`;
  }
  return null;
}

/** Text of the form as a column. */
export const daysOffColumn = (text: string): DayOff[] =>
  readDaysOff(text)
    .map(({ day, reason }) => ({ day, reason: reason.trim() }))
    .sort(byDay);

export const describeDaysOff = (text: string): string =>
  readDaysOff(text)
    .map(({ day, reason }) => `${day} ${reason}`)
    .join(', ') || 'None';
