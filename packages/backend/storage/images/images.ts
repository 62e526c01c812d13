// Images from clients: recognised by their bytes, decoded within limits by the image worker, and encoded again, so that only pixels of
// the upload remain.
import { open, readFile } from 'node:fs/promises';
import { type Client, type FairQueue, QueueFull } from '../../limits/fair-queue.ts';
import { discard, measureWorkFile, newWorkPath, type WorkFile } from '../files/work-file.ts';
import { StorageError, storageErrors } from '../storage-error.ts';
import { type ImageFormat, type ImageJob, maxFrames, type Rendering } from './image-job.ts';
import type { ImageProcess } from './image-process.ts';

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
   * @param source a work file, which no longer exists afterwards
   * @throws StorageError when the source cannot be read
   */
  render(source: string, workFolder: string, rendering: Rendering): Promise<Buffer>;
}

const accepted = 'JPEG, PNG, WebP, AVIF and GIF images are accepted here';

/**
 * Maximum pixels by format, all frames together: what the worker decodes and encodes within its memory. A decoder of AVIF needs 19 bytes
 * per pixel and its encoder 40.
 */
const formatPixels: Record<ImageFormat, number> = {
  jpeg: 50_000_000,
  png: 50_000_000,
  webp: 32_000_000,
  gif: 32_000_000,
  avif: 12_000_000,
};

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

/** The maximum pixels of images of these formats. */
export const maxPixelsOf = (...formats: readonly ImageFormat[]): number =>
  Math.min(...formats.map((format) => formatPixels[format]));

export interface ImageWorkOptions {
  /** Maximum pixels besides those of the format. */
  pixelLimit: number;
  queue: FairQueue;
  process: ImageProcess;
  /** Receives crashes of the worker. */
  onError: (error: unknown) => void;
}

/** Creates the image processing. */
export function createImageWork({ pixelLimit, queue, process, onError }: ImageWorkOptions): ImageWork {
  const inShare = <T>(client: Client, work: () => Promise<T>): Promise<T> =>
    queue.run(client, work).catch((error) => {
      throw error instanceof QueueFull ? storageErrors.busy() : error;
    });
  /** @throws StorageError that says why the image was not processed */
  const run = async (job: ImageJob, formats: string): Promise<void> => {
    const result = await process.run(job);
    switch (result.outcome) {
      case 'done':
        return;
      case 'too many pixels':
        throw storageErrors.tooLarge(
          `The image is too large: ${Math.floor(job.maxPixels / 1e6)} million pixels and ${maxFrames} frames are accepted (${formats})`,
        );
      case 'out of memory':
      case 'out of time':
        throw storageErrors.tooLarge('The image needs too much memory or time. Send a smaller one.');
      case 'damaged':
        throw storageErrors.notAnImage(`The image is damaged and cannot be read. ${accepted}.`);
      case 'ended':
        onError(new Error(`the image worker ended: ${result.reason}`));
        throw storageErrors.imageWorkerEnded();
      case 'failed':
        throw new Error(result.message);
    }
  };

  return {
    inShare,
    cleanse: (path, workFolder, client, choose) =>
      inShare(client, async () => {
        const to = newWorkPath(workFolder);
        try {
          const head = await firstBytes(path);
          const format = imageFormatOf(head);
          if (!format) throw refusalOf(head);
          const encoding = choose(format);
          const maxPixels = Math.min(pixelLimit, maxPixelsOf(format, encoding));
          await run({ do: 'clean', from: path, to, format, encoding, maxPixels }, encoding.toUpperCase());
          return { ...(await measureWorkFile(to)), format: encoding };
        } catch (error) {
          await discard({ path: to });
          throw error;
        } finally {
          await discard({ path });
        }
      }),

    async render(from, workFolder, rendering) {
      const to = newWorkPath(workFolder);
      try {
        const source = imageFormatOf(await firstBytes(from));
        if (!source) throw storageErrors.cannotRender();
        const maxPixels = Math.min(pixelLimit, maxPixelsOf(source));
        await run({ do: 'render', from, to, source, rendering, maxPixels }, source.toUpperCase());
        return await readFile(to);
      } catch (error) {
        if (!(error instanceof StorageError) || error.statusCode >= 500) throw error;
        throw error.statusCode === 413
          ? storageErrors.cannotRender('The source image resolution is too large to process')
          : storageErrors.cannotRender();
      } finally {
        await Promise.all([discard({ path: from }), discard({ path: to })]);
      }
    },
  };
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
