// Places outside Nairobi in a delivery location: the delivery time and fee of Nairobi do not apply there.

const places: readonly string[] = [
  // Towns and counties of Kenya without those of the Nairobi metropolitan area that riders reach within the hour.
  ...(
    'Mombasa|Kisumu|Nakuru|Eldoret|Malindi|Kitale|Garissa|Nyeri|Meru|Embu|Kericho|Kisii|Kakamega|Bungoma|Busia|Naivasha|' +
    'Nanyuki|Machakos|Kitui|Isiolo|Marsabit|Moyale|Mandera|Wajir|Lamu|Kilifi|Kwale|Diani|Watamu|Mtwapa|Nyali|Voi|' +
    'Taveta|Wundanyi|Mwingi|Makueni|Wote|Narok|Bomet|Kajiado|Namanga|Loitoktok|Nyahururu|Nyandarua|Laikipia|' +
    'Maralal|Samburu|Lodwar|Turkana|Kapenguria|Iten|Kabarnet|Baringo|Eldama Ravine|Nandi|Kapsabet|Vihiga|' +
    'Mumias|Webuye|Malaba|Siaya|Bondo|Homa Bay|Homabay|Migori|Nyamira|Kerugoya|Kirinyaga|Karatina|Chuka|' +
    "Tharaka|Maua|Murang'a|Gilgil|Molo|Njoro|Emali|Mtito Andei|Uasin Gishu|Trans Nzoia|Tana River|Mpeketoni|Hola|Kakuma"
  ).split('|'),
  // Countries and cities nearby.
  ...(
    'Uganda|Kampala|Entebbe|Jinja|Tanzania|Dar es Salaam|Arusha|Moshi|Mwanza|Dodoma|Zanzibar|Rwanda|Kigali|Burundi|Bujumbura|' +
    'Ethiopia|Addis Ababa|Somalia|Mogadishu|Hargeisa|South Sudan|Juba|Sudan|Khartoum|Congo|Goma|Kinshasa|' +
    'Nigeria|Lagos|Ghana|Accra|South Africa|Johannesburg|Dubai|London'
  ).split('|'),
];

/** Words that make the name of a place the name of a street, building or estate in Nairobi. */
const inNairobi =
  /^(?:road|rd|street|st|avenue|ave|lane|drive|close|crescent|highway|hway|plaza|house|hse|estate|court|towers?|building|hotel|mall|apartments?|stage|station|gardens?|flats?|block)$/;

/** Areas and streets of Nairobi named after a place elsewhere. */
const nairobi =
  /\b(?:nairobi|nrb|nbo|westlands|kilimani|karen|cbd|lavington|kileleshwa|parklands|south [bc]|langata|kasarani|runda|upper ?hill|ngara|eastleigh|embakasi|ruaka|kitengela|rongai|kikuyu|thika road|ngong road)\b/;

const foldPlace = (text: string): string =>
  text
    .normalize('NFKD')
    .toLowerCase()
    .replace(/[\u0300-\u036f'’]/g, '')
    .replace(/[^a-z0-9]+/g, ' ')
    .trim();

const words = new Map(places.map((place) => [foldPlace(place), place]));

/**
 * Finds a place outside Nairobi in a delivery location. Unknown places count as Nairobi: the result is advice and no refusal.
 * @param location text as typed, of bounded length
 * @returns the name of the place; null without one, and where Nairobi or one of its areas is named, too, or the name is that of a street
 *   ("Mombasa Road") or building
 */
export function placeOutsideNairobi(location: string): string | null {
  const typed = foldPlace(location.slice(0, 400));
  if (nairobi.test(typed)) return null;
  const parts = typed.split(' ');
  for (let start = 0; start < parts.length; start += 1) {
    for (const length of [3, 2, 1]) {
      const place = words.get(parts.slice(start, start + length).join(' '));
      if (place && !inNairobi.test(parts[start + length] ?? '')) return place;
    }
  }
  return null;
}
