// Days in the shop's time zone: from midnight to midnight in Nairobi, as YYYY-MM-DD.

const named = new Intl.DateTimeFormat(undefined, { dateStyle: 'full', timeZone: 'UTC' });
const short = new Intl.DateTimeFormat(undefined, {
  weekday: 'short',
  day: 'numeric',
  month: 'short',
  year: 'numeric',
  timeZone: 'UTC',
});
const dayOfYear = new Intl.DateTimeFormat('en-KE', { day: 'numeric', month: 'short', timeZone: 'UTC' });

export const isDay = (text: string): boolean => /^\d{4}-\d\d-\d\d$/.test(text) && dayAfter(text, 0) === text;

/** The day in the URL; today without one. */
export const readDay = (text: string | null, today: string): string =>
  text !== null && isDay(text) ? text : today;

/** @param days may be negative */
export function dayAfter(day: string, days: number): string {
  const moment = new Date(`${day}T00:00:00Z`);
  if (Number.isNaN(moment.getTime())) return '';
  moment.setUTCDate(moment.getUTCDate() + days);
  return moment.toISOString().slice(0, 10);
}

export const nameDay = (day: string): string => named.format(new Date(`${day}T00:00:00Z`));
export const nameDayShortly = (day: string): string => short.format(new Date(`${day}T00:00:00Z`));
/** Such as `28 Nov`. */
export const formatDay = (day: string): string => dayOfYear.format(new Date(`${day}T00:00:00Z`));
