// An order, looked up by its tracking number and followed live.
import { useEffect, useState } from 'react';
import { redirect } from 'react-router';
import { orderLink } from '../../../domain/order-link.ts';
import { describeOtherNumber, normaliseTrackingNumber } from '../../../domain/tracking-number.ts';
import { rememberedOrder } from '../../lib/remembered-orders.ts';
import { shopContext } from '../../lib/shop-context.ts';
import { withTimeout } from '../../lib/timeout.ts';
import { Icon } from '../../ui/icons.tsx';
import { Notice } from '../../ui/notice.tsx';
import { showToast } from '../../ui/toasts.tsx';
import { describePage } from '../layout/page-meta.ts';
import { useShop } from '../layout/use-shop.ts';
import type { Route } from './+types/tracking-page.ts';
import { OrderSheet } from './order-sheet.tsx';
import { RevealForm } from './reveal-form.tsx';
import { failedToFetch, type LookUp, lookUpOrder, type TrackedOrder } from './tracked-order.ts';
import { TrackingCard, TrackingFrame } from './tracking-frame.tsx';

export const meta: Route.MetaFunction = ({ matches, loaderData }) => {
  const asked = loaderData?.asked ?? '';
  return describePage(matches, {
    title: `Order ${asked}`,
    description: 'See where your order is: from our fridge to your gate, step by step.',
    path: `/track-order/${encodeURIComponent(asked)}`,
    isPrivate: true,
  });
};

export function headers() {
  return { 'Cache-Control': 'private, no-store', 'Referrer-Policy': 'same-origin' };
}

/** The number in the query takes precedence over the one in the path (specification §2, Order tracking). */
const askedNumber = (url: URL, parameter: string) =>
  normaliseTrackingNumber(url.searchParams.get('tracking') ?? '') || normaliseTrackingNumber(parameter);

export async function loader({ url, params, context }: Route.LoaderArgs) {
  const asked = askedNumber(url, params.trackingNumber);
  const accessKey = url.searchParams.get('key');
  const readAt = Date.now();
  if (!asked) throw redirect('/track-order');
  const { tables } = context.get(shopContext).store;
  return { asked, accessKey, readAt, lookUp: await lookUpOrder(tables, asked, { accessKey }) };
}

/** A look-up that does not reach the server is a failed look-up, not a failed page. */
export async function clientLoader({ request, params, serverLoader }: Route.ClientLoaderArgs) {
  try {
    return await withTimeout(serverLoader());
  } catch (error) {
    // Offline, the page may be cached on this device.
    if (error instanceof Response || !navigator.onLine) throw error;
    const url = new URL(request.url);
    const asked = askedNumber(url, params.trackingNumber);
    return {
      asked,
      accessKey: url.searchParams.get('key'),
      readAt: Date.now(),
      lookUp: failedToFetch,
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
    return await withTimeout(serverAction());
  } catch (error) {
    if (error instanceof Response) throw error;
    return { problem: failedToFetch.message };
  }
}

export default function TrackingPage({ loaderData, actionData }: Route.ComponentProps) {
  const { asked, accessKey, lookUp, readAt } = loaderData;
  useLookUpToast(lookUp);
  const found = lookUp.kind === 'found' ? lookUp.order : null;
  const own = useOwnOrder(asked, lookUp);
  const order = found && (!found.isMasked || !own) ? found : own;
  const problem = actionData?.problem ?? null;

  return (
    <TrackingFrame asked={asked} isCompact={found !== null}>
      {lookUp.kind === 'missing' ? (
        <TrackingCard>
          <span className="grid size-14 place-items-center rounded-pill bg-dusk-100 text-dusk-700">
            <Icon name="search" className="size-6" />
          </span>
          <h2 className="text-2xl">No Order Found</h2>
          <p className="text-ink-soft">Please check your tracking number and try again</p>
          <NumberHint asked={asked} />
        </TrackingCard>
      ) : null}
      {lookUp.kind === 'failed' && !order ? (
        <TrackingCard>
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
        </TrackingCard>
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
    </TrackingFrame>
  );
}

/** The order as the device that placed it may see it: with the access key it remembers. Null until then, and elsewhere. */
function useOwnOrder(asked: string, lookUp: LookUp): TrackedOrder | null {
  const { config } = useShop();
  const [own, setOwn] = useState<TrackedOrder | null>(null);
  useEffect(() => {
    const isOpen = lookUp.kind === 'found' && !lookUp.order.isMasked;
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

/** A toast for each failed lookup, besides the page's own message. */
function useLookUpToast(lookUp: LookUp) {
  useEffect(() => {
    if (lookUp.kind === 'missing') {
      showToast({
        topic: 'tracking',
        kind: 'error',
        title: 'Order Not Found',
        text: 'No order found with this tracking number',
      });
    }
    if (lookUp.kind === 'failed')
      showToast({ topic: 'tracking', kind: 'error', title: 'Error', text: lookUp.message });
  }, [lookUp]);
}

/** Numbers that customers take for their tracking number. */
function NumberHint({ asked }: { asked: string }) {
  const what = describeOtherNumber(asked);
  return what === null ? null : (
    <p className="max-w-prose">
      {what} Your tracking number begins with JJ, such as JJ-20260131-1234. It is in the email and the text
      message about your order, and on its receipt.
    </p>
  );
}
