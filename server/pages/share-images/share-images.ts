// Images for shared product links: /share/{slug}.jpg, square with ?shape=square, drawn at the first request and cached.
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Client, FairQueue } from '@jani-juice/backend/limits';
import {
  type ImageProcess,
  imageFormatOf,
  maxPixelsOf,
  type RenderedImages,
} from '@jani-juice/backend/storage';
import { formatKsh } from '../../../domain/money.ts';
import {
  type SharedProduct,
  shareImageSize,
  shareImageVersion,
  squareShareImageSize,
} from '../../../domain/products/share-image.ts';
import { maxImageBytes } from '../../../domain/products/uploaded-image.ts';
import type { Store } from '../../../supabase/store.ts';
import { shareDrawing, squareShareDrawing } from './share-drawing.ts';

export interface ShareImagesOptions {
  /** Table client in the role of a visitor. */
  tables: Store['tables'];
  /** The folder with the demo images in `art/`. */
  artFolder: string;
  /** Origin of the services, as this server calls them, for uploaded images. */
  servicesUrl: string;
  serviceFetch?: typeof fetch;
  /** Cache of drawn images. */
  drawn: RenderedImages;
  /** The queue of work on images. */
  queue: FairQueue;
  imageProcess: ImageProcess;
  /** Receives crashes of the image worker. */
  onError: (error: unknown) => void;
}

export interface ShareImages {
  /** Whether a path is that of a share image. */
  serves(pathname: string): boolean;
  /**
   * @param client the client that waits for the image
   * @param inShare runs database queries in the client's share
   */
  fetch(
    request: Request,
    client: Client,
    inShare: <T>(read: () => Promise<T>) => Promise<T>,
  ): Promise<Response>;
}

const address = /^\/share\/([a-z0-9-]{1,200})\.jpg$/;
/** Increase it when the drawing changes: cached images of another version are not used. */
const drawingVersion = 1;
const background = '#301c4b';

/** The product has no usable image. */
class NoArt extends Error {
  override readonly name = 'NoArt';
}

/** Creates the service of share images: only products that are for sale have one. */
export function createShareImages({
  tables,
  artFolder,
  servicesUrl,
  serviceFetch = fetch,
  drawn,
  queue,
  imageProcess,
  onError,
}: ShareImagesOptions): ShareImages {
  /** The image of a product; null when there is none that may be read. */
  async function readArt(source: string): Promise<Uint8Array | null> {
    if (/^\/art\/[a-z0-9-]+\.(webp|avif|jpg|png)$/.test(source)) {
      return readFile(join(artFolder, source)).catch(() => null);
    }
    // Only from our own storage: another URL would let staff make this server call any host (SSRF).
    const path = source.startsWith(`${servicesUrl}/`) ? source.slice(servicesUrl.length) : source;
    if (!path.startsWith('/storage/v1/object/public/')) return null;
    const answer = await serviceFetch(new URL(path, servicesUrl), {
      signal: AbortSignal.timeout(5000),
    }).catch(() => null);
    if (!answer?.ok || Number(answer.headers.get('content-length') ?? 0) > maxImageBytes) return null;
    const body = new Uint8Array(await answer.arrayBuffer());
    return body.length > 0 && body.length <= maxImageBytes ? body : null;
  }

  /** @throws NoArt */
  async function draw(product: SharedProduct, storeName: string, isSquare: boolean): Promise<Buffer> {
    const art = product.image_url ? await readArt(product.image_url) : null;
    if (!art) throw new NoArt();
    const format = imageFormatOf(art);
    if (!format) throw new NoArt();
    const { width, height } = isSquare ? squareShareImageSize : shareImageSize;
    const svg = (isSquare ? squareShareDrawing : shareDrawing)({
      storeName,
      name: product.name,
      price: formatKsh(product.price),
    });
    const folder = await mkdtemp(join(tmpdir(), 'jani-share-image-'));
    try {
      const path = join(folder, 'art');
      await writeFile(path, art);
      const layers = [
        { path, format, width: height, height, left: width - height, top: 0 },
        { svg, left: 0, top: 0 },
      ];
      const to = join(folder, 'drawn');
      const composition = { width, height, background, quality: 82, layers };
      const result = await imageProcess.run({
        do: 'compose',
        to,
        maxPixels: maxPixelsOf(format),
        composition,
      });
      if (result.outcome === 'done') return await readFile(to);
      if (result.outcome === 'ended' || result.outcome === 'failed')
        onError(new Error(JSON.stringify(result)));
      // The uploaded file may not be a readable image.
      throw new NoArt();
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  }

  return {
    serves: (pathname) => pathname.startsWith('/share/'),
    async fetch(request, client, inShare) {
      const { pathname, searchParams } = new URL(request.url);
      const slug = address.exec(pathname)?.[1];
      if (!slug) return nothing(404);
      if (request.method !== 'GET' && request.method !== 'HEAD') return nothing(405, { allow: 'GET, HEAD' });
      const read = () =>
        Promise.all([
          tables
            .from('products')
            .select('slug, name, price, image_url')
            .eq('slug', slug)
            .eq('is_active', true)
            .maybeSingle(),
          tables.from('store_settings').select('store_name').single(),
        ]);
      const [product, settings] = await inShare(read);
      if (product.error || settings.error) return nothing(503, { 'retry-after': '10' });
      if (!product.data) return nothing(404);
      const version = shareImageVersion(product.data, settings.data.store_name);
      const { data } = product;
      const { store_name } = settings.data;
      const isSquare = searchParams.get('shape') === 'square';
      let image: Buffer;
      try {
        image = await drawn.getOrMake(
          JSON.stringify([drawingVersion, data, store_name, ...(isSquare ? ['square'] : [])]),
          (job) => queue.run(client, job),
          () => draw(data, store_name, isSquare),
        );
      } catch (error) {
        if (error instanceof NoArt) {
          return nothing(302, { location: '/art/share.jpg', 'cache-control': 'public, max-age=300' });
        }
        throw error;
      }
      const headers = {
        'content-type': 'image/jpeg',
        'content-length': String(image.length),
        'cache-control':
          searchParams.get('v') === version ? 'public, max-age=31536000, immutable' : 'public, max-age=300',
      };
      return new Response(request.method === 'HEAD' ? null : new Uint8Array(image), { headers });
    },
  };
}

const nothing = (status: number, headers: Record<string, string> = {}): Response =>
  new Response(null, { status, headers: { 'cache-control': 'no-store', ...headers } });
