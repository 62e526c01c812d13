// Cut and whole citrus: lemon and lime share one drawing, in other colours.
import {
  ellipse,
  group,
  n,
  path,
  polar,
  type Sheet,
  type Skin,
  seeded,
  smooth,
  solid,
  stroke,
} from './sheet.ts';

export type Citrus = { skin: Skin; pith: string; flesh: { light: string; base: string; dark: string } };

export const LEMON: Citrus = {
  skin: { light: '#fff6a0', base: '#f8cf23', dark: '#c28408' },
  pith: '#fff8dc',
  flesh: { light: '#fff3a0', base: '#fbd945', dark: '#e5a917' },
};

export const LIME: Citrus = {
  skin: { light: '#c9ee6a', base: '#6fb52c', dark: '#2a6b1c' },
  pith: '#f6fbdc',
  flesh: { light: '#e9fbb0', base: '#b5de58', dark: '#7db52e' },
};

/** The cut face, `radius` wide, centred on the origin: rind, pith, segments with juice sacs. */
function citrusFace(sheet: Sheet, radius: number, citrus: Citrus, segments = 9): string {
  const random = seeded(segments * 7);
  let flesh = '';
  for (let index = 0; index < segments; index++) {
    const from = (index * 360) / segments + 2.6;
    const to = ((index + 1) * 360) / segments - 2.6;
    const centre = (from + to) / 2;
    const outer = radius * 0.84;
    const d = smooth(
      [
        polar(centre, radius * 0.1),
        polar(from + 3, radius * 0.5),
        polar(from, outer * 0.94),
        polar(from + 5, outer),
        polar(centre, outer * 1.015),
        polar(to - 5, outer),
        polar(to, outer * 0.94),
        polar(to - 3, radius * 0.5),
      ],
      true,
      8,
    );
    let sacs = '';
    for (let sac = 0; sac < 5; sac++) {
      const angle = from + (to - from) * (0.2 + random() * 0.6);
      const start = radius * (0.28 + random() * 0.25);
      const [x1, y1] = polar(angle, start);
      const [x2, y2] = polar(angle + (random() - 0.5) * 4, start + radius * (0.14 + random() * 0.18));
      sacs += `M${n(x1)} ${n(y1)}L${n(x2)} ${n(y2)}`;
    }
    flesh +=
      path(d, citrus.flesh.base) +
      group(
        path(
          ellipse(0, 0, radius * 0.9),
          sheet.radial([
            [0.1, citrus.flesh.light],
            [0.62, citrus.flesh.base],
            [1, citrus.flesh.dark],
          ]),
        ) + stroke(sacs, citrus.flesh.light, radius * 0.035, 'opacity="0.85"'),
        `clip-path="${sheet.clip(d)}"`,
      );
  }
  return (
    path(
      ellipse(0, 0, radius),
      sheet.radial(
        [
          [0, citrus.skin.light],
          [0.9, citrus.skin.base],
          [1, citrus.skin.dark],
        ],
        [0.45, 0.4],
        0.62,
      ),
    ) +
    path(ellipse(0, 0, radius * 0.925), citrus.pith) +
    flesh +
    path(ellipse(0, 0, radius * 0.07), citrus.pith) +
    path(
      ellipse(-radius * 0.3, -radius * 0.42, radius * 0.42, radius * 0.22),
      sheet.radial([
        [0, '#fff', 0.55],
        [1, '#fff', 0],
      ]),
      'transform="rotate(-24)"',
    )
  );
}

/** A half fruit resting on the ground, face towards us. */
export function citrusHalf(sheet: Sheet, citrus: Citrus): string {
  const body = smooth([
    [-96, -112],
    [-30, -208],
    [62, -200],
    [112, -112],
    [78, -26],
    [10, -4],
    [-64, -30],
  ]);
  return (
    solid(sheet, body, citrus.skin, '', 0) +
    `<g transform="translate(-14 -108) rotate(-8) scale(0.93 1)">${citrusFace(sheet, 102, citrus)}</g>`
  );
}

/** A thin wheel standing on its edge. */
export function citrusWheel(sheet: Sheet, citrus: Citrus): string {
  return (
    path(ellipse(9, -82, 80, 84), citrus.skin.dark) +
    `<g transform="translate(-2 -84) rotate(14) scale(0.95 1)">${citrusFace(sheet, 84, citrus, 10)}</g>`
  );
}

/** A whole fruit lying on its side, nipple to the left. */
export function citrusWhole(sheet: Sheet, citrus: Citrus, seed = 3): string {
  const d = smooth(
    [
      [-132, -84],
      [-112, -104],
      [-70, -158],
      [0, -178],
      [74, -154],
      [108, -106],
      [124, -88],
      [110, -66],
      [70, -20],
      [0, -2],
      [-72, -22],
      [-112, -66],
    ],
    true,
    5.4,
  );
  const random = seeded(seed);
  let pores = '';
  for (let index = 0; index < 34; index++) {
    const [x, y] = [(random() - 0.5) * 200, -88 + (random() - 0.5) * 150];
    pores += ellipse(x, y, 2.4, 1.9);
  }
  return solid(sheet, d, citrus.skin, path(pores, citrus.skin.dark, 'opacity="0.28"'), 0.6);
}
