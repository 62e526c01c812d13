// What a request brings, read once for all calls.
import { isIP } from 'node:net';
import type { Caller } from '../caller.ts';
import type { AuthRequest, Fields } from './context.ts';
import { AuthFault } from './fault.ts';
import { redirectOf } from './redirects.ts';
import type { AuthSettings } from './settings.ts';

const largestBody = 1_048_576;

/**
 * Reads a request's body and headers.
 * @throws AuthFault 413 request_entity_too_large, 400 bad_json
 */
export async function readRequest(
  raw: Request,
  caller: Pick<Caller, 'address'>,
  parameters: Readonly<Record<string, string>>,
  settings: AuthSettings,
): Promise<AuthRequest> {
  const url = new URL(raw.url);
  const body = raw.method === 'GET' ? {} : await readBody(raw);
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
    bearer: /^bearer\s+(\S+)$/i.exec(raw.headers.get('authorization') ?? '')?.[1] ?? null,
    redirectTo: redirectOf(
      [raw.headers.get('redirect_to'), url.searchParams.get('redirect_to'), inBody],
      raw.headers.get('referer'),
      settings,
    ),
  };
}

async function readBody(raw: Request): Promise<Fields> {
  const bytes = await readBytes(raw);
  if (bytes.length === 0) return {};
  const type = raw.headers.get('content-type')?.split(';')[0]?.trim().toLowerCase();
  if (type === 'application/x-www-form-urlencoded') {
    return Object.fromEntries(new URLSearchParams(bytes.toString('utf8')));
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

async function readBytes(raw: Request): Promise<Buffer> {
  if (!raw.body) return Buffer.alloc(0);
  const parts: Uint8Array[] = [];
  let length = 0;
  for await (const part of raw.body as unknown as AsyncIterable<Uint8Array>) {
    length += part.length;
    if (length > largestBody) {
      throw new AuthFault(413, 'request_entity_too_large', 'Request body is larger than 1 MiB');
    }
    parts.push(part);
  }
  return Buffer.concat(parts);
}

const badJson = (reason: string) =>
  new AuthFault(400, 'bad_json', `Could not parse request body as JSON: ${reason}`);
