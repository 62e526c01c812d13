import { expect, test } from 'vitest';
import { defaultShopSettings } from '../../lib/shop-settings.ts';
import { describeBreadcrumbs } from './breadcrumbs.ts';
import { sitemapIndexOf, sitemapOf } from './sitemap-document.ts';
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
  previous_price: null,
  stock_quantity: 3,
  size: '330 ml',
  images: ['https://jani.example/art/mango-can-960.webp'],
};

/** All URLs in a document, at any depth. */
function addresses(value: unknown): string[] {
  if (typeof value === 'string') return /^https?:|^\//.test(value) ? [value] : [];
  return typeof value === 'object' && value !== null ? Object.values(value).flatMap(addresses) : [];
}

test('a product has one offer in shillings with its availability', () => {
  const described = describeProduct(shop, mango, []);
  expect(described).toMatchObject({
    '@context': 'https://schema.org',
    '@type': 'Product',
    name: 'Mango',
    description: 'Sun in a can',
    sku: 'mango-can',
    size: '330 ml',
    brand: { '@type': 'Brand', name: 'Embu Fresh' },
    image: ['https://jani.example/art/mango-can-960.webp'],
    offers: {
      '@type': 'Offer',
      url: 'https://jani.example/shop/mango-can',
      priceCurrency: 'KES',
      price: '950.50',
      availability: 'https://schema.org/InStock',
      seller: { name: 'Jani Juice' },
    },
  });
  expect(describeProduct(shop, { ...mango, stock_quantity: 0 }, []).offers.availability).toBe(
    'https://schema.org/OutOfStock',
  );
  expect(describeProduct(shop, mango, []).offers).not.toHaveProperty('priceSpecification');
  expect(describeProduct(shop, { ...mango, previous_price: 110_000 }, []).offers.priceSpecification).toEqual({
    '@type': 'UnitPriceSpecification',
    priceType: 'https://schema.org/StrikethroughPrice',
    priceCurrency: 'KES',
    price: '1100.00',
  });
  // Unknown values are omitted.
  expect(describeProduct(shop, { ...mango, brand: null, category: null }, [])).not.toHaveProperty('brand');
  expect(describeProduct(shop, { ...mango, size: null }, [])).not.toHaveProperty('size');
});

test('an offer names fee, time and place of the delivery, and that drinks are not taken back', () => {
  expect(describeProduct(shop, mango, []).offers).toMatchObject({
    shippingDetails: {
      shippingRate: { value: '1.00', currency: 'KES' },
      shippingDestination: { addressCountry: 'KE', addressRegion: 'Nairobi' },
      deliveryTime: { transitTime: { minValue: 0, maxValue: 1, unitCode: 'DAY' } },
    },
    hasMerchantReturnPolicy: {
      applicableCountry: 'KE',
      returnPolicyCategory: 'https://schema.org/MerchantReturnNotPermitted',
      merchantReturnLink: 'https://jani.example/contact#terms',
    },
  });
  const free = describeProduct({ ...shop, settings: { ...defaultShopSettings, delivery_fee: 0 } }, mango, []);
  expect(free.offers.shippingDetails.shippingRate).toMatchObject({ value: '0.00' });
});

test('an offer names the range of fees where areas have their own', () => {
  const area = {
    id: 'a',
    name: 'Karen',
    spellings: [],
    fee_cents: 35_000,
    promise_from_minutes: 15,
    promise_to_minutes: 60,
    needs_agreement: false,
  };
  const areas = [area, { ...area, name: 'Westlands', fee_cents: null }];
  expect(describeProduct(shop, mango, areas).offers.shippingDetails.shippingRate).toEqual({
    '@type': 'MonetaryAmount',
    minValue: 1,
    maxValue: 350,
    currency: 'KES',
  });
});

test('the store has its opening hours, else it is always open', () => {
  const opening = { hours: [], daysOff: [], schema: ['Mo-Sa 09:00-17:00'] };
  expect(describeStore(shop, opening, '').openingHours).toEqual(['Mo-Sa 09:00-17:00']);
  expect(describeStore(shop, null, '').openingHours).toBe('Mo-Su 00:00-23:59');
});

test('the store has name, address and contacts; missing social links are omitted', () => {
  const store = describeStore(
    { ...shop, settings: { ...defaultShopSettings, tiktok_url: '' } },
    null,
    'Mpaka Road 4',
  );
  expect(store).toMatchObject({
    '@type': 'Store',
    name: 'Jani Juice',
    telephone: '+254700000000',
    email: 'hello@jani.example',
    address: { streetAddress: 'Mpaka Road 4', addressLocality: 'Nairobi', addressCountry: 'KE' },
    sameAs: ['https://instagram.example/janijuice', 'https://facebook.example/janijuice'],
  });
  expect(describeStore(shop, null, '').address).not.toHaveProperty('streetAddress');
  expect(store.contactPoint.map(({ telephone }) => telephone)).toEqual(['+254700000000', '+254700000000']);
});

test('the site’s search action has the URL of the shop page', () =>
  expect(describeSite(shop).potentialAction).toEqual({
    '@type': 'SearchAction',
    target: {
      '@type': 'EntryPoint',
      urlTemplate: 'https://jani.example/shop?search={search_term_string}',
    },
    'query-input': 'required name=search_term_string',
  }));

test('breadcrumbs are numbered from the home page', () =>
  expect(describeBreadcrumbs(shop.origin, [{ name: 'Shop', path: '/shop' }]).itemListElement).toEqual([
    { '@type': 'ListItem', position: 1, name: 'Home', item: 'https://jani.example/' },
    { '@type': 'ListItem', position: 2, name: 'Shop', item: 'https://jani.example/shop' },
  ]));

const collection = {
  name: 'Mango drinks from KSh 680.00, delivered in Nairobi',
  description: 'Apple mangoes from Embu.',
  path: '/flavors/mango?page=2',
  count: 61,
  products: [mango, { slug: 'mango-flask', name: 'Meru Gold Mango' }],
};

test('a page of a flavor lists its drinks in order, and counts those of all pages', () =>
  expect(describeCollection(shop, collection)).toMatchObject({
    '@type': 'CollectionPage',
    url: 'https://jani.example/flavors/mango?page=2',
    isPartOf: { '@id': 'https://jani.example/#site' },
    mainEntity: {
      '@type': 'ItemList',
      numberOfItems: 61,
      itemListElement: [
        { position: 1, name: 'Mango', url: 'https://jani.example/shop/mango-can' },
        { position: 2, name: 'Meru Gold Mango', url: 'https://jani.example/shop/mango-flask' },
      ],
    },
  }));

test('every URL is absolute', () => {
  const documents = [
    describeStore(shop, null, ''),
    describeSite(shop),
    describeProduct(shop, mango, []),
    describeCollection(shop, collection),
  ];
  for (const address of addresses(documents)) expect(address).toMatch(/^https:\/\//);
});

test('a sitemap escapes XML characters and omits unknown dates', () => {
  const document = sitemapOf('https://jani.example', [
    { path: "/shop?a=1&b='2'", changed: '2026-11-21T09:05:00.123456+03:00' },
    { path: '/track-order', changed: null },
  ]);
  expect(document).toContain(
    '<url><loc>https://jani.example/shop?a=1&amp;b=&apos;2&apos;</loc><lastmod>2026-11-21T06:05:00.123Z</lastmod></url>',
  );
  expect(document).toContain('<url><loc>https://jani.example/track-order</loc></url>');
});

test('a sitemap index lists its sitemaps', () =>
  expect(sitemapIndexOf('https://jani.example', ['/sitemap.xml?part=1', '/sitemap.xml?part=2'])).toContain(
    '<sitemap><loc>https://jani.example/sitemap.xml?part=2</loc></sitemap>',
  ));
