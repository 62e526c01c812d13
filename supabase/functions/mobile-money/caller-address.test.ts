import { expect, test } from 'vitest';
import { createCallerAddress, visitorHeaders, visitorToken } from './caller-address.ts';

const secretKey = 'sb_secret_of_the_shop';
const callerAddress = createCallerAddress(['sb_secret_default', secretKey]);
const from = (headers: Record<string, string>) =>
  callerAddress(new Request('https://project.test/', { headers }));

test('uses the IP address from the network of a hosted project, not the client’s headers', () => {
  const seen = { 'cf-connecting-ip': '203.0.113.7' };
  expect(from({ ...seen, 'x-forwarded-for': '198.51.100.1, 203.0.113.7' })).toBe('203.0.113.7');
  expect(from({ ...seen, [visitorHeaders.address]: '198.51.100.1' })).toBe('203.0.113.7');
  const guessed = { [visitorHeaders.address]: '198.51.100.1', [visitorHeaders.token]: 'a'.repeat(64) };
  expect(from({ ...seen, ...guessed })).toBe('203.0.113.7');
});

test('uses the last address of a list, which the nearest proxy added', () => {
  expect(from({ 'x-forwarded-for': '198.51.100.1, 203.0.113.7' })).toBe('203.0.113.7');
  expect(from({})).toBeNull();
});

test("uses the visitor's IP address that the shop's own server sends with a token of any of the keys", () => {
  const named = { 'cf-connecting-ip': '203.0.113.7', [visitorHeaders.address]: '198.51.100.1' };
  for (const key of ['sb_secret_default', secretKey]) {
    expect(from({ ...named, [visitorHeaders.token]: visitorToken(key) })).toBe('198.51.100.1');
  }
  expect(from({ ...named, [visitorHeaders.token]: visitorToken('sb_secret_other') })).toBe('203.0.113.7');
});
