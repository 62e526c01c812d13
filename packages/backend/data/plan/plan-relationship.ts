// Finds the relationship of an embed.

import type { SelectedEmbed } from '../parse/query-tree.ts';
import { DataError } from '../respond/data-error.ts';
import type { Relationship, SchemaCache } from '../schema/schema-types.ts';
import { mostSimilar } from '../schema/similar-name.ts';
import type { ReadNode } from './plan-types.ts';

/**
 * Finds the one relationship between the rows of a node and an embed, by PostgREST's rules: the target is a relation's
 * name, a constraint's or a single foreign key column's; a hint is a constraint, a column of either side or a junction.
 * @throws DataError PGRST200 when there is none, PGRST201 when there are several
 */
export function findRelationship(
  { relation, name }: Pick<ReadNode, 'relation' | 'name'>,
  { name: target, hint }: Pick<SelectedEmbed, 'name' | 'hint'>,
  cache: SchemaCache,
): Relationship {
  const candidates =
    relation?.relationships.filter(
      ({ foreign, junction }) =>
        cache.relations.has(foreign.schema) && (!junction || cache.relations.has(junction.table.schema)),
    ) ?? [];
  const inSchema = candidates.filter(
    ({ foreign, computedBy }) => computedBy || foreign.schema === relation?.schema,
  );
  const computed = inSchema.filter((each) => each.computedBy && each.name === target);
  const matching =
    computed.length > 0
      ? computed
      : inSchema.filter((each) => !each.computedBy && isMeant(each, target, hint));
  const [found, ...others] = matching;
  if (!found) throw noRelationship(name, target, hint, relation?.schema ?? '', candidates, cache);
  if (others.length > 0) throw ambiguous(name, target, matching);
  return found;
}

function isMeant(relationship: Relationship, target: string, hint: string | null): boolean {
  const { cardinality, origin, foreign, columns, isForeignView, name, junction } = relationship;
  const [pair, ...more] = columns;
  const single = pair && more.length === 0 ? pair : null;
  const isSelf = origin.schema === foreign.schema && origin.name === foreign.name;
  if (isSelf) {
    // One foreign key, two directions: the table's name means the many, the key's column the one.
    if (hint !== null) return foreign.name === target && single?.[1] === hint;
    return cardinality === 'one-to-many'
      ? foreign.name === target
      : cardinality === 'many-to-one' && single?.[0] === target;
  }
  if (hint !== null) {
    return (
      foreign.name === target &&
      ((!junction && name === hint) ||
        single?.[0] === hint ||
        single?.[1] === hint ||
        junction?.table.name === hint)
    );
  }
  if (foreign.name === target) return true;
  if (isForeignView || junction) return false;
  return name === target || (single?.[0] === target && cardinality !== 'one-to-many');
}

function noRelationship(
  parent: string,
  target: string,
  hint: string | null,
  schema: string,
  candidates: readonly Relationship[],
  cache: SchemaCache,
): DataError {
  const using = hint === null ? '' : ` using the hint '${hint}'`;
  return new DataError(400, {
    code: 'PGRST200',
    message: `Could not find a relationship between '${parent}' and '${target}' in the schema cache`,
    details: `Searched for a foreign key relationship between '${parent}' and '${target}'${using} in the schema '${schema}', but no matches were found.`,
    hint: suggestion(parent, target, schema, candidates, cache),
  });
}

function suggestion(
  parent: string,
  target: string,
  schema: string,
  candidates: readonly Relationship[],
  cache: SchemaCache,
): string | null {
  if (candidates.length === 0) {
    const related = [...(cache.relations.get(schema)?.values() ?? [])].filter(
      ({ relationships }) => relationships.length > 0,
    );
    const names = related.map(({ name }) => name);
    const similar = mostSimilar(parent, names, 0.33);
    return similar && similar !== parent ? `Perhaps you meant '${similar}' instead of '${parent}'.` : null;
  }
  const names = candidates.map(({ foreign }) => foreign.name);
  const similar = mostSimilar(target, names, 0.33);
  return similar && similar !== target ? `Perhaps you meant '${similar}' instead of '${target}'.` : null;
}

function ambiguous(parent: string, target: string, found: readonly Relationship[]): DataError {
  // Relationships from the other side's keys come first, as PostgREST lists them.
  const isMany = ({ cardinality }: Relationship) => cardinality === 'one-to-many';
  const matching = [...found.filter(isMany), ...found.filter((each) => !isMany(each))];
  const choices = matching.map(
    ({ foreign, junction, name }) => `'${foreign.name}!${junction?.table.name ?? name}'`,
  );
  return new DataError(300, {
    code: 'PGRST201',
    message: `Could not embed because more than one relationship was found for '${parent}' and '${target}'`,
    details: matching.map((each) => ({
      cardinality: each.cardinality,
      embedding: `${each.origin.name} with ${each.foreign.name}`,
      relationship: described(each),
    })),
    hint: `Try changing '${target}' to one of the following: ${choices.join(', ')}. Find the desired relationship in the 'details' key.`,
  });
}

function described({ origin, foreign, name, columns, junction }: Relationship): string {
  const list = (names: readonly string[]) => `(${names.join(', ')})`;
  if (junction) {
    const [first, second] = junction.constraints;
    const toOrigin = list(junction.originColumns.map(([, column]) => column));
    const toForeign = list(junction.foreignColumns.map(([column]) => column));
    return `${junction.table.name} using ${first}${toOrigin} and ${second}${toForeign}`;
  }
  const here = list(columns.map(([column]) => column));
  const there = list(columns.map(([, column]) => column));
  return `${name} using ${origin.name}${here} and ${foreign.name}${there}`;
}
