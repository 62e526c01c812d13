// Converts errors to HTTP responses, with PostgREST's statuses.
import { DatabaseError, isUnavailable } from '../../database/database.ts';
import { type PlainHeaders, PlainResponse } from '../../http/plain-response.ts';
import { DataError } from './data-error.ts';

/**
 * Creates the response of a failed request.
 * @param error as `dataErrorOf` returns it
 */
export function respondError(error: DataError, method: string): PlainResponse {
  const text = JSON.stringify(error.body);
  const headers: PlainHeaders = {
    'content-type': 'application/json; charset=utf-8',
    ...(method === 'HEAD' ? {} : { 'content-length': String(Buffer.byteLength(text)) }),
    'proxy-status': `PostgREST; error=${error.body.code}`,
  };
  for (const [name, value] of Object.entries(error.headers)) headers[name.toLowerCase()] = value;
  return new PlainResponse(error.status, headers, method === 'HEAD' ? null : text, error.statusText);
}

/**
 * Converts a thrown value to an error.
 * @param isAnonymous whether the request had no identity: a missing privilege is then answered with 401
 */
export function dataErrorOf(thrown: unknown, isAnonymous: boolean): DataError {
  if (thrown instanceof DataError) return thrown;
  if (!(thrown instanceof DatabaseError)) {
    return new DataError(500, { code: 'PGRSTX00', message: 'Internal server error' });
  }
  const { code, message, detail, hint } = thrown;
  if (isUnavailable(thrown)) return unavailable(thrown);
  if (code === 'PGRST') return raised(message, detail);
  const status = statusOf(code, message, isAnonymous);
  const headers: Record<string, string> = status === 401 ? { 'WWW-Authenticate': 'Bearer' } : {};
  const words = code.startsWith('PT') && status === Number(code.slice(2)) ? message : '';
  return new DataError(status, { code, message, details: detail, hint }, headers, words);
}

/** Messages of driver and pooler may contain host names: they are logged, not sent. */
function unavailable({ code, message }: DatabaseError): DataError {
  if (message === 'timeout exceeded when trying to connect') {
    return new DataError(504, {
      code: 'PGRST003',
      message: 'Timed out acquiring connection from connection pool.',
    });
  }
  const isServersOwn = code.startsWith('57P');
  const body = isServersOwn
    ? { code, message }
    : message.includes('ECONNREFUSED')
      ? { code: 'PGRST000', message: 'Database connection error.' }
      : { code: 'PGRST001', message: 'Database client error. Retrying the connection.' };
  return new DataError(503, body, { 'Retry-After': '1' });
}

const statusByCode: Readonly<Record<string, number>> = {
  '0L000': 403,
  '0P000': 403,
  '23503': 409,
  '23505': 409,
  '25006': 405,
  '42883': 404,
  '42P01': 404,
  '42P17': 500,
  '53400': 500,
  P0001: 400,
};

const statusByClass: Readonly<Record<string, number>> = {
  '09': 500,
  '0L': 403,
  '0P': 403,
  '25': 500,
  '28': 403,
  '2D': 500,
  '38': 500,
  '39': 500,
  '3B': 500,
  '40': 500,
  '53': 503,
  '54': 500,
  '55': 500,
  '57': 500,
  '58': 500,
  F0: 500,
  HV: 500,
  P0: 500,
  XX: 500,
};

function statusOf(code: string, message: string, isAnonymous: boolean): number {
  if (code === '42501') return isAnonymous ? 401 : 403;
  if (code === '21000') return message.endsWith('requires a WHERE clause') ? 400 : 500;
  if (code === '42883' && message.startsWith('function xmlagg(')) return 406;
  if (code === '22023' && /^role .* does not exist$/.test(message)) return 401;
  if (code.startsWith('PT')) {
    const status = Number(code.slice(2));
    return status >= 200 && status <= 599 ? status : 500;
  }
  return statusByCode[code] ?? statusByClass[code.slice(0, 2)] ?? 400;
}

/** An error raised by a function with SQLSTATE 'PGRST': message and detail contain the response as JSON. */
function raised(message: string, detail: string | null): DataError {
  const malformed = (details: string, hint: string) =>
    new DataError(500, {
      code: 'PGRST121',
      message: 'Could not parse JSON in the "RAISE SQLSTATE \'PGRST\'" error',
      details,
      hint,
    });
  const wrongMessage = malformed(
    `Invalid JSON value for MESSAGE: '${message}'`,
    "MESSAGE must be a JSON object with obligatory keys: 'code', 'message' and optional keys: 'details', 'hint'.",
  );
  const wrongDetail = malformed(
    detail === null
      ? 'DETAIL is missing in the RAISE statement'
      : `Invalid JSON value for DETAIL: '${detail}'`,
    "DETAIL must be a JSON object with obligatory keys: 'status', 'headers' and optional key: 'status_text'.",
  );
  let isMessageRead = false;
  try {
    const body = JSON.parse(message);
    isMessageRead = typeof body.code === 'string' && typeof body.message === 'string';
    const answer = JSON.parse(detail ?? '');
    const headers = Object.entries(answer.headers);
    const isWellFormed =
      typeof body.code === 'string' &&
      typeof body.message === 'string' &&
      Number.isInteger(answer.status) &&
      answer.status >= 200 &&
      answer.status <= 599 &&
      headers.every(([, value]) => typeof value === 'string');
    if (isWellFormed) {
      const { code, details, hint } = body;
      const words = typeof answer.status_text === 'string' ? answer.status_text : '';
      return new DataError(
        answer.status,
        { code, message: body.message, details, hint },
        answer.headers,
        words,
      );
    }
  } catch {
    // Answered below: the raised text is not such JSON.
  }
  return isMessageRead ? wrongDetail : wrongMessage;
}
