// Makes a phone's photo fit for the shop before it is uploaded: upright, at most 2000 pixels wide or high, within the bucket's limit.
import { isHeic, largestPicture, needsDrawing, uploadedSide } from '../../../domain/uploaded-picture.ts';
import { PictureRefused } from './product-picture-storage.ts';

/** Bytes in which a JPEG says how it is turned. */
const startLength = 256 * 1024;

/**
 * @param file that `checkPictureFile` has accepted
 * @returns the file itself when it is fine as it is
 * @throws PictureRefused when this browser cannot read it
 */
export async function preparePicture(file: File): Promise<File> {
  // The browser would show only the first image of an animation, so nothing is drawn.
  if (file.type === 'image/gif') return file;
  const picture = await decode(file);
  try {
    const start = new Uint8Array(await file.slice(0, startLength).arrayBuffer());
    if (!needsDrawing(file, picture, start)) return file;
    return await draw(file, picture);
  } finally {
    if ('close' in picture) picture.close();
  }
}

/** Decodes a picture and turns it as its EXIF data say. */
async function decode(file: File): Promise<ImageBitmap | HTMLImageElement> {
  try {
    return await createImageBitmap(file, { imageOrientation: 'from-image' });
  } catch {
    // Some browsers read more kinds of files as an element than as a bitmap.
    const address = URL.createObjectURL(file);
    try {
      const image = new Image();
      image.src = address;
      await image.decode();
      return image;
    } catch {
      throw new PictureRefused(
        isHeic(file)
          ? 'This browser cannot open HEIC photos. Choose a JPEG: on an iPhone, set Settings > Camera > Formats to Most Compatible.'
          : 'This image cannot be read. Choose another one.',
      );
    } finally {
      URL.revokeObjectURL(address);
    }
  }
}

async function draw(file: File, picture: ImageBitmap | HTMLImageElement): Promise<File> {
  const scale = Math.min(1, uploadedSide / Math.max(picture.width, picture.height));
  const canvas = document.createElement('canvas');
  canvas.width = Math.max(1, Math.round(picture.width * scale));
  canvas.height = Math.max(1, Math.round(picture.height * scale));
  const context = canvas.getContext('2d');
  if (!context) throw new PictureRefused('This image cannot be made smaller here. Choose one below 2 MB.');
  context.imageSmoothingQuality = 'high';
  context.drawImage(picture, 0, 0, canvas.width, canvas.height);
  // Cut-outs keep their transparency where the browser can write it.
  const isPhoto = file.type === 'image/jpeg' || isHeic(file);
  const drawn =
    (isPhoto ? null : await encode(canvas, 'image/webp')) ?? (await encode(onWhite(canvas), 'image/jpeg'));
  canvas.width = 0;
  if (!drawn || drawn.size > largestPicture) {
    throw new PictureRefused('This image cannot be made smaller here. Choose one below 2 MB.');
  }
  const extension = drawn.type === 'image/webp' ? 'webp' : 'jpg';
  return new File([drawn], `${file.name.replace(/\.[^.]*$/, '')}.${extension}`, { type: drawn.type });
}

/** @returns null when the browser cannot write this type: it would write PNG instead */
function encode(canvas: HTMLCanvasElement, type: 'image/webp' | 'image/jpeg'): Promise<Blob | null> {
  return new Promise((resolve) =>
    canvas.toBlob((blob) => resolve(blob?.type === type ? blob : null), type, 0.88),
  );
}

/** A JPEG has no transparency: it would be black. */
function onWhite(canvas: HTMLCanvasElement): HTMLCanvasElement {
  const context = canvas.getContext('2d');
  if (context) {
    context.globalCompositeOperation = 'destination-over';
    context.fillStyle = 'white';
    context.fillRect(0, 0, canvas.width, canvas.height);
  }
  return canvas;
}
