// Validates requests of pages before they are parsed or rendered, and before any query.
import { readBody } from '../http/read-body.ts';

/** The error of a rejected request, with the text for its sender. */
export interface Refusal {
  status: number;
  text: string;
  /** For the log. */
  reason: string;
  headers: Record<string, string>;
}

/** Maximum characters of a page's path and query; campaign links have several hundred. */
export const maxUrlLength = 4096;
const maxParameters = 50;
/** Maximum bytes of a form: enough for the longest message of the contact page, 10,000 characters, with every character escaped. */
const maxFormBytes = 32 * 1024;
const maxFields = 100;
const formType = 'application/x-www-form-urlencoded';

/**
 * Checks a page's request and reads its form.
 * @param publicUrl of the shop
 * @returns the request with its form in memory, or the error
 */
export async function readPageRequest(request: Request, publicUrl: string): Promise<Request | Refusal> {
  const { method } = request;
  if (method !== 'GET' && method !== 'HEAD' && method !== 'POST') {
    return refusal(405, 'Pages are read, and forms are posted.', 'method', { allow: 'GET, HEAD, POST' });
  }
  if (request.url.length > maxUrlLength + publicUrl.length) {
    return refusal(414, 'This address is too long.', 'long URL');
  }
  if (!isReadable(request.url)) return refusal(400, 'Bad request', 'unreadable URL');
  if (countOf('&', request.url) >= maxParameters) {
    return refusal(400, 'This address has too many parameters.', 'many parameters');
  }
  return method === 'POST' ? readForm(request, publicUrl) : request;
}

async function readForm(request: Request, publicUrl: string): Promise<Request | Refusal> {
  // A page without a referrer posts its forms without an origin. The right to post there is the secret in the URL, no cookie.
  const isWithoutOrigin = request.headers.get('origin') === 'null' && isRide(request);
  const origin = isWithoutOrigin ? null : request.headers.get('origin');
  if (origin !== null && !isOwnOrigin(origin, request, publicUrl)) {
    return refusal(403, 'Forms on pages of other sites are not accepted.', 'form of another site');
  }
  const type = request.headers.get('content-type')?.split(';', 1)[0]?.trim().toLowerCase();
  if (type !== formType) {
    return refusal(415, 'This form cannot be read.', 'not a form');
  }
  const body = await readBody(request, maxFormBytes);
  if (!body) return refusal(413, 'This form is too large.', 'large form');
  let separators = 0;
  for (const byte of body) if (byte === 0x26) separators += 1;
  if (separators >= maxFields) return refusal(413, 'This form has too many fields.', 'many fields');
  // Behind a proxy that terminates TLS the request has an http URL, which the framework would treat as another site.
  const url = new URL(request.url);
  const { method, signal } = request;
  const headers = new Headers(request.headers);
  if (isWithoutOrigin) headers.delete('origin');
  return new Request(new URL(url.pathname + url.search, origin ?? url), { method, headers, signal, body });
}

/** Closes the connection, because the body is not read to its end. */
function refusal(
  status: number,
  text: string,
  reason: string,
  headers: Record<string, string> = {},
): Refusal {
  return { status, text: `${text}\n`, reason, headers: { ...headers, connection: 'close' } };
}

/** Whether a URL can be decoded and has no NUL characters, which PostgreSQL rejects. */
function isReadable(url: string): boolean {
  try {
    decodeURIComponent(new URL(url).pathname);
    return !url.includes('%00');
  } catch {
    return false;
  }
}

const isRide = (request: Request): boolean => new URL(request.url).pathname.startsWith('/ride/');

function isOwnOrigin(origin: string, request: Request, publicUrl: string): boolean {
  if (origin.length > maxUrlLength || !URL.canParse(origin)) return false;
  const { host } = new URL(origin);
  const ownHosts = [request.headers.get('host') ?? new URL(request.url).host, new URL(publicUrl).host];
  return host !== '' && ownHosts.includes(host);
}

function countOf(character: string, text: string): number {
  let count = 0;
  for (let at = text.indexOf(character); at >= 0; at = text.indexOf(character, at + 1)) count += 1;
  return count;
}
