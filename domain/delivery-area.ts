// Areas of delivery: which one a typed address is in, what delivery costs there and how long it takes (docs/decisions/delivery-areas.md).

/** The public columns of `delivery_areas`. */
export interface DeliveryArea {
  id: string;
  name: string;
  /** Other names, streets and towns by which a typed address is recognised. */
  spellings: readonly string[];
  /** Cents. Null: the fee of the shop. */
  fee_cents: number | null;
  promise_from_minutes: number;
  promise_to_minutes: number;
  /** Fee and day are agreed with the customer first. */
  needs_agreement: boolean;
}

const day = 24 * 60;

/** Words that make the name of a place the name of a street, building or estate somewhere else. */
const streetWords =
  /^(?:road|street|avenue|lane|drive|close|crescent|highway|hway|way|plaza|house|hse|estate|court|towers?|building|hotel|mall|apartments?|stage|station|gardens?|flats?|block|shop|butchery|bar|lounge)$/;
const roads = /(?:^| )(?:road|highway|superhighway|way|street|avenue|drive)$/;
/** Names of the whole city: any area within it says more. */
const city = /^(?:nairobi|nrb|nbo)$/;
const shortened: Readonly<Record<string, string>> = {
  rd: 'road',
  st: 'street',
  ave: 'avenue',
  msa: 'mombasa',
  nrb: 'nairobi',
  nbo: 'nairobi',
};

/** Lower case, without accents and punctuation, and with common short forms written out. */
const fold = (text: string): string =>
  text
    .normalize('NFKD')
    .toLowerCase()
    .replace(/[\u0300-\u036f'’ʼ]/g, '')
    .replace(/[^a-z0-9]+/g, ' ')
    .trim()
    .split(' ')
    .map((word) => shortened[word] ?? word)
    .join(' ');

/** Whether riders do not reach it on the same day. */
const isFar = (area: DeliveryArea): boolean => area.needs_agreement || area.promise_to_minutes >= day;

/** How much a name says: of an area, of a road that crosses several, of the city, of another town. */
const rankOf = (area: DeliveryArea, name: string, next: string): number =>
  isFar(area) ? 3 : city.test(name) ? 2 : roads.test(name) || roads.test(next) ? 1 : 0;

/** Whether an area is for all other places, by its name, which then says nothing about an address. */
export const isForTheRest = ({ name }: Pick<DeliveryArea, 'name'>): boolean =>
  /^(?:outside|elsewhere)\b/i.test(name);

const namesOf = (area: DeliveryArea): readonly string[] =>
  isForTheRest(area) ? area.spellings : [area.name, ...area.spellings];

export interface GuessedArea<Area> {
  area: Area;
  /** The name of the area, street or town that was found, as it is listed. */
  place: string;
}

/**
 * Finds the area of a typed location. An area of the city counts more than a road, which crosses several; both count more than a town
 * elsewhere, whose name may be that of a street ("Mombasa Road") or building. Then the longer name counts, then the first.
 * @param location text as typed, of any length
 * @returns null if no area is named
 */
export function guessArea<Area extends DeliveryArea>(
  location: string,
  areas: readonly Area[],
): GuessedArea<Area> | null {
  const typed = ` ${fold(location.slice(0, 400))} `;
  if (typed.trim() === '') return null;
  let best: { found: GuessedArea<Area>; order: readonly number[] } | null = null;
  for (const area of areas) {
    for (const place of namesOf(area)) {
      const name = fold(place);
      const at = name === '' ? -1 : placeOf(typed, name, isFar(area));
      if (at < 0) continue;
      const order = [rankOf(area, name, wordAfter(typed, name, at)), -name.split(' ').length, at];
      if (best === null || isBefore(order, best.order)) best = { found: { area, place }, order };
    }
  }
  return best?.found ?? null;
}

/** Where a name begins among whole words; -1 if it is not there. */
function placeOf(typed: string, name: string, isTown: boolean): number {
  let at = typed.indexOf(` ${name} `);
  while (at >= 0) {
    if (!isTown || !streetWords.test(wordAfter(typed, name, at))) return at;
    at = typed.indexOf(` ${name} `, at + 1);
  }
  return -1;
}

const wordAfter = (typed: string, name: string, at: number): string =>
  typed.slice(at + name.length + 2).split(' ', 1)[0] ?? '';

const isBefore = (one: readonly number[], other: readonly number[]): boolean => {
  const index = one.findIndex((value, place) => value !== other[place]);
  return index >= 0 && (one[index] ?? 0) < (other[index] ?? 0);
};

/** The areas that a search finds, by the beginning of a word of their names and spellings. */
export function findAreas<Area extends DeliveryArea>(search: string, areas: readonly Area[]): Area[] {
  const wanted = fold(search.slice(0, 100));
  return wanted === ''
    ? [...areas]
    : areas.filter((area) =>
        [area.name, ...area.spellings].some((name) => ` ${fold(name)}`.includes(` ${wanted}`)),
      );
}

/** The area with this id; null if it is not offered any more. */
export const areaWithId = <Area extends DeliveryArea>(id: string, areas: readonly Area[]): Area | null =>
  areas.find((area) => area.id === id) ?? null;

/** The delivery fee in cents, as `private.delivery_fee_in`: 0 until it is agreed. */
export const feeIn = (area: DeliveryArea | null, shopFee: number): number =>
  area?.needs_agreement ? 0 : (area?.fee_cents ?? shopFee);

const unitOf = (minutes: number): [number, string] =>
  minutes >= day ? [day, 'day'] : minutes > 120 && minutes % 60 === 0 ? [60, 'hour'] : [1, 'minute'];

/** Such as `15-60 minutes`, `2-4 hours` or `1-3 days`. */
export function describePromise({
  promise_from_minutes: from,
  promise_to_minutes: to,
}: Pick<DeliveryArea, 'promise_from_minutes' | 'promise_to_minutes'>): string {
  const [size, name] = unitOf(to);
  const [least, most] = [Math.max(1, Math.floor(from / size)), Math.ceil(to / size)];
  return `${least < most ? `${least}-` : ''}${most} ${name}${most === 1 ? '' : 's'}`;
}
