// The pictures that go along when a product's link is shared: /share/{slug}.jpg, drawn when first asked for and kept.
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { formatKsh } from '../../domain/money.ts';
import { largestPicture } from '../../domain/product-picture.ts';
import { type SharedProduct, sharePictureSize, sharePictureVersion } from '../../domain/share-picture.ts';
import type { Store } from '../../web/lib/store.ts';
import { shareDrawing } from './share-drawing.ts';

export interface ShareImagesOptions {
  /** Asks as a visitor. */
  tables: Store['tables'];
  /** The folder with the shop's own art in `art/`. */
  artFolder: string;
  /** Origin of the services, as this server calls them, for pictures that staff have uploaded. */
  servicesUrl: string;
  serviceFetch?: typeof fetch;
}

export interface ShareImages {
  /** Whether a path is one of them. */
  serves(pathname: string): boolean;
  fetch(request: Request): Promise<Response>;
}

const address = /^\/share\/([a-z0-9-]{1,200})\.jpg$/;
// Some hundred kilobytes each.
const keptPictures = 60;
const drawnAtOnce = 2;
const mostWaiting = 30;
const largestArt = 50_000_000;

class Busy extends Error {
  override name = 'Busy';
}

/** Makes the service of shared pictures: only products that are for sale have one, and only few are drawn at once. */
export function createShareImages({
  tables,
  artFolder,
  servicesUrl,
  serviceFetch = fetch,
}: ShareImagesOptions): ShareImages {
  const kept = new Map<string, Promise<Uint8Array<ArrayBuffer> | null>>();
  const waiting: (() => void)[] = [];
  let drawing = 0;

  /** Runs the work when it is its turn. */
  async function inTurn<T>(work: () => Promise<T>): Promise<T> {
    if (drawing < drawnAtOnce) drawing += 1;
    else {
      if (waiting.length >= mostWaiting) throw new Busy();
      // Whoever ends hands their place on.
      await new Promise<void>((begin) => waiting.push(begin));
    }
    try {
      return await work();
    } finally {
      const next = waiting.shift();
      if (next) next();
      else drawing -= 1;
    }
  }

  /** The picture of a product as it was given; null when there is none that may be read. */
  async function readArt(source: string): Promise<Uint8Array | null> {
    if (/^\/art\/[a-z0-9-]+\.(webp|avif|jpg|png)$/.test(source)) {
      return readFile(join(artFolder, source)).catch(() => null);
    }
    // Only from our own storage: an address elsewhere would have this server call whatever it names.
    const own = source.startsWith(`${servicesUrl}/`) ? source.slice(servicesUrl.length) : source;
    if (!own.startsWith('/storage/v1/object/public/')) return null;
    const answer = await serviceFetch(new URL(own, servicesUrl), { signal: AbortSignal.timeout(5000) }).catch(
      () => null,
    );
    if (!answer?.ok || Number(answer.headers.get('content-length') ?? 0) > largestPicture) return null;
    const body = new Uint8Array(await answer.arrayBuffer());
    return body.length > 0 && body.length <= largestPicture ? body : null;
  }

  async function draw(product: SharedProduct, storeName: string): Promise<Uint8Array<ArrayBuffer> | null> {
    const art = product.image_url ? await readArt(product.image_url) : null;
    if (!art) return null;
    const { width, height } = sharePictureSize;
    const { default: sharp } = await import('sharp');
    try {
      const scene = await sharp(art, { limitInputPixels: largestArt })
        .rotate()
        .resize(height, height, { fit: 'cover' })
        .flatten({ background: '#301c4b' })
        .png({ compressionLevel: 1 })
        .toBuffer();
      const words = shareDrawing({ storeName, name: product.name, price: formatKsh(product.price) });
      const layer = await sharp(Buffer.from(words)).png({ compressionLevel: 1 }).toBuffer();
      const picture = await sharp({ create: { width, height, channels: 3, background: '#301c4b' } })
        .composite([
          { input: scene, left: width - height, top: 0 },
          { input: layer, left: 0, top: 0 },
        ])
        .jpeg({ quality: 82, mozjpeg: true })
        .toBuffer();
      return new Uint8Array(picture);
    } catch {
      // What was uploaded may be no picture that can be read.
      return null;
    }
  }

  function pictureOf(product: SharedProduct, storeName: string, version: string) {
    const key = `${product.slug} ${version}`;
    const known = kept.get(key);
    kept.delete(key);
    const picture = known ?? inTurn(() => draw(product, storeName));
    kept.set(key, picture);
    // What failed, or was not to be had just now, is tried again by the next one.
    picture.then(
      (drawn) => drawn === null && kept.delete(key),
      () => kept.delete(key),
    );
    const [oldest] = kept.keys();
    if (kept.size > keptPictures && oldest !== undefined) kept.delete(oldest);
    return picture;
  }

  return {
    serves: (pathname) => pathname.startsWith('/share/'),
    async fetch(request) {
      const { pathname, searchParams } = new URL(request.url);
      const slug = address.exec(pathname)?.[1];
      if (!slug) return nothing(404);
      if (request.method !== 'GET' && request.method !== 'HEAD') return nothing(405, { allow: 'GET, HEAD' });
      const [product, settings] = await Promise.all([
        tables
          .from('products')
          .select('slug, name, price, image_url')
          .eq('slug', slug)
          .eq('is_active', true)
          .maybeSingle(),
        tables.from('store_settings').select('store_name').single(),
      ]);
      if (product.error || settings.error) return nothing(503, { 'retry-after': '10' });
      if (!product.data) return nothing(404);
      const version = sharePictureVersion(product.data, settings.data.store_name);
      let picture: Uint8Array<ArrayBuffer> | null;
      try {
        picture = await pictureOf(product.data, settings.data.store_name, version);
      } catch (error) {
        if (error instanceof Busy) return nothing(503, { 'retry-after': '10' });
        throw error;
      }
      if (!picture)
        return nothing(302, { location: '/art/share.jpg', 'cache-control': 'public, max-age=300' });
      const headers = {
        'content-type': 'image/jpeg',
        'content-length': String(picture.length),
        'cache-control':
          searchParams.get('v') === version ? 'public, max-age=31536000, immutable' : 'public, max-age=300',
      };
      return new Response(request.method === 'HEAD' ? null : picture, { headers });
    },
  };
}

const nothing = (status: number, headers: Record<string, string> = {}): Response =>
  new Response(null, { status, headers: { 'cache-control': 'no-store', ...headers } });
