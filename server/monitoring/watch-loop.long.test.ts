// A process with a broken database or a blocked main thread ends itself, and the next one finds all acknowledged writes.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openPglite } from '@jani-juice/backend/pglite';
import { copyMigratedDatabase, runProgram, sharedBuffers } from '@jani-juice/backend/testing';
import { expect, test } from 'vitest';
import { restartExitCode } from './end-broken.ts';

/** Runs a program on the embedded database of a folder, with a watchdog like the shop's. Returns its exit status and its output. */
function run(folder: string, program: string) {
  const script = `
    import { openPglite } from './packages/backend/database/pglite/pglite.ts';
    import { exitForRestart } from './server/monitoring/end-broken.ts';
    import { openLog } from './server/monitoring/log.ts';
    import { watchLoop } from './server/monitoring/watch-loop.ts';
    const log = openLog();
    const database = await openPglite(process.env.FOLDER, {
      sharedBuffers: '16MB', onBreak: (error) => exitForRestart(log, error),
    });
    await watchLoop(log, { maxCpuMs: 500, everyMs: 50 });
    ${program}
    process.exit(0);
  `;
  return runProgram(script, { FOLDER: folder }).ended;
}

test('an endless statement or a broken database ends the process, a long wait does not, and acknowledged writes are retained', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'jani-watch-'));
  const database = join(folder, 'database');
  await copyMigratedDatabase(database, []);
  const caught = await run(
    database,
    `await database.execute('create table public.retained (n integer); insert into public.retained values (1)');
     // A slow disk, or a sleeping machine: the event loop stops without using CPU time.
     Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1000);
     process.stdout.write('waited ');
     await database.execute('set statement_timeout = 100; do $$ begin loop null; end loop; end $$');
     process.stdout.write('went on');`,
  );
  expect(caught.output).toMatch(/^waited \{"level":"fatal",.*endless computation/);
  expect(caught).toMatchObject({ end: 'SIGKILL', output: expect.not.stringContaining('went on') });

  const broken = await run(
    database,
    `await database.query('insert into public.retained values (2)');
     await database.transaction(async (session) => {
       await session.query('insert into public.retained values (3)');
       await session.query("select '" + '['.repeat(20000) + "' is json");
     }).catch(() => {});
     process.stdout.write('went on');`,
  );
  expect(broken).toMatchObject({ end: restartExitCode, output: expect.not.stringContaining('went on') });
  expect(broken.output).toMatch(/"level":"fatal",.*The embedded database broke/);

  const next = await openPglite(database, { isDurable: false, sharedBuffers });
  expect((await next.query('select n from public.retained order by n')).rows).toEqual([{ n: 1 }, { n: 2 }]);
  await next.close();
  await rm(folder, { recursive: true });
});
