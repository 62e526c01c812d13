// Time in Nairobi, which is three hours ahead of UTC all year. Without Intl, whose first use on a page takes a cheap phone 100 ms.

/** Milliseconds that Nairobi is ahead of UTC. */
export const nairobiOffsetMs = 3 * 60 * 60_000;

/**
 * @param when epoch ms
 * @returns a date whose UTC parts are those of the time in Nairobi
 */
export const inNairobi = (when: number): Date => new Date(when + nairobiOffsetMs);

/**
 * @param when epoch ms
 * @returns the day in Nairobi, such as `2026-12-25`
 */
export const nairobiDay = (when: number): string => inNairobi(when).toISOString().slice(0, 10);

/**
 * @param when epoch ms
 * @returns the time of day in Nairobi, such as `09:05`
 */
export const nairobiClock = (when: number): string => inNairobi(when).toISOString().slice(11, 16);

/**
 * @param day such as `2026-12-25`
 * @returns its beginning in Nairobi, epoch ms
 */
export const startOfNairobiDay = (day: string): number => Date.parse(`${day}T00:00+03:00`);
