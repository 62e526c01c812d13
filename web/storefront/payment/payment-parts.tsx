// Parts shared by the states of the payment dialog.
import { formatArrival } from '../../../domain/deliveries/delivery-promise.ts';
import { formatKsh } from '../../../domain/money.ts';
import { formatPhone, normalisePhone } from '../../../domain/people/phone.ts';
import { orderedDrinks } from '../../lib/orders/remembered-orders.ts';
import { CopyButton } from '../../ui/copy-button.tsx';
import { Price, TextWithAmounts } from '../../ui/price.tsx';
import { useShop } from '../layout/use-shop.ts';
import { otherNetworkOf } from './phone-network.ts';
import { english, type PaymentTexts } from './texts/english.ts';
import { usePaymentTexts } from './texts/payment-language.tsx';
import type { PayableOrder } from './use-payment.ts';
import './payment-animations.css';

const maxNamedDrinks = 3;

export function Amount({
  order,
  charge,
}: {
  order: Pick<PayableOrder, 'total' | 'discountCents' | 'trackingNumber' | 'ordered'>;
  charge: number;
}) {
  const t = usePaymentTexts();
  const drinks = orderedDrinks(order.ordered);
  // More would push the phone number off a small screen.
  const named = drinks.length > maxNamedDrinks + 1 ? drinks.slice(0, maxNamedDrinks) : drinks;
  return (
    <div className="rounded-lg bg-dusk-900 px-5 py-4 text-white">
      <p className="flex flex-wrap items-baseline justify-between gap-x-4">
        <span className="text-sm text-dusk-200">{t.youPay}</span>
        <Price cents={charge} className="text-3xl" />
      </p>
      {charge === order.total ? null : (
        <p className="mt-1 text-right text-sm text-dusk-200">
          <TextWithAmounts>{`Your total of ${formatKsh(order.total)}, rounded up to whole shillings`}</TextWithAmounts>
        </p>
      )}
      {order.discountCents ? (
        <p className="mt-1 text-right text-sm text-dusk-200">
          <TextWithAmounts>{`${formatKsh(order.discountCents)} off with your discount code`}</TextWithAmounts>
        </p>
      ) : null}
      {drinks.length > 0 ? (
        <ul aria-label="Drinks" className="mt-3 border-t border-white/15 pt-3 text-sm text-dusk-200">
          {named.map(({ slug, name, quantity }) => (
            <li key={slug} className="wrap-anywhere">
              <span className="tabular-nums">{quantity}</span> × {name}
            </li>
          ))}
          {drinks.length > named.length ? <li>and {drinks.length - named.length} more drinks</li> : null}
        </ul>
      ) : null}
      <p className="mt-3 flex flex-wrap items-baseline justify-between gap-x-4 border-t border-white/15 pt-3 text-sm text-dusk-200">
        {t.trackingNumber}{' '}
        <strong className="font-semibold text-white tabular-nums">{order.trackingNumber}</strong>
      </p>
    </div>
  );
}

interface TrackingNumberProps {
  number: string;
  /** False inside a card. Default: true. */
  isFramed?: boolean;
}

export function TrackingNumber({ number, isFramed = true }: TrackingNumberProps) {
  const t = usePaymentTexts();
  return (
    <div
      className={`flex w-full flex-wrap items-center justify-between gap-x-4 text-left ${isFramed ? 'rounded-lg border border-line bg-card py-2 pr-2 pl-5' : ''}`}
    >
      <p>
        <span className="block text-xs text-ink-soft">{t.trackingNumber}</span>
        <strong className="font-semibold tabular-nums">{number}</strong>
      </p>
      <CopyButton text={number} what="tracking number" isSendable />
    </div>
  );
}

/** @param time ISO date-time; null while it is not known */
export function ArrivesBy({ time }: { time: string | null }) {
  const t = usePaymentTexts();
  const now = Date.now();
  return (
    <p role="status" className="text-lg font-bold empty:hidden">
      {time !== null && Date.parse(time) > now ? t.arrivesBy(formatArrival(time, now)) : null}
    </p>
  );
}

export function PracticeNote({ phone }: { phone: string }) {
  const { config } = useShop();
  if (!config.isSimulated) return null;
  return (
    <p className="rounded-lg border border-ember-200 bg-ember-50 px-5 py-3.5 text-left text-sm">
      <strong>This is practice: no money moves.</strong> The prompt goes to a pretend phone instead of yours.{' '}
      {config.phonePageUrl ? (
        <a
          href={`${config.phonePageUrl}?number=${encodeURIComponent(phone.trim())}`}
          target="_blank"
          rel="noreferrer"
          className="-my-2 inline-block py-3 font-semibold text-ember-700 underline underline-offset-2"
        >
          Open the practice phone
        </a>
      ) : null}
    </p>
  );
}

/** A hint about a number that M-PESA's prompts may not reach. Numbers can be ported, so it refuses nothing. */
export function networkHint(typed = '', texts: PaymentTexts = english): string | undefined {
  const phone = normalisePhone(typed);
  const network = phone && otherNetworkOf(phone);
  return network ? texts.otherNetwork(network) : undefined;
}

export function Steps({ phone, charge }: { phone: string; charge: number }) {
  const t = usePaymentTexts();
  // Amounts and numbers that wrap are hard to compare.
  const steps = [
    phone ? [`${t.checkPhone} `, `(${formatPhone(normalisePhone(phone) ?? phone)})`] : [t.checkPhone],
    [t.stepAmount, formatKsh(charge)],
    [t.stepPin],
  ];
  return (
    <ol className="grid w-full max-w-sm grid-cols-1 gap-2.5 text-left">
      {steps.map(([step, figure], index) => (
        <li key={step} className="flex items-center gap-3">
          <span
            aria-hidden="true"
            className="grid size-7 shrink-0 place-items-center rounded-pill bg-dusk-100 text-sm font-bold text-dusk-700"
          >
            {index + 1}
          </span>
          <span>
            {step}
            {figure ? <span className="whitespace-nowrap">{figure}</span> : null}
          </span>
        </li>
      ))}
    </ol>
  );
}

export function RingingPhone() {
  return (
    <span aria-hidden="true" className="payment-phone relative grid size-28 place-items-center">
      <span className="payment-ripple" />
      <span className="payment-ripple" />
      <svg
        viewBox="0 0 48 80"
        width="48"
        height="80"
        aria-hidden="true"
        className="relative h-20"
        fill="none"
      >
        <rect x="2" y="2" width="44" height="76" rx="9" className="fill-dusk-900" />
        <rect x="6.500" y="10" width="35" height="56" rx="3" className="fill-paper" />
        <rect x="10.500" y="20" width="27" height="26" rx="4" className="fill-leaf-100" />
        <path d="M15 27h18M15 32h12" strokeWidth="2.500" strokeLinecap="round" className="stroke-leaf-700" />
        <path
          d="M16 40h.01M21 40h.01M26 40h.01M31 40h.01"
          strokeWidth="3.500"
          strokeLinecap="round"
          className="stroke-leaf-700"
        />
        <circle cx="24" cy="72" r="2.500" className="fill-dusk-500" />
      </svg>
    </span>
  );
}

export function Spinner() {
  return (
    <span
      aria-hidden="true"
      className="inline-block size-5 animate-spin rounded-pill border-[3px] border-current/25 border-t-current forced-colors:border-t-[Highlight] motion-reduce:[animation-duration:2.5s]"
    />
  );
}
