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
  /^(?:road|street|avenue|lane|drive|close|crescent|highway|hway|way|superhighway|plaza|house|hse|estate|court|towers?|building|hotel|lodge|mall|apartments?|stage|station|petrol|matatus?|sacco|shuttle|express|bus|gardens?|flats?|block|shop|butchery|bar|lounge)$/;
const roads = /(?:^| )(?:road|highway|superhighway|way|street|avenue|drive)$/;
/** Names that every town has, as it has roads. */
const partsOfTowns = /^(?:cbd|tao|airport|nairobi town|city cent(?:re|er))$/;
/** Names of the whole city: any area within it says more. */
const city = /^(?:nairobi|nrb|nbo)$/;
/** Counties whose name may follow that of a suburb, which says more: "Kitengela, Kajiado", "Thika, Kiambu". */
const counties = /^(?:kiambu|kajiado|machakos)$/;
/** What follows a town at the end of an address or of a part between commas. */
const end = /^ (?:(?:town|city|county|cbd|kenya|\d+) )*(?:,|$)/;
/** What precedes a town at the beginning of such a part, or in "Moi Avenue Mombasa". */
const beginning = /(?:^|,|(?: (?:road|highway|street|avenue|airport|cbd|town)))$/;
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

/** How much a name says, beginning with the most: of an area, of a town, of a road that crosses several areas, of the city. */
function rankOf(area: DeliveryArea, name: string, before: string, after: string): number {
  if (isFar(area)) return end.test(after) || beginning.test(before) ? 1 : 4;
  if (roads.test(name) || roads.test(nextWord(after)) || partsOfTowns.test(name)) return 2;
  return city.test(name) || counties.test(name) ? 3 : 0;
}

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

interface Match<Area> {
  found: GuessedArea<Area>;
  name: string;
  at: number;
  rank: number;
  /** Whether it says where the places named before it are. */
  isEnd: boolean;
}

/**
 * Finds the area of a typed location. A town elsewhere at the end counts more than what precedes it ("Westlands, Mombasa"), unless the
 * city follows. Then an area of the city counts more than a town, whose name may be that of a street ("Nakuru Lane") or building, and both
 * more than a road or a part that each town has ("Mombasa CBD"). Then the longer name counts, then the first.
 * @param location text as typed, of any length
 * @returns null if no area is named
 */
export function guessArea<Area extends DeliveryArea>(
  location: string,
  areas: readonly Area[],
): GuessedArea<Area> | null {
  const typed = ` ${location
    .slice(0, 400)
    .split(/[,;\n]/)
    .map(fold)
    .join(' , ')} `;
  const matches: Match<Area>[] = [];
  for (const area of areas) {
    for (const place of namesOf(area)) {
      const name = fold(place);
      const at = name === '' ? -1 : placeOf(typed, name, isFar(area));
      if (at < 0) continue;
      const after = typed.slice(at + name.length + 1);
      const rank = rankOf(area, name, typed.slice(0, at), after);
      const isEnd = isFar(area) && !counties.test(name) && end.test(after);
      matches.push({ found: { area, place }, name, at, rank, isEnd });
    }
  }
  const lastAt = (list: readonly Match<Area>[]) => Math.max(-1, ...list.map(({ at }) => at));
  const cityAt = lastAt(matches.filter(({ name, rank }) => rank === 3 && city.test(name)));
  const here = matches.filter(({ found, at }) => !isFar(found.area) || at > cityAt);
  const endAt = lastAt(here.filter(({ isEnd }) => isEnd));
  const [best] = here
    .filter(({ found, at }) => isFar(found.area) || at >= endAt)
    .sort((a, b) => a.rank - b.rank || b.name.split(' ').length - a.name.split(' ').length || a.at - b.at);
  return best?.found ?? null;
}

/** Where a name begins among whole words; -1 if it is not there. */
function placeOf(typed: string, name: string, isTown: boolean): number {
  let at = typed.indexOf(` ${name} `);
  while (at >= 0) {
    if (!isTown || !streetWords.test(nextWord(typed.slice(at + name.length + 1)))) return at;
    at = typed.indexOf(` ${name} `, at + 1);
  }
  return -1;
}

const nextWord = (after: string): string => after.slice(1).split(' ', 1)[0] ?? '';

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

/** Lowest and highest fee in cents. Without the areas in which it is agreed. */
export function feeRange(
  areas: readonly DeliveryArea[],
  shopFee: number,
): { lowest: number; highest: number; differs: boolean } {
  const fees = areas.filter((area) => !area.needs_agreement).map((area) => feeIn(area, shopFee));
  const [lowest, highest] = fees.length > 0 ? [Math.min(...fees), Math.max(...fees)] : [shopFee, shopFee];
  return { lowest, highest, differs: lowest !== highest };
}

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
