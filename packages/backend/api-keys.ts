// The keys of the built-in services: two API keys and the key that signs access tokens. Created once, stored on disk.
import { randomBytes, timingSafeEqual } from 'node:crypto';
import { mkdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { exportJWK, generateKeyPair, importJWK, type JWK } from 'jose';
import { writeDurably } from './durable-file.ts';

export interface ApiKeys {
  /** `sb_publishable_…`: for the role `anon`; public. */
  publishable: string;
  /** `sb_secret_…`: for the role `service_role`; never leaves the server. */
  secret: string;
  /** Private keys (ES256 or RS256) as JWKs with `kid` and `alg`; the first signs, all verify. */
  signingKeys: JWK[];
  /** A secret shared with other systems that sign or verify tokens (HS256). Signs only when there is no private key. */
  sharedSecret?: string | undefined;
}

/** `keys.json` is unusable. The message is one sentence for the operator and never contains the file's content. */
export class UnusableKeysFile extends Error {
  override readonly name = 'UnusableKeysFile';
}

/** Keys from the configuration. */
export interface GivenKeys {
  publishable?: string | undefined;
  secret?: string | undefined;
  signingKeys?: readonly JWK[] | undefined;
  sharedSecret?: string | undefined;
}

/**
 * Reads the keys, or creates them on the first start. Processes that start concurrently get the same ones.
 * @param folder contains `keys.json`, readable by its owner only
 * @param configured keys from the configuration, which take precedence
 * @throws UnusableKeysFile
 */
export async function loadApiKeys(folder: string, configured: GivenKeys = {}): Promise<ApiKeys> {
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const path = join(folder, 'keys.json');
  const stored = (await readKeys(path)) ?? (await makeKeys(path));
  // A shared secret without a private key signs.
  const signingKeys = configured.signingKeys ?? (configured.sharedSecret ? [] : stored.signingKeys);
  return {
    publishable: configured.publishable ?? stored.publishable,
    secret: configured.secret ?? stored.secret,
    signingKeys: signingKeys.map(checkSigningKey),
    sharedSecret: configured.sharedSecret,
  };
}

/**
 * Adds a new signing key before the stored ones. The two before it still verify, so that no one is signed out; running
 * processes use it after a restart.
 * @param folder contains `keys.json`
 * @returns the new key's id
 * @throws UnusableKeysFile
 */
export async function rotateSigningKey(folder: string): Promise<string> {
  const path = join(folder, 'keys.json');
  const stored = (await readKeys(path)) ?? (await makeKeys(path));
  const key = await makeSigningKey();
  const keys: ApiKeys = { ...stored, signingKeys: [key, ...stored.signingKeys.slice(0, 2)] };
  await writeDurably(path, `${JSON.stringify(keys, null, 2)}\n`);
  return key.kid;
}

function checkSigningKey(key: JWK): JWK {
  if (isSigningKey(key)) return key;
  throw new Error('a signing key must be a private JWK with "kid" and "alg" ES256 or RS256');
}

function isSigningKey(key: JWK): key is JWK & { alg: string } {
  return Boolean(key.kid && key.d && (key.alg === 'ES256' || key.alg === 'RS256'));
}

async function makeSigningKey(): Promise<JWK & { kid: string }> {
  const { privateKey } = await generateKeyPair('ES256', { extractable: true });
  return { ...(await exportJWK(privateKey)), alg: 'ES256', use: 'sig', kid: randomBytes(8).toString('hex') };
}

async function readKeys(path: string): Promise<ApiKeys | null> {
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT') return null;
    throw new UnusableKeysFile(`${path} cannot be read (${code}).`);
  }
  // JSON.parse's message quotes the file.
  const keys = await parseKeys(text).catch(() => null);
  if (keys) return keys;
  throw new UnusableKeysFile(
    `${path} does not hold API keys and signing keys; restore the file from a backup, or delete it to make new keys (everyone is signed out then).`,
  );
}

async function parseKeys(text: string): Promise<ApiKeys | null> {
  const keys = JSON.parse(text) as ApiKeys;
  const isComplete =
    [keys.publishable, keys.secret].every((key) => typeof key === 'string' && key !== '') &&
    keys.signingKeys.length > 0 &&
    keys.signingKeys.every(isSigningKey);
  if (!isComplete) return null;
  for (const { key_ops: _uses, ...key } of keys.signingKeys) await importJWK(key as JWK, key.alg);
  return keys;
}

async function makeKeys(path: string): Promise<ApiKeys> {
  const keys: ApiKeys = {
    publishable: `sb_publishable_${randomBytes(24).toString('base64url')}`,
    secret: `sb_secret_${randomBytes(24).toString('base64url')}`,
    signingKeys: [await makeSigningKey()],
  };
  try {
    await writeDurably(path, `${JSON.stringify(keys, null, 2)}\n`, { isNew: true });
    return keys;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    const first = await readKeys(path);
    if (!first) throw error;
    return first;
  }
}

/** Compares two secrets in constant time. */
export function isSameSecret(actual: string, expected: string): boolean {
  const [a, b] = [Buffer.from(actual), Buffer.from(expected)];
  return a.length === b.length && timingSafeEqual(a, b);
}
