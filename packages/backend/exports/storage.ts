// Where files are stored, and how images are rendered.
export { createDiskFiles } from '../storage/disk-files.ts';
export type { FileStore } from '../storage/file-store.ts';
export { createImageProcess, type ImageProcess } from '../storage/image-process.ts';
export { imageFormatOf, maxPixelsOf } from '../storage/images.ts';
export { createRenderedImages, type RenderedImages } from '../storage/rendered-images.ts';
export { createS3Files } from '../storage/s3-files.ts';
