// Objects that are images, sent in another size, quality or format.
import { clientOf } from '../../limits/fair-share.ts';
import { type Call, fileName, type StorageContext, type StorageSettings } from '../context.ts';
import { contentHeaders, isUnchanged, withFile } from '../download.ts';
import { writeWorkFile } from '../files/work-file.ts';
import type { JsonBody } from '../json-body.ts';
import { essence } from '../names.ts';
import type { ObjectRow } from '../rows.ts';
import { StorageError, storageErrors } from '../storage-error.ts';
import { type Gravity, gravities, type ImageFormat, maxSide, type Rendering } from './image-job.ts';
import { formatOfType, imageFormatOf } from './images.ts';

const usualQuality = 80;
const maxSourceBytes = 25 * 1024 * 1024;
/** Maximum milliseconds of reading it: a store that stalls must not hold up the images behind this one. */
const maxSourceMs = 30_000;

/** A requested rendering of an image. */
export interface RenderOptions {
  width?: number;
  height?: number;
  resize: 'cover' | 'contain' | 'fill';
  gravity?: Gravity;
  quality: number | null;
  /** `origin` keeps the object's format; null lets the Accept header decide. */
  format: (typeof formats)[number] | null;
}

const resizes = ['cover', 'contain', 'fill'] as const;
const formats = ['origin', 'avif', 'webp'] as const;

/**
 * Parses a rendering from a query or a body's `transform`. A side above the maximum becomes the maximum.
 * @throws StorageError InvalidRequest
 */
export function readRenderOptions(read: (name: string) => unknown, where: string): RenderOptions {
  const number = (name: string): number | null => {
    const value = read(name);
    if (value === null || value === undefined || value === '') return null;
    const pixels = Number(value);
    if (!Number.isFinite(pixels)) throw storageErrors.request(`${where}/${name} must be number`);
    return pixels;
  };
  const within = (name: string, given: number | null, least: number, most: number): number | null => {
    if (given !== null && given < least) throw storageErrors.request(`${where}/${name} must be >= ${least}`);
    if (given !== null && given > most) throw storageErrors.request(`${where}/${name} must be <= ${most}`);
    return given;
  };
  const integer = (name: string, least: number, most: number): number | null => {
    const size = number(name);
    if (size !== null && !Number.isInteger(size))
      throw storageErrors.request(`${where}/${name} must be integer`);
    return within(name, size, least, most);
  };
  const oneOf = <T extends string>(name: string, allowed: readonly T[]): T | null => {
    const value = read(name) ?? null;
    if (value === null) return null;
    const option = allowed.find((one) => one === value);
    if (option === undefined) {
      throw storageErrors.request(`${where}/${name} must be equal to one of the allowed values`);
    }
    return option;
  };
  const side = (name: string) => Math.min(maxSide, integer(name, 0, Number.POSITIVE_INFINITY) ?? 0);
  const [width, height] = [side('width'), side('height')];
  const to = oneOf('gravity', gravities);
  const [x, y] = [number('x_offset'), number('y_offset')];
  if (to === 'fp') {
    for (const [name, given] of [['x_offset', x] as const, ['y_offset', y] as const]) {
      if (given === null) throw storageErrors.request(`${where} must have required property '${name}'`);
      within(name, given, 0, 1);
    }
  }
  return {
    ...(width ? { width } : {}),
    ...(height ? { height } : {}),
    resize: oneOf('resize', resizes) ?? 'cover',
    ...(to ? { gravity: { to, x, y } } : {}),
    quality: integer('quality', 20, 100),
    format: oneOf('format', formats),
  };
}

/** @throws StorageError InvalidRequest for a rendering that an anonymous caller may not request */
export function checkAnonymousRendering(
  { width, height, resize, gravity, quality }: RenderOptions,
  { anonymousSides }: Pick<StorageSettings, 'anonymousSides'>,
): void {
  if (anonymousSides === null) return;
  const isAllowed =
    width !== undefined &&
    width === height &&
    anonymousSides.includes(width) &&
    resize === 'cover' &&
    gravity === undefined &&
    quality === null;
  if (!isAllowed) {
    const sides = anonymousSides.join(', ');
    throw storageErrors.request(
      `querystring must ask for a square rendering of one of these sides: ${sides}`,
    );
  }
}

/** A rendering as text for the token of a signed URL. */
export function renderOptionsText(transform: JsonBody): string {
  const requested = readRenderOptions((name) => transform[name], 'body/transform');
  const parts: (string | null)[] = [
    requested.width ? `width:${requested.width}` : null,
    requested.height ? `height:${requested.height}` : null,
    `resize:${requested.resize}`,
    requested.quality ? `quality:${requested.quality}` : null,
    requested.format ? `format:${requested.format}` : null,
    requested.gravity ? gravityText(requested.gravity) : null,
  ];
  return parts.filter((part) => part !== null).join(',');
}

function gravityText({ to, x, y }: Gravity): string {
  const offsets = to === 'sm' || (x === null && y === null) ? [] : [x ?? 0, y ?? 0];
  return ['gravity', to, ...offsets].join(':');
}

/** Parses a token's rendering. */
export function parseRenderOptions(text: string): RenderOptions {
  const parameters = new Map<string, string | undefined>();
  for (const part of text.split(',')) {
    const [name = '', value, x, y] = part.split(':');
    parameters.set(name, value);
    if (name === 'gravity') parameters.set('x_offset', x).set('y_offset', y);
  }
  return readRenderOptions((name) => parameters.get(name), 'token');
}

/** `GET` and `HEAD /render/image/…` */
export function sendRendered(
  context: StorageContext,
  call: Call,
  find: () => Promise<ObjectRow>,
  requested: RenderOptions,
  expires?: number,
): Promise<Response> {
  return withFile(find, async (object) => {
    const sourceFormat = await ownFormat(context, object);
    const { format: wanted, quality, ...rest } = requested;
    const accept = call.request.headers.get('accept') ?? '';
    const format = wanted === 'origin' ? sourceFormat : (wanted ?? bestFormat(accept, sourceFormat));
    const rendering: Rendering = { ...rest, quality: quality ?? usualQuality, format };
    const key = JSON.stringify([object.version, rendering]);
    const headers = contentHeaders(call, object, `image/${format}`);
    headers.set('vary', 'accept');
    headers.set('x-transformations', describeTransformations(requested));
    headers.set('etag', `"${object.version}-${Buffer.from(renderingTag(rendering)).toString('base64url')}"`);
    if (expires !== undefined) headers.set('expires', new Date(expires * 1000).toUTCString());
    if (isUnchanged(call.request, headers)) return new Response(null, { status: 304, headers });

    const image = await context.rendered.getOrMake(
      key,
      (job) => context.images.inShare(clientOf(call.caller), job),
      async () => {
        const { workFolder } = context.files;
        return context.images.render(await copySource(context, object), workFolder, rendering);
      },
    );
    headers.set('content-length', String(image.length));
    return new Response(call.request.method === 'HEAD' ? null : new Uint8Array(image), { headers });
  });
}

/** The applied transformations, in the words of the renderer of hosted projects. */
function describeTransformations({ width, height, resize, quality, format, gravity }: RenderOptions): string {
  const type = { cover: 'fill', contain: 'fit', fill: 'force' }[resize];
  return [
    height ? `height:${height}` : null,
    width ? `width:${width}` : null,
    `resizing_type:${type}`,
    quality ? `quality:${quality}` : null,
    format && format !== 'origin' ? `format:${format}` : null,
    gravity ? gravityText(gravity) : null,
  ]
    .filter((part) => part !== null)
    .join(',');
}

function renderingTag({ width = 0, height = 0, resize, gravity, quality, format }: Rendering): string {
  return `${width}x${height}${resize[1]}${gravity ? gravityText(gravity) : ''}${quality}${format}`;
}

async function ownFormat(context: StorageContext, object: ObjectRow): Promise<ImageFormat> {
  const named = formatOfType(essence(object.metadata?.mimetype ?? ''));
  if (named) return named;
  // Uploads without a type may still be images.
  const head: Buffer[] = [];
  const last = Math.min(63, (object.metadata?.size ?? 0) - 1);
  if (last >= 0) {
    const content = await context.files.read(fileName(context, object.version), { first: 0, last });
    for await (const chunk of content) head.push(chunk as Buffer);
  }
  const found = imageFormatOf(Buffer.concat(head));
  if (!found) throw storageErrors.cannotRender();
  return found;
}

function bestFormat(accept: string, own: ImageFormat): ImageFormat {
  const accepts = (type: string) => new RegExp(`${type}(?!\\s*;\\s*q=0(?:\\.0*)?\\s*(?:,|$))`).test(accept);
  // An AVIF would lose the animation.
  if (own !== 'gif' && accepts('image/avif')) return 'avif';
  return accepts('image/webp') ? 'webp' : own;
}

/** Copies an object's content to a work file, which the image worker reads. */
async function copySource(context: StorageContext, object: ObjectRow): Promise<string> {
  const tooLarge = () => storageErrors.cannotRender('The source image file is too large to process');
  if ((object.metadata?.size ?? 0) > maxSourceBytes) throw tooLarge();
  const timeout = AbortSignal.timeout(maxSourceMs);
  const content = await context.files.read(fileName(context, object.version), undefined, timeout);
  const { path } = await writeWorkFile(context.files.workFolder, content, maxSourceBytes).catch((error) => {
    throw error instanceof StorageError ? tooLarge() : error;
  });
  return path;
}
