// Text as outlines, so that it looks the same on every machine.
import letterforms from './letterforms.json' with { type: 'json' };

/** A number as short SVG text, one decimal. */
const n = (value: number): string => String(Math.round(value * 10) / 10);

type Font = Record<string, [advance: number, outline: string]>;
export type FontName = 'display' | 'narrow' | 'text';

const fonts = letterforms as unknown as Record<FontName, Font>;

/** Capital height of the brand's capitals, in thousandths of the size. */
export const CAPITAL_HEIGHT = 0.66;

/** Whether the font has a glyph for a letter. */
export const hasGlyph = (letter: string, face: FontName): boolean => Object.hasOwn(fonts[face], letter);

/** Width of `words` at `size`, with `spacing` in thousandths of an em between letters. */
export function widthOf(words: string, face: FontName, size: number, spacing = 0): number {
  const letters = [...words].map((letter) => fonts[face][letter]?.[0] ?? 250);
  return ((letters.reduce((sum, advance) => sum + advance + spacing, 0) - spacing) * size) / 1000;
}

/** `words` as outlines with the baseline at `y`, centred on `x` (or starting or ending there). */
export function drawText(
  words: string,
  x: number,
  y: number,
  size: number,
  fill: string,
  face: FontName = 'display',
  spacing = 0,
  anchor: 'start' | 'middle' | 'end' = 'middle',
): string {
  const width = widthOf(words, face, size, spacing);
  let at = x - (anchor === 'middle' ? width / 2 : anchor === 'end' ? width : 0);
  let letters = '';
  for (const letter of words) {
    const [advance, outline] = fonts[face][letter] ?? [250, ''];
    if (outline)
      letters += `<path transform="translate(${n(at)} ${n(y)}) scale(${(size / 1000).toFixed(4)})" d="${outline}"/>`;
    at += ((advance + spacing) * size) / 1000;
  }
  return `<g fill="${fill}">${letters}</g>`;
}

/** The size at which `words` fill `width`, at most `largest`. */
export const sizeToFit = (words: string, face: FontName, width: number, largest: number): number =>
  Math.min(largest, width / widthOf(words, face, 1));
