import type { IncomingMessage } from 'node:http';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { readPlain } from './read-plain.ts';

const read = (url: string, { method = 'GET', rawHeaders = ['Host', 'localhost:3000'] } = {}) => {
  const headers: Record<string, string> = {};
  for (let at = 0; at < rawHeaders.length; at += 2) {
    headers[(rawHeaders[at] ?? '').toLowerCase()] ??= rawHeaders[at + 1] ?? '';
  }
  return readPlain({ method, url, rawHeaders, headers } as unknown as IncomingMessage);
};

test('accepts only targets that URL parsing would not change', () => {
  const character = fc.oneof(
    fc.constantFrom(...'/.%?#&=+*~\\|{}[]()<>"\' \t'),
    fc.constantFrom('..', '%2e', 'é', '\u007f', '\0'),
    fc.string({ maxLength: 3 }),
  );
  const text = fc.array(character, { maxLength: 6 }).map((characters) => characters.join(''));
  let accepted = 0;
  fc.assert(
    fc.property(
      fc.constantFrom('', 'rpc/', '../'),
      fc.constantFrom('', 'a', 'a/b'),
      text,
      text,
      (...parts) => {
        const [folder, name, odd, query] = parts;
        for (const target of [`/rest/v1/${folder}${name}${odd}?${query}`, `/rest/v1/${folder}a?a=${query}`]) {
          const plain = read(target);
          if (!plain) continue;
          accepted += 1;
          const { pathname, search, href } = new URL(`http://localhost:3000${target}`);
          expect([plain.pathname, plain.search, plain.url]).toEqual([pathname, search, href]);
        }
      },
    ),
    { numRuns: 300 },
  );
  expect(accepted).toBeGreaterThan(10);
});

test('accepts usual reads with all of their headers', () => {
  const rawHeaders = ['Host', 'shop.example', 'apikey', 'k', 'X-Forwarded-For', '41.90.1.1'];
  const plain = read('/rest/v1/rpc/track?select=id,items(*)&or=(a.eq.1,b.is.null)', { rawHeaders });
  expect(plain?.search).toBe('?select=id,items(*)&or=(a.eq.1,b.is.null)');
  expect(Object.fromEntries(plain?.headers ?? [])).toEqual({
    host: 'shop.example',
    apikey: 'k',
    'x-forwarded-for': '41.90.1.1',
  });
  expect(plain?.headers.get('constructor')).toBeNull();
  expect(plain?.toRequest().headers.get('apikey')).toBe('k');
});

test.each([
  ['another method', '/rest/v1/a', { method: 'POST' }],
  ['another service', '/auth/v1/user', {}],
  ['a path with dot segments', '/rest/v1/%2e%2e/a', {}],
  ['an encoded name', '/rest/v1/a%20b', {}],
  ['a repeated header', '/rest/v1/a', { rawHeaders: ['Host', 'a', 'Prefer', 'x', 'prefer', 'y'] }],
  ['no host', '/rest/v1/a', { rawHeaders: ['Accept', '*/*'] }],
  ['an invalid host', '/rest/v1/a', { rawHeaders: ['Host', 'a/b'] }],
])('does not accept %s', (_what, url, options) => {
  expect(read(url, options)).toBeNull();
});
