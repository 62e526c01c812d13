// Last stage: converts the database's answer to an HTTP response. Bodies pass through as PostgreSQL built them.
import { type PlainHeaders, PlainResponse } from '../../http/plain-response.ts';
import type { ParsedRequest } from '../parse/parse.ts';
import { type Preferences, preferenceApplied } from '../parse/preferences.ts';
import { putMismatch } from '../plan/plan-mutation.ts';
import type { CallPlan, DescriptionPlan, MutationPlan, OptionsPlan, ReadPlan } from '../plan/plan-types.ts';
import type { Answer } from '../sql/sql.ts';
import { DataError } from './data-error.ts';

/**
 * Refuses an unacceptable answer inside the transaction, so that it is rolled back.
 * @throws DataError 54000, PGRST103, 111, 112, 115, 116 or 124
 */
export function checkAnswer(plan: ReadPlan | MutationPlan | CallPlan, answer: Answer): void {
  if ((answer.bytes ?? 0) > plan.maxAnswerBytes) {
    throw new DataError(400, {
      code: '54000',
      message: 'The answer is too large',
      details: `It has ${answer.bytes} bytes, and at most ${plan.maxAnswerBytes} are sent`,
      hint: 'Select fewer rows or columns, or read the rows in pages',
    });
  }
  const affected = (plan.kind === 'mutation' ? answer.affected : answer.page_total) ?? 0;
  if (plan.kind !== 'read' && plan.maxAffected !== null && affected > plan.maxAffected) {
    throw new DataError(400, {
      code: 'PGRST124',
      message: 'Query result exceeds max-affected preference constraint',
      details: `The query affects ${affected} rows`,
    });
  }
  if (plan.kind === 'mutation' && plan.isPut && affected !== 1) throw putMismatch();
  const isVoid = plan.kind === 'call' && plan.called.returns.kind === 'void';
  if (plan.media.format === 'object' && !isVoid && answer.page_total !== 1) {
    throw new DataError(406, {
      code: 'PGRST116',
      message: 'Cannot coerce the result to a single JSON object',
      details: `The result contains ${answer.page_total} rows`,
    });
  }
  if (plan.kind !== 'mutation' && answer.total !== null && plan.node.offset > answer.total) {
    throw new DataError(
      416,
      {
        code: 'PGRST103',
        message: 'Requested range not satisfiable',
        details: `An offset of ${plan.node.offset} was requested, but there are only ${answer.total} rows.`,
      },
      { 'Content-Range': `*/${answer.total}` },
    );
  }
  statusSet(answer);
  headersSet(answer);
}

/**
 * Creates the response of a successful request.
 * @param answer the one row its statement gave, checked by `checkAnswer`
 * @param isRolledBack whether the client requested a rollback
 */
export function respond(
  request: ParsedRequest,
  plan: ReadPlan | MutationPlan | CallPlan,
  answer: Answer,
  search: string,
  isRolledBack: boolean | null,
): PlainResponse {
  const headers: PlainHeaders = {};
  const { status, body } =
    plan.kind === 'mutation'
      ? mutationResponse(plan, answer, headers)
      : rowsResponse(plan, answer, search, headers);
  if (body !== null) {
    headers['content-type'] = plan.media.contentType;
    if (request.showsSchema) headers['content-profile'] = request.schema;
  }
  const applied = preferenceApplied(appliedPreferences(request, plan, isRolledBack));
  if (applied) headers['preference-applied'] = applied;
  const set = headersSet(answer);
  for (const [name] of set) delete headers[name];
  for (const [name, value] of set)
    headers[name] = Object.hasOwn(headers, name) ? [headers[name] ?? [], value].flat() : value;
  const finalStatus = statusSet(answer) ?? status;
  const isBodyless =
    finalStatus === 204 || finalStatus === 205 || finalStatus === 304 || request.method === 'HEAD';
  const isBytes = plan.media.handler?.isBinary && body !== null;
  return new PlainResponse(
    finalStatus,
    headers,
    isBodyless ? null : isBytes ? new Uint8Array(Buffer.from(body, 'base64')) : body,
  );
}

/** Creates a response with a document instead of rows: a description or an execution plan. */
export function respondDocument(
  { schema, showsSchema, method }: ParsedRequest,
  { media }: DescriptionPlan | ReadPlan | MutationPlan | CallPlan,
  text: string,
): PlainResponse {
  const headers = {
    'content-type': media.contentType,
    ...(showsSchema ? { 'content-profile': schema } : {}),
  };
  return new PlainResponse(200, headers, method === 'HEAD' ? null : text);
}

/** The response to OPTIONS: allowed methods. */
export function respondOptions({ allow }: OptionsPlan): PlainResponse {
  const headers = { allow, 'access-control-allow-origin': '*', 'content-length': '0' };
  return new PlainResponse(200, headers, null);
}

interface StatusAndBody {
  status: number;
  /** Null: no content type either. */
  body: string | null;
}

function rowsResponse(
  plan: ReadPlan | CallPlan,
  answer: Answer,
  search: string,
  headers: PlainHeaders,
): StatusAndBody {
  const { page_total: rows, total } = answer;
  const first = plan.node.offset;
  headers['content-range'] = `${rows > 0 ? `${first}-${first + rows - 1}` : '*'}/${total ?? '*'}`;
  if (plan.kind === 'read') {
    headers['content-location'] = `/${encodeURIComponent(plan.relation.name)}${sorted(search)}`;
  }
  if (plan.kind === 'call' && plan.called.returns.kind === 'void') return { status: 204, body: null };
  return { status: total !== null && rows < total ? 206 : 200, body: answer.body ?? '' };
}

function sorted(search: string): string {
  if (search === '') return '';
  const parameters = new URLSearchParams(search);
  parameters.sort();
  return `?${parameters}`.replaceAll('+', '%20').replaceAll('*', '%2A').replaceAll('%7E', '~');
}

function mutationResponse(plan: MutationPlan, answer: Answer, headers: PlainHeaders): StatusAndBody {
  const { mutation, returning, isPut } = plan;
  const affected = answer.affected ?? 0;
  const total = answer.total ?? '*';
  const body = returning === 'representation' ? (answer.body ?? '') : null;
  if (!isPut) {
    const isRange = mutation.kind === 'update' && affected > 0;
    headers['content-range'] = `${isRange ? `0-${affected - 1}` : '*'}/${total}`;
  }
  if (mutation.kind !== 'insert') return { status: body === null ? 204 : 200, body };
  if (isPut) {
    if (body === null) return { status: 204, body };
    return { status: answer.inserted === 1 ? 201 : 200, body };
  }
  if (answer.location) {
    const pairs = answer.location.map((pair) => {
      const equals = pair.indexOf('=');
      return `${encodeURIComponent(pair.slice(0, equals))}=${encodeURIComponent(pair.slice(equals + 1))}`;
    });
    headers.location = `/${encodeURIComponent(plan.relation.name)}?${pairs.join('&')}`;
  }
  if (body === null) headers['content-length'] = '0';
  const isAllMerged = mutation.conflict?.resolution === 'merge-duplicates' && (answer.inserted ?? 0) === 0;
  return { status: isAllMerged ? 200 : 201, body };
}

function appliedPreferences(
  { preferences, method }: ParsedRequest,
  plan: ReadPlan | MutationPlan | CallPlan,
  isRolledBack: boolean | null,
): Partial<Preferences> {
  const isMutation = plan.kind === 'mutation';
  const conflict = isMutation && plan.mutation.kind === 'insert' ? plan.mutation.conflict : null;
  const { handling, timeZone, count } = preferences;
  return {
    resolution: conflict && method === 'POST' ? preferences.resolution : null,
    missing: isMutation && (method === 'POST' || method === 'PATCH') ? preferences.missing : null,
    return: isMutation ? preferences.return : null,
    count,
    transaction: isRolledBack === null ? null : isRolledBack ? 'rollback' : 'commit',
    handling,
    timeZone,
    maxAffected: plan.kind === 'read' ? null : plan.maxAffected,
  };
}

/** The status a function set, or null. */
function statusSet({ response_status: set }: Answer): number | null {
  if (set === null) return null;
  const status = Number(set);
  if (!Number.isInteger(status) || status < 200 || status > 599) {
    throw new DataError(500, {
      code: 'PGRST112',
      message: 'response.status guc must be a valid status code',
    });
  }
  return status;
}

/** The headers a function set, their names in lower case. */
function headersSet({ response_headers: set }: Answer): Array<[string, string]> {
  if (set === null) return [];
  const malformed = () =>
    new DataError(500, {
      code: 'PGRST111',
      message:
        'response.headers guc must be a JSON array composed of objects with a single key and a string value',
    });
  let parsed: unknown;
  try {
    parsed = JSON.parse(set);
  } catch {
    throw malformed();
  }
  if (!Array.isArray(parsed)) throw malformed();
  return parsed.map((entry: unknown): [string, string] => {
    const [pair, ...others] = Object.entries(entry ?? {});
    if (!pair || others.length > 0 || typeof pair[1] !== 'string') throw malformed();
    // Characters that no header may have would make the whole answer impossible.
    if (!/^[\w!#$%&'*+.^`|~-]+$/.test(pair[0]) || /[^\t\x20-\x7e\x80-\xff]/.test(pair[1])) throw malformed();
    return [pair[0].toLowerCase(), pair[1]];
  });
}
