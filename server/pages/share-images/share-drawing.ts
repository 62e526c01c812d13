// The SVG layer over a product's image for shared links: shop, name and price.
import { drawText, hasGlyph, widthOf } from './lettering.ts';
import { mark } from './mark.ts';

export interface SharedWords {
  storeName: string;
  name: string;
  /** Such as `KSh 950.00`. */
  price: string;
}

const panelWidth = 600;
const leftMargin = 64;
const textWidth = panelWidth - leftMargin - 20;
const sizes = [82, 72, 62, 54, 46];
const maxLines = 4;

/**
 * Reduces a text to letters of the font: removes accents and unknown characters, and simplifies quotes and dashes.
 * @returns '' when nothing can be drawn
 */
export function toDrawableText(words: string): string {
  return [
    ...words
      .normalize('NFKD')
      .replace(/[\u2018\u2019\u02bc`]/g, "'")
      .replace(/[\u2010-\u2015]/g, '-')
      .replace(/\s+/g, ' '),
  ]
    .filter((letter) => hasGlyph(letter, 'display'))
    .join('')
    .replace(/ +/g, ' ')
    .trim();
}

/** Breaks words into lines no wider than `width`; a wider word gets a line of its own. */
export function breakLines(words: string, size: number, width: number): string[] {
  const lines: string[] = [];
  for (const word of words.split(' ')) {
    const last = lines.at(-1);
    if (last && widthOf(`${last} ${word}`, 'display', size, -14) <= width)
      lines[lines.length - 1] = `${last} ${word}`;
    else lines.push(word);
  }
  return lines;
}

function fitTitle(words: string, width: number, maxHeight: number): { size: number; lines: string[] } {
  const smallest = sizes.at(-1) ?? 46;
  for (const size of sizes) {
    const lines = breakLines(words, size, width);
    const isWithin = lines.every((line) => widthOf(line, 'display', size, -14) <= width);
    if (isWithin && lines.length * size <= maxHeight) return { size, lines };
  }
  // A very long name is truncated.
  const lines = breakLines(words, smallest, width)
    .slice(0, maxLines)
    .map((line) => {
      const letters = [...line];
      while (widthOf(letters.join(''), 'display', smallest, -14) > width) letters.pop();
      return letters.join('');
    });
  return { size: smallest, lines };
}

/** The layer, 1200 x 630: a dark gradient on the left that fades out over the image, with the text on it. */
export function shareDrawing({ storeName, name, price }: SharedWords): string {
  const { size, lines } = fitTitle(toDrawableText(name) || toDrawableText(storeName), textWidth, 260);
  const height = lines.length * size;
  const first = 330 - height / 2 + size * 0.5;
  const text = lines
    .map((line, index) => drawText(line, leftMargin, first + index * size, size, '#fdf8ef', 'display', -14))
    .join('');
  const priceAt = first + (lines.length - 1) * size + 84;
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1200 630" width="1200" height="630"><defs><linearGradient id="dusk" x1="0" y1="0" x2="0" y2="1"><stop offset="0" stop-color="#140923"/><stop offset="0.6" stop-color="#301c4b"/><stop offset="1" stop-color="#6b2868"/></linearGradient><linearGradient id="fade" x1="0" y1="0" x2="1" y2="0"><stop offset="0" stop-color="#fff"/><stop offset="0.7" stop-color="#fff"/><stop offset="0.8" stop-color="#8a8a8a"/><stop offset="0.9" stop-color="#2c2c2c"/><stop offset="1" stop-color="#000"/></linearGradient><mask id="over"><rect width="790" height="630" fill="url(#fade)"/></mask></defs><rect width="790" height="630" fill="url(#dusk)" mask="url(#over)"/>${mark(leftMargin + 22, 86, 56, '#8bd1a1', '#ffab66')}${drawText(toDrawableText(storeName), leftMargin + 62, 100, 40, '#fdf8ef', 'display', -14)}${text}${drawText(price, leftMargin, priceAt, 50, '#ffab66', 'display', -8)}${drawText('Ice-cold in Nairobi, 15-60 minutes', leftMargin, 562, 26, '#d9caea', 'text', 0)}</svg>`;
}

/** The layer of the square image, 1200 x 1200: a dark gradient at the foot, with the text on it. */
export function squareShareDrawing({ storeName, name, price }: SharedWords): string {
  const { size, lines } = fitTitle(
    toDrawableText(name) || toDrawableText(storeName),
    1200 - 2 * leftMargin,
    170,
  );
  const first = 1040 - (lines.length - 1) * size;
  const text = lines
    .map((line, index) => drawText(line, leftMargin, first + index * size, size, '#fdf8ef', 'display', -14))
    .join('');
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1200 1200" width="1200" height="1200"><defs><linearGradient id="foot" x1="0" y1="0" x2="0" y2="1"><stop offset="0" stop-color="#140923" stop-opacity="0"/><stop offset="0.45" stop-color="#140923" stop-opacity="0.82"/><stop offset="1" stop-color="#140923" stop-opacity="0.96"/></linearGradient></defs><rect y="700" width="1200" height="500" fill="url(#foot)"/>${text}${drawText(price, leftMargin, 1126, 66, '#ffab66', 'display', -8)}</svg>`;
}
