// The shop's product search at two sizes of catalogue, on both databases, compared with the lookup of one product by its slug.
import { openShop } from '../scripts/open-shop.ts';
import { startThrowawayPostgresql } from '../scripts/throwaway-postgresql.ts';
import { compare, load, type Row } from './load.ts';

const flavours = ['Mango', 'Passion', 'Pineapple Mint', 'Tamarind', 'Hibiscus', 'Ginger Lemon', 'Watermelon'];
const brands = ['Embu Fresh', 'Dusk Energy', 'Meru Gold'];
const syllables = ['ka', 'mu', 'ri', 'to', 'we', 'ngo', 'sha', 'li', 'be', 'ndu', 'pa', 'yo'];
const shown = 'slug,name,price,image_url,category,stock_quantity';

/** One of 1,728 words, so that the catalogue has many similar words. */
const wordOf = (index: number) =>
  [1, 12, 144].map((step) => syllables[Math.floor(index / step) % syllables.length]).join('');

function productOf(index: number) {
  const flavour = flavours[index % flavours.length] ?? '';
  return {
    name: `${brands[index % brands.length]} ${flavour} ${wordOf(index)} ${index}`,
    slug: `bench-${index}`,
    tagline: `Cold ${wordOf(index * 7)} from ${wordOf(index * 13)}`,
    description: `Pressed ${flavour.toLowerCase()} with khat, ${wordOf(index * 5)} and ${wordOf(index * 3)}. Bottled the same day, 500 ml.`,
    category: flavour,
    brand: brands[index % brands.length],
    price: 95_000,
    stock_quantity: 10,
    created_at: new Date(Date.UTC(2026, 0, 1) + index * 60_000).toISOString(),
  };
}

const searches: [what: string, given: Record<string, string>][] = [
  ['every drink', { search: 'juice' }],
  ['a flavour', { search: 'mango' }],
  ['two words', { search: 'ginger lemon' }],
  ['a synonym', { search: 'juice ya nanasi' }],
  ['a typing error', { search: 'pineaple' }],
  ['the beginning of a word', { search: 'pin' }],
  ['one product', { search: 'mango 4900' }],
  ['nothing', { search: 'whisky' }],
  [
    'ten misspelt words',
    { search: 'kamuriz torwengo shaliben dupayoka murtowe ngoshab libendu payokam ritowen gosh' },
  ],
  ['one word of 100 letters', { search: 'kamuritowengoshalibendupayo'.repeat(4).slice(0, 100) }],
  ['a flavour, for the shop page', { search: 'mango', page_size: '250', select: 'slug' }],
];

/**
 * @param sizes numbers of products, ascending
 * @param effort rounds, and seconds of each round
 */
export async function benchProductSearch(
  sizes: readonly number[],
  effort: { rounds: number; seconds: number },
): Promise<Row[]> {
  const cluster = await startThrowawayPostgresql({});
  try {
    return [
      ...(await benchOn('PGlite', {}, sizes, effort)),
      ...(await benchOn('PostgreSQL', { DATABASE_URL: cluster.url }, sizes, effort)),
    ];
  } finally {
    await cluster.stop();
  }
}

async function benchOn(
  database: string,
  environment: Record<string, string>,
  sizes: readonly number[],
  { rounds, seconds }: { rounds: number; seconds: number },
): Promise<Row[]> {
  const shop = await openShop(environment);
  try {
    const { publishable, secret } = await shop.keys();
    const rows: Row[] = [];
    let added = 0;
    for (const size of sizes) {
      for (; added < size; added += 500) {
        const products = Array.from({ length: Math.min(500, size - added) }, (_, index) =>
          productOf(added + index + 1),
        );
        const answer = await fetch(`${shop.url}/rest/v1/products`, {
          method: 'POST',
          headers: { 'content-type': 'application/json', apikey: secret },
          body: JSON.stringify(products),
        });
        if (!answer.ok) throw new Error(`the products were not added: ${await answer.text()}`);
      }
      const asVisitor = { apikey: publishable };
      const one = `${shop.url}/rest/v1/products?slug=eq.bench-7&select=${shown}`;
      for (const [what, given] of searches) {
        const search = `${shop.url}/rest/v1/rpc/search_products?${new URLSearchParams({ page_size: '5', select: shown, ...given })}`;
        const measured = await compare(
          // One connection, to measure the latency for one visitor.
          () => load(search, asVisitor, { seconds, connections: 1 }),
          () => load(one, asVisitor, { seconds, connections: 1 }),
          rounds,
        );
        rows.push({
          name: `product search, ${size.toLocaleString('en-KE')} products, ${what}: over one product by its slug (${database})`,
          ...measured,
        });
      }
    }
    return rows;
  } finally {
    await shop.close();
  }
}
