// One drawing: collects gradients, blurs and clips under unique ids, and converts shapes to SVG text.

export type Point = readonly [x: number, y: number];
export type Stop = readonly [offset: number, colour: string, opacity?: number];

/** A number as short SVG text, one decimal. */
export const n = (value: number): string => String(Math.round(value * 10) / 10);

/** An SVG drawing in the making; drawing functions add definitions here and give back markup. */
export class Sheet {
  #definitions: string[] = [];
  #ids = new Map<string, string>();

  /** Adds a definition once and gives its `url(#…)`. `build` receives the id. */
  #define(key: string, build: (id: string) => string): string {
    const known = this.#ids.get(key);
    if (known) return known;
    const id = `d${this.#definitions.length}`;
    this.#definitions.push(build(id));
    const url = `url(#${id})`;
    this.#ids.set(key, url);
    return url;
  }

  /** A linear gradient across the painted shape's box, from `start` to `end` in box fractions (default top to bottom). */
  linear(stops: readonly Stop[], start: Point = [0, 0], end: Point = [0, 1]): string {
    return this.#define(
      `l${JSON.stringify([stops, start, end])}`,
      (id) =>
        `<linearGradient id="${id}" x1="${start[0]}" y1="${start[1]}" x2="${end[0]}" y2="${end[1]}">${stopMarkup(stops)}</linearGradient>`,
    );
  }

  /** The same across the shape, left to right, for round walls. */
  across(stops: readonly Stop[]): string {
    return this.linear(stops, [0, 0], [1, 0]);
  }

  /** A radial gradient in box fractions. */
  radial(stops: readonly Stop[], centre: Point = [0.5, 0.5], radius = 0.5, focus: Point = centre): string {
    return this.#define(
      `r${JSON.stringify([stops, centre, radius, focus])}`,
      (id) =>
        `<radialGradient id="${id}" cx="${centre[0]}" cy="${centre[1]}" r="${radius}" fx="${focus[0]}" fy="${focus[1]}">${stopMarkup(stops)}</radialGradient>`,
    );
  }

  /** A Gaussian blur of `deviation` user units. */
  blur(deviation: number): string {
    return this.#define(
      `b${deviation}`,
      (id) =>
        `<filter id="${id}" x="-60%" y="-60%" width="220%" height="220%"><feGaussianBlur stdDeviation="${deviation}"/></filter>`,
    );
  }

  /** A clip along path data `d`. */
  clip(d: string): string {
    return this.#define(`c${d}`, (id) => `<clipPath id="${id}"><path d="${d}"/></clipPath>`);
  }

  /** The finished document of `width` x `height` user units. */
  document(width: number, height: number, body: string): string {
    return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}"><defs>${this.#definitions.join('')}</defs>${body}</svg>`;
  }
}

function stopMarkup(stops: readonly Stop[]): string {
  return stops
    .map(
      ([offset, colour, opacity]) =>
        `<stop offset="${offset}" stop-color="${colour}"${opacity === undefined ? '' : ` stop-opacity="${opacity}"`}/>`,
    )
    .join('');
}

/** A path element; `more` is any further attributes as text. */
export const path = (d: string, fill: string, more = ''): string => `<path d="${d}" fill="${fill}" ${more}/>`;

/** A line along `d`. */
export const stroke = (d: string, colour: string, width: number, more = ''): string =>
  `<path d="${d}" fill="none" stroke="${colour}" stroke-width="${n(width)}" stroke-linecap="round" stroke-linejoin="round" ${more}/>`;

/** A group, moved, turned (degrees) and scaled. */
export const place = (markup: string, x: number, y: number, scale = 1, turn = 0, flip = false): string =>
  `<g transform="translate(${n(x)} ${n(y)}) rotate(${n(turn)}) scale(${(flip ? -scale : scale).toFixed(3)} ${scale.toFixed(3)})">${markup}</g>`;

/** A group with attributes. */
export const group = (markup: string, attributes: string): string => `<g ${attributes}>${markup}</g>`;

/** Path data of an ellipse. */
export const ellipse = (cx: number, cy: number, rx: number, ry: number = rx): string =>
  `M${n(cx - rx)} ${n(cy)}A${n(rx)} ${n(ry)} 0 1 1 ${n(cx + rx)} ${n(cy)}A${n(rx)} ${n(ry)} 0 1 1 ${n(cx - rx)} ${n(cy)}Z`;

/** Path data of a closed or open soft line through the points (Catmull-Rom). */
export function smooth(points: readonly Point[], closed = true, tension = 6): string {
  const count = points.length;
  const at = (index: number): Point => {
    const wrapped = closed ? (index + count) % count : Math.min(Math.max(index, 0), count - 1);
    return points[wrapped] ?? [0, 0];
  };
  let d = `M${n(at(0)[0])} ${n(at(0)[1])}`;
  for (let index = 0; index < (closed ? count : count - 1); index++) {
    const [before, from, to, after] = [at(index - 1), at(index), at(index + 1), at(index + 2)];
    d += `C${n(from[0] + (to[0] - before[0]) / tension)} ${n(from[1] + (to[1] - before[1]) / tension)} ${n(to[0] - (after[0] - from[0]) / tension)} ${n(to[1] - (after[1] - from[1]) / tension)} ${n(to[0])} ${n(to[1])}`;
  }
  return closed ? `${d}Z` : d;
}

/** The point at `angle` degrees (0 is right, clockwise) and `radius` from a centre. */
export const polar = (angle: number, radius: number, cx = 0, cy = 0): Point => [
  cx + Math.cos((angle * Math.PI) / 180) * radius,
  cy + Math.sin((angle * Math.PI) / 180) * radius,
];

/** Random numbers in [0, 1) that are the same at each drawing. */
export function seeded(seed: number): () => number {
  let state = seed * 2654435761;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}

/** A colour between two hex colours, mixed in linear light so that middles stay bright. */
export function mix(from: string, to: string, share: number): string {
  const channel = (hex: string, index: number) =>
    (Number.parseInt(hex.slice(1 + index * 2, 3 + index * 2), 16) / 255) ** 2.2;
  return `#${[0, 1, 2]
    .map((index) => {
      const light = channel(from, index) * (1 - share) + channel(to, index) * share;
      return Math.round(light ** (1 / 2.2) * 255)
        .toString(16)
        .padStart(2, '0');
    })
    .join('')}`;
}

/** How a solid thing takes the light: key from the upper left, warm rim from the low sun on the right. */
export type Skin = { light: string; base: string; dark: string; rim?: string };

/** A lit, round body along path data: focal gradient, rim light and a soft highlight; `details` are drawn on its skin. */
export function solid(sheet: Sheet, d: string, skin: Skin, details = '', shine = 0.55): string {
  const body = path(
    d,
    sheet.radial(
      [
        [0, skin.light],
        [0.42, skin.base],
        [1, skin.dark],
      ],
      [0.45, 0.42],
      0.68,
      [0.33, 0.27],
    ),
  );
  const shade = path(
    d,
    sheet.linear(
      [
        [0.5, skin.dark, 0],
        [1, skin.dark, 0.75],
      ],
      [0.25, 0.1],
      [0.75, 1],
    ),
  );
  const rim = stroke(
    d,
    sheet.linear(
      [
        [0.6, skin.rim ?? '#ffd9a8', 0],
        [0.95, skin.rim ?? '#ffd9a8', 0.75],
      ],
      [0, 0.35],
      [1, 0.5],
    ),
    7,
  );
  const highlight = path(
    d,
    sheet.radial(
      [
        [0, '#fff', shine],
        [0.5, '#fff', shine * 0.25],
        [1, '#fff', 0],
      ],
      [0.33, 0.25],
      0.26,
    ),
  );
  return group(body + details + shade + rim + highlight, `clip-path="${sheet.clip(d)}"`);
}
