// Every path of the shop and its services that answers GET, for the test that opens them all.
import { readFile } from 'node:fs/promises';
import { readableAuthPaths } from '@jani-juice/backend';
import routes from '../../web/routes.ts';

type Entry = (typeof routes)[number];

/** Paths of all pages. @param values for the parameters of their routes */
export const listPagePaths = (values: Record<string, string>): string[] =>
  routes.flatMap((entry) => pathsOf(entry, '', values));

function pathsOf(entry: Entry, parent: string, values: Record<string, string>): string[] {
  const path = [parent, entry.path ?? ''].filter(Boolean).join('/');
  if (entry.children?.length) return entry.children.flatMap((child) => pathsOf(child, path, values));
  const filled = path.replace(/:(\w+)\??/g, (_, name: string) => {
    const value = values[name];
    if (value === undefined) throw new Error(`there is no value for :${name} of ${path}`);
    return value;
  });
  return [`/${filled.replace('*', 'no-such-page')}`];
}

/** Paths of the auth service, below its prefix; `:name` stands for one part. */
export const listAuthPaths = (): readonly string[] => readableAuthPaths;

/** Paths of the storage service, below its prefix, with `{bucket}` and `{key}`. */
export async function listStoragePaths(): Promise<string[]> {
  const source = await readFile(
    new URL('../../packages/backend/storage/service.ts', import.meta.url),
    'utf8',
  );
  return [...source.matchAll(/\(\s*'GET[^']*',\s+'([^']+)'/g)].map(([, path = '']) => path);
}
