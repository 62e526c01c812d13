// Processes on one PostgreSQL must share their keys.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openPostgresql } from '@jani-juice/backend/postgresql';
import { type ApiKeys, loadApiKeys, rotateSigningKey } from '@jani-juice/backend/settings';
import { testDatabases, throwawayDatabase } from '@jani-juice/backend/testing';
import { describe, expect, test } from 'vitest';
import { claimDatabase } from './persistence.ts';

const refusal = 'Another process with other keys uses this database';

describe.runIf(testDatabases().includes('postgresql'))('a database with several processes', () => {
  test('accepts processes with the same keys, and rejects others while one of those runs', async () => {
    const folders = await Promise.all([1, 2].map(() => mkdtemp(join(tmpdir(), 'jani-keys-'))));
    const [ours = '', others = ''] = folders;
    const empty = await throwawayDatabase('postgresql', []);
    const start = async (keys: ApiKeys) => {
      const database = openPostgresql(empty.url ?? '', { poolSize: 1 });
      const claimed = await claimDatabase(database, keys).then(
        () => null,
        (error: Error) => error.message,
      );
      if (claimed !== null) await database.close();
      return { problem: claimed, close: () => database.close() };
    };
    const keys = await loadApiKeys(ours);
    const [first, second] = [await start(keys), await start(keys)];
    expect([first.problem, second.problem]).toEqual([null, null]);
    const stranger = await loadApiKeys(others);
    expect((await start(stranger)).problem).toContain(refusal);
    // The same configured API keys, but tokens that the others cannot verify.
    const { publishable, secret } = keys;
    expect((await start({ ...stranger, publishable, secret })).problem).toContain(refusal);
    expect(
      (await start({ ...keys, signingKeys: [], sharedSecret: 'of another application' })).problem,
    ).toContain(refusal);

    // A new signing key is adopted by one process after another.
    await first.close();
    await rotateSigningKey(ours);
    const renewed = await start(await loadApiKeys(ours));
    expect(renewed.problem).toBeNull();
    await second.close();

    // The claim outlives a lost connection.
    const lost = await empty.query(
      `select pg_terminate_backend(pid) from pg_stat_activity
       where application_name = 'backend notifications' and datname = current_database()`,
    );
    expect(lost.rowCount).toBe(1);
    await expect
      .poll(async () => {
        const attempt = await start(stranger);
        if (attempt.problem === null) await attempt.close();
        return attempt.problem;
      })
      .toContain(refusal);

    await renewed.close();
    const next = await start(stranger);
    expect(next.problem).toBeNull();
    await next.close();
    await empty.close();
    for (const folder of folders) await rm(folder, { recursive: true });
  });
});
