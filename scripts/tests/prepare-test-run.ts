// Vitest's global setup, once per run: a temporary folder, the blank database that most tests copy, and
// a throw-away PostgreSQL where the machine has its binaries.
import { mkdir, readdir, rm, statfs } from 'node:fs/promises';
import { freemem, tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';
import { prepareTemplate } from '@jani-juice/backend/testing';
import type { TestProject } from 'vitest/node';
import { shopMigrations } from '../databases/shop-migrations.ts';
import { findPostgresql, startThrowawayPostgresql } from '../databases/throwaway-postgresql.ts';

const memory = '/dev/shm';
const folderOf = (processId: number | string) => `jani-test-run-${processId}`;
/** Free space that a run needs, with a margin. */
const minFreeBytes = 4 * 1024 ** 3;

export default async function prepare({ vitest }: TestProject): Promise<() => Promise<void>> {
  if (vitest.projects.every(({ name }) => name === 'units')) return async () => {};
  const closers: (() => Promise<void>)[] = [];
  const close = async () => {
    for (const closer of closers.reverse()) await closer();
  };
  try {
    const folder = await makeFolderInMemory();
    if (folder) {
      process.env.TEST_TEMPLATES ??= tmpdir();
      process.env.TMPDIR = folder;
      closers.push(() => rm(folder, { recursive: true, force: true, maxRetries: 5 }));
    }
    const cluster = startPostgresql();
    closers.push(async () => (await cluster)?.stop());
    await Promise.all([cluster, prepareTemplate(shopMigrations)]);
    return close;
  } catch (error) {
    await close();
    throw error;
  }
}

async function startPostgresql() {
  if (process.env.TEST_POSTGRESQL_URL) return null;
  if (!(await findPostgresql())) {
    console.warn('No PostgreSQL on this machine: tests run on PGlite alone, races are skipped.');
    return null;
  }
  const cluster = await startThrowawayPostgresql();
  process.env.TEST_POSTGRESQL_URL = cluster.url;
  return cluster;
}

/** Tests write hundreds of temporary databases: in memory where enough of it is free. */
async function makeFolderInMemory(): Promise<string | null> {
  const space = await statfs(memory).catch(() => null);
  const free = process.availableMemory?.() ?? freemem();
  if (!space || space.bavail * space.bsize < minFreeBytes || free < minFreeBytes) return null;
  await forgetRunsThatWereKilled();
  const folder = join(memory, folderOf(process.pid));
  // PostgreSQL refuses to run as root, and its user needs access to the folder.
  await mkdir(folder, { mode: 0o711 });
  return folder;
}

async function forgetRunsThatWereKilled(): Promise<void> {
  for (const name of await readdir(memory)) {
    const processId = Number(/^jani-test-run-(\d+)$/.exec(name)?.[1]);
    if (!processId || isRunning(processId)) continue;
    await rm(join(memory, name), { recursive: true, force: true });
  }
}

function isRunning(processId: number): boolean {
  try {
    return process.kill(processId, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}
