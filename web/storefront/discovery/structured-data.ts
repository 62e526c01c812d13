// Structured data of pages for search engines, in the vocabulary of schema.org.
import type {
  CollectionPage,
  MerchantReturnPolicy,
  OfferShippingDetails,
  Product,
  Store,
  WebSite,
  WithContext,
} from 'schema-dts';
import { type DeliveryArea, feeRange } from '../../../domain/deliveries/delivery-area.ts';
import type { Opening } from '../../../domain/orders/opening-hours.ts';
import type { Database } from '../../../supabase/types.ts';

export interface Shop {
  /** The shop's public origin, without a trailing slash. */
  origin: string;
  settings: Pick<
    Database['public']['Tables']['store_settings']['Row'],
    | 'store_name'
    | 'support_phone'
    | 'chat_phone'
    | 'support_email'
    | 'instagram_url'
    | 'facebook_url'
    | 'tiktok_url'
    | 'delivery_fee'
  >;
}

const vocabulary = 'https://schema.org';
const inShillings = (cents: number): string => (cents / 100).toFixed(2);

/** Orders leave the shop at once and arrive within the hour. Search engines count days. */
const days = (minValue: number, maxValue: number) =>
  ({ '@type': 'QuantitativeValue', minValue, maxValue, unitCode: 'DAY' }) as const;

function describeShipping({ settings }: Pick<Shop, 'settings'>, areas: readonly DeliveryArea[]) {
  const { lowest, highest, differs } = feeRange(areas, settings.delivery_fee);
  return {
    '@type': 'OfferShippingDetails',
    shippingRate: {
      '@type': 'MonetaryAmount',
      ...(differs ? { minValue: lowest / 100, maxValue: highest / 100 } : { value: inShillings(lowest) }),
      currency: 'KES',
    },
    // Elsewhere fee and day are agreed on first.
    shippingDestination: { '@type': 'DefinedRegion', addressCountry: 'KE', addressRegion: 'Nairobi' },
    deliveryTime: {
      '@type': 'ShippingDeliveryTime',
      handlingTime: days(0, 0),
      transitTime: days(0, 1),
    },
  } as const satisfies OfferShippingDetails;
}

/** As the terms say: what arrived in order is not taken back. */
function describeReturns({ origin }: Pick<Shop, 'origin'>) {
  return {
    '@type': 'MerchantReturnPolicy',
    applicableCountry: 'KE',
    returnPolicyCategory: `${vocabulary}/MerchantReturnNotPermitted`,
    merchantReturnLink: `${origin}/contact#terms`,
  } as const satisfies MerchantReturnPolicy;
}

/**
 * The seller and contact details.
 * @param opening null: always open
 * @param street the seller's address in one line; empty where it is not set
 */
export function describeStore({ origin, settings }: Shop, opening: Opening | null, street: string) {
  const languages = ['English', 'Swahili'];
  return {
    '@context': vocabulary,
    '@type': 'Store',
    '@id': `${origin}/#store`,
    name: settings.store_name,
    url: `${origin}/`,
    logo: `${origin}/icon-512.png`,
    image: `${origin}/art/share.jpg`,
    telephone: settings.support_phone,
    email: settings.support_email,
    address: {
      '@type': 'PostalAddress',
      ...(street && { streetAddress: street }),
      addressLocality: 'Nairobi',
      addressCountry: 'KE',
    },
    areaServed: { '@type': 'Country', name: 'Kenya' },
    openingHours: opening?.schema ?? 'Mo-Su 00:00-23:59',
    currenciesAccepted: 'KES',
    paymentAccepted: 'M-PESA',
    contactPoint: [
      {
        '@type': 'ContactPoint',
        contactType: 'customer support',
        telephone: settings.support_phone,
        email: settings.support_email,
        availableLanguage: languages,
      },
      {
        '@type': 'ContactPoint',
        contactType: 'sales',
        telephone: settings.chat_phone,
        availableLanguage: languages,
      },
    ],
    sameAs: [settings.instagram_url, settings.facebook_url, settings.tiktok_url].filter(Boolean),
  } as const satisfies WithContext<Store>;
}

/** The web site and its search. */
export function describeSite({ origin, settings }: Shop) {
  // Search engines define 'query-input', the vocabulary does not.
  const search = {
    '@type': 'SearchAction',
    target: { '@type': 'EntryPoint', urlTemplate: `${origin}/shop?search={search_term_string}` },
    'query-input': 'required name=search_term_string',
  } as const;
  return {
    '@context': vocabulary,
    '@type': 'WebSite',
    '@id': `${origin}/#site`,
    name: settings.store_name,
    url: `${origin}/`,
    inLanguage: 'en-KE',
    publisher: { '@id': `${origin}/#store` },
    potentialAction: search,
  } as const satisfies WithContext<WebSite>;
}

export interface DescribedCollection {
  name: string;
  description: string;
  path: string;
  /** Number of its drinks on all pages. */
  count: number;
  products: readonly { slug: string; name: string }[];
}

/** A page that lists drinks. */
export function describeCollection({ origin }: Pick<Shop, 'origin'>, collection: DescribedCollection) {
  const url = `${origin}${collection.path}`;
  return {
    '@context': vocabulary,
    '@type': 'CollectionPage',
    '@id': url,
    url,
    name: collection.name,
    description: collection.description,
    inLanguage: 'en-KE',
    isPartOf: { '@id': `${origin}/#site` },
    mainEntity: {
      '@type': 'ItemList',
      numberOfItems: collection.count,
      itemListElement: collection.products.map(({ slug, name }, index) => ({
        '@type': 'ListItem',
        position: index + 1,
        name,
        url: `${origin}/shop/${encodeURIComponent(slug)}`,
      })),
    },
  } as const satisfies WithContext<CollectionPage>;
}

export interface DescribedProduct {
  slug: string;
  name: string;
  tagline: string | null;
  description: string | null;
  brand: string | null;
  category: string | null;
  /** Cents. */
  price: number;
  /** Cents; null without an offer. */
  previous_price: number | null;
  stock_quantity: number;
  /** Such as "500 ml"; null when it is not known. */
  size: string | null;
  /** URLs of its images. */
  images: string[];
}

/** A drink with its offer. */
export function describeProduct(
  { origin, settings }: Shop,
  product: DescribedProduct,
  areas: readonly DeliveryArea[],
) {
  const url = `${origin}/shop/${encodeURIComponent(product.slug)}`;
  return {
    '@context': vocabulary,
    '@type': 'Product',
    '@id': `${url}#product`,
    name: product.name,
    description: product.description ?? product.tagline ?? product.name,
    sku: product.slug,
    url,
    image: product.images,
    ...(product.brand ? { brand: { '@type': 'Brand', name: product.brand } } : {}),
    ...(product.size ? { size: product.size } : {}),
    ...(product.category ? { category: product.category } : {}),
    offers: {
      '@type': 'Offer',
      url,
      priceCurrency: 'KES',
      price: inShillings(product.price),
      ...(product.previous_price
        ? {
            priceSpecification: {
              '@type': 'UnitPriceSpecification',
              priceType: `${vocabulary}/StrikethroughPrice`,
              priceCurrency: 'KES',
              price: inShillings(product.previous_price),
            },
          }
        : {}),
      availability: `${vocabulary}/${product.stock_quantity > 0 ? 'InStock' : 'OutOfStock'}`,
      itemCondition: `${vocabulary}/NewCondition`,
      seller: { '@type': 'Store', '@id': `${origin}/#store`, name: settings.store_name },
      shippingDetails: describeShipping({ settings }, areas),
      hasMerchantReturnPolicy: describeReturns({ origin }),
    },
  } as const satisfies WithContext<Product>;
}
