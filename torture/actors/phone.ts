// Phone numbers of customers.

/** A unique phone number: prefix, four digits of the customer, and the ending that selects the simulator's outcome. */
export function phoneOf(index: number, prefix: '07' | '01', ending: string): string {
  return `${prefix}${String(index % 10_000).padStart(4, '0')}${ending}`;
}
