// The home page: hero, top picks, offers, and the newest of the collection.
import { data, Link } from 'react-router';
import { categoriesTag, homeProductsTag, productTag, quotesTag } from '../../../domain/cache-tags.ts';
import type { Opening } from '../../../domain/orders/opening-hours.ts';
import type { Database } from '../../../supabase/types.ts';
import { areProducts, shownProducts } from '../../lib/listed-products.ts';
import { shopContext } from '../../lib/shop-context.ts';
import { readOpening, readShopSettings } from '../../lib/shop-settings.ts';
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

type Quote = Database['public']['CompositeTypes']['customer_quote'];

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
  const [products, quotes, settings] = await Promise.all([
    store.tables
      .rpc('home_products', { newest: collectionSize }, { get: true })
      .select(`${cardColumns}, home_section, home_position, categories(name)`)
      .order('created_at', { ascending: false }),
    store.tables.rpc('customer_quotes', {}, { get: true }),
    readShopSettings(store),
  ]);
  // A page without the quotes would be cached.
  if (quotes.error || products.error || !areProducts(products.data)) return data(null, { status: 503 });
  const cards = shownProducts(products.data, shop).map(({ categories, ...card }) => card);
  const section = (name: string) =>
    cards.filter(({ home_section }) => home_section === name).sort(byHomePosition);
  const [topPicks, onOffer] = [section('top_picks'), section('drinks_on_offer')];
  const collection = cards.slice(0, collectionSize);
  const flavours = new Set(products.data.flatMap(({ categories }) => categories?.name ?? []));
  addCacheTags(
    homeProductsTag,
    categoriesTag,
    quotesTag,
    ...[...topPicks, ...onOffer, ...collection].map(({ slug }) => productTag(slug)),
  );
  const opening = readOpening(settings.data, shop.cacheUntil);
  return {
    topPicks,
    onOffer,
    collection,
    flavours: [...flavours].sort(),
    quotes: quotes.data,
    opening,
    street: settings.data?.seller_address ?? '',
    highlights: highlightsOf(opening),
  };
}

export default function HomePage({ loaderData }: Route.ComponentProps) {
  const { settings, config } = useShop();
  const shop = { origin: config.publicUrl, settings };
  return (
    <>
      <DataBlock
        data={
          import.meta.env.SSR
            ? [describeSite(shop), describeStore(shop, loaderData?.opening ?? null, loaderData?.street ?? '')]
            : null
        }
      />
      <HeroCarousel />
      {loaderData ? (
        <>
          <LastOrderSlot className="page not-empty:mt-6 in-data-[orders]:mt-6" />
          <TopPicks products={loaderData.topPicks} />
          <Flavours names={loaderData.flavours} />
          <DrinksOnOffer products={loaderData.onOffer} />
          <Promises highlights={loaderData.highlights} />
          <Quotes quotes={loaderData.quotes} />
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
    <nav aria-label="Flavors" className="mt-10 md:mt-16">
      <ul className="page flex scroll-px-4 gap-x-2 overflow-x-auto py-1 [scrollbar-width:none] lg:justify-between">
        {names.map((name) => (
          <li key={name} className="shrink-0">
            <Link
              to={`/shop?category=${encodeURIComponent(name)}`}
              prefetch="intent"
              // Scrolls a focused link fully into view, which browsers do not do when an edge is visible.
              onFocus={({ currentTarget }) =>
                currentTarget.scrollIntoView({ block: 'nearest', inline: 'nearest' })
              }
              className="inline-flex min-h-11 items-center gap-2 rounded-pill bg-paper-deep px-3 text-sm font-semibold whitespace-nowrap text-ink-soft hover:bg-line hover:text-ink"
            >
              <FlavourDot category={name} className="size-3.5" />
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
    <section aria-labelledby="top-picks" className="page pt-5 md:pt-14">
      {/* Low on phones: prices of drinks are on the first screen. */}
      <header className="mb-3 flex flex-wrap items-baseline gap-x-5 gap-y-1 md:mb-8">
        <h2 id="top-picks" className="text-3xl font-extrabold md:text-4xl">
          Top Picks
        </h2>
        <p className="text-lg text-ink-soft max-md:sr-only">The six that Nairobi keeps coming back for.</p>
      </header>
      <ProductGrid isPaired className="md:gap-x-7 md:gap-y-10">
        {products.map((product) => (
          <li key={product.slug}>
            <ProductCard product={product} kind="feature" />
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
      className="far-below on-dusk mt-6 [--room:35rem] md:[--room:34rem] overflow-hidden bg-dusk-900 py-11 text-white md:mt-10 md:py-16"
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
        className="bleed grid snap-x auto-cols-[93%] -outline-offset-4 grid-flow-col grid-rows-2 gap-3 overflow-x-auto overscroll-x-contain pt-1 pb-5 [scrollbar-color:var(--color-dusk-500)_transparent] [scrollbar-width:thin] sm:auto-cols-[44%] md:gap-4 lg:auto-cols-[30%] xl:auto-cols-[23.2rem]"
      >
        {products.map((product) => (
          <li key={product.slug} className="snap-start">
            <ProductCard product={product} kind="offer" />
          </li>
        ))}
      </ul>
    </section>
  );
}

interface Highlight {
  figure: string;
  unit: string;
  text: string;
}

const highlightsOf = (opening: Opening | null): Highlight[] => [
  {
    figure: '15-60',
    unit: 'minutes',
    text: `from order to doorbell within Nairobi${opening ? '' : ', every day of the week'}`,
  },
  {
    figure: '100%',
    unit: 'natural',
    text: 'fruit from Embu and khat leaf from Meru, nothing from a powder',
  },
  {
    ...(opening ? { figure: 'Open', unit: opening.hours.join(', ') } : { figure: '24/7', unit: 'support' }),
    text: 'by phone and chat: a person, not a menu of numbers',
  },
];

function Promises({ highlights }: { highlights: Highlight[] }) {
  return (
    <section
      aria-label="Our promise"
      className="far-below page [--room:24rem] md:[--room:18rem] pt-12 md:pt-20"
    >
      <ul className="grid grid-cols-1 gap-px overflow-hidden rounded-2xl bg-line md:grid-cols-3">
        {highlights.map(({ figure, unit, text }) => (
          <li
            key={unit}
            className="grid grid-cols-[repeat(auto-fit,minmax(min(7.5rem,100%),1fr))] items-center gap-x-4 gap-y-2 bg-paper-deep px-5 py-4 md:grid-cols-1 md:content-start md:p-8"
          >
            <p className="font-display leading-none font-extrabold text-dusk-800">
              <span className="text-4xl leading-none tracking-tight md:text-figure">{figure}</span>{' '}
              <span className="block text-sm text-ember-700 md:ml-1 md:inline md:text-xl">{unit}</span>
            </p>
            <p className="text-sm text-ink-soft md:text-base">{text}</p>
          </li>
        ))}
      </ul>
    </section>
  );
}

/** What customers wrote, with their consent. */
function Quotes({ quotes }: { quotes: Quote[] }) {
  if (quotes.length === 0) return null;
  return (
    <section aria-labelledby="quotes" className="page pt-12 md:pt-20">
      <h2 id="quotes" className="mb-5 text-3xl font-extrabold md:mb-8 md:text-4xl">
        What customers say
      </h2>
      <ul className="grid gap-x-10 gap-y-8 md:grid-cols-2 lg:grid-cols-3">
        {quotes.map(({ words, first_name, area }) => (
          <li key={`${first_name} ${words}`}>
            <figure className="border-l-4 border-ember-500 pl-4">
              <blockquote className="text-lg whitespace-pre-line wrap-anywhere">“{words}”</blockquote>
              <figcaption className="mt-2 text-sm text-ink-soft">
                {first_name}, {area}
              </figcaption>
            </figure>
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
      className="far-below page [--room:60rem] md:[--room:64rem] lg:[--room:72rem] pt-14 md:pt-24"
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
    <header className="mb-5 grid gap-1 md:mb-8">
      <h2 id={id} className="text-3xl font-extrabold md:text-4xl">
        {title}
      </h2>
      <p className={`max-w-text md:text-lg ${isOnDusk ? 'text-dusk-200' : 'text-ink-soft'}`}>{text}</p>
    </header>
  );
}
