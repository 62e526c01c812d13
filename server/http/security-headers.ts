// Headers that every answer of the shop has.

const year = 365 * 24 * 60 * 60;

const permissions = (geolocation: '' | 'self'): string =>
  `camera=(), microphone=(), geolocation=(${geolocation}), payment=()`;

/**
 * The policy of storefront pages, whose order form may ask for the position after a tap. A policy belongs to a document, and the page of a
 * drink is often opened within one of another page.
 */
export const storefrontPermissions = { 'permissions-policy': permissions('self') };

/** Whether a page belongs to the storefront. */
export const isStorefrontPath = (path: string): boolean => !/^\/(?:admin|ride)(?:[/?.]|$)/.test(path);

/** The headers of pages and of the services, for the shop's public URL. */
export function securityHeadersFor(publicUrl: string): Record<string, string> {
  return {
    'x-content-type-options': 'nosniff',
    'referrer-policy': 'strict-origin-when-cross-origin',
    'permissions-policy': permissions(''),
    'cross-origin-opener-policy': 'same-origin',
    ...strictTransport(publicUrl),
  };
}

/** The headers of files, which do not need those of pages: phones pay for every byte. */
export function fileHeadersFor(publicUrl: string): Record<string, string> {
  return { 'x-content-type-options': 'nosniff', ...strictTransport(publicUrl) };
}

const strictTransport = (publicUrl: string): Record<string, string> =>
  publicUrl.startsWith('https:') ? { 'strict-transport-security': `max-age=${year}; includeSubDomains` } : {};

/** A response with further headers; those that it has stay. */
export function withHeaders(response: Response, extra: Readonly<Record<string, string>>): Response {
  const headers = new Headers(response.headers);
  for (const [name, value] of Object.entries(extra)) if (!headers.has(name)) headers.set(name, value);
  return new Response(response.body, { status: response.status, statusText: response.statusText, headers });
}
