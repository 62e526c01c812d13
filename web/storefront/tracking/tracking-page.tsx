// An order, loaded by its tracking number and updated live.
import { useEffect, useState } from 'react';
import { redirect } from 'react-router';
import { chatText } from '../../../domain/messages/whatsapp-link.ts';
import { orderLink } from '../../../domain/orders/order-link.ts';
import { describeOtherNumber, normaliseTrackingNumber } from '../../../domain/orders/tracking-number.ts';
import { withTimeout } from '../../../domain/timeout.ts';
import { rememberedOrder } from '../../lib/orders/remembered-orders.ts';
import { shopContext } from '../../lib/shop-context.ts';
import { Icon } from '../../ui/icons.tsx';
import { Notice } from '../../ui/notice.tsx';
import { dismissToast, showToast } from '../../ui/toasts/toasts.tsx';
import { ContactLinks } from '../layout/contact-links.tsx';
import { describePage } from '../layout/page-meta.ts';
import { useShop } from '../layout/use-shop.ts';
import type { Route } from './+types/tracking-page.ts';
import { cancelOrder, failedToCancel } from './cancel-order.ts';
import { OrderSheet } from './order-sheet.tsx';
import { describeOrderStatus } from './order-status.ts';
import { rateOrder } from './rate-order.ts';
import { RevealForm } from './reveal-form.tsx';
import { failedToFetch, lookUpOrder, type OrderLookup, type TrackedOrder } from './tracked-order.ts';
import { TrackingCard, TrackingFrame } from './tracking-frame.tsx';

export const meta: Route.MetaFunction = ({ matches, loaderData }) => {
  const trackingNumber = loaderData?.trackingNumber ?? '';
  return describePage(matches, {
    title: `Order ${trackingNumber}`,
    description: 'See where your order is: from our fridge to your gate, step by step.',
    path: `/track-order/${encodeURIComponent(trackingNumber)}`,
    isPrivate: true,
  });
};

export function headers() {
  return { 'Cache-Control': 'private, no-store', 'Referrer-Policy': 'same-origin' };
}

/** The number in the query takes precedence over the one in the path (docs/product.md#tracking). */
const trackingNumberOf = (url: URL, parameter: string) =>
  normaliseTrackingNumber(url.searchParams.get('tracking') ?? '') || normaliseTrackingNumber(parameter);

export async function loader({ url, params, context }: Route.LoaderArgs) {
  const trackingNumber = trackingNumberOf(url, params.trackingNumber);
  const accessKey = url.searchParams.get('key');
  const readAt = Date.now();
  if (!trackingNumber) throw redirect('/track-order');
  const { tables } = context.get(shopContext).store;
  return {
    trackingNumber,
    accessKey,
    readAt,
    lookup: await lookUpOrder(tables, trackingNumber, { accessKey }),
  };
}

/** Reports a request that does not reach the server as a failed lookup, not a failed page. */
export async function clientLoader({ request, params, serverLoader }: Route.ClientLoaderArgs) {
  try {
    return await withTimeout(serverLoader());
  } catch (error) {
    // Offline, the page may be cached on this device.
    if (error instanceof Response || !navigator.onLine) throw error;
    const url = new URL(request.url);
    const trackingNumber = trackingNumberOf(url, params.trackingNumber);
    return {
      trackingNumber,
      accessKey: url.searchParams.get('key'),
      readAt: Date.now(),
      lookup: failedToFetch,
    };
  }
}

const noProblem = {
  opened: null as TrackedOrder | null,
  problem: null as string | null,
  cancelProblem: null as string | null,
  ratingProblem: null as string | null,
};

/**
 * Reveals the order with the digits of its phone and adds its access key to the URL; or, by its access key, cancels or rates it. Works
 * without JavaScript.
 */
export async function action({ request, url, params, context }: Route.ActionArgs) {
  const form = await request.formData();
  const text = (name: string) => String(form.get(name) ?? '');
  const phoneLastFour = text('digits').trim();
  const { tables } = context.get(shopContext).store;
  const trackingNumber = trackingNumberOf(url, params.trackingNumber);
  if (form.has('cancel')) {
    const accessKey = text('key');
    const cancelProblem = await cancelOrder(tables, trackingNumber, accessKey, text('cancel'));
    if (cancelProblem === null) throw redirect(orderLink('', trackingNumber, accessKey));
    return { ...noProblem, cancelProblem };
  }
  if (form.has('stars')) {
    const accessKey = text('accessKey');
    const rating = {
      stars: Number.parseInt(text('stars'), 10) || 0,
      words: text('words').trim() || null,
      mayQuote: form.has('mayQuote'),
    };
    const ratingProblem = await rateOrder(tables, { id: text('orderId'), accessKey }, rating);
    if (ratingProblem === null) throw redirect(orderLink('', trackingNumber, accessKey));
    return { ...noProblem, ratingProblem };
  }
  const lookup = await lookUpOrder(tables, trackingNumber, { phoneLastFour });
  if (lookup.kind === 'found' && lookup.order.accessKey) {
    throw redirect(orderLink('', lookup.order.trackingNumber, lookup.order.accessKey));
  }
  // Digits do not give the key while the rider, who knows the phone, asks for a code.
  if (lookup.kind === 'found' && !lookup.order.isMasked) return { ...noProblem, opened: lookup.order };
  return {
    opened: null,
    ratingProblem: null,
    problem:
      lookup.kind === 'failed'
        ? lookup.message
        : 'These are not the last four digits of the phone this order was placed with.',
    cancelProblem: null,
  };
}

export async function clientAction({ serverAction }: Route.ClientActionArgs) {
  try {
    return await withTimeout(serverAction());
  } catch (error) {
    if (error instanceof Response) throw error;
    return { ...noProblem, problem: failedToFetch.message, cancelProblem: failedToCancel };
  }
}

export default function TrackingPage({ loaderData, actionData }: Route.ComponentProps) {
  const { trackingNumber, accessKey, lookup, readAt } = loaderData;
  useLookupToast(lookup);
  const found = lookup.kind === 'found' ? lookup.order : null;
  const ownOrder = useOwnOrder(trackingNumber, lookup);
  const order = actionData?.opened ?? (found && (!found.isMasked || !ownOrder) ? found : ownOrder);
  const problem = actionData?.problem ?? null;

  return (
    <TrackingFrame trackingNumber={trackingNumber} isCompact={found !== null}>
      {lookup.kind === 'missing' ? (
        <TrackingCard>
          <span className="grid size-14 place-items-center rounded-pill bg-dusk-100 text-dusk-700">
            <Icon name="search" className="size-6" />
          </span>
          <h2 className="text-2xl">No Order Found</h2>
          <p className="text-ink-soft">Please check your tracking number and try again</p>
          <NumberHint trackingNumber={trackingNumber} />
          <AskUs trackingNumber={trackingNumber} />
        </TrackingCard>
      ) : null}
      {lookup.kind === 'needs digits' && !order ? (
        <TrackingCard>
          <h2 className="text-2xl">
            {lookup.orderNumber}: {describeOrderStatus(lookup.status).label}
          </h2>
          <RevealForm
            problem={problem}
            label="Show my order"
            hint="Is it your order? Enter the last four digits of your phone to see it."
            className="text-left"
          />
        </TrackingCard>
      ) : null}
      {lookup.kind === 'failed' && !order ? (
        <TrackingCard>
          <Notice tone="danger" title="Error">
            {lookup.message}
          </Notice>
          {lookup.isLimited ? (
            <RevealForm
              problem={problem}
              label="Show my order"
              hint="Is it your order? Enter the last four digits of your phone to see it."
              className="text-left"
            />
          ) : (
            <p className="text-sm text-ink-soft">We couldn’t check just now. Please try again.</p>
          )}
          <AskUs trackingNumber={trackingNumber} />
        </TrackingCard>
      ) : null}
      {order ? (
        <OrderSheet
          key={order.trackingNumber}
          order={order}
          accessKey={accessKey}
          readAt={readAt}
          digitsProblem={problem}
          cancelProblem={actionData?.cancelProblem ?? null}
          ratingProblem={actionData?.ratingProblem ?? null}
        />
      ) : null}
    </TrackingFrame>
  );
}

/**
 * The order as seen by the device that placed it, with the stored access key. Null until loaded, and on other
 * devices.
 */
function useOwnOrder(trackingNumber: string, lookup: OrderLookup): TrackedOrder | null {
  const { config } = useShop();
  const [own, setOwn] = useState<TrackedOrder | null>(null);
  useEffect(() => {
    const isOpen = lookup.kind === 'found' && !lookup.order.isMasked;
    const accessKey = isOpen ? null : rememberedOrder(trackingNumber)?.accessKey;
    if (!accessKey) return;
    let isGone = false;
    import('../../../supabase/store.ts').then(
      async ({ createStore }) => {
        const answer = await lookUpOrder(createStore(config).tables, trackingNumber, { accessKey });
        if (!isGone && answer.kind === 'found') setOwn(answer.order);
      },
      // Offline, the last known state stays.
      () => {},
    );
    return () => {
      isGone = true;
    };
  }, [config, trackingNumber, lookup]);
  return own?.trackingNumber === trackingNumber ? own : null;
}

/** A toast for each failed lookup, in addition to the page's own message. */
function useLookupToast(lookup: OrderLookup) {
  useEffect(() => {
    if (lookup.kind === 'missing') {
      showToast({
        topic: 'tracking',
        kind: 'error',
        title: 'Order Not Found',
        text: 'No order found with this tracking number',
      });
    }
    if (lookup.kind === 'failed')
      showToast({ topic: 'tracking', kind: 'error', title: 'Error', text: lookup.message });
    if (lookup.kind === 'found') return;
    // Of the next lookup it would be untrue.
    return () => void dismissToast('tracking').catch(() => {});
  }, [lookup]);
}

function AskUs({ trackingNumber }: { trackingNumber: string }) {
  return (
    <p className="text-sm">
      Need help now? <ContactLinks message={chatText(`order ${trackingNumber}`)} />.
    </p>
  );
}

/** Other numbers that customers mistake for their tracking number. */
function NumberHint({ trackingNumber }: { trackingNumber: string }) {
  const hint = describeOtherNumber(trackingNumber);
  return hint === null ? null : (
    <p className="max-w-text">
      {hint} Your tracking number begins with JJ, such as JJ-20260131-1234. It is in the email and the text
      message about your order, and on its receipt.
    </p>
  );
}
