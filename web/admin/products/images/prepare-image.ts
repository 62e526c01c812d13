// Prepares a phone's photo for upload: upright, at most 2000 pixels wide or high, within the bucket's limit.
import {
  isHeic,
  maxImageBytes,
  needsDrawing,
  uploadedSide,
} from '../../../../domain/products/uploaded-image.ts';
import { ImageRejected } from './product-image-storage.ts';

/** Number of bytes that contain the orientation of a JPEG. */
const startLength = 256 * 1024;

/**
 * @param file accepted by `checkImageFile`
 * @returns the file itself if it needs no change
 * @throws ImageRejected if this browser cannot decode it
 */
export async function prepareImage(file: File): Promise<File> {
  // The canvas would keep only the first frame of an animation.
  if (file.type === 'image/gif') return file;
  const image = await decode(file);
  try {
    const start = new Uint8Array(await file.slice(0, startLength).arrayBuffer());
    if (!needsDrawing(file, image, start)) return file;
    return await draw(file, image);
  } finally {
    if ('close' in image) image.close();
  }
}

/** Decodes an image and rotates it according to its EXIF data. */
async function decode(file: File): Promise<ImageBitmap | HTMLImageElement> {
  try {
    return await createImageBitmap(file, { imageOrientation: 'from-image' });
  } catch {
    // Some browsers decode more formats as an element than as a bitmap.
    const address = URL.createObjectURL(file);
    try {
      const image = new Image();
      image.src = address;
      await image.decode();
      return image;
    } catch {
      throw new ImageRejected(
        isHeic(file)
          ? 'This browser cannot open HEIC photos. Choose a JPEG: on an iPhone, set Settings > Camera > Formats to Most Compatible.'
          : 'This image cannot be read. Choose another one.',
      );
    } finally {
      URL.revokeObjectURL(address);
    }
  }
}

async function draw(file: File, image: ImageBitmap | HTMLImageElement): Promise<File> {
  const scale = Math.min(1, uploadedSide / Math.max(image.width, image.height));
  const canvas = document.createElement('canvas');
  canvas.width = Math.max(1, Math.round(image.width * scale));
  canvas.height = Math.max(1, Math.round(image.height * scale));
  const context = canvas.getContext('2d');
  if (!context) throw new ImageRejected('This image cannot be made smaller here. Choose one below 2 MB.');
  context.imageSmoothingQuality = 'high';
  context.drawImage(image, 0, 0, canvas.width, canvas.height);
  // Transparent images stay transparent if the browser can encode the format.
  const isPhoto = file.type === 'image/jpeg' || isHeic(file);
  const drawn =
    (isPhoto ? null : await encode(canvas, 'image/webp')) ?? (await encode(onWhite(canvas), 'image/jpeg'));
  canvas.width = 0;
  if (!drawn || drawn.size > maxImageBytes) {
    throw new ImageRejected('This image cannot be made smaller here. Choose one below 2 MB.');
  }
  const extension = drawn.type === 'image/webp' ? 'webp' : 'jpg';
  return new File([drawn], `${file.name.replace(/\.[^.]*$/, '')}.${extension}`, { type: drawn.type });
}

/** @returns null if the browser cannot encode this type: it would encode PNG instead */
function encode(canvas: HTMLCanvasElement, type: 'image/webp' | 'image/jpeg'): Promise<Blob | null> {
  return new Promise((resolve) =>
    canvas.toBlob((blob) => resolve(blob?.type === type ? blob : null), type, 0.88),
  );
}

/** A JPEG has no transparency: transparent parts would be black. */
function onWhite(canvas: HTMLCanvasElement): HTMLCanvasElement {
  const context = canvas.getContext('2d');
  if (context) {
    context.globalCompositeOperation = 'destination-over';
    context.fillStyle = 'white';
    context.fillRect(0, 0, canvas.width, canvas.height);
  }
  return canvas;
}
