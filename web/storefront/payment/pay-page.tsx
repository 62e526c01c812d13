// Payment as a page: without JavaScript, or if the dialog's code does not load. It does not update by itself;
// customers press a button to check the result.
import { data, Form, Link, redirect, useNavigation } from 'react-router';
import { chargeCents, formatKsh } from '../../../domain/money.ts';
import { adviseAfterFailure, describePaymentFailure } from '../../../domain/mpesa/payment-result.ts';
import { orderLink } from '../../../domain/orders/order-link.ts';
import { normaliseTrackingNumber } from '../../../domain/orders/tracking-number.ts';
import { formatPhone, normalisePhone } from '../../../domain/people/phone.ts';
import { withTimeout } from '../../../domain/timeout.ts';
import { describeOrder } from '../../lib/orders/order-meaning.ts';
import { toOrdered } from '../../lib/orders/remembered-orders.ts';
import { shopContext } from '../../lib/shop-context.ts';
import { Button, buttonStyle } from '../../ui/button.tsx';
import { TextField } from '../../ui/field.tsx';
import { Notice } from '../../ui/notice.tsx';
import { useShop } from '../layout/use-shop.ts';
import { lookUpOrder } from '../tracking/tracked-order.ts';
import type { Route } from './+types/pay-page.ts';
import { chooseCash } from './choose-cash.ts';
import { ContactShop, PayByTill, useHasTill } from './pay-by-till.tsx';
import {
  checkPayment,
  initiatePayment,
  isInReview,
  noAnswerText,
  type OpenPrompt,
  PaymentRefusal,
} from './payment-calls.ts';
import { Amount, networkHint, PracticeNote } from './payment-parts.tsx';
import { english } from './texts/english.ts';

export const meta: Route.MetaFunction = () => [
  { title: 'Pay with M-PESA' },
  { name: 'robots', content: 'noindex' },
];

export function headers() {
  return { 'Cache-Control': 'private, no-store', 'Referrer-Policy': 'same-origin' };
}

/** How long a page may wait for the prompt to be sent, in ms, before it checks again. */
const retryDelaysMs = [1000];

/** How long the page waits for the state of the prompt, in ms. */
const longest = 60_000;

async function unpaidOrder({ url, params, context }: Pick<Route.LoaderArgs, 'url' | 'params' | 'context'>) {
  const trackingNumber = normaliseTrackingNumber(params.trackingNumber);
  const accessKey = url.searchParams.get('key');
  const lookup = await lookUpOrder(context.get(shopContext).store.tables, trackingNumber, { accessKey });
  const order = lookup.kind === 'found' ? lookup.order : null;
  // Other states are shown on the order's page, which also requests the proof required for paying.
  if (!order?.id || !order.details || !describeOrder(order, Date.now()).canPay)
    throw redirect(orderLink('', trackingNumber, accessKey));
  const { total, discountCents, customerPhone, items } = order.details;
  const { paysCash } = order;
  const ordered = toOrdered(
    items.map(({ id, slug, name, quantity }) => ({ slug: slug ?? id, name, quantity })),
  );
  const { arePromptsPaused: isPaused } = order;
  return {
    order: { orderId: order.id, trackingNumber, total, discountCents, ordered },
    customerPhone,
    accessKey: order.accessKey ?? accessKey,
    isPaused,
    paysCash,
  };
}

export async function loader({ url, params, context }: Route.LoaderArgs) {
  // A redirect or an error of the form reads the page again, and with it whether prompts are paused.
  const { order, customerPhone, accessKey, isPaused, paysCash } = await unpaidOrder({
    url,
    params,
    context,
  });
  const request = url.searchParams.get('request');
  const ownPhone = formatPhone(customerPhone).replaceAll(' ', '');
  const { functions } = context.get(shopContext).store;
  const answer = request ? await checkPayment(functions, request).catch(() => null) : null;
  // A received payment is shown with the order.
  if (answer?.status === 'completed' || answer?.status === 'review')
    throw redirect(orderLink('', order.trackingNumber, accessKey));
  return {
    order: { ...order, paymentReference: request },
    // For the chat.
    trackingNumber: order.trackingNumber,
    phone: askedPhone(url) ?? ownPhone,
    isOtherPhone: askedPhone(url) !== null,
    accessKey,
    isAwaited: request !== null,
    failure: answer?.status === 'failed' ? describePaymentFailure(answer.resultCode) : null,
    advice: answer?.status === 'failed' ? adviseAfterFailure(answer.resultCode) : null,
    isPaused,
    paysCash,
    isAskedForCash: url.searchParams.has('cash'),
  };
}

/** The phone that was asked, where it is not the order's: otherwise the next prompt would go to another one. */
function askedPhone(url: URL): string | null {
  const phone = url.searchParams.get('phone');
  return phone && normalisePhone(phone) ? phone : null;
}

/** Sends the prompt and redirects to the same page, which then shows its outcome. */
export async function action({ request, url, params, context }: Route.ActionArgs) {
  const form = await request.formData();
  if (form.get('way') === 'cash') return payCash({ url, params, context });
  const phone = String(form.get('phone') ?? '').trim();
  if (!normalisePhone(phone)) {
    return data({ phone, problem: english.phoneProblem, refusal: null }, 400);
  }
  const { order, accessKey, customerPhone } = await unpaidOrder({ url, params, context });
  const { orderId, trackingNumber, total } = order;
  let prompt: OpenPrompt;
  try {
    prompt = await initiatePayment(
      context.get(shopContext).store.functions,
      { phoneNumber: phone, amount: total, trackingNumber, orderId },
      retryDelaysMs,
    );
  } catch (error) {
    if (!(error instanceof PaymentRefusal)) throw error;
    if (isInReview(error)) throw redirect(orderLink('', trackingNumber, accessKey));
    return data({ phone, problem: null, refusal: error.message }, 409);
  }
  if (prompt.promptedPhone) {
    return data({ phone, problem: null, refusal: english.answerThatOne(prompt.promptedPhone) }, 409);
  }
  const parameters = new URLSearchParams({
    ...(accessKey ? { key: accessKey } : {}),
    request: prompt.paymentReference,
    ...(normalisePhone(phone) === normalisePhone(customerPhone) ? {} : { phone }),
  });
  throw redirect(`/track-order/${trackingNumber}/pay?${parameters}`);
}

/** Chooses cash at the door, and redirects to the order's page, which says what happens now. */
async function payCash(page: Pick<Route.ActionArgs, 'url' | 'params' | 'context'>) {
  const { order, accessKey, customerPhone } = await unpaidOrder(page);
  const { tables } = page.context.get(shopContext).store;
  const refusal =
    accessKey === null
      ? 'Please open this page by the link of your order.'
      : await chooseCash(tables, { ...order, accessKey });
  if (refusal === null) throw redirect(orderLink('', order.trackingNumber, accessKey));
  return data({ phone: formatPhone(customerPhone).replaceAll(' ', ''), problem: null, refusal }, 409);
}

/** The prompt may have been sent: a repeated request finds it. */
export async function clientAction({ request, serverAction }: Route.ClientActionArgs) {
  const sent = await request.clone().formData();
  try {
    return await withTimeout(serverAction(), longest);
  } catch (error) {
    if (error instanceof Response) throw error;
    return { phone: String(sent.get('phone') ?? ''), problem: null, refusal: noAnswerText };
  }
}

export default function PayPage({ loaderData, actionData }: Route.ComponentProps) {
  const { order, accessKey, isAwaited, failure, advice, isPaused, paysCash } = loaderData;
  const isBusy = useNavigation().state !== 'idle';
  const hasTill = useHasTill();
  const phone = actionData?.phone ?? loaderData.phone;
  const problem = actionData?.refusal ?? failure;
  const isWaiting = isAwaited && failure === null && !actionData;
  const isByHand = isPaused && !isWaiting;
  const charge = chargeCents(order.total);
  const { settings } = useShop();
  const offersCash = settings.offers_cash && accessKey !== null && !paysCash && !isWaiting;
  const isCash = offersCash && loaderData.isAskedForCash;
  const promptPage = `/track-order/${order.trackingNumber}/pay?key=${accessKey ?? ''}`;
  return (
    <section aria-labelledby="pay" className="page grid max-w-2xl gap-6 pt-8 md:pt-14">
      <header className="grid grid-cols-1 gap-1">
        <h1 id="pay" className="text-4xl font-extrabold">
          {isWaiting
            ? english.checkPhone
            : isCash
              ? english.askCash
              : isByHand && hasTill
                ? english.payAnotherWay
                : english.payTitle}
        </h1>
        <p className="text-ink-soft">
          {isWaiting
            ? 'Enter your M-PESA PIN in the prompt to confirm, then come back here.'
            : isCash
              ? english.askCashHow
              : isByHand
                ? 'M-PESA prompts do not work right now. Your order is saved.'
                : english.payHow}
        </p>
      </header>
      <div className="grid grid-cols-1 gap-6 rounded-2xl bg-card p-5 shadow-lg md:p-8">
        {problem && !isByHand && !isCash ? (
          <Notice tone="danger" title={problem}>
            {advice}{' '}
            {failure && !actionData
              ? `${english.askedPhone}: ${formatPhone(normalisePhone(phone) ?? phone)}`
              : null}
          </Notice>
        ) : null}
        <Amount order={order} charge={charge} />
        {isWaiting ? (
          <>
            <p role="status" className="rounded-lg bg-paper-deep px-5 py-4">
              M-PESA hasn't confirmed yet. You can close this page: we keep checking, and your order's page
              shows the result.
            </p>
            <Form className="grid">
              {accessKey ? <input type="hidden" name="key" value={accessKey} /> : null}
              <input type="hidden" name="request" value={order.paymentReference ?? ''} />
              {loaderData.isOtherPhone ? <input type="hidden" name="phone" value={phone} /> : null}
              <Button type="submit" size="large" isBusy={isBusy}>
                I have entered my PIN
              </Button>
            </Form>
          </>
        ) : isCash ? (
          <>
            <Form method="post" className="grid grid-cols-1 gap-5">
              <input type="hidden" name="way" value="cash" />
              <p>{english.haveReady(formatKsh(charge))}</p>
              {actionData?.refusal ? <Notice tone="danger" title={actionData.refusal} /> : null}
              <Button type="submit" size="large" isBusy={isBusy}>
                {isBusy ? `${english.oneMoment}…` : english.chooseCash}
              </Button>
            </Form>
            <Link to={promptPage} className={buttonStyle('quiet')}>
              {english.payByMpesa}
            </Link>
          </>
        ) : isByHand ? (
          hasTill ? (
            <PayByTill order={order} />
          ) : (
            <ContactShop trackingNumber={order.trackingNumber} />
          )
        ) : (
          <Form method="post" className="grid grid-cols-1 gap-5">
            <TextField
              label={english.phoneLabel}
              type="tel"
              inputMode="tel"
              autoComplete="tel"
              name="phone"
              required
              placeholder="0712345678 or 254712345678"
              defaultValue={phone}
              hint={networkHint(phone)}
              problem={actionData?.problem ?? undefined}
            />
            <PracticeNote phone={phone} />
            <Button type="submit" size="large" isBusy={isBusy}>
              {isBusy ? english.sending : english.pay(formatKsh(charge))}
            </Button>
          </Form>
        )}
        {offersCash && !isCash ? (
          <Link
            to={`${promptPage}&cash=ask`}
            className="-my-2 justify-self-start py-3 font-semibold text-dusk-600 underline underline-offset-2"
          >
            {english.payInCash(formatKsh(charge))}
          </Link>
        ) : null}
        <a href={orderLink('', order.trackingNumber, accessKey)} className={buttonStyle('quiet')}>
          Track your order
        </a>
      </div>
      {hasTill && !isWaiting && !isByHand && !isCash ? (
        <div className="grid grid-cols-1 gap-3">
          <h2 className="text-2xl">{english.withoutPrompt}</h2>
          <PayByTill order={order} />
        </div>
      ) : null}
    </section>
  );
}
