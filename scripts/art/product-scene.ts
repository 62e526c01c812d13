// One product on its stage: 1000 x 1000, vessel in the middle, its fruit around it, the flavour's dusk behind.
import { acacia, hills, shadow, silhouette, sky, skyline, stars } from './backdrop.ts';
import type { Flavour } from './flavours.ts';
import { FRUIT, type Piece } from './fruit.ts';
import { khatSprig } from './leaves.ts';
import { ellipse, group, mix, path, place, Sheet, seeded, stroke } from './sheet.ts';
import { VESSELS, type VesselName } from './vessels.ts';

const HORIZON = 716;

/** Embu Fresh: daylight over hills cut from paper. */
function paperDay(sheet: Sheet, flavour: Flavour): string {
  const tint = (share: number) => mix('#fdf6e8', flavour.juice.bright, share);
  const cut = (y: number, height: number, colour: string, seed: number) =>
    hills(sheet, 1000, y + 9, height, 1000, mix(colour, '#5a3a24', 0.32), mix(colour, '#5a3a24', 0.32), seed) +
    hills(sheet, 1000, y, height, 1000, colour, mix(colour, '#ffffff', 0.12), seed);
  const leaf = mix('#7fae5e', flavour.juice.bright, 0.22);
  return (
    sky(sheet, 1000, 1000, [
      [0, tint(0.34)],
      [0.75, tint(0.1)],
    ]) +
    path(ellipse(508, 452, 322), mix(tint(0.5), '#5a3a24', 0.16)) +
    path(ellipse(500, 440, 318), mix(flavour.juice.base, '#fff1cf', 0.5)) +
    path(ellipse(500, 440, 232), mix(flavour.juice.base, '#fff8e6', 0.76)) +
    cut(640, 96, mix(leaf, '#fdf6e8', 0.5), 6) +
    silhouette(acacia(mix(leaf, '#1f4a2c', 0.45)), 868, 668, 0.86) +
    silhouette(acacia(mix(leaf, '#2f5a34', 0.3)), 118, 664, 0.6, true) +
    cut(706, 44, mix(leaf, '#2f6a3c', 0.25), 13) +
    `<rect y="${HORIZON + 40}" width="1000" height="${960 - HORIZON}" fill="${sheet.linear([
      [0, mix('#f6e6c8', flavour.juice.bright, 0.12)],
      [1, mix('#ead2a8', flavour.juice.bright, 0.2)],
    ])}"/>` +
    `<rect y="${HORIZON + 28}" width="1000" height="14" fill="${mix('#5a3a24', leaf, 0.5)}" opacity="0.28"/>`
  );
}

/** Dusk Energy: the city at night, under a ring of neon. */
function neonNight(sheet: Sheet, flavour: Flavour): string {
  const night = mix('#0c0620', flavour.sky.zenith, 0.22);
  const towers = mix('#1a1038', flavour.sky.middle, 0.16);
  const ring = (width: number, colour: string, more: string) =>
    stroke(ellipse(500, 430, 286), colour, width, more);
  return (
    sky(sheet, 1000, 1000, [
      [0, night],
      [0.5, mix('#1b0d3d', flavour.sky.middle, 0.3)],
      [0.74, mix('#3a1a5c', flavour.sky.middle, 0.5)],
    ]) +
    stars(1000, 520, 46, flavour.slug.length) +
    path(
      ellipse(500, 430, 520),
      sheet.radial([
        [0.2, flavour.glow, 0.3],
        [0.6, flavour.glow, 0.14],
        [1, flavour.glow, 0],
      ]),
    ) +
    silhouette(skyline(mix(towers, flavour.glow, 0.12), flavour.glow, 3), 470, HORIZON + 4, 1.3, true) +
    ring(40, flavour.glow, 'opacity="0.2"') +
    ring(22, flavour.glow, 'opacity="0.4"') +
    ring(11, mix(flavour.glow, '#ffffff', 0.55), '') +
    silhouette(skyline(towers, flavour.glow, 5), 510, HORIZON + 8, 1.08) +
    `<rect y="${HORIZON}" width="1000" height="${1000 - HORIZON}" fill="${sheet.linear([
      [0, mix(towers, night, 0.3)],
      [1, night],
    ])}"/>` +
    // The ring and the lights on wet asphalt.
    path(
      ellipse(500, HORIZON + 110, 420, 96),
      sheet.radial([
        [0, flavour.glow, 0.5],
        [0.55, flavour.glow, 0.2],
        [1, flavour.glow, 0],
      ]),
    ) +
    [0, 1, 2, 3, 4, 5, 6]
      .map((index) =>
        path(
          ellipse(70 + index * 146, HORIZON + 26 + (index % 3) * 30, 70 - (index % 2) * 26, 4),
          flavour.glow,
          'opacity="0.3"',
        ),
      )
      .join('')
  );
}

/** Meru Gold: a still life in a niche, lit from the upper left. */
function stillLife(sheet: Sheet, flavour: Flavour): string {
  const wall = mix('#4a2a30', flavour.sky.middle, 0.46);
  const arch = (x: number, width: number, top: number) =>
    `M${x - width} ${HORIZON + 60}V${top + width}A${width} ${width} 0 0 1 ${x + width} ${top + width}V${HORIZON + 60}Z`;
  return (
    `<rect width="1000" height="1000" fill="${sheet.linear(
      [
        [0, mix(wall, '#ffe7bd', 0.22)],
        [0.6, wall],
        [1, mix(wall, '#120a14', 0.55)],
      ],
      [0, 0],
      [1, 0.8],
    )}"/>` +
    path(arch(500, 336, 96), mix(wall, '#f2c477', 0.5)) +
    path(
      arch(500, 322, 110),
      sheet.linear(
        [
          [0, mix(wall, '#0e0710', 0.62)],
          [0.55, mix(wall, '#0e0710', 0.3)],
          [1, mix(wall, '#ffdca0', 0.34)],
        ],
        [0, 0.2],
        [1, 0.8],
      ),
    ) +
    path(
      ellipse(590, 470, 330),
      sheet.radial([
        [0, flavour.sun.high, 0.42],
        [0.5, flavour.sun.high, 0.16],
        [1, flavour.sun.high, 0],
      ]),
    ) +
    // The table: walnut, with a lit edge.
    `<rect y="${HORIZON + 36}" width="1000" height="${1000 - HORIZON - 36}" fill="${sheet.linear([
      [0, '#8a5230'],
      [0.25, '#6a3a22'],
      [1, '#351a14'],
    ])}"/>` +
    [0, 1, 2, 3]
      .map((index) =>
        stroke(
          `M0 ${HORIZON + 74 + index * 62}Q320 ${HORIZON + 60 + index * 66} 620 ${HORIZON + 78 + index * 60}T1000 ${HORIZON + 70 + index * 63}`,
          '#2a120c',
          3,
          'opacity="0.35"',
        ),
      )
      .join('') +
    `<rect y="${HORIZON + 36}" width="1000" height="7" fill="#e9b877" opacity="0.75"/>` +
    path(
      ellipse(470, 880, 470, 110),
      sheet.radial([
        [0, '#ffd9a0', 0.42],
        [0.6, '#ffd9a0', 0.14],
        [1, '#ffd9a0', 0],
      ]),
    )
  );
}

const SETTINGS: Record<VesselName, (sheet: Sheet, flavour: Flavour) => string> = {
  bottle: paperDay,
  can: neonNight,
  flask: stillLife,
};

/** Splashed drops on the ground and in the air around the foot. */
function splash(sheet: Sheet, flavour: Flavour, seed: number): string {
  const random = seeded(seed);
  let drops = '';
  for (let index = 0; index < 12; index++) {
    const [x, y] = [120 + random() * 760, 884 + random() * 84];
    const r = 4 + random() * 9;
    drops +=
      path(ellipse(x + 3, y + r * 0.4, r * 1.3, r * 0.55), '#1c0a26', 'opacity="0.28"') +
      path(
        ellipse(x, y, r * 1.25, r * 0.62),
        sheet.linear([
          [0, flavour.juice.base, 0.9],
          [1, flavour.juice.bright],
        ]),
      ) +
      path(ellipse(x - r * 0.4, y - r * 0.2, r * 0.32, r * 0.16), '#fff', 'opacity="0.9"');
  }
  return drops;
}

/** Where a piece goes beside the vessel: as large as the room allows, tucked in by `tuck`. */
function beside(
  piece: Piece,
  side: 1 | -1,
  half: number,
  largest: number,
  tuck: number,
): { x: number; scale: number } {
  const scale = Math.min(largest, (500 - half + tuck - 14) / piece.width);
  return { x: 500 + side * (half - tuck + (piece.width * scale) / 2), scale };
}

const stand = (sheet: Sheet, piece: Piece, x: number, y: number, scale: number): string =>
  shadow(sheet, x, y, piece.width * scale, '#1c0a26', 0.5) + place(piece.draw(sheet), x, y, scale);

/** The scene of a flavour in a vessel, as an SVG document. */
export function productScene(flavour: Flavour, vessel: VesselName): string {
  const sheet = new Sheet();
  const { whole, cut, small } = FRUIT[flavour.slug];
  const { draw, width } = VESSELS[vessel];
  const product =
    shadow(sheet, 500, 890, width * 1.12, '#1c0a26', 0.72) + place(draw(sheet, flavour), 500, 890, 1.04);
  const sprig = (x: number, y: number, turn: number, scale: number, bend: number) =>
    place(khatSprig(sheet, bend), x, y, scale, turn);
  const half = (width * 1.04) / 2;
  const near = (piece: Piece, side: 1 | -1, y: number, largest: number, tuck: number) => {
    const { x, scale } = beside(piece, side, half, largest, tuck);
    return stand(sheet, piece, x, y, scale);
  };
  const scene = {
    bottle: () =>
      sprig(610, 850, 34, 1.02, 60) +
      near(whole, -1, 866, 1.24, 66) +
      product +
      stand(sheet, small, 398, 952, 0.84) +
      near(cut, 1, 928, 1.16, 72),
    can: () =>
      sprig(420, 850, -36, 1.05, -60) +
      near(whole, 1, 872, 1.28, 46) +
      product +
      near(cut, -1, 926, 1.2, 48) +
      stand(sheet, small, 606, 954, 0.84),
    flask: () =>
      sprig(402, 852, -40, 0.92, -70) +
      sprig(604, 850, 42, 0.86, 60) +
      near(cut, 1, 876, 1.16, 60) +
      product +
      near(whole, -1, 926, 1.16, 40) +
      stand(sheet, small, 632, 956, 0.84),
  }[vessel]();
  const vignette = `<rect width="1000" height="1000" fill="${sheet.radial(
    [
      [0.62, flavour.sky.zenith, 0],
      [1, flavour.sky.zenith, 0.55],
    ],
    [0.5, 0.5],
    0.76,
  )}"/>`;
  return sheet.document(
    1000,
    1000,
    SETTINGS[vessel](sheet, flavour) +
      splash(sheet, flavour, flavour.slug.length + vessel.length) +
      group(scene, '') +
      (vessel === 'bottle' ? '' : vignette),
  );
}
