// Chooses the overload of a called function, and plans its arguments.

import type { ParsedRequest } from '../parse/parse.ts';
import { mediaTypeOf } from '../parse/payload.ts';
import { pairsOf } from '../parse/query-string.ts';
import { DataError } from '../respond/data-error.ts';
import type { DatabaseFunction, Parameter, SchemaCache } from '../schema/schema-types.ts';
import { mostSimilar } from '../schema/similar-name.ts';
import type { CallArguments } from './plan-types.ts';

const wholeBodyTypes: ReadonlyMap<string, readonly string[]> = new Map([
  ['application/json', ['json', 'jsonb']],
  ['text/plain', ['text']],
  ['text/xml', ['xml']],
  ['application/octet-stream', ['bytea']],
]);

/**
 * Chooses the overload by the names of the arguments given.
 * @throws DataError PGRST202 when none fits, PGRST203 when several do
 */
export function chooseFunction(
  request: ParsedRequest,
  name: string,
  cache: SchemaCache,
): { called: DatabaseFunction; callArguments: CallArguments } {
  const { schema, method } = request;
  const isRead = method !== 'POST';
  const type = mediaTypeOf(request.contentType);
  const names = new Set(
    isRead ? request.query.arguments.map(([name]) => name) : (request.payload?.keys ?? []),
  );
  const hasKeys = isRead || request.payload !== null;
  const overloads = cache.functions.get(schema)?.get(name) ?? [];
  const wholeTypes = isRead ? [] : (wholeBodyTypes.get(type) ?? []);
  const takesWhole = ({ parameters: [only, ...others] }: DatabaseFunction) =>
    only?.name === '' && others.length === 0 && wholeTypes.includes(only.type);

  const named = hasKeys ? overloads.filter((each) => !takesWhole(each) && accepts(each, names)) : [];
  const matching = named.length > 0 ? named : overloads.filter(takesWhole);
  const [called, ...others] = matching;
  if (!called) throw noFunction(request, name, names, wholeTypes, overloads, cache);
  if (others.length > 0) {
    const choices = matching.map((each) => {
      const parameters = each.parameters.map(({ name, type: of }) => `${name} => ${of}`);
      return `${each.schema}.${each.name}(${parameters.join(', ')})`;
    });
    throw new DataError(300, {
      code: 'PGRST203',
      message: `Could not choose the best candidate function between: ${choices.join(', ')}`,
      hint: 'Try renaming the parameters or the function itself in the database so function overloading can be resolved',
    });
  }
  return { called, callArguments: argumentsOf(request, called, names, named.length === 0 || names.has('')) };
}

function accepts({ parameters }: DatabaseFunction, names: ReadonlySet<string>): boolean {
  const parameterNames = new Set(parameters.map(({ name }) => name));
  return (
    [...names].every((name) => parameterNames.has(name)) &&
    parameters.every(({ name, hasDefault }) => hasDefault || names.has(name))
  );
}

function argumentsOf(
  { method, query, payload, body, contentType }: ParsedRequest,
  { parameters }: DatabaseFunction,
  names: ReadonlySet<string>,
  isWhole: boolean,
): CallArguments {
  const [first] = parameters;
  if (isWhole && first) {
    // Without a body a JSON argument is an empty object, a text one empty.
    return { kind: 'whole', text: body === '' && payload ? payload.text : body, parameter: first };
  }
  const provided = parameters.filter(({ name }) => names.has(name));
  const isForm = method === 'POST' && mediaTypeOf(contentType) === 'application/x-www-form-urlencoded';
  const pairs = isForm ? [...pairsOf(body)] : query.arguments;
  if (method === 'POST' && !isForm)
    return { kind: 'json', text: payload?.text ?? '{}', parameters: provided };
  return {
    kind: 'text',
    values: provided.map((parameter): [Parameter, string[]] => {
      const values = pairs.filter(([name]) => name === parameter.name).map(([, value]) => value);
      return [parameter, parameter.isVariadic ? values : values.slice(-1)];
    }),
  };
}

function noFunction(
  { schema, payload, method }: ParsedRequest,
  bareName: string,
  names: ReadonlySet<string>,
  wholeTypes: readonly string[],
  overloads: readonly DatabaseFunction[],
  cache: SchemaCache,
): DataError {
  const sorted = [...names].sort();
  const name = `${schema}.${bareName}`;
  const searched =
    sorted.length === 0
      ? 'without parameters'
      : `with parameter${sorted.length > 1 ? 's' : ''} ${sorted.join(', ')}`;
  const orWhole = wholeTypes.length > 0 ? ` or with a single unnamed ${wholeTypes.join('/')} parameter` : '';
  // Such a body is one value: there are no names to look for.
  const isOnlyWhole = method === 'POST' && payload === null;
  if (isOnlyWhole) {
    return new DataError(404, {
      code: 'PGRST202',
      message: `Could not find the function ${name} in the schema cache`,
      details: `Searched for the function ${name} with a single unnamed ${wholeTypes.join('/')} parameter, but no matches were found in the schema cache.`,
      hint: null,
    });
  }
  return new DataError(404, {
    code: 'PGRST202',
    message:
      sorted.length === 0
        ? `Could not find the function ${name} without parameters in the schema cache`
        : `Could not find the function ${name}(${sorted.join(', ')}) in the schema cache`,
    details: `Searched for the function ${name} ${searched}${orWhole}, but no matches were found in the schema cache.`,
    hint: suggestion(schema, bareName, sorted, overloads, cache),
  });
}

function suggestion(
  schema: string,
  name: string,
  sorted: readonly string[],
  overloads: readonly DatabaseFunction[],
  cache: SchemaCache,
): string | null {
  if (overloads.length === 0) {
    const similar = mostSimilar(name, cache.functions.get(schema)?.keys() ?? [], 0.75);
    return similar ? `Perhaps you meant to call the function ${schema}.${similar}` : null;
  }
  const signatureOf = (names: readonly string[]) => `(${names.join(', ')})`;
  const signatures = overloads.map(({ parameters }) => signatureOf(parameters.map((each) => each.name)));
  const similar = mostSimilar(signatureOf(sorted), signatures, 0.33);
  return similar === null ? null : `Perhaps you meant to call the function ${schema}.${name}${similar}`;
}
