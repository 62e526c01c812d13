// One product: description, price, stock and the order button.

import { lazy, Suspense, useCallback, useEffect, useRef, useState } from 'react';
import { data, Link, useLocation } from 'react-router';
import { categoryProductsTag, productsTag, productTag } from '../../../domain/cache-tags.ts';
import type { DeliveryArea } from '../../../domain/deliveries/delivery-area.ts';
import { formatKsh } from '../../../domain/money.ts';
import { slugForQuery } from '../../../domain/products/catalogue.ts';
import { factColumns, factsOf, type ShownFact } from '../../../domain/products/product-facts.ts';
import { isAllowedImageUrl } from '../../../domain/products/product-image.ts';
import { shareImagePath, squareShareImagePath } from '../../../domain/products/share-image.ts';
import { readAreas } from '../../lib/delivery-areas.ts';
import { describeFee } from '../../lib/fee-words.ts';
import { areProducts, shownProducts } from '../../lib/listed-products.ts';
import type { RememberedOrder } from '../../lib/orders/remembered-orders.ts';
import { hasOrders } from '../../lib/orders/stored-orders.ts';
import { shopContext } from '../../lib/shop-context.ts';
import { defaultShopSettings, readPause, readShopSettings } from '../../lib/shop-settings.ts';
import { Badge } from '../../ui/badge.tsx';
import { Button, buttonStyle } from '../../ui/button.tsx';
import { FlavourDot, flavourSlug } from '../../ui/flavour.tsx';
import { Icon, type IconName } from '../../ui/icons.tsx';
import { Notice } from '../../ui/notice.tsx';
import { PreviousPrice, Price, TextWithAmounts } from '../../ui/price.tsx';
import { ProductImage } from '../../ui/product-image.tsx';
import { describeBreadcrumbs } from '../discovery/breadcrumbs.ts';
import { DataBlock } from '../discovery/data-block.tsx';
import { productDescription, productTitle } from '../discovery/product-texts.ts';
import { describeProduct } from '../discovery/structured-data.ts';
import { useChatLink } from '../layout/chat-link.ts';
import { describePage } from '../layout/page-meta.ts';
import { ShareButton } from '../layout/share-button.tsx';
import { useDialogCode } from '../layout/use-dialog-code.ts';
import { usePause } from '../layout/use-pause.ts';
import { useShop } from '../layout/use-shop.ts';
import { useOwnOrdersPart } from '../own-orders/use-own-orders-part.ts';
import type { Route } from './+types/product-page.ts';
import type { GalleryProps } from './gallery.tsx';
import { OrderBar } from './order-bar.tsx';
import { type CardProduct, cardColumns, ProductCard, ProductGrid } from './product-card.tsx';
import { QuantityStepper } from './quantity-stepper.tsx';

const relatedCount = 3;
/** If the product is missing, a few of these are shown, of different flavours. */
const newestCount = 12;

// Most visitors only look: the dialog's code is loaded when they approach the button.
const loadOrderDialog = async () => (await import('../order/load-order-dialog.ts')).loadOrderDialog();
const OrderDialog = lazy(loadOrderDialog);
const prepareOrderDialog = () => void loadOrderDialog().catch(() => {});
const MissingProduct = lazy(() =>
  import('./missing-product.tsx').catch(() => ({ default: MissingProductTitle })),
);
// Only for a drink that is sold out.
const StockAlertForm = lazy(() => import('./stock-alert-form.tsx').catch(() => ({ default: () => <></> })));
// Only for a drink with several images: without the code its first one stays.
const Gallery = lazy(() =>
  import('./gallery.tsx').catch(() => ({ default: ({ first }: GalleryProps) => first })),
);
// Without the code the order form still says so.
const LargeOrder = lazy(() => import('../order/large-order.tsx').catch(() => ({ default: () => <></> })));
const importOrderStates = () => import('../own-orders/order-states.ts');

export const meta: Route.MetaFunction = ({ matches, loaderData, params }) => {
  const product = loaderData?.product;
  if (!product) return [{ title: 'Product not found' }, { name: 'robots', content: 'noindex' }];
  return [
    ...describePage(matches, {
      title: productTitle(product),
      description: productDescription(product),
      path: `/shop/${params.slug}`,
      type: 'product',
      image: {
        path: (storeName) => shareImagePath(product, storeName),
        squarePath: (storeName) => squareShareImagePath(product, storeName),
        alt: `${product.name}, ${formatKsh(product.price)}`,
      },
    }),
    { property: 'product:price:amount', content: (product.price / 100).toFixed(2) },
    { property: 'product:price:currency', content: 'KES' },
  ];
};

/** Without description and facts, which are read for the page's own drink. */
const cardOf = (product: CardProduct): CardProduct => {
  const { slug, name, tagline, price, previous_price, image_url } = product;
  const { category, brand, serving, stock_quantity } = product;
  return { slug, name, tagline, price, previous_price, image_url, category, brand, serving, stock_quantity };
};

export async function loader({ context, params }: Route.LoaderArgs) {
  const shop = context.get(shopContext);
  const { store, addCacheTags, cacheUntil } = shop;
  const product_slug = slugForQuery(params.slug);
  const [{ data: found, error }, { data: settings }, areas] = await Promise.all([
    store.tables
      // Not in the query string: there a slug such as "eq.x" would be a filter.
      .rpc('product_and_related', { product_slug, related_limit: relatedCount })
      .select(`id, description, more_images, ${factColumns}, ${cardColumns}, categories(slug), brands(slug)`)
      // With embedded rows, the order of the procedure is not kept.
      .order('created_at', { ascending: false })
      .order('id'),
    readShopSettings(store),
    readAreas(shop),
  ]);
  if (error || !areProducts(found)) throw data(null, { status: 503 });
  const products = shownProducts(found, shop);
  const product = products.find(({ slug }) => slug === product_slug);
  if (!product) {
    addCacheTags(productsTag);
    const newest = await store.tables
      .from('products')
      .select(cardColumns)
      .eq('is_active', true)
      .gt('units_for_sale', 0)
      .order('created_at', { ascending: false })
      .limit(newestCount);
    return data(
      {
        product: null,
        related: areProducts(newest.data) ? shownProducts(newest.data ?? [], shop) : [],
        areas,
        fees: [],
        facts: [],
      },
      { status: 404 },
    );
  }
  addCacheTags(...found.map(({ slug }) => productTag(slug)));
  if (product.category) addCacheTags(categoryProductsTag(product.category));
  const related = products.filter((other) => other !== product).map(cardOf);
  const fee = describeFee(areas, (settings ?? defaultShopSettings).delivery_fee);
  return {
    product,
    related,
    areas,
    fees: [fee.short, fee.sentence],
    // Their labels are not in the scripts.
    facts: factsOf(product),
    pause: settings && readPause(settings, cacheUntil),
  };
}

export default function ProductPage({
  loaderData: { product, related, areas, fees, facts },
}: Route.ComponentProps) {
  if (!product)
    return (
      <Suspense fallback={<MissingProductTitle />}>
        <MissingProduct others={related} />
      </Suspense>
    );
  return (
    <>
      <Detail key={product.id} product={product} related={related} areas={areas} fees={fees} facts={facts} />
      {related.length > 0 ? <Related products={related} /> : null}
      <GroupLinks product={product} />
    </>
  );
}

/** Until the code of `MissingProduct` has loaded, and offline. */
function MissingProductTitle() {
  return <h1 className="py-10 text-center text-4xl md:py-14">Product not found</h1>;
}

type Product = NonNullable<Route.ComponentProps['loaderData']['product']>;

interface DetailProps {
  product: Product;
  related: CardProduct[];
  areas: readonly DeliveryArea[];
  /** The delivery fee in words: short, and as a sentence. */
  fees: readonly string[];
  facts: readonly ShownFact[];
}

function Detail({ product, related, areas, fees, facts }: DetailProps) {
  const { settings, config } = useShop();
  const chat = useChatLink();
  const again = useOrderAgain();
  const [quantity, setQuantity] = useState(1);
  const UnpaidOrder = useOwnOrdersPart('UnpaidOrder');
  const pause = usePause();
  const [interrupted, setInterrupted] = useState<RememberedOrder | null>(null);
  const [isOpen, setIsOpen] = useState(false);
  // Once loaded, the dialog stays mounted, so that its closing animation shows.
  const [isDialogMounted, setDialogMounted] = useState(false);
  const isOutOfStock = product.stock_quantity === 0;
  const isAboveLimit = product.price * quantity + settings.delivery_fee > settings.payment_limit;

  const { form, isLoadingCode, isConnectionLost, fetchCode } = useDialogCode(loadOrderDialog);

  const open = useCallback(
    async (isAsked = true, toPay: RememberedOrder | null = null) => {
      if (!(await fetchCode(isAsked))) return;
      setInterrupted(toPay);
      setDialogMounted(true);
      setIsOpen(true);
    },
    [fetchCode],
  );

  useEffect(() => {
    if (again === null || isOutOfStock) return;
    setQuantity(again.quantity);
    void open();
  }, [again, isOutOfStock, open]);

  // After a reload during a payment the payment continues, unless the order has ended.
  useEffect(() => {
    if (again !== null || !hasOrders()) return;
    let isGone = false;
    importOrderStates()
      .then(({ findInterruptedOrder }) => findInterruptedOrder(config, product.id))
      .then(
        (order) => {
          if (!isGone && order) void open(false, order);
        },
        () => {},
      );
    return () => {
      isGone = true;
    };
  }, [product.id, again, config, open]);

  const image = (
    <ProductImage
      src={product.image_url}
      alt={product.name}
      sizes="(min-width: 1280px) 565px, (min-width: 768px) 44.6vw, 92vw"
      isFirst
      className="absolute inset-0 size-full"
    />
  );
  return (
    <article
      data-flavour={flavourSlug(product.category)}
      className="bg-[linear-gradient(180deg,color-mix(in_oklab,var(--flavour)_16%,var(--color-paper)),var(--color-paper)_38rem)]"
    >
      <div className="page relative pt-2 pb-4 md:pt-6">
        <nav aria-label="Breadcrumb">
          <Link
            to="/shop"
            prefetch="intent"
            className="-ml-2 inline-flex min-h-11 items-center gap-2 rounded-md px-2 text-sm font-semibold text-ink-soft hover:text-ink hover:underline"
          >
            <Icon name="arrow" className="size-4 rotate-180" />
            All drinks
          </Link>
        </nav>
        {UnpaidOrder ? <UnpaidOrder product={product} /> : null}
        <div className="mt-2 grid grid-cols-1 gap-3 sm:grid-cols-2 sm:gap-4 md:grid-cols-[1.08fr_1fr] md:gap-12 lg:gap-20">
          {/* Low on phones, but with the whole vessel: the name and the price fit below it, above the order row. */}
          <div className="@container relative aspect-5/4 self-start overflow-hidden rounded-2xl bg-[color-mix(in_oklab,var(--flavour)_30%,var(--color-paper-deep))] shadow-xl md:aspect-square md:sticky md:top-8 xl:top-36">
            {product.more_images.length > 0 ? (
              <Suspense fallback={image}>
                <Gallery first={image} more={product.more_images} />
              </Suspense>
            ) : (
              image
            )}
          </div>

          <div className="flex flex-col gap-4 md:gap-5 md:py-6">
            {product.category ? (
              <p className="min-[20rem]:max-md:absolute min-[20rem]:max-md:top-2 min-[20rem]:max-md:right-[clamp(1rem,4vw,2.5rem)]">
                <Link
                  to={product.categories ? `/flavors/${product.categories.slug}` : '/shop'}
                  prefetch="intent"
                  className="inline-flex min-h-11 items-center gap-2.5 rounded-pill border border-line-strong bg-card px-4 text-sm font-bold hover:border-dusk-700"
                >
                  <FlavourDot category={product.category} className="size-4" />
                  {product.category}
                </Link>
              </p>
            ) : null}
            <div className="flex flex-col gap-3">
              {/* On very low screens only one line fits above the order row. */}
              <h1 className="text-4xl font-extrabold tracking-tight md:text-name max-md:[@media(max-height:30rem)]:text-2xl">
                {product.name}
              </h1>
              {product.tagline ? (
                // On phones the price comes first: a long name leaves no space for both on the first screen.
                <p className="text-lg text-ink-soft max-md:order-1 md:text-xl">{product.tagline}</p>
              ) : null}
              <div className="flex flex-wrap items-center gap-x-5 gap-y-2 md:mt-2">
                <p className="flex flex-wrap items-baseline gap-x-3">
                  <Price cents={product.price} className="text-4xl" />
                  {product.previous_price ? (
                    <PreviousPrice cents={product.previous_price} className="text-lg text-ink-soft" />
                  ) : null}
                </p>
                <Badge tone={isOutOfStock ? 'red' : 'green'}>
                  <Icon name={isOutOfStock ? 'close' : 'check'} className="size-4" />
                  {isOutOfStock ? 'Out of Stock' : 'In Stock'}
                </Badge>
              </div>
            </div>
            <form
              ref={form}
              // URL without JavaScript.
              action={`/shop/${product.slug}/order`}
              onSubmit={(event) => {
                event.preventDefault();
                void open();
              }}
              // Fixed at the bottom only where it can be pressed: it covers the name and "Out of Stock" on a low phone.
              className={`${isOutOfStock ? '' : 'order-row sticky bottom-0 z-10 bg-paper '}flex flex-wrap items-end gap-x-3 gap-y-2 border-t border-line py-3 md:static md:mt-2 md:gap-5 md:bg-transparent md:pt-6 md:pb-0`}
            >
              {/* In the row, which covers what is below it on a phone. */}
              <p role="status" className="basis-full text-sm empty:hidden">
                {pause ? <strong>{pause.sentence} </strong> : null}
                {quantity > product.stock_quantity && !isOutOfStock ? (
                  <strong>Only {product.stock_quantity} left. </strong>
                ) : null}
                {isAboveLimit ? (
                  <Suspense fallback={null}>
                    <LargeOrder drinks={`${quantity} × ${product.name}`} />
                  </Suspense>
                ) : null}
              </p>
              {isOutOfStock ? null : (
                <>
                  {/* The price of one is above, on a low screen out of sight. */}
                  <p className="flex min-h-7 basis-full flex-wrap items-baseline justify-between gap-x-3 md:hidden">
                    <Price
                      cents={product.price * quantity}
                      className={`text-xl ${quantity > 1 ? '' : '[@media(min-height:40rem)]:hidden'}`}
                    />
                    <span className="text-sm text-ink-soft">{fees[0]}</span>
                  </p>
                  <QuantityStepper value={quantity} onChange={setQuantity} />
                </>
              )}
              <Button
                type="submit"
                data-waits
                data-tapped={isLoadingCode || undefined}
                size="large"
                disabled={isOutOfStock}
                onPointerEnter={prepareOrderDialog}
                onFocus={prepareOrderDialog}
                aria-haspopup="dialog"
                className="min-w-[min(7.5rem,100%)] flex-1 px-3! md:min-w-36 md:max-w-72"
              >
                Order Now
              </Button>
            </form>
            {isOutOfStock && settings.offers_stock_alerts ? (
              <Suspense fallback={null}>
                <StockAlertForm key={product.id} product={product} />
              </Suspense>
            ) : null}
            <Facts facts={facts} />
            <p className="text-sm text-ink-soft" role="status">
              <TextWithAmounts>
                {`${
                  quantity > 1
                    ? `${quantity} × ${formatKsh(product.price)} = ${formatKsh(product.price * quantity)}. `
                    : ''
                }${fees[1]} Pay by M-PESA, no account needed.`}
              </TextWithAmounts>
            </p>
            {product.description ? (
              <p className="max-w-text leading-relaxed whitespace-pre-line text-ink-soft">
                {product.description}
              </p>
            ) : null}

            {isConnectionLost ? (
              <Notice tone="info" title="You cannot order right now">
                You are offline. Come back to this button when your phone has a network again.
              </Notice>
            ) : null}
            <div className="flex flex-wrap items-center gap-x-3 gap-y-2">
              <a href={chat} target="_blank" rel="noreferrer" className={buttonStyle('quiet')}>
                <Icon name="chat" className="size-4.5" />
                Ask on WhatsApp
              </a>
              <ShareButton url={`${config.publicUrl}/shop/${product.slug}`} title={product.name} />
            </div>
            <ul className="grid gap-3 rounded-xl bg-card p-5 text-sm shadow-sm sm:grid-cols-3 sm:gap-4">
              <Fact icon="clock" title="15-60 minutes" text="within Nairobi" />
              <Fact icon="snow" title="Ice-cold" text="from fridge to door" />
              <Fact icon="leaf" title="100% natural" text="from Meru & Embu" />
            </ul>
          </div>
        </div>
      </div>
      <DataBlock data={import.meta.env.SSR ? describe(product, settings, config.publicUrl, areas) : null} />
      {isOutOfStock ? null : (
        <OrderBar
          after={form}
          name={quantity > 1 ? `${quantity} × ${product.name}` : product.name}
          cents={product.price * quantity}
          isWaiting={isLoadingCode}
          onOrder={() => void open()}
          onPrepare={prepareOrderDialog}
        />
      )}
      {isDialogMounted ? (
        <Suspense fallback={null}>
          <OrderDialog
            product={product}
            areas={areas}
            interrupted={interrupted}
            like={again?.like}
            quantity={quantity}
            onQuantityChange={setQuantity}
            similar={related}
            open={isOpen}
            onClose={() => setIsOpen(false)}
          />
        </Suspense>
      ) : null}
    </article>
  );
}

function describe(
  product: Product,
  settings: ReturnType<typeof useShop>['settings'],
  origin: string,
  areas: readonly DeliveryArea[],
) {
  const images = [
    product.image_url,
    ...product.more_images,
    shareImagePath(product, settings.store_name),
  ].flatMap((address) =>
    address && isAllowedImageUrl(address) ? [address.startsWith('/') ? `${origin}${address}` : address] : [],
  );
  const trail = [
    { name: 'Shop all drinks', path: '/shop' },
    ...(product.category && product.categories
      ? [{ name: product.category, path: `/flavors/${product.categories.slug}` }]
      : []),
    { name: product.name, path: `/shop/${product.slug}` },
  ];
  return [
    describeProduct({ origin, settings }, { ...product, images }, areas),
    describeBreadcrumbs(origin, trail),
  ];
}

/** A request to order a quantity again, from the link that led here. Once per link: a reload does not repeat it. */
function useOrderAgain(): { quantity: number; like: string } | null {
  const { state, key } = useLocation();
  const [again, setAgain] = useState<ReturnType<typeof useOrderAgain>>(null);
  const handled = useRef<string | null>(null);
  useEffect(() => {
    if (handled.current === key) return;
    handled.current = key;
    const { orderAgain, like } = (state ?? {}) as { orderAgain?: unknown; like?: unknown };
    const quantity = Number(orderAgain);
    if (!Number.isInteger(quantity) || quantity < 1) return;
    setAgain({ quantity, like: String(like ?? '') });
    window.history.replaceState({ ...window.history.state, usr: null }, '');
  }, [state, key]);
  return again;
}

function Facts({ facts }: { facts: readonly ShownFact[] }) {
  if (facts.length === 0) return null;
  return (
    <dl className="grid grid-cols-2 gap-x-5 gap-y-3 border-y border-line py-4 text-sm sm:max-lg:grid-cols-1 lg:grid-cols-3">
      {facts.map(({ label, text }) => (
        <div key={label} className={text.length > 40 ? 'col-span-full' : ''}>
          <dt className="text-ink-soft">{label}</dt>
          <dd className="font-semibold wrap-anywhere">{text}</dd>
        </div>
      ))}
    </dl>
  );
}

function Fact({ icon, title, text }: { icon: IconName; title: string; text: string }) {
  return (
    <li className="flex items-center gap-3 sm:flex-col sm:items-start sm:gap-1.5">
      <Icon name={icon} className="size-6 text-leaf-600" />
      <span>
        <strong className="block">{title}</strong>
        <span className="text-ink-soft">{text}</span>
      </span>
    </li>
  );
}

// Widths of the pictures of three cards in a row, and of rows on a phone.
const relatedSizes = '(min-width: 1248px) 371px, (min-width: 768px) 29vw, (min-width: 640px) 44vw, 96px';

function Related({ products }: { products: CardProduct[] }) {
  return (
    <section aria-labelledby="related" className="page pt-20 md:pt-28">
      <h2 id="related" className="mb-8 text-4xl font-extrabold">
        You Might Also Like
      </h2>
      <ProductGrid>
        {products.map((product) => (
          <li key={product.slug}>
            <ProductCard product={product} sizes={relatedSizes} />
          </li>
        ))}
        {products.length < relatedCount ? (
          <li className={products.length === 2 ? 'max-md:col-span-full' : ''}>
            <EverythingElse />
          </li>
        ) : null}
      </ProductGrid>
    </section>
  );
}

/** Links to the pages of its flavor and brand. */
function GroupLinks({ product: { category, brand, categories, brands } }: { product: Product }) {
  const links = [
    ...(categories ? [{ path: `/flavors/${categories.slug}`, text: `All ${category} drinks` }] : []),
    ...(brands ? [{ path: `/brands/${brands.slug}`, text: `All ${brand} drinks` }] : []),
  ];
  if (links.length === 0) return null;
  return (
    <nav aria-label="More drinks like this" className="page flex flex-wrap gap-3 pt-10">
      {links.map(({ path, text }) => (
        <Link key={path} to={path} prefetch="intent" className={buttonStyle('outline')}>
          {text}
        </Link>
      ))}
    </nav>
  );
}

/** Fills the row if a flavour has few products. */
function EverythingElse() {
  return (
    <Link
      to="/shop"
      prefetch="intent"
      className="group @container relative grid aspect-6/5 min-h-fit content-between overflow-hidden rounded-lg bg-[linear-gradient(180deg,var(--color-dusk-950),var(--color-dusk-700)_60%,var(--color-afterglow))] text-white shadow-md max-md:aspect-auto max-md:gap-2 hover:shadow-xl"
    >
      <span
        aria-hidden="true"
        className="absolute right-[-12cqw] bottom-[-16cqw] size-[46cqw] rounded-full bg-linear-to-b from-sun-high to-sun-low transition-[translate] duration-(--duration-slow) group-hover:-translate-y-3"
      />
      <span className="relative px-[8cqw] pt-[8cqw] font-display text-tile font-extrabold max-md:pt-5 max-md:pr-[40cqw] max-md:text-2xl">
        Or something else entirely?
      </span>
      <span className="relative inline-flex items-center gap-2 px-[8cqw] pb-[8cqw] font-bold max-md:pb-5">
        All drinks
        <Icon name="arrow" />
      </span>
    </Link>
  );
}
