// The fruit of each flavour: three pieces (whole, cut, small), each resting on y = 0 around x = 0, about 200 across.
import { citrusHalf, citrusWheel, citrusWhole, LEMON, LIME } from './citrus.ts';
import type { FlavourSlug } from './flavours.ts';
import { DEEP_GREEN, featherLeaf, GREEN, leaf, lobedLeaf, mint } from './leaves.ts';
import {
  ellipse,
  group,
  mix,
  n,
  type Point,
  path,
  place,
  polar,
  type Sheet,
  seeded,
  smooth,
  solid,
  stroke,
} from './sheet.ts';

export type Piece = { draw: (sheet: Sheet) => string; width: number };
export type Pieces = { whole: Piece; cut: Piece; small: Piece };

const piece = (width: number, draw: (sheet: Sheet) => string): Piece => ({ width, draw });

// Mango

function mangoWhole(sheet: Sheet): string {
  const d = smooth([
    [-34, -234],
    [36, -238],
    [98, -200],
    [136, -126],
    [146, -62],
    [128, -26],
    [92, -8],
    [16, -2],
    [-62, -20],
    [-108, -76],
    [-114, -150],
    [-84, -212],
  ]);
  const random = seeded(5);
  let specks = '';
  for (let index = 0; index < 40; index++) specks += ellipse((random() - 0.5) * 220, -random() * 220, 2, 1.8);
  const blush =
    path(
      ellipse(-70, -190, 150, 120),
      sheet.radial([
        [0, '#d9273a', 0.95],
        [0.5, '#e0402f', 0.65],
        [1, '#f06a20', 0],
      ]),
    ) +
    path(
      ellipse(96, -30, 130, 100),
      sheet.radial([
        [0, '#5f9a2a', 0.8],
        [1, '#8db13a', 0],
      ]),
    ) +
    path(specks, '#fff2b0', 'opacity="0.55"');
  return (
    solid(sheet, d, { light: '#ffd964', base: '#fbaa1e', dark: '#b24a0c' }, blush, 0.6) +
    stroke('M-14 -234Q-10 -252 2 -262', '#5d3b22', 9) +
    place(leaf(sheet, 168, 56, GREEN), -4, -252, 1, 78)
  );
}

function mangoCheek(sheet: Sheet): string {
  const skin = smooth([
    [-136, -92],
    [-118, -40],
    [-60, -6],
    [10, 0],
    [84, -14],
    [130, -60],
    [138, -98],
    [0, -70],
  ]);
  const dome = smooth([
    [-138, -96],
    [-104, -152],
    [-40, -186],
    [40, -188],
    [108, -152],
    [140, -98],
    [100, -62],
    [30, -44],
    [-50, -48],
    [-108, -66],
  ]);
  let cubes = '';
  const columns = 6;
  const rows = 4;
  for (let row = 0; row < rows; row++)
    for (let column = 0; column < columns; column++) {
      // A chequer of cubes fanned out over the turned-out skin.
      const point = (u: number, v: number): Point => {
        const x = (u - 0.5) * 2;
        const y = v;
        return [
          x * (152 - 26 * (1 - y)) * (0.86 + 0.14 * y),
          -196 + y * 142 + x * x * (30 - 18 * y) + (1 - y) * 4,
        ];
      };
      const gap = 0.014;
      const [u0, u1] = [column / columns + gap, (column + 1) / columns - gap];
      const [v0, v1] = [row / rows + gap * 1.6, (row + 1) / rows - gap * 1.6];
      const top = smooth([point(u0, v0), point(u1, v0), point(u1, v1), point(u0, v1)], true, 14);
      const tone = (column * 7 + row * 5) % 4;
      cubes += path(
        top,
        sheet.linear(
          [
            [0, mix('#ffe27a', '#ffd04a', tone / 4)],
            [1, mix('#fbb22a', '#f79f1c', tone / 4)],
          ],
          [0, 0],
          [0.7, 1],
        ),
      );
      const [hx, hy] = point(u0 + 0.05, v0 + 0.07);
      cubes += path(ellipse(hx, hy, 7, 3.6), '#fff', 'opacity="0.5"');
    }
  return (
    solid(sheet, skin, { light: '#ff8a3a', base: '#d94a2a', dark: '#8a1f2a' }, '', 0) +
    group(path(dome, '#d8740a') + cubes, `clip-path="${sheet.clip(dome)}"`) +
    stroke(dome, '#ffdf86', 4, 'opacity="0.65"')
  );
}

function mangoSlice(sheet: Sheet): string {
  const d = smooth(
    [
      [-84, -14],
      [-70, -64],
      [-20, -104],
      [44, -108],
      [92, -80],
      [60, -76],
      [10, -62],
      [-40, -22],
      [-70, 0],
    ],
    true,
    5,
  );
  return solid(
    sheet,
    d,
    { light: '#ffe07a', base: '#fdb92c', dark: '#e07f10' },
    stroke('M-88 -10Q-70 -84 -6 -110Q50 -120 96 -82', '#d2402c', 13),
    0.5,
  );
}

// Passion fruit

const PASSION_SKIN = { light: '#b0589c', base: '#6a2263', dark: '#2c0b33', rim: '#ff9fb0' };

function passionWhole(sheet: Sheet): string {
  const d = smooth(
    [
      [0, -206],
      [74, -184],
      [108, -108],
      [78, -28],
      [0, 0],
      [-78, -28],
      [-108, -108],
      [-74, -184],
    ],
    true,
    5.4,
  );
  const random = seeded(11);
  let specks = '';
  for (let index = 0; index < 46; index++)
    specks += ellipse((random() - 0.5) * 200, -random() * 200, 2.6, 2.2);
  return (
    solid(sheet, d, PASSION_SKIN, path(specks, '#e3a6d6', 'opacity="0.4"'), 0.55) +
    path(
      smooth([
        [-16, -202],
        [-6, -214],
        [10, -214],
        [18, -200],
        [0, -194],
      ]),
      '#7da03c',
    ) +
    stroke('M2 -210Q6 -230 20 -240', '#6f8a34', 8)
  );
}

function passionFace(sheet: Sheet, radius: number): string {
  const random = seeded(21);
  let pulp = '';
  const seeds: { x: number; y: number; turn: number }[] = [];
  for (const [ring, count] of [
    [0.56, 9],
    [0.24, 4],
  ] as const)
    for (let index = 0; index < count; index++) {
      const angle = (index / count) * 360 + ring * 70 + random() * 10;
      const [x, y] = polar(angle, radius * ring);
      seeds.push({ x, y, turn: angle + 90 });
    }
  for (const seed of seeds)
    pulp += path(
      ellipse(seed.x, seed.y, radius * 0.185, radius * 0.2),
      sheet.radial(
        [
          [0, '#fff0a0'],
          [0.5, '#fbb324'],
          [1, '#d9780c'],
        ],
        [0.42, 0.36],
        0.62,
      ),
    );
  for (const seed of seeds)
    pulp += place(
      path(
        `M0 ${n(-radius * 0.12)}C${n(radius * 0.1)} ${n(-radius * 0.04)} ${n(radius * 0.085)} ${n(radius * 0.1)} 0 ${n(radius * 0.11)}C${n(-radius * 0.085)} ${n(radius * 0.1)} ${n(-radius * 0.1)} ${n(-radius * 0.04)} 0 ${n(-radius * 0.12)}Z`,
        '#2a1512',
      ) +
        path(
          ellipse(-radius * 0.028, -radius * 0.01, radius * 0.018, radius * 0.038),
          '#fff',
          'opacity="0.75"',
        ),
      seed.x,
      seed.y,
      1,
      seed.turn,
    );
  return (
    path(ellipse(0, 0, radius), '#4d1550') +
    path(ellipse(0, 0, radius * 0.94), '#8e3a7f') +
    path(
      ellipse(0, 0, radius * 0.9),
      sheet.radial([
        [0.75, '#fff1e4'],
        [1, '#f2c6cf'],
      ]),
    ) +
    path(
      ellipse(0, 0, radius * 0.77),
      sheet.radial([
        [0, '#f2a31c'],
        [0.7, '#d9780c'],
        [1, '#8f3f0c'],
      ]),
    ) +
    pulp +
    path(
      ellipse(-radius * 0.26, -radius * 0.4, radius * 0.4, radius * 0.16),
      sheet.radial([
        [0, '#fff', 0.6],
        [1, '#fff', 0],
      ]),
      'transform="rotate(-20)"',
    )
  );
}

function passionHalf(sheet: Sheet): string {
  const body = smooth([
    [-100, -112],
    [-40, -206],
    [60, -198],
    [112, -108],
    [78, -24],
    [8, 0],
    [-66, -28],
  ]);
  return solid(sheet, body, PASSION_SKIN, '', 0) + place(passionFace(sheet, 102), -12, -108, 1, -8);
}

function passionFlower(sheet: Sheet): string {
  let petals = '';
  for (let index = 0; index < 10; index++)
    petals += place(
      path(
        'M0 0C30 -20 30 -76 0 -92C-30 -76 -30 -20 0 0Z',
        sheet.linear([
          [0, '#fff6ff'],
          [1, '#e3c6f2'],
        ]),
      ),
      0,
      -82,
      1,
      index * 36,
    );
  let threads = '';
  for (let index = 0; index < 44; index++) {
    const [x1, y1] = polar((index * 360) / 44, 16, 0, -82);
    const [x2, y2] = polar((index * 360) / 44 + 4, 58, 0, -82);
    threads += `M${n(x1)} ${n(y1)}L${n(x2)} ${n(y2)}`;
  }
  let anthers = '';
  for (let index = 0; index < 5; index++) {
    const [x, y] = polar(index * 72 - 90, 26, 0, -82);
    anthers +=
      stroke(`M0 -82L${n(x)} ${n(y)}`, '#a8d05a', 6) +
      place(path(ellipse(0, 0, 12, 6), '#f6d35a'), x, y, 1, index * 72);
  }
  return (
    petals +
    stroke(threads, '#6a36b0', 3) +
    path(ellipse(0, -82, 22), '#4a1a70') +
    anthers +
    path(ellipse(0, -82, 9), '#d8f08a')
  );
}

// Pineapple and mint

function crown(sheet: Sheet): string {
  let blades = '';
  const layers: readonly (readonly [number, number, number, number])[] = [
    [-58, 104, 34, 0.2],
    [58, 104, 34, 0.9],
    [-40, 138, 36, 0.3],
    [40, 138, 36, 0.8],
    [-22, 164, 36, 0.25],
    [22, 164, 36, 0.65],
    [0, 178, 36, 0.35],
    [-46, 78, 34, 0],
    [46, 78, 34, 0.7],
    [-18, 98, 36, 0.1],
    [20, 98, 36, 0.5],
  ];
  for (const [turn, length, width, shade] of layers)
    blades += place(
      path(
        `M${-width / 2} 6C${-width * 0.62} ${n(-length * 0.5)} ${-width * 0.1} ${n(-length * 0.8)} ${n(turn * 0.2)} ${-length}C${width * 0.35} ${n(-length * 0.7)} ${width * 0.62} ${n(-length * 0.4)} ${width / 2} 6Z`,
        sheet.across([
          [0, mix('#7fd67a', '#2f8a4c', shade)],
          [0.5, mix('#3f9c58', '#14603a', shade)],
          [1, '#0e4a30'],
        ]),
      ),
      turn * 0.3,
      0,
      1,
      turn,
    );
  return blades;
}

function pineappleWhole(sheet: Sheet): string {
  const d = smooth(
    [
      [0, -214],
      [70, -196],
      [98, -128],
      [94, -62],
      [58, -10],
      [0, 0],
      [-58, -10],
      [-94, -62],
      [-98, -128],
      [-70, -196],
    ],
    true,
    5.6,
  );
  let eyes = '';
  for (let row = -1; row < 9; row++)
    for (let column = -4; column <= 4; column++) {
      const offset = row % 2 === 0 ? 0 : 0.5;
      const u = (column + offset) / 4;
      if (Math.abs(u) > 1.05) continue;
      const x = Math.sin((u * Math.PI) / 2.1) * 104;
      const squeeze = Math.max(0.2, Math.cos((u * Math.PI) / 2.1));
      const y = -12 - row * 26 - (1 - squeeze) * -10;
      eyes +=
        path(
          `M${n(x)} ${n(y - 24)}L${n(x + 21 * squeeze)} ${n(y)}L${n(x)} ${n(y + 24)}L${n(x - 21 * squeeze)} ${n(y)}Z`,
          '#e39a1a',
        ) +
        path(
          `M${n(x)} ${n(y - 19)}L${n(x + 16 * squeeze)} ${n(y - 1)}L${n(x)} ${n(y + 12)}L${n(x - 16 * squeeze)} ${n(y - 1)}Z`,
          '#ffcf4a',
        ) +
        path(`M${n(x)} ${n(y - 19)}L${n(x - 16 * squeeze)} ${n(y - 1)}L${n(x)} ${n(y - 1)}Z`, '#ffe58a') +
        path(ellipse(x, y - 1, 4.6 * squeeze, 4.6), '#8a4a12');
    }
  return (
    place(crown(sheet), 0, -200) +
    solid(sheet, d, { light: '#ffcf52', base: '#c87a14', dark: '#7a3a0c' }, eyes, 0.25)
  );
}

function pineappleRing(sheet: Sheet, radius: number): string {
  let scallops = '';
  for (let index = 0; index < 18; index++) {
    const [x, y] = polar(index * 20, radius * 0.93);
    scallops += ellipse(x, y, radius * 0.12);
  }
  let fibres = '';
  const random = seeded(8);
  for (let index = 0; index < 40; index++) {
    const angle = index * 9 + random() * 5;
    const [x1, y1] = polar(angle, radius * (0.36 + random() * 0.12));
    const [x2, y2] = polar(angle, radius * (0.66 + random() * 0.2));
    fibres += `M${n(x1)} ${n(y1)}L${n(x2)} ${n(y2)}`;
  }
  return (
    path(scallops, '#b0741a') +
    path(ellipse(0, 0, radius * 0.95), '#d99a22') +
    path(
      ellipse(0, 0, radius * 0.9),
      sheet.radial([
        [0.2, '#fff3a8'],
        [0.6, '#ffe065'],
        [1, '#f5bd2c'],
      ]),
    ) +
    stroke(fibres, '#fff6c4', radius * 0.028, 'opacity="0.8"') +
    path(
      ellipse(0, 0, radius * 0.26),
      sheet.radial([
        [0, '#fff8cf'],
        [1, '#f6d968'],
      ]),
    ) +
    stroke(ellipse(0, 0, radius * 0.26), '#e3b02c', radius * 0.025, 'opacity="0.7"') +
    path(
      ellipse(-radius * 0.3, -radius * 0.45, radius * 0.4, radius * 0.18),
      sheet.radial([
        [0, '#fff', 0.6],
        [1, '#fff', 0],
      ]),
      'transform="rotate(-24)"',
    )
  );
}

const pineappleSlice = (sheet: Sheet): string =>
  path(ellipse(12, -104, 98, 104), '#8a5210') +
  `<g transform="translate(-2 -106) scale(0.94 1)">${pineappleRing(sheet, 106)}</g>`;

// Tamarind

/** A pod about 300 long: an arc with five bulges, one per seed. */
function pod(sheet: Sheet): string {
  const upper: Point[] = [];
  const lower: Point[] = [];
  let grooves = '';
  for (let step = 0; step <= 40; step++) {
    const t = step / 40;
    const angle = 202 + t * 136;
    const bulges = 1 + 0.16 * Math.cos(2 * Math.PI * (5 * t - 0.5));
    const half = 30 * Math.max(0.12, Math.sin(Math.PI * t) ** 0.42) * bulges;
    const arc = (radius: number): Point => {
      const [x, y] = polar(angle, radius);
      return [x, y * 0.62 + 62];
    };
    upper.push(arc(150 + half));
    lower.unshift(arc(150 - half));
    if (step % 8 === 0 && step > 0 && step < 40) {
      const [[x1, y1], [x2, y2]] = [arc(150 + half), arc(150 - half)];
      grooves += `M${n(x1)} ${n(y1)}Q${n((x1 + x2) / 2 + 8)} ${n((y1 + y2) / 2)} ${n(x2)} ${n(y2)}`;
    }
  }
  const d = smooth([...upper, ...lower]);
  const [endX, endY] = upper[0] ?? [0, 0];
  return (
    stroke(`M${n(endX + 6)} ${n(endY)}q-10 10 -26 12`, '#6b4426', 8) +
    solid(
      sheet,
      d,
      { light: '#e8b67c', base: '#b0703f', dark: '#5f301b' },
      stroke(grooves, '#5a2c18', 6, 'opacity="0.5"') +
        stroke(grooves, '#f6d2a4', 3, 'opacity="0.55" transform="translate(-7 1)"'),
      0.4,
    )
  );
}

function podOpen(sheet: Sheet): string {
  const shell = smooth([
    [-142, -42],
    [-90, -100],
    [-10, -118],
    [76, -100],
    [140, -40],
    [120, -18],
    [60, -8],
    [-20, -10],
    [-100, -14],
  ]);
  let pulp = '';
  let shine = '';
  const lumps: readonly Point[] = [
    [-92, -52],
    [-48, -72],
    [2, -80],
    [52, -72],
    [96, -50],
  ];
  for (const [x, y] of lumps) {
    pulp += ellipse(x, y, 34, 30);
    shine += ellipse(x - 9, y - 13, 11, 5);
  }
  return (
    solid(sheet, shell, { light: '#d99c5e', base: '#9a5c30', dark: '#4f2615' }, '', 0) +
    path(
      smooth([
        [-122, -46],
        [-84, -90],
        [-8, -106],
        [70, -90],
        [122, -44],
        [60, -30],
        [-40, -28],
      ]),
      '#3a170d',
    ) +
    path(
      pulp,
      sheet.linear([
        [0, '#a8501f'],
        [0.5, '#74300f'],
        [1, '#3f160a'],
      ]),
    ) +
    stroke(
      'M-126 -44Q-60 -96 0 -100Q70 -100 126 -40M-120 -38Q-40 -50 10 -54Q70 -54 122 -38',
      '#d9924e',
      4,
      'opacity="0.85"',
    ) +
    path(shine, '#ffd9a8', 'opacity="0.7"')
  );
}

function tamarindSeeds(sheet: Sheet): string {
  const seedShape = smooth([
    [-34, -30],
    [-20, -56],
    [14, -60],
    [36, -36],
    [26, -6],
    [-16, 0],
  ]);
  const one = solid(sheet, seedShape, { light: '#b0653a', base: '#6b2f18', dark: '#2c0f0a' }, '', 0.75);
  return place(one, -40, 0) + place(one, 40, 4, 0.9, 12) + place(one, 0, -40, 0.9, -18);
}

// Hibiscus

function hibiscusFlower(sheet: Sheet, size = 1): string {
  const petal = smooth(
    [
      [0, 8],
      [22, -18],
      [54, -58],
      [70, -100],
      [56, -124],
      [36, -122],
      [18, -138],
      [-4, -126],
      [-26, -138],
      [-46, -122],
      [-62, -114],
      [-64, -82],
      [-44, -42],
      [-18, -12],
    ],
    true,
    5.5,
  );
  let petals = '';
  for (const turn of [144, 216, 72, 288, 0]) {
    // A darker copy behind each petal parts it from its neighbour.
    petals += place(path(petal, '#5a0626', 'opacity="0.3"'), 0, 0, 1.015, turn + 3);
    const veins =
      'M0 0Q2 -60 0 -116M0 0Q20 -56 40 -104M0 0Q-20 -56 -40 -104M0 0Q34 -40 62 -80M0 0Q-34 -40 -62 -80';
    petals += place(
      group(
        path(
          petal,
          sheet.radial(
            [
              [0, '#5a0626'],
              [0.22, '#a80f3c'],
              [0.6, '#e8254f'],
              [1, '#ff7d8c'],
            ],
            [0.5, 0.98],
            1,
          ),
        ) +
          stroke(veins, '#ffb3b8', 2.6, 'opacity="0.45"') +
          path(
            petal,
            sheet.across([
              [0, '#fff', 0.22],
              [0.5, '#fff', 0],
              [1, '#4a0626', 0.42],
            ]),
          ) +
          stroke(petal, '#ffc0c4', 4, 'opacity="0.55"'),
        `clip-path="${sheet.clip(petal)}"`,
      ),
      0,
      0,
      1,
      turn,
    );
  }
  const tip: Point = [58, -88];
  let pollen = '';
  const random = seeded(4);
  for (let index = 0; index < 16; index++) {
    const t = 0.5 + random() * 0.5;
    pollen += ellipse(tip[0] * t + (random() - 0.5) * 26, tip[1] * t + (random() - 0.5) * 22, 5);
  }
  const stamen =
    stroke(`M0 0Q22 -54 ${tip[0]} ${tip[1]}`, '#ffd0a0', 10) +
    stroke(`M-2 -4Q20 -54 ${tip[0] - 3} ${tip[1] - 2}`, '#fff0d4', 4) +
    path(pollen, '#ffd23f') +
    path(ellipse(tip[0] + 4, tip[1] - 8, 7), '#ff4d6a');
  return place(
    petals +
      path(
        ellipse(0, 0, 26),
        sheet.radial([
          [0, '#3d0418'],
          [1, '#3d0418', 0],
        ]),
      ) +
      stamen,
    0,
    -118 * size,
    size,
    -8,
  );
}

function roselle(sheet: Sheet): string {
  const body = smooth([
    [0, -8],
    [44, -20],
    [58, -62],
    [44, -112],
    [0, -124],
    [-44, -112],
    [-58, -62],
    [-44, -20],
  ]);
  let sepals = '';
  for (const [turn, light] of [
    [-34, '#e83a5f'],
    [34, '#8a0f3c'],
    [-14, '#d11f4b'],
    [14, '#b0154a'],
    [0, '#e0305a'],
  ] as const)
    sepals += place(
      path(
        'M-24 0C-34 -50 -14 -92 4 -128C20 -90 34 -50 24 0Z',
        sheet.across([
          [0, light],
          [1, '#6d0a2e'],
        ]),
      ),
      0,
      -44,
      1,
      turn,
    );
  return (
    sepals +
    solid(
      sheet,
      body,
      { light: '#f2587a', base: '#b8164a', dark: '#560a2c' },
      stroke(
        'M0 -8Q-18 -60 0 -124M-34 -16Q-50 -70 -24 -116M34 -16Q50 -70 24 -116',
        '#ff9fb0',
        3,
        'opacity="0.4"',
      ),
      0.45,
    ) +
    stroke('M0 -6Q-4 8 -22 14', '#5f7f2e', 10)
  );
}

// Ginger

const GINGER_SKIN = { light: '#f6d9a2', base: '#d9a864', dark: '#8f5a2c' };

function gingerRoot(sheet: Sheet): string {
  const d = smooth(
    [
      [-142, -40],
      [-118, -78],
      [-84, -84],
      [-78, -128],
      [-52, -158],
      [-24, -146],
      [-16, -106],
      [16, -104],
      [34, -146],
      [66, -170],
      [94, -152],
      [88, -112],
      [82, -92],
      [122, -90],
      [146, -58],
      [124, -24],
      [70, -18],
      [30, 0],
      [-30, -4],
      [-60, -16],
      [-112, -8],
    ],
    true,
    5.2,
  );
  const rings =
    'M-112 -76Q-98 -46 -110 -14M-92 -80Q-74 -48 -88 -14M-74 -118Q-50 -106 -22 -116M-70 -134Q-50 -124 -24 -132M40 -140Q64 -124 92 -130M34 -122Q60 -108 88 -112M96 -86Q110 -56 98 -24M-36 -100Q-18 -54 -36 -10M40 -98Q56 -56 40 -8';
  return (
    solid(
      sheet,
      d,
      GINGER_SKIN,
      stroke(rings, '#9c6a34', 4, 'opacity="0.6"') +
        stroke(rings, '#fff0cc', 2.4, 'opacity="0.6" transform="translate(-4 -3)"'),
      0.35,
    ) +
    place(
      path(ellipse(0, 0, 26, 17), '#b98544') +
        path(
          ellipse(0, 0, 22, 13.5),
          sheet.radial([
            [0, '#fff3b8'],
            [1, '#f0cd6a'],
          ]),
        ),
      68,
      -154,
      1,
      24,
    ) +
    place(
      path(ellipse(0, 0, 19, 27), '#b98544') +
        path(
          ellipse(0, 0, 15, 22),
          sheet.radial([
            [0, '#fff3b8'],
            [1, '#f0cd6a'],
          ]),
        ),
      134,
      -56,
      1,
      8,
    )
  );
}

function gingerSlice(sheet: Sheet): string {
  const d = smooth([
    [-62, -56],
    [-40, -92],
    [0, -88],
    [38, -98],
    [64, -60],
    [54, -20],
    [12, -2],
    [-36, -10],
  ]);
  return (
    path(d, '#a06f36', 'transform="translate(6 5)"') +
    solid(
      sheet,
      d,
      { light: '#fff6c8', base: '#f6dc8a', dark: '#d9a850' },
      stroke(
        smooth([
          [-40, -54],
          [-26, -74],
          [2, -70],
          [26, -78],
          [44, -56],
          [36, -28],
          [8, -16],
          [-24, -20],
        ]),
        '#d9b052',
        3.5,
        'opacity="0.8"',
      ),
      0.4,
    )
  );
}

// Watermelon

function melonWhole(sheet: Sheet): string {
  const d = ellipse(0, -122, 138, 122);
  let stripes = '';
  for (const u of [-0.86, -0.52, -0.14, 0.26, 0.62, 0.92]) {
    const left: Point[] = [];
    const right: Point[] = [];
    for (let step = 0; step <= 12; step++) {
      const t = step / 12;
      const bulge = Math.sin(Math.PI * t);
      const x = u * 138 * bulge;
      const half = (5 + 13 * bulge * (1 - Math.abs(u) * 0.55)) * (step % 2 === 0 ? 1.25 : 0.75);
      left.push([x - half, -244 + 244 * t]);
      right.unshift([x + half, -244 + 244 * t]);
    }
    stripes += smooth([...left, ...right], true, 5);
  }
  return (
    solid(
      sheet,
      d,
      { light: '#8fdc74', base: '#4cae4e', dark: '#1a6b3c' },
      path(stripes, '#12603a', 'opacity="0.9"'),
      0.6,
    ) + stroke('M0 -243Q4 -262 24 -268', '#7a8f3c', 9)
  );
}

function melonSeeds(points: readonly (readonly [number, number, number])[]): string {
  return points
    .map(([x, y, turn]) =>
      place(
        path('M0 -13C10 -4 9 9 0 11C-9 9 -10 -4 0 -13Z', '#2a1210') +
          path(ellipse(-2.6, 0, 1.8, 4.4), '#fff', 'opacity="0.6"'),
        x,
        y,
        1,
        turn,
      ),
    )
    .join('');
}

function melonHalf(sheet: Sheet): string {
  const arc = (radius: number, top: number) =>
    `M${-radius} ${top}A${radius} ${radius} 0 0 0 ${radius} ${top}Z`;
  return place(
    path(
      arc(146, 0),
      sheet.linear([
        [0, '#1d7a42'],
        [1, '#0e4a30'],
      ]),
    ) +
      path(arc(138, 0), '#7fcf63') +
      path(arc(131, 0), '#eef8d2') +
      path(
        arc(122, 0),
        sheet.radial(
          [
            [0, '#ff8f86'],
            [0.6, '#f5505f'],
            [1, '#e0304c'],
          ],
          [0.42, 0.05],
          0.95,
        ),
      ) +
      melonSeeds([
        [-70, 36, 40],
        [-32, 62, 22],
        [18, 70, -10],
        [62, 48, -36],
        [-44, 22, 30],
        [0, 32, 0],
        [42, 20, -30],
        [90, 22, -60],
        [-96, 16, 62],
        [-8, 98, 4],
      ]) +
      path('M-122 0L122 0L116 10L-116 10Z', '#ffb3a8', 'opacity="0.7"') +
      stroke(`M141 8A146 146 0 0 1 40 137`, '#ffd9a8', 5, 'opacity="0.55"'),
    0,
    -140,
    1,
    -13,
  );
}

function melonWedge(sheet: Sheet): string {
  return place(
    path('M-92 0Q0 34 92 0L86 -20L-86 -20Z', '#14603a') +
      path('M-92 0Q0 34 92 0L89 -8Q0 24 -89 -8Z', '#0e4a30') +
      path('M-87 -16Q0 18 87 -16L84 -26L-84 -26Z', '#7fcf63') +
      path('M-85 -22Q0 10 85 -22L0 -178Z', '#eef8d2') +
      path(
        'M-78 -32Q0 -2 78 -32L4 -172Q0 -180 -4 -172Z',
        sheet.linear(
          [
            [0, '#ff9a8c'],
            [0.5, '#f5505f'],
            [1, '#e0304c'],
          ],
          [0.2, 0],
          [0.7, 1],
        ),
      ) +
      path('M4 -172L78 -32Q52 -20 26 -16Z', '#b81f3f', 'opacity="0.28"') +
      melonSeeds([
        [-26, -58, 20],
        [10, -66, -4],
        [34, -48, -22],
        [-6, -98, 8],
        [14, -118, -10],
      ]),
    0,
    -14,
    1,
    6,
  );
}

// Blackcurrant

function berry(sheet: Sheet, x: number, y: number, radius: number, tone = 0): string {
  const d = ellipse(0, 0, radius);
  return place(
    solid(
      sheet,
      d,
      {
        light: mix('#8c62c4', '#5a3a94', tone),
        base: mix('#3d1c66', '#2c1450', tone),
        dark: '#10062a',
        rim: '#ff9fc0',
      },
      '',
      0.7,
    ) +
      path(
        'M-6 5L0 -3L6 5L9 14L0 10L-9 14Z',
        '#6b4a3a',
        `transform="translate(${n(radius * 0.1)} ${n(radius * 0.62)})" opacity="0.9"`,
      ),
    x,
    y,
  );
}

function currantCluster(sheet: Sheet): string {
  const spots: readonly (readonly [number, number, number])[] = [
    [-86, -176, 36],
    [-22, -200, 36],
    [48, -190, 38],
    [104, -150, 34],
    [-112, -116, 36],
    [-46, -136, 40],
    [22, -132, 42],
    [84, -96, 38],
    [-78, -66, 38],
    [-10, -74, 42],
    [54, -42, 38],
    [-40, -34, 34],
    [8, -26, 26],
  ];
  return (
    place(lobedLeaf(sheet), -70, -190, 0.95, -52) +
    place(lobedLeaf(sheet), 66, -196, 0.85, 42) +
    stroke('M0 -262Q6 -200 -6 -120', '#7f9a3c', 8) +
    spots.map(([x, y, radius], index) => berry(sheet, x, y, radius, (index % 3) / 3)).join('')
  );
}

const currantPile = (sheet: Sheet): string =>
  place(lobedLeaf(sheet), 76, -30, 0.85, 64) +
  (
    [
      [-84, -40, 40],
      [84, -38, 38],
      [-30, -96, 40],
      [40, -94, 38],
      [0, -42, 43],
      [6, -146, 36],
    ] as const
  )
    .map(([x, y, radius], index) => berry(sheet, x, y, radius, (index % 3) / 4))
    .join('');

const currantPair = (sheet: Sheet): string =>
  place(lobedLeaf(sheet), -6, -46, 0.62, -28) + berry(sheet, -34, -36, 36) + berry(sheet, 38, -32, 32, 0.5);

// Coconut

function coconutHalf(sheet: Sheet): string {
  const body = smooth([
    [-116, -118],
    [-70, -214],
    [40, -226],
    [126, -150],
    [122, -62],
    [60, -6],
    [-30, 0],
    [-96, -44],
  ]);
  const random = seeded(9);
  let fibres = '';
  for (let index = 0; index < 26; index++) {
    const angle = random() * 360;
    const [x1, y1] = polar(angle, 100 + random() * 16, 4, -112);
    const [x2, y2] = polar(angle + 9, 112 + random() * 14, 4, -112);
    fibres += `M${n(x1)} ${n(y1)}L${n(x2)} ${n(y2)}`;
  }
  const face =
    path(ellipse(0, 0, 116), '#5a3420') +
    path(ellipse(0, 0, 109), '#8a5a38') +
    path(
      ellipse(0, 0, 103),
      sheet.radial([
        [0.6, '#fff'],
        [0.92, '#fdfbf2'],
        [1, '#e4dccb'],
      ]),
    ) +
    path(
      ellipse(2, 3, 70),
      sheet.radial(
        [
          [0, '#eef0e2'],
          [0.65, '#d8dccb'],
          [1, '#b5bda8'],
        ],
        [0.58, 0.66],
        0.7,
      ),
    ) +
    path(
      ellipse(8, 26, 58, 40),
      sheet.linear([
        [0, '#f8fdf2', 0.95],
        [1, '#cfe0d2', 0.95],
      ]),
    ) +
    path(ellipse(-8, 14, 26, 6), '#fff', 'opacity="0.8"') +
    stroke('M-86 -22A90 90 0 0 1 -22 -86', '#fff', 8, 'opacity="0.9"');
  return `${solid(
    sheet,
    body,
    { light: '#b07a4a', base: '#7a4a2a', dark: '#3d2014' },
    stroke(fibres, '#d9a878', 3, 'opacity="0.7"'),
    0,
  )}<g transform="translate(-10 -114) rotate(-10) scale(0.93 1)">${face}</g>`;
}

function coconutWhole(sheet: Sheet): string {
  const d = smooth(
    [
      [0, -224],
      [84, -198],
      [122, -116],
      [90, -28],
      [0, 0],
      [-90, -28],
      [-122, -116],
      [-84, -198],
    ],
    true,
    5.4,
  );
  const random = seeded(13);
  let fibres = '';
  for (let index = 0; index < 60; index++) {
    const [x, y] = [(random() - 0.5) * 230, -random() * 222];
    fibres += `M${n(x)} ${n(y)}q${n(x * -0.04 + 4)} ${n(13 + random() * 12)} ${n(x * 0.05)} ${n(28 + random() * 16)}`;
  }
  return solid(
    sheet,
    d,
    { light: '#bd8752', base: '#80502e', dark: '#3d2014' },
    stroke(fibres, '#d9ac78', 2.6, 'opacity="0.55"') +
      path(ellipse(-26, -176, 13, 10) + ellipse(22, -182, 13, 10) + ellipse(0, -148, 14, 11), '#3d2014'),
    0.3,
  );
}

export const FRUIT: Record<FlavourSlug, Pieces> = {
  mango: { whole: piece(270, mangoWhole), cut: piece(280, mangoCheek), small: piece(180, mangoSlice) },
  passion: {
    whole: piece(216, passionWhole),
    cut: piece(216, passionHalf),
    small: piece(180, passionFlower),
  },
  'pineapple-mint': {
    whole: piece(196, pineappleWhole),
    cut: piece(212, (sheet) => pineappleSlice(sheet) + place(mint(sheet), 74, -40, 0.62)),
    small: piece(170, (sheet) => place(mint(sheet), 0, -64, 0.92)),
  },
  tamarind: {
    whole: piece(
      280,
      (sheet) =>
        place(featherLeaf(sheet), -30, -60, 0.8, -30) +
        place(featherLeaf(sheet), 30, -60, 0.7, 36) +
        place(pod(sheet), 34, -104, 0.86, 152) +
        place(pod(sheet), -4, -78, 1, 6) +
        place(pod(sheet), -2, -14, 1.02, -7),
    ),
    cut: piece(284, podOpen),
    small: piece(150, tamarindSeeds),
  },
  hibiscus: {
    whole: piece(
      250,
      (sheet) => place(leaf(sheet, 150, 74, DEEP_GREEN, 8), -60, -70, 1, -74) + hibiscusFlower(sheet),
    ),
    cut: piece(
      230,
      (sheet) =>
        place(leaf(sheet, 130, 60, GREEN, 8), 60, -60, 1, 70) + place(hibiscusFlower(sheet), 0, 0, 0.86, 24),
    ),
    small: piece(140, (sheet) => place(roselle(sheet), 0, 0, 0.95, 8)),
  },
  'ginger-lemon': {
    whole: piece(
      290,
      (sheet) => place(citrusWhole(sheet, LEMON), 20, -74, 0.92, 10) + place(gingerRoot(sheet), -10, 0, 0.96),
    ),
    cut: piece(
      216,
      (sheet) => place(leaf(sheet, 120, 50, GREEN), 84, -150, 1, 60) + citrusHalf(sheet, LEMON),
    ),
    small: piece(150, gingerSlice),
  },
  watermelon: { whole: piece(276, melonWhole), cut: piece(290, melonHalf), small: piece(180, melonWedge) },
  blackcurrant: {
    whole: piece(310, currantCluster),
    cut: piece(280, currantPile),
    small: piece(140, currantPair),
  },
  'coconut-lime': {
    whole: piece(
      250,
      (sheet) => place(coconutWhole(sheet), -10, 0) + place(citrusWhole(sheet, LIME, 6), 104, 0, 0.62, 8),
    ),
    cut: piece(250, coconutHalf),
    small: piece(170, (sheet) => citrusWheel(sheet, LIME)),
  },
};
