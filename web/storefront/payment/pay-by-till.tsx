// How to pay without a prompt: the values to enter in M-PESA, each with a copy button.
import { chargeCents, formatKsh } from '../../../domain/money.ts';
import { CopyButton } from '../../ui/copy-button.tsx';
import { useChatLink } from '../layout/chat-link.ts';
import { ContactLinks } from '../layout/contact-links.tsx';
import { useShop } from '../layout/use-shop.ts';
import { usePaymentTexts } from './texts/payment-language.tsx';

interface HandPaidOrder {
  trackingNumber: string;
  /** Cents. */
  total: number;
}

/** Whether the shop has a till or paybill number. */
export function useHasTill(): boolean {
  const { settings } = useShop();
  return settings.till_number !== '' || settings.paybill_number !== '';
}

export function PayByTill({ order }: { order: HandPaidOrder }) {
  const { settings } = useShop();
  const { till_number: till, paybill_number: paybill } = settings;
  const t = usePaymentTexts();
  const charge = chargeCents(order.total);
  const amount = { name: t.amount, value: String(charge / 100), shown: formatKsh(charge), what: 'amount' };
  return (
    <div className="@container grid gap-4">
      <div className="grid items-start gap-4 @2xl:grid-cols-2">
        {till ? (
          <PaymentMethod
            title="Buy Goods"
            path="M-PESA → Lipa na M-PESA → Buy Goods and Services"
            figures={[{ name: t.tillNumber, value: till, what: 'till number' }, amount]}
          />
        ) : null}
        {paybill ? (
          <PaymentMethod
            title="Pay Bill"
            path="M-PESA → Lipa na M-PESA → Pay Bill"
            figures={[
              { name: t.businessNumber, value: paybill, what: 'business number' },
              { name: t.accountNumber, value: order.trackingNumber, what: 'account number' },
              amount,
            ]}
          />
        ) : null}
      </div>
      <p className="text-sm text-ink-soft">
        {t.keepMessage}
        <ReceiptChat trackingNumber={order.trackingNumber} />.
      </p>
    </div>
  );
}

/** Opens a chat with a prepared message. */
export function ReceiptChat({ trackingNumber }: { trackingNumber: string }) {
  const chat = useChatLink(`I have paid order ${trackingNumber} by hand. The M-PESA receipt is `);
  const t = usePaymentTexts();
  return (
    <a
      href={chat}
      target="_blank"
      rel="noreferrer"
      className="font-semibold text-dusk-600 underline underline-offset-2"
    >
      {t.sendReceipt}
    </a>
  );
}

/** Where the shop has neither prompts nor a till: how to reach it. */
export function ContactShop({ trackingNumber }: { trackingNumber: string }) {
  return (
    <p>
      Please <ContactLinks message={`Habari! I would like to pay order ${trackingNumber}.`} />, and we sort
      out the payment with you.
    </p>
  );
}

interface Figure {
  name: string;
  value: string;
  /** If displayed differently from the copied value. */
  shown?: string;
  what: string;
}

function PaymentMethod({ title, path, figures }: { title: string; path: string; figures: Figure[] }) {
  return (
    <section aria-label={title} className="rounded-lg border border-line bg-card px-5 py-3">
      <p className="font-display text-lg font-bold">{title}</p>
      <p className="text-sm text-ink-soft">{path}</p>
      <dl className="mt-2 grid">
        {figures.map(({ name, value, shown, what }) => (
          <div
            key={name}
            className="grid grid-cols-[1fr_auto] items-center gap-x-4 border-t border-line py-2"
          >
            <dt className="text-xs text-ink-soft">{name}</dt>
            <dd className="col-start-1 text-sm font-semibold whitespace-nowrap tabular-nums">
              {shown ?? value}
            </dd>
            <dd className="col-start-2 row-span-2 row-start-1 -mr-3">
              <CopyButton text={value} what={what} />
            </dd>
          </div>
        ))}
      </dl>
    </section>
  );
}
