// CORS of the standalone data service.

const methods = 'GET, POST, PATCH, PUT, DELETE, OPTIONS, HEAD';
const safeHeaders = 'Accept, Accept-Language, Content-Language';
const exposed =
  'Content-Encoding, Content-Location, Content-Range, Content-Type, Date, Location, Server, Transfer-Encoding, Range-Unit';

/**
 * Answers preflight requests.
 * @param allowedOrigins null for all
 * @returns null when the request is not a preflight
 */
export function answerPreflight(
  { method, headers }: Request,
  allowedOrigins: readonly string[] | null,
): Response | null {
  const origin = headers.get('origin');
  if (method !== 'OPTIONS' || origin === null || !headers.has('access-control-request-method')) return null;
  const requestedHeaders = headers.get('access-control-request-headers')?.split(',') ?? [];
  const names = [
    'Authorization',
    ...requestedHeaders.map((name) => name.trim()).filter(Boolean),
    safeHeaders,
  ];
  return new Response(null, {
    status: 200,
    headers: {
      ...allowed(origin, allowedOrigins),
      'Access-Control-Allow-Methods': methods,
      'Access-Control-Allow-Headers': names.join(', '),
      'Access-Control-Max-Age': '86400',
    },
  });
}

/** Response headers that let pages of allowed sites read the response, in lower case. */
export function pageHeaders(
  request: Request,
  allowedOrigins: readonly string[] | null,
): Record<string, string> {
  const origin = request.headers.get('origin');
  if (origin === null) return {};
  const entries = Object.entries(allowed(origin, allowedOrigins));
  if (entries.length > 0) entries.push(['Access-Control-Expose-Headers', exposed]);
  return Object.fromEntries(entries.map(([name, value]) => [name.toLowerCase(), value]));
}

function allowed(origin: string, allowedOrigins: readonly string[] | null): Record<string, string> {
  if (allowedOrigins === null) return { 'Access-Control-Allow-Origin': '*' };
  if (!allowedOrigins.includes(origin)) return {};
  return {
    'Access-Control-Allow-Origin': origin,
    'Access-Control-Allow-Credentials': 'true',
    Vary: 'Origin',
  };
}
