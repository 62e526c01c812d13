// What an earlier version uses by name, and a later database lacks: tables, columns and public procedures.

/**
 * Compares two catalogues (database-catalogue.ts). Names and types only: whether something means the same is for people to say.
 * @returns what is gone or has another type
 */
export function findLostObjects(
  before: ReadonlyMap<string, string>,
  after: ReadonlyMap<string, string>,
): string[] {
  const procedures = new Map([...after].map(([object, definition]) => [nameOf(object), definition]));
  const isKept = (object: string, definition: string) => {
    if (object.startsWith('relation ')) return after.has(object);
    if (object.startsWith('column ')) return typeOf(after.get(object)) === typeOf(definition);
    if (!object.startsWith('function ') || object.startsWith('function private.')) return true;
    return acceptsCalls(parametersOf(definition), parametersOf(procedures.get(nameOf(object)) ?? ''));
  };
  return [...before].filter(([object, definition]) => !isKept(object, definition)).map(([object]) => object);
}

const nameOf = (object: string) => object.replace(/\(.*$/s, '');
const typeOf = (column: string | undefined) => column?.split(' | ')[1];

/** Parameters such as `quantity integer DEFAULT 1`; null without a function. */
function parametersOf(definition: string): string[] | null {
  const [, list] = /^CREATE OR REPLACE \w+ [^(]+\(([\s\S]*?)\)\n RETURNS /.exec(definition) ?? [];
  return list === undefined ? null : list.split(/, (?=\w+ [a-z])/).filter(Boolean);
}

/** Whether calls with these named arguments still find the procedure. */
function acceptsCalls(before: string[] | null, after: string[] | null): boolean {
  if (!before || !after) return before === null;
  const withoutDefault = (parameter: string) => parameter.replace(/ DEFAULT .*$/s, '');
  const known = before.map(withoutDefault);
  return (
    known.every((parameter) => after.map(withoutDefault).includes(parameter)) &&
    after.every((parameter) => known.includes(withoutDefault(parameter)) || parameter.includes(' DEFAULT '))
  );
}
