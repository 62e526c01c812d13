import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { loadApiKeys, rotateSigningKey, UnusableKeysFile } from './api-keys.ts';
import { createAccessTokens } from './authenticate.ts';

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'keys-'));
});
afterEach(() => rm(folder, { recursive: true, force: true }));

const claims = () => ({ role: 'authenticated', exp: Math.floor(Date.now() / 1000) + 60 });

test('creates the keys once for processes that start concurrently, readable by their owner only', async () => {
  const all = await Promise.all(Array.from({ length: 4 }, () => loadApiKeys(folder)));
  for (const keys of all) expect(keys).toEqual(all[0]);
  expect((await stat(join(folder, 'keys.json'))).mode & 0o077).toBe(0);
});

test('a new signing key signs immediately, and the two before it still verify', async () => {
  const issued: string[] = [];
  for (let turn = 0; turn < 4; turn++) {
    issued.push(await createAccessTokens(await loadApiKeys(folder)).sign(claims()));
    await rotateSigningKey(folder);
  }
  const { verify, publicKeys } = createAccessTokens(await loadApiKeys(folder));
  expect(publicKeys).toHaveLength(3);
  const outcomes = await Promise.all(
    issued.map((token) =>
      verify(token).then(
        () => 'good',
        () => 'refused',
      ),
    ),
  );
  expect(outcomes).toEqual(['refused', 'refused', 'good', 'good']);
  expect((await stat(join(folder, 'keys.json'))).mode & 0o077).toBe(0);
});

test('configured keys take precedence over stored ones and are never stored', async () => {
  await loadApiKeys(folder);
  const shared = await loadApiKeys(folder, { secret: 'sb_secret_mine', sharedSecret: 'shared with others' });
  expect(shared).toMatchObject({
    secret: 'sb_secret_mine',
    sharedSecret: 'shared with others',
    signingKeys: [],
  });
  expect(await readFile(join(folder, 'keys.json'), 'utf8')).not.toContain('mine');
  await expect(loadApiKeys(folder, { signingKeys: [{ kty: 'EC', alg: 'HS256', kid: 'x' }] })).rejects.toThrow(
    'a signing key must be a private JWK',
  );
});

test('reports an unusable keys file without its content', async () => {
  const path = join(folder, 'keys.json');
  const keys = await loadApiKeys(folder);
  const [signingKey] = keys.signingKeys;
  const broken = [
    '',
    'sb_secret_hidden',
    '"sb_secret_hidden"',
    'null',
    '[]',
    '{"secret":"sb_secret_hidden"',
    JSON.stringify({ ...keys, secret: 7 }),
    JSON.stringify({ ...keys, publishable: undefined }),
    JSON.stringify({ ...keys, signingKeys: [] }),
    JSON.stringify({ ...keys, signingKeys: [null] }),
    JSON.stringify({ ...keys, signingKeys: [{ ...signingKey, alg: 'HS256' }] }),
    JSON.stringify({ ...keys, signingKeys: [{ ...signingKey, x: 'not a point' }] }),
  ];
  for (const text of broken) {
    await writeFile(path, text);
    const error = await loadApiKeys(folder).catch((thrown: unknown) => thrown);
    expect(error, text).toBeInstanceOf(UnusableKeysFile);
    expect(String(error), text).toMatch(/keys\.json does not hold API keys and signing keys; restore /);
    expect(String(error)).not.toContain('hidden');
    await expect(rotateSigningKey(folder)).rejects.toBeInstanceOf(UnusableKeysFile);
  }
  await writeFile(path, JSON.stringify(keys));
  expect(await loadApiKeys(folder)).toEqual(keys);
});
