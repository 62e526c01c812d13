// The delay that another service asks for. Its number is never used or shown without bounds.

/** A longer delay is an error of the other side, or is tried again earlier without harm. */
const LONGEST_DELAY_MS = 60 * 60 * 1000;
/** A token that is shorter valid would be renewed for every request. */
const SHORTEST_LIFETIME_MS = 1000;

/** IMF-fixdate (RFC 9110 §5.6.7). `Date.parse` alone reads almost any text that contains a number. */
const HTTP_DATE = /^(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT$/;

/**
 * Reads a Retry-After header (RFC 9110 §10.2.3).
 * @param text seconds or an HTTP date; null without the header
 * @returns milliseconds, from 0 to an hour; null for anything else, also for a negative number
 */
export function readRetryAfter(text: string | null | undefined, now: Date): number | null {
  const written = text?.trim() ?? '';
  const ms = /^\d+$/.test(written)
    ? Number(written) * 1000
    : HTTP_DATE.test(written)
      ? Date.parse(written) - now.getTime()
      : Number.NaN;
  return Number.isNaN(ms) ? null : Math.min(Math.max(ms, 0), LONGEST_DELAY_MS);
}

/**
 * Reads the lifetime of a token (`expires_in`, RFC 6749 §5.1).
 * @param value seconds, as a number or as text
 * @param longestMs lifetime that is documented, which replaces a missing, unreadable or longer one
 * @returns milliseconds, from a second to `longestMs`
 */
export function readLifetime(value: unknown, longestMs: number): number {
  const seconds =
    typeof value === 'number' ? value : typeof value === 'string' && value.trim() !== '' ? Number(value) : 0;
  return seconds > 0 ? Math.min(Math.max(seconds * 1000, SHORTEST_LIFETIME_MS), longestMs) : longestMs;
}
