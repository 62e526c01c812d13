// Chooses the media type of a response by the Accept header.
import { DataError } from '../respond/data-error.ts';
import type { MediaHandler, TableName } from '../schema/schema-types.ts';

/** Options and format of an execution plan. */
export interface Explanation {
  form: 'text' | 'json';
  /** A subset of `explainOptions`. */
  options: readonly string[];
}

/** The format of a response. */
export interface MediaType {
  /** `handled`: produced for this media type by a function or an aggregate of the database. */
  format: 'json' | 'object' | 'csv' | 'geojson' | 'handled';
  isNullStripped: boolean;
  contentType: string;
  /** The media type of `handled`. */
  handler: MediaHandler | null;
  /** For `geojson`: the function that converts a row. */
  geoJsonOf: TableName | null;
  /** Set when the statement's plan is requested instead of its result. */
  explanation: Explanation | null;
}

/** One entry of an Accept header. */
export interface AcceptedType {
  /** In lower case, such as `text/csv`. */
  type: string;
  parameters: ReadonlyMap<string, string>;
  /** As received. */
  text: string;
}

/** Available formats in addition to the standard ones. */
export interface MediaChoices {
  /** Handlers of the requested relation or function, by media type. */
  own: ReadonlyMap<string, MediaHandler>;
  /** Handlers of any rows, by media type. */
  general: ReadonlyMap<string, MediaHandler>;
  /** The function that converts a row to GeoJSON; null without one. */
  geoJsonOf: TableName | null;
  /** Whether clients may see execution plans. */
  allowsPlan: boolean;
  /** Whether the answer describes the service. */
  isRoot: boolean;
}

/** Options of an execution plan. */
const explainOptions: readonly string[] = ['analyze', 'verbose', 'settings', 'buffers', 'wal'];

const builtIn = (format: MediaType['format'], type: string, isNullStripped = false): MediaType => ({
  format,
  isNullStripped,
  contentType: `${type}${isNullStripped ? ';nulls=stripped' : ''}; charset=utf-8`,
  handler: null,
  geoJsonOf: null,
  explanation: null,
});

const json = builtIn('json', 'application/json');
const openApi = builtIn('json', 'application/openapi+json');
const csv = builtIn('csv', 'text/csv');
const geoJson = builtIn('geojson', 'application/geo+json');
const strippedArray = builtIn('json', 'application/vnd.pgrst.array+json', true);
const object = builtIn('object', 'application/vnd.pgrst.object+json');
const strippedObject = builtIn('object', 'application/vnd.pgrst.object+json', true);

const anything: readonly AcceptedType[] = [{ type: '*/*', parameters: new Map(), text: '*/*' }];
const onlyJson: readonly AcceptedType[] = [
  { type: 'application/json', parameters: new Map(), text: 'application/json' },
];

/**
 * Parses an Accept header.
 * @param accept its value; null without the header, which accepts anything
 * @returns its entries, most wanted first: by weight, then by how precise they are
 */
export function parseAccept(accept: string | null): readonly AcceptedType[] {
  if (!accept || accept === '*/*') return anything;
  if (accept === 'application/json') return onlyJson;
  const ranked = partsOf(accept, ',')
    .filter((text) => text !== '')
    .map((text) => {
      const [type = '', ...rest] = partsOf(text, ';');
      const parameters = new Map(rest.map(parameterOf));
      const weight = parameters.get('q');
      const precision = rest.length - (type.match(/\*/g)?.length ?? 0);
      return {
        accepted: { type: type.toLowerCase(), parameters, text },
        weight: weight === undefined ? 1 : Number(weight) || 0,
        precision,
      };
    })
    .filter(({ weight }) => weight > 0);
  ranked.sort((a, b) => b.weight - a.weight || b.precision - a.precision);
  return ranked.map(({ accepted }) => accepted);
}

/** The parts between separators that are not inside double quotes, trimmed. */
function partsOf(text: string, separator: ',' | ';'): string[] {
  if (!text.includes('"')) return text.split(separator).map((part) => part.trim());
  const parts = text.match(separator === ',' ? /(?:"[^"]*"|[^,"]|")+/g : /(?:"[^"]*"|[^;"]|")+/g) ?? [];
  return parts.map((part) => part.trim());
}

function parameterOf(text: string): [string, string] {
  const equals = text.indexOf('=');
  if (equals < 0) return [text.toLowerCase(), ''];
  const value = text.slice(equals + 1).trim();
  return [text.slice(0, equals).trim().toLowerCase(), value.replace(/^"(.*)"$/s, '$1')];
}

/**
 * Chooses the form of the answer.
 * @param accepted as `parseAccept` returns them
 * @returns the first available one
 * @throws DataError PGRST107 when none of them can
 */
export function chooseMediaType(accepted: readonly AcceptedType[], choices: MediaChoices): MediaType {
  const anyHandler = accepted.length > 0 ? choices.own.get('*/*') : undefined;
  for (const each of accepted) {
    const media = vendored(each, choices) ?? (anyHandler ? handled(anyHandler) : named(each.type, choices));
    if (media) return media;
  }
  throw new DataError(406, {
    code: 'PGRST107',
    message: `None of these media types are available: ${accepted.map(({ text }) => text).join(', ')}`,
  });
}

/** PostgREST's own media types, which no handler replaces. */
function vendored({ type, parameters }: AcceptedType, choices: MediaChoices): MediaType | null {
  if (!type.startsWith('application/vnd.pgrst.')) return null;
  const isNullStripped = parameters.get('nulls') === 'stripped';
  switch (type) {
    case 'application/vnd.pgrst.object+json':
    case 'application/vnd.pgrst.object':
      return isNullStripped ? strippedObject : object;
    case 'application/vnd.pgrst.array+json':
    case 'application/vnd.pgrst.array':
      return isNullStripped ? strippedArray : json;
    case 'application/vnd.pgrst.plan':
    case 'application/vnd.pgrst.plan+text':
    case 'application/vnd.pgrst.plan+json':
      return planned(type.endsWith('+json') ? 'json' : 'text', parameters, choices);
  }
  return null;
}

function planned(
  form: Explanation['form'],
  parameters: ReadonlyMap<string, string>,
  choices: MediaChoices,
): MediaType | null {
  if (!choices.allowsPlan) return null;
  const rowType = parameters.get('for') ?? 'application/json';
  const [accepted] = parseAccept(rowType);
  const media =
    accepted && (vendored(accepted, { ...choices, allowsPlan: false }) ?? named(accepted.type, choices));
  if (!media) return null;
  const optionNames = parameters.get('options')?.split('|') ?? [];
  const options = explainOptions.filter((option) => optionNames.includes(option));
  const suffix = options.length > 0 ? `; options=${options.join('|')}` : '';
  return {
    ...media,
    contentType: `application/vnd.pgrst.plan+${form}; for="${media.contentType.replace('; charset=utf-8', '')}"${suffix}; charset=utf-8`,
    explanation: { form, options },
  };
}

function named(type: string, { own, general, geoJsonOf, isRoot }: MediaChoices): MediaType | null {
  const handler = own.get(type) ?? (type === '*/*' ? ownValue(own) : undefined) ?? general.get(type);
  if (handler) return handled(handler);
  switch (type) {
    case '*/*':
    case 'application/*':
    case 'application/json':
      return json;
    case 'text/csv':
      return isRoot ? null : csv;
    case 'application/geo+json':
      return geoJsonOf && { ...geoJson, geoJsonOf };
    case 'application/openapi+json':
      return isRoot ? openApi : null;
    default:
      return null;
  }
}

/** A function with a media type returns it to clients that accept anything. */
function ownValue(own: MediaChoices['own']): MediaHandler | undefined {
  const [handler] = own.values();
  return handler?.aggregate === null ? handler : undefined;
}

const withCharset = new Set([
  'application/json',
  'application/geo+json',
  'application/openapi+json',
  'text/csv',
  'text/plain',
  'text/xml',
]);

function handled(handler: MediaHandler): MediaType {
  const { mediaType } = handler;
  const type = mediaType === '*/*' ? 'application/octet-stream' : mediaType;
  return {
    format: 'handled',
    isNullStripped: false,
    contentType: withCharset.has(type) ? `${type}; charset=utf-8` : type,
    handler,
    geoJsonOf: null,
    explanation: null,
  };
}
