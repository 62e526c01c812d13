// PostgreSQL's text form of an array, so that a list travels as one bound parameter.

/**
 * Writes an array literal.
 * @param values its elements, any text
 * @returns text such as `{"a","b \" c"}`, to be bound and typed by the server
 */
export function arrayLiteral(values: readonly string[]): string {
  return `{${values.map((value) => `"${value.replace(/["\\]/g, '\\$&')}"`).join(',')}}`;
}
