// Times of M-PESA, as messages and people write them.
import { nairobiOffsetMs } from '../nairobi-time.ts';

const MINUTE_MS = 60_000;
const MAX_WRITTEN_LENGTH = 60;
/** M-PESA's first year. */
const FIRST_YEAR = 2007;
const LAST_YEAR = 2099;

const months = ['jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec'];
const month = '(?<name>jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\\.?';
const weekday = '(?:(?:mon|tue|wed|thu|fri|sat|sun)[a-z]*\\.?,? )?';
const time =
  '(?<hour>\\d{1,2}):(?<minute>\\d{2})(?::(?<second>\\d{2})(?:[.,]\\d{1,9})?)?(?: ?(?<half>[ap])\\.?m\\.?)?';
const zone = '(?: ?(?<zone>z|utc|gmt|eat|(?:utc|gmt)?[-+]\\d{2}:?\\d{2}))?';

const dates = [
  '(?<year>\\d{4})(?<joint>[-/.])(?<month>\\d{1,2})\\k<joint>(?<day>\\d{1,2})',
  '(?<day>\\d{1,2})(?<joint>[-.])(?<month>\\d{1,2})\\k<joint>(?<year>\\d{4})',
  '(?<first>\\d{1,2})/(?<other>\\d{1,2})/(?<year>\\d{4})',
  `${weekday}(?<day>\\d{1,2})[ -]${month}[ -](?<year>\\d{4})`,
  `${weekday}${month} (?<day>\\d{1,2}),? (?<year>\\d{4})`,
];
const forms = [
  ...dates.map((date) => `${date}(?:t|,? (?:at )?)${time}${zone}`),
  '(?<year>\\d{4})(?<month>\\d{2})(?<day>\\d{2})(?<hour>\\d{2})(?<minute>\\d{2})(?<second>\\d{2})',
  // As Java prints dates: Thu Nov 26 09:14:05 EAT 2026.
  `${weekday}${month} (?<day>\\d{1,2}) ${time}${zone} (?<year>\\d{4})`,
].map((form) => new RegExp(`^${form}$`, 'i'));

/**
 * Reads a date with a time. It is Nairobi time unless it names a zone (`Z`, `UTC`, `GMT`, `EAT`, `+03:00`).
 *
 * - Digits: `YYYYMMDDHHmmss`, also as a number.
 * - Year first: `2026-11-26 09:14:05`, ISO, also with slashes or dots.
 * - Year last, with hyphens or dots, is day first, as M-PESA's own statements and results are: `26-11-2026`, `26.11.2026`.
 * - Year last, with slashes, is read only where one order is possible: `26/11/2026` and `11/26/2026` are, `05/06/2026` is not.
 * - Month by name: `26 Nov 2026`, `26-Nov-2026`, `Nov 26, 2026`, with or without a weekday.
 * - 24 hours, or 12 with AM or PM. A date without a time, a year of two digits and a day that does not exist are unreadable.
 * @param value a value of a message (number or text), or text as typed
 * @returns null for anything else
 */
export function readMpesaTime(value: unknown): Date | null {
  if (typeof value !== 'string' && typeof value !== 'number') return null;
  const written = String(value);
  if (written.length > MAX_WRITTEN_LENGTH) return null;
  const text = written.normalize('NFKC').replace(/\s+/g, ' ').trim();
  for (const form of forms) {
    const parts = form.exec(text)?.groups;
    if (parts) return momentOf(parts);
  }
  return null;
}

type Parts = Record<string, string | undefined>;

function momentOf(parts: Parts): Date | null {
  const [day, monthNumber] = dayAndMonth(parts);
  const hour = hourOf(parts);
  const offset = offsetOf(parts.zone);
  if (hour === null || offset === null) return null;
  const fields = [
    Number(parts.year),
    monthNumber,
    day,
    hour,
    Number(parts.minute),
    Number(parts.second ?? 0),
  ] as const;
  const [year, monthOfYear, ...rest] = fields;
  if (year < FIRST_YEAR || year > LAST_YEAR) return null;
  const local = new Date(Date.UTC(year, monthOfYear - 1, ...rest));
  // Date.UTC turns 30 February into 2 March.
  const read = [
    local.getUTCFullYear(),
    local.getUTCMonth() + 1,
    local.getUTCDate(),
    local.getUTCHours(),
    local.getUTCMinutes(),
    local.getUTCSeconds(),
  ];
  if (!read.every((field, index) => field === fields[index])) return null;
  return new Date(local.getTime() - offset * MINUTE_MS);
}

/** With slashes only the order that is possible; NaN if both are, unless they mean the same. */
function dayAndMonth({ day, month: number, name, first, other }: Parts): [day: number, month: number] {
  if (name !== undefined) return [Number(day), months.indexOf(name.toLowerCase()) + 1];
  if (first === undefined) return [Number(day), Number(number)];
  const [one, two] = [Number(first), Number(other)];
  if (one === two || two <= 12 !== one <= 12) return two <= 12 ? [one, two] : [two, one];
  return [Number.NaN, Number.NaN];
}

function hourOf({ hour, half }: Parts): number | null {
  const written = Number(hour);
  if (half === undefined) return written;
  if (written < 1 || written > 12) return null;
  return (written % 12) + (half.toLowerCase() === 'p' ? 12 : 0);
}

/** Minutes east of Greenwich; null for a zone that does not exist. */
function offsetOf(written: string | undefined): number | null {
  const name = written?.toLowerCase() ?? 'eat';
  if (name === 'eat') return nairobiOffsetMs / MINUTE_MS;
  const [, sign, hours, minutes] = /([-+])(\d{2}):?(\d{2})$/.exec(name) ?? [];
  if (sign === undefined) return 0;
  const total = Number(hours) * 60 + Number(minutes);
  if (Number(minutes) > 59 || total > 14 * 60) return null;
  return sign === '-' ? -total : total;
}
