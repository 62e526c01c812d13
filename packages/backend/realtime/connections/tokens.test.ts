import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { loadApiKeys } from '../../api-keys.ts';
import { type Authenticate, createAccessTokens, createAuthenticate } from '../../authenticate.ts';
import { claimsOf } from './tokens.ts';

let folder: string;
let authenticate: Authenticate;
let tokenWith: (claims: Record<string, unknown>) => Promise<string>;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'keys-'));
  const keys = await loadApiKeys(folder);
  authenticate = createAuthenticate(keys);
  tokenWith = (claims) => createAccessTokens(keys).sign({ role: 'authenticated', ...claims });
});
afterAll(() => rm(folder, { recursive: true, force: true }));

const inSeconds = (seconds: number) => Math.floor(Date.now() / 1000) + seconds;

test('a token is valid on a socket until it expires, without the tolerance of single requests', async () => {
  const valid = await tokenWith({ exp: inSeconds(60) });
  expect(await claimsOf(authenticate, valid)).toMatchObject({ role: 'authenticated' });
  const expired = await tokenWith({ exp: inSeconds(-10) });
  expect(await authenticate(expired)).toMatchObject({ role: 'authenticated' });
  await expect(claimsOf(authenticate, expired)).rejects.toThrow(/^Token has expired \d+ seconds ago$/);
});

test('a token without an expiry is refused on a socket', async () => {
  await expect(claimsOf(authenticate, await tokenWith({}))).rejects.toThrow(/`exp`/);
});
