// The payment dialog for an order that is already placed.
import { useNavigate } from 'react-router';
import { tabStorage } from '../../lib/browser/browser-storage.ts';
import type { OrderMeaning } from '../../lib/orders/order-meaning.ts';
import { setPaymentAside } from '../../lib/orders/remembered-orders.ts';
import { DialogOrDrawer } from '../../ui/dialog/dialog-or-drawer.tsx';
import { fillFormFromOrder } from '../order/form/order-memory.ts';
import { PaymentPanel } from './payment-panel.tsx';
import type { PayableOrder } from './use-payment.ts';

interface PaymentDialogProps {
  order: PayableOrder;
  /** Null if only this device's stored orders are known. */
  meaning: OrderMeaning | null;
  open: boolean;
  onClose(): void;
}

export default function PaymentDialog({ order, meaning, open, onClose }: PaymentDialogProps) {
  const navigate = useNavigate();
  const close = () => {
    setPaymentAside(order.orderId);
    onClose();
  };
  function orderAgain() {
    close();
    fillFormFromOrder(tabStorage(), order.orderId);
    const { ordered } = order;
    if (ordered)
      void navigate(`/shop/${ordered.slug}`, {
        state: { orderAgain: ordered.quantity, like: order.trackingNumber },
      });
    else void navigate('/shop');
  }
  return (
    <DialogOrDrawer open={open} onClose={close}>
      <PaymentPanel
        key={order.orderId}
        order={order}
        meaning={meaning}
        onClose={close}
        onOrderAgain={orderAgain}
      />
    </DialogOrDrawer>
  );
}
