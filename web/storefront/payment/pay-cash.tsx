// Cash at the door, in the payment dialog: asked once, and then what happens now.
import { type RefObject, useState } from 'react';
import { chargeCents, formatKsh } from '../../../domain/money.ts';
import { createStore } from '../../../supabase/store.ts';
import { closePayment } from '../../lib/orders/remembered-orders.ts';
import { Button } from '../../ui/button.tsx';
import { DialogBody, DialogFooter, DialogHeading, useKeepOpen } from '../../ui/dialog/dialog-or-drawer.tsx';
import { TextWithAmounts } from '../../ui/price.tsx';
import { useAction } from '../../ui/use-action.ts';
import { useShop } from '../layout/use-shop.ts';
import { loadOrderStates } from '../own-orders/order-states.ts';
import { chooseCash } from './choose-cash.ts';
import { Amount, ArrivesBy, TrackingNumber } from './payment-parts.tsx';
import { usePaymentTexts } from './texts/payment-language.tsx';
import type { PayableOrder } from './use-payment.ts';

const actions = 'grid gap-2 md:grid-cols-[1fr_auto] low:grid-cols-[auto_1fr] md:low:grid-cols-[1fr_auto]';

interface AskForCashProps {
  order: PayableOrder & { accessKey: string };
  headingRef: RefObject<HTMLHeadingElement | null>;
  onChosen(): void;
  onBack(): void;
}

export function AskForCash({ order, headingRef, onChosen, onBack }: AskForCashProps) {
  const t = usePaymentTexts();
  const { config } = useShop();
  const [problem, setProblem] = useState<string | null>(null);
  const { isRunning, run } = useAction();
  useKeepOpen(isRunning);
  const charge = chargeCents(order.total);
  const choose = () =>
    run(
      async () => {
        setProblem(null);
        const refusal = navigator.onLine
          ? await chooseCash(createStore(config).tables, order)
          : 'You are offline. Please try again when your phone has a network.';
        setProblem(refusal);
        if (refusal !== null) return;
        closePayment(order.orderId);
        void loadOrderStates(config);
        onChosen();
      },
      (error) => {
        console.warn('Cash could not be chosen', error);
        setProblem('Something went wrong. Please try again.');
      },
    );
  return (
    <>
      <DialogHeading ref={headingRef} title={t.askCash} description={t.askCashHow} />
      <DialogBody>
        <div className="grid grid-cols-1 gap-5">
          {/* Without its drinks, so that nothing scrolls when the answer needs room. */}
          <Amount order={{ total: order.total, trackingNumber: order.trackingNumber }} charge={charge} />
          <div role="alert" className="empty:hidden">
            {problem ? (
              <p className="rounded-lg border border-danger/40 bg-danger-soft px-5 py-3.5 font-semibold text-danger">
                {problem}
              </p>
            ) : null}
          </div>
          {problem ? null : (
            <p>
              <TextWithAmounts>{t.haveReady(formatKsh(charge))}</TextWithAmounts>
            </p>
          )}
        </div>
      </DialogBody>
      <DialogFooter isSticky>
        <div className={actions}>
          <Button
            size="large"
            isBusy={isRunning}
            onClick={() => void choose()}
            className="md:order-2 low:order-2"
          >
            {isRunning ? `${t.oneMoment}…` : t.chooseCash}
          </Button>
          <Button tone="quiet" size="large" disabled={isRunning} onClick={onBack} className="md:mr-auto">
            {t.payByMpesa}
          </Button>
        </div>
      </DialogFooter>
    </>
  );
}

interface CashChosenProps {
  order: PayableOrder;
  headingRef: RefObject<HTMLHeadingElement | null>;
  /** ISO date-time; null while it is not known. */
  arrivesBy: string | null;
  onTrack(): void;
  onPayNow(): void;
}

export function CashChosen({ order, headingRef, arrivesBy, onTrack, onPayNow }: CashChosenProps) {
  const t = usePaymentTexts();
  const amount = formatKsh(chargeCents(order.total));
  return (
    <>
      <DialogHeading ref={headingRef} title={t.cashTitle} description={t.cashHow} />
      <DialogBody>
        <div className="grid grid-cols-1 gap-5">
          <p className="rounded-lg bg-paper-deep px-5 py-4">
            <TextWithAmounts>{t.riderCollects(amount)}</TextWithAmounts>
          </p>
          <ArrivesBy time={arrivesBy} />
          <TrackingNumber number={order.trackingNumber} />
        </div>
      </DialogBody>
      <DialogFooter isSticky>
        <div className={actions}>
          <Button size="large" onClick={onTrack} className="md:order-2 low:order-2">
            {t.track}
          </Button>
          <Button tone="quiet" size="large" onClick={onPayNow} className="md:mr-auto">
            {t.payByMpesaInstead}
          </Button>
        </div>
      </DialogFooter>
    </>
  );
}
