// The last steps of a build: the storefront gets a list of routes of its own, without those of the staff area, and the text
// files are compressed once, as hard as it goes, so that the server sends them as they lie.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { brotliCompressSync, constants, gzipSync } from 'node:zlib';
import { root } from './prepare.mjs';

const folder = join(root, 'build', 'client');

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
