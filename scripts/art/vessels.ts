// The three vessels, standing on y = 0 around x = 0: cold-pressed bottle, slim can, swing-top flask.

import { CAPITAL_HEIGHT, drawText, sizeToFit, widthOf } from './lettering.ts';
import { mark } from './mark.ts';
import { acacia, hills } from './backdrop.ts';
import type { Flavour } from './flavours.ts';
import { ellipse, group, mix, n, path, place, type Sheet, seeded, stroke } from './sheet.ts';

export type VesselName = 'bottle' | 'can' | 'flask';
export type Vessel = { height: number; width: number; draw: (sheet: Sheet, flavour: Flavour) => string };

const CREAM = '#fdf3e1';
const DUSK = '#1d0f33';
const GOLD = '#f2c477';

/** Beads of condensation on a wall, except in the middle of the label, where the text is. */
function beads(
  seed: number,
  left: number,
  right: number,
  top: number,
  bottom: number,
  count: number,
  dry: readonly [from: number, to: number] = [0, 0],
): string {
  const random = seeded(seed);
  let dark = '';
  let light = '';
  let glint = '';
  for (let index = 0; index < count; index++) {
    const side = random() < 0.5;
    const u = random() ** 1.6 * 0.2;
    const x = side ? left + (right - left) * u : right - (right - left) * u;
    const y = top + random() * (bottom - top);
    const r = 2.2 + random() ** 2.5 * 7;
    if (y > dry[0] && y < dry[1]) continue;
    dark += ellipse(x + r * 0.15, y + r * 0.25, r * 1.02, r * 1.16);
    light += ellipse(x, y, r * 0.92, r * 1.04);
    glint += ellipse(x - r * 0.3, y - r * 0.38, r * 0.3, r * 0.28);
  }
  return (
    path(dark, '#1c0a26', 'opacity="0.3"') +
    path(light, '#fff', 'opacity="0.28"') +
    path(glint, '#fff', 'opacity="0.95"')
  );
}

/** Two or three drops that have run down and left a track. */
function runs(sheet: Sheet, spots: readonly (readonly [x: number, y: number, length: number])[]): string {
  return spots
    .map(
      ([x, y, length]) =>
        stroke(`M${x} ${y - length}L${x} ${y}`, '#fff', 5, 'opacity="0.22"') +
        path(
          `M${x} ${y - 12}C${x + 9} ${y - 3} ${x + 9} ${y + 9} ${x} ${y + 10}C${x - 9} ${y + 9} ${x - 9} ${y - 3} ${x} ${y - 12}Z`,
          sheet.linear([
            [0, '#fff', 0.25],
            [1, '#fff', 0.75],
          ]),
        ) +
        path(ellipse(x - 2.5, y + 1, 1.8, 3.2), '#fff'),
    )
    .join('');
}

/** Flavour words stacked and centred, as large as the box allows. */
function stacked(
  words: readonly string[],
  x: number,
  centreY: number,
  width: number,
  height: number,
  fill: string,
): string {
  const largest = height / words.length / (CAPITAL_HEIGHT * 1.22);
  const sizes = words.map((word) => sizeToFit(word, 'narrow', width, largest));
  const tall = sizes.map((size) => size * CAPITAL_HEIGHT);
  const gap = 13;
  const total = tall.reduce((sum, one) => sum + one, 0) + gap * (words.length - 1);
  let y = centreY - total / 2;
  return words
    .map((word, index) => {
      const size = sizes[index] ?? 0;
      y += size * CAPITAL_HEIGHT + (index > 0 ? gap : 0);
      return drawText(word, x, y, size, fill, 'narrow');
    })
    .join('');
}

/** Shading of an upright round wall over path `d`, drawn above print. */
const roundWall = (sheet: Sheet, d: string, strength: number): string =>
  path(
    d,
    sheet.across([
      [0, '#14061f', 0.62 * strength],
      [0.1, '#14061f', 0.2 * strength],
      [0.2, '#fff', 0.2 * strength],
      [0.3, '#fff', 0.05 * strength],
      [0.55, '#14061f', 0],
      [0.82, '#14061f', 0.3 * strength],
      [0.95, '#14061f', 0.62 * strength],
      [1, '#ffb98a', 0.3 * strength],
    ]),
  );

/** Juice seen through glass: dark edges, a lit heart, deeper towards the foot. */
function juiceIn(sheet: Sheet, d: string, { bright, base, deep }: Flavour['juice']): string {
  return (
    path(
      d,
      sheet.across([
        [0, deep],
        [0.12, base],
        [0.34, bright],
        [0.62, base],
        [0.88, deep],
        [0.96, mix(deep, base, 0.5)],
        [1, deep],
      ]),
    ) +
    path(
      d,
      sheet.linear([
        [0, bright, 0.35],
        [0.3, base, 0],
        [0.75, deep, 0],
        [1, deep, 0.7],
      ]),
    )
  );
}

function bottle(sheet: Sheet, flavour: Flavour): string {
  const wall =
    'M-54 -652L-54 -606C-54 -548 -146 -536 -146 -436L-146 -48Q-146 -2 -98 0Q0 12 98 0Q146 -2 146 -48L146 -436C146 -536 54 -548 54 -606L54 -652Z';
  const inside =
    'M-46 -622L-46 -600C-46 -542 -137 -530 -137 -434L-137 -52Q-137 -16 -94 -13Q0 -2 94 -13Q137 -16 137 -52L137 -434C137 -530 46 -542 46 -600L46 -622Q0 -612 -46 -622Z';
  const label = 'M-147 -404Q0 -378 147 -404L147 -84Q0 -56 -147 -84Z';
  const panel = 'M-150 -190Q0 -164 150 -190L150 -50L-150 -50Z';
  const cap = 'M-62 -722Q-62 -730 -54 -731Q0 -736 54 -731Q62 -730 62 -722L62 -654Q0 -640 -62 -654Z';
  let ridges = '';
  for (let x = -56; x <= 56; x += 8)
    ridges += `M${n(62 * Math.sin((x / 62) * 1.45))} -720L${n(62 * Math.sin((x / 62) * 1.45))} -662`;
  const art =
    path(
      panel,
      sheet.linear([
        [0, flavour.sky.zenith],
        [0.45, flavour.sky.middle],
        [1, flavour.sky.horizon],
      ]),
    ) +
    path(
      ellipse(0, -106, 58),
      sheet.linear([
        [0, flavour.sun.high],
        [1, flavour.sun.low],
      ]),
    ) +
    place(
      hills(sheet, 320, 0, 26, 120, mix(flavour.sky.zenith, flavour.sky.middle, 0.3), flavour.sky.zenith, 4),
      -160,
      -108,
    ) +
    place(acacia(mix(flavour.sky.zenith, '#0c0418', 0.5)), 78, -92, 0.34) +
    place(acacia(mix(flavour.sky.zenith, '#0c0418', 0.5)), -92, -96, 0.22, 0, true);
  const print =
    path(label, CREAM) +
    mark(0, -352, 52, '#146136') +
    drawText('EMBU FRESH', 0, -304, 22.5, '#23142f', 'text', 150) +
    stacked(flavour.words, 0, -240, 222, flavour.words.length > 1 ? 92 : 78, flavour.print) +
    group(art, '') +
    drawText('500 ML', 0, -84, 15, CREAM, 'text', 120);
  return (
    path(wall, '#fff', 'opacity="0.3"') +
    juiceIn(sheet, inside, flavour.juice) +
    path('M-46 -622Q0 -632 46 -622Q0 -612 -46 -622Z', flavour.juice.bright) +
    group(print + roundWall(sheet, label, 0.95), `clip-path="${sheet.clip(label)}"`) +
    stroke('M-146 -404Q0 -378 146 -404', '#fff', 2.5, 'opacity="0.6"') +
    // Light on glass: a long soft window on the left, a thin warm edge on the right.
    path(
      'M-122 -430C-122 -500 -66 -534 -46 -574L-36 -566C-52 -522 -98 -500 -100 -430L-100 -412L-122 -416Z',
      '#fff',
      'opacity="0.55"',
    ) +
    path('M-118 -74L-98 -70L-96 -38Q-112 -36 -118 -50Z', '#fff', 'opacity="0.4"') +
    path(
      'M-128 -398L-106 -394L-106 -84L-128 -88Z',
      sheet.linear([
        [0, '#fff', 0.42],
        [0.6, '#fff', 0.18],
        [1, '#fff', 0.3],
      ]),
    ) +
    stroke('M140 -52L140 -434C140 -500 100 -520 72 -552', '#ffcf9e', 4, 'opacity="0.75"') +
    stroke(wall, '#fff', 2, 'opacity="0.35"') +
    group(
      beads(flavour.slug.length * 3 + 1, -142, 142, -540, -16, 90, [-416, -196]) +
        runs(sheet, [
          [-128, -250, 60],
          [124, -330, 70],
          [112, -130, 40],
        ]),
      `clip-path="${sheet.clip(wall)}"`,
    ) +
    path(
      'M-58 -650Q0 -636 58 -650L58 -634Q0 -620 -58 -634Z',
      sheet.across([
        [0, '#dcd3e6', 0.5],
        [0.3, '#fff', 0.8],
        [1, '#8d7aa3', 0.6],
      ]),
    ) +
    path(
      cap,
      sheet.across([
        [0, '#0c3520'],
        [0.22, '#3fae68'],
        [0.36, '#2c9657'],
        [0.75, '#12502c'],
        [0.95, '#0a2e1b'],
        [1, '#4a7a3a'],
      ]),
    ) +
    stroke(ridges, '#062013', 2.2, 'opacity="0.35"') +
    path(ellipse(0, -728, 56, 6), '#5fc481', 'opacity="0.8"')
  );
}

function can(sheet: Sheet, flavour: Flavour): string {
  const wall =
    'M-82 -652C-86 -640 -112 -622 -112 -592L-112 -40C-112 -18 -96 -10 -88 -2Q0 12 88 -2C96 -10 112 -18 112 -40L112 -592C112 -622 86 -640 82 -652Q0 -638 -82 -652Z';
  const night = mix(flavour.sky.zenith, DUSK, 0.55);
  // Capitals run up the can, one line per word, as long as the room between crest and sun allows.
  const [foot, long] = [-196, 322];
  const size = Math.min(
    ...flavour.words.map((word) => long / widthOf(word, 'narrow', 1)),
    flavour.words.length > 1 ? 104 : 166,
  );
  const line = size * CAPITAL_HEIGHT;
  const across = line * flavour.words.length + 16 * (flavour.words.length - 1);
  const art =
    path(
      wall,
      sheet.linear([
        [0, night],
        [0.3, flavour.sky.zenith],
        [0.7, flavour.sky.middle],
        [0.9, flavour.sky.horizon],
        [1, flavour.sky.horizon],
      ]),
    ) +
    path(
      ellipse(0, -104, 70),
      sheet.linear([
        [0, flavour.sun.high],
        [1, flavour.sun.low],
      ]),
    ) +
    place(
      hills(sheet, 260, 0, 30, 160, mix(flavour.sky.zenith, flavour.sky.middle, 0.45), flavour.sky.zenith, 6),
      -130,
      -88,
    ) +
    place(hills(sheet, 260, 0, 24, 120, night, '#0c0418', 9), -130, -58) +
    place(acacia('#0f0620'), 56, -66, 0.36) +
    drawText('330 ML', 0, -30, 15, CREAM, 'text', 120) +
    mark(0, -584, 48, flavour.glow) +
    drawText('DUSK ENERGY', 0, -537, 17.5, CREAM, 'text', 90);
  const lettering = flavour.words
    .map((word, index) => {
      const x = -across / 2 + line + index * (line + 16);
      return `<g transform="translate(${n(x)} ${foot}) rotate(-90)">${drawText(word, 0, 0, size, index === 0 ? CREAM : flavour.glow, 'narrow', 0, 'start')}</g>`;
    })
    .join('');
  return (
    group(
      art +
        lettering +
        roundWall(sheet, wall, 1) +
        path(
          'M-84 -620L-62 -616L-62 -10L-84 -12Z',
          sheet.linear([
            [0, '#fff', 0.5],
            [0.5, '#fff', 0.22],
            [1, '#fff', 0.34],
          ]),
        ) +
        path('M-54 -614L-48 -613L-48 -8L-54 -9Z', '#fff', 'opacity="0.2"') +
        path(
          'M98 -620L105 -616L105 -20L98 -14Z',
          sheet.linear([
            [0, '#ffcf9e', 0.25],
            [0.7, '#ffcf9e', 0.75],
            [1, '#ffcf9e', 0.3],
          ]),
        ) +
        path(
          'M-112 -24Q0 -2 112 -24L112 20L-112 20Z',
          sheet.across([
            [0, '#6b6078'],
            [0.2, '#f6f1fb'],
            [0.4, '#b9aec6'],
            [0.8, '#4d4259'],
            [1, '#a8937f'],
          ]),
          'opacity="0.9"',
        ) +
        path(
          'M-112 -612Q0 -592 112 -612L112 -670L-112 -670Z',
          sheet.across([
            [0, '#6b6078'],
            [0.2, '#ffffff'],
            [0.42, '#c9bfd6'],
            [0.8, '#5d5169'],
            [1, '#c0a58c'],
          ]),
          'transform="translate(0 -14)"',
        ) +
        beads(flavour.slug.length * 5 + 2, -110, 110, -610, -30, 70, [-608, -526]) +
        runs(sheet, [
          [-96, -330, 70],
          [90, -250, 60],
          [-72, -150, 44],
        ]),
      `clip-path="${sheet.clip(wall)}"`,
    ) +
    // The lid: rolled rim, recess, tab.
    path(
      ellipse(0, -654, 84, 15),
      sheet.across([
        [0, '#8d8299'],
        [0.25, '#fff'],
        [0.6, '#b3a8c2'],
        [1, '#6b6078'],
      ]),
    ) +
    path(
      ellipse(0, -653, 75, 11),
      sheet.linear([
        [0, '#5d5169'],
        [1, '#b9aec6'],
      ]),
    ) +
    path(ellipse(6, -654, 26, 4.5), '#efe9f5') +
    path(ellipse(12, -654, 8, 2), '#6b6078') +
    stroke('M-82 -651Q0 -630 82 -651', '#fff', 2.5, 'opacity="0.6"')
  );
}

function flask(sheet: Sheet, flavour: Flavour): string {
  const wall =
    'M-42 -668L-44 -610C-48 -520 -150 -500 -150 -380L-150 -44Q-150 -4 -104 0Q0 12 104 0Q150 -4 150 -44L150 -380C150 -500 48 -520 44 -610L42 -668Z';
  const inside =
    'M-35 -596C-40 -512 -139 -492 -139 -378L-139 -52Q-139 -20 -98 -16Q0 -6 98 -16Q139 -20 139 -52L139 -378C139 -492 40 -512 35 -596Q0 -586 -35 -596Z';
  const label =
    'M-108 -92L-108 -300C-108 -376 -56 -412 0 -418C56 -412 108 -376 108 -300L108 -92Q0 -76 -108 -92Z';
  const line = 'M-99 -101L-99 -299C-99 -368 -50 -401 0 -407C50 -401 99 -368 99 -299L99 -101Q0 -86 -99 -101Z';
  const ink = mix(flavour.sky.zenith, DUSK, 0.5);
  const print =
    path(label, ink) +
    group(
      path(
        ellipse(0, -130, 64),
        sheet.linear([
          [0, GOLD],
          [1, '#c97f3a'],
        ]),
        'opacity="0.95"',
      ) +
        place(hills(sheet, 220, 0, 24, 90, mix(ink, '#fff', 0.08), ink, 12), -110, -120) +
        place(acacia(mix(ink, '#000000', 0.4)), 46, -112, 0.24),
      `clip-path="${sheet.clip(line)}"`,
    ) +
    stroke(line, GOLD, 2.6) +
    mark(0, -356, 54, GOLD) +
    drawText('MERU GOLD', 0, -300, 19, GOLD, 'text', 150) +
    stacked(flavour.words, 0, -240, 180, flavour.words.length > 1 ? 94 : 76, CREAM) +
    drawText('750 ML', 0, -103, 12.5, GOLD, 'text', 120);
  return (
    // Wire bail behind, then glass, then the stopper and the wire in front.
    stroke('M-46 -628C-74 -640 -70 -700 -40 -722M46 -628C74 -640 70 -700 40 -722', '#8a6a3a', 7) +
    path(wall, '#fff', 'opacity="0.28"') +
    juiceIn(sheet, inside, flavour.juice) +
    path('M-35 -596Q0 -606 35 -596Q0 -586 -35 -596Z', flavour.juice.bright) +
    roundWall(sheet, wall, 0.45) +
    group(
      print +
        path(
          label,
          sheet.across([
            [0, '#0c0418', 0.55],
            [0.2, '#fff', 0.12],
            [0.4, '#fff', 0],
            [0.75, '#0c0418', 0.15],
            [1, '#0c0418', 0.6],
          ]),
        ),
      `clip-path="${sheet.clip(label)}"`,
    ) +
    path(
      'M-132 -372C-130 -462 -54 -500 -34 -566L-24 -560C-38 -490 -108 -452 -110 -366L-112 -60Q-126 -58 -132 -74Z',
      sheet.linear([
        [0, '#fff', 0.75],
        [0.5, '#fff', 0.4],
        [1, '#fff', 0.25],
      ]),
    ) +
    stroke('M143 -50L143 -378C143 -450 104 -480 78 -508', '#ffcf9e', 4.5, 'opacity="0.8"') +
    stroke(wall, '#fff', 2, 'opacity="0.4"') +
    group(
      beads(flavour.slug.length * 7 + 3, -146, 146, -470, -16, 46) +
        runs(sheet, [
          [-122, -210, 54],
          [126, -290, 66],
        ]),
      `clip-path="${sheet.clip(wall)}"`,
    ) +
    path(
      'M-50 -690Q0 -678 50 -690L48 -650Q0 -638 -48 -650Z',
      sheet.across([
        [0, '#d8cfe2', 0.75],
        [0.25, '#fff', 0.95],
        [0.6, '#e4dcec', 0.7],
        [1, '#8d7aa3', 0.8],
      ]),
    ) +
    path('M-40 -698Q0 -688 40 -698L40 -684Q0 -674 -40 -684Z', '#e2572e') +
    path(
      'M-40 -698L-38 -726Q-36 -748 0 -750Q36 -748 38 -726L40 -698Q0 -688 -40 -698Z',
      sheet.across([
        [0, '#cfc5bd'],
        [0.25, '#ffffff'],
        [0.55, '#f6efe6'],
        [0.85, '#b3a49a'],
        [1, '#e8c9a8'],
      ]),
    ) +
    stroke('M-58 -626Q-66 -690 -40 -722Q0 -738 40 -722Q66 -690 58 -626', '#d9a85c', 5.5) +
    stroke('M-56 -640Q-62 -690 -39 -720', '#fff0cf', 2, 'opacity="0.8"') +
    stroke('M-48 -628Q0 -612 48 -628', '#d9a85c', 6) +
    stroke('M-58 -626L-62 -600M58 -626L62 -600', '#d9a85c', 5)
  );
}

export const VESSELS: Record<VesselName, Vessel> = {
  bottle: { height: 736, width: 292, draw: bottle },
  can: { height: 668, width: 224, draw: can },
  flask: { height: 752, width: 300, draw: flask },
};
