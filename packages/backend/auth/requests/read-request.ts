// Parses a request once for all routes.
import { isIP } from 'node:net';
import type { Caller } from '../../caller.ts';
import { AuthError } from '../auth-error.ts';
import type { AuthRequest, Fields, Route } from '../context.ts';
import type { AuthSettings } from '../settings.ts';
import { redirectOf } from './redirects.ts';

/** Maximum bytes of a body. A route may set another. */
const maxBodyBytes = 64 * 1024;
/** Fields of a form. */
const maxFormFields = 100;

/** The bearer token; null without one. */
export const bearerOf = (headers: Headers): string | null =>
  /^bearer\s+(\S+)$/i.exec(headers.get('authorization') ?? '')?.[1] ?? null;

/**
 * Reads a request's body and headers.
 * @param route `maxBodyBytes` where it differs from 64 KiB
 * @throws AuthError 413 request_entity_too_large, 400 bad_json
 */
export async function readRequest(
  raw: Request,
  caller: Pick<Caller, 'address'>,
  parameters: Readonly<Record<string, string>>,
  settings: AuthSettings,
  route: Pick<Route, 'maxBodyBytes'>,
): Promise<AuthRequest> {
  const url = new URL(raw.url);
  const body =
    raw.method === 'GET' || raw.method === 'HEAD'
      ? {}
      : await readBody(raw, route.maxBodyBytes ?? maxBodyBytes);
  const inBody = typeof body.redirect_to === 'string' ? body.redirect_to : null;
  return {
    raw,
    method: raw.method,
    url,
    headers: raw.headers,
    parameters,
    body,
    ip: caller.address && isIP(caller.address) ? caller.address : null,
    userAgent: raw.headers.get('user-agent'),
    bearer: bearerOf(raw.headers),
    redirectTo: redirectOf(
      [raw.headers.get('redirect_to'), url.searchParams.get('redirect_to'), inBody],
      raw.headers.get('referer'),
      settings,
    ),
    heldUntil: 0,
  };
}

async function readBody(raw: Request, maxBytes: number): Promise<Fields> {
  const bytes = await readBytes(raw, maxBytes);
  if (bytes.length === 0) return {};
  const type = raw.headers.get('content-type')?.split(';')[0]?.trim().toLowerCase();
  if (type === 'application/x-www-form-urlencoded') {
    const form = new URLSearchParams(bytes.toString('utf8'));
    if (form.size > maxFormFields) throw badForm();
    return Object.fromEntries(form);
  }
  let parsed: unknown;
  try {
    parsed = JSON.parse(bytes.toString('utf8'));
  } catch (error) {
    throw badJson((error as Error).message);
  }
  if (typeof parsed !== 'object' || parsed === null || Array.isArray(parsed)) {
    throw badJson('an object is expected');
  }
  return parsed as Fields;
}

async function readBytes(raw: Request, maxBytes: number): Promise<Buffer> {
  if (!raw.body) return Buffer.alloc(0);
  const tooLarge = () =>
    new AuthError(413, 'request_entity_too_large', `Request body is larger than ${maxBytes / 1024} KiB`, {
      // The rest of the body is not read, so the connection cannot be used again.
      headers: { connection: 'close' },
    });
  if (Number(raw.headers.get('content-length') ?? 0) > maxBytes) throw tooLarge();
  const parts: Uint8Array[] = [];
  let length = 0;
  for await (const part of raw.body as unknown as AsyncIterable<Uint8Array>) {
    length += part.length;
    if (length > maxBytes) throw tooLarge();
    parts.push(part);
  }
  return Buffer.concat(parts);
}

const badForm = () =>
  new AuthError(400, 'bad_json', `Could not parse request body: a form has at most ${maxFormFields} fields`);

const badJson = (reason: string) =>
  new AuthError(400, 'bad_json', `Could not parse request body as JSON: ${reason}`);
