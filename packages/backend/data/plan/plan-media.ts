// Chooses a response's media type from the schema cache's handlers.
import { chooseMediaType, type MediaChoices, type MediaType } from '../parse/media-type.ts';
import type { ParsedRequest } from '../parse/parse.ts';
import type { DatabaseFunction, Relation, SchemaCache } from '../schema/schema-types.ts';
import type { PlanLimits, ReadNode } from './plan-types.ts';

const noHandlers: MediaChoices['own'] = new Map();

/**
 * The media type of a relation's rows, read or changed.
 * @throws DataError PGRST107 when no accepted one is available
 */
export function mediaOfRows(
  request: ParsedRequest,
  relation: Relation,
  cache: SchemaCache,
  limits: PlanLimits,
): MediaType {
  return chooseMediaType(request.accepted, choicesOf(cache, limits, handlersOf(request, relation)));
}

/**
 * The media type of a function's result.
 * @throws DataError PGRST107 when no accepted one is available
 */
export function mediaOfCall(
  request: ParsedRequest,
  target: { isRoot: boolean },
  { returns }: DatabaseFunction,
  cache: SchemaCache,
  limits: PlanLimits,
): MediaType {
  let handlers = noHandlers;
  if (returns.kind === 'composite') handlers = handlersOf(request, returns.relation);
  if (returns.kind === 'scalar' && returns.handler) {
    handlers = new Map([[returns.handler.mediaType, returns.handler]]);
  }
  return chooseMediaType(request.accepted, { ...choicesOf(cache, limits, handlers), isRoot: target.isRoot });
}

/** A node whose rows are passed to an aggregate: without representations of domains. */
export function rowsFor<Node extends ReadNode>(node: Node, { handler }: MediaType): Node {
  return handler?.rowsOf ? { ...node, items: [{ kind: 'star' }] } : node;
}

/**
 * The media type of the service's description.
 * @throws DataError PGRST107 when it is not accepted
 */
export function mediaOfRoot(request: ParsedRequest): MediaType {
  const choices = { own: noHandlers, general: noHandlers, geoJsonOf: null, allowsPlan: false, isRoot: true };
  chooseMediaType(request.accepted, choices);
  return chooseMediaType(describing, choices);
}

// Any of its names may have been accepted.
const describing = [
  { type: 'application/openapi+json', parameters: new Map(), text: 'application/openapi+json' },
];

/** Aggregates over a relation accept whole rows only, so they apply only to requests for whole rows. */
function handlersOf({ query: { select } }: ParsedRequest, relation: Relation | null): MediaChoices['own'] {
  const isWhole = select.length === 1 && select[0]?.kind === 'star';
  return isWhole && relation ? relation.mediaHandlers : noHandlers;
}

function choicesOf(
  { mediaHandlers, geoJsonOf }: SchemaCache,
  { allowsPlan }: PlanLimits,
  own: MediaChoices['own'],
): MediaChoices {
  return { own, general: mediaHandlers, geoJsonOf, allowsPlan, isRoot: false };
}
