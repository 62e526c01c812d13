// M-PESA writes times as digits in Nairobi time (UTC+3, no daylight saving).

const EAST_AFRICA_OFFSET_MS = 3 * 60 * 60 * 1000;

export type NairobiTime = {
  year: string;
  month: string;
  day: string;
  hour: string;
  minute: string;
  second: string;
  millisecond: string;
};

export function nairobiTime(epochMs: number): NairobiTime {
  const [date = '', time = ''] = new Date(epochMs + EAST_AFRICA_OFFSET_MS).toISOString().split('T');
  const [year = '', month = '', day = ''] = date.split('-');
  const [hour = '', minute = '', second = '', millisecond = ''] = time.replace('Z', '').split(/[:.]/);
  return { year, month, day, hour, minute, second, millisecond };
}

/** `20261121145800`, as in TransactionDate and Timestamp. */
export function compactNairobiTime(epochMs: number): string {
  const { year, month, day, hour, minute, second } = nairobiTime(epochMs);
  return `${year}${month}${day}${hour}${minute}${second}`;
}

/** Whether 14 digits name a moment that exists (YYYYMMDDHHmmss). */
export function isCompactTime(text: string): boolean {
  const parts = /^(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)$/.exec(text);
  if (!parts) return false;
  const [, year, month, day, hour, minute, second] = parts;
  const iso = `${year}-${month}-${day}T${hour}:${minute}:${second}.000Z`;
  const moment = new Date(iso);
  return !Number.isNaN(moment.getTime()) && moment.toISOString() === iso;
}

/** `2026-11-21 14:58:00` on a Nairobi clock as epoch ms; null when it names no moment. */
export function readNairobiDateTime(text: string): number | null {
  const parts = /^(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d)$/.exec(text);
  const moment = parts ? Date.parse(`${parts[1]}T${parts[2]}+03:00`) : Number.NaN;
  return Number.isNaN(moment) ? null : moment;
}
