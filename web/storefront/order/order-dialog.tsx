// From "Order Now" to a paid order in one dialog: the order form, then the payment.

import { useCallback, useEffect, useEffectEvent, useRef, useState } from 'react';
import type { DeliveryArea } from '../../../domain/deliveries/delivery-area.ts';
import { createStore } from '../../../supabase/store.ts';
import { deviceStorage, tabStorage } from '../../lib/browser/browser-storage.ts';
import { emptyForm } from '../../lib/orders/order-contents.ts';
import { type OrderForm, orderFormOf } from '../../lib/orders/order-form.ts';
import {
  forgetDetailsOfOrders,
  type OrderedDrink,
  orderedDrinks,
  ordersWithDetails,
  type RememberedOrder,
  rememberedOrder,
  setPaymentAside,
} from '../../lib/orders/remembered-orders.ts';
import { DialogOrDrawer } from '../../ui/dialog/dialog-or-drawer.tsx';
import { dismissToast, prepareToasts } from '../../ui/toasts/toasts.tsx';
import { useRefresh } from '../layout/use-refresh.ts';
import { useShop } from '../layout/use-shop.ts';
import { PaymentPanel } from '../payment/payment-panel.tsx';
import { lookUpOrder } from '../tracking/tracked-order.ts';
import {
  fillFormFromOrder,
  type StoredDrinks,
  startingForm,
  storeDrinks,
  storedDrinks,
  storeForm,
} from './form/order-memory.ts';
import { findDrinksAgain } from './lines/order-again.ts';
import { type OrderedProduct, type OrderLine, quantityIn } from './lines/order-lines.ts';
import { OrderPanel } from './order-panel.tsx';
import type { SimilarDrink } from './similar-drinks.tsx';

interface OrderDialogProps {
  product: OrderedProduct;
  areas: readonly DeliveryArea[];
  /** An earlier order whose payment continues here. */
  interrupted: RememberedOrder | null;
  /** The tracking number of an earlier order whose data fills in the form. */
  like: string | undefined;
  quantity: number;
  onQuantityChange(quantity: number): void;
  /** Alternatives if the product cannot be ordered. */
  similar: readonly SimilarDrink[];
  open: boolean;
  onClose(): void;
}

interface Paying {
  order: RememberedOrder;
  /** True if the order was placed earlier and found again. */
  isResumed: boolean;
}

export default function OrderDialog({
  product,
  areas,
  interrupted,
  like,
  quantity,
  onQuantityChange,
  similar,
  open,
  onClose,
}: OrderDialogProps) {
  const [form, setForm] = useState(() => startingForm(tabStorage(), deviceStorage()));
  const [paying, setPaying] = useState<Paying | null>(null);
  const [wasOpen, setWasOpen] = useState(false);
  const [others, setOthers] = useState<StoredDrinks>({ lines: [], missing: [] });
  /** The page's drink can be removed once there is another. */
  const [isOwnRemoved, setOwnRemoved] = useState(false);
  const { config } = useShop();
  const refresh = useRefresh();
  /** Whether the form has details that the device can get from its orders. */
  const [isFilled, setFilled] = useState(false);
  const fill = useFillFromOrder(setForm, setFilled);
  /** Whether the page shows another availability than the form. */
  const isPageOutdated = useRef(false);

  // Set during rendering, so that a continued payment never shows an empty form first.
  if (open !== wasOpen) {
    setWasOpen(open);
    if (open) {
      setPaying(interrupted && { order: interrupted, isResumed: true });
      // "Order again" elsewhere on the page may have filled in the form.
      const stored = startingForm(tabStorage(), null);
      if (stored !== emptyForm) setForm(stored);
      const { lines, missing } = storedDrinks(tabStorage());
      setOthers({ lines: withoutOwn(lines), missing });
      setOwnRemoved(false);
    }
  }

  // After a reload the quantity of the page is 1 again.
  const restoreQuantity = useEffectEvent(() => {
    const stored = quantityIn(storedDrinks(tabStorage()).lines, product.id);
    if (quantity === 1 && stored > 1) onQuantityChange(stored);
  });
  const isRestored = useRef(false);
  useEffect(() => {
    if (!open || isRestored.current) return;
    isRestored.current = true;
    restoreQuantity();
  }, [open]);

  function withoutOwn(lines: readonly OrderLine[]): OrderLine[] {
    return lines.filter((line) => line.product.id !== product.id);
  }
  const lines = [...(isOwnRemoved ? [] : [{ product, quantity }]), ...others.lines];

  function changeLines(next: OrderLine[]) {
    const own = quantityIn(next, product.id);
    setOwnRemoved(own === 0);
    if (own > 0) onQuantityChange(own);
    setOthers({ lines: withoutOwn(next), missing: others.missing });
    storeDrinks(tabStorage(), isOnlyOwn(next) ? null : { lines: next, missing: [] });
  }
  const isOnlyOwn = (drinks: readonly OrderLine[]) => withoutOwn(drinks).length === 0;

  useEffect(() => {
    if (open) void prepareToasts().catch(() => {});
  }, [open]);

  useEffect(() => {
    if (open) fill(like);
  }, [open, like, fill]);

  // Includes text that was not submitted: a form restored by the Back button.
  function type(typed: OrderForm) {
    setForm(typed);
    storeForm(tabStorage(), Object.values(typed).some(Boolean) ? typed : null);
  }
  function leavePayment() {
    if (paying) setPaymentAside(paying.order.orderId);
  }
  function orderAgain({ orderId, trackingNumber, ...order }: RememberedOrder) {
    // Its drinks may have been changed in the payment dialog.
    const ordered = rememberedOrder(trackingNumber)?.ordered ?? order.ordered;
    fillFormFromOrder(tabStorage(), orderId);
    setForm(startingForm(tabStorage(), deviceStorage()));
    fill(trackingNumber);
    setPaying(null);
    setOthers({ lines: [], missing: [] });
    setOwnRemoved(false);
    if (ordered && !ordered.others && ordered.slug === product.slug) onQuantityChange(ordered.quantity);
    else if (ordered) void orderSeveralAgain(orderedDrinks(ordered));
  }
  async function orderSeveralAgain(drinks: OrderedDrink[]) {
    const { lines: found, missing } = await findDrinksAgain(config, drinks);
    if (found.length > 0) changeLines(found);
    setOthers({ lines: withoutOwn(found), missing });
  }
  function close() {
    leavePayment();
    void dismissToast('order').catch(() => {});
    // Not earlier: the page of a withdrawn drink disappears together with the form.
    if (isPageOutdated.current) void refresh(true);
    onClose();
  }

  return (
    <DialogOrDrawer open={open} onClose={close}>
      {paying ? (
        <PaymentPanel
          key={paying.order.orderId}
          order={paying.order}
          onClose={close}
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
          lines={lines}
          onLinesChange={changeLines}
          areas={areas}
          missing={others.missing}
          form={form}
          onFormChange={type}
          isFilled={isFilled}
          onForget={() => {
            forgetDetailsOfOrders();
            setFilled(false);
          }}
          similar={similar}
          onAvailabilityChange={(isOutdated) => {
            isPageOutdated.current = isOutdated;
          }}
          onPay={(order, isResumed) => {
            // Its drinks are ordered.
            if (!isResumed) setOthers({ lines: [], missing: [] });
            setOwnRemoved(false);
            setPaying({ order, isResumed });
          }}
        />
      )}
    </DialogOrDrawer>
  );
}

/**
 * Fills in an empty form with the given order of this device, else with the newest, read with its stored access key: another tab has
 * typed it, or a browser that was closed since.
 */
function useFillFromOrder(
  setForm: (change: (before: OrderForm) => OrderForm) => void,
  setFilled: (isFilled: boolean) => void,
) {
  const { config } = useShop();
  return useCallback(
    (like: string | undefined) => {
      const orders = ordersWithDetails();
      const order = orders.find(({ trackingNumber }) => trackingNumber === like) ?? orders[0];
      if (!order) return;
      const isEmpty = () => startingForm(tabStorage(), deviceStorage()) === emptyForm;
      if (!isEmpty()) {
        setFilled(true);
        return;
      }
      const { trackingNumber, accessKey } = order;
      void lookUpOrder(createStore(config).tables, trackingNumber, { accessKey }).then((lookup) => {
        const details = lookup.kind === 'found' && !lookup.order.isMasked ? lookup.order.details : null;
        if (!details || !isEmpty()) return;
        setForm((before) => (Object.values(before).some(Boolean) ? before : orderFormOf(details)));
        setFilled(true);
      });
    },
    [config, setForm, setFilled],
  );
}
