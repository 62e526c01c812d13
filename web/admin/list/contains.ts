// Literal, case-insensitive substring search in the table service.

/**
 * A pattern for `imatch` that matches the text literally. (`ilike` cannot express a literal `*`.)
 * @param text the typed text
 */
export const literally = (text: string): string => text.replace(/[\\^$.|?*+()[\]{}]/g, '\\$&');

/**
 * A filter for `or(…)`: one of the columns contains the text.
 * @param columns to search
 */
export function anyContains(columns: readonly string[], text: string): string {
  const quoted = `"${literally(text).replace(/["\\]/g, '\\$&')}"`;
  return columns.map((column) => `${column}.imatch.${quoted}`).join(',');
}
