import type { IncomingMessage, ServerResponse } from 'node:http';
import { expect, test } from 'vitest';
import type { CachedPage } from '../pages/page-cache.ts';
import { fileHeadersFor, isStorefrontPath, securityHeadersFor } from './security-headers.ts';
import { createPageSender } from './send-page.ts';

/** The policy of a page at this path, as it is sent. */
function policyOf(path: string): string | undefined {
  const page = {
    status: 200,
    headers: { 'content-type': 'text/html' },
    bodies: { identity: Buffer.from('<p>') },
    etag: '"1"',
  } as unknown as CachedPage;
  let sent: string[] = [];
  const response = {
    writeHead(_status: number, headers: string[]) {
      sent = headers;
      return response;
    },
    end() {},
  };
  const send = createPageSender(securityHeadersFor('https://jani.example'));
  const request = { url: path, method: 'GET', headers: {}, rawHeaders: [] };
  send(request as unknown as IncomingMessage, response as unknown as ServerResponse, page);
  return sent[sent.indexOf('permissions-policy') + 1];
}

test.each(['/shop/mango-bottle', '/shop/mango-bottle/order?quantity=2', '/', '/admins', '/shop?back=/admin'])(
  'the page %s may ask for the position, and for nothing else',
  (path) => {
    expect(policyOf(path)).toBe('camera=(), microphone=(), geolocation=(self), payment=()');
  },
);

test.each(['/admin', '/admin/orders/new', '/admin?a', '/ride/secret'])(
  'the page %s may not ask for the position',
  (path) => {
    expect(isStorefrontPath(path)).toBe(false);
    expect(policyOf(path)).toBe('camera=(), microphone=(), geolocation=(), payment=()');
  },
);

test('answers of services ask for nothing, and files have no policy', () => {
  expect(securityHeadersFor('https://jani.example')['permissions-policy']).toContain('geolocation=()');
  expect(fileHeadersFor('https://jani.example')).not.toHaveProperty('permissions-policy');
});
