// The order form as a page: without JavaScript, or if the dialog's code does not load.

import { data, Form, Link, redirect, useNavigation } from 'react-router';
import { areaWithId, type DeliveryArea, feeIn, guessArea } from '../../../domain/deliveries/delivery-area.ts';
import { chargeCents, formatKsh } from '../../../domain/money.ts';
import { orderLink } from '../../../domain/orders/order-link.ts';
import { formatPhone } from '../../../domain/people/phone.ts';
import { slugForQuery } from '../../../domain/products/catalogue.ts';
import { withTimeout } from '../../../domain/timeout.ts';
import type { Store } from '../../../supabase/store.ts';
import { readAreas } from '../../lib/delivery-areas.ts';
import { type CheckedCode, checkCode } from '../../lib/orders/check-discount-code.ts';
import { emptyForm, orderTotal } from '../../lib/orders/order-contents.ts';
import { checkOrderForm, type OrderForm } from '../../lib/orders/order-form.ts';
import { shopContext } from '../../lib/shop-context.ts';
import { readPause, readShopSettings } from '../../lib/shop-settings.ts';
import { AreaSelect } from '../../ui/area-field.tsx';
import { Button, buttonStyle } from '../../ui/button.tsx';
import { Icon } from '../../ui/icons.tsx';
import { useShop } from '../layout/use-shop.ts';
import type { Route } from './+types/order-page.ts';
import { appliedField, applyField, codeField, PlainDiscount } from './discount/plain-discount.tsx';
import { OrderFields } from './form/order-fields.tsx';
import LargeOrder from './large-order.tsx';
import { searchDrinks, suggestDrinks } from './lines/find-drinks.ts';
import { type OrderedProduct, type OrderLine, problemOfLine, readProduct } from './lines/order-lines.ts';
import { DefaultButton, PlainLines, PlainPicker } from './lines/plain-lines.tsx';
import {
  applyChange,
  postedChange,
  postedLines,
  refreshLines,
  searchedField,
} from './lines/posted-drinks.ts';
import { nextSteps } from './next-steps.ts';
import { Callout, FailureCallout } from './order-callouts.tsx';
import { Amounts } from './order-summary.tsx';
import {
  discountOf,
  type OrderFailure,
  otherFailure,
  pausedBy,
  placeOrder,
  problemsOf,
  requestedDrinks,
} from './place/place-order.ts';
import { againField, placedOrderCookie, readSameOrder } from './place/same-order.ts';
import { readArrival, type ShownArrival } from './promise.ts';
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
  const shop = context.get(shopContext);
  const { store, cacheUntil } = shop;
  const [product, { data: settings }, areas] = await Promise.all([
    readOwn(store, params.slug),
    readShopSettings(store),
    readAreas(shop),
  ]);
  const [similar, suggested, discount, arrival] = await Promise.all([
    product?.stock_quantity ? [] : readSimilar(store, product),
    readSuggested(store, product),
    readCode(store, url.searchParams.get('code')),
    readArrival(store.tables, null),
  ]);
  const pause = settings && readPause(settings, cacheUntil);
  const quantity = quantityIn(url);
  const key = crypto.randomUUID();
  const answer = { product, areas, similar, suggested, quantity, key, pause, discount, arrival };
  // After a failed submission the action's data has the typed values.
  return product ? answer : data(answer, { status: 404 });
}

/** A code as it was typed, with what was found of it. */
type TypedCode = { typed: string } & (CheckedCode | { terms: null; problem: undefined });
const noCode: TypedCode = { typed: '', terms: null, problem: undefined };

async function readCode({ tables }: Store, written: string | null): Promise<TypedCode> {
  const typed = (written ?? '').trim().slice(0, 40);
  return typed === '' ? noCode : { typed, ...(await checkCode(tables, typed)) };
}

/** The product of the page; null if the shop does not sell it. */
async function readOwn({ tables }: Store, slug: string): Promise<OrderedProduct | null> {
  const { data: found, error } = await tables
    .from('products')
    .select('id, slug, name, price, image_url, stock_quantity:units_for_sale, category, brand')
    .eq('slug', slugForQuery(slug))
    .eq('is_active', true)
    .maybeSingle();
  if (error) throw data(error.message, { status: 503 });
  return readProduct(found);
}

/** Drinks to add; none where they cannot be read: they are not what the page is for. */
async function readSuggested({ tables }: Store, product: OrderedProduct | null): Promise<OrderedProduct[]> {
  const wanted = { recent: [], brand: product?.brand ?? null, without: product ? [product.id] : [] };
  const groups = await suggestDrinks(tables, wanted).catch(() => []);
  return groups.flatMap(({ drinks }) => drinks);
}

/** A few drinks that can be ordered, of the same flavour if the requested drink is known. */
async function readSimilar({ tables }: Store, like: OrderedProduct | null): Promise<SimilarDrink[]> {
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

/** The chosen area, or the one that the location names. */
const areaIn = (form: OrderForm, areas: readonly DeliveryArea[]) => {
  const area = areaWithId(form.areaId, areas);
  return area
    ? { area, place: guessArea(form.location, [area])?.place ?? area.name }
    : guessArea(form.location, areas);
};

const needsAgreement = (area: DeliveryArea | null): boolean => area?.needs_agreement === true;

/** Names of hidden fields: the shown delivery fee and area, and the product of the page. */
const shownFeeField = 'shownFee';
const shownAreaField = 'shownArea';
const ownField = 'productId';

/**
 * Places the order and redirects to its page with its access key, or changes its drinks. Otherwise the page is shown again with the typed
 * values.
 */
export async function action({ request, context, params, url }: Route.ActionArgs) {
  const shop = context.get(shopContext);
  const { store } = shop;
  const sent = await request.formData();
  const text = (name: string) => String(sent.get(name) ?? '');
  const form = formIn(sent);
  // A repeated submission, by a second press or a reload, stays one order.
  const key = text('key');
  // With every change of the page: it may end at any time.
  const discount = await readCode(store, text(codeField));
  const answer = async (lines: readonly OrderLine[], given: Partial<PageAnswer>) => {
    const areaId = areaIn(form, await readAreas(shop))?.area.id ?? null;
    return {
      ...emptyAnswer,
      form,
      key,
      discount,
      term: text(searchedField),
      arrival: await readArrival(store.tables, areaId),
      ...(await refreshLines(store.tables, lines)),
      ...given,
    };
  };
  let posted = postedLines(sent);
  if (posted.length === 0) {
    // Sent by a page of an earlier version, whose one drink is that of its URL.
    const product = await readOwn(store, params.slug);
    const price = Number.parseInt(text('shownPrice'), 10) || product?.price;
    if (product && price) posted = [{ product: { ...product, price }, quantity: quantityIn(url) }];
  }
  if (text(fillField) === 'yes') {
    // In place of the drink of the page that the button was on.
    const product = await readOwn(store, params.slug);
    const others = posted.filter(
      (line) => line.product.id !== text(ownField) && line.product.id !== product?.id,
    );
    const lines = product ? [{ product, quantity: quantityIn(url) }, ...others] : others;
    return answer(lines, { key: crypto.randomUUID() });
  }
  const change = postedChange(sent);
  if (change) {
    const term = change.kind === 'search' ? change.term : text(searchedField);
    const [lines, found] = await Promise.all([
      applyChange(store.tables, posted, change).catch(() => posted),
      term ? searchDrinks(store.tables, term).catch(() => []) : null,
    ]);
    return answer(lines, { term, found, changed: change.kind });
  }
  const problems: ReturnType<typeof problemsOf> = checkOrderForm(form);
  // The total is another one with a code that was typed since, or without one that has ended since: it is shown first.
  const isOtherCode = (discount.terms?.code ?? '') !== text(appliedField);
  if (text(applyField) === 'yes' || discount.problem || (problems.length === 0 && isOtherCode)) {
    return data(await answer(posted, { changed: 'code' }), discount.problem ? 400 : 200);
  }
  if (problems.length > 0 || posted.length === 0) return data(await answer(posted, { problems }), 400);
  const drinks = requestedDrinks(posted);
  const [areas, { data: settings }] = await Promise.all([readAreas(shop), readShopSettings(store)]);
  const area = areaIn(form, areas)?.area ?? null;
  const deliveryFee = Number.parseInt(text(shownFeeField), 10) || 0;
  // The page showed the fee of another area: it is shown first. A fee that has changed since is refused with the new one.
  const shownArea = areaWithId(text(shownAreaField), areas);
  const feeOf = (one: DeliveryArea | null) => feeIn(one, settings?.delivery_fee ?? deliveryFee);
  if (feeOf(area) !== feeOf(shownArea) || needsAgreement(area) !== needsAgreement(shownArea)) {
    return data(await answer(posted, { changed: 'area' }), 200);
  }
  const order = {
    drinks,
    area,
    deliveryFee,
    // Below its minimum, the page says that it does not apply.
    discount: discountOf(drinks, deliveryFee, discount.terms) > 0 ? discount.terms : null,
    form,
    // If the checkbox is required, the database refuses an order without it.
    acceptsTerms: text(termsField) === 'yes',
  };
  // Back reloads this page, whose key is then a new one.
  const earlier = await readSameOrder(request.headers.get('cookie'), order, key);
  if (earlier && text(againField) !== 'yes') return data(await answer(posted, { earlier }), 409);
  const outcome = await placeOrder(store.tables, order, key);
  if (outcome.isPlaced) {
    const { trackingNumber, accessKey } = outcome.order;
    throw redirect(orderLink('', trackingNumber, accessKey), {
      headers: { 'Set-Cookie': await placedOrderCookie(order, key, { trackingNumber, accessKey }, url) },
    });
  }
  const { failure } = outcome;
  // A restored page has the idempotency key of its last submission: the next order needs a new one.
  const next = failure.kind === 'key_reused' ? crypto.randomUUID() : key;
  const refused = problemsOf(failure);
  const ofCode = refused.find(({ field }) => field === 'discountCode');
  return data(
    await answer(posted, {
      key: next,
      problems: refused,
      failure,
      ...(ofCode
        ? { discount: { typed: discount.typed, terms: null, problem: `${ofCode.text}.` }, changed: 'code' }
        : {}),
    }),
    409,
  );
}

const emptyAnswer = {
  problems: [] as ReturnType<typeof problemsOf>,
  failure: null as OrderFailure | null,
  earlier: null as Awaited<ReturnType<typeof readSameOrder>>,
  lines: [] as OrderLine[],
  /** Ids of products that the shop has stopped selling. */
  gone: [] as string[],
  discount: noCode as TypedCode,
  /** Of the area of the form. */
  arrival: null as ShownArrival | null,
  /** The text that was searched for, and its matches. */
  term: '',
  found: null as OrderedProduct[] | null,
  /** The change of the drinks that was asked for. */
  changed: null as 'search' | 'add' | 'set' | 'code' | 'area' | null,
};
type PageAnswer = typeof emptyAnswer & { key: string };

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
      ...emptyAnswer,
      form: formIn(sent),
      key: String(sent.get('key') ?? ''),
      lines: postedLines(sent),
      discount: { ...noCode, typed: String(sent.get(codeField) ?? '') },
      failure: postedChange(sent) ? noAnswer : otherFailure({}, 'unanswered'),
    };
  }
}

/** Of a change of the drinks. */
const noAnswer: OrderFailure = {
  kind: 'other',
  text: '',
  field: null,
  reason: "We got no answer, so your drinks didn't change.",
};

export default function OrderPage({ loaderData, actionData }: Route.ComponentProps) {
  const { settings } = useShop();
  const isSending = useNavigation().state === 'submitting';
  const { product, areas, similar, suggested, quantity, pause } = loaderData;

  const { problems, failure, earlier, gone, term, found, changed } = actionData ?? emptyAnswer;
  const form = actionData?.form ?? emptyForm;
  const problemOf = (name: string) => problems.find(({ field }) => field === name)?.text;
  const sentLines = actionData?.lines ?? [];
  const lines = sentLines.length > 0 ? sentLines : product ? [{ product, quantity }] : [];
  const isSeveral = lines.length > 1;
  const [first] = lines;
  const problemOfDrink = ({ product: drink, quantity: units }: OrderLine) =>
    problemOfLine(units, { unitsLeft: drink.stock_quantity, isOff: gone.includes(drink.id) });
  // Where there are several, a drink that is gone is removed from its line.
  if (!first || (!isSeveral && gone.includes(first.product.id)))
    return <NotSold similar={similar} quantity={quantity} form={form} ownId={first?.product.id ?? ''} />;
  const drinks = requestedDrinks(lines);
  const discount = actionData?.discount ?? loaderData.discount;
  const inArea = areaIn(form, areas);
  const area = inArea?.area ?? null;
  const next = nextSteps(area, (actionData ?? loaderData).arrival?.text ?? null);
  const deliveryFee = feeIn(area, settings.delivery_fee);
  const discountCents = discountOf(drinks, deliveryFee, discount.terms);
  const total = orderTotal(drinks, deliveryFee, discountCents);
  const isAboveLimit = chargeCents(total) > settings.payment_limit;
  const isSoldOut = !isSeveral && first.product.stock_quantity === 0;
  const shownFailure = currentFailure();

  function currentFailure(): OrderFailure | null {
    if (isSoldOut) return { kind: 'out_of_stock', text: '', field: null };
    if (pause) return pausedBy(pause.sentence);
    // Beside the line, if it still cannot be ordered.
    return isRefused(failure) ? null : failure;
  }
  return (
    <section aria-labelledby="order" className="page grid max-w-3xl gap-6 pt-4 md:pt-10">
      <nav aria-label="Breadcrumb">
        <Link
          to={`/shop/${first.product.slug}`}
          className="-ml-2 inline-flex min-h-11 items-center gap-2 rounded-md px-2 text-sm font-semibold text-ink-soft hover:text-ink hover:underline"
        >
          <Icon name="arrow" className="size-4 rotate-180" />
          {isSeveral ? 'Back to the drink' : 'Another quantity'}
        </Link>
      </nav>
      <header className="grid grid-cols-1 gap-1">
        <h1 id="order" className="text-4xl font-extrabold">
          Your order
        </h1>
        <p className="text-ink-soft">{next}</p>
      </header>
      <Form method="post" className="grid grid-cols-1 gap-6 rounded-2xl bg-card p-5 shadow-lg md:p-8">
        <DefaultButton />
        <input type="hidden" name="key" value={actionData?.key || loaderData.key} />
        <input type="hidden" name={ownField} value={product?.id ?? first.product.id} />
        <input type="hidden" name={shownFeeField} value={deliveryFee} />
        <input type="hidden" name={shownAreaField} value={area?.id ?? ''} />
        {/* Without JavaScript the answer is a new page: scrolls to what changed. */}
        <div
          tabIndex={-1}
          {...((changed && changed !== 'code' && changed !== 'area') || isRefused(failure)
            ? { autoFocus: true }
            : {})}
          className="grid grid-cols-1 gap-3 outline-none!"
        >
          <PlainLines lines={lines} problemOf={problemOfDrink} />
          <PlainPicker
            lines={lines}
            drinks={found ?? suggested}
            term={term}
            isOpen={changed === 'search' || changed === 'add'}
          />
        </div>
        {isAboveLimit ? (
          <p role="status">
            <LargeOrder drinks={lines.map((line) => `${line.quantity} × ${line.product.name}`).join(', ')} />
          </p>
        ) : null}
        <OrderFields
          chosen={inArea}
          discount={
            <PlainDiscount
              typed={discount.typed}
              terms={discount.terms}
              problem={discount.problem}
              cents={discountCents}
              takesFocus={changed === 'code'}
            />
          }
          hasDiscount={discount.typed !== '' || changed === 'code'}
          area={
            <AreaSelect
              areas={areas}
              defaultValue={form.areaId}
              shopFee={settings.delivery_fee}
              problem={problemOf('areaId')}
            />
          }
          field={(name) => ({
            name,
            defaultValue: form[name],
            problem: problemOf(name),
            autoFocus: problems[0]?.field === name,
          })}
        />
        {isSoldOut ? null : (
          <Amounts
            drinks={drinks}
            deliveryFee={deliveryFee}
            isFeeOpen={area?.needs_agreement === true}
            discount={{ code: discount.terms?.code, cents: discountCents }}
          />
        )}
        {changed === 'area' ? (
          <div tabIndex={-1} {...{ autoFocus: true }} className="outline-none!">
            <Callout
              title={
                area?.needs_agreement
                  ? area.name
                  : `Delivery${area ? ` in ${area.name}` : ''}: ${formatKsh(deliveryFee)}`
              }
            >
              {next} Please check the total. Nothing was ordered yet.
            </Callout>
          </div>
        ) : null}
        <div className="grid grid-cols-1 gap-3">
          {/* Without JavaScript the answer is a new page: scrolls to the error. */}
          <div
            tabIndex={-1}
            {...((failure && !isRefused(failure)) || earlier ? { autoFocus: true } : {})}
            className="outline-none!"
          >
            <FailureCallout failure={shownFailure} quantity={first.quantity} similar={similar} areButtons />
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
          {settings.requires_terms_tick ? null : <input type="hidden" name={termsField} value="yes" />}
          <TermsLine isTickRequired={settings.requires_terms_tick} problem={problemOf(termsField)} />
          <Button
            type="submit"
            // Without JavaScript only another attempt shows whether a pause is over.
            tone={pause ? 'outline' : 'leaf'}
            size="large"
            isBusy={isSending}
            disabled={isSoldOut || isAboveLimit}
          >
            {isSending
              ? 'Processing...'
              : pause
                ? 'Try to place the order'
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

/** Whether a drink cannot be ordered, which its line says. */
const isRefused = (failure: OrderFailure | null): boolean =>
  failure?.kind === 'not_enough_stock' || failure?.kind === 'out_of_stock' || failure?.kind === 'unavailable';

interface NotSoldProps {
  similar: readonly SimilarDrink[];
  quantity: number;
  form: OrderForm;
  /** The id of the drink that is gone. */
  ownId: string;
}

function NotSold({ similar, quantity, form, ownId }: NotSoldProps) {
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
        <input type="hidden" name={ownField} value={ownId} />
        <SimilarDrinks drinks={similar} quantity={quantity} areButtons />
      </Form>
    </section>
  );
}
