// A second build without building again: the same code, whose files for browsers all have other names.
import { cpSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { brotliCompressSync, constants } from 'node:zlib';

const isText = /\.(?:js|css|html|json|webmanifest)$/;

/**
 * Copies a release.
 * @param release folder of a release (scripts/releases/releases.mjs)
 * @param id name of the copy, beside it
 * @returns the folder of the copy
 */
export function makeOtherBuild(release: string, id: string): string {
  const folder = join(dirname(release), id);
  rmSync(folder, { recursive: true, force: true });
  cpSync(release, folder, { recursive: true, verbatimSymlinks: true });
  const assets = join(folder, 'client/assets');
  const renamed = new Map<string, string>();
  for (const name of readdirSync(assets)) {
    if (/\.(?:br|gz)$/.test(name)) rmSync(join(assets, name));
    else
      renamed.set(
        name,
        name.replace(/-([\w-]{8})(?=\.)/, (_, hash: string) => `-0${hash.slice(1)}`),
      );
  }
  for (const [name, other] of renamed) renameSync(join(assets, name), join(assets, other));
  const names = new RegExp(
    [...renamed.keys()].map((name) => name.replaceAll('.', '\\.').replaceAll('-', '\\-')).join('|'),
    'g',
  );
  for (const part of ['client', 'server']) {
    for (const path of readdirSync(join(folder, part), { recursive: true, encoding: 'utf8' })) {
      const file = join(folder, part, path);
      if (/\.(?:br|gz)$/.test(path)) rmSync(file);
      if (!isText.test(path)) continue;
      const text = readFileSync(file, 'utf8').replaceAll(names, (name) => renamed.get(name) ?? name);
      writeFileSync(file, text);
      if (part === 'client' && text.length > 512) {
        const params = { [constants.BROTLI_PARAM_QUALITY]: 4 };
        writeFileSync(`${file}.br`, brotliCompressSync(text, { params }));
      }
    }
  }
  return folder;
}
