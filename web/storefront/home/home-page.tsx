// The home page: hero, top picks, offers, and the newest of the collection.
import { data, Link } from 'react-router';
import { categoriesTag, homeProductsTag, productTag } from '../../../domain/cache-tags.ts';
import { areProducts, shownProducts } from '../../lib/listed-products.ts';
import { shopContext } from '../../lib/shop-context.ts';
import { buttonStyle } from '../../ui/button.tsx';
import { FlavourDot } from '../../ui/flavour.tsx';
import { Icon } from '../../ui/icons.tsx';
import { DataBlock } from '../discovery/data-block.tsx';
import { describeSite, describeStore } from '../discovery/structured-data.ts';
import { LastOrderSlot } from '../last-order/last-order-slot.tsx';
import { describePage } from '../layout/page-meta.ts';
import { useShop } from '../layout/use-shop.ts';
import { type CardProduct, cardColumns, ProductCard, ProductGrid } from '../product/product-card.tsx';
import type { Route } from './+types/home-page.ts';
import { HeroCarousel } from './hero-carousel.tsx';

const collectionSize = 6;

// Widths of the columns of the scrolling row.
const rowSizes = '(min-width: 1280px) 280px, (min-width: 768px) 27vw, (min-width: 640px) 35vw, 57vw';

// Products without a position are last, as in the database.
const byHomePosition = (a: { home_position: number | null }, b: { home_position: number | null }) =>
  (a.home_position ?? Number.MAX_SAFE_INTEGER) - (b.home_position ?? Number.MAX_SAFE_INTEGER);

export const meta: Route.MetaFunction = ({ matches }) =>
  describePage(matches, {
    title: null,
    description:
      'Khat-based juice and energy drinks, pressed from Meru leaf and Embu fruit and delivered ice-cold in Nairobi in 15-60 minutes. Order without an account, pay by M-PESA.',
    path: '/',
  });

export async function loader({ context }: Route.LoaderArgs) {
  const shop = context.get(shopContext);
  const { store, addCacheTags } = shop;
  // Read concurrently, so that the page shows a consistent state. Inactive categories are hidden here.
  const products = await store.tables
    .rpc('home_products', { newest: collectionSize }, { get: true })
    .select(`${cardColumns}, home_section, home_position, categories(name)`)
    .order('created_at', { ascending: false });
  if (products.error || !areProducts(products.data)) return data(null, { status: 503 });
  const cards = shownProducts(products.data, shop).map(({ categories, ...card }) => card);
  const section = (name: string) =>
    cards.filter(({ home_section }) => home_section === name).sort(byHomePosition);
  const [topPicks, onOffer] = [section('top_picks'), section('drinks_on_offer')];
  const collection = cards.slice(0, collectionSize);
  const flavours = new Set(products.data.flatMap(({ categories }) => categories?.name ?? []));
  addCacheTags(
    homeProductsTag,
    categoriesTag,
    ...[...topPicks, ...onOffer, ...collection].map(({ slug }) => productTag(slug)),
  );
  return { topPicks, onOffer, collection, flavours: [...flavours].sort() };
}

export default function HomePage({ loaderData }: Route.ComponentProps) {
  const { settings, config } = useShop();
  const shop = { origin: config.publicUrl, settings };
  return (
    <>
      <DataBlock data={import.meta.env.SSR ? [describeSite(shop), describeStore(shop)] : null} />
      <HeroCarousel />
      {loaderData ? (
        <>
          <Flavours names={loaderData.flavours} />
          <LastOrderSlot className="page mt-6" />
          <TopPicks products={loaderData.topPicks} />
          <DrinksOnOffer products={loaderData.onOffer} />
          <Promises />
          <Collection products={loaderData.collection} flavourCount={loaderData.flavours.length} />
        </>
      ) : (
        <section className="page grid justify-items-center gap-2 py-24 text-center" role="alert">
          <h2 className="text-3xl">Error Loading Products</h2>
          <p className="text-ink-soft">Please try again later.</p>
          <a href="/" className={`${buttonStyle('outline')} mt-3`}>
            Try again
          </a>
        </section>
      )}
    </>
  );
}

function Flavours({ names }: { names: string[] }) {
  if (names.length === 0) return null;
  return (
    <nav aria-label="Flavors" className="border-b border-line bg-card">
      <ul className="page flex scroll-px-4 gap-x-1 overflow-x-auto py-2 [scrollbar-width:none] lg:justify-between">
        {names.map((name) => (
          <li key={name} className="shrink-0">
            <Link
              to={`/shop?category=${encodeURIComponent(name)}`}
              prefetch="intent"
              // Scrolls a focused link fully into view, which browsers do not do when an edge is visible.
              onFocus={({ currentTarget }) =>
                currentTarget.scrollIntoView({ block: 'nearest', inline: 'nearest' })
              }
              className="inline-flex min-h-11 items-center gap-2.5 rounded-pill px-3 text-sm font-semibold text-ink-soft hover:bg-paper-deep hover:text-ink"
            >
              <FlavourDot category={name} className="size-4" />
              {name}
            </Link>
          </li>
        ))}
      </ul>
    </nav>
  );
}

function TopPicks({ products }: { products: CardProduct[] }) {
  if (products.length === 0) return null;
  return (
    <section aria-labelledby="top-picks" className="page pt-16 md:pt-24">
      <SectionTitle id="top-picks" title="Top Picks" text="The six that Nairobi keeps coming back for." />
      <ProductGrid>
        {products.map((product) => (
          <li key={product.slug}>
            <ProductCard product={product} />
          </li>
        ))}
      </ProductGrid>
    </section>
  );
}

function DrinksOnOffer({ products }: { products: CardProduct[] }) {
  if (products.length === 0) return null;
  return (
    <section
      aria-labelledby="drinks-on-offer"
      className="far-below on-dusk mt-20 [--room:40rem] md:[--room:47rem] overflow-hidden bg-dusk-900 py-16 text-white md:mt-28 md:py-24"
    >
      <div className="page">
        <SectionTitle
          id="drinks-on-offer"
          title="Drinks on Offer"
          text="Good things at a gentler price, while the crates last."
          isOnDusk
        />
      </div>
      <ul
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrolling row must be reachable by keyboard
        tabIndex={0}
        aria-label="Drinks on Offer"
        className="bleed grid snap-x auto-cols-[max(62%,min(100%,9rem))] -outline-offset-4 grid-flow-col gap-4 overflow-x-auto overscroll-x-contain pt-1 pb-5 [scrollbar-color:var(--color-dusk-500)_transparent] [scrollbar-width:thin] sm:auto-cols-[38%] md:auto-cols-[29%] md:gap-6 xl:auto-cols-[17.5rem]"
      >
        {products.map((product) => (
          <li key={product.slug} className="snap-start">
            <ProductCard product={product} isOnDusk sizes={rowSizes} />
          </li>
        ))}
      </ul>
    </section>
  );
}

const highlights = [
  { figure: '15-60', unit: 'minutes', text: 'from order to doorbell within Nairobi, every day of the week' },
  { figure: '100%', unit: 'natural', text: 'fruit from Embu and khat leaf from Meru, nothing from a powder' },
  { figure: '24/7', unit: 'support', text: 'by phone and chat: a person, not a menu of numbers' },
];

function Promises() {
  return (
    <section
      aria-label="Our promise"
      className="far-below page [--room:36rem] md:[--room:22rem] pt-20 md:pt-28"
    >
      <ul className="grid grid-cols-1 gap-px overflow-hidden rounded-2xl bg-line md:grid-cols-3">
        {highlights.map(({ figure, unit, text }) => (
          <li key={unit} className="grid content-start gap-2 bg-paper-deep p-7 md:p-9">
            <p className="font-display leading-none font-extrabold text-dusk-800">
              <span className="text-figure leading-none tracking-tight">{figure}</span>{' '}
              <span className="ml-1 text-xl text-ember-600">{unit}</span>
            </p>
            <p className="text-ink-soft">{text}</p>
          </li>
        ))}
      </ul>
    </section>
  );
}

function Collection({ products, flavourCount }: { products: CardProduct[]; flavourCount: number }) {
  if (products.length === 0) return null;
  return (
    <section
      aria-labelledby="collection"
      className="far-below page [--room:79rem] md:[--room:74rem] lg:[--room:87rem] pt-20 md:pt-28"
    >
      <SectionTitle
        id="collection"
        title="Premium Flavors Collection"
        text="The newest off the press, in bottle, can and flask."
      />
      <ProductGrid>
        {products.map((product) => (
          <li key={product.slug}>
            <ProductCard product={product} />
          </li>
        ))}
      </ProductGrid>
      <p className="mt-12 text-center">
        <Link to="/shop" prefetch="intent" className={buttonStyle('outline', 'large')}>
          View All {flavourCount} Flavors
          <Icon name="arrow" />
        </Link>
      </p>
    </section>
  );
}

function SectionTitle({
  id,
  title,
  text,
  isOnDusk = false,
}: {
  id: string;
  title: string;
  text: string;
  isOnDusk?: boolean;
}) {
  return (
    <header className="mb-8 grid gap-2 md:mb-11">
      <h2 id={id} className="text-4xl font-extrabold">
        {title}
      </h2>
      <p className={`max-w-prose text-lg ${isOnDusk ? 'text-dusk-200' : 'text-ink-soft'}`}>{text}</p>
    </header>
  );
}
