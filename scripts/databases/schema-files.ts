// The files of supabase/schemas/, for what reads all of them.
import { readdirSync, readFileSync } from 'node:fs';

const folder = new URL('../../supabase/schemas/', import.meta.url);

/** Returns the files in the order in which they apply, with their paths below `supabase/schemas/`. */
export const readSchemas = (): { path: string; sql: string }[] =>
  readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('.sql'))
    .map((path) => path.replaceAll('\\', '/'))
    .sort()
    .map((path) => ({ path, sql: readFileSync(new URL(path, folder), 'utf8') }));
