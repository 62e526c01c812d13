// The page of a rider, /ride/{secret}: its deliveries, and what is pressed there (docs/decisions/riders.md). A document of its own, without
// the scripts of the other pages.
import { describePress, type Ride, readShillings } from '../../domain/deliveries/rider-page.ts';
import { shopContext } from '../lib/shop-context.ts';
import { readShopSettings } from '../lib/shop-settings.ts';
import type { Route } from './+types/ride-route.ts';
import { renderClosed, renderRide } from './ride-document.tsx';

const headers = {
  'Content-Type': 'text/html; charset=utf-8',
  'Cache-Control': 'private, no-store',
  'Referrer-Policy': 'no-referrer',
  'X-Robots-Tag': 'noindex, nofollow',
};

type Context = Pick<Route.LoaderArgs, 'context' | 'params' | 'request'>;
interface Refused {
  code?: string;
  details?: string | null;
  message: string;
}
type Read = { data: unknown; error: Refused | null; status: number };

/** Changes nothing: programs that look at links in messages open them. */
export async function loader({ context, params, request }: Route.LoaderArgs): Promise<Response> {
  const { tables } = context.get(shopContext).store;
  return show({ context, params, request }, await tables.rpc('rider_page', { secret: params.secret }));
}

export async function action({ context, params, request }: Route.ActionArgs): Promise<Response> {
  const { tables } = context.get(shopContext).store;
  const form = await request.formData();
  const text = (name: string) => {
    const value = form.get(name);
    return typeof value === 'string' && value !== '' ? value : null;
  };
  const uuid = (name: string) => (/^[0-9a-f-]{36}$/i.test(text(name) ?? '') ? text(name) : null);
  const answer = await tables.rpc('rider_press', {
    secret: params.secret,
    press_key: uuid('key') as string,
    delivery_id: uuid('job') as string,
    step: text('step') ?? '',
    code: text('code') as string,
    received_cents: readShillings(text('received') ?? '') as number,
    is_other_amount: text('other') === 'yes',
    failure_reason: text('failure') as string,
    seconds_ago: /^\d{1,7}$/.test(text('age') ?? '') ? Number(text('age')) : 0,
  });
  const ride = answer.error ? null : (answer.data as unknown as Ride);
  // A reload of the answer would post the form again.
  if (ride?.press?.outcome === 'done' && describePress(ride.press).isDone && !isPart(request)) {
    return new Response(null, { status: 303, headers: { ...headers, Location: `/ride/${params.secret}` } });
  }
  return show({ context, params, request }, answer);
}

/** Whether an open page asks for its new list. */
const isPart = (request: Request): boolean => request.headers.get('x-ride-part') === '1';

async function show({ context, request }: Context, { data, error, status }: Read): Promise<Response> {
  if (!error) {
    const html = renderRide(data as Ride, {
      newKey: () => crypto.randomUUID(),
      hasScript: !isPart(request),
    });
    return new Response(html, { headers });
  }
  const hasEnded = error.details === 'rider_link_ended';
  const isRefused = status >= 400 && status < 500;
  const settings = await readShopSettings(context.get(shopContext).store);
  const shop = settings.data
    ? {
        name: settings.data.store_name,
        phone: settings.data.support_phone,
        chat_phone: settings.data.chat_phone,
      }
    : null;
  const html = renderClosed(
    {
      title: hasEnded ? 'This link has ended' : 'The list cannot be read',
      text: isRefused ? error.message : 'The shop does not answer at the moment. What was saved stays saved.',
      hasEnded,
      isRefused: isRefused && status !== 409 && status !== 429,
    },
    shop,
  );
  return new Response(html, { status: isRefused ? status : 503, headers });
}
