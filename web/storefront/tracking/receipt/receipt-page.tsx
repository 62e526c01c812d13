// The receipt of a paid order, to save or print: items, payments and refunds.
import { useEffect, useState } from 'react';
import { Link, redirect, useNavigate } from 'react-router';
import { formatKsh } from '../../../../domain/money.ts';
import { describeDiscount } from '../../../../domain/orders/discount.ts';
import { orderLink } from '../../../../domain/orders/order-link.ts';
import { normaliseTrackingNumber } from '../../../../domain/orders/tracking-number.ts';
import { formatPhone } from '../../../../domain/people/phone.ts';
import { withTimeout } from '../../../../domain/timeout.ts';
import { formatOrderDate } from '../../../lib/orders/order-date.ts';
import { describeOrder, totalLines } from '../../../lib/orders/order-meaning.ts';
import { rememberedOrder } from '../../../lib/orders/remembered-orders.ts';
import { shopContext } from '../../../lib/shop-context.ts';
import { Badge } from '../../../ui/badge.tsx';
import { Button, buttonStyle } from '../../../ui/button.tsx';
import { Icon } from '../../../ui/icons.tsx';
import { Notice } from '../../../ui/notice.tsx';
import { sellerColumns, sellerLines } from '../../contact/seller.ts';
import { Wordmark } from '../../layout/header/wordmark.tsx';
import { describePage } from '../../layout/page-meta.ts';
import { useShop } from '../../layout/use-shop.ts';
import { RevealForm } from '../reveal-form.tsx';
import { failedToFetch } from '../tracked-order.ts';
import type { Route } from './+types/receipt-page.ts';
import { lookUpReceipt, type OrderReceipt, type ReceiptPayment } from './order-receipt.ts';
import './receipt-page.css';

export const meta: Route.MetaFunction = ({ matches, loaderData }) => {
  const trackingNumber = loaderData?.trackingNumber ?? '';
  return describePage(matches, {
    title: `Receipt ${trackingNumber}`,
    description: 'What was bought, what was paid and when.',
    path: `/track-order/${encodeURIComponent(trackingNumber)}/receipt`,
    isPrivate: true,
  });
};

export function headers() {
  return {
    'Cache-Control': 'private, no-store',
    'Referrer-Policy': 'same-origin',
    'X-Robots-Tag': 'noindex',
  };
}

export async function loader({ url, params, context }: Route.LoaderArgs) {
  const trackingNumber = normaliseTrackingNumber(params.trackingNumber);
  const accessKey = url.searchParams.get('key');
  const { tables } = context.get(shopContext).store;
  const [lookup, settings] = await Promise.all([
    lookUpReceipt(tables, trackingNumber, { accessKey }),
    tables.from('store_settings').select(sellerColumns).single(),
  ]);
  return { trackingNumber, accessKey, lookup, seller: settings.data ? sellerLines(settings.data) : [] };
}

/** Opens the receipt with the digits of the order's phone and adds its access key to the URL. Works without JavaScript. */
export async function action({ request, params, context }: Route.ActionArgs) {
  const phoneLastFour = String((await request.formData()).get('digits') ?? '').trim();
  const { tables } = context.get(shopContext).store;
  const trackingNumber = normaliseTrackingNumber(params.trackingNumber);
  const lookup = await lookUpReceipt(tables, trackingNumber, { phoneLastFour });
  if (lookup.kind === 'found' && lookup.receipt.accessKey)
    throw redirect(orderLink('', trackingNumber, lookup.receipt.accessKey, 'receipt'));
  // Digits do not give the key while the rider, who knows the phone, asks for a code.
  if (lookup.kind === 'found') return { opened: lookup, problem: null };
  return {
    opened: null,
    problem:
      lookup.kind === 'failed'
        ? lookup.message
        : 'These are not the last four digits of the phone this order was placed with.',
  };
}

export async function clientAction({ serverAction }: Route.ClientActionArgs) {
  try {
    return await withTimeout(serverAction());
  } catch (error) {
    if (error instanceof Response) throw error;
    return { opened: null, problem: failedToFetch.message };
  }
}

export default function ReceiptPage({ loaderData, actionData }: Route.ComponentProps) {
  const { trackingNumber, accessKey } = loaderData;
  const lookup = actionData?.opened ?? loaderData.lookup;
  useRememberedKey(trackingNumber, lookup.kind !== 'found' && accessKey === null);
  return (
    <div className="page grid max-w-3xl grid-cols-1 gap-6 pt-8 md:pt-12">
      <div className="flex flex-wrap items-center justify-between gap-3 print:hidden">
        <Link
          to={orderLink('', trackingNumber, accessKey)}
          className="inline-flex min-h-11 items-center gap-2 font-semibold text-dusk-600 underline underline-offset-2"
        >
          <Icon name="chevron" className="size-4 rotate-90" />
          Back to the order
        </Link>
        {lookup.kind === 'found' && lookup.receipt.payments.length > 0 ? <PrintButton /> : null}
      </div>
      {lookup.kind === 'found' ? (
        <Receipt receipt={lookup.receipt} accessKey={accessKey} seller={loaderData.seller} />
      ) : (
        <section className="grid gap-4 rounded-2xl bg-card px-5 py-8 shadow-lg sm:px-8">
          <h1 className="text-3xl font-extrabold">Receipt</h1>
          {lookup.kind === 'closed' || (lookup.kind === 'failed' && lookup.isLimited) ? (
            <>
              <p className="text-ink-soft">
                Only the customer of order {trackingNumber} can see its receipt.
              </p>
              <RevealForm
                problem={actionData?.problem ?? null}
                label="Show receipt"
                hint="Enter the last four digits of your phone to see it."
                className="max-w-sm"
              />
            </>
          ) : lookup.kind === 'missing' ? (
            <p className="text-ink-soft">
              There is no order with this number. Please check your tracking number and try again.
            </p>
          ) : (
            <>
              <Notice tone="danger" title="Error">
                {lookup.message}
              </Notice>
              <Link
                reloadDocument
                to={orderLink('', trackingNumber, accessKey, 'receipt')}
                className={`${buttonStyle('outline')} justify-self-start`}
              >
                Try again
              </Link>
            </>
          )}
        </section>
      )}
    </div>
  );
}

/** The device that placed the order may see its receipt: adds its access key to the URL. */
function useRememberedKey(trackingNumber: string, isWanted: boolean) {
  const navigate = useNavigate();
  useEffect(() => {
    const key = isWanted ? rememberedOrder(trackingNumber)?.accessKey : null;
    if (key) void navigate(orderLink('', trackingNumber, key, 'receipt'), { replace: true });
  }, [trackingNumber, isWanted, navigate]);
}

function PrintButton() {
  // Without JavaScript the browser's own menu prints.
  const [isAwake, setAwake] = useState(false);
  useEffect(() => setAwake(true), []);
  return isAwake ? (
    <Button tone="dusk" onClick={() => window.print()}>
      Print
    </Button>
  ) : null;
}

interface ReceiptProps {
  receipt: OrderReceipt;
  accessKey: string | null;
  seller: ReturnType<typeof sellerLines>;
}

function Receipt({ receipt, accessKey, seller }: ReceiptProps) {
  const { settings } = useShop();
  // The state of a paid order does not depend on the time.
  const meaning = describeOrder(receipt, 0);
  if (receipt.payments.length === 0) {
    return (
      <section className="grid justify-items-start gap-4 rounded-2xl bg-card px-5 py-8 shadow-lg sm:px-8">
        <h1 className="text-3xl font-extrabold">Receipt</h1>
        <p className="text-ink-soft">
          {meaning.canPay ? 'There is a receipt once the order is paid.' : meaning.text}
        </p>
        <Link to={orderLink('', receipt.trackingNumber, accessKey)} className={buttonStyle('leaf')}>
          Go to the order
        </Link>
      </section>
    );
  }
  return (
    <article
      aria-labelledby="receipt"
      className="receipt grid grid-cols-1 gap-7 wrap-anywhere rounded-2xl bg-card px-5 py-7 shadow-lg sm:px-9 sm:py-9"
    >
      <header className="flex flex-wrap items-start justify-between gap-x-8 gap-y-4">
        <div className="grid gap-2">
          <Wordmark name={settings.store_name} />
          <p className="text-sm text-ink-soft">
            {formatPhone(settings.support_phone)}
            <br />
            {settings.support_email}
            {seller.map(({ name, value }) => (
              <span key={name} className="block">
                {name}: {value}
              </span>
            ))}
          </p>
        </div>
        <div className="grid justify-items-start gap-2 sm:justify-items-end">
          <h1 id="receipt" className="text-3xl font-extrabold">
            Receipt
          </h1>
          <Badge tone={meaning.paymentLabel.colour}>{meaning.paymentLabel.text}</Badge>
        </div>
      </header>

      {meaning.tone === 'done' ? null : <p className="font-semibold">{meaning.summary}</p>}

      <dl className="grid grid-cols-1 gap-x-8 gap-y-4 border-y border-line py-5 sm:grid-cols-2">
        <Fact name="Order">
          <span className="tabular-nums">{receipt.trackingNumber}</span>
        </Fact>
        <Fact name="Order date">
          <time dateTime={receipt.createdAt}>{formatOrderDate(receipt.createdAt)}</time>
        </Fact>
        <Fact name="Customer">
          {receipt.customerName}
          <br />
          <span className="font-normal tabular-nums">{formatPhone(receipt.customerPhone)}</span>
          {receipt.address ? (
            <>
              <br />
              <span className="font-normal">{receipt.address}</span>
            </>
          ) : null}
        </Fact>
      </dl>

      <Items receipt={receipt} />

      <section aria-labelledby="payments" className="grid grid-cols-1 gap-3">
        <h2 id="payments" className="text-xl">
          {receipt.payments.length === 1 ? 'Payment' : 'Payments'}
        </h2>
        <ul className="grid grid-cols-1 gap-4">
          {receipt.payments.map((payment) => (
            <Payment key={payment.id} payment={payment} isRefunded={meaning.kind === 'refunded'} />
          ))}
        </ul>
      </section>

      <p className="border-t border-line pt-5 text-sm text-ink-soft">
        {meaning.tone === 'done' ? `Asante for ordering from ${settings.store_name}. ` : ''}Questions? Call{' '}
        {formatPhone(settings.support_phone)} and name the order {receipt.trackingNumber}.
      </p>
    </article>
  );
}

function Items({ receipt }: { receipt: OrderReceipt }) {
  const { total, rounding } = totalLines(receipt);
  return (
    <table className="w-full text-left tabular-nums">
      <caption className="sr-only">What was bought</caption>
      <thead>
        <tr className="text-sm text-ink-soft">
          <th scope="col" className="pb-2 font-semibold">
            Item
          </th>
          <th scope="col" className="pb-2 pl-3 text-right font-semibold">
            Amount
          </th>
        </tr>
      </thead>
      <tbody>
        {receipt.items.map(({ id, name, quantity, unitPrice }) => (
          <tr key={id} className="border-t border-line align-baseline">
            <td className="py-2.5">
              <span className="block font-semibold wrap-anywhere">{name}</span>
              <span className="block text-sm text-ink-soft">
                {quantity} × {formatKsh(unitPrice)}
              </span>
            </td>
            <td className="py-2.5 pl-3 text-right min-[20rem]:whitespace-nowrap">
              {formatKsh(quantity * unitPrice)}
            </td>
          </tr>
        ))}
      </tbody>
      <tfoot>
        {receipt.discountCents > 0 ? (
          <tr className="border-t border-line">
            <th scope="row" className="pt-3 font-normal text-ink-soft wrap-anywhere">
              {describeDiscount(receipt.discount?.code)}
            </th>
            <td className="pt-3 pl-3 text-right min-[20rem]:whitespace-nowrap">
              −{formatKsh(receipt.discountCents)}
            </td>
          </tr>
        ) : null}
        <tr className={receipt.discountCents > 0 ? '' : 'border-t border-line'}>
          <th
            scope="row"
            className={`font-normal text-ink-soft ${receipt.discountCents > 0 ? 'pt-1' : 'pt-3'}`}
          >
            Delivery fee
          </th>
          <td
            className={`${receipt.discountCents > 0 ? 'pt-1' : 'pt-3'} pl-3 text-right min-[20rem]:whitespace-nowrap`}
          >
            {receipt.deliveryFee === 0 ? 'Free' : formatKsh(receipt.deliveryFee)}
          </td>
        </tr>
        {rounding > 0 ? (
          <tr>
            <th scope="row" className="pt-1 font-normal text-ink-soft">
              Rounded up to whole shillings
            </th>
            <td className="pt-1 pl-3 text-right min-[20rem]:whitespace-nowrap">{formatKsh(rounding)}</td>
          </tr>
        ) : null}
        <tr className="text-lg font-bold">
          <th scope="row" className="pt-1">
            Total
          </th>
          <td className="pt-1 pl-3 text-right min-[20rem]:whitespace-nowrap">
            {formatKsh(total ?? receipt.total)}
          </td>
        </tr>
      </tfoot>
    </table>
  );
}

function Payment({ payment, isRefunded }: { payment: ReceiptPayment; isRefunded: boolean }) {
  const {
    chargeCents: paidCents,
    receipt,
    completedAt,
    refundedAt,
    refundReceipt,
    isSurplus,
    isCash,
    isCredit,
    partsBack,
    credit,
  } = payment;
  const wasSentBack = refundedAt !== null || (isRefunded && !isSurplus);
  return (
    <li className="grid grid-cols-1 gap-1 rounded-lg bg-paper px-4 py-3.5">
      <p className="flex flex-wrap items-baseline justify-between gap-x-4">
        <span className="font-bold tabular-nums">
          {formatKsh(paidCents)} {isCredit ? 'from your credit' : isCash ? 'in cash' : 'by M-PESA'}
        </span>
        {completedAt ? (
          <time dateTime={completedAt} className="text-sm text-ink-soft">
            {formatOrderDate(completedAt)}
          </time>
        ) : null}
      </p>
      {isCash || isCredit ? null : (
        <p className="text-sm">
          M-PESA receipt:{' '}
          {receipt ? (
            <strong className="tracking-wide">{receipt}</strong>
          ) : (
            'not known yet. It is in the message on the phone that paid.'
          )}
        </p>
      )}
      {wasSentBack ? (
        <p className="text-sm font-semibold">
          {isCredit ? 'Your credit again' : isCash ? 'Given back in cash' : 'Sent back by M-PESA'}
          {refundedAt ? (
            <>
              {' '}
              on <time dateTime={refundedAt}>{formatOrderDate(refundedAt)}</time>
            </>
          ) : null}
          {refundReceipt ? <>, receipt {refundReceipt}</> : null}
        </p>
      ) : isSurplus && credit < paidCents ? (
        <p className="text-sm font-semibold">
          Paid beyond what was due: this money goes back to the phone that paid.
        </p>
      ) : null}
      {partsBack.map(({ cents, receipt: backReceipt, isCash: inCash, at }) => (
        <p key={`${at} ${cents} ${backReceipt}`} className="text-sm font-semibold">
          {formatKsh(cents)} went back to you{inCash ? ' in cash' : ''}
          {at ? (
            <>
              {' '}
              on <time dateTime={at}>{formatOrderDate(at)}</time>
            </>
          ) : null}
          {backReceipt ? <>, receipt {backReceipt}</> : null}
        </p>
      ))}
      {credit > 0 ? (
        <p className="text-sm font-semibold">{formatKsh(credit)} of it is kept for your next order.</p>
      ) : null}
    </li>
  );
}

function Fact({ name, children }: { name: string; children: React.ReactNode }) {
  return (
    <div>
      <dt className="text-sm text-ink-soft">{name}</dt>
      <dd className="font-semibold break-words">{children}</dd>
    </div>
  );
}
