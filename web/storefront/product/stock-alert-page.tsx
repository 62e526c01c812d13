// Receives the wish for a text about a drink that is back. Its page is shown only without JavaScript.
import { data, Link, redirect } from 'react-router';
import { slugForQuery } from '../../../domain/products/catalogue.ts';
import { withTimeout } from '../../../domain/timeout.ts';
import type { Store } from '../../../supabase/store.ts';
import { shopContext } from '../../lib/shop-context.ts';
import { buttonStyle } from '../../ui/button.tsx';
import type { Route } from './+types/stock-alert-page.ts';
import StockAlertForm, { type StockAlertAnswer } from './stock-alert-form.tsx';

export const meta: Route.MetaFunction = () => [
  { title: "Tell me when it's back" },
  { name: 'robots', content: 'noindex' },
];

// Without a submitted form there is no page.
export const middleware: Route.MiddlewareFunction[] = [
  async ({ request, params }, next) => {
    if (request.method !== 'POST') throw redirect(`/shop/${encodeURIComponent(params.slug ?? '')}`);
    return next();
  },
];

const readProduct = async (slug: string, { tables }: Pick<Store, 'tables'>) =>
  // Not in the query string: there a slug such as "eq.x" would be a filter.
  tables
    .rpc('product_and_related', { product_slug: slugForQuery(slug), related_limit: 0 })
    .select('id, slug, name');

export async function loader({ context, params }: Route.LoaderArgs) {
  const { data: found, error } = await readProduct(params.slug, context.get(shopContext).store);
  if (error) throw data(null, { status: 503 });
  const [product] = found;
  if (!product) throw data(null, { status: 404 });
  return { product };
}

const failed = 'That did not work. Please try again later.';

export async function action({ request, context, params }: Route.ActionArgs) {
  const form = await request.formData();
  const phone = String(form.get('phone') ?? '').slice(0, 100);
  const { store } = context.get(shopContext);
  const { data: found, error: unread } = await readProduct(params.slug, store);
  const [product] = found ?? [];
  if (unread || !product) {
    const text = unread ? failed : 'We no longer sell this drink.';
    return data<StockAlertAnswer>({ isDone: false, text, phone }, { status: unread ? 503 : 404 });
  }
  const { error, status } = await store.tables.rpc('request_stock_alert', {
    product_id: product.id,
    phone,
    has_consented: form.get('consent') === 'yes',
  });
  if (!error)
    return data<StockAlertAnswer>({ isDone: true, text: `We text you once ${product.name} is back.` });
  const text = error.message && status >= 400 && status < 500 ? error.message : failed;
  return data<StockAlertAnswer>({ isDone: false, text, phone }, { status: status >= 400 ? status : 503 });
}

/** Reports a request that does not reach the server as a failure; the form shows it in place. */
export async function clientAction({ serverAction }: Route.ClientActionArgs): Promise<StockAlertAnswer> {
  const answer = await withTimeout(serverAction()).catch(() => null);
  return typeof answer?.text === 'string' ? answer : { isDone: false, text: failed };
}

export default function StockAlertPage({ loaderData: { product }, actionData }: Route.ComponentProps) {
  return (
    <section className="page grid max-w-text gap-6 py-12">
      <h1 className="text-4xl">{product.name}</h1>
      <StockAlertForm product={product} sent={actionData} />
      <Link to={`/shop/${product.slug}`} className={`${buttonStyle('outline', 'large')} justify-self-start`}>
        Back to the drink
      </Link>
    </section>
  );
}
