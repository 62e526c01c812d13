// From "Order Now" to a paid order in one dialog: the order form, then the payment.
import { useEffect, useState } from 'react';
import type { OrderForm } from '../../../domain/order-form.ts';
import { deviceStorage, tabStorage } from '../../lib/browser-storage.ts';
import { type RememberedOrder, setPaymentAside } from '../../lib/remembered-orders.ts';
import { DialogOrDrawer } from '../../ui/dialog-or-drawer.tsx';
import { prepareToasts } from '../../ui/toasts.tsx';
import { PaymentPanel } from '../payment/payment-panel.tsx';
import { emptyForm, fillFormFromOrder, startingForm, storeForm } from './order-memory.ts';
import { OrderPanel } from './order-panel.tsx';
import type { OrderedProduct } from './order-summary.tsx';
import type { SimilarDrink } from './similar-drinks.tsx';

interface OrderDialogProps {
  product: OrderedProduct;
  /** An earlier order whose payment continues here. */
  interrupted: RememberedOrder | null;
  quantity: number;
  onQuantityChange?: ((quantity: number) => void) | undefined;
  /** Alternatives if the product cannot be ordered. */
  similar: readonly SimilarDrink[];
  open: boolean;
  onOpenChange(open: boolean): void;
}

interface Paying {
  order: RememberedOrder;
  /** True if the order was placed earlier and found again. */
  isResumed: boolean;
}

export default function OrderDialog({
  product,
  interrupted,
  quantity,
  onQuantityChange,
  similar,
  open,
  onOpenChange,
}: OrderDialogProps) {
  const [form, setForm] = useState(() => startingForm(tabStorage(), deviceStorage()));
  const [paying, setPaying] = useState<Paying | null>(null);
  const [wasOpen, setWasOpen] = useState(false);

  // Set during rendering, so that a continued payment never shows an empty form first.
  if (open !== wasOpen) {
    setWasOpen(open);
    if (open) {
      setPaying(interrupted && { order: interrupted, isResumed: true });
      // "Order again" elsewhere on the page may have filled in the form.
      const stored = startingForm(tabStorage(), null);
      if (stored !== emptyForm) setForm(stored);
    }
  }

  useEffect(() => {
    if (open) void prepareToasts().catch(() => {});
  }, [open]);

  // Includes text that was not submitted: a form restored by the Back button.
  function type(typed: OrderForm) {
    setForm(typed);
    storeForm(tabStorage(), Object.values(typed).some(Boolean) ? typed : null);
  }
  function leavePayment() {
    if (paying) setPaymentAside(paying.order.orderId);
  }
  function orderAgain({ orderId, ordered }: RememberedOrder) {
    fillFormFromOrder(tabStorage(), orderId);
    setForm(startingForm(tabStorage(), deviceStorage()));
    if (ordered) onQuantityChange?.(ordered.quantity);
    setPaying(null);
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
          onOrderAgain={() => orderAgain(paying.order)}
          onNewOrder={
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
          similar={similar}
          onPay={(order, isResumed) => setPaying({ order, isResumed })}
        />
      )}
    </DialogOrDrawer>
  );
}
