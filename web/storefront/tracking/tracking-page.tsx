// Where an order is: looked up by its tracking number, then followed live.
import { useEffect, useRef, useState } from 'react';
import { redirect, useNavigate, useNavigation } from 'react-router';
import { orderLink } from '../../../domain/order-link.ts';
import { normalisePhone } from '../../../domain/phone.ts';
import { normaliseTrackingNumber } from '../../../domain/tracking-number.ts';
import { inTime } from '../../lib/patience.ts';
import { rememberedOrder } from '../../lib/remembered-orders.ts';
import { shopContext } from '../../lib/shop-context.ts';
import { Button } from '../../ui/button.tsx';
import { inputStyle } from '../../ui/field.tsx';
import { Icon } from '../../ui/icons.tsx';
import { Notice } from '../../ui/notice.tsx';
import { showToast } from '../../ui/toasts.tsx';
import { LastOrderRoom } from '../last-order/last-order-room.tsx';
import { describePage } from '../layout/page-meta.ts';
import { useShop } from '../layout/use-shop.ts';
import type { Route } from './+types/tracking-page.ts';
import { OrderSheet } from './order-sheet.tsx';
import { RevealForm } from './reveal-form.tsx';
import { failedToFetch, type LookUp, lookUpOrder, type TrackedOrder } from './tracked-order.ts';

export const meta: Route.MetaFunction = ({ matches, loaderData }) => {
  const asked = loaderData?.asked;
  return describePage(matches, {
    title: asked ? `Order ${asked}` : 'Track Your Order',
    description: 'See where your order is: from our fridge to your gate, step by step.',
    path: asked ? `/track-order/${encodeURIComponent(asked)}` : '/track-order',
    // Orders are private.
    isPrivate: Boolean(asked),
  });
};

export function headers() {
  return { 'Cache-Control': 'private, no-store', 'Referrer-Policy': 'same-origin' };
}

/** The number in the query takes precedence over the one in the path (specification §2, Order tracking). */
const askedNumber = (url: URL, parameter: string | undefined) =>
  normaliseTrackingNumber(url.searchParams.get('tracking') ?? '') || normaliseTrackingNumber(parameter ?? '');

export async function loader({ url, params, context }: Route.LoaderArgs) {
  const asked = askedNumber(url, params.trackingNumber);
  const accessKey = url.searchParams.get('key');
  const readAt = Date.now();
  if (!asked) return { asked, accessKey, readAt, lookUp: null };
  const { tables } = context.get(shopContext).store;
  return { asked, accessKey, readAt, lookUp: await lookUpOrder(tables, asked, { accessKey }) };
}

/** A look-up that does not reach the server is a failed look-up, not a failed page. */
export async function clientLoader({ request, params, serverLoader }: Route.ClientLoaderArgs) {
  try {
    return await inTime(serverLoader());
  } catch (error) {
    // Offline, the page may be cached on this device.
    if (error instanceof Response || !navigator.onLine) throw error;
    const url = new URL(request.url);
    const asked = askedNumber(url, params.trackingNumber);
    return {
      asked,
      accessKey: url.searchParams.get('key'),
      readAt: Date.now(),
      lookUp: asked ? failedToFetch : null,
    };
  }
}

/** Reveals the order with the digits of its phone and adds its access key to the URL. Works without JavaScript. */
export async function action({ request, url, params, context }: Route.ActionArgs) {
  const phoneLastFour = String((await request.formData()).get('digits') ?? '').trim();
  const { tables } = context.get(shopContext).store;
  const asked = askedNumber(url, params.trackingNumber);
  const lookUp = await lookUpOrder(tables, asked, { phoneLastFour });
  if (lookUp.kind === 'found' && lookUp.order.accessKey) {
    throw redirect(orderLink('', asked, lookUp.order.accessKey));
  }
  return {
    problem:
      lookUp.kind === 'failed'
        ? lookUp.message
        : 'These are not the last four digits of the phone this order was placed with.',
  };
}

export async function clientAction({ serverAction }: Route.ClientActionArgs) {
  try {
    return await inTime(serverAction());
  } catch (error) {
    if (error instanceof Response) throw error;
    return { problem: failedToFetch.message };
  }
}

export default function TrackingPage({ loaderData, actionData }: Route.ComponentProps) {
  const { asked, accessKey, lookUp, readAt } = loaderData;
  const isSearching = useNavigation().state === 'loading';
  useLookUpToast(lookUp);
  const found = lookUp?.kind === 'found' ? lookUp.order : null;
  const own = useOwnOrder(asked, lookUp);
  const order = found && (!found.isMasked || !own) ? found : own;
  const problem = actionData?.problem ?? null;

  return (
    <>
      <section className="bg-(image:--gradient-dusk) text-white">
        {/* Low above an order: what it shows belongs on the first screen of a phone. */}
        <div
          className={`page grid grid-cols-[minmax(0,1fr)] ${found ? 'gap-3 pt-5 pb-18' : 'gap-6 pt-10 pb-24'} md:gap-6 md:pt-16 md:pb-32`}
        >
          <div className="grid grid-cols-1 gap-2">
            <h1 className={found ? 'text-2xl font-extrabold md:text-4xl' : 'text-4xl font-extrabold'}>
              Track Your Order
            </h1>
            <p className={`max-w-prose text-dusk-100 ${found ? 'max-md:sr-only' : ''}`}>
              Your tracking number came with your order. It begins with JJ.
            </p>
          </div>
          <TrackingSearch key={asked} asked={asked} isSearching={isSearching} />
        </div>
      </section>

      <div className="page -mt-14 grid gap-6 md:-mt-20">
        {lookUp === null ? (
          <>
            <Waiting />
            <LastOrderRoom />
          </>
        ) : null}
        {lookUp?.kind === 'missing' ? (
          <Card>
            <span className="grid size-14 place-items-center rounded-pill bg-dusk-100 text-dusk-700">
              <Icon name="search" className="size-6" />
            </span>
            <h2 className="text-2xl">No Order Found</h2>
            <p className="text-ink-soft">Please check your tracking number and try again</p>
            <NumberHint asked={asked} />
          </Card>
        ) : null}
        {lookUp?.kind === 'failed' && !order ? (
          <Card>
            <Notice tone="danger" title="Error">
              {lookUp.message}
            </Notice>
            {lookUp.isLimited ? (
              <RevealForm
                problem={problem}
                label="Show my order"
                hint="Is it your order? Enter the last four digits of your phone to see it."
                className="text-left"
              />
            ) : (
              <p className="text-sm text-ink-soft">We couldn’t check just now. Please try again.</p>
            )}
          </Card>
        ) : null}
        {order ? (
          <OrderSheet
            key={order.trackingNumber}
            order={order}
            accessKey={accessKey}
            readAt={readAt}
            digitsProblem={problem}
          />
        ) : null}
      </div>
    </>
  );
}

/** The order as the device that placed it may see it: with the access key it remembers. Null until then, and elsewhere. */
function useOwnOrder(asked: string, lookUp: LookUp | null): TrackedOrder | null {
  const { config } = useShop();
  const [own, setOwn] = useState<TrackedOrder | null>(null);
  useEffect(() => {
    const isOpen = lookUp?.kind === 'found' && !lookUp.order.isMasked;
    const accessKey = isOpen ? null : rememberedOrder(asked)?.accessKey;
    if (!accessKey) return;
    let isGone = false;
    import('../../lib/store.ts').then(
      async ({ createStore }) => {
        const answer = await lookUpOrder(createStore(config).tables, asked, { accessKey });
        if (!isGone && answer.kind === 'found') setOwn(answer.order);
      },
      // Without a network the order is shown as it was last known.
      () => {},
    );
    return () => {
      isGone = true;
    };
  }, [config, asked, lookUp]);
  return own?.trackingNumber === asked ? own : null;
}

function TrackingSearch({ asked, isSearching }: { asked: string; isSearching: boolean }) {
  const navigate = useNavigate();
  const input = useRef<HTMLInputElement>(null);

  function search(event: React.SubmitEvent<HTMLFormElement>) {
    event.preventDefault();
    const number = normaliseTrackingNumber(input.current?.value ?? '');
    if (number) void navigate(`/track-order/${encodeURIComponent(number)}`);
  }

  return (
    <form action="/track-order" onSubmit={search} className="grid grid-cols-1 w-full max-w-xl gap-2">
      <label htmlFor="tracking" className="text-sm font-semibold">
        Tracking number
      </label>
      <div className="flex flex-wrap gap-3">
        <input
          ref={input}
          id="tracking"
          name="tracking"
          defaultValue={asked}
          placeholder="JJ-20260131-1234"
          autoComplete="off"
          autoCapitalize="characters"
          spellCheck={false}
          // A whole link may be pasted.
          maxLength={300}
          enterKeyHint="search"
          className={`${inputStyle} on-dusk min-w-[min(14rem,100%)] flex-1 font-semibold tabular-nums placeholder:font-normal`}
        />
        <Button type="submit" tone="ember" size="large" className="on-dusk grow sm:grow-0">
          {isSearching ? 'Looking…' : 'Track Order'}
        </Button>
      </div>
    </form>
  );
}

/** A toast for each failed lookup, besides the page's own message. */
function useLookUpToast(lookUp: LookUp | null) {
  useEffect(() => {
    if (lookUp?.kind === 'missing') {
      showToast({
        topic: 'tracking',
        kind: 'error',
        title: 'Order Not Found',
        text: 'No order found with this tracking number',
      });
    }
    if (lookUp?.kind === 'failed')
      showToast({ topic: 'tracking', kind: 'error', title: 'Error', text: lookUp.message });
  }, [lookUp]);
}

function Card({ children }: { children: React.ReactNode }) {
  return (
    <section className="grid grid-cols-1 justify-items-center gap-3 rounded-2xl bg-card px-6 py-12 text-center shadow-lg">
      {children}
    </section>
  );
}

/** Numbers that customers take for their tracking number. */
function NumberHint({ asked }: { asked: string }) {
  const what = /^ORD\W{0,3}\d+$/.test(asked)
    ? `${asked} is an order number. Your`
    : normalisePhone(asked)
      ? 'That is a phone number. Your'
      : null;
  return what === null ? null : (
    <p className="max-w-prose">
      {what} tracking number begins with JJ, such as JJ-20260131-1234. It is in the email and the text message
      about your order, and on its receipt.
    </p>
  );
}

function Waiting() {
  return (
    <Card>
      <h2 className="text-2xl">From our fridge to your gate</h2>
      <p className="max-w-prose text-ink-soft">
        Enter your number above to see how far your drinks have come. It updates on its own. No need to
        refresh.
      </p>
    </Card>
  );
}
