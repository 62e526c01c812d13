// The phones of customers.

/** A phone that nobody else has: prefix, four digits of the customer, and the ending that chooses what it does. */
export function phoneOf(index: number, prefix: '07' | '01', ending: string): string {
  return `${prefix}${String(index % 10_000).padStart(4, '0')}${ending}`;
}
