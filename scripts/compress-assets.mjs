// Compresses the built text files once, as hard as it goes, so that the server sends them as they lie.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { brotliCompressSync, constants, gzipSync } from 'node:zlib';
import { root } from './prepare.mjs';

const folder = join(root, 'build', 'client');
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
