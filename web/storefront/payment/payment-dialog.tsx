// The payment dialog for an order that is already placed.
import { useNavigate } from 'react-router';
import { tabStorage } from '../../lib/browser/browser-storage.ts';
import type { OrderMeaning } from '../../lib/orders/order-meaning.ts';
import { orderedDrinks, rememberedOrder, setPaymentAside } from '../../lib/orders/remembered-orders.ts';
import { DialogOrDrawer } from '../../ui/dialog/dialog-or-drawer.tsx';
import { useShop } from '../layout/use-shop.ts';
import { fillFormFromOrder } from '../order/form/order-memory.ts';
import { prepareOrderAgain } from '../order/lines/order-again.ts';
import { PaymentPanel } from './payment-panel.tsx';
import type { PayableOrder } from './use-payment.ts';

interface PaymentDialogProps {
  order: PayableOrder;
  /** Null if only this device's stored orders are known. */
  meaning: OrderMeaning | null;
  open: boolean;
  onClose(): void;
}

/** Opens the order form with the drinks and the details of an order that has ended. */
export function useOrderAgain(order: PayableOrder, close: () => void): () => void {
  const navigate = useNavigate();
  const { config } = useShop();
  async function orderAgain() {
    close();
    fillFormFromOrder(tabStorage(), order.orderId);
    const [first, ...others] = orderedDrinks(rememberedOrder(order.trackingNumber)?.ordered ?? order.ordered);
    if (!first) return navigate('/shop');
    const { slug, quantity } = await prepareOrderAgain(config, [first, ...others]);
    return navigate(`/shop/${slug}`, { state: { orderAgain: quantity, like: order.trackingNumber } });
  }
  return () => void orderAgain();
}

export default function PaymentDialog({ order, meaning, open, onClose }: PaymentDialogProps) {
  const close = () => {
    setPaymentAside(order.orderId);
    onClose();
  };
  const orderAgain = useOrderAgain(order, close);
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
