// Second stage: names become relations, columns, relationships and functions of the schema cache, or an error.

import type { ParsedRequest } from '../parse/parse.ts';
import { DataError } from '../respond/data-error.ts';
import type { Column, Relation, SchemaCache } from '../schema/schema-types.ts';
import { chooseFunction } from './plan-call.ts';
import { mediaOfCall, mediaOfRoot, mediaOfRows, rowsFor } from './plan-media.ts';
import { planMutation } from './plan-mutation.ts';
import { findRelation, planNode, unsatisfiable } from './plan-rows.ts';
import type { CallPlan, DescriptionPlan, OptionsPlan, Plan, PlanLimits, ReadPlan } from './plan-types.ts';

/**
 * Plans a parsed request.
 * @throws DataError for an unknown or ambiguous name, or an unsupported request
 */
export function planRequest(request: ParsedRequest, cache: SchemaCache, limits: PlanLimits): Plan {
  if (request.target.kind === 'root') return planDescription(request, limits);
  if (request.target.kind === 'function') return planCall(request, request.target, cache, limits);
  const relation = findRelation(cache, request.schema, request.target.name);
  switch (request.method) {
    case 'OPTIONS':
      return { kind: 'options', allow: allowedOn(relation) };
    case 'GET':
    case 'HEAD':
      return planRead(request, relation, cache, limits);
    default:
      return planMutation(request, relation, cache, limits);
  }
}

function planDescription(request: ParsedRequest, limits: PlanLimits): DescriptionPlan | OptionsPlan {
  if (limits.openApiMode === 'disabled') throw noDescription();
  if (request.method === 'OPTIONS') return { kind: 'options', allow: 'OPTIONS,GET,HEAD' };
  const media = mediaOfRoot(request);
  return {
    kind: 'description',
    schema: request.schema,
    followsPrivileges: limits.openApiMode === 'follow-privileges',
    hasBody: request.method !== 'HEAD',
    media,
    isReadOnly: true,
  };
}

const noDescription = () =>
  new DataError(404, { code: 'PGRST126', message: 'Root endpoint metadata is disabled' });

function allowedOn(relation: Relation): string {
  const methods = ['OPTIONS', 'GET', 'HEAD'];
  if (relation.isInsertable) methods.push('POST');
  if (relation.isInsertable && relation.isUpdatable && relation.primaryKey.length > 0) methods.push('PUT');
  if (relation.isUpdatable) methods.push('PATCH');
  if (relation.isDeletable) methods.push('DELETE');
  return methods.join(',');
}

function planRead(
  request: ParsedRequest,
  relation: Relation,
  cache: SchemaCache,
  limits: PlanLimits,
): ReadPlan {
  const node = planNode(request.query, relation, relation.name, relation.columns, cache, limits);
  const media = mediaOfRows(request, relation, cache, limits);
  return {
    kind: 'read',
    relation,
    node: { ...rowsFor(node, media), ...pageOf(request, limits) },
    count: request.preferences.count,
    exactCountUpTo: limits.maxRows,
    hasBody: request.method !== 'HEAD',
    media,
    isReadOnly: true,
    maxAnswerBytes: limits.maxAnswerBytes,
  };
}

/** Limit and offset of the request's own rows: query string, Range header and the service's maximum together. */
function pageOf(request: ParsedRequest, limits: PlanLimits): { limit: number | null; offset: number } {
  const { limit, offset } = pageWithin(request, limits);
  return { limit: limit === Number.POSITIVE_INFINITY ? null : limit, offset };
}

function pageWithin(request: ParsedRequest, { maxRows }: PlanLimits): { limit: number; offset: number } {
  const { limits, offsets } = request.query;
  const requestedLimit = limits.find(({ path }) => path.length === 0)?.limit ?? null;
  if (requestedLimit !== null && requestedLimit < 0) {
    throw unsatisfiable('Limit should be greater than or equal to zero.');
  }
  const offset = Math.max(offsets.find(({ path }) => path.length === 0)?.offset ?? 0, 0);
  const { range } = request;
  if (!range) return { limit: Math.min(requestedLimit ?? maxRows, maxRows), offset };
  const start = Math.max(offset, range.offset);
  const end = Math.min(
    requestedLimit === null ? Number.POSITIVE_INFINITY : offset + requestedLimit,
    range.limit === null ? Number.POSITIVE_INFINITY : range.offset + range.limit,
  );
  if (end < start) {
    throw unsatisfiable(
      'The lower boundary must be lower than or equal to the upper boundary in the Range header.',
    );
  }
  return { limit: Math.min(end - start, maxRows), offset: start };
}

function planCall(
  request: ParsedRequest,
  target: ParsedRequest['target'] & { kind: 'function' },
  cache: SchemaCache,
  limits: PlanLimits,
): CallPlan | OptionsPlan {
  const { method, preferences } = request;
  if (target.isRoot && limits.openApiMode === 'disabled') throw noDescription();
  const { called, callArguments } = chooseFunction(request, target.name, cache);
  if (method === 'OPTIONS') {
    return { kind: 'options', allow: called.isVolatile ? 'OPTIONS,POST' : 'OPTIONS,GET,HEAD,POST' };
  }
  const { returns } = called;
  if (preferences.maxAffected !== null && !called.isSet) {
    throw new DataError(400, {
      code: 'PGRST128',
      message:
        'Function must return SETOF or TABLE when max-affected preference is used with handling=strict',
    });
  }
  const isRead = method === 'GET' || method === 'HEAD';
  const shared = {
    kind: 'call' as const,
    called,
    callArguments,
    isCounted: preferences.count === 'exact' || preferences.count === 'estimated',
    hasBody: method !== 'HEAD',
    maxAffected: preferences.maxAffected,
    media: mediaOfCall(request, target, called, cache, limits),
    isReadOnly: isRead || !called.isVolatile,
    maxAnswerBytes: limits.maxAnswerBytes,
  };
  const [relation, columns] =
    returns.kind === 'composite' ? [returns.relation, returns.columns] : [null, new Map<string, Column>()];
  const node = planNode(request.query, relation, called.name, columns, cache, limits);
  return { ...shared, node: { ...rowsFor(node, shared.media), ...pageOf(request, limits) } };
}
