// Logo, wordmark, favicon and app icons, all from the one mark.
import { writeFile } from 'node:fs/promises';
import sharp from 'sharp';
import { drawText, widthOf } from './lettering.ts';
import { mark } from './mark.ts';

const LEAF_GREEN = '#1a7a43';
const INK = '#23142f';

const svg = (width: number, height: number, body: string): string =>
  `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}">${body}</svg>\n`;

/** The app icon: the mark in the last light, on dusk. `radius` rounds the tile, `size` is the mark's share of it. */
function tile(radius: number, size: number): string {
  return svg(
    100,
    100,
    `<defs><linearGradient id="dusk" x1="0" y1="0" x2="0" y2="1"><stop offset="0" stop-color="#201135"/><stop offset="0.55" stop-color="#5c2668"/><stop offset="0.85" stop-color="#e2593f"/><stop offset="1" stop-color="#ffab66"/></linearGradient></defs><rect width="100" height="100" rx="${radius}" fill="url(#dusk)"/>${mark(50, 50, size, '#b8f5b4', '#ffe39a')}`,
  );
}

/** A Windows icon file that holds one PNG of `side` pixels. */
function icoOf(png: Buffer, side: number): Buffer {
  const head = Buffer.alloc(22);
  head.writeUInt16LE(1, 2);
  head.writeUInt16LE(1, 4);
  head.writeUInt8(side, 6);
  head.writeUInt8(side, 7);
  head.writeUInt16LE(1, 10);
  head.writeUInt16LE(32, 12);
  head.writeUInt32LE(png.length, 14);
  head.writeUInt32LE(22, 18);
  return Buffer.concat([head, png]);
}

/** Writes every logo file into `folder`; gives the bytes written. */
export async function writeLogos(folder: string): Promise<number> {
  const png = (source: string, side: number) =>
    sharp(Buffer.from(source), { density: 72 * 6 })
      .resize(side, side)
      .png({ compressionLevel: 9, palette: true })
      .toBuffer();
  const words = 'Jani Juice';
  const size = 74;
  const width = Math.ceil(92 + widthOf(words, 'display', size, -18));
  const rounded = tile(24, 84);
  // Maskable icons may be cut to a circle of 80 %: the mark stays within it.
  const full = tile(0, 62);
  const files: [string, string | Buffer][] = [
    ['logo-mark.svg', svg(100, 100, mark(50, 50, 98, LEAF_GREEN))],
    [
      'logo.svg',
      svg(
        width,
        100,
        mark(44, 50, 94, LEAF_GREEN, '#e86c17') + drawText(words, 88, 74, size, INK, 'display', -18, 'start'),
      ),
    ],
    ['favicon.svg', rounded],
    ['favicon.ico', icoOf(await png(rounded, 32), 32)],
    ['apple-touch-icon.png', await png(full, 180)],
    ['icon-192.png', await png(full, 192)],
    ['icon-512.png', await png(full, 512)],
  ];
  let bytes = 0;
  for (const [name, content] of files) {
    await writeFile(`${folder}${name}`, content);
    bytes += content.length;
  }
  return bytes;
}
