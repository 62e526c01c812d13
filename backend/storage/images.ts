// Images from clients: recognised by their bytes, decoded within limits, and encoded again, so that only pixels of the upload
// remain.
import { open } from 'node:fs/promises';
import type { Sharp } from 'sharp';
import { type Client, type FairQueue, QueueFull } from '../fair-queue.ts';
import { StorageError, storageErrors } from './storage-error.ts';
import { discard, measureWorkFile, newWorkPath, type WorkFile } from './work-file.ts';

export type ImageFormat = 'jpeg' | 'png' | 'webp' | 'gif' | 'avif';

/** Which part of a cropped image stays. */
export interface Gravity {
  /** A side, a corner, the centre, the salient region, or a point. */
  to: (typeof gravities)[number];
  /** For a focus point: fractions of width and height, 0 to 1. Otherwise offsets from the side or corner: pixels, or fractions below 1. */
  x: number | null;
  y: number | null;
}

export const gravities = ['no', 'so', 'ea', 'we', 'noea', 'nowe', 'soea', 'sowe', 'ce', 'sm', 'fp'] as const;

export interface Rendering {
  width?: number;
  height?: number;
  resize: 'cover' | 'contain' | 'fill';
  /** Used with `cover` and both sides; default: centre. */
  gravity?: Gravity;
  /** 20 to 100. */
  quality: number;
  format: ImageFormat;
}

export interface ImageWork {
  /**
   * Replaces a file by a clean image, without metadata or anything else around the pixels.
   * @param path a work file, which no longer exists afterwards
   * @param client the uploader
   * @param choose receives the format of the content and returns the one to write; may throw
   * @returns the new file and its format
   * @throws StorageError when it is no image of a known raster format, broken, or too large in pixels
   */
  cleanse(
    path: string,
    workFolder: string,
    client: Client,
    choose: (format: ImageFormat) => ImageFormat,
  ): Promise<WorkFile & { format: ImageFormat }>;
  /**
   * Runs work on images in the client's share of the queue.
   * @throws StorageError when the queue is full
   */
  inShare<T>(client: Client, work: () => Promise<T>): Promise<T>;
  /**
   * Resizes or converts an image; never enlarges it. Call it in `inShare`.
   * @throws StorageError when the source cannot be read
   */
  render(source: Buffer, rendering: Rendering): Promise<Buffer>;
}

const accepted = 'JPEG, PNG, WebP, AVIF and GIF images are accepted here';
const maxFrames = 200;
/** Maximum pixels of a requested side. */
export const maxSide = 2500;
const maxSeconds = 30;

/** Recognises an image format by its first bytes, or null. Only recognised images reach a decoder. */
export function imageFormatOf(head: Uint8Array): ImageFormat | null {
  const bytes = Buffer.from(head.buffer, head.byteOffset, head.byteLength);
  const text = (start: number, end: number) => bytes.toString('latin1', start, end);
  if (bytes.length < 12) return null;
  if (bytes[0] === 0xff && bytes[1] === 0xd8 && bytes[2] === 0xff) return 'jpeg';
  if (text(0, 8) === '\x89PNG\r\n\x1a\n') return 'png';
  if (text(0, 6) === 'GIF87a' || text(0, 6) === 'GIF89a') return 'gif';
  if (text(0, 4) === 'RIFF' && text(8, 12) === 'WEBP') return 'webp';
  if (text(4, 8) === 'ftyp') {
    const brands = text(8, Math.min(bytes.readUInt32BE(0), bytes.length));
    if (/avi[fs]/.test(brands)) return 'avif';
  }
  return null;
}

/** The format of a media type, or null for unsupported ones. */
export function formatOfType(type: string): ImageFormat | null {
  switch (type) {
    case 'image/jpg':
    case 'image/jpeg':
      return 'jpeg';
    case 'image/png':
    case 'image/webp':
    case 'image/gif':
    case 'image/avif':
      return type.slice('image/'.length) as ImageFormat;
    default:
      return null;
  }
}

/** Creates the image processing. */
export function createImageWork({ pixelLimit, queue }: { pixelLimit: number; queue: FairQueue }): ImageWork {
  const inShare = <T>(client: Client, work: () => Promise<T>): Promise<T> =>
    queue.run(client, work).catch((error) => {
      throw error instanceof QueueFull ? storageErrors.busy() : error;
    });

  const openImage = async (
    source: string | Buffer,
    format: ImageFormat,
    isAnimated: boolean,
    failOn: 'error' | 'none',
  ) => {
    const { default: sharp } = await import('sharp');
    const image = sharp(source, {
      limitInputPixels: pixelLimit,
      failOn,
      sequentialRead: true,
      animated: isAnimated && (format === 'gif' || format === 'webp'),
    });
    const { width, height, pageHeight, pages = 1, format: read, autoOrient } = await image.metadata();
    if (read !== (format === 'avif' ? 'heif' : format)) throw new Error(`decoded as ${read}`);
    const frames = isAnimated ? pages : 1;
    if (width * (pageHeight ?? height) * frames > pixelLimit || frames > maxFrames) throw tooManyPixels();
    return { image: image.timeout({ seconds: maxSeconds }), frames, size: autoOrient };
  };
  const tooManyPixels = () =>
    storageErrors.tooLarge(
      `The image is too large: ${Math.floor(pixelLimit / 1e6)} million pixels and ${maxFrames} frames are accepted`,
    );
  const asImageFault = (error: unknown): unknown => {
    if (error instanceof StorageError) return error;
    const { message = '', code } = error as NodeJS.ErrnoException;
    // An error of the disk is ours, everything else is the image's.
    if (code && /^E[A-Z]+$/.test(code)) return error;
    if (/pixel limit|too large|timeout/i.test(message)) return tooManyPixels();
    return storageErrors.notAnImage(`The image is damaged and cannot be read. ${accepted}.`);
  };

  return {
    inShare,
    cleanse: (path, workFolder, client, choose) =>
      inShare(client, async () => {
        const target = newWorkPath(workFolder);
        try {
          const head = await firstBytes(path);
          const format = imageFormatOf(head);
          if (!format) throw refusalOf(head);
          const encoding = choose(format);
          const { image, frames } = await openImage(
            path,
            format,
            encoding === 'gif' || encoding === 'webp',
            'error',
          );
          const upright = frames > 1 ? image : image.autoOrient();
          await written(upright, encoding, 90).toFile(target);
          return { ...(await measureWorkFile(target)), format: encoding };
        } catch (error) {
          await discard({ path: target });
          throw asImageFault(error);
        } finally {
          await discard({ path });
        }
      }),

    async render(source, { width, height, resize, gravity, quality, format }) {
      const from = imageFormatOf(source);
      if (!from) throw storageErrors.cannotRender();
      try {
        // Stored originals may be slightly damaged: decode as much as possible.
        const opened = await openImage(source, from, format === 'webp' || format === 'gif', 'none');
        const { image, frames } = opened;
        const upright = frames > 1 ? image : image.autoOrient();
        if (gravity && frames === 1 && resize === 'cover' && width && height) {
          const cut = cutToSize(upright, opened.size, { width, height }, gravity);
          return await written(cut, format, quality).toBuffer();
        }
        // Without a requested size, an image above the maximum size is reduced, too.
        const size =
          width || height
            ? { ...(width ? { width } : {}), ...(height ? { height } : {}) }
            : { width: maxSide, height: maxSide };
        const fit = resize === 'contain' || !(width || height) ? 'inside' : resize;
        const sized = upright.resize({ ...size, fit, withoutEnlargement: true });
        return await written(sized, format, quality).toBuffer();
      } catch (error) {
        const found = asImageFault(error);
        if (!(found instanceof StorageError)) throw found;
        throw found.statusCode === 413
          ? storageErrors.cannotRender('The source image resolution is too large to process')
          : storageErrors.cannotRender();
      }
    },
  };
}

interface Size {
  width: number;
  height: number;
}

/** Scales an image to cover a size, without enlarging, and crops it. */
function cutToSize(image: Sharp, source: Size, wanted: Size, gravity: Gravity): Sharp {
  const scale = Math.min(1, Math.max(wanted.width / source.width, wanted.height / source.height));
  const scaled = {
    width: Math.max(1, Math.round(source.width * scale)),
    height: Math.max(1, Math.round(source.height * scale)),
  };
  const cut = {
    width: Math.min(wanted.width, scaled.width),
    height: Math.min(wanted.height, scaled.height),
  };
  if (gravity.to === 'sm') {
    return image.resize({ ...cut, fit: 'cover', position: 'attention' });
  }
  const { to } = gravity;
  const left = cutAt(scaled.width, cut.width, gravity.x, to === 'fp', to.includes('we'), to.includes('ea'));
  const top = cutAt(scaled.height, cut.height, gravity.y, to === 'fp', to.includes('no'), to.includes('so'));
  return image.resize({ ...scaled, fit: 'fill' }).extract({ left, top, ...cut });
}

/** Offset of the visible part along one side. */
function cutAt(
  whole: number,
  part: number,
  given: number | null,
  isPoint: boolean,
  isAtStart: boolean,
  isAtEnd: boolean,
): number {
  const offset = given ?? 0;
  const way = Math.abs(offset) < 1 ? offset * part : offset;
  const start = isPoint
    ? offset * whole - part / 2
    : isAtStart
      ? way
      : isAtEnd
        ? whole - part - way
        : (whole - part) / 2 + way;
  return Math.min(whole - part, Math.max(0, Math.round(start)));
}

function written(image: Sharp, format: ImageFormat, quality: number): Sharp {
  switch (format) {
    case 'jpeg':
      return image.jpeg({ quality, mozjpeg: true });
    case 'png':
      return image.png({ compressionLevel: 8 });
    case 'webp':
      return image.webp({ quality, effort: 4 });
    case 'gif':
      return image.gif({ effort: 4 });
    case 'avif':
      // AVIF looks better than JPEG at the same quality value, so a lower one suffices.
      return image.avif({ quality: Math.max(1, Math.round(quality * 0.7)), effort: 3 });
  }
}

function refusalOf(head: Uint8Array): StorageError {
  const text = Buffer.from(head).toString('latin1');
  if (/<(?:svg|\?xml|!doctype svg)/i.test(text)) {
    return storageErrors.notAnImage(`SVG images can contain programs and are not accepted. ${accepted}.`);
  }
  return storageErrors.notAnImage(`The content is not an image. ${accepted}.`);
}

async function firstBytes(path: string): Promise<Uint8Array> {
  const file = await open(path);
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(1024), 0, 1024, 0);
    return buffer.subarray(0, bytesRead);
  } finally {
    await file.close();
  }
}
