// Leaves: the khat sprig that runs through the brand, mint, and plain fruit leaves.
import { group, mix, n, type Point, path, place, polar, type Sheet, smooth, stroke } from './sheet.ts';

export type LeafColours = { light: string; dark: string; rib: string };

export const GREEN: LeafColours = { light: '#5cc46f', dark: '#17733f', rib: '#c9f0b8' };
export const DEEP_GREEN: LeafColours = { light: '#2f9c58', dark: '#0b4a2b', rib: '#8fdca0' };
const BRONZE: LeafColours = { light: '#d9714a', dark: '#7c2a35', rib: '#ffc9a0' };

/** A leaf that points up from the origin, `length` long; `teeth` makes the edge serrate. */
export function leaf(sheet: Sheet, length: number, width: number, colours: LeafColours, teeth = 0): string {
  const edge = (side: 1 | -1): Point[] => {
    const points: Point[] = [];
    const steps = teeth > 0 ? teeth * 2 : 8;
    for (let step = 1; step < steps; step++) {
      const t = step / steps;
      const bulge = Math.sin(Math.PI * t ** 0.85) ** 0.9;
      const tooth = teeth > 0 && step % 2 === 1 ? 1.09 : 1;
      points.push([
        side * width * 0.5 * bulge * tooth,
        -length * t + (teeth > 0 && step % 2 === 1 ? -length * 0.012 : 0),
      ]);
    }
    return points;
  };
  const outline = smooth([[0, 0], ...edge(1), [0, -length], ...edge(-1).reverse()], true, teeth > 0 ? 9 : 6);
  const half = `M0 0L${n(width)} 0L${n(width)} ${n(-length)}L0 ${n(-length)}Q${n(width * 0.07)} ${n(-length * 0.5)} 0 0Z`;
  let veins = '';
  for (let index = 1; index < 6; index++) {
    const y = -length * (0.1 + index * 0.13);
    for (const side of [1, -1])
      veins += `M0 ${n(y)}Q${n(side * width * 0.22)} ${n(y - length * 0.04)} ${n(side * width * 0.42)} ${n(y - length * 0.14)}`;
  }
  return group(
    path(
      outline,
      sheet.linear(
        [
          [0, colours.light],
          [1, mix(colours.light, colours.dark, 0.55)],
        ],
        [0, 0],
        [0.6, 1],
      ),
    ) +
      path(half, colours.dark, 'opacity="0.55"') +
      stroke(veins, colours.rib, width * 0.02, 'opacity="0.35"') +
      stroke(
        `M0 0Q${n(width * 0.05)} ${n(-length * 0.5)} 0 ${n(-length * 0.94)}`,
        colours.rib,
        width * 0.04,
        'opacity="0.8"',
      ),
    `clip-path="${sheet.clip(outline)}"`,
  );
}

/** A khat sprig growing up from the origin, about 400 tall: red stem, paired glossy leaves, bronze young tip. */
export function khatSprig(sheet: Sheet, bend = 40, pairs = 5): string {
  const at = (t: number): Point => [bend * t * t, -400 * t];
  const stem = smooth([at(0), at(0.25), at(0.5), at(0.75), at(0.96)], false);
  let leaves = '';
  for (let pair = 0; pair < pairs; pair++) {
    const t = 0.2 + (pair / pairs) * 0.74;
    const [x, y] = at(t);
    const young = pair / (pairs - 1);
    const colours: LeafColours = {
      light: mix('#4fb765', '#d4694a', Math.max(0, young - 0.45) * 1.5),
      dark: mix('#0f5a33', '#7c2a35', Math.max(0, young - 0.45) * 1.5),
      rib: '#d9f2bf',
    };
    const length = 178 - young * 62;
    const spread = 62 - young * 22;
    leaves += place(leaf(sheet, length, length * 0.42, colours, 9), x, y, 1, -spread + bend * 0.2);
    leaves += place(leaf(sheet, length * 0.95, length * 0.4, colours, 9), x, y - 14, 1, spread + bend * 0.2);
  }
  const [tipX, tipY] = at(0.94);
  leaves += place(leaf(sheet, 104, 38, BRONZE, 7), tipX, tipY, 1, bend * 0.25);
  return (
    stroke(stem, '#8c2f3b', 9) +
    stroke(stem, '#d9745c', 3, 'opacity="0.7" transform="translate(-2 0)"') +
    leaves
  );
}

/** A sprig of mint tops seen from the front, about 170 across, centred on the origin. */
export function mint(sheet: Sheet): string {
  const colours: LeafColours = { light: '#6fdc86', dark: '#128a54', rib: '#d8ffd0' };
  const young: LeafColours = { light: '#a6f09a', dark: '#2fae66', rib: '#efffdc' };
  const big = [-112, -38, 40, 118]
    .map((turn) => place(leaf(sheet, 104, 66, colours, 8), 0, 6, 1, turn))
    .join('');
  const small = [-62, 8, 70].map((turn) => place(leaf(sheet, 66, 44, young, 7), 0, 0, 1, turn)).join('');
  return big + small;
}

/** A feathered leaf (tamarind) up from the origin, about 260 tall. */
export function featherLeaf(sheet: Sheet): string {
  let leaflets = '';
  for (let index = 0; index < 9; index++) {
    const y = -30 - index * 25;
    const length = 62 - Math.abs(index - 4) * 5;
    leaflets += place(leaf(sheet, length, 22, GREEN), index * 1.6, y, 1, -68);
    leaflets += place(leaf(sheet, length, 22, DEEP_GREEN), index * 1.6, y, 1, 68);
  }
  return (
    stroke('M0 0Q6 -130 16 -256', '#5d7f2e', 5) + leaflets + place(leaf(sheet, 46, 20, GREEN), 15, -252, 1, 4)
  );
}

/** A lobed currant leaf, about 150 across, stalk at the origin. */
export function lobedLeaf(sheet: Sheet): string {
  const points: Point[] = [[0, 0]];
  const lobes: readonly (readonly [number, number])[] = [
    [150, 50],
    [165, 92],
    [190, 82],
    [205, 104],
    [222, 84],
    [238, 128],
    [254, 112],
    [270, 152],
    [286, 112],
    [302, 128],
    [318, 84],
    [335, 104],
    [350, 82],
    [375, 92],
    [390, 50],
  ];
  for (const [angle, radius] of lobes) points.push(polar(angle, radius, 0, -26));
  const outline = smooth(points, true, 7.5);
  const ribs = `M0 0L0 -150M0 -22Q-50 -60 -78 -104M0 -22Q50 -60 78 -104M0 -12Q-50 -24 -92 -34M0 -12Q50 -24 92 -34`;
  return group(
    path(
      outline,
      sheet.linear([
        [0, '#5cc46f'],
        [1, '#17733f'],
      ]),
    ) +
      path('M0 10L130 10L130 -200L0 -200Z', '#0b4a2b', 'opacity="0.35"') +
      stroke(ribs, '#c9f0b8', 3.2, 'opacity="0.7"'),
    `clip-path="${sheet.clip(outline)}"`,
  );
}
