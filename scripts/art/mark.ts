// The logo mark in a 100 x 100 box: a sprouting J with two khat leaves and a drop at the end of its hook.

/** The large leaf with its rib left open, and the small leaf. */
const LEAVES =
  'M60 48C46 26 57 5 91 2C95 32 82 47 60 48ZM62.500 44C71 38 78 27 82 12C73 22 65 32 60.500 42ZM54 46C36 48 22 38 18 19C38 17 52 26 54 46Z';
/** The letter's stem and hook, drawn as a line 14 wide. */
const STEM = 'M60 44V68C60 83 49 90 36 87';
/** The drop that ends the hook. */
const DROP = 'M27 50C36 63 43 71 43 80C43 89.500 36 96 27 96C18 96 11 89.500 11 80C11 71 18 63 27 50Z';

/** The mark, `size` tall, centred on (x, y); the drop may have its own colour. */
export const mark = (x: number, y: number, size: number, fill: string, drop = fill): string =>
  `<g transform="translate(${x - size * 0.53} ${y - size * 0.49}) scale(${size / 100})"><path fill="${fill}" fill-rule="evenodd" d="${LEAVES}"/><path fill="none" stroke="${fill}" stroke-width="14" d="${STEM}"/><path d="${DROP}" fill="${drop}"/></g>`;
