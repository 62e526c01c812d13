// The order form as a page of its own: for who has no scripts, and for a tap that scripts never came to answer.
import { data, Form, Link, redirect, useNavigation } from 'react-router';
import { orderTotal } from '../../../domain/money.ts';
import { describeOrderFailure } from '../../../domain/order-failure.ts';
import { checkOrderForm, type OrderForm } from '../../../domain/order-form.ts';
import { orderLink } from '../../../domain/order-link.ts';
import { formatPhone } from '../../../domain/phone.ts';
import { inTime } from '../../lib/patience.ts';
import { shopContext } from '../../lib/shop-context.ts';
import { Button, buttonStyle } from '../../ui/button.tsx';
import { Icon } from '../../ui/icons.tsx';
import { useShop } from '../layout/use-shop.ts';
import type { Route } from './+types/order-page.ts';
import { FailureCallout } from './order-callouts.tsx';
import { OrderFields } from './order-fields.tsx';
import { emptyForm } from './order-memory.ts';
import { Amounts, OrderedLine } from './order-summary.tsx';
import { type OrderFailure, placeOrder } from './place-order.ts';

export const meta: Route.MetaFunction = ({ loaderData }) => [
  { title: loaderData ? `Order ${loaderData.product.name}` : 'Product not found' },
  { name: 'robots', content: 'noindex' },
];

export function headers() {
  return { 'Cache-Control': 'private, no-store', 'Referrer-Policy': 'same-origin' };
}

/** What can be counted and multiplied by a price without losing a cent. */
const mostDigits = 9;

const quantityIn = (url: URL): number => {
  const asked = url.searchParams.get('quantity') ?? '';
  return new RegExp(`^\\d{1,${mostDigits}}$`).test(asked) ? Math.max(1, Number(asked)) : 1;
};

export async function loader({ context, params, url }: Route.LoaderArgs) {
  const { store } = context.get(shopContext);
  const { data: found, error } = await store.tables
    .from('products')
    .select('id, slug, name, price, image_url, stock_quantity, category')
    .eq('slug', params.slug)
    .eq('is_active', true)
    .maybeSingle();
  if (error) throw data(error.message, { status: 503 });
  if (!found) throw data(null, { status: 404 });
  return { product: found, quantity: quantityIn(url), key: crypto.randomUUID() };
}

/** Places the order and goes on to its page, which its access key opens. What went wrong comes back with what was typed. */
export async function action({ request, context, url }: Route.ActionArgs) {
  const sent = await request.formData();
  const text = (name: string) => String(sent.get(name) ?? '');
  const form = formIn(sent);
  // The same order again, by a second press or a reload, stays one order.
  const key = text('key');
  const wrong = checkOrderForm(form);
  if (wrong) {
    return data({ form, key, problem: { field: wrong.field, text: wrong.text }, failure: null }, 400);
  }
  const outcome = await placeOrder(
    context.get(shopContext).store.tables,
    {
      productId: text('productId'),
      quantity: quantityIn(url),
      form,
      expectedTotal: Number.parseInt(text('expectedTotal'), 10),
    },
    key,
  );
  if (outcome.isPlaced) {
    const { trackingNumber, accessKey } = outcome.order;
    throw redirect(orderLink('', trackingNumber, accessKey));
  }
  const { failure } = outcome;
  const problem = failure.field && {
    field: failure.field,
    text: failure.text.replace(/^Failed to create order: /, ''),
  };
  // A browser brings a page back with the key it was sent with: what is ordered from it next is another order.
  const next = failure.kind === 'key_reused' ? crypto.randomUUID() : key;
  return data({ form, key: next, problem, failure }, 409);
}

const formIn = (sent: FormData) =>
  Object.fromEntries(
    Object.keys(emptyForm).map((name) => [name, String(sent.get(name) ?? '').slice(0, 300)]),
  ) as unknown as OrderForm;

/** An answer that does not come, or is none, takes nothing away of what was typed. */
export async function clientAction({ request, serverAction }: Route.ClientActionArgs) {
  const sent = await request.clone().formData();
  try {
    return await inTime(serverAction());
  } catch (error) {
    if (error instanceof Response) throw error;
    const failure: OrderFailure = { kind: 'other', text: describeOrderFailure({}), field: null };
    return { form: formIn(sent), key: String(sent.get('key') ?? ''), problem: null, failure };
  }
}

export default function OrderPage({ loaderData, actionData }: Route.ComponentProps) {
  const { settings } = useShop();
  const isSending = useNavigation().state === 'submitting';
  const { product, quantity } = loaderData;

  const { form = emptyForm, problem = null, failure = null } = actionData ?? {};
  const total = orderTotal(product.price, quantity, settings.delivery_fee);
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
      <header className="grid gap-1">
        <h1 id="order" className="text-4xl font-extrabold">
          Your order
        </h1>
        <p className="text-ink-soft">
          At your door in 15-60 minutes within Nairobi. You pay by phone in the next step.
        </p>
      </header>
      <Form method="post" className="grid gap-6 rounded-2xl bg-card p-5 shadow-lg md:p-8">
        <input type="hidden" name="key" value={actionData?.key || loaderData.key} />
        <input type="hidden" name="productId" value={product.id} />
        <input type="hidden" name="expectedTotal" value={total} />
        <OrderedLine product={product} quantity={quantity} isDisabled />
        <OrderFields
          field={(name) => ({
            name,
            defaultValue: form[name],
            problem: problem?.field === name ? problem.text : undefined,
            autoFocus: problem?.field === name,
          })}
        />
        <Amounts price={product.price} quantity={quantity} deliveryFee={settings.delivery_fee} />
        <div className="grid gap-3">
          <FailureCallout failure={failure} isCurrent />
          {failure ? <WayOn failure={failure} slug={product.slug} /> : null}
          <Button type="submit" size="large" isBusy={isSending} disabled={product.stock_quantity === 0}>
            {isSending ? 'Processing...' : 'Place Order'}
          </Button>
          <p className="text-sm text-ink-soft">
            Rather tell it to a person?{' '}
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

function WayOn({ failure, slug }: { failure: OrderFailure; slug: string }) {
  if (failure.kind !== 'not_enough_stock' || failure.left < 1) return null;
  return (
    <a href={`/shop/${slug}/order?quantity=${failure.left}`} className={buttonStyle('outline')}>
      Order {failure.left} instead
    </a>
  );
}
