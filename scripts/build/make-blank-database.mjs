// Creates the blank database from which new shops start (packages/backend/database/pglite/blank-pglite.ts), unless the one of this version
// of PGlite exists. It is empty: data unique to a shop, such as its installation id, is created by its own first start.
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { PGlite } from '@electric-sql/pglite';

const program = fileURLToPath(import.meta.resolve('@electric-sql/pglite'));
const { version } = JSON.parse(readFileSync(join(dirname(program), '../package.json'), 'utf8'));
const folder = join(dirname(fileURLToPath(import.meta.url)), '../../build/blank-database');
const file = join(folder, `${version}.tar.gz`);

if (!existsSync(file)) {
  const database = await PGlite.create();
  const archive = await database.dumpDataDir('gzip');
  await database.close();
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  // Renamed when complete, so that no process reads a part of it.
  const making = `${file}.${process.pid}`;
  writeFileSync(making, Buffer.from(await archive.arrayBuffer()));
  renameSync(making, file);
}
