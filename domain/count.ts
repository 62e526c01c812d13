// Whole numbers as people read them.

/**
 * Formats a whole number. Without Intl, whose first use on a page takes a cheap phone 100 ms.
 * @param count an integer, at most 2^53 - 1
 * @returns such as `1,234`
 */
export const formatCount = (count: number): string => String(count).replace(/\B(?=(?:\d{3})+$)/g, ',');
