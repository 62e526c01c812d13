// The image shown when a link to the shop is shared: 1200 x 630, the line-up with the wordmark.

import { drawText } from './lettering.ts';
import { mark } from './mark.ts';
import { heroScene } from './heroes.ts';

/** The share image as an SVG document. */
export function shareScene(): string {
  const scene = heroScene('hero-flavors', 'wide')
    .replace(/^<svg[^>]*>/, '')
    .replace(/<\/svg>$/, '');
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1200 630" width="1200" height="630"><g transform="translate(0 -28) scale(0.75)">${scene}</g>${mark(104, 214, 124, '#8bd1a1', '#ffb35c')}${drawText('Jani Juice', 60, 360, 84, '#fdf8ef', 'display', -18, 'start')}${drawText('Ice-cold in Nairobi, 15-60 minutes', 63, 406, 20, '#ffcb9b', 'text', 0, 'start')}</svg>`;
}
