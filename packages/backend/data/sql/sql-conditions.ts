// Writes filters. Every value a client sent is a bound parameter.
import { arrayLiteral } from '../../database/array-literal.ts';
import type { Comparison, Operation, TextSearch } from '../parse/query-tree.ts';
import type { PlannedCondition, PlannedEmbed, PlannedField } from '../plan/plan-types.ts';
import { nameOf, quoted, type Writer } from './sql-writer.ts';

/**
 * Writes conditions, each usable in a `where` joined by `and`.
 * @param alias qualifier of the rows' columns
 * @param row the whole row as an argument of a function
 * @param hasRows writes the condition that an embed has rows, or has none
 */
export function conditionsOf(
  writer: Writer,
  conditions: readonly PlannedCondition[],
  alias: string,
  row = alias,
  hasRows: (embed: PlannedEmbed, has: boolean) => string = () => 'false',
): string[] {
  const write = (condition: PlannedCondition): string => {
    switch (condition.kind) {
      case 'group': {
        const joined = `(${condition.conditions.map(write).join(` ${condition.joiner} `)})`;
        return condition.isNegated ? `not ${joined}` : joined;
      }
      case 'embed is null':
        return hasRows(condition.embed, condition.isNegated);
      case 'filter': {
        const sql = operationOf(writer, fieldOf(writer, condition.field, { alias, row }), condition);
        return condition.isNegated ? `not (${sql})` : sql;
      }
    }
  };
  return conditions.map(write);
}

const operators: Readonly<Record<Comparison, string>> = {
  eq: '=',
  neq: '<>',
  gt: '>',
  gte: '>=',
  lt: '<',
  lte: '<=',
  like: 'like',
  ilike: 'ilike',
  match: '~',
  imatch: '~*',
  cs: '@>',
  cd: '<@',
  ov: '&&',
  sl: '<<',
  sr: '>>',
  nxr: '&<',
  nxl: '&>',
  adj: '-|-',
  isdistinct: 'is distinct from',
};

const searchFunctions: Readonly<Record<TextSearch, string>> = {
  fts: 'to_tsquery',
  plfts: 'plainto_tsquery',
  phfts: 'phraseto_tsquery',
  wfts: 'websearch_to_tsquery',
};

/** The pattern of `like`: clients may write `*` for `%`, which is awkward in a URL. */
export const patternOf = (value: string) => value.replaceAll('*', '%');

// The values of these operators have the column's type.
const comparingValues = new Set<Comparison>(['eq', 'neq', 'gt', 'gte', 'lt', 'lte', 'isdistinct']);

function operationOf(
  writer: Writer,
  field: string,
  { operation, field: { column, computed, path } }: { operation: Operation; field: PlannedField },
): string {
  const fromText = path.length === 0 ? column?.representation?.fromText : null;
  switch (operation.kind) {
    case 'is':
      return `${field} is ${operation.value.replace('_', ' ')}`;
    case 'in':
      // Bound without a cast: the server infers an array of the column's type.
      if (operation.values.length === 0) return 'false';
      if (fromText) {
        const patterns = `unnest(${writer.bind(arrayLiteral(operation.values))}::text[]) as given`;
        return `${field} = any (array(select ${nameOf(fromText)}(given) from ${patterns}))`;
      }
      return `${field} = any (${writer.bind(arrayLiteral(operation.values))})`;
    case 'search': {
      const language = operation.language === null ? '' : `${writer.bind(operation.language)}::regconfig, `;
      const isVector = path.length === 0 && (column ?? computed)?.kind === 'tsvector';
      const document = isVector ? field : `to_tsvector(${language}${field})`;
      return `${document} @@ ${searchFunctions[operation.operator]}(${language}${writer.bind(operation.value)}::text)`;
    }
    case 'comparison': {
      const { operator, quantifier } = operation;
      if (fromText && comparingValues.has(operator) && !quantifier) {
        return `${field} ${operators[operator]} ${nameOf(fromText)}(${writer.bind(operation.value)}::text)`;
      }
      const isPattern = operator === 'like' || operator === 'ilike';
      const value = writer.bind(isPattern ? patternOf(operation.value) : operation.value);
      return `${field} ${operators[operator]} ${quantifier ? `${quantifier} (${value})` : value}`;
    }
  }
}

/** Writes a column, or the place inside its JSON value. */
export function fieldOf(
  writer: Writer,
  { column, computed, path }: PlannedField,
  { alias, row }: { alias: string; row: string },
): string {
  const sql = column ? `${alias}.${quoted(column.name)}` : computed ? `${nameOf(computed)}(${row})` : 'null';
  if (path.length === 0) return sql;
  const start = (column ?? computed)?.kind === 'json' ? sql : `to_jsonb(${sql})`;
  const steps = path.map((step) => {
    const arrow = step.isText ? '->>' : '->';
    return 'key' in step ? `${arrow} ${writer.bind(step.key)}` : `${arrow} (${step.index})`;
  });
  return `(${start} ${steps.join(' ')})`;
}
