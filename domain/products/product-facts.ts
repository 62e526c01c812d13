// Facts about a product: optional, one line each, as staff write them and the product's page shows them.

/** In the order of the page. `maxLength` is that of the constraint on `products`. */
export const productFacts = [
  { column: 'size', label: 'Size', maxLength: 40 },
  { column: 'khat_strength', label: 'Strength of khat', maxLength: 40 },
  { column: 'caffeine', label: 'Caffeine', maxLength: 40 },
  { column: 'sweetened_with', label: 'Sweetened with', maxLength: 80 },
  { column: 'keeps', label: 'Keeps', maxLength: 80 },
  { column: 'allergens', label: 'Allergens', maxLength: 200 },
  { column: 'serving_note', label: 'How to serve', maxLength: 200 },
] as const;

export type FactColumn = (typeof productFacts)[number]['column'];

/** The columns, for a query. */
export const factColumns =
  'size, khat_strength, caffeine, sweetened_with, keeps, allergens, serving_note' as const;

export interface ShownFact {
  label: string;
  text: string;
}

/**
 * @param product with the columns of its facts
 * @returns the facts that staff have written, in the order of the page
 */
export const factsOf = (product: Readonly<Record<FactColumn, string | null>>): ShownFact[] =>
  productFacts.flatMap(({ column, label }) => {
    const text = product[column];
    return text ? [{ label, text }] : [];
  });
