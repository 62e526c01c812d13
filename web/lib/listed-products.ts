// Validates a list of products: a proxy in front of the tables may answer 200 with another body.

/** @param answer result of a query of products, of any type */
export const areProducts = (answer: unknown): boolean =>
  Array.isArray(answer) && answer.every((row) => typeof row?.slug === 'string');
