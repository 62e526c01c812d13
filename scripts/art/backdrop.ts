// Nairobi at dusk: skies, the sun, hills, acacias, the skyline, Mount Kenya, and the ground things stand on.
import {
  ellipse,
  group,
  mix,
  n,
  type Point,
  path,
  place,
  type Sheet,
  type Stop,
  seeded,
  smooth,
} from './sheet.ts';

/** A sky from zenith to horizon over the box. */
export const sky = (sheet: Sheet, width: number, height: number, stops: readonly Stop[]): string =>
  `<rect width="${width}" height="${height}" fill="${sheet.linear(stops)}"/>`;

/** The sun with a wide glow. */
export function sun(
  sheet: Sheet,
  x: number,
  y: number,
  radius: number,
  high: string,
  low: string,
  glow = 0.55,
): string {
  return (
    path(
      ellipse(x, y, radius * 2.1),
      sheet.radial([
        [0.3, low, glow],
        [0.6, low, glow * 0.35],
        [1, low, 0],
      ]),
    ) +
    path(
      ellipse(x, y, radius),
      sheet.linear([
        [0, high],
        [0.55, mix(high, low, 0.55)],
        [1, low],
      ]),
    )
  );
}

/** A range of hills from x = 0 to `width`, crest near `y`, filled down to `bottom`. */
export function hills(
  sheet: Sheet,
  width: number,
  y: number,
  height: number,
  bottom: number,
  top: string,
  foot: string,
  seed: number,
): string {
  const random = seeded(seed);
  const points: Point[] = [];
  const step = width / 7;
  for (let x = -step; x <= width + step; x += step) points.push([x, y - random() * height]);
  const crest = smooth(points, false);
  return path(
    `${crest}L${width + step} ${bottom}L${n(-step)} ${bottom}Z`,
    sheet.linear([
      [0, top],
      [1, foot],
    ]),
  );
}

/** An umbrella acacia about 300 wide and 230 tall, foot at the origin. */
export function acacia(colour: string): string {
  const trunk =
    'M-9 2C-6 -50 -16 -84 -44 -116L-96 -158L-90 -163L-34 -124C-22 -114 -12 -104 -6 -88C-2 -112 0 -136 -12 -172L-4 -174C8 -140 10 -112 8 -86C16 -106 34 -122 52 -132L104 -166L110 -160L60 -122C30 -98 12 -60 12 2Z';
  const pad = (x: number, y: number, width: number, height: number) =>
    smooth([
      [x - width, y],
      [x - width * 0.72, y - height * 0.72],
      [x - width * 0.3, y - height * 0.9],
      [x + width * 0.12, y - height * 1.1],
      [x + width * 0.6, y - height * 0.8],
      [x + width, y - 2],
      [x + width * 0.5, y + height * 0.16],
      [x - width * 0.1, y + height * 0.05],
      [x - width * 0.6, y + height * 0.2],
    ]);
  return path(trunk + pad(-84, -156, 88, 34) + pad(72, -160, 96, 36) + pad(-8, -184, 116, 40), colour);
}

/** Nairobi's towers, about 900 wide and up to 330 tall, standing on y = 0; a few windows are lit. */
export function skyline(colour: string, lights: string, seed = 2): string {
  const random = seeded(seed);
  // Each block: x, width, height. The named towers are drawn after them.
  const blocks = [
    [-470, 46, 70],
    [-420, 60, 110],
    [-356, 40, 84],
    [-312, 56, 150],
    [-250, 46, 96],
    [-60, 64, 118],
    [14, 52, 162],
    [120, 60, 120],
    [186, 44, 92],
    [330, 58, 136],
    [394, 46, 88],
    [444, 40, 60],
  ] as const;
  let d = '';
  let windows = '';
  const light = (x: number, width: number, height: number) => {
    for (let row = 12; row < height - 10; row += 13)
      for (let column = 7; column < width - 8; column += 11)
        if (random() < 0.2) windows += `M${n(x + column)} ${n(-row)}h5v-6h-5Z`;
  };
  for (const [x, width, height] of blocks) {
    d += `M${x} 0V${-height}H${x + width}V0Z`;
    light(x, width, height);
  }
  // KICC: a round shaft that widens to a saucer under a short crown.
  d +=
    'M-196 0L-190 -226L-208 -236Q-212 -248 -200 -252L-176 -256L-172 -270L-136 -270L-132 -256L-108 -252Q-96 -248 -100 -236L-118 -226L-112 0ZM-157 -270L-154 -306L-151 -270Z';
  light(-184, 60, 220);
  // The conference hall beside it: a closed lotus.
  d += 'M-112 0Q-118 -44 -74 -70Q-34 -44 -40 0Z';
  // Times Tower: slim slab with a stepped head and mast.
  d += 'M66 0V-236H74V-256H82V-270H88V-322H91V-270H98V-256H106V-236H114V0Z';
  light(66, 48, 232);
  // Britam: a prism that leans into a blade.
  d += 'M232 0L236 -200L276 -306L279 -346L282 -300L296 -200L300 0Z';
  light(240, 54, 196);
  // Old Mutual: two shafts of unequal height.
  d += 'M-330 0V-186H-316V-214H-298V-186H-290V0Z';
  return path(d, colour) + path(windows, lights, 'opacity="0.85"');
}

/** Mount Kenya's broken summit over `width`, foot at `bottom`, summit at `y`. */
export function mountKenya(
  sheet: Sheet,
  width: number,
  y: number,
  bottom: number,
  lit: string,
  dark: string,
  snow: string,
): string {
  const h = bottom - y;
  const p = (u: number, v: number) => `${n(u * width)} ${n(bottom - v * h)}`;
  const body = `M${p(-0.1, 0)}L${p(0, 0.08)}Q${p(0.2, 0.2)} ${p(0.32, 0.48)}L${p(0.36, 0.54)}L${p(0.39, 0.5)}L${p(0.43, 0.74)}L${p(0.45, 0.72)}L${p(0.475, 0.98)}L${p(0.487, 0.92)}L${p(0.495, 1)}L${p(0.515, 0.86)}L${p(0.53, 0.9)}L${p(0.556, 0.66)}L${p(0.58, 0.7)}L${p(0.6, 0.58)}L${p(0.63, 0.62)}L${p(0.67, 0.46)}Q${p(0.82, 0.2)} ${p(1, 0.08)}L${p(1.1, 0)}Z`;
  const shade = `M${p(0.495, 1)}L${p(0.515, 0.86)}L${p(0.53, 0.9)}L${p(0.556, 0.66)}L${p(0.58, 0.7)}L${p(0.6, 0.58)}L${p(0.63, 0.62)}L${p(0.67, 0.46)}Q${p(0.82, 0.2)} ${p(1, 0.08)}L${p(1.1, 0)}L${p(0.62, 0)}L${p(0.55, 0.3)}L${p(0.57, 0.42)}L${p(0.52, 0.6)}L${p(0.53, 0.72)}Z`;
  const caps = `M${p(0.462, 0.86)}L${p(0.475, 0.98)}L${p(0.487, 0.92)}L${p(0.495, 1)}L${p(0.508, 0.9)}L${p(0.501, 0.86)}L${p(0.496, 0.9)}L${p(0.49, 0.79)}L${p(0.482, 0.87)}L${p(0.474, 0.77)}L${p(0.468, 0.85)}ZM${p(0.424, 0.7)}L${p(0.43, 0.74)}L${p(0.439, 0.73)}L${p(0.435, 0.65)}L${p(0.429, 0.69)}Z`;
  return (
    path(
      body,
      sheet.linear([
        [0, lit],
        [1, mix(lit, dark, 0.75)],
      ]),
    ) +
    path(shade, dark, 'opacity="0.45"') +
    path(caps, snow, 'opacity="0.85"')
  );
}

/** The ground: dark far away, a pool of light at `poolX`. */
export function ground(
  sheet: Sheet,
  width: number,
  y: number,
  bottom: number,
  lit: string,
  dark: string,
  poolX: number,
  poolWidth: number,
): string {
  return (
    `<rect y="${n(y)}" width="${width}" height="${n(bottom - y)}" fill="${sheet.linear([
      [0, mix(lit, dark, 0.55)],
      [0.4, mix(lit, dark, 0.35)],
      [1, dark],
    ])}"/>` +
    group(
      path(
        ellipse(poolX, y + (bottom - y) * 0.5, poolWidth, (bottom - y) * 0.5),
        sheet.radial([
          [0, lit],
          [0.5, lit, 0.6],
          [1, lit, 0],
        ]),
      ),
      '',
    )
  );
}

/** A soft shadow on the ground under something `width` wide, thrown to the lower right. */
export const shadow = (
  sheet: Sheet,
  x: number,
  y: number,
  width: number,
  colour = '#1c0a26',
  strength = 0.6,
): string =>
  path(
    ellipse(x + width * 0.1, y, width * 0.72, width * 0.15),
    sheet.radial([
      [0, colour, strength],
      [0.55, colour, strength * 0.55],
      [1, colour, 0],
    ]),
  ) +
  path(
    ellipse(x, y - 2, width * 0.46, width * 0.055),
    sheet.radial([
      [0.3, colour, strength],
      [1, colour, 0],
    ]),
  );

/** A few stars in the upper part of a box. */
export function stars(width: number, height: number, count: number, seed: number): string {
  const random = seeded(seed);
  let d = '';
  for (let index = 0; index < count; index++)
    d += ellipse(random() * width, random() ** 1.4 * height, 0.9 + random() * 1.6);
  return path(d, '#ffe9d6', 'opacity="0.6"');
}

/** A small silhouette at a place. */
export const silhouette = (drawing: string, x: number, y: number, scale: number, flip = false): string =>
  place(drawing, x, y, scale, 0, flip);
