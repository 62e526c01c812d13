// Derives the statements from one catalogue to another. Comments list the differences that it cannot derive.

/** Kinds of object whose statements are in the schemas and can be repeated: the newer definition replaces the older. */
const replaceable = /^(function|trigger|policy|index) /;

/**
 * Drafts a migration.
 * @param from catalogue of the migrations (supabase/tests/database/database-catalogue.ts)
 * @param to catalogue of the schemas
 * @param schemas text of all schemas, where the newer definitions are copied from
 */
export function draftMigration(
  from: ReadonlyMap<string, string>,
  to: ReadonlyMap<string, string>,
  schemas: string,
): string {
  const drops: string[] = [];
  const constraints: string[] = [];
  const touched = new Set<string>();
  const byHand: string[] = [];
  for (const object of new Set([...from.keys(), ...to.keys()])) {
    const [before, after] = [from.get(object), to.get(object)];
    if (
      before === after ||
      belongsToOneSidedRelation(object, from, to) ||
      isIndexOfConstraint(object, from, to)
    )
      continue;
    const isRelation = object.startsWith('relation ');
    if (isRelation && after === undefined) {
      drops.push(`drop table ${qualified(object.slice('relation '.length))};`);
    } else if (isRelation && before !== undefined) {
      drops.push(`revoke all on ${qualified(object.slice('relation '.length))} from anon, authenticated;`);
      touched.add(patternOf(object, false));
    } else if (object.startsWith('constraint ')) {
      const { table, name } = constraintOf(object);
      if (before !== undefined) drops.push(`alter table ${table} drop constraint ${name};`);
      if (after !== undefined)
        constraints.push(`alter table ${table} add constraint ${name} ${after.split(' | ')[0]};`);
    } else if (replaceable.test(object) || isRelation) {
      if (before !== undefined && (after === undefined || !isReplacedInPlace(object, before, after))) {
        drops.push(dropOf(object));
      }
      if (after !== undefined) touched.add(patternOf(object));
    } else {
      byHand.push(`-- ${object}\n--   before: ${oneLine(before)}\n--   after:  ${oneLine(after)}`);
    }
  }
  const patterns = [...touched].map((pattern) => new RegExp(pattern));
  const copied = statementsOf(schemas)
    .filter((statement) => patterns.some((pattern) => pattern.test(withoutComments(statement))))
    .map((statement) => statement.replace(/^create function/m, 'create or replace function'));
  const heading =
    byHand.length > 0 ? [`-- Write the statements for what differs here:\n${byHand.join('\n')}`] : [];
  return `${[...heading, ...drops.sort(triggersFirst), ...constraints, ...copied].join('\n\n')}\n`;
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
function patternOf(object: string, isNew = true): string {
  const [kind = '', first = '', ...rest] = object.split(' ');
  const escaped = (name: string) => name.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&');
  if (kind === 'trigger') return `^create (constraint )?trigger ${escaped(rest.join(' '))}\\s`;
  if (kind === 'policy') return `^create policy "${escaped(rest.join(' '))}" on ${escaped(first)}\\s`;
  if (kind === 'index') return `^create (unique )?index ${escaped(first.replace(/^.*\./, ''))}\\s`;
  if (kind === 'relation') {
    const name = escaped(qualified(first));
    if (!isNew)
      return `^(alter table ${name} enable|comment on (table|view) ${name}\\s|comment on column ${name}\\.|(grant|revoke)\\s[^;]* on (table )?${name}\\s)`;
    return `^(create (table|view|sequence|unlogged table) ${name}\\s|alter (table|publication [a-z_]+ add table) ${name}\\b|comment on (table|view) ${name}\\s|comment on column ${name}\\.|(grant|revoke)\\s[^;]* on (table )?${name}\\s)`;
  }
  const name = escaped(qualified(object.slice('function '.length).replace(/\(.*$/s, '')));
  return `^(create function ${name}\\s*\\(|comment on function ${name}\\s*\\(|comment on function ${name}\\s+is|(grant|revoke) execute on function [^;]*\\b${name}\\b)`;
}

/** Columns and constraints of a new table are in its statement; a dropped table takes all that belongs to it with it. */
function belongsToOneSidedRelation(
  object: string,
  from: ReadonlyMap<string, string>,
  to: ReadonlyMap<string, string>,
): boolean {
  const [kind = '', first = ''] = object.split(' ');
  const isOnly = (one: ReadonlyMap<string, string>, other: ReadonlyMap<string, string>, name: string) =>
    one.has(`relation ${name}`) && !other.has(`relation ${name}`);
  if (kind === 'index') {
    const table = / ON (?:public\.)?(\S+) /.exec(from.get(object) ?? '')?.[1] ?? '';
    return isOnly(from, to, table);
  }
  if (!['column', 'constraint', 'type', 'trigger', 'policy'].includes(kind)) return false;
  const isPartOfStatement = kind !== 'trigger' && kind !== 'policy';
  return [first, first.replace(/\.[^.]+$/, ''), first.replace(/^public\./, '')].some(
    (name) => isOnly(from, to, name) || (isPartOfStatement && isOnly(to, from, name)),
  );
}

function constraintOf(object: string): { table: string; name: string } {
  const [, table = '', ...rest] = object.split(' ');
  const name = rest.join(' ');
  return { table: qualified(table), name: /^[a-z_][a-z0-9_]*$/.test(name) ? name : `"${name}"` };
}

/** The index of a primary key or unique constraint is created and dropped with it. */
function isIndexOfConstraint(
  object: string,
  from: ReadonlyMap<string, string>,
  to: ReadonlyMap<string, string>,
): boolean {
  if (!object.startsWith('index ')) return false;
  const name = object
    .slice('index '.length)
    .replace(/^(?:public|private)\./, '')
    .replaceAll('"', '');
  return [...from.keys(), ...to.keys()].some(
    (key) => key.startsWith('constraint ') && constraintOf(key).name.replaceAll('"', '') === name,
  );
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
