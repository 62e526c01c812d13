// The migration that adds towns to the spellings of areas: on a shop whose owner has edited them.
import { readdir, readFile } from 'node:fs/promises';
import { testDatabases, throwawayDatabase } from '@jani-juice/backend/testing';
import { expect, test } from 'vitest';
import { shopMigrations } from '../../../scripts/databases/shop-migrations.ts';

const [kind = 'pglite'] = testDatabases();
const folder = shopMigrations.find(({ name }) => name === 'shop')?.folder ?? '';

test('towns are added where the name of the area is unchanged, and not those of another area', async () => {
  const file = (await readdir(folder)).find((name) => name.endsWith('_towns.sql'));
  const migration = await readFile(`${folder}/${file}`, 'utf8');
  const database = await throwawayDatabase(kind, shopMigrations);
  const far = async () =>
    (
      await database.query<{ name: string; spellings: string[] }>(
        'select name, spellings from public.delivery_areas where needs_agreement',
      )
    ).rows[0];
  await database.execute(`
    update public.delivery_areas set spellings = array['Mombasa', 'juja', 'My village'] where needs_agreement;
    insert into public.delivery_areas (name, spellings) values ('Thika', array['Kenol']);
  `);
  await database.execute(migration);
  const spellings = (await far())?.spellings;
  expect(spellings).toEqual(expect.arrayContaining(['Mombasa', 'juja', 'My village', 'Ukunda']));
  for (const absent of ['Thika', 'Kenol', 'Juja']) expect(spellings).not.toContain(absent);

  await database.execute(
    `update public.delivery_areas set name = 'Upcountry', spellings = array['Mombasa'] where needs_agreement`,
  );
  await database.execute(migration);
  expect(await far()).toEqual({ name: 'Upcountry', spellings: ['Mombasa'] });
  await database.close();
});
