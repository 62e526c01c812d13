// The order form as a page: without JavaScript, or if the dialog's code does not load.

import { data, Form, Link, redirect, useNavigation } from 'react-router';
import { slugForQuery } from '../../../domain/catalogue.ts';
import { chargeCents, formatKsh, orderTotal } from '../../../domain/money.ts';
import { orderLink } from '../../../domain/order-link.ts';
import { formatPhone } from '../../../domain/phone.ts';
import { withTimeout } from '../../../domain/timeout.ts';
import type { Store } from '../../../supabase/store.ts';
import { shopContext } from '../../lib/shop-context.ts';
import { readPause, readShopSettings } from '../../lib/shop-settings.ts';
import { Button, buttonStyle } from '../../ui/button.tsx';
import { Icon } from '../../ui/icons.tsx';
import { useShop } from '../layout/use-shop.ts';
import type { Route } from './+types/order-page.ts';
import { OrderFields } from './form/order-fields.tsx';
import { checkOrderForm, type OrderForm } from './form/order-form.ts';
import { emptyForm } from './form/order-memory.ts';
import LargeOrder from './large-order.tsx';
import { nextSteps } from './next-steps.ts';
import { Callout, FailureCallout } from './order-callouts.tsx';
import { Amounts, OrderedLine } from './order-summary.tsx';
import { type OrderFailure, otherFailure, pausedBy, placeOrder, problemsOf } from './place/place-order.ts';
import { againField, placedOrderCookie, readSameOrder } from './place/same-order.ts';
import { fillField, type SimilarDrink, SimilarDrinks } from './similar-drinks.tsx';
import { TermsLine, termsField } from './terms-line.tsx';

export const meta: Route.MetaFunction = ({ loaderData }) => [
  { title: loaderData?.product ? `Order ${loaderData.product.name}` : 'Product not found' },
  { name: 'robots', content: 'noindex' },
];

export function headers() {
  return { 'Cache-Control': 'private, no-store', 'Referrer-Policy': 'same-origin' };
}

/** Maximum quantity whose price is still exact in cents. */
const maxDigits = 9;

const quantityIn = (url: URL): number => {
  const requested = url.searchParams.get('quantity') ?? '';
  return new RegExp(`^\\d{1,${maxDigits}}$`).test(requested) ? Math.max(1, Number(requested)) : 1;
};

export async function loader({ context, params, url }: Route.LoaderArgs) {
  const { store, cacheUntil } = context.get(shopContext);
  const [{ data: found, error }, { data: settings }] = await Promise.all([
    store.tables
      .from('products')
      .select('id, slug, name, price, image_url, stock_quantity:units_for_sale, category')
      .eq('slug', slugForQuery(params.slug))
      .eq('is_active', true)
      .maybeSingle(),
    readShopSettings(store),
  ]);
  if (error) throw data(error.message, { status: 503 });
  const similar = found?.stock_quantity ? [] : await readSimilar(store, found);
  const pause = settings && readPause(settings, cacheUntil);
  const answer = { product: found, similar, quantity: quantityIn(url), key: crypto.randomUUID(), pause };
  // After a failed submission the action's data has the typed values.
  return found ? answer : data(answer, { status: 404 });
}

/** A few drinks that can be ordered, of the same flavour if the requested drink is known. */
async function readSimilar(
  { tables }: Store,
  like: { category: string | null } | null,
): Promise<SimilarDrink[]> {
  const query = tables
    .from('products')
    .select('slug, name, price, image_url, stock_quantity:units_for_sale')
    .eq('is_active', true)
    .gt('units_for_sale', 0)
    .order('created_at', { ascending: false })
    .limit(3);
  const { data: found } = await (like?.category ? query.eq('category', like.category) : query);
  return Array.isArray(found) ? found : [];
}

/** Places the order and redirects to its page with its access key. Errors are returned with the typed values. */
export async function action({ request, context, url }: Route.ActionArgs) {
  const sent = await request.formData();
  const text = (name: string) => String(sent.get(name) ?? '');
  const figure = (name: string) => Number.parseInt(text(name), 10) || 0;
  const form = formIn(sent);
  // A repeated submission, by a second press or a reload, stays one order.
  const key = text('key');
  if (text(fillField) === 'yes')
    return { form, key: crypto.randomUUID(), problems: [], failure: null, earlier: null };
  const problems = checkOrderForm(form);
  if (problems.length > 0) return data({ form, key, problems, failure: null, earlier: null }, 400);
  const order = {
    productId: text('productId'),
    quantity: quantityIn(url),
    form,
    shown: { price: figure('shownPrice'), deliveryFee: figure('shownFee') },
    // If the checkbox is required, the database refuses an order without it.
    acceptsTerms: text(termsField) === 'yes',
  };
  // Back reloads this page, whose key is then a new one.
  const earlier = await readSameOrder(request.headers.get('cookie'), order, key);
  if (earlier && text(againField) !== 'yes') {
    return data({ form, key, problems: [], failure: null, earlier }, 409);
  }
  const outcome = await placeOrder(context.get(shopContext).store.tables, order, key);
  if (outcome.isPlaced) {
    const { trackingNumber, accessKey } = outcome.order;
    throw redirect(orderLink('', trackingNumber, accessKey), {
      headers: { 'Set-Cookie': await placedOrderCookie(order, key, { trackingNumber, accessKey }, url) },
    });
  }
  const { failure } = outcome;
  // A restored page has the idempotency key of its last submission: the next order needs a new one.
  const next = failure.kind === 'key_reused' ? crypto.randomUUID() : key;
  return data({ form, key: next, problems: problemsOf(failure), failure, earlier: null }, 409);
}

const formIn = (sent: FormData) =>
  Object.fromEntries(
    Object.keys(emptyForm).map((name) => [name, String(sent.get(name) ?? '').slice(0, 2000)]),
  ) as unknown as OrderForm;

/** Keeps the typed values if there is no valid answer. */
export async function clientAction({ request, serverAction }: Route.ClientActionArgs) {
  const sent = await request.clone().formData();
  try {
    return await withTimeout(serverAction());
  } catch (error) {
    if (error instanceof Response) throw error;
    return {
      form: formIn(sent),
      key: String(sent.get('key') ?? ''),
      problems: [],
      failure: otherFailure({}, 'unanswered'),
      earlier: null,
    };
  }
}

export default function OrderPage({ loaderData, actionData }: Route.ComponentProps) {
  const { settings } = useShop();
  const isSending = useNavigation().state === 'submitting';
  const { product, similar, quantity, pause } = loaderData;

  const { form = emptyForm, problems = [], failure = null, earlier = null } = actionData ?? {};
  const problemOf = (name: string) => problems.find(({ field }) => field === name)?.text;
  if (!product) return <NotSold similar={similar} quantity={quantity} form={form} />;
  const total = orderTotal(product.price, quantity, settings.delivery_fee);
  const isAboveLimit = chargeCents(total) > settings.payment_limit;
  const isSoldOut = product.stock_quantity === 0;
  const shownFailure: OrderFailure | null = isSoldOut
    ? { kind: 'out_of_stock', text: '', field: null }
    : pause
      ? pausedBy(pause.sentence)
      : failure;
  return (
    <section aria-labelledby="order" className="page grid max-w-3xl gap-6 pt-4 md:pt-10">
      <nav aria-label="Breadcrumb">
        <Link
          to={`/shop/${product.slug}`}
          className="-ml-2 inline-flex min-h-11 items-center gap-2 rounded-md px-2 text-sm font-semibold text-ink-soft hover:text-ink hover:underline"
        >
          <Icon name="arrow" className="size-4 rotate-180" />
          Another quantity
        </Link>
      </nav>
      <header className="grid grid-cols-1 gap-1">
        <h1 id="order" className="text-4xl font-extrabold">
          Your order
        </h1>
        <p className="text-ink-soft">{nextSteps(form.location)}</p>
      </header>
      <Form method="post" className="grid grid-cols-1 gap-6 rounded-2xl bg-card p-5 shadow-lg md:p-8">
        <input type="hidden" name="key" value={actionData?.key || loaderData.key} />
        <input type="hidden" name="productId" value={product.id} />
        <input type="hidden" name="shownPrice" value={product.price} />
        <input type="hidden" name="shownFee" value={settings.delivery_fee} />
        <OrderedLine product={product} quantity={quantity} isDisabled />
        {isAboveLimit ? (
          <p role="status">
            <LargeOrder name={product.name} quantity={quantity} />
          </p>
        ) : null}
        <OrderFields
          field={(name) => ({
            name,
            defaultValue: form[name],
            problem: problemOf(name),
            autoFocus: problems[0]?.field === name,
          })}
        />
        <Amounts price={product.price} quantity={quantity} deliveryFee={settings.delivery_fee} />
        <div className="grid grid-cols-1 gap-3">
          {/* Without JavaScript the answer is a new page: scrolls to the error. */}
          <div tabIndex={-1} {...(failure || earlier ? { autoFocus: true } : {})} className="outline-none!">
            <FailureCallout failure={shownFailure} quantity={quantity} similar={similar} areButtons />
          </div>
          {earlier ? (
            <Callout title="The same again?">
              You placed this order a short while ago: {earlier.trackingNumber}.
              <a
                href={orderLink('', earlier.trackingNumber, earlier.accessKey)}
                className={`${buttonStyle('outline')} mt-2`}
              >
                See that order
              </a>
              <input type="hidden" name={againField} value="yes" />
            </Callout>
          ) : null}
          {failure ? <NextStep failure={failure} slug={product.slug} /> : null}
          {settings.requires_terms_tick ? null : <input type="hidden" name={termsField} value="yes" />}
          <TermsLine isTickRequired={settings.requires_terms_tick} problem={problemOf(termsField)} />
          <Button type="submit" size="large" isBusy={isSending} disabled={isSoldOut || isAboveLimit}>
            {isSending
              ? 'Processing...'
              : failure?.kind === 'total_changed'
                ? `Accept and order · ${formatKsh(total)}`
                : earlier
                  ? 'Order the same again'
                  : 'Place Order'}
          </Button>
          <p className="text-sm text-ink-soft">
            Prefer to talk to a person?{' '}
            <a
              href={`tel:${settings.support_phone}`}
              className="inline-block py-1 font-semibold underline underline-offset-2"
            >
              Call {formatPhone(settings.support_phone)}
            </a>
          </p>
        </div>
      </Form>
    </section>
  );
}

function NextStep({ failure, slug }: { failure: OrderFailure; slug: string }) {
  if (failure.kind !== 'not_enough_stock' || failure.left < 1) return null;
  return (
    <a href={`/shop/${slug}/order?quantity=${failure.left}`} className={buttonStyle('outline')}>
      Order {failure.left} instead
    </a>
  );
}

interface NotSoldProps {
  similar: readonly SimilarDrink[];
  quantity: number;
  form: OrderForm;
}

function NotSold({ similar, quantity, form }: NotSoldProps) {
  return (
    <section aria-labelledby="not-sold" className="page grid max-w-3xl gap-3 pt-10">
      <h1 id="not-sold" className="text-4xl font-extrabold">
        We don't sell this one any more
      </h1>
      <p className="text-ink-soft">Nothing was ordered and nothing will be charged. Try one of these.</p>
      <Form method="post">
        {Object.entries(form).map(([name, typed]) => (
          <input key={name} type="hidden" name={name} value={typed} />
        ))}
        <SimilarDrinks drinks={similar} quantity={quantity} areButtons />
      </Form>
    </section>
  );
}
