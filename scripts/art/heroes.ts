// The four hero scenes, wide (1600 x 900, words go on the left) tall (900 x 1000, words go in the upper part)
// and low (900 x 760, for the first screen of a phone: words go on the left half).
import {
  acacia,
  ground,
  hills,
  mountKenya,
  shadow,
  silhouette,
  sky,
  skyline,
  stars,
  sun,
} from './backdrop.ts';
import { bodaBoda } from './boda-boda.ts';
import { citrusHalf, citrusWheel, LEMON, LIME } from './citrus.ts';
import { FLAVOURS, type Flavour, type FlavourSlug } from './flavours.ts';
import { FRUIT, type Piece } from './fruit.ts';
import { khatSprig } from './leaves.ts';
import { ellipse, group, n, type Point, path, place, Sheet, seeded, smooth, stroke } from './sheet.ts';
import { VESSELS, type VesselName } from './vessels.ts';

export type HeroName = 'hero-energy' | 'hero-cold' | 'hero-khat' | 'hero-flavors';
export type Crop = 'wide' | 'tall' | 'low';
export const HERO_NAMES: readonly HeroName[] = ['hero-energy', 'hero-cold', 'hero-khat', 'hero-flavors'];

/** Where things go in a crop: canvas, horizon, and the middle and scale of the subject. */
type Frame = { crop: Crop; width: number; height: number; horizon: number; x: number; scale: number };
const FRAMES: Record<Crop, Frame> = {
  wide: { crop: 'wide', width: 1600, height: 900, horizon: 668, x: 1130, scale: 0.88 },
  tall: { crop: 'tall', width: 900, height: 1000, horizon: 786, x: 450, scale: 0.86 },
  low: { crop: 'low', width: 900, height: 760, horizon: 586, x: 668, scale: 0.68 },
};

const flavour = (slug: FlavourSlug): Flavour => {
  const found = FLAVOURS.find((one) => one.slug === slug);
  if (!found) throw new Error(`no flavour ${slug}`);
  return found;
};

const vessel = (
  sheet: Sheet,
  name: VesselName,
  slug: FlavourSlug,
  x: number,
  y: number,
  scale: number,
  turn = 0,
): string =>
  shadow(sheet, x, y, VESSELS[name].width * scale * 1.1, '#0c0418', 0.75) +
  place(VESSELS[name].draw(sheet, flavour(slug)), x, y, scale, turn);

const stand = (sheet: Sheet, piece: Piece, x: number, y: number, scale: number, flip = false): string =>
  shadow(sheet, x, y, piece.width * scale, '#0c0418', 0.6) + place(piece.draw(sheet), x, y, scale, 0, flip);

/** Darkness where the words stand, so that they always have the contrast they need. */
const calm = (sheet: Sheet, { crop, width, height }: Frame, colour: string): string =>
  crop !== 'tall'
    ? `<rect width="${width}" height="${height}" fill="${sheet.across([
        [0, colour, crop === 'low' ? 0.9 : 0.74],
        [crop === 'low' ? 0.42 : 0.3, colour, crop === 'low' ? 0.7 : 0.5],
        [crop === 'low' ? 0.72 : 0.58, colour, 0],
      ])}"/>`
    : `<rect width="${width}" height="${height}" fill="${sheet.linear([
        [0, colour, 0.7],
        [0.26, colour, 0.34],
        [0.44, colour, 0],
      ])}"/>`;

function energy(sheet: Sheet, frame: Frame): string {
  const { width, height, horizon, x, scale } = frame;
  const foot = horizon + 150 * scale;
  return (
    sky(sheet, width, height, [
      [0, '#140923'],
      [0.28, '#3a1a58'],
      [0.5, '#8f2f6c'],
      [0.64, '#e2593f'],
      [0.76, '#ffb35c'],
    ]) +
    stars(width, height * 0.4, 46, 3) +
    sun(sheet, x, horizon - 190 * scale, 292 * scale, '#ffe39a', '#ff7a4a') +
    silhouette(skyline('#5c2159', '#ffcf7a', 7), x - 560, horizon + 4, 1.0) +
    silhouette(skyline('#5c2159', '#ffcf7a', 4), x + 470, horizon + 4, 0.94, true) +
    silhouette(skyline('#371447', '#ffd98f', 5), x + 20, horizon + 8, 1.28 * scale) +
    hills(sheet, width, horizon - 2, 22, horizon + 30, '#2a0f3c', '#1a0a2a', 5) +
    silhouette(acacia('#1a0a2a'), x + 420 * scale, horizon + 22, 1.25 * scale) +
    ground(sheet, width, horizon + 14, height, '#c4512f', '#1d0c2c', x, 520) +
    calm(sheet, frame, '#170a28') +
    // Words are there.
    (frame.crop === 'low' ? '' : place(khatSprig(sheet, -70), x - 150 * scale, foot - 20, 1.1 * scale, -34)) +
    place(khatSprig(sheet, 60), x + 190 * scale, foot - 30, 1.05 * scale, 38) +
    stand(sheet, FRUIT.passion.whole, x + 292 * scale, foot - 14, 1.0 * scale) +
    vessel(sheet, 'bottle', 'mango', x - 110 * scale, foot, 0.98 * scale) +
    vessel(sheet, 'can', 'hibiscus', x + 146 * scale, foot + 14, 0.98 * scale) +
    stand(sheet, FRUIT.mango.cut, x - (frame.crop === 'low' ? 214 : 262) * scale, foot + 40, 0.92 * scale) +
    stand(sheet, FRUIT.hibiscus.cut, x + 306 * scale, foot + 56, 0.82 * scale) +
    stand(sheet, FRUIT.passion.cut, x + 26 * scale, foot + 62, 0.72 * scale)
  );
}

/** A block of ice about 130 across, resting on the ground. */
function ice(sheet: Sheet, seed: number): string {
  const random = seeded(seed);
  const j = () => (random() - 0.5) * 14;
  const a: Point = [-62 + j(), -88 + j()];
  const b: Point = [4 + j(), -122 + j()];
  const c: Point = [70 + j(), -84 + j()];
  const d: Point = [2 + j(), -54 + j()];
  const e: Point = [-56 + j(), -16];
  const f: Point = [6 + j(), 2];
  const g: Point = [64 + j(), -20];
  const face = (...points: Point[]) => smooth(points, true, 18);
  return (
    path(
      face(a, d, f, e),
      sheet.linear([
        [0, '#d9f3ff', 0.9],
        [0.6, '#8fc8ea', 0.7],
        [1, '#dff6ff', 0.9],
      ]),
    ) +
    path(
      face(d, c, g, f),
      sheet.linear([
        [0, '#8ab6e6', 0.8],
        [0.6, '#5d7fc4', 0.7],
        [1, '#ffc7a0', 0.75],
      ]),
    ) +
    path(
      face(a, b, c, d),
      sheet.linear([
        [0, '#ffffff', 0.98],
        [1, '#c4e6fa', 0.85],
      ]),
    ) +
    stroke(
      `M${n(a[0])} ${n(a[1])}L${n(d[0])} ${n(d[1])}L${n(c[0])} ${n(c[1])}M${n(d[0])} ${n(d[1])}L${n(f[0])} ${n(f[1])}`,
      '#fff',
      4,
      'opacity="0.85"',
    ) +
    path(
      face([a[0] + 16, a[1] + 22], [a[0] + 30, a[1] + 28], [e[0] + 28, e[1] - 26], [e[0] + 18, e[1] - 30]),
      '#fff',
      'opacity="0.6"',
    )
  );
}

function cold(sheet: Sheet, frame: Frame): string {
  const { crop, width, height, horizon, scale } = frame;
  const x = { wide: frame.x - 90, tall: frame.x - 118, low: frame.x - 20 }[crop];
  const foot = horizon + 146 * scale;
  const random = seeded(12);
  let back = '';
  let front = '';
  for (let index = 0; index < 9; index++) {
    const u = index / 8 - 0.5;
    back += place(
      ice(sheet, 30 + index),
      x + u * 640 * scale,
      foot - 4 + random() * 16,
      (0.95 + random() * 0.35) * scale,
      (random() - 0.5) * 18,
    );
  }
  for (let index = 0; index < 8; index++) {
    const u = index / 7 - 0.5;
    front += place(
      ice(sheet, 60 + index),
      x + u * 720 * scale,
      foot + 54 + random() * 22,
      (0.62 + random() * 0.5) * scale,
      (random() - 0.5) * 26,
    );
  }
  const bikeX = { wide: 1400, tall: 704, low: 470 }[crop];
  let mist = '';
  for (const [mx, my, mw] of [
    [-260, -20, 300],
    [180, 10, 360],
    [-20, 60, 420],
  ] as const)
    mist += path(
      ellipse(x + mx * scale, foot + my, mw * scale, 54 * scale),
      sheet.radial([
        [0, '#e6f4ff', 0.5],
        [1, '#e6f4ff', 0],
      ]),
    );
  return (
    sky(sheet, width, height, [
      [0, '#0d1030'],
      [0.3, '#26286a'],
      [0.52, '#6a4a9c'],
      [0.66, '#e07a8f'],
      [0.78, '#ffc08a'],
    ]) +
    stars(width, height * 0.45, 50, 8) +
    sun(sheet, x + 40 * scale, horizon - 214 * scale, 262 * scale, '#fff0c4', '#ff9c7a') +
    silhouette(skyline('#4a3a86', '#ffd98f', 9), x - 300, horizon + 4, 0.9, true) +
    silhouette(skyline('#4a3a86', '#ffd98f', 6), x + 440, horizon + 4, 0.86) +
    hills(sheet, width, horizon + 2, 20, horizon + 30, '#2a2260', '#1a1544', 7) +
    ground(sheet, width, horizon + 14, height, '#7d6bb8', '#14123a', x, 560) +
    calm(sheet, frame, '#0f0f30') +
    silhouette(
      bodaBoda(sheet, '#120f34', '#ff9c5a'),
      bikeX,
      horizon + 48 * scale,
      (crop === 'wide' ? 1.12 : 1) * scale,
    ) +
    back +
    vessel(sheet, 'can', 'coconut-lime', x + 168 * scale, foot + 4, 0.92 * scale, 5) +
    vessel(sheet, 'bottle', 'watermelon', x - 34 * scale, foot + 20, 0.98 * scale, -3) +
    mist +
    front +
    place(citrusWheel(sheet, LIME), x + 262 * scale, foot + 60, 0.9 * scale) +
    place(FRUIT.watermelon.small.draw(sheet), x - 206 * scale, foot + 78, 0.94 * scale) +
    place(citrusHalf(sheet, LEMON), x + 74 * scale, foot + 84, 0.56 * scale)
  );
}

/** Rows of khat bushes along the contours of a hillside, larger towards us. */
function terraces(
  width: number,
  y: number,
  height: number,
  light: string,
  dark: string,
  bow: number,
): string {
  let rows = '';
  for (let index = 1; index < 8; index++) {
    const at = y + (height * index ** 1.45) / 17;
    const size = 5 + index * 2.2;
    const d = `M-20 ${n(at)}Q${n(width * 0.35)} ${n(at - bow + index * 4)} ${n(width * 0.62)} ${n(at + 4)}T${width + 20} ${n(at - 6)}`;
    const dashes = `stroke-dasharray="${n(size * 0.5)} ${n(size * 1.25)}"`;
    rows +=
      stroke(d, dark, size, `${dashes} opacity="0.75" transform="translate(3 ${n(size * 0.35)})"`) +
      stroke(d, light, size, `${dashes} opacity="0.9"`) +
      stroke(d, '#ffd08a', size * 0.3, `${dashes} opacity="0.35" transform="translate(1 ${n(-size * 0.3)})"`);
  }
  return rows;
}

function khat(sheet: Sheet, frame: Frame): string {
  const { crop, width, height, horizon, x, scale } = frame;
  const foot = horizon + 150 * scale;
  const mountainWidth = { wide: 1300, tall: 1000, low: 800 }[crop];
  const sprigs = (spots: readonly (readonly [number, number, number, number, number])[]) =>
    spots
      .map(([sx, sy, size, turn, bend]) =>
        place(khatSprig(sheet, bend), x + sx * scale, foot + sy * scale, size * scale, turn),
      )
      .join('');
  return (
    sky(sheet, width, height, [
      [0, '#170b2c'],
      [0.26, '#432766'],
      [0.46, '#a8407a'],
      [0.6, '#f07f56'],
      [0.74, '#ffcf86'],
    ]) +
    stars(width, height * 0.35, 36, 15) +
    sun(sheet, x + 150 * scale, horizon - 250 * scale, 206 * scale, '#fff0c0', '#ff9a54', 0.6) +
    place(
      mountKenya(sheet, mountainWidth, horizon - 330, horizon + 20, '#b0578a', '#4a2264', '#ffe3cc'),
      x - mountainWidth / 2 - { wide: 360, tall: 232, low: 150 }[crop],
      0,
    ) +
    hills(sheet, width, horizon - 40, 70, horizon + 80, '#5a2f63', '#3a2450', 3) +
    hills(sheet, width, horizon - 6, 54, height, '#2f6a4e', '#0c3328', 8) +
    terraces(width, horizon - 18, 250, '#3f8f55', '#0c3026', 46) +
    path(
      ellipse(x, foot + 10, 520 * scale, 130 * scale),
      sheet.radial([
        [0, '#4f9a54', 0.9],
        [0.6, '#2c7045', 0.5],
        [1, '#2c7045', 0],
      ]),
    ) +
    calm(sheet, frame, '#170b2c') +
    sprigs([
      [-90, -14, 1.02, -38, -60],
      [96, -14, 1.06, 34, 60],
      [-176, 16, 0.92, -66, -50],
      [196, 18, 0.96, 62, 60],
    ]) +
    vessel(sheet, 'flask', 'tamarind', x - 6 * scale, foot + 10, 0.98 * scale) +
    sprigs([
      [-170, 96, 0.84, -74, -40],
      [190, 100, 0.8, 70, 50],
    ]) +
    stand(sheet, FRUIT['ginger-lemon'].whole, x - 236 * scale, foot + 66, 0.8 * scale) +
    stand(sheet, FRUIT.tamarind.cut, x + 220 * scale, foot + 74, 0.84 * scale) +
    stand(sheet, FRUIT['ginger-lemon'].small, x + 40 * scale, foot + 88, 0.64 * scale)
  );
}

function flavors(sheet: Sheet, frame: Frame): string {
  const { crop, width, height, horizon } = frame;
  const wide = crop === 'wide';
  const x = { wide: 1072, tall: 450, low: 650 }[crop];
  const foot = horizon + { wide: 74, tall: 60, low: 44 }[crop];
  const scale = { wide: 0.63, tall: 0.56, low: 0.37 }[crop];
  const step = { wide: 202, tall: 174, low: 100 }[crop];
  const back: readonly (readonly [VesselName, FlavourSlug])[] = [
    ['flask', 'coconut-lime'],
    ['flask', 'ginger-lemon'],
    ['flask', 'hibiscus'],
    ['flask', 'blackcurrant'],
  ];
  const front: readonly (readonly [VesselName, FlavourSlug])[] = [
    ['bottle', 'pineapple-mint'],
    ['can', 'passion'],
    ['bottle', 'mango'],
    ['can', 'tamarind'],
    ['bottle', 'watermelon'],
  ];
  const row = (items: typeof back, y: number, size: number) =>
    items
      .map(([name, slug], index) =>
        vessel(sheet, name, slug, x + (index - (items.length - 1) / 2) * step, y, size),
      )
      .join('');
  // The back row stands on a stone step, so that its labels are seen between the shoulders in front.
  const rise = { wide: 212, tall: 182, low: 116 }[crop];
  const half = step * 2.05;
  const plinth =
    path(
      `M${n(x - half)} ${n(foot - rise)}L${n(x + half)} ${n(foot - rise)}L${n(x + half)} ${n(foot + 20)}L${n(x - half)} ${n(foot + 20)}Z`,
      sheet.linear([
        [0, '#7a2f68'],
        [1, '#3a1549'],
      ]),
    ) +
    path(
      ellipse(x, foot - rise, half, 26),
      sheet.across([
        [0, '#a8497a'],
        [0.4, '#f08a6a'],
        [1, '#9a3f74'],
      ]),
    );
  const fruit: readonly (readonly [FlavourSlug, 'whole' | 'cut' | 'small', number, number])[] = [
    ['pineapple-mint', 'small', -2.3, 0.56],
    ['coconut-lime', 'cut', -1.5, 0.5],
    ['passion', 'cut', -0.56, 0.48],
    ['mango', 'cut', 0.5, 0.5],
    ['hibiscus', 'cut', 1.48, 0.5],
    ['blackcurrant', 'small', 2.26, 0.62],
  ];
  return (
    sky(sheet, width, height, [
      [0, '#180b2e'],
      [0.3, '#4c2470'],
      [0.5, '#b53a78'],
      [0.66, '#f4774f'],
      [0.78, '#ffc46e'],
    ]) +
    stars(width, height * 0.36, 40, 19) +
    sun(sheet, x, horizon - 206 * (wide ? 1 : 0.8), { wide: 330, tall: 290, low: 210 }[crop], '#ffe7a0', '#ff7f5a') +
    hills(sheet, width, horizon - 30, 80, horizon + 40, '#8a3169', '#5a2159', 2) +
    silhouette(acacia('#431a50'), x - 470 * (wide ? 1 : 0.8), horizon + 12, wide ? 1.2 : 0.9, true) +
    silhouette(acacia('#431a50'), x + 440 * (wide ? 1 : 0.8), horizon + 12, wide ? 1.4 : 1) +
    hills(sheet, width, horizon + 6, 30, horizon + 40, '#431a50', '#2f1240', 14) +
    ground(sheet, width, horizon + 14, height, '#d05a48', '#220e34', x, 640) +
    calm(sheet, frame, '#180b2e') +
    plinth +
    row(back, foot - rise + 8, scale * 0.92) +
    row(front, foot + (crop === 'low' ? 40 : 62), scale) +
    fruit
      .map(([slug, which, u, size]) =>
        stand(sheet, FRUIT[slug][which], x + u * step, foot + { wide: 116, tall: 112, low: 76 }[crop], size * { wide: 1, tall: 0.86, low: 0.54 }[crop]),
      )
      .join('')
  );
}

const SCENES: Record<HeroName, (sheet: Sheet, frame: Frame) => string> = {
  'hero-energy': energy,
  'hero-cold': cold,
  'hero-khat': khat,
  'hero-flavors': flavors,
};

/** A hero scene in a crop, as an SVG document. */
export function heroScene(name: HeroName, crop: Crop): string {
  const sheet = new Sheet();
  const frame = FRAMES[crop];
  return sheet.document(frame.width, frame.height, group(SCENES[name](sheet, frame), ''));
}
