// Moves a shop to a database of another kind. The source is only read.
import { access, mkdir, readdir, readFile, realpath, rename, rm, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { type Database, lockMigrations, type Session } from '@jani-juice/backend/database';
import { lockFolder, syncFile, writeDurably } from '@jani-juice/backend/files';
import { openPglite } from '@jani-juice/backend/pglite';
import { openPostgresql } from '@jani-juice/backend/postgresql';
import { createDiskFiles, type FileStore } from '@jani-juice/backend/storage';
import { copyFiles } from '../copying/copy-files.ts';
import { createEmbedded, createInPostgresql, findOccupant, Refused } from '../copying/create-database.ts';
import { databaseRows, type RowSource } from '../copying/row-source.ts';
import { hasRows } from '../copying/write-rows.ts';
import type { Content } from '../manifest.ts';
import { moveToProject, type ProjectTarget } from './move-to-project.ts';

export interface ShopPlace {
  /** Null: the embedded database in `dataDir`. */
  databaseUrl: string | null;
  dataDir: string;
  /** Uploaded files. */
  files: FileStore;
  /** Where uploaded files were before `files` was configured: a move to PostgreSQL copies them. */
  formerFiles?: FileStore | null;
}

export type MoveTarget =
  | { kind: 'embedded'; dataDir: string }
  | { kind: 'postgresql'; url: string }
  | ({ kind: 'project' } & ProjectTarget);

export interface Moved {
  content: Content;
  /** Number of copied files. Null: they stay where they are. */
  files: number | null;
}

/**
 * Moves a shop, which must be stopped. Interrupted at any moment, it can be repeated.
 * @param root the folder with the migrations: a release, or the project's
 * @throws Refused, FolderInUse when the shop runs, ContentMismatch, errors of either database
 */
export async function moveShop(from: ShopPlace, to: MoveTarget, root: string): Promise<Moved> {
  const source = await openSource(from);
  try {
    return await source.transaction(
      async (session) => {
        await expectShop(session);
        // No process can start on the source until the end.
        await lockMigrations(session);
        const rows = await databaseRows(session);
        if (to.kind === 'embedded') return moveToFolder(from, to.dataDir, session, rows, root);
        if (to.kind === 'project') return moveToProject(from.files, to, session, rows);
        const content = await moveToPostgresql(to.url, rows, root);
        if (!from.formerFiles) return { content, files: null };
        return {
          content,
          files: await copyFiles(await readInstallation(session), from.formerFiles, from.files),
        };
      },
      { readOnly: true, isolation: 'repeatable read' },
    );
  } finally {
    await source.close();
  }
}

async function openSource({ databaseUrl, dataDir }: ShopPlace): Promise<Database> {
  if (databaseUrl) {
    if ((await findOccupant(databaseUrl)) === 'a shop') return openPostgresql(databaseUrl, { poolSize: 1 });
    throw new Refused('There is no shop in the database of DATABASE_URL.');
  }
  const folder = join(dataDir, 'database');
  // Opening a missing one would create it.
  await access(folder).catch(() => {
    throw new Refused(`There is no embedded database in ${dataDir}.`);
  });
  return openPglite(folder);
}

async function expectShop(session: Session): Promise<void> {
  const { rows } = await session.query<{ is_shop: boolean }>(
    `select to_regclass('platform.schema_migrations') is not null and to_regclass('public.orders') is not null as is_shop`,
  );
  if (!rows[0]?.is_shop) throw new Refused('There is no shop in the database to move.');
}

async function moveToPostgresql(url: string, rows: RowSource, root: string): Promise<Content> {
  const occupant = await findOccupant(url);
  if (occupant === 'a Supabase project') {
    throw new Refused('That is the database of a Supabase project: add its URL with --project.');
  }
  if (occupant === 'nothing') return createInPostgresql(url, rows, root, false);
  const target = openPostgresql(url, { poolSize: 1 });
  try {
    const isMoved = await target.transaction((session) => hasRows(session, rows), {
      readOnly: true,
      isolation: 'repeatable read',
    });
    if (!isMoved) throw new Refused('There is another shop in that database. Move to an empty one.');
    return rows.finish();
  } finally {
    await target.close();
  }
}

/** Whether an embedded database has the rows already. */
async function isMovedTo(folder: string, rows: RowSource): Promise<boolean> {
  // Opening a missing one would create it.
  if (!(await stat(folder).catch(() => null))) return false;
  const database = await openPglite(folder).catch(() => null);
  if (!database) return false;
  try {
    return await database.transaction((session) => hasRows(session, rows), {
      readOnly: true,
      isolation: 'repeatable read',
    });
  } finally {
    await database.close();
  }
}

/** The folder gets its name once it is complete. */
async function moveToFolder(
  from: ShopPlace,
  dataDir: string,
  session: Session,
  rows: RowSource,
  root: string,
): Promise<Moved> {
  await mkdir(dirname(dataDir), { recursive: true });
  const folder = join(await realpath(dirname(dataDir)), basename(dataDir));
  const isSame = folder === (await realpath(from.dataDir).catch(() => null));
  const target = isSame ? join(folder, 'database') : folder;
  if ((await readdir(target).catch(() => [])).length > 0) {
    // The move was complete when it was interrupted.
    if (await isMovedTo(isSame ? target : join(target, 'database'), rows))
      return { content: await rows.finish(), files: null };
    throw new Refused(`${target} is not empty. Move to a new folder.`);
  }
  const draft = `${target}.moving`;
  const unlock = await lockFolder(draft);
  try {
    // What a move that was killed has left.
    await rm(draft, { recursive: true, force: true });
    if (!isSame) await mkdir(draft, { mode: 0o700 });
    const database = isSame ? draft : join(draft, 'database');
    const content = await createEmbedded({ folder: database, isTemporary: false }, rows, root);
    const files = isSame
      ? null
      : await copyFiles(await readInstallation(session), from.files, createDiskFiles(join(draft, 'storage')));
    if (!isSame) {
      await copyKeys(from.dataDir, draft);
    }
    await rename(draft, target);
    await syncFile(dirname(target));
    return { content, files };
  } finally {
    await unlock();
  }
}

async function copyKeys(from: string, to: string): Promise<void> {
  const keys = await readFile(join(from, 'keys.json')).catch((error: NodeJS.ErrnoException) => {
    // All keys may be in the settings.
    if (error.code === 'ENOENT') return null;
    throw error;
  });
  if (keys) await writeDurably(join(to, 'keys.json'), keys);
  await syncFile(to);
}

async function readInstallation(session: Session): Promise<string> {
  const { rows } = await session.query<{ id: string }>('select id from storage.installations');
  return rows[0]?.id ?? '';
}
