// Quantities for a party, offered beside the quantity of an order of one drink.
const partySizes: readonly number[] = [6, 12, 24];

/** @returns those that are in stock */
export const partySizesFor = (unitsLeft: number): number[] => partySizes.filter((size) => size <= unitsLeft);
