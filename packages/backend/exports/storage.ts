// Where files are stored, and how images are rendered.
export { createDiskFiles } from '../storage/files/disk-files.ts';
export type { FileStore } from '../storage/files/file-store.ts';
export { createS3Files } from '../storage/files/s3-files.ts';
export { createImageProcess, type ImageProcess } from '../storage/images/image-process.ts';
export { imageFormatOf, maxPixelsOf } from '../storage/images/images.ts';
export { createRenderedImages, type RenderedImages } from '../storage/images/rendered-images.ts';
