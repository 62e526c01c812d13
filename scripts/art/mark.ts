// The mark: a leaf whose stem hooks into a J, with a drop cut out of it. Drawn in a 100 x 100 box.

/** The leaf blade with the J-shaped stem. */
export const LEAF = 'M62 6C88 20 92 56 64 76C58 80 52 82 47 83C40 94 26 97 16 88C11 83 12 75 18 73C23 71 27 75 27 79C32 81 37 79 39 74C27 52 34 20 62 6Z';
/** The drop within the leaf. */
export const DROP = 'M61 30C69 42 75 49 75 57C75 65 69 70 61.500 70C54 70 48 65 48 57C48 49 54 42 61 30Z';

/** Mark in one colour with the drop open, centred on (x, y), `size` tall. */
export const mark = (x: number, y: number, size: number, fill: string, drop = ''): string =>
  `<g transform="translate(${x - size / 2} ${y - size / 2}) scale(${size / 100})"><path fill="${fill}" fill-rule="evenodd" d="${LEAF}${DROP}"/>${drop ? `<path d="${DROP}" fill="${drop}"/>` : ''}</g>`;
