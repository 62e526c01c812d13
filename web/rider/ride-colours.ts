/** The colours of the rider's page. Each equals a token (`tokens.test.ts`): the page is a document of its own, without the shop's style sheets. */
export const colours = {
  ink: '#23142f',
  softInk: '#5c4a68',
  paper: '#fffdf9',
  shade: '#f6ebda',
  link: '#452a67',
  done: '#114c2c',
  cash: '#f4d228',
  danger: '#97201a',
  dangerShade: '#ffe1de',
} as const;

type Colour = keyof typeof colours;

/** Text and background as they occur. Riders read the page in sunlight: each pair has a contrast of at least 7:1. */
export const colourPairs: readonly (readonly [Colour, Colour])[] = [
  ['ink', 'paper'],
  ['ink', 'shade'],
  ['ink', 'cash'],
  ['ink', 'dangerShade'],
  ['softInk', 'paper'],
  ['link', 'paper'],
  ['paper', 'ink'],
  ['paper', 'done'],
  ['done', 'paper'],
  ['paper', 'danger'],
  ['danger', 'paper'],
];
