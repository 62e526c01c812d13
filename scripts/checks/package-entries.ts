// The workspace packages, and the files behind the names under which others import them.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

const root = join(import.meta.dirname, '../..');

export interface PackageFile {
  /** Relative to the project's folder; empty for the project itself. */
  folder: string;
  name: string;
  exports?: Record<string, string>;
  dependencies: Record<string, string>;
  devDependencies: Record<string, string>;
}

const read = (folder: string): PackageFile => ({
  folder,
  ...JSON.parse(readFileSync(join(root, folder, 'package.json'), 'utf8')),
});

export const workspacePackages = readdirSync(join(root, 'packages')).map((name) => read(`packages/${name}`));
export const projectPackage = read('');

/** Files, relative to the project's folder, by import name. */
export const packageEntries: ReadonlyMap<string, string> = new Map(
  workspacePackages.flatMap(({ folder, name, exports = {} }) =>
    Object.entries(exports).map(([entry, file]) => [join(name, entry), join(folder, file)] as const),
  ),
);
