// A boda-boda courier at speed, in silhouette, with a cold box: about 330 long, wheels on y = 0, heading left.
import { ellipse, group, path, polar, type Sheet, stroke } from './sheet.ts';

export function bodaBoda(sheet: Sheet, colour: string, rim: string): string {
  const wheel = (x: number) => {
    let spokes = '';
    for (let index = 0; index < 8; index++) {
      const [sx, sy] = polar(index * 45 + 12, 36, x, -44);
      spokes += `M${x} -44L${sx.toFixed(1)} ${sy.toFixed(1)}`;
    }
    return (
      stroke(ellipse(x, -44, 39), colour, 11) + stroke(spokes, colour, 2.5) + path(ellipse(x, -44, 9), colour)
    );
  };
  const bike =
    // Fork, mudguards, tank, seat, engine, exhaust, bars and lamp.
    stroke('M-112 -44L-82 -138', colour, 10) +
    stroke('M-160 -60A52 52 0 0 1 -76 -78', colour, 8) +
    stroke('M72 -84A54 54 0 0 1 160 -62', colour, 8) +
    path(
      'M-84 -132C-62 -146 -28 -142 -8 -118L112 -122C124 -122 126 -106 114 -104L30 -96L4 -92C-30 -88 -70 -100 -84 -132Z',
      colour,
    ) +
    path('M-52 -92L26 -92L44 -54L22 -34L-30 -34L-52 -62Z', colour) +
    stroke('M-78 -126L-46 -52L-20 -34M34 -96L108 -46M20 -46L108 -44', colour, 9) +
    stroke('M-20 -32Q40 -22 150 -34', colour, 11) +
    stroke('M-82 -138L-92 -164L-66 -170', colour, 7) +
    path('M-98 -156C-114 -156 -118 -132 -100 -130L-86 -136Z', colour);
  const rider =
    // Leg, torso leaning forward, arm to the bars, helmet with visor.
    path('M22 -128C-2 -128 -26 -116 -38 -98L-54 -52L-66 -44L-62 -34L-34 -36L-18 -84L22 -98Z', colour) +
    path(
      'M48 -112C58 -150 50 -196 24 -226C12 -240 -12 -238 -20 -222C-22 -206 -14 -168 -4 -138L4 -110Z',
      colour,
    ) +
    stroke('M-2 -214Q-24 -178 -44 -170L-76 -168', colour, 19) +
    path(
      'M-46 -262C-46 -288 -24 -302 0 -298C22 -294 32 -274 28 -252C24 -236 8 -228 -8 -230L-34 -232C-44 -236 -46 -246 -46 -262Z',
      colour,
    );
  const box =
    path(
      'M54 -232Q54 -240 62 -240L152 -240Q160 -240 160 -232L160 -134Q160 -126 152 -126L62 -126Q54 -126 54 -134Z',
      colour,
    ) + path('M54 -216L160 -216L160 -210L54 -210Z', rim, 'opacity="0.8"');
  const leafOnBox =
    path('M108 -200C128 -190 130 -164 108 -150C88 -164 88 -190 108 -200Z', rim) +
    stroke('M108 -194L108 -144', colour, 3);
  const light =
    path(
      'M-108 -150L-420 -196L-420 -60Z',
      sheet.across([
        [0, '#ffe9b0', 0],
        [1, '#ffe9b0', 0.6],
      ]),
    ) + path(ellipse(-106, -143, 8, 11), '#fff3cf');
  const glints =
    stroke('M-38 -282C-24 -300 10 -300 22 -280', rim, 4) +
    stroke('M30 -218C46 -204 54 -178 54 -160', rim, 3.5) +
    stroke('M158 -232L158 -134', rim, 4) +
    path('M-44 -268L-12 -272L-10 -252L-42 -248Z', rim, 'opacity="0.85"') +
    path(ellipse(160, -98, 7, 5), '#ff4d3a');
  const speed = stroke(
    'M190 -210L330 -210M200 -160L400 -160M190 -104L300 -104M196 -40L360 -40',
    rim,
    5,
    'opacity="0.45"',
  );
  const dust = path(
    ellipse(10, 0, 190, 13),
    sheet.radial([
      [0, '#05030f', 0.7],
      [1, '#05030f', 0],
    ]),
  );
  return group(dust + light + speed + wheel(-112) + wheel(112) + bike + box + rider + leafOnBox + glints, '');
}
