// The span of a report in the URL: `span=today`, `month`, `last-month`, or `range` with `from` and `until`. Default: this week.
import { dayAfter, isDay } from '../ui/time/nairobi-day.ts';

export const spanChoices = [
  { value: 'today', label: 'Today' },
  { value: '', label: 'This week' },
  { value: 'month', label: 'This month' },
  { value: 'last-month', label: 'Last month' },
  { value: 'range', label: 'Choose days' },
] as const;

export interface SpanFilter {
  span: (typeof spanChoices)[number]['value'];
  from: string;
  until: string;
}

/** First and last day in Nairobi, as YYYY-MM-DD. */
export interface Span {
  since: string;
  until: string;
}

/** As `report` in the database allows: a year and a day. */
export const mostDays = 367;

export const daysBetween = ({ since, until }: Span): number =>
  Math.round((Date.parse(until) - Date.parse(since)) / 86_400_000) + 1;

/**
 * @param today in Nairobi
 * @returns the problem instead, if the chosen days are no span
 */
export function readSpan({ span, from, until }: SpanFilter, today: string): Span | { problem: string } {
  switch (span) {
    case 'today':
      return { since: today, until: today };
    case 'month':
      return { since: `${today.slice(0, 7)}-01`, until: today };
    case 'last-month': {
      const last = dayAfter(`${today.slice(0, 7)}-01`, -1);
      return { since: `${last.slice(0, 7)}-01`, until: last };
    }
    case 'range': {
      if (!isDay(from) || !isDay(until)) return { problem: 'Please choose the first and the last day.' };
      if (until < from) return { problem: 'The last day is before the first one.' };
      const chosen = { since: from, until };
      return daysBetween(chosen) > mostDays ? { problem: 'Please choose up to one year.' } : chosen;
    }
    default:
      return { since: mondayOf(today), until: today };
  }
}

function mondayOf(day: string): string {
  const weekday = new Date(`${day}T00:00:00Z`).getUTCDay();
  return dayAfter(day, -((weekday + 6) % 7));
}
