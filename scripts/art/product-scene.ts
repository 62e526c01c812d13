// One product on its stage: 1000 x 1000, vessel in the middle, its fruit around it, the flavour's dusk behind.
import { acacia, ground, hills, mountKenya, shadow, silhouette, sky, skyline, sun } from './backdrop.ts';
import type { Flavour } from './flavours.ts';
import { FRUIT, type Piece } from './fruit.ts';
import { khatSprig } from './leaves.ts';
import { ellipse, group, mix, path, place, Sheet, seeded } from './sheet.ts';
import { VESSELS, type VesselName } from './vessels.ts';

const HORIZON = 716;

function stage(sheet: Sheet, flavour: Flavour, vessel: VesselName): string {
  const far = mix(flavour.sky.middle, flavour.sky.horizon, 0.35);
  const near = mix(flavour.sky.middle, flavour.sky.zenith, 0.45);
  const dark = mix(flavour.sky.zenith, flavour.sky.middle, 0.25);
  const landmark = {
    bottle:
      silhouette(acacia(dark), 850, HORIZON + 8, 1.05) + silhouette(acacia(near), 132, HORIZON, 0.6, true),
    can: silhouette(skyline(mix(near, dark, 0.4), flavour.sun.high, 5), 500, HORIZON + 6, 1.12),
    flask: mountKenya(sheet, 1000, 430, HORIZON + 10, far, near, flavour.sun.high),
  }[vessel];
  return (
    sky(sheet, 1000, 1000, [
      [0, flavour.sky.zenith],
      [0.4, flavour.sky.middle],
      [0.72, flavour.sky.horizon],
    ]) +
    sun(sheet, 500, 440, 318, flavour.sun.high, flavour.sun.low) +
    (vessel === 'flask' ? landmark : '') +
    hills(sheet, 1000, 672, 64, HORIZON + 20, far, mix(far, near, 0.6), vessel.length + 1) +
    (vessel === 'can' ? landmark : '') +
    hills(sheet, 1000, 706, 34, HORIZON + 20, near, dark, vessel.length + 6) +
    (vessel === 'bottle' ? landmark : '') +
    ground(sheet, 1000, HORIZON, 1000, flavour.ground.lit, flavour.ground.dark, 500, 560)
  );
}

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
    stage(sheet, flavour, vessel) +
      splash(sheet, flavour, flavour.slug.length + vessel.length) +
      group(scene, '') +
      vignette,
  );
}
