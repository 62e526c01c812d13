// Dates for staff: in the browser's format and the shop's time zone.
import { nairobiClock, nairobiDay, startOfNairobiDay } from '../../../../domain/nairobi-time.ts';

/** A format that is made when it is first used: the first of a page takes a cheap phone 100 ms. */
function inBrowserFormat(options: Intl.DateTimeFormatOptions): (at: string) => string {
  let format: Intl.DateTimeFormat | undefined;
  return (at) => {
    format ??= new Intl.DateTimeFormat(undefined, { ...options, timeZone: 'Africa/Nairobi' });
    return format.format(new Date(at));
  };
}

export const formatTime = inBrowserFormat({ timeStyle: 'medium' });
export const formatDate = inBrowserFormat({ dateStyle: 'medium' });
export const formatDateTime = inBrowserFormat({ dateStyle: 'medium', timeStyle: 'short' });
const formatMinute = inBrowserFormat({ timeStyle: 'short' });
const formatDayOfYear = inBrowserFormat({ day: 'numeric', month: 'short' });

/** @param day such as `2026-11-22` */
export const formatDay = (day: string): string => formatDate(new Date(startOfNairobiDay(day)).toISOString());

/** For files: `2026-11-22 14:05`. */
export function formatForFile(at: string | null): string | null {
  if (at === null) return null;
  const when = Date.parse(at);
  return `${nairobiDay(when)} ${nairobiClock(when)}`;
}

/** The time of day for today; with the date for earlier days. */
export function formatClock(at: string, now: number): string {
  const isToday = nairobiDay(Date.parse(at)) === nairobiDay(now);
  return isToday ? formatMinute(at) : `${formatDayOfYear(at)}, ${formatMinute(at)}`;
}

/** A short age: `12 min`, `3 h`, or the date after more than a day. */
export function formatAge(at: string, now: number): string {
  const minutes = Math.floor((now - Date.parse(at)) / 60_000);
  if (minutes < 1) return 'now';
  if (minutes < 60) return `${minutes} min`;
  if (minutes < 24 * 60) return `${Math.floor(minutes / 60)} h`;
  return minutes < 300 * 24 * 60 ? formatDayOfYear(at) : formatDate(at);
}
