// Adds drinks to an order before its payment begins, in the payment dialog.
import { useEffect, useRef, useState } from 'react';
import { chargeCents, formatKsh } from '../../../../domain/money.ts';
import { createStore } from '../../../../supabase/store.ts';
import { orderTotal } from '../../../lib/orders/order-contents.ts';
import { rememberDrinks, toOrdered } from '../../../lib/orders/remembered-orders.ts';
import { Button } from '../../../ui/button.tsx';
import {
  DialogBody,
  DialogFooter,
  DialogHeading,
  useKeepOpen,
} from '../../../ui/dialog/dialog-or-drawer.tsx';
import { TextWithAmounts } from '../../../ui/price.tsx';
import { showToast } from '../../../ui/toasts/toasts.tsx';
import { useAction } from '../../../ui/use-action.ts';
import { useShop } from '../../layout/use-shop.ts';
import LargeOrder from '../../order/large-order.tsx';
import { DrinkPicker } from '../../order/lines/drink-picker.tsx';
import { describeUnits, type OrderLine, problemOfLine, type Stock } from '../../order/lines/order-lines.ts';
import { OrderLinesList } from '../../order/lines/order-lines-list.tsx';
import { Callout } from '../../order/order-callouts.tsx';
import { Amounts } from '../../order/order-summary.tsx';
import {
  changeDrinks,
  discountOf,
  type OrderFailure,
  otherFailure,
  requestedDrinks,
} from '../../order/place/place-order.ts';
import { loadOrderStates } from '../../own-orders/order-states.ts';
import type { PayableOrder } from '../use-payment.ts';
import { type OrderDrinks, readOrderDrinks } from './order-drinks.ts';

export type ChangedDrinks = Pick<PayableOrder, 'total' | 'discountCents' | 'ordered'>;

interface ChangeDrinksProps {
  order: PayableOrder & { accessKey: string };
  onChanged(changed: ChangedDrinks): void;
  /** @param isFixed whether its drinks cannot change any more */
  onBack(isFixed: boolean): void;
}

export function ChangeDrinks({ order, onChanged, onBack }: ChangeDrinksProps) {
  const { config } = useShop();
  const { trackingNumber, accessKey } = order;
  const [drinks, setDrinks] = useState<OrderDrinks | 'failed' | null>(null);
  const [attempt, setAttempt] = useState(0);
  // biome-ignore lint/correctness/useExhaustiveDependencies: `attempt` triggers another request
  useEffect(() => {
    let isGone = false;
    readOrderDrinks(createStore(config).tables, { trackingNumber, accessKey }).then(
      (found) => {
        if (!isGone) setDrinks(found);
      },
      (error: unknown) => {
        console.warn('The drinks of the order could not be loaded', error);
        if (!isGone) setDrinks('failed');
      },
    );
    return () => {
      isGone = true;
    };
  }, [config, trackingNumber, accessKey, attempt]);
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => heading.current?.focus(), []);

  if (drinks !== null && drinks !== 'failed') {
    return <Changing order={order} found={drinks} onChanged={onChanged} onBack={onBack} />;
  }
  return (
    <>
      <DialogHeading
        ref={heading}
        title="Add another drink"
        description="All in one order, with one delivery fee."
      />
      <DialogBody>
        <p role="status">
          {drinks === null ? 'Loading your order…' : "We couldn't load your order just now."}
        </p>
      </DialogBody>
      <DialogFooter>
        <div className="flex flex-wrap gap-2">
          {drinks === 'failed' ? (
            <Button
              size="large"
              onClick={() => {
                setDrinks(null);
                setAttempt(attempt + 1);
              }}
            >
              Try again
            </Button>
          ) : null}
          <Button tone="quiet" size="large" onClick={() => onBack(false)}>
            Back to the payment
          </Button>
        </div>
      </DialogFooter>
    </>
  );
}

const areSame = (one: readonly OrderLine[], other: readonly OrderLine[]): boolean =>
  one.length === other.length &&
  one.every(
    ({ product, quantity }, index) =>
      product.id === other[index]?.product.id && quantity === other[index]?.quantity,
  );

function Changing({ order, found, onChanged, onBack }: ChangeDrinksProps & { found: OrderDrinks }) {
  const { config, settings } = useShop();
  const { deliveryFee, discount } = found;
  const [lines, setLines] = useState(found.lines);
  const [stock, setStock] = useState(found.stock);
  const [prices, setPrices] = useState<Readonly<Record<string, number>>>({});
  const [isPicking, setPicking] = useState(true);
  const [failure, setFailure] = useState<OrderFailure | null>(null);
  const { isRunning, run } = useAction();
  useKeepOpen(isRunning);
  const list = useRef<HTMLDivElement>(null);
  const heading = useRef<HTMLHeadingElement>(null);

  const drinks = requestedDrinks(lines, prices);
  const discountCents = discountOf(drinks, deliveryFee, discount);
  const total = orderTotal(drinks, deliveryFee, discountCents);
  const isAboveLimit = chargeCents(total) > settings.payment_limit;
  const isFixed = failure?.kind === 'fixed';
  const stockOf = ({ product }: OrderLine): Stock =>
    stock[product.id] ?? { unitsLeft: product.stock_quantity, isOff: false };
  const problemOf = (line: OrderLine) => problemOfLine(line.quantity, stockOf(line));

  function change(next: OrderLine[]) {
    setLines(next);
    if (!isFixed) setFailure(null);
  }

  function focusDrink({ product }: OrderLine) {
    requestAnimationFrame(() => {
      const notice = list.current?.querySelector(`[data-drink="${product.id}"] [data-notice]`);
      notice?.querySelector('button')?.focus();
      notice?.scrollIntoView({ block: 'nearest' });
    });
  }

  function save() {
    if (areSame(lines, found.lines)) {
      onBack(false);
      return;
    }
    setFailure(null);
    const stopped = lines.find(problemOf);
    setPicking(false);
    if (stopped) {
      focusDrink(stopped);
      return;
    }
    void run(send, (error) => {
      console.warn('The drinks could not be changed', error);
      setFailure(otherFailure({}, 'unanswered'));
    });
  }

  async function send() {
    const outcome = await changeDrinks(createStore(config).tables, order, drinks, deliveryFee, discount);
    if (outcome.isPlaced) {
      const ordered = toOrdered(
        lines.map(({ product: { slug, name }, quantity }) => ({ slug, name, quantity })),
      );
      const changed = { total: outcome.order.total, discountCents: outcome.order.discountCents, ordered };
      rememberDrinks(order.orderId, changed);
      void loadOrderStates(config);
      showToast({
        topic: 'order',
        title: 'Order updated',
        text: `${describeUnits(lines)}, one delivery. Your new total is ${formatKsh(changed.total)}.`,
      });
      onChanged(changed);
      return;
    }
    const { failure: reason } = outcome;
    setFailure(reason);
    if (reason.kind === 'total_changed') setPrices(reason.now.prices);
    const { stock: left } = reason;
    if (left) {
      setStock((before) => ({ ...before, ...left }));
      const refused = lines.find(
        ({ product: { id }, quantity }) => left[id] && problemOfLine(quantity, left[id]),
      );
      if (refused) focusDrink(refused);
    }
    // Paid or cancelled in the meantime: the payment dialog shows it.
    if (reason.kind === 'fixed') void loadOrderStates(config);
  }

  if (isPicking) {
    return (
      <DrinkPicker
        lines={lines}
        onLinesChange={change}
        total={total}
        doneLabel={areSame(lines, found.lines) ? 'Done' : 'Update order'}
        onDone={save}
        onBack={() => (areSame(lines, found.lines) ? onBack(false) : setPicking(false))}
      />
    );
  }
  return (
    <>
      <DialogHeading
        ref={heading}
        title="Change your order"
        description={`Order ${order.trackingNumber}, with one delivery fee.`}
      />
      <DialogBody>
        <div ref={list} className="grid grid-cols-1 gap-5">
          <OrderLinesList
            lines={lines}
            onLinesChange={change}
            priceOf={({ id, price }) => prices[id] ?? price}
            problemOf={problemOf}
            unitsLeftOf={(product) => stockOf({ product, quantity: 0 }).unitsLeft}
            isDisabled={isRunning || isFixed}
            takesFocus
            onAdd={() => setPicking(true)}
          />
          {isAboveLimit ? (
            <p role="status" className="text-sm">
              <LargeOrder
                drinks={lines.map(({ product, quantity }) => `${quantity} × ${product.name}`).join(', ')}
              />
            </p>
          ) : null}
          {found.changes.length > 0 ? (
            <p className="text-sm">
              <TextWithAmounts>{found.changes.join(' ')}</TextWithAmounts>
            </p>
          ) : null}
          {discount && discountCents === 0 ? (
            <p role="status" className="text-sm">
              <TextWithAmounts>
                {`Your code ${discount.code} is for drinks of at least ${formatKsh(discount.minimum_cents)}. It ends with this change.`}
              </TextWithAmounts>
            </p>
          ) : null}
          <Amounts
            drinks={drinks}
            deliveryFee={deliveryFee}
            discount={{ code: discount?.code, cents: discountCents }}
          />
        </div>
      </DialogBody>
      <DialogFooter isSticky>
        {failure ? <Failure failure={failure} /> : null}
        <div className="grid gap-2 md:grid-cols-[1fr_auto]">
          {isFixed ? null : (
            <Button
              size="large"
              onClick={save}
              isBusy={isRunning}
              disabled={isAboveLimit}
              className="md:order-2"
            >
              {isRunning ? 'Processing...' : `Update order · ${formatKsh(total)}`}
            </Button>
          )}
          <Button
            tone="quiet"
            size="large"
            disabled={isRunning}
            onClick={() => onBack(isFixed)}
            className="md:mr-auto"
          >
            {isFixed ? 'Back to the payment' : 'Keep it as it was'}
          </Button>
        </div>
      </DialogFooter>
    </>
  );
}

/** Why the drinks were not changed. What is said beside a drink is not repeated. */
function Failure({ failure }: { failure: OrderFailure }) {
  const shown = describe(failure);
  return shown ? (
    <div className="mb-3">
      <Callout title={shown.title}>
        <TextWithAmounts>{shown.text}</TextWithAmounts>
      </Callout>
    </div>
  ) : null;
}

function describe(failure: OrderFailure): { title: string; text: string } | null {
  switch (failure.kind) {
    case 'not_enough_stock':
    case 'out_of_stock':
    case 'unavailable':
      return null;
    case 'total_changed':
      return {
        title: `New total ${formatKsh(failure.now.total)}`,
        text: [...failure.changes, 'Nothing was changed yet.'].join(' '),
      };
    case 'unanswered':
    case 'offline':
      return {
        title: 'We got no answer',
        text: 'Please try again. If your change reached us after all, it is made only once.',
      };
    case 'above_limit':
      return {
        title: 'Too much for one payment',
        text: `M-PESA takes at most ${formatKsh(failure.limit)} in one payment.`,
      };
    case 'paused':
    case 'fixed':
    case 'other':
      return { title: 'Your order was not changed', text: failure.reason };
    case 'key_reused':
      return null;
  }
}
