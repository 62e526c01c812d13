// The way from "Order Now" to a paid order, in one dialog: the order form, then the payment.
import { useEffect, useState } from 'react';
import type { OrderForm } from '../../../domain/order-form.ts';
import {
  deviceStorage,
  pendingPaymentFor,
  type RememberedOrder,
  setPaymentAside,
} from '../../lib/remembered-orders.ts';
import { DialogOrDrawer } from '../../ui/dialog-or-drawer.tsx';
import { prepareToasts } from '../../ui/toasts.tsx';
import { PaymentPanel } from '../payment/payment-panel.tsx';
import { keepForm, startingForm, tabStorage } from './order-memory.ts';
import { OrderPanel } from './order-panel.tsx';
import type { OrderedProduct } from './order-summary.tsx';

interface OrderDialogProps {
  product: OrderedProduct;
  quantity: number;
  onQuantityChange?: ((quantity: number) => void) | undefined;
  open: boolean;
  onOpenChange(open: boolean): void;
}

interface Paying {
  order: RememberedOrder;
  /** True when the order was placed earlier and is found again. */
  isResumed: boolean;
}

export default function OrderDialog({
  product,
  quantity,
  onQuantityChange,
  open,
  onOpenChange,
}: OrderDialogProps) {
  const [form, setForm] = useState(() => startingForm(tabStorage(), deviceStorage()));
  const [paying, setPaying] = useState<Paying | null>(null);
  const [wasOpen, setWasOpen] = useState(false);

  // Decided while rendering, so that a payment that goes on is never seen as an empty form first.
  if (open !== wasOpen) {
    setWasOpen(open);
    if (open) {
      const interrupted = pendingPaymentFor(product.id);
      setPaying(interrupted && { order: interrupted, isResumed: true });
    }
  }

  useEffect(() => {
    if (open) void prepareToasts().catch(() => {});
  }, [open]);

  // Also what was not sent yet: a form left by the back button is found again as it was.
  function type(typed: OrderForm) {
    setForm(typed);
    keepForm(tabStorage(), Object.values(typed).some(Boolean) ? typed : null);
  }
  function leavePayment() {
    if (paying) setPaymentAside(paying.order.orderId);
  }
  function change(isOpen: boolean) {
    if (!isOpen) leavePayment();
    onOpenChange(isOpen);
  }

  return (
    <DialogOrDrawer open={open} onOpenChange={change}>
      {paying ? (
        <PaymentPanel
          key={paying.order.orderId}
          order={paying.order}
          onClose={() => change(false)}
          onOrderAnew={
            paying.isResumed
              ? () => {
                  leavePayment();
                  setPaying(null);
                }
              : undefined
          }
        />
      ) : (
        <OrderPanel
          product={product}
          quantity={quantity}
          onQuantityChange={onQuantityChange}
          form={form}
          onFormChange={type}
          onPay={(order, isResumed) => setPaying({ order, isResumed })}
        />
      )}
    </DialogOrDrawer>
  );
}
