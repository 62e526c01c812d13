// Whether a list of products is one: a gateway before the tables may answer well with something else, or with nothing.

/** @param answer what a query of products brought, whatever its type says */
export const areProducts = (answer: unknown): boolean =>
  Array.isArray(answer) && answer.every((row) => typeof row?.slug === 'string');
