// Product search on the demo catalogue: the products that must be among the first three results.
import { testDatabases } from '@jani-juice/backend/testing';
import { describe, expect, test } from 'vitest';
import type { Person } from '../shop-database.ts';
import { setUpShop } from '../steps.ts';

const flavour = (name: string) => [`${name}-bottle`, `${name}-can`, `${name}-flask`];
const [mango, passion, pineapple, tamarind, hibiscus] = [
  flavour('mango'),
  flavour('passion'),
  flavour('pineapple-mint'),
  flavour('tamarind'),
  flavour('hibiscus'),
];
const [ginger, watermelon, blackcurrant, coconut] = [
  flavour('ginger-lemon'),
  flavour('watermelon'),
  flavour('blackcurrant'),
  flavour('coconut-lime'),
];
const [bottles, cans, flasks] = [/-bottle$/, /-can$/, /-flask$/];
const anyDrink = /./;
const onOffer =
  /^(pineapple-mint-can|tamarind-bottle|blackcurrant-bottle|coconut-lime-can|passion-flask|ginger-lemon-bottle)$/;

// The slugs that must be among the first three, or what each of the first three must match.
const queries: [string, string[] | RegExp][] = [
  // Names, flavours and brands, in any case and order
  ['mango', mango],
  ['MANGO', mango],
  ['Embu Fresh Mango', ['mango-bottle']],
  ['mango dusk', ['mango-can']],
  ['gold passion', ['passion-flask']],
  ['lemon ginger', ginger],
  ['lime coconut', coconut],
  ['mint pineapple', pineapple],
  ['pineapple-mint', pineapple],
  ['embu fresh', bottles],
  ['meru gold', flasks],
  // Words that match every drink
  ['juice', anyDrink],
  ['drinks', anyDrink],
  ['flavour', anyDrink],
  ['flavors', anyDrink],
  ['cold drink', anyDrink],
  ['mango juice', mango],
  ['mango flavour', mango],
  ['juices of mangoes', mango],
  // Vessels and sizes
  ['energy drink', cans],
  ['soda', cans],
  ['tamarind bottle', ['tamarind-bottle']],
  ['watermelon can', ['watermelon-can']],
  ['750ml', flasks],
  ['750 ml', flasks],
  ['330ml can', cans],
  ['500', bottles],
  ['75cl', flasks],
  ['0.5l', bottles],
  // Prices
  ['500 bob', anyDrink],
  // Prices limit what is found; where nothing is that cheap, the cheapest come first.
  ['700 bob', cans],
  ['drinks under 700', cans],
  ['ksh 1,000 mango', ['mango-can', 'mango-bottle']],
  ['chini ya 800', cans],
  ['700/=', cans],
  ['<700', cans],
  ['juice 10 bob', cans],
  ['more than 1000 bob', anyDrink],
  // The shop's own name, and drinks of others
  ['jani', anyDrink],
  ['Jani Juice', anyDrink],
  ['janijuice', anyDrink],
  ["jani's mango", mango],
  ['stoney tangawizi', ginger],
  ['mango ksh 500', mango],
  ['750ml at 500 bob', flasks],
  // Emoji
  ['🍍', pineapple],
  ['🥭 juice', mango],
  ['☕️ 🍋', ginger],
  ['0,33 L', cans],
  ['mango 0.75l', ['mango-flask']],
  ['best seller', anyDrink],
  ['maracuja', passion],
  ['ribena', blackcurrant],
  ['red bull', cans],
  ['big hibiscus', ['hibiscus-flask']],
  // Taglines and descriptions
  ['beetroot', blackcurrant],
  ['promo', onOffer],
  ['cheapest', onOffer],
  ['bei rahisi', onOffer],
  ['diani', ['coconut-lime-bottle']],
  ['swing top', flasks],
  ['offer', onOffer],
  // Typing errors
  ['pineaple', pineapple],
  ['magno', mango],
  ['mnago juice', mango],
  ['tamrind', tamarind],
  ['hibicus', hibiscus],
  ['watermelin', watermelon],
  ['pasion fruit', passion],
  ['giner lemon', ginger],
  ['cocnut', coconut],
  ['blakcurrant', blackcurrant],
  ['hony', /^(tamarind|ginger-lemon)/],
  // Missing or additional spaces
  ['water melon', watermelon],
  ['pine apple', pineapple],
  ['black curant', blackcurrant],
  ['mangojuice', mango],
  ['gingerlemon', ginger],
  ['lemonade', ginger],
  // Beginnings and parts of words
  ['pinea', pineapple],
  ['currant', blackcurrant],
  ['melon', watermelon],
  // Kiswahili
  ['embe', mango],
  ['juice ya embe', mango],
  ['nanasi', pineapple],
  ['ukwaju', tamarind],
  ['karakara', passion],
  ['tikiti maji', watermelon],
  ['tangawizi', ginger],
  ['tangawisi', ginger],
  ['limau na tangawizi', ginger],
  ['ndimu', /^(ginger-lemon|coconut-lime)/],
  ['madafu', coconut],
  ['maji', watermelon],
  ['chupa', bottles],
  ['kopo', cans],
  ['tamu', /^(mango|tamarind)/],
  ['baridi', anyDrink],
  ['vinywaji', anyDrink],
  ['maji ya embe', mango],
  ['maji ya nazi', coconut],
  ['juisi ya ndimu', /^(ginger-lemon|coconut-lime)/],
  ['embe kubwa', ['mango-flask']],
  ['chupa ya ukwaju', ['tamarind-bottle']],
  // Careless typing
  ['mangos', mango],
  ['passionfruit', passion],
  ['pinapple mint', pineapple],
  ['watermellon', watermelon],
  ['tamarin', tamarind],
  ['hibiskus', hibiscus],
  ['jinger', ginger],
  ['lemmon ginger', ginger],
  ['coco nut', coconut],
  ['black currents', blackcurrant],
  ['meru gold mango 750ml', ['mango-flask']],
  ['500 ml mango', ['mango-bottle']],
  ['small mango', ['mango-can']],
  ['dusk enrgy', cans],
  ['embu frsh passion', ['passion-bottle']],
  ['gold', flasks],
  ['pasion juise', passion],
  // Names of khat
  ['miraa', anyDrink],
  ['muguka', anyDrink],
  ['khat', anyDrink],
  ['zobo', hibiscus],
  ['kangeta', anyDrink],
  ['giza', anyDrink],
  // Kiswahili and Sheng, as they are typed
  ['zabibu', blackcurrant],
  ['zabibu nyeusi', blackcurrant],
  ['grapes', blackcurrant],
  ['ginja', ginger],
  ['jus ya embe', mango],
  ['joosi', anyDrink],
  ['iko baridi', anyDrink],
  ['baridi moja', anyDrink],
  ['kitu baridi', anyDrink],
  ['barafu', anyDrink],
  ['mpya', anyDrink],
  ['mpya kabisa', anyDrink],
  ['bei gani', anyDrink],
  ['menu', anyDrink],
  ['zote', anyDrink],
  ['bei poa', onOffer],
  ['bei ya chini', onOffer],
  ['affordable', onOffer],
  ['power', cans],
  ['bila sukari', hibiscus],
  // The shop's name with typing errors, and in sentences
  ['janni juice', anyDrink],
  ['jane juice', anyDrink],
  ["jani's", anyDrink],
  ['jani juice nairobi', anyDrink],
  ['jni embe', mango],
  // Drinks of others beside a flavour
  ['minute maid mango', mango],
  ['delmonte pineapple', pineapple],
  ['fanta passion', passion],
  ['krest bitter lemon', ginger],
  ['azam embe', mango],
  // Prices: ranges, thousands, in Kiswahili
  ['under 700', cans],
  ['below 1000', anyDrink],
  ['cheap', onOffer],
  ['cheap mango', mango],
  ['500-800', cans],
  ['500 to 800', cans],
  ['between ksh 500 and ksh 700', cans],
  ['mango 500 - 800', ['mango-can']],
  ['mango under 1k', ['mango-can', 'mango-bottle']],
  ['mia saba', cans],
  ['embe ya elfu moja', ['mango-can', 'mango-bottle']],
  ['pesa ngapi', anyDrink],
  ['price list', anyDrink],
  // Sizes
  ['500mls', bottles],
  ['750 mls mango', ['mango-flask']],
  ['500-750ml', /-(bottle|flask)$/],
  ['1 litre', flasks],
  ['smallest mango', ['mango-can']],
  ['wholesale', anyDrink],
  // Questions
  ['how long delivery', anyDrink],
  ['delivery time', anyDrink],
  ['how much is mango', mango],
  ['do you have passion', passion],
  ['what is miraa', anyDrink],
  ['do you deliver the hibiscus', hibiscus],
  ['no sugar', hibiscus],
  // More typing errors and Kiswahili
  ['mengo', mango],
  ['tamarnd', tamarind],
  ['waterlemon', watermelon],
  ['blackcurent', blackcurrant],
  ['hibscus', hibiscus],
  ['botle of mango', ['mango-bottle']],
  ['tangawizi na limao', ginger],
  ['mogoka', anyDrink],
];

describe.each(testDatabases())('on %s', (kind) => {
  const { database, asVisitor, queryAs, readRows } = setUpShop(kind);

  const search = async (text: string | null, page_size?: number, person: Person = 'visitor') => {
    const { rows } = await queryAs<{ slug: string }>(
      person,
      'select slug from public.search_products($1, $2)',
      [text, page_size ?? null],
    );
    return rows.map(({ slug }) => slug);
  };
  const correct = async (text: string) => {
    const { rows } = await queryAs<{ correction: string | null }>(
      'visitor',
      'select public.correct_search($1) as correction',
      [text],
    );
    return rows[0]?.correction ?? null;
  };
  const asStaff = (sql: string, parameters: unknown[] = []) => queryAs('staff', sql, parameters);
  const addSynonym = (word: string, means: string) =>
    asStaff('insert into public.search_synonyms (word, means) values ($1, $2)', [word, means]);

  test('there are at least ninety queries', () => expect(queries.length).toBeGreaterThanOrEqual(90));

  test.each(queries)('%s', async (text, expected) => {
    const first = (await search(text)).slice(0, 3);
    if (Array.isArray(expected)) expect(first).toEqual(expect.arrayContaining(expected));
    else {
      expect(first).toHaveLength(3);
      for (const slug of first) expect(slug).toMatch(expected);
    }
  });

  test.each([
    'whisky',
    'pizza',
    'beer',
    'asdfghjkl',
    'qwerty uiop',
    '12345',
    'laptop charger',
    'zz',
    '!!!',
    '%',
    "' or 1=1; --",
    '\\',
    '🍺',
    'kevian',
    'dasani',
    'coca cola',
    'softa',
    'maramoja',
    'refund',
    'sold out',
    'do you deliver to Mombasa',
    'are you open',
    'how are you',
    'mpesa',
    '0712-345678',
    'JJ-20261123-4209',
  ])('finds nothing for %s', async (text) => {
    expect(await search(text)).toEqual([]);
    expect(await correct(text)).toBeNull();
  });

  test('a blank search returns all active drinks, newest first', async () => {
    const { rows } = await database.query<{ slug: string }>(
      'select slug from public.products where is_active order by created_at desc',
    );
    for (const blank of ['', '  ', null]) expect(await search(blank)).toEqual(rows.map(({ slug }) => slug));
  });

  test('an exact name is first, all words rank before some words', async () => {
    const found = await search('dusk energy mango');
    expect(found[0]).toBe('mango-can');
    expect(found.length).toBeGreaterThan(3);
    expect(await search('mango xyzzy')).toEqual(await search('mango'));
    await asStaff(
      `insert into public.products (name, slug, price, stock_quantity) values ('Mango', 'just-mango', 100, 1)`,
    );
    expect((await search('mango'))[0]).toBe('just-mango');
    await asStaff(`delete from public.products where slug = 'just-mango'`);
  });

  test('uses 100 characters and 10 words, and returns the requested number of rows, at most 1000', async () => {
    expect(await search(`mango ${'x'.repeat(94)} tamarind`)).toEqual(await search('mango'));
    expect(await search('x1 x2 x3 x4 x5 x6 x7 x8 x9 x10 mango')).not.toContain('mango-can');
    expect(await search('m'.repeat(1_000_000))).toEqual([]);
    expect(await search('ﷺ'.repeat(100))).toEqual([]);
    expect(await search('juice', 5)).toHaveLength(5);
    expect(await search('juice', 0)).toHaveLength(1);
    expect(await search('juice', 1_000_000)).toHaveLength(27);
  });

  test.each([
    ['pineaple', 'pineapple'],
    ['magno juice', 'mango juice'],
    ['pasion fruit', 'passion fruit'],
    ['mangojuice', 'mango juice'],
    ['tangawisi', 'tangawizi'],
    ['pineapple juise', 'pineapple juice'],
    ['magno 500 bob', 'mango'],
    ['mango', null],
    ['jani', null],
    ['jani juice', null],
    ['Jani mango', null],
    ['janis', null],
    ['janni juice', null],
    ['delivery time', null],
    ['tangawizi na limao', null],
    ['stoney tangawizi', null],
    ['stoney', null],
    ['fanta', null],
    ['700 bob', null],
    ['jani magno', 'jani mango'],
    ['embe', null],
    ['juice', null],
    ['pinea', null],
    ['', null],
  ])('suggests for %j: %j', async (text, suggestion) => expect(await correct(text)).toBe(suggestion));

  test('suggests a close spelling of a rare word, and searches the typed one', async () => {
    await asStaff(
      `insert into public.products (name, slug, price, stock_quantity) values ('Manga comic', 'manga', 100, 1)`,
    );
    expect(await search('manga')).toEqual(['manga']);
    expect(await correct('manga')).toBe('mango');
    await asStaff(`delete from public.products where slug = 'manga'`);
    expect(await correct('manga'), 'now it is a typing error').toBe('mango');
    expect(await search('manga')).toEqual(await search('mango'));
  });

  test('returns slugs and suggestion for the shop page in one call', async () => {
    const find = (text: string) => asVisitor('shop_page', { search: text });
    for (const text of ['pineaple', 'mango', 'juice', 'whisky'])
      expect(await find(text)).toMatchObject({
        found: await search(text, 250),
        correction: await correct(text),
      });
  });

  test('follows changes of a product', async () => {
    await asStaff(
      `insert into public.products (name, slug, price, stock_quantity) values ('Baobab Wanjikũ', 'baobab', 100, 1)`,
    );
    expect(await search('wanjiku')).toEqual(['baobab']);
    expect(await search('WANJIKŨ')).toEqual(['baobab']);
    expect(await search('baobb')).toEqual(['baobab']);
    await asStaff(`update public.products set is_active = false where slug = 'baobab'`);
    expect(await search('baobab')).toEqual([]);
    expect(await search('baobb')).toEqual([]);
    expect(await search('baobab', 50, 'staff'), 'of active products only, for staff as well').toEqual([]);
    await asStaff(`update public.products set is_active = true, tagline = 'Ubuyu' where slug = 'baobab'`);
    expect(await search('ubuyu')).toEqual(['baobab']);
    await asStaff(`update public.products set name = 'Ubuyu' where slug = 'baobab'`);
    expect(await search('baobab')).toEqual([]);
    await asStaff(`delete from public.products where slug = 'baobab'`);
    expect(await search('ubuyu')).toEqual([]);
    const { rows } = await database.query(
      `select word from private.search_words where word in ('baobab', 'wanjiku', 'ubuyu')`,
    );
    expect(rows).toEqual([]);
  });

  test('follows a category that is renamed', async () => {
    await asStaff(`update public.categories set name = 'Roselle Petal' where name = 'Hibiscus'`);
    expect((await search('petal')).toSorted()).toEqual(hibiscus.toSorted());
    await asStaff(`update public.categories set name = 'Hibiscus' where name = 'Roselle Petal'`);
    expect(await search('petal')).toEqual([]);
  });

  test('a sale does not change the search index', async () => {
    const version = () => readRows('select xmin::text as at from private.searchable_products order by 1');
    const before = await version();
    await database.query(
      `update public.products set stock_quantity = stock_quantity - 1 where slug = 'mango-can'`,
    );
    expect(await version()).toEqual(before);
  });

  describe('synonyms', () => {
    test('of staff are normalised, and found in singular and plural', async () => {
      await addSynonym('  Sunset-Cups ', 'Mango, TAMARIND');
      const { rows } = await asStaff(
        `select word, means from public.search_synonyms where word = 'sunset cups'`,
      );
      expect(rows).toEqual([{ word: 'sunset cups', means: 'mango tamarind' }]);
      for (const slug of await search('sunset cup')) expect([...mango, ...tamarind]).toContain(slug);
      expect(await search('sunset cup')).toHaveLength(6);
      await expect(addSynonym('Sunset cup', '')).rejects.toMatchObject({ code: '23505' });
      await asStaff(`delete from public.search_synonyms where word = 'sunset cups'`);
      expect(await search('sunset cup')).not.toContain('mango-can');
    });

    test('can lead to a word that matches any drink', async () => {
      await addSynonym('madaraka', 'juice');
      expect(await search('madaraka')).toHaveLength(27);
      expect(await search('madaraka mango')).toEqual(await search('mango'));
      await asStaff(`delete from public.search_synonyms where word = 'madaraka'`);
    });

    test('have one to three words, and a meaning of at most ten', async () => {
      for (const [word, means] of [
        ['', 'mango'],
        ['!!!', 'mango'],
        ['one two three four', 'mango'],
        ['x'.repeat(61), 'mango'],
        ['eleven', 'a b c d e f g h i j k'],
      ] as const) {
        await expect(addSynonym(word, means), word).rejects.toMatchObject({ code: '23514' });
      }
    });
  });
});
