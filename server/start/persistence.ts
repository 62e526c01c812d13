// Opens the persistent state in its configured places: database, uploaded files, keys.
import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { type Database, type DatabaseError, receivesNotifications } from '@jani-juice/backend/database';
import { type ApiKeys, type GivenKeys, WrongSetting } from '@jani-juice/backend/settings';
import { createDiskFiles, createS3Files, type FileStore } from '@jani-juice/backend/storage';
import type { Config } from './settings/config.ts';

/** The configurable keys. */
export function readConfiguredKeys({ configuredKeys: keys, backend }: Config): GivenKeys {
  return { ...keys, signingKeys: backend.signingKeys, sharedSecret: backend.sharedSecret };
}

// Arbitrary constants below 2³¹, the same in every process.
const apiKeysGroup = 1_204_517_331;
const signingKeysGroup = 1_204_517_332;

const hash31 = (text: string) => createHash('sha256').update(text).digest().readUInt32BE() >>> 1;

/**
 * Claims the database for processes with these keys, for as long as it is open. Processes agree when they have the same API keys and at
 * least one signing key in common, so that signing keys can be replaced while others run.
 * @throws WrongSetting when a process with other keys uses the database: each would refuse the other's tokens
 */
export async function claimDatabase(database: Database, keys: ApiKeys): Promise<void> {
  const { publishable, secret, signingKeys, sharedSecret } = keys;
  const apiKeys = hash31(`${publishable} ${secret}`);
  const descriptions = [
    ...signingKeys.map(({ kid }) => `key ${kid}`),
    ...(sharedSecret ? [sharedSecret] : []),
  ];
  const signing = descriptions.map(hash31);
  const held = await database.shareLocks?.([
    { group: apiKeysGroup, value: apiKeys },
    ...signing.map((value) => ({ group: signingKeysGroup, value })),
  ]);
  const valuesOf = (group: number) => {
    const byHolder = new Map<number, number[]>();
    for (const lock of held ?? []) {
      if (lock.group === group) byHolder.set(lock.holder, [...(byHolder.get(lock.holder) ?? []), lock.value]);
    }
    return [...byHolder.values()];
  };
  const agrees =
    valuesOf(apiKeysGroup).every((values) => values.includes(apiKeys)) &&
    valuesOf(signingKeysGroup).every((values) => values.some((value) => signing.includes(value)));
  if (!agrees) {
    throw new WrongSetting(
      'Another process with other keys uses this database. Give all processes the same DATA_DIR, or the same SUPABASE_PUBLISHABLE_KEY, SUPABASE_SECRET_KEY and JWT_KEYS; to change the keys, stop all processes first.',
    );
  }
}

/** The store of uploaded files. */
export function openFiles({ s3, dataDir }: Config): FileStore {
  return s3 ? createS3Files(s3, join(dataDir, 'storage/work')) : createDiskFiles(join(dataDir, 'storage'));
}

/**
 * Opens the configured database.
 * @param root the folder that may contain a blank database, to create new ones from: a release, or the project's
 * @param onBreak called when the embedded database has broken
 */
export async function openDatabase(
  config: Config,
  onError: (error: unknown, where: string) => void,
  root: string,
  onBreak?: (error: DatabaseError) => void,
): Promise<Database> {
  // Loads only the required driver.
  if (config.databaseUrl) {
    const { openPostgresql } = await import('@jani-juice/backend/postgresql');
    const database = openPostgresql(config.databaseUrl, {
      poolSize: config.databasePool,
      listenUrl: config.databaseListenUrl ?? undefined,
      onError: (error) => onError(error, 'database'),
    });
    const receives = await receivesNotifications(database).catch(async (error) => {
      await database.close();
      throw error;
    });
    if (receives) return database;
    await database.close();
    throw new WrongSetting(
      config.databaseListenUrl
        ? 'No notification arrives at DATABASE_LISTEN_URL: it must be the database of DATABASE_URL itself, without a pooler in between.'
        : 'No notification arrives at DATABASE_URL: a pooler in transaction mode passes none on. Set DATABASE_LISTEN_URL to the address of the database itself.',
    );
  }
  const { openPglite } = await import('@jani-juice/backend/pglite');
  return openPglite(join(config.dataDir, 'database'), {
    blanks: join(root, 'build/blank-database'),
    ...(onBreak ? { onBreak } : {}),
  });
}
