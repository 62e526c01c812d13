// Structured data by the rules of search engines. The compiler checks the names of properties and types (schema-dts).
import { expect, test } from 'vitest';
import { richResultErrors, richResultIssues } from '../../../e2e/rich-result-issues.ts';
import { defaultShopSettings } from '../../lib/shop-settings.ts';
import { describeBreadcrumbs } from './breadcrumbs.ts';
import { describeCollection, describeProduct, describeSite, describeStore } from './structured-data.ts';

const shop = { origin: 'https://jani.example', settings: defaultShopSettings };
const mango = {
  slug: 'mango-can',
  name: 'Mango',
  tagline: 'Sun in a can',
  description: null,
  brand: 'Embu Fresh',
  category: 'Mango',
  price: 95_050,
  previous_price: 110_000,
  stock_quantity: 3,
  size: '330 ml',
  images: ['https://jani.example/art/mango-can-960.webp'],
};

/** Recommendations within the offer of a product. */
const adviceOnOffer = async (document: Parameters<typeof richResultIssues>[0]) =>
  (await richResultIssues(document)).flatMap(({ path, issueMessage }) =>
    path.some(({ property }) => property === 'offers') ? [issueMessage] : [],
  );

test.each([
  ['a product on offer', describeProduct(shop, mango, [])],
  [
    'a product without brand, flavor and offer',
    describeProduct(shop, { ...mango, brand: null, category: null, previous_price: null }, []),
  ],
  [
    'a sold-out product with free delivery',
    describeProduct(
      { ...shop, settings: { ...shop.settings, delivery_fee: 0 } },
      { ...mango, stock_quantity: 0 },
      [],
    ),
  ],
  [
    'a page of drinks',
    describeCollection(shop, {
      name: 'Mango',
      description: 'Mango',
      path: '/flavors/mango',
      count: 1,
      products: [mango],
    }),
  ],
  ['the store', describeStore(shop, null, 'Mpaka Road 4')],
  ['the site', describeSite(shop)],
  ['breadcrumbs', describeBreadcrumbs(shop.origin, [{ name: 'Shop', path: '/shop' }])],
])('%s breaks no rule of rich results', async (_, document) => {
  expect(await richResultErrors(document)).toEqual([]);
});

test('an offer has all that search engines recommend, except an end of its price', async () => {
  expect(await adviceOnOffer(describeProduct(shop, mango, []))).toEqual([
    expect.stringContaining('priceValidUntil'),
  ]);
});

test('the validator finds what is missing', async () => {
  const { offers, image: _, ...product } = describeProduct(shop, mango, []);
  const { price: __, priceSpecification: ___, ...unpriced } = offers;
  const errors = await richResultErrors({ ...product, offers: unpriced });
  expect(errors.join()).toMatch(/image/);
  expect(errors.join()).toMatch(/price/);
});
