// The button that opens the payment of an unpaid order.
import { lazy, Suspense, useState } from 'react';
import type { OrderMeaning } from '../../lib/orders/order-meaning.ts';
import { rememberedOrder } from '../../lib/orders/remembered-orders.ts';
import { Button, type ButtonSize } from '../../ui/button.tsx';
import { useDialogCode } from '../layout/use-dialog-code.ts';
import type { PayableOrder } from './use-payment.ts';

const loadPaymentDialog = () => import('./payment-dialog.tsx');
const PaymentDialog = lazy(loadPaymentDialog);
const preparePaymentDialog = () => void loadPaymentDialog().catch(() => {});

interface PayNowProps {
  /** `orderId` is null until the customer has proved that the order is theirs; `total` is null while hidden. */
  order: Omit<PayableOrder, 'paymentReference' | 'orderId' | 'total'> & {
    orderId: string | null;
    total: number | null;
  };
  /** Null while unknown. */
  meaning: OrderMeaning | null;
  /** URL of the page that replaces the dialog. */
  accessKey: string | null;
  isOffered: boolean;
  size?: ButtonSize;
  className?: string;
}

/** The button stays mounted when the order is paid, as the dialog may still be open. */
export function PayNow({
  order,
  meaning,
  accessKey,
  isOffered,
  size = 'large',
  className = 'grid',
}: PayNowProps) {
  const [isOpen, setOpen] = useState(false);
  // The order that was opened last. Its dialog stays mounted, so that its closing animation shows.
  const [opened, setOpened] = useState<PayableOrder | null>(null);
  const { form, isLoadingCode, isConnectionLost, fetchCode } = useDialogCode(loadPaymentDialog);

  async function open() {
    if (!(await fetchCode())) return;
    // Read on press: the page may be outdated, and an open prompt must not be sent again.
    const remembered = rememberedOrder(order.trackingNumber);
    const orderId = order.orderId ?? remembered?.orderId;
    const total = order.total ?? remembered?.total;
    if (orderId === undefined || total === undefined) return;
    setOpened({
      orderId,
      trackingNumber: order.trackingNumber,
      total,
      phone: remembered?.phone ?? order.phone,
      paymentReference: remembered?.paymentReference ?? null,
      ordered: remembered?.ordered,
      accessKey: remembered?.accessKey ?? accessKey,
      wasPrompted: remembered?.wasPrompted,
    });
    setOpen(true);
  }

  return (
    <>
      {isOffered ? (
        <form
          ref={form}
          // URL without JavaScript.
          action={`/track-order/${order.trackingNumber}/pay`}
          onSubmit={(event) => {
            event.preventDefault();
            void open();
          }}
          className={className}
        >
          {accessKey ? <input type="hidden" name="key" value={accessKey} /> : null}
          <Button
            type="submit"
            data-waits
            data-tapped={isLoadingCode || undefined}
            size={size}
            onPointerEnter={preparePaymentDialog}
            onFocus={preparePaymentDialog}
            aria-haspopup="dialog"
          >
            {meaning?.kind === 'paying' ? 'See payment' : 'Pay now'}
          </Button>
        </form>
      ) : null}
      {isConnectionLost ? (
        <p role="status" className="basis-full font-semibold">
          You are offline. Pay as soon as your phone has a network again.
        </p>
      ) : null}
      {opened ? (
        <Suspense fallback={null}>
          <PaymentDialog
            order={opened}
            meaning={opened.trackingNumber === order.trackingNumber ? meaning : null}
            open={isOpen}
            onClose={() => setOpen(false)}
          />
        </Suspense>
      ) : null}
    </>
  );
}
