// Draws all product art, hero scenes, the share image, logos and icons into web/public. Run: npx tsx scripts/art/draw-art.ts [name …]
import { mkdir, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import sharp, { type Sharp } from 'sharp';
import { FLAVOURS } from './flavours.ts';
import { type Crop, HERO_NAMES, heroScene } from './heroes.ts';
import { writeLogos } from './logos.ts';
import { productScene } from './product-scene.ts';
import { shareScene } from './share-scene.ts';
import { VESSELS, type VesselName } from './vessels.ts';

const PUBLIC = fileURLToPath(new URL('../../web/public/', import.meta.url));
const ART = `${PUBLIC}art/`;
const PRODUCT_WIDTHS = [240, 360, 480, 720, 960];
const HERO_WIDTHS: Record<Crop, readonly number[]> = { wide: [960, 1600], tall: [480, 720, 900], low: [480, 720, 900] };

/**
 * Width at which a phone shows the largest image of a page, and its maximum bytes: two round trips over a slow connection, with the
 * fonts.
 */
const PHONE = { width: 720, bytes: 17_100 };

/** Width in a phone's list, of which a first visit loads ten. */
const LIST_WIDTH = 360;

/** AVIF in the quality for its width; at a phone's width, in the best quality within its bytes. */
async function avifOf(from: () => Sharp, width: number): Promise<Buffer> {
  if (width !== PHONE.width) {
    return from()
      .avif({ quality: width === LIST_WIDTH ? 46 : width > 480 ? 50 : 54, effort: 2 })
      .toBuffer();
  }
  let avif = Buffer.alloc(0);
  for (let quality = 47; quality >= 35; quality -= 4) {
    avif = await from().avif({ quality, effort: 2 }).toBuffer();
    if (avif.length <= PHONE.bytes) break;
  }
  return avif;
}

/** Writes one image at each width as AVIF and WebP. Returns the bytes written. */
async function writePicture(svg: string, name: string, widths: readonly number[]): Promise<number> {
  // Drawn once at twice the largest size: fine lines come out smoother than from a small drawing.
  const drawing = await sharp(Buffer.from(svg), { density: 144, limitInputPixels: false })
    .removeAlpha()
    .png({ compressionLevel: 1 })
    .toBuffer();
  let bytes = 0;
  for (const width of widths) {
    const sized = await sharp(drawing)
      .resize(width, null, { kernel: 'lanczos3' })
      .raw()
      .toBuffer({ resolveWithObject: true });
    const { width: w, height: h, channels } = sized.info;
    const from = () => sharp(sized.data, { raw: { width: w, height: h, channels } });
    const avif = await avifOf(from, width);
    const webp = await from()
      .webp({ quality: width > 480 ? 74 : 78, effort: 2, smartSubsample: true })
      .toBuffer();
    await writeFile(`${ART}${name}-${width}.avif`, avif);
    await writeFile(`${ART}${name}-${width}.webp`, webp);
    bytes += avif.length + webp.length;
  }
  return bytes;
}

await mkdir(ART, { recursive: true });
const only = process.argv.slice(2);
const wanted = (name: string): boolean => only.length === 0 || only.some((part) => name.includes(part));
let total = 0;
for (const flavour of FLAVOURS)
  for (const vessel of Object.keys(VESSELS) as VesselName[]) {
    const name = `${flavour.slug}-${vessel}`;
    if (wanted(name)) total += await writePicture(productScene(flavour, vessel), name, PRODUCT_WIDTHS);
  }
for (const hero of HERO_NAMES)
  for (const crop of ['wide', 'tall', 'low'] as const) {
    const name = `${hero}-${crop}`;
    if (wanted(name)) total += await writePicture(heroScene(hero, crop), name, HERO_WIDTHS[crop]);
  }
if (wanted('share')) {
  const share = await sharp(Buffer.from(shareScene()), { density: 144 })
    .resize(1200, 630)
    .flatten()
    .jpeg({ quality: 82, mozjpeg: true })
    .toBuffer();
  await writeFile(`${ART}share.jpg`, share);
  total += share.length;
}
if (wanted('logo')) total += await writeLogos(PUBLIC);
console.log(`${(total / 1024 / 1024).toFixed(2)} MB drawn`);
