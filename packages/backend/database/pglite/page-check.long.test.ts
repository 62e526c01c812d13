// Damaged files of the embedded database: each is found at the start, with the place and the cause, or does no harm.
import { cp, mkdtemp, open, readdir, rm, stat, truncate } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { sharedBuffers } from '../../testing/throwaway.ts';
import { pageBytes } from './page-check.ts';
import { openPglite } from './pglite.ts';

const options = { isDurable: true, sharedBuffers };
const rows = 4000;

let place: string;
let whole: string;
let afterKill: string;
const files: Record<string, string> = {};

beforeAll(async () => {
  place = await mkdtemp(join(tmpdir(), 'jani-damage-'));
  whole = join(place, 'whole');
  afterKill = join(place, 'after-kill');
  const database = await openPglite(whole, options);
  await database.execute(`
    create table drinks (id integer primary key, shelf integer, note text);
    create index by_shelf on drinks (shelf);
    alter table drinks alter note set storage external;
    insert into drinks select n, n % 7, repeat(md5(n::text), case when n % 100 = 0 then 100 else 3 end) from generate_series(1, ${rows}) n;
    create table emptied (id integer primary key);
    insert into emptied select generate_series(1, 2000);
    delete from emptied;`);
  for (const statement of ['vacuum emptied', 'vacuum drinks', 'checkpoint'])
    await database.execute(statement);
  const found = await database.query<{ name: string; path: string }>(`
    select name, pg_relation_filepath(name::regclass) as path
    from unnest(array['drinks', 'drinks_pkey', 'by_shelf', 'pg_proc', 'pg_class', 'pg_attribute', 'pg_class_oid_index', 'pg_depend',
      (select reltoastrelid::regclass::text from pg_class where relname = 'drinks'),
      (select indexrelid::regclass::text from pg_index where indrelid = (select reltoastrelid from pg_class where relname = 'drinks'))
    ]) name`);
  for (const { name, path } of found.rows) {
    files[/toast.*index/.test(name) ? 'toast index' : /toast/.test(name) ? 'toast' : name] = path;
  }
  await database.execute(
    `insert into drinks select n, 1, 'late' from generate_series(${rows + 1}, ${rows + 100}) n`,
  );
  // As after a kill: the last rows are in the log only.
  await cp(whole, afterKill, { recursive: true });
  await database.close();
});
afterAll(() => rm(place, { recursive: true }));

type Damage = (folder: string) => Promise<void>;
const overwrite =
  (name: string, at: number, bytes: Buffer): Damage =>
  async (folder) => {
    const file = await open(join(folder, files[name] ?? name), 'r+');
    await file.write(bytes, 0, bytes.length, at);
    await file.close();
  };
const noise = Buffer.from('not what was written here');
const zeros = Buffer.alloc(pageBytes);
const cut =
  (name: string, part: (size: number) => number): Damage =>
  async (folder) => {
    const path = join(folder, files[name] ?? name);
    await truncate(path, part((await stat(path)).size));
  };
const half = (size: number) => Math.floor(size / 2 / pageBytes) * pageBytes;
const lastPage = (size: number) => size - pageBytes;
const firstLog = async (folder: string) => {
  const [name = ''] = (await readdir(join(folder, 'pg_wal')))
    .filter((file) => /^[0-9A-F]{24}$/.test(file))
    .sort();
  return join('pg_wal', name);
};

/** Opens a damaged copy. */
const start = async (damage: Damage, source = whole) => {
  const folder = await mkdtemp(join(place, 'copy-'));
  await cp(source, folder, { recursive: true });
  await damage(folder);
  try {
    const database = await openPglite(folder, options);
    try {
      const found = await database.query<{ count: number; shelves: number }>(
        'select count(*)::integer as count, count(distinct shelf)::integer as shelves from drinks where length(note) > 0',
      );
      return found.rows[0];
    } finally {
      await database.close();
    }
  } finally {
    await rm(folder, { recursive: true });
  }
};

describe('a start', () => {
  test('accepts undamaged files, after a stop and after a kill', async () => {
    const all = { count: rows + 100, shelves: 7 };
    expect(await start(async () => {})).toEqual(all);
    expect(await start(async () => {}, afterKill)).toEqual(all);
  });

  test.each<[string, Damage]>([
    ['bytes in a row', overwrite('drinks', 3 * pageBytes + 5000, noise)],
    ['a bit in a row', overwrite('drinks', 2 * pageBytes + 6000, Buffer.of(0x5a))],
    ['bytes in the header of a page', overwrite('drinks', 4 * pageBytes + 12, noise)],
    ['a page of zeros in a table', overwrite('drinks', 5 * pageBytes, zeros)],
    ['a page in the place of another', overwrite('drinks', 6 * pageBytes + 1, zeros.subarray(0, 4000))],
    ['bytes in an index', overwrite('by_shelf', pageBytes + 6000, noise)],
    ['a page of zeros in an index', overwrite('drinks_pkey', 2 * pageBytes, zeros)],
    ['bytes in a long value', overwrite('toast', 2 * pageBytes + 3000, noise)],
    ['bytes in the index of long values', overwrite('toast index', pageBytes + 5000, noise)],
    ['bytes in the catalogue of functions', overwrite('pg_proc', 10 * pageBytes + 3000, noise)],
    ['bytes in the catalogue of tables', overwrite('pg_class', pageBytes + 3000, noise)],
    ['bytes in an index of the catalogue', overwrite('pg_class_oid_index', pageBytes + 4000, noise)],
    ['a table cut in its middle', cut('drinks', half)],
    ['a table without its last page', cut('drinks', lastPage)],
    ['a table with half a page', cut('drinks', (size) => size - 100)],
    ['an index cut in its middle', cut('drinks_pkey', half)],
    ['an index without its last page', cut('by_shelf', lastPage)],
    ['long values cut in their middle', cut('toast', half)],
    ['the index of long values without its last page', cut('toast index', lastPage)],
    ['a catalogue cut in its middle', cut('pg_attribute', half)],
    ['dependencies cut in their middle', cut('pg_depend', half)],
    ['the control file', overwrite('global/pg_control', 40, noise)],
  ])('is refused: %s', async (_, damage) => {
    await expect(start(damage)).rejects.toMatchObject({
      code: expect.stringMatching(/^(XX001|XX002|58P01|58030)$/),
      message: expect.stringMatching(/damaged|invalid page|could not read|unexpected zero page/),
    });
  });

  test('is refused without the log that a checkpoint needs', async () => {
    const lose: Damage = async (folder) => rm(join(folder, await firstLog(folder)));
    await expect(start(lose)).rejects.toMatchObject({ code: 'XX001' });
  });

  test('accepts damage that PostgreSQL repairs', async () => {
    const all = { count: rows + 100, shelves: 7 };
    // The maps of free space and of visible pages are only hints.
    const maps: Damage = async (folder) => {
      for (const map of ['_fsm', '_vm']) await overwrite(`${files.drinks}${map}`, 100, noise)(folder);
    };
    expect(await start(maps)).toEqual(all);
  });
});
