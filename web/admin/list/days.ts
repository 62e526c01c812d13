// The date filter of a list in the URL: `day=today`, `yesterday`, `7days`, or `range` with `from` and `until`.
import { nairobiDay } from '../../../domain/nairobi-time.ts';
import { dayAfter, isDay } from '../ui/time/nairobi-day.ts';

export const dayChoices = [
  { value: '', label: 'All days' },
  { value: 'today', label: 'Today' },
  { value: 'yesterday', label: 'Yesterday' },
  { value: '7days', label: 'Last 7 days' },
  { value: 'range', label: 'Choose days' },
] as const;

export interface DayFilter {
  day: (typeof dayChoices)[number]['value'];
  from: string;
  until: string;
}
export const noDays: DayFilter = { day: '', from: '', until: '' };

export interface Days {
  /** First and last day in Nairobi, as YYYY-MM-DD; null if open. */
  from_day: string | null;
  until_day: string | null;
}

/** The filters of a list as they are in the URL. */
export type FilterParameters<Filters extends Days> = Omit<Filters, keyof Days> & DayFilter;

/** @param now determines today */
export function readDays({ day, from, until }: DayFilter, now: number): Days {
  const today = nairobiDay(now);
  switch (day) {
    case 'today':
      return { from_day: today, until_day: null };
    case 'yesterday':
      return { from_day: dayAfter(today, -1), until_day: dayAfter(today, -1) };
    case '7days':
      return { from_day: dayAfter(today, -6), until_day: null };
    case 'range':
      return { from_day: isDay(from) ? from : null, until_day: isDay(until) ? until : null };
    default:
      return { from_day: null, until_day: null };
  }
}
