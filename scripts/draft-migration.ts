// Derives the statements from one catalogue to another. Comments list the differences that it cannot derive.

/** Kinds of object whose statements are in the schemas and can be repeated: the newer definition replaces the older. */
const replaceable = /^(function|trigger|policy|index) /;

/**
 * Drafts a migration.
 * @param from catalogue that the migrations give (supabase/tests/database-catalogue.ts)
 * @param to catalogue that the schemas give
 * @param schemas text of all schemas, where the newer definitions are copied from
 */
export function draftMigration(
  from: ReadonlyMap<string, string>,
  to: ReadonlyMap<string, string>,
  schemas: string,
): string {
  const drops: string[] = [];
  const wanted = new Set<string>();
  const byHand: string[] = [];
  for (const object of new Set([...from.keys(), ...to.keys()])) {
    const [before, after] = [from.get(object), to.get(object)];
    if (before === after) continue;
    const isNewRelation = object.startsWith('relation ') && before === undefined;
    if (replaceable.test(object) || isNewRelation) {
      if (before !== undefined && (after === undefined || !isReplacedInPlace(object, before, after))) {
        drops.push(dropOf(object));
      }
      if (after !== undefined) wanted.add(patternOf(object));
    } else if (!belongsToNewRelation(object, from, to)) {
      byHand.push(`-- ${object}\n--   before: ${oneLine(before)}\n--   after:  ${oneLine(after)}`);
    }
  }
  const patterns = [...wanted].map((pattern) => new RegExp(pattern));
  const copied = statementsOf(schemas)
    .filter((statement) => patterns.some((pattern) => pattern.test(withoutComments(statement))))
    .map((statement) => statement.replace(/^create function/m, 'create or replace function'));
  const heading =
    byHand.length > 0 ? [`-- Write the statements for what differs here:\n${byHand.join('\n')}`] : [];
  return `${[...heading, ...drops.sort(triggersFirst), ...copied].join('\n\n')}\n`;
}

function oneLine(definition: string | undefined): string {
  return definition?.replaceAll(/\s+/g, ' ') ?? '(none)';
}

/** `create or replace` keeps a function's result type; everything else is dropped first. */
function isReplacedInPlace(object: string, before: string, after: string): boolean {
  const header = (definition: string) => definition.slice(0, definition.indexOf(' LANGUAGE'));
  return object.startsWith('function ') && header(before) === header(after);
}

function triggersFirst(one: string, other: string): number {
  return Number(other.startsWith('drop trigger')) - Number(one.startsWith('drop trigger'));
}

/** The catalogue leaves the schema of public objects out. */
const qualified = (name: string) => (/^\w+\./.test(name) ? name : `public.${name}`);

function dropOf(object: string): string {
  const [kind = '', first = '', ...rest] = object.split(' ');
  if (kind === 'trigger') return `drop trigger ${rest.join(' ')} on ${qualified(first)};`;
  if (kind === 'policy') return `drop policy "${rest.join(' ')}" on ${first};`;
  return `drop ${kind} ${qualified(object.slice(kind.length + 1))};`;
}

/** Matches the statements of the schemas that define an object, its comment and its grants. */
function patternOf(object: string): string {
  const [kind = '', first = '', ...rest] = object.split(' ');
  const escaped = (name: string) => name.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&');
  if (kind === 'trigger') return `^create (constraint )?trigger ${escaped(rest.join(' '))}\\s`;
  if (kind === 'policy') return `^create policy "${escaped(rest.join(' '))}" on ${escaped(first)}\\s`;
  if (kind === 'index') return `^create (unique )?index ${escaped(first.replace(/^.*\./, ''))}\\s`;
  if (kind === 'relation') {
    const name = escaped(qualified(first));
    return `^(create (table|view|sequence|unlogged table) ${name}\\s|alter (table|publication [a-z_]+ add table) ${name}\\b|comment on (table|view) ${name}\\s|comment on column ${name}\\.|(grant|revoke) [^;]* on (table )?${name}\\s)`;
  }
  const name = escaped(qualified(object.slice('function '.length).replace(/\(.*$/s, '')));
  return `^(create function ${name}\\s*\\(|comment on function ${name}\\s*\\(|comment on function ${name}\\s+is|(grant|revoke) execute on function [^;]*\\b${name}\\b)`;
}

function belongsToNewRelation(
  object: string,
  from: ReadonlyMap<string, string>,
  to: ReadonlyMap<string, string>,
): boolean {
  const relation = /^(?:column|constraint|type) (\S+?)(?:\.[^.\s]+)?(?:\s|$)/.exec(object)?.[1];
  if (!relation) return false;
  const key = `relation ${relation}`;
  return to.has(key) && !from.has(key);
}

/** Splits a script at the semicolons that end statements; comments before a statement stay with it. */
function statementsOf(script: string): string[] {
  const tokens = /--[^\n]*|\/\*[\s\S]*?\*\/|'(?:[^']|'')*'|"(?:[^"]|"")*"|(\$\w*\$)[\s\S]*?\1|;/g;
  const statements: string[] = [];
  let start = 0;
  for (const token of script.matchAll(tokens)) {
    if (token[0] !== ';') continue;
    statements.push(script.slice(start, token.index + 1).trim());
    start = token.index + 1;
  }
  return statements;
}

function withoutComments(statement: string): string {
  return statement.replaceAll(/^--[^\n]*\n/gm, '').trim();
}
