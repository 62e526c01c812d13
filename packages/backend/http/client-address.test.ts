import type { IncomingMessage } from 'node:http';
import { expect, test } from 'vitest';
import { clientAddressOf, establishClientAddress } from './client-address.ts';

const seenFrom = (remoteAddress: string, forwarded: string | null, trustedProxies: number) => {
  const request = {
    headers: forwarded === null ? {} : { 'x-forwarded-for': forwarded },
    rawHeaders: forwarded === null ? ['Host', 'shop'] : ['Host', 'shop', 'X-Forwarded-For', forwarded],
    socket: { remoteAddress },
  } as unknown as IncomingMessage;
  establishClientAddress(request, trustedProxies);
  return request.rawHeaders;
};

test('without a proxy a client cannot choose its IP address', () => {
  expect(seenFrom('::ffff:196.201.214.200', '1.2.3.4', 0)).toEqual([
    'Host',
    'shop',
    'x-forwarded-for',
    '196.201.214.200',
  ]);
});

test('removes the header of a hosted network, which only a client can have written', () => {
  const request = {
    headers: { 'cf-connecting-ip': '1.2.3.4' },
    rawHeaders: ['Host', 'shop', 'CF-Connecting-IP', '1.2.3.4'],
    socket: { remoteAddress: '196.201.214.200' },
  } as unknown as IncomingMessage;
  establishClientAddress(request, 0);
  expect(request.rawHeaders).toEqual(['Host', 'shop', 'x-forwarded-for', '196.201.214.200']);
  expect(request.headers).toEqual({ 'x-forwarded-for': '196.201.214.200' });
});

test('behind a proxy uses the IP address that the proxy saw', () => {
  expect(seenFrom('127.0.0.1', '6.6.6.6, 41.90.1.1', 1).at(-1)).toBe('41.90.1.1');
  expect(seenFrom('127.0.0.1', null, 1).at(-1)).toBe('127.0.0.1');
});

test.each([
  ['41.90.1.1:50123', '41.90.1.1'],
  ['[2001:db8::1]:50123', '2001:db8::1'],
  ['2001:db8::1', '2001:db8::1'],
])('ignores the port that a proxy appends (%s)', (forwardedFor, address) => {
  expect(seenFrom('127.0.0.1', forwardedFor, 1).at(-1)).toBe(address);
});

test.each<[string, string[], number, string]>([
  [
    'the last of several headers, in any case',
    ['X-Forwarded-For', '6.6.6.6', 'x-FORWARDED-for', '41.90.1.1'],
    1,
    '41.90.1.1',
  ],
  ['the one before the second proxy', ['X-Forwarded-For', '6.6.6.6, 41.90.1.1, 10.0.0.2'], 2, '41.90.1.1'],
  ['the first where proxies are missing', ['X-Forwarded-For', '41.90.1.1'], 2, '41.90.1.1'],
  ['the entry between empty ones', ['X-Forwarded-For', ' , 41.90.1.1 ,'], 1, '41.90.1.1'],
  ['the connection where no proxy is trusted', ['X-Forwarded-For', '6.6.6.6'], 0, '10.0.0.1'],
])('uses %s', (_, rawHeaders, trustedProxies, address) => {
  const request = {
    headers: {},
    rawHeaders,
    socket: { remoteAddress: '::ffff:10.0.0.1' },
  } as unknown as IncomingMessage;
  expect(clientAddressOf(request, trustedProxies)).toBe(address);
  // The same after the header was replaced, as for a response that its client reads slowly.
  expect(establishClientAddress(request, trustedProxies)).toBe(address);
  expect(clientAddressOf(request, trustedProxies)).toBe(address);
});
