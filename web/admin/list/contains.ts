// A search text as the table service matches it: anywhere, whatever the case, and every character for itself.

/**
 * A pattern for `imatch` that finds the text itself, whatever signs are in it. (`ilike` knows no way to say a literal `*`.)
 * @param text the typed text
 */
export const literally = (text: string): string => text.replace(/[\\^$.|?*+()[\]{}]/g, '\\$&');

/**
 * A filter for `or(…)`: one of the columns contains the text.
 * @param columns to look into
 */
export function anyContains(columns: readonly string[], text: string): string {
  const quoted = `"${literally(text).replace(/["\\]/g, '\\$&')}"`;
  return columns.map((column) => `${column}.imatch.${quoted}`).join(',');
}
