// The area that an address is in, with the names and spellings that a new shop begins with.
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { type DeliveryArea, findAreas, guessArea } from '../../../domain/deliveries/delivery-area.ts';

/** The areas that a new shop begins with. */
const rows = readFileSync(new URL('../../schemas/6_running/27_rows.sql', import.meta.url), 'utf8');
const areas: DeliveryArea[] = [
  ...rows.matchAll(/^ {2}\('((?:[^']|'')+)', array\[(.*)\], (\d+), (\d+), (true|false), \d+\)[,;]$/gm),
].map(([, name = '', list = '', from, to, needs]) => ({
  id: name,
  name,
  spellings: [...list.matchAll(/'((?:[^']|'')*)'/g)].map(([, spelling = '']) =>
    spelling.replaceAll("''", "'"),
  ),
  fee_cents: null,
  promise_from_minutes: Number(from),
  promise_to_minutes: Number(to),
  needs_agreement: needs === 'true',
}));
const guess = (location: string) => guessArea(location, areas)?.area.name ?? null;

test('knows the areas of a new shop', () => expect(areas).toHaveLength(17));

test.each([
  ['mpaka rd westlands', 'Westlands'],
  ['Mpaka Road', 'Westlands'],
  ['WESTLANDS, Sarit Centre', 'Westlands'],
  ['Yaya Centre, Argwings Kodhek Rd, Kilimani, Nairobi', 'Kilimani'],
  ['Kilimani, off Ngong Road', 'Kilimani'],
  ['Ngong rd', 'Ngong Road'],
  ['Mombasa Road, Capital Centre', 'South B & C'],
  ['Mombasa Road', 'Mombasa Road'],
  ['Off Mombasa Rd', 'Mombasa Road'],
  ['msa rd', 'Mombasa Road'],
  ['Thika Road, TRM', 'Thika Road'],
  ["Lang'ata", 'Langata'],
  ['upper hill', 'Upperhill'],
  ['South C, Akila', 'South B & C'],
  ['town, Moi avenue', 'Nairobi CBD'],
  ['Nairobi', 'Elsewhere in Nairobi'],
  ['Nairobi, near Meru shop', 'Elsewhere in Nairobi'],
  ['Kisumu Lane, Nairobi', 'Elsewhere in Nairobi'],
  ['Eastleigh section 3', 'Elsewhere in Nairobi'],
  ['Kampala House, Westlands', 'Westlands'],
  ['Limuru Rd', 'Parklands'],
  ['Limuru', 'Elsewhere in Nairobi'],
  ['Karen, Langata Road', 'Karen'],
  ['Nakuru lane, Westlands', 'Westlands'],
  ['Nakuru, Westlands', 'Westlands'],
  ['Westlands, Meru Sacco offices', 'Westlands'],
  ['Moi Avenue, Nairobi', 'Nairobi CBD'],
  ['Moi Avenue, Eldoret Express', 'Nairobi CBD'],
  ['Nairobi airport', 'Mombasa Road'],
  ['Mombasa Road, Nairobi', 'Mombasa Road'],
  ['Nairobi, Mombasa Road', 'Mombasa Road'],
  ['Thika Superhighway, Roysambu', 'Thika Road'],
  ['Karen, Mombasa, Nairobi', 'Karen'],
  ['Mombasa Raha, Nairobi', 'Elsewhere in Nairobi'],
  ['Kitengela, Kajiado', 'Elsewhere in Nairobi'],
  ['Kitengela town, Kajiado County', 'Elsewhere in Nairobi'],
  ['Syokimau, Machakos', 'Mombasa Road'],
  ['Ruiru, Kiambu', 'Elsewhere in Nairobi'],
  ['Juja Road, Eastleigh', 'Elsewhere in Nairobi'],
])('finds %j in %s', (location, name) => expect(guess(location)).toBe(name));

test.each([
  ['Mombasa', 'Mombasa'],
  ['mombasa, nyali', 'Mombasa'],
  ['Kampala', 'Kampala'],
  ['Kampala, Uganda', 'Kampala'],
  ['KISUMU CITY', 'Kisumu'],
  ['Eldoret town, Rupa Mall', 'Eldoret'],
  ['Section 58, Nakuru', 'Nakuru'],
  ['Diani Beach', 'Diani'],
  ['Murang’a', "Murang'a"],
  ['Dar es Salaam', 'Dar es Salaam'],
  ['Homa Bay', 'Homa Bay'],
  ['P.O. Meru', 'Meru'],
  ['Mombasa CBD', 'Mombasa'],
  ['Kenyatta Avenue, Nakuru', 'Nakuru'],
  ['Kenyatta Avenue, Nakuru 20100, Kenya', 'Nakuru'],
  ['Kenyatta Avenue Nakuru opposite the bank', 'Nakuru'],
  ['Nakuru, Kenyatta Avenue', 'Nakuru'],
  ['Nakuru, Nairobi Road', 'Nakuru'],
  ['Moi Avenue, Mombasa', 'Mombasa'],
  ['Mombasa Road, Mombasa', 'Mombasa'],
  ['Moi International Airport, Mombasa', 'Mombasa'],
  ['Eldoret airport', 'Eldoret'],
  ['Karen, Mombasa', 'Mombasa'],
  ['Karen, Mombasa County', 'Mombasa'],
  ['Westlands Mombasa', 'Mombasa'],
  ['Nairobi Mombasa', 'Mombasa'],
  ['Machakos town, Kenyatta Avenue', 'Machakos'],
  ['Thika', 'Thika'],
  ['Thika, Kiambu', 'Thika'],
  ['Juja, Thika Road', 'Juja'],
  ...'Ukunda Kiserian Isinya Gatundu Tala Kangundo Kenol Mwea Sagana Ahero Rongo'
    .split(' ')
    .map((town) => [town, town]),
  ['mai mahiu', 'Mai Mahiu'],
])('finds %j outside Nairobi, in %s', (location, place) => {
  const found = guessArea(location, areas);
  expect(found?.area.name).toBe('Outside Nairobi');
  expect(found?.place).toBe(place);
});

test.each(['', '...', 'Nakuru Street', 'Embu Court', 'Merula Apartments', 'Sunshine flats', 'Outside'])(
  'finds no area in %j',
  (location) => expect(guess(location)).toBeNull(),
);

test('counts a town with a promise of days as one outside Nairobi', () => {
  const far = areas.map((area) =>
    area.needs_agreement ? { ...area, needs_agreement: false, fee_cents: 80_000 } : area,
  );
  expect(guessArea('Nakuru Street, Westlands', far)?.area.name).toBe('Westlands');
  expect(guessArea('Nakuru', far)?.area.name).toBe('Outside Nairobi');
});

test('reads a bounded part of a long text', () =>
  expect(guess(`${'x '.repeat(1_000_000)}Mombasa`)).toBeNull());

test('finds areas by the beginning of a word of their names and spellings', () => {
  const names = (search: string) => findAreas(search, areas).map(({ name }) => name);
  expect(names(' ')).toHaveLength(17);
  expect(names('west')).toEqual(['Westlands', 'Langata']);
  expect(names('KARE')).toEqual(['Karen']);
  expect(names('kisu')).toEqual(['Outside Nairobi']);
  expect(names('zzz')).toEqual([]);
});
