// Objects that are images, sent in another size, quality or format.
import type { Call, StorageContext } from './context.ts';
import { fileName } from './context.ts';
import { contentHeaders, isUnchanged, withFile } from './download.ts';
import { faults } from './fault.ts';
import { formatOfType, type ImageFormat, imageFormatOf, longestSide, type Rendering } from './images.ts';
import type { JsonBody } from './json-body.ts';
import { essence } from './names.ts';
import type { ObjectRow } from './rows.ts';

const usualQuality = 80;
const mostSourceBytes = 25 * 1024 * 1024;

/** What a caller asks of an image; the format follows from what the caller accepts unless it is to stay. */
export interface Wish {
  width?: number;
  height?: number;
  resize: 'cover' | 'contain' | 'fill';
  quality: number | null;
  keepsFormat: boolean;
}

/**
 * Reads what is asked for, from a query or from a body's `transform`.
 * @throws StorageFault InvalidRequest
 */
export function readWish(read: (name: string) => unknown, where: string): Wish {
  const number = (name: string, least: number, most: number): number | undefined => {
    const value = read(name);
    if (value === null || value === undefined || value === '') return undefined;
    const given = Number(value);
    if (!Number.isInteger(given)) throw faults.request(`${where}/${name} must be integer`);
    if (given < least) throw faults.request(`${where}/${name} must be >= ${least}`);
    if (given > most) throw faults.request(`${where}/${name} must be <= ${most}`);
    return given;
  };
  const resize = read('resize') ?? 'cover';
  if (resize !== 'cover' && resize !== 'contain' && resize !== 'fill') {
    throw faults.request(`${where}/resize must be equal to one of the allowed values`);
  }
  const format = read('format') ?? null;
  if (format !== null && format !== 'origin') {
    throw faults.request(`${where}/format must be equal to one of the allowed values`);
  }
  const [width, height] = [number('width', 1, longestSide), number('height', 1, longestSide)];
  return {
    ...(width ? { width } : {}),
    ...(height ? { height } : {}),
    resize,
    quality: number('quality', 20, 100) ?? null,
    keepsFormat: format === 'origin',
  };
}

/** A wish as it stands in the token of a signed address. */
export function wishText(transform: JsonBody): string {
  const wish = readWish((name) => transform[name], 'body/transform');
  const parts: (string | null)[] = [
    wish.width ? `width:${wish.width}` : null,
    wish.height ? `height:${wish.height}` : null,
    `resize:${wish.resize}`,
    wish.quality ? `quality:${wish.quality}` : null,
    wish.keepsFormat ? 'format:origin' : null,
  ];
  return parts.filter((part) => part !== null).join(',');
}

/** The wish a token holds. */
export function wishOf(text: string): Wish {
  const given = new Map(
    text.split(',').map((part): [string, string] => {
      const at = part.indexOf(':');
      return [part.slice(0, at), part.slice(at + 1)];
    }),
  );
  return readWish((name) => given.get(name), 'token');
}

/** `GET` and `HEAD /render/image/…` */
export function sendRendered(
  context: StorageContext,
  call: Call,
  find: () => Promise<ObjectRow>,
  wish: Wish,
  expires?: number,
): Promise<Response> {
  return withFile(find, async (object) => {
    const own = await ownFormat(context, object);
    const format = wish.keepsFormat ? own : bestFormat(call.request.headers.get('accept') ?? '', own);
    const { keepsFormat: _, quality, ...rest } = wish;
    const rendering: Rendering = { ...rest, quality: quality ?? usualQuality, format };
    const key = JSON.stringify([object.version, rendering]);
    const headers = contentHeaders(call, object, `image/${format}`);
    headers.set('vary', 'accept');
    headers.set('x-transformations', describeWish(wish));
    headers.set('etag', `"${object.version}-${Buffer.from(wishTag(rendering)).toString('base64url')}"`);
    if (expires !== undefined) headers.set('expires', new Date(expires * 1000).toUTCString());
    if (isUnchanged(call.request, headers)) return new Response(null, { status: 304, headers });

    const image = await context.rendered.getOrMake(key, async () =>
      context.images.render(await readSource(context, object), rendering),
    );
    headers.set('content-length', String(image.length));
    return new Response(call.request.method === 'HEAD' ? null : new Uint8Array(image), { headers });
  });
}

/** What was done, in the words of the renderer that hosted projects use. */
function describeWish({ width, height, resize, quality }: Wish): string {
  const type = { cover: 'fill', contain: 'fit', fill: 'force' }[resize];
  return [
    height ? `height:${height}` : null,
    width ? `width:${width}` : null,
    `resizing_type:${type}`,
    quality ? `quality:${quality}` : null,
  ]
    .filter((part) => part !== null)
    .join(',');
}

function wishTag({ width = 0, height = 0, resize, quality, format }: Rendering): string {
  return `${width}x${height}${resize[1]}${quality}${format}`;
}

async function ownFormat(context: StorageContext, object: ObjectRow): Promise<ImageFormat> {
  const named = formatOfType(essence(object.metadata?.mimetype ?? ''));
  if (named) return named;
  // Uploads that were not given a type may be images all the same.
  const head: Buffer[] = [];
  const last = Math.min(63, (object.metadata?.size ?? 0) - 1);
  if (last >= 0) {
    const content = await context.files.read(fileName(context, object.version), { first: 0, last });
    for await (const chunk of content) head.push(chunk as Buffer);
  }
  const found = imageFormatOf(Buffer.concat(head));
  if (!found) throw faults.cannotRender('The object is not an image that can be rendered');
  return found;
}

function bestFormat(accept: string, own: ImageFormat): ImageFormat {
  const accepts = (type: string) => new RegExp(`${type}(?!\\s*;\\s*q=0(?:\\.0*)?\\s*(?:,|$))`).test(accept);
  // An AVIF would lose what moves.
  if (own !== 'gif' && accepts('image/avif')) return 'avif';
  return accepts('image/webp') ? 'webp' : own;
}

async function readSource(context: StorageContext, object: ObjectRow): Promise<Buffer> {
  if ((object.metadata?.size ?? 0) > mostSourceBytes) {
    throw faults.cannotRender('The image is too large to be rendered');
  }
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of await context.files.read(fileName(context, object.version))) {
    size += (chunk as Buffer).length;
    if (size > mostSourceBytes) throw faults.cannotRender('The image is too large to be rendered');
    chunks.push(chunk as Buffer);
  }
  const source = Buffer.concat(chunks);
  if (!imageFormatOf(source)) throw faults.cannotRender('The object is not an image that can be rendered');
  return source;
}
