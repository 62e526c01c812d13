// Makes the blank database that first starts begin with (backend/database/blank-pglite.ts), unless this version of PGlite has
// made one. Nothing is in it: what a shop must not share with another, as the number of its installation, its own first start makes.
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { PGlite } from '@electric-sql/pglite';

const program = fileURLToPath(import.meta.resolve('@electric-sql/pglite'));
const { version } = JSON.parse(readFileSync(join(dirname(program), '../package.json'), 'utf8'));
const folder = join(dirname(dirname(fileURLToPath(import.meta.url))), 'build', 'blank-database');
const file = join(folder, `${version}.tar.gz`);

if (!existsSync(file)) {
  const database = await PGlite.create();
  const archive = await database.dumpDataDir('gzip');
  await database.close();
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  // Whole or not at all.
  const making = `${file}.${process.pid}`;
  writeFileSync(making, Buffer.from(await archive.arrayBuffer()));
  renameSync(making, file);
}
