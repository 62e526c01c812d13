// The payment dialog on its own, for an order that is already placed.
import { setPaymentAside } from '../../lib/remembered-orders.ts';
import { DialogOrDrawer } from '../../ui/dialog-or-drawer.tsx';
import { PaymentPanel } from './payment-panel.tsx';
import type { PayableOrder } from './use-payment.ts';

interface PaymentDialogProps {
  order: PayableOrder;
  open: boolean;
  onOpenChange(open: boolean): void;
}

export default function PaymentDialog({ order, open, onOpenChange }: PaymentDialogProps) {
  const change = (isOpen: boolean) => {
    if (!isOpen) setPaymentAside(order.orderId);
    onOpenChange(isOpen);
  };
  return (
    <DialogOrDrawer open={open} onOpenChange={change}>
      <PaymentPanel key={order.orderId} order={order} onClose={() => change(false)} />
    </DialogOrDrawer>
  );
}
