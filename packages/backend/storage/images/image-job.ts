// Jobs of the image worker and their results, as JSON messages between the processes. Images are passed as files.

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

/** Maximum frames of an animated image. */
export const maxFrames = 200;
/** Maximum pixels of a requested side. */
export const maxSide = 2500;

/** Image of a file, scaled to cover its rectangle, or a drawing. Offsets are in pixels. */
export type Layer = { left: number; top: number } & (
  | { path: string; format: ImageFormat; width: number; height: number }
  | { svg: string }
);

/** A JPEG made of layers. */
interface Composition {
  width: number;
  height: number;
  background: string;
  /** 1 to 100. */
  quality: number;
  layers: readonly Layer[];
}

/** Writes one image to the path `to`. Sources with more than `maxPixels`, all frames together, are refused undecoded. */
export type ImageJob = { to: string; maxPixels: number } & (
  | { do: 'clean'; from: string; format: ImageFormat; encoding: ImageFormat }
  | { do: 'render'; from: string; source: ImageFormat; rendering: Rendering }
  | { do: 'compose'; composition: Composition }
);

/** `damaged`: the image cannot be read. `failed`: the shop's error, such as a full disk. */
export type ImageResult =
  | { outcome: 'done' | 'too many pixels' | 'out of memory' | 'out of time' | 'damaged' }
  | { outcome: 'failed'; message: string };
