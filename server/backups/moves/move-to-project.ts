// Moves a shop to a hosted Supabase project, whose tables of accounts and files belong to the platform.
import { buffer } from 'node:stream/consumers';
import type { Database, Session } from '@jani-juice/backend/database';
import { openPostgresql } from '@jani-juice/backend/postgresql';
import type { FileStore } from '@jani-juice/backend/storage';
import { StorageClient } from '@supabase/storage-js';
import { keyHeaders } from '../../../supabase/store.ts';
import { Refused } from '../copying/create-database.ts';
import type { RowSource } from '../copying/row-source.ts';
import { type Adaptation, hasRows, replaceRows } from '../copying/write-rows.ts';
import type { Content } from '../manifest.ts';

export interface ProjectTarget {
  /** Its database, as the role `postgres`: the direct connection or the session pooler. */
  url: string;
  /** Such as `https://abc.supabase.co`. */
  projectUrl: string;
  secretKey: string;
}

/**
 * Moves accounts, second factors, files and the shop's own rows. Sessions and sent links stay behind: the project signs its tokens
 * with its own keys.
 * @throws Refused, ContentMismatch
 */
export async function moveToProject(
  files: FileStore,
  target: ProjectTarget,
  session: Session,
  rows: RowSource,
): Promise<{ content: Content; files: number }> {
  const database = openPostgresql(target.url, { poolSize: 1 });
  try {
    const isOccupied = await checkProject(database);
    const adaptation = projectTables(target.projectUrl);
    const isMoved =
      isOccupied &&
      (await database.transaction((theirs) => hasRows(theirs, rows, adaptation), {
        readOnly: true,
        isolation: 'repeatable read',
      }));
    if (isOccupied && !isMoved) {
      throw new Refused('There is another shop, or an account, in that project. Move to a new one.');
    }
    const count = await uploadFiles(files, target, session, database);
    const content: Content = isMoved
      ? await rows.finish()
      : await database.transaction((theirs) => replaceRows(theirs, rows, adaptation), {
          settings: { lock_timeout: '20s' },
        });
    return { content, files: count };
  } finally {
    await database.close();
  }
}

/** @returns whether someone uses the shop there, or has an account */
async function checkProject(database: Database): Promise<boolean> {
  const { rows } = await database.query<{ is_project: boolean; is_shop: boolean }>(
    `select exists (select from pg_namespace where nspname = 'auth' and pg_get_userbyid(nspowner) like 'supabase%') as is_project,
       to_regclass('public.orders') is not null as is_shop`,
  );
  if (!rows[0]?.is_project)
    throw new Refused('That is not the database of a Supabase project: leave out --project.');
  if (!rows[0].is_shop) throw new Refused('The project has no tables yet: run npx supabase db push first.');
  const { rows: found } = await database.query<{ is_used: boolean }>(
    `select exists (select from public.orders) or exists (select from public.admin_profiles)
       or exists (select from auth.users) as is_used`,
  );
  return found[0]?.is_used ?? true;
}

const accountTables = ['auth.users', 'auth.identities', 'auth.mfa_factors'];

// The platform's auth service reads these columns as texts and fails for null, and finds accounts of this instance only.
const accountDefaults: Record<string, string> = {
  instance_id: '00000000-0000-0000-0000-000000000000',
  confirmation_token: '',
  recovery_token: '',
  email_change_token_new: '',
  email_change: '',
  email_change_token_current: '',
  phone_change: '',
  phone_change_token: '',
  reauthentication_token: '',
};

/** The versions of the platform's tables differ, so only columns that both databases have are written there. */
function projectTables(projectUrl: string): Adaptation {
  const isOwn = (table: string) => /^(public|private)\./.test(table);
  return {
    isOwn,
    isWritten: (table) => isOwn(table) || accountTables.includes(table),
    changeRow(table, row) {
      if (table === 'auth.users') {
        for (const [column, value] of Object.entries(accountDefaults)) {
          if (column in row) row[column] ??= value;
        }
      }
      // The shop's own services have the same host as its pages.
      if (table === 'public.products') {
        for (const column of ['image_url', 'more_images']) {
          // Several are written as {a,b}.
          row[column] = row[column]?.replaceAll(/(?<![^{,])\/storage\/v1\//g, `${projectUrl}$&`) ?? null;
        }
      }
    },
  };
}

interface StoredObject {
  file: string;
  bucket: string;
  name: string;
  size: string | null;
  type: string | null;
  cache_control: string | null;
}

/** Uploads the objects that the project does not have. */
async function uploadFiles(
  files: FileStore,
  { projectUrl, secretKey }: ProjectTarget,
  session: Session,
  database: Database,
): Promise<number> {
  const storage = new StorageClient(`${projectUrl}/storage/v1`, keyHeaders(secretKey));
  const { rows: buckets } = await session.query<{ id: string; is_public: boolean }>(
    'select id, public as is_public from storage.buckets',
  );
  for (const { id, is_public } of buckets) {
    const { rowCount } = await database.query('select from storage.buckets where id = $1', [id]);
    if (rowCount > 0) continue;
    const { error } = await storage.createBucket(id, { public: is_public });
    if (error) throw new Refused(`The project does not create the bucket ${id}: ${error.message}`);
  }
  const present = new Set<string>();
  const { rows: uploaded } = await database.query<{ name: string }>(
    `select bucket_id || '/' || name || ' ' || coalesce(metadata ->> 'size', '') as name from storage.objects`,
  );
  for (const { name } of uploaded) present.add(name);
  const { rows: objects } = await session.query<StoredObject>(
    `select (select id::text from storage.installations) || '/' || version as file, bucket_id as bucket, name,
       metadata ->> 'size' as size, metadata ->> 'mimetype' as type, metadata ->> 'cacheControl' as cache_control
     from storage.objects order by bucket_id, name`,
  );
  for (const { file, bucket, name, size, type, cache_control } of objects) {
    if (present.has(`${bucket}/${name} ${size ?? ''}`)) continue;
    const seconds = /\d+/.exec(cache_control ?? '')?.[0];
    const { error } = await storage.from(bucket).upload(name, await buffer(await files.read(file)), {
      upsert: true,
      ...(type ? { contentType: type } : {}),
      ...(seconds ? { cacheControl: seconds } : {}),
    });
    if (error) throw new Refused(`The project does not store ${bucket}/${name}: ${error.message}`);
  }
  return objects.length;
}
