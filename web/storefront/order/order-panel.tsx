// The order form: customer, address, price and errors.
import { type FormEvent, useEffect, useId, useRef, useState } from 'react';
import { chargeCents, formatKsh, orderTotal } from '../../../domain/money.ts';
import { createStore } from '../../../supabase/store.ts';
import { deviceStorage, tabStorage } from '../../lib/browser/browser-storage.ts';
import { forgetOrders, type RememberedOrder, rememberOrder } from '../../lib/orders/remembered-orders.ts';
import { Button } from '../../ui/button.tsx';
import { DialogBody, DialogFooter, DialogHeading, useKeepOpen } from '../../ui/dialog/dialog-or-drawer.tsx';
import { showToast } from '../../ui/toasts/toasts.tsx';
import { useAction } from '../../ui/use-action.ts';
import { usePause } from '../layout/use-pause.ts';
import { useRefresh } from '../layout/use-refresh.ts';
import { useShop } from '../layout/use-shop.ts';
import { useUnpaidOrder } from '../own-orders/order-states.ts';
import { OrderFields } from './form/order-fields.tsx';
import { checkOrderForm, type OrderForm, type OrderFormProblem } from './form/order-form.ts';
import {
  emptyForm,
  forgetCustomer,
  forgetDetails,
  forgetOrderKey,
  knowsCustomer,
  orderKey,
  rememberCustomer,
  storeForm,
  storePlacedForm,
} from './form/order-memory.ts';
import LargeOrder from './large-order.tsx';
import { nextSteps } from './next-steps.ts';
import { Callout, CalloutAction, describeLeft, FailureCallout, leftTitle } from './order-callouts.tsx';
import { Amounts, OrderedLine, type OrderedProduct } from './order-summary.tsx';
import type { OrderFigures } from './place/order-change.ts';
import {
  type OrderFailure,
  orderContent,
  otherFailure,
  pausedBy,
  placeOrder,
  problemsOf,
} from './place/place-order.ts';
import type { SimilarDrink } from './similar-drinks.tsx';
import { TermsLine, termsField } from './terms-line.tsx';
import { useLiveStock } from './use-live-stock.ts';

interface OrderPanelProps {
  product: OrderedProduct;
  quantity: number;
  onQuantityChange?: ((quantity: number) => void) | undefined;
  form: OrderForm;
  onFormChange(form: OrderForm): void;
  /** Alternatives if this product cannot be ordered. */
  similar: readonly SimilarDrink[];
  /** Called with whether the page shows another availability than the one known here. */
  onAvailabilityChange(isPageOutdated: boolean): void;
  /** Called when there is an order to pay: the one just placed, or an earlier one. */
  onPay(order: RememberedOrder, isFromBefore: boolean): void;
}

export function OrderPanel({
  product,
  quantity,
  onQuantityChange,
  form,
  onFormChange,
  similar,
  onAvailabilityChange,
  onPay,
}: OrderPanelProps) {
  const { config, settings } = useShop();
  const refresh = useRefresh();
  const { isRunning: isSubmitting, run } = useAction();
  const [problems, setProblems] = useState<readonly Pick<OrderFormProblem, 'field' | 'text'>[]>([]);
  const problemOf = (field: OrderFormProblem['field']) =>
    problems.find((problem) => problem.field === field)?.text;
  const clearProblem = (field: OrderFormProblem['field']) =>
    setProblems((before) => before.filter((problem) => problem.field !== field));
  const [failure, setFailure] = useState<OrderFailure | null>(null);
  // The price and fee that the database used last; the page may be outdated.
  const [quoted, setQuoted] = useState<OrderFigures | null>(null);
  const live = useLiveStock(product);
  const pause = usePause();
  const isPaused = pause !== null;
  // A refusal is over when the page says so.
  useEffect(() => {
    if (!isPaused) setFailure((before) => (before?.kind === 'paused' ? null : before));
  }, [isPaused]);
  const [isKnown, setKnown] = useState(() => knowsCustomer(deviceStorage()));
  const [isToRemember, setToRemember] = useState(isKnown);
  const [isTicked, setTicked] = useState(false);
  const isTickRequired = settings.requires_terms_tick;
  const unpaid = useUnpaidOrder(product.id);
  const formElement = useRef<HTMLFormElement>(null);
  const submitButton = useRef<HTMLButtonElement>(null);
  const formId = useId();
  useKeepOpen(isSubmitting);

  const shownPrices = quoted ?? { price: product.price, deliveryFee: settings.delivery_fee };
  const total = orderTotal(shownPrices.price, quantity, shownPrices.deliveryFee);
  const ownUnits = unpaid?.meaning.holdsUnits ? (unpaid.order.ordered?.quantity ?? 0) : 0;
  const isAboveLimit = chargeCents(total) > settings.payment_limit;
  const cannotBeOrdered = live.isOff || live.unitsLeft === 0 || isAboveLimit;
  const current = currentFailure();
  const isPageOutdated = live.isOff || (live.unitsLeft === 0) !== (product.stock_quantity === 0);
  useEffect(() => onAvailabilityChange(isPageOutdated));

  function currentFailure(): OrderFailure | null {
    if (live.isOff) return { kind: 'unavailable', text: '', field: null };
    if (live.unitsLeft === 0) return { kind: 'out_of_stock', text: '', field: null };
    if (pause) return pausedBy(pause.sentence);
    return failure?.kind === 'not_enough_stock' && quantity <= failure.left ? null : failure;
  }

  function focusField(field: string) {
    // By name instead of a ref: a disabled field cannot take focus, so this waits until it is enabled again.
    requestAnimationFrame(() => {
      const input = formElement.current?.elements.namedItem(field);
      if (!(input instanceof HTMLElement)) return;
      input.focus();
      // With the message below it, which a phone's footer would cover.
      input.parentElement?.scrollIntoView({ block: 'nearest' });
    });
  }

  async function submit(event: FormEvent) {
    event.preventDefault();
    if (isSubmitting) return;
    setFailure(null);
    const found = checkOrderForm(form, isTickRequired && !isTicked);
    setProblems(found);
    const [first] = found;
    if (first) {
      showToast({ topic: 'order', kind: 'error', title: first.title, text: first.text });
      focusField(first.field);
      return;
    }
    storeForm(tabStorage(), form);
    // Checked before sending: a request that never ends would leave the order in doubt.
    if (!navigator.onLine) {
      fail({ kind: 'offline', text: 'You are offline. Please try again when you are back.', field: null });
      return;
    }

    // The fields are about to be disabled, and a focused field that is disabled moves the focus out of the dialog.
    submitButton.current?.focus();
    await run(place, (error) => {
      console.warn('The order could not be placed', error);
      // It may have been placed: the next attempt then finds it.
      fail(otherFailure({}, 'unanswered'));
    });
  }

  async function place() {
    const request = { productId: product.id, quantity, form, shown: shownPrices, acceptsTerms: true };
    const content = orderContent(request);
    const outcome = await placeOrder(createStore(config).tables, request, orderKey(tabStorage(), content));

    if (outcome.isPlaced) {
      const { slug, name } = product;
      const placed = slug ? { ...outcome.order, ordered: { slug, name, quantity } } : outcome.order;
      rememberOrder(placed);
      storePlacedForm(tabStorage(), placed.orderId, form);
      if (isToRemember) rememberCustomer(deviceStorage(), form);
      else forgetDetails(deviceStorage());
      forgetOrderKey(tabStorage(), content);
      storeForm(tabStorage(), null);
      showToast({
        topic: 'order',
        title: 'Order Created!',
        text: 'Please complete payment to confirm your order.',
      });
      onPay(placed, false);
      return;
    }
    if (outcome.failure.kind === 'key_reused') forgetOrderKey(tabStorage(), content);
    fail(outcome.failure);
  }

  function fail(reason: OrderFailure) {
    showToast(
      reason.kind === 'paused'
        ? { topic: 'order', kind: 'info', title: 'Orders are paused', text: reason.text }
        : { topic: 'order', kind: 'error', title: 'Order Failed', text: reason.text },
    );
    setFailure(reason);
    if (reason.field) {
      setProblems(problemsOf(reason));
      focusField(reason.field);
    }
    if (reason.kind === 'total_changed') setQuoted(reason.now);
    if (reason.kind === 'not_enough_stock') live.note(reason.left);
    if (reason.kind === 'out_of_stock') live.note(0);
    live.refresh();
    // Not for a product that the shop has stopped selling: its page would disappear together with this form.
    const { kind } = reason;
    if (kind !== 'other' && kind !== 'unanswered' && kind !== 'offline' && kind !== 'unavailable')
      void refresh();
  }

  function forget() {
    forgetCustomer(tabStorage(), deviceStorage());
    forgetOrders();
    onFormChange(emptyForm);
    setKnown(false);
    setToRemember(false);
    focusField('name');
  }

  const field = (name: keyof OrderForm) => ({
    name,
    value: form[name],
    disabled: isSubmitting,
    problem: problemOf(name),
    onChange(event: { target: { value: string } }) {
      onFormChange({ ...form, [name]: event.target.value });
      clearProblem(name);
    },
  });

  return (
    <>
      <DialogHeading title="Your order" description={nextSteps(form.location)} isTerse />
      <DialogBody>
        <form id={formId} ref={formElement} onSubmit={submit} noValidate className="grid grid-cols-1 gap-5">
          {unpaid ? (
            <Callout title="You have ordered this already">
              {unpaid.meaning.summary}
              <CalloutAction onClick={() => onPay(unpaid.order, true)}>Pay for that order</CalloutAction>
            </Callout>
          ) : null}
          <OrderedLine
            product={product}
            quantity={quantity}
            onQuantityChange={onQuantityChange}
            isDisabled={isSubmitting}
          />
          <QuantityNotice
            product={product}
            quantity={quantity}
            unitsLeft={current ? quantity : live.unitsLeft}
            ownUnits={ownUnits}
            isAboveLimit={isAboveLimit}
            onQuantityChange={onQuantityChange}
          />
          <OrderFields field={field} />
          {isKnown ? (
            <p className="-my-2 flex flex-wrap items-center justify-between gap-x-3 text-sm text-ink-soft">
              We filled in your details from last time.
              <button
                type="button"
                onClick={forget}
                disabled={isSubmitting}
                className="-mx-2 min-h-11 rounded-md px-2 font-semibold text-dusk-600 underline underline-offset-2 hover:text-dusk-800"
              >
                Forget my details
              </button>
            </p>
          ) : null}
          <label className="-my-2 inline-flex min-h-11 cursor-pointer items-center gap-3 justify-self-start text-sm font-semibold">
            <input
              type="checkbox"
              checked={isToRemember}
              disabled={isSubmitting}
              onChange={(event) => setToRemember(event.target.checked)}
              className="size-5 shrink-0 accent-leaf-600"
            />
            Remember my details on this device
          </label>
          <Amounts {...shownPrices} quantity={quantity} />
          <p className="text-sm text-ink-soft md:hidden">{nextSteps(form.location)}</p>
        </form>
      </DialogBody>
      <DialogFooter isSticky={current === null}>
        <FailureCallout
          failure={current}
          quantity={quantity}
          ownUnits={ownUnits}
          similar={similar}
          isToasted
          onQuantityChange={onQuantityChange}
        />
        <div className="grid gap-3 low:grid-cols-[1fr_auto] low:items-center">
          <TermsLine
            form={formId}
            isTickRequired={isTickRequired}
            isDisabled={isSubmitting}
            isTicked={isTicked}
            onTick={(ticked) => {
              setTicked(ticked);
              clearProblem(termsField);
            }}
            problem={problemOf(termsField)}
          />
          <Button
            ref={submitButton}
            type="submit"
            form={formId}
            size="large"
            disabled={cannotBeOrdered}
            isBusy={isSubmitting}
            className="w-full low:min-w-64"
          >
            {isSubmitting
              ? 'Processing...'
              : current?.kind === 'total_changed'
                ? `Accept and order · ${formatKsh(total)}`
                : `Place Order · ${formatKsh(total)}`}
          </Button>
        </div>
      </DialogFooter>
    </>
  );
}

interface QuantityNoticeProps {
  product: OrderedProduct;
  quantity: number;
  unitsLeft: number;
  ownUnits: number;
  isAboveLimit: boolean;
  onQuantityChange?: ((quantity: number) => void) | undefined;
}

/** Reports next to the quantity that so many cannot be ordered. */
function QuantityNotice({
  product,
  quantity,
  unitsLeft,
  ownUnits,
  isAboveLimit,
  onQuantityChange,
}: QuantityNoticeProps) {
  const isTooMany = quantity > unitsLeft;
  return (
    <div role="status" className="-mt-3 text-sm empty:hidden">
      {isTooMany ? (
        <>
          <strong>{leftTitle(unitsLeft)}.</strong> {describeLeft(unitsLeft, ownUnits)}
          {onQuantityChange ? (
            <CalloutAction onClick={() => onQuantityChange(unitsLeft)}>
              Order {unitsLeft} instead
            </CalloutAction>
          ) : null}
        </>
      ) : isAboveLimit ? (
        <LargeOrder name={product.name} quantity={quantity} />
      ) : null}
    </div>
  );
}
