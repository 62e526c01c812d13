// The mark: a leaf whose stem hooks into a J, with a drop cut out of it. Drawn in a 100 x 100 box.

/** The leaf blade; with the stem it makes a J. */
export const LEAF = 'M65 3C96 22 99 61 60 77C31 66 30 27 65 3Z';
/** The stem, drawn as a line 9.5 wide. */
export const STEM = 'M61 66C61 86 44 97 27 87';
/** The drop within the leaf. */
export const DROP = 'M64 25C71 36 77 42 77 50C77 57.500 71 62 64 62C57 62 51 57.500 51 50C51 42 57 36 64 25Z';

/** Mark in one colour with the drop open, centred on (x, y), `size` tall. */
export const mark = (x: number, y: number, size: number, fill: string, drop = ''): string =>
  `<g transform="translate(${x - size * 0.57} ${y - size / 2}) scale(${size / 100})"><path fill="${fill}" fill-rule="evenodd" d="${LEAF}${DROP}"/><path fill="none" stroke="${fill}" stroke-width="9.5" stroke-linecap="round" d="${STEM}"/>${drop ? `<path d="${DROP}" fill="${drop}"/>` : ''}</g>`;
