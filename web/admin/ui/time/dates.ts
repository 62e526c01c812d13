// Dates for staff: in the browser's format and the shop's time zone.

const timeZone = 'Africa/Nairobi';
const date = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeZone });
const dateTime = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'short', timeZone });
const time = new Intl.DateTimeFormat(undefined, { timeStyle: 'medium', timeZone });
const clock = new Intl.DateTimeFormat(undefined, { timeStyle: 'short', timeZone });
const day = new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'short', timeZone });
// The Swedish locale formats dates as ISO 8601.
const iso = new Intl.DateTimeFormat('sv-SE', { dateStyle: 'short', timeStyle: 'short', timeZone });
const isoDay = new Intl.DateTimeFormat('sv-SE', { timeZone });

export const formatTime = (at: string): string => time.format(new Date(at));
export const formatDate = (at: string): string => date.format(new Date(at));
export const formatDateTime = (at: string): string => dateTime.format(new Date(at));

/** For files: `2026-11-22 14:05`. */
export const formatForFile = (at: string | null): string | null =>
  at === null ? null : iso.format(new Date(at));

/** The time of day for today; with the date for earlier days. */
export function formatClock(at: string, now: number): string {
  const moment = new Date(at);
  const isToday = isoDay.format(moment) === isoDay.format(now);
  return isToday ? clock.format(moment) : `${day.format(moment)}, ${clock.format(moment)}`;
}

/** A short age: `12 min`, `3 h`, or the date after more than a day. */
export function formatAge(at: string, now: number): string {
  const minutes = Math.floor((now - Date.parse(at)) / 60_000);
  if (minutes < 1) return 'now';
  if (minutes < 60) return `${minutes} min`;
  if (minutes < 24 * 60) return `${Math.floor(minutes / 60)} h`;
  return minutes < 300 * 24 * 60 ? day.format(new Date(at)) : formatDate(at);
}
