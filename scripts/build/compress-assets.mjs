// The last steps of a build: creates the storefront's route manifest, without the routes of the staff area, and the style sheets
// without layers, and compresses the text files once at the highest level, so that the server sends them as is.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { brotliCompressSync, constants, gzipSync } from 'node:zlib';
import { flattenLayers } from './flatten-layers.mjs';
import { root } from './prepare.mjs';

const folder = resolve(root, process.env.RELEASE_FOLDER, 'client');

for (const name of readdirSync(join(folder, 'assets'))) {
  if (!/^manifest-\w+\.js$/.test(name)) continue;
  const [, start, list] = /^(window\.\w+=)(\{[\s\S]*\});?\s*$/.exec(
    readFileSync(join(folder, 'assets', name), 'utf8'),
  );
  const manifest = JSON.parse(list);
  manifest.url = manifest.url.replace('/manifest-', '/storefront-manifest-');
  for (const route of Object.keys(manifest.routes)) {
    if (route.startsWith('admin/')) delete manifest.routes[route];
  }
  writeFileSync(join(folder, 'assets', `storefront-${name}`), `${start}${JSON.stringify(manifest)};`);
}

for (const name of readdirSync(join(folder, 'assets'))) {
  if (!/^(?:storefront|staff)-[\w-]{8}\.css$/.test(name)) continue;
  const path = join(folder, 'assets', name);
  writeFileSync(path.replace(/\.css$/, '.flat.css'), flattenLayers(readFileSync(path, 'utf8')));
}

for (const name of readdirSync(folder, { recursive: true })) {
  if (!/\.(js|css|svg|json|txt|webmanifest|xml|html)$/.test(name)) continue;
  const path = join(folder, name);
  const content = readFileSync(path);
  if (content.length < 512) continue;
  writeFileSync(
    `${path}.br`,
    brotliCompressSync(content, { params: { [constants.BROTLI_PARAM_QUALITY]: 11 } }),
  );
  writeFileSync(`${path}.gz`, gzipSync(content, { level: 9 }));
}
