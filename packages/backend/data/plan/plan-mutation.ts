// Plans insert, update, upsert, put and delete.

import type { ParsedRequest } from '../parse/parse.ts';
import { DataError } from '../respond/data-error.ts';
import type { Column, Relation, SchemaCache } from '../schema/schema-types.ts';
import { mediaOfRows, rowsFor } from './plan-media.ts';
import { planNode } from './plan-rows.ts';
import type { ConflictTarget, Mutation, MutationPlan, PlanLimits, PlannedCondition } from './plan-types.ts';

/**
 * Plans a change of a relation's rows.
 * @throws DataError for unknown columns, and for a PUT whose filters are not its primary key
 */
export function planMutation(
  request: ParsedRequest,
  relation: Relation,
  cache: SchemaCache,
  limits: PlanLimits,
): MutationPlan {
  const { preferences, payload, query, method } = request;
  const isPut = method === 'PUT';
  if (isPut) checkPut(request, relation);
  // Changed rows are returned whole.
  const unlimited = { ...limits, maxRows: Number.POSITIVE_INFINITY };
  const node = planNode(query, relation, relation.name, relation.columns, cache, unlimited);
  const media = mediaOfRows(request, relation, cache, limits);
  const planned = rowsFor(node, media);
  const columns = (payload?.keys ?? []).map((key) => payloadColumn(relation, key));
  // Filters of the rows themselves select the rows to change; those on embeds only filter the response.
  const isShown = ({ kind }: PlannedCondition) => kind === 'embed is null';
  const conditions = planned.conditions.filter((condition) => !isShown(condition));
  const mutation: Mutation =
    method === 'DELETE'
      ? { kind: 'delete', conditions }
      : method === 'PATCH'
        ? { kind: 'update', columns, conditions }
        : {
            kind: 'insert',
            columns,
            conflict: isPut
              ? { columns: primaryKeyColumns(relation), resolution: 'merge-duplicates' }
              : conflictTarget(request, relation),
            conditions: isPut ? conditions : [],
          };
  return {
    kind: 'mutation',
    relation,
    mutation,
    isPut,
    rows: payload && {
      text: payload.text,
      isArray: payload.isArray,
      count: payload.rowCount,
      takesDefaults: preferences.missing === 'default',
    },
    returning: preferences.return ?? 'minimal',
    node: {
      ...planned,
      conditions: planned.conditions.filter(isShown),
      orders: planned.orders,
      limit: null,
      offset: 0,
    },
    isCounted: preferences.count === 'exact' || preferences.count === 'estimated',
    maxAffected: method === 'PATCH' || method === 'DELETE' ? preferences.maxAffected : null,
    media,
    isReadOnly: false,
    maxAnswerBytes: limits.maxAnswerBytes,
  };
}

function payloadColumn(relation: Relation, name: string): Column {
  const column = relation.columns.get(name);
  if (column) return column;
  throw new DataError(400, {
    code: 'PGRST204',
    message: `Could not find the '${name}' column of '${relation.name}' in the schema cache`,
  });
}

function primaryKeyColumns(relation: Relation): Column[] {
  return relation.primaryKey.map((name) => payloadColumn(relation, name));
}

function conflictTarget({ preferences, query }: ParsedRequest, relation: Relation): ConflictTarget | null {
  if (!preferences.resolution) return null;
  const columns =
    query.onConflict?.map((name) => payloadColumn(relation, name)) ?? primaryKeyColumns(relation);
  return columns.length > 0 ? { columns, resolution: preferences.resolution } : null;
}

function checkPut({ query, payload }: ParsedRequest, relation: Relation): void {
  if (query.limits.length > 0 || query.offsets.length > 0) {
    throw new DataError(400, {
      code: 'PGRST114',
      message: 'limit/offset querystring parameters are not allowed for PUT',
    });
  }
  const filtered = query.conditions.map(({ path, condition }) =>
    path.length === 0 &&
    condition.kind === 'filter' &&
    condition.field.path.length === 0 &&
    !condition.isNegated &&
    condition.operation.kind === 'comparison' &&
    condition.operation.operator === 'eq' &&
    condition.operation.quantifier === null
      ? condition.field.name
      : null,
  );
  const isExact =
    relation.primaryKey.length > 0 &&
    filtered.length === relation.primaryKey.length &&
    relation.primaryKey.every((name) => filtered.includes(name));
  if (!isExact) {
    throw new DataError(405, {
      code: 'PGRST105',
      message: "Filters must include all and only primary key columns with 'eq' operators",
    });
  }
  if (!payload?.rowCount) throw putMismatch();
}

/** The error of a PUT whose row differs from its URL. */
export const putMismatch = () =>
  new DataError(400, {
    code: 'PGRST115',
    message: 'Payload values do not match URL in primary key column(s)',
  });
