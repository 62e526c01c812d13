// Decoding, resizing and encoding of images. Runs in the image worker's process only (image-worker.ts), because the decoders need
// hundreds of megabytes for a large photo and read untrusted bytes.
import sharp, { type Sharp } from 'sharp';
import {
  type Gravity,
  type ImageFormat,
  type ImageJob,
  type ImageResult,
  type Layer,
  maxFrames,
  maxSide,
} from './image-job.ts';

// Jobs have nothing in common that a cache could reuse.
sharp.cache(false);

/** The image has more pixels or frames than the job allows. */
class TooManyPixels extends Error {}

/** Does a job, and reports why it failed. */
export async function doImageJob(job: ImageJob): Promise<ImageResult> {
  try {
    switch (job.do) {
      case 'clean':
        await clean(job);
        break;
      case 'render':
        await render(job);
        break;
      case 'compose':
        await compose(job);
        break;
    }
    return { outcome: 'done' };
  } catch (error) {
    if (error instanceof TooManyPixels) return { outcome: 'too many pixels' };
    const { message = String(error), code } = error as NodeJS.ErrnoException;
    // An error of the disk is ours, everything else is the image's.
    if (code && /^E[A-Z]+$/.test(code)) return { outcome: 'failed', message };
    if (/pixel limit|too large/i.test(message)) return { outcome: 'too many pixels' };
    // The encoders report missing memory as a failure to encode. What was decoded can always be encoded otherwise.
    if (/alloc|memory|encod/i.test(message)) return { outcome: 'out of memory' };
    if (/wbuffer_write|for write|space left/i.test(message)) return { outcome: 'failed', message };
    return { outcome: 'damaged' };
  }
}

interface Opening {
  format: ImageFormat;
  maxPixels: number;
  isAnimated?: boolean;
  failOn: 'error' | 'none';
}

/** Reads an image's header, and refuses it before its pixels are decoded. */
async function openImage(path: string, { format, maxPixels, isAnimated = false, failOn }: Opening) {
  const image = sharp(path, {
    limitInputPixels: maxPixels,
    failOn,
    sequentialRead: true,
    animated: isAnimated && (format === 'gif' || format === 'webp'),
  });
  const { width, height, pageHeight, pages = 1, format: read, autoOrient } = await image.metadata();
  if (read !== (format === 'avif' ? 'heif' : format)) throw new Error(`decoded as ${read}`);
  const frames = isAnimated ? pages : 1;
  if (width * (pageHeight ?? height) * frames > maxPixels || frames > maxFrames) throw new TooManyPixels();
  return { upright: frames > 1 ? image : image.autoOrient(), frames, size: autoOrient };
}

async function clean({ from, to, format, encoding, maxPixels }: ImageJob & { do: 'clean' }): Promise<void> {
  const isAnimated = encoding === 'gif' || encoding === 'webp';
  const { upright } = await openImage(from, { format, maxPixels, isAnimated, failOn: 'error' });
  await written(upright, encoding, 90).toFile(to);
}

async function render({
  from,
  to,
  source,
  rendering,
  maxPixels,
}: ImageJob & { do: 'render' }): Promise<void> {
  const { width, height, resize, gravity, quality, format } = rendering;
  // Stored originals may be slightly damaged: decode as much as possible.
  const { upright, frames, size } = await openImage(from, {
    format: source,
    maxPixels,
    isAnimated: format === 'webp' || format === 'gif',
    failOn: 'none',
  });
  if (gravity && frames === 1 && resize === 'cover' && width && height) {
    const cut = cutToSize(upright, size, { width, height }, gravity);
    await written(cut, format, quality).toFile(to);
    return;
  }
  // Without a requested size, an image above the maximum size is reduced, too.
  const wanted =
    width || height
      ? { ...(width ? { width } : {}), ...(height ? { height } : {}) }
      : { width: maxSide, height: maxSide };
  const fit = resize === 'contain' || !(width || height) ? 'inside' : resize;
  await written(upright.resize({ ...wanted, fit, withoutEnlargement: true }), format, quality).toFile(to);
}

async function compose({ to, composition, maxPixels }: ImageJob & { do: 'compose' }): Promise<void> {
  const { width, height, background, quality } = composition;
  const layers = [];
  for (const layer of composition.layers) {
    layers.push({ input: await drawLayer(layer, background, maxPixels), left: layer.left, top: layer.top });
  }
  await written(
    sharp({ create: { width, height, channels: 3, background } }).composite(layers),
    'jpeg',
    quality,
  ).toFile(to);
}

async function drawLayer(layer: Layer, background: string, maxPixels: number): Promise<Buffer> {
  const fast = { compressionLevel: 1 };
  if ('svg' in layer) return sharp(Buffer.from(layer.svg)).png(fast).toBuffer();
  const { upright } = await openImage(layer.path, { format: layer.format, maxPixels, failOn: 'error' });
  const { width, height } = layer;
  return upright.resize({ width, height, fit: 'cover' }).flatten({ background }).png(fast).toBuffer();
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
