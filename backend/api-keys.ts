// The keys of the built-in services: two API keys and the key that signs access tokens. Made once, kept on disk.
import { randomBytes, timingSafeEqual } from 'node:crypto';
import { link, mkdir, readFile, unlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { exportJWK, generateKeyPair, type JWK } from 'jose';

export interface ApiKeys {
  /** `sb_publishable_…`: names the role anon, may be in any browser. */
  publishable: string;
  /** `sb_secret_…`: names the role service_role, never leaves the server. */
  secret: string;
  /** Private ES256 keys as JWKs with `kid`; the first signs, all verify. */
  signingKeys: JWK[];
}

/**
 * Reads the keys, or makes them on the first start. Processes that start at once end up with the same ones.
 * @param folder where `keys.json` is kept, readable by its owner alone
 * @param given keys set by a person, which win over the kept ones
 */
export async function loadApiKeys(
  folder: string,
  given: { publishable?: string | undefined; secret?: string | undefined } = {},
): Promise<ApiKeys> {
  await mkdir(folder, { recursive: true });
  const path = join(folder, 'keys.json');
  const kept = (await readKeys(path)) ?? (await makeKeys(path));
  return { ...kept, publishable: given.publishable ?? kept.publishable, secret: given.secret ?? kept.secret };
}

async function readKeys(path: string): Promise<ApiKeys | null> {
  try {
    return JSON.parse(await readFile(path, 'utf8')) as ApiKeys;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw new Error(`${path} cannot be read: ${(error as Error).message}`);
  }
}

async function makeKeys(path: string): Promise<ApiKeys> {
  const { privateKey } = await generateKeyPair('ES256', { extractable: true });
  const keys: ApiKeys = {
    publishable: `sb_publishable_${randomBytes(24).toString('base64url')}`,
    secret: `sb_secret_${randomBytes(24).toString('base64url')}`,
    signingKeys: [
      { ...(await exportJWK(privateKey)), alg: 'ES256', use: 'sig', kid: randomBytes(8).toString('hex') },
    ],
  };
  // A link is made whole or not at all, and only one process can be the first.
  const draft = `${path}.${randomBytes(6).toString('hex')}`;
  await writeFile(draft, `${JSON.stringify(keys, null, 2)}\n`, { mode: 0o600 });
  try {
    await link(draft, path);
    return keys;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    const first = await readKeys(path);
    if (!first) throw error;
    return first;
  } finally {
    await unlink(draft);
  }
}

/** Whether two secrets are the same, in a time that does not tell how much of them is. */
export function isSameSecret(given: string, expected: string): boolean {
  const [a, b] = [Buffer.from(given), Buffer.from(expected)];
  return a.length === b.length && timingSafeEqual(a, b);
}
