// The order form: drinks, customer, address, price and errors.
import { type FormEvent, useEffect, useId, useRef, useState } from 'react';
import { areaWithId, type DeliveryArea, feeIn, guessArea } from '../../../domain/deliveries/delivery-area.ts';
import { chargeCents, formatKsh } from '../../../domain/money.ts';
import { createStore } from '../../../supabase/store.ts';
import { deviceStorage, tabStorage } from '../../lib/browser/browser-storage.ts';
import { emptyForm, orderTotal } from '../../lib/orders/order-contents.ts';
import { checkOrderForm, type OrderForm, type OrderFormProblem } from '../../lib/orders/order-form.ts';
import {
  type RememberedOrder,
  rememberOrder,
  toOrdered,
  unitsOrdered,
} from '../../lib/orders/remembered-orders.ts';
import { AreaField } from '../../ui/area-field.tsx';
import { Button } from '../../ui/button.tsx';
import { DialogBody, DialogFooter, DialogHeading, useKeepOpen } from '../../ui/dialog/dialog-or-drawer.tsx';
import { showToast } from '../../ui/toasts/toasts.tsx';
import { useAction } from '../../ui/use-action.ts';
import { usePause } from '../layout/use-pause.ts';
import { useRefresh } from '../layout/use-refresh.ts';
import { useShop } from '../layout/use-shop.ts';
import { useUnpaidOrders } from '../own-orders/order-states.ts';
import { DiscountField } from './discount/discount-field.tsx';
import { useDiscount } from './discount/use-discount.ts';
import { MapPoint } from './form/map-point.tsx';
import { OrderFields } from './form/order-fields.tsx';
import {
  forgetCustomer,
  forgetDetails,
  forgetOrderKey,
  knowsCustomer,
  orderKey,
  rememberCustomer,
  storeDiscount,
  storeDrinks,
  storeForm,
  storePlacedForm,
} from './form/order-memory.ts';
import LargeOrder from './large-order.tsx';
import { DrinkPicker } from './lines/drink-picker.tsx';
import { isGone, type OrderedProduct, type OrderLine, problemOfLine } from './lines/order-lines.ts';
import { OrderLinesList } from './lines/order-lines-list.tsx';
import { nextSteps } from './next-steps.ts';
import { Callout, CalloutAction, FailureCallout } from './order-callouts.tsx';
import { Amounts } from './order-summary.tsx';
import type { OrderFigures } from './place/order-change.ts';
import {
  discountOf,
  type OrderFailure,
  orderContent,
  otherFailure,
  pausedBy,
  placeOrder,
  problemsOf,
  requestedDrinks,
} from './place/place-order.ts';
import { useArrival } from './promise.ts';
import type { SimilarDrink } from './similar-drinks.tsx';
import { TermsLine, termsField } from './terms-line.tsx';
import { useLiveStock } from './use-live-stock.ts';

interface OrderPanelProps {
  /** The product of the page. */
  product: OrderedProduct;
  /** At least one; that of the page first, unless it was removed. */
  lines: readonly OrderLine[];
  onLinesChange(lines: OrderLine[]): void;
  areas: readonly DeliveryArea[];
  /** Names of drinks that were to be ordered again and cannot be. */
  missing: readonly string[];
  form: OrderForm;
  onFormChange(form: OrderForm): void;
  /** Whether an earlier order filled in the form. */
  isFilled: boolean;
  /** Called when the customer has their details forgotten. */
  onForget(): void;
  /** Alternatives if this product cannot be ordered. */
  similar: readonly SimilarDrink[];
  /** Called with whether the page shows another availability than the one known here. */
  onAvailabilityChange(isPageOutdated: boolean): void;
  /** Called when there is an order to pay: the one just placed, or an earlier one. */
  onPay(order: RememberedOrder, isFromBefore: boolean): void;
}

export function OrderPanel({
  product,
  lines,
  onLinesChange,
  areas,
  missing,
  form,
  onFormChange,
  isFilled,
  onForget,
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
  // The prices and fee that the database used last; the page may be outdated.
  const [quoted, setQuoted] = useState<(OrderFigures & { areaId: string | undefined }) | null>(null);
  const [picking, setPicking] = useState<'not yet' | 'open' | 'done'>('not yet');
  const live = useLiveStock(lines.map((line) => line.product));
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
  const unpaidOrders = useUnpaidOrders();
  const discount = useDiscount();
  const formElement = useRef<HTMLFormElement>(null);
  const submitButton = useRef<HTMLButtonElement>(null);
  const formId = useId();
  const reasonId = useId();
  useKeepOpen(isSubmitting);

  const isSeveral = lines.length > 1;
  const chosenArea = areaWithId(form.areaId, areas);
  const inArea = chosenArea
    ? { area: chosenArea, place: guessIn(form.location, chosenArea) }
    : guessArea(form.location, areas);
  const area = inArea?.area ?? null;
  const arrival = useArrival(area?.id ?? null);
  const next = nextSteps(area, arrival?.text ?? null);
  const deliveryFee =
    quoted && quoted.areaId === area?.id ? quoted.deliveryFee : feeIn(area, settings.delivery_fee);
  const problemOfDrink = ({ product: drink, quantity }: OrderLine) =>
    problemOfLine(quantity, live.stockOf(drink));
  // The amounts are of what is left when the customer removes what is sold out; nothing is ordered before that.
  const drinks = requestedDrinks(
    lines.filter((line) => !isGone(problemOfDrink(line))),
    quoted?.prices,
  );
  const discountCents = discountOf(drinks, deliveryFee, discount.terms);
  const total = orderTotal(drinks, deliveryFee, discountCents);
  const isAboveLimit = chargeCents(total) > settings.payment_limit;
  const unpaid = unpaidOrders.find(({ order }) =>
    lines.some((line) => unitsOrdered(order, line.product) > 0),
  );
  const repeated = unpaid && lines.find((line) => unitsOrdered(unpaid.order, line.product) > 0);
  const ownUnitsOf = (drink: OrderedProduct): number => {
    const own = unpaidOrders.find(({ order }) => unitsOrdered(order, drink) > 0);
    return own?.meaning.holdsUnits && own.order.ordered ? unitsOrdered(own.order, drink) : 0;
  };
  const [first] = lines;
  const onlyProblem = first && !isSeveral ? problemOfDrink(first) : null;
  const isOnlyGone = isGone(onlyProblem);
  const current = currentFailure();
  const pageStock = live.stockOf(product);
  const isPageOutdated = pageStock.isOff || (pageStock.unitsLeft === 0) !== (product.stock_quantity === 0);
  useEffect(() => onAvailabilityChange(isPageOutdated));

  function currentFailure(): OrderFailure | null {
    if (onlyProblem?.kind === 'off') return { kind: 'unavailable', text: '', field: null };
    if (onlyProblem?.kind === 'sold_out') return { kind: 'out_of_stock', text: '', field: null };
    if (pause) return pausedBy(pause.sentence);
    // Shown beside the line, until it can be ordered.
    const isOfDrinks =
      failure?.kind === 'unavailable' ||
      failure?.kind === 'out_of_stock' ||
      failure?.kind === 'not_enough_stock';
    return isOfDrinks ? null : failure;
  }

  /** The action beside the first drink that cannot be ordered. */
  function focusDrink(line: OrderLine) {
    requestAnimationFrame(() => {
      const notice = formElement.current?.querySelector(`[data-drink="${line.product.id}"] [data-notice]`);
      notice?.querySelector('button')?.focus();
      notice?.scrollIntoView({ block: 'nearest' });
    });
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
    if (isSubmitting || isPaused) return;
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
    const stopped = isSeveral ? lines.find(problemOfDrink) : undefined;
    if (stopped) {
      live.refresh();
      focusDrink(stopped);
      return;
    }
    // The total is another one with it.
    if (discount.typed.trim() !== '' && !discount.terms) {
      await discount.apply();
      return;
    }
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
    // Below its minimum, the form says that the code does not apply.
    const applied = discountCents > 0 ? discount.terms : null;
    const request = { drinks, deliveryFee, discount: applied, area, form, acceptsTerms: true };
    const content = orderContent(request);
    const outcome = await placeOrder(createStore(config).tables, request, orderKey(tabStorage(), content));

    if (outcome.isPlaced) {
      const ordered = toOrdered(
        lines.map(({ product: { slug, name }, quantity }) => ({ slug, name, quantity })),
      );
      const placed = { ...outcome.order, productId: product.id, ...(ordered ? { ordered } : {}) };
      rememberOrder(placed);
      storePlacedForm(tabStorage(), placed.orderId, form);
      if (isToRemember) rememberCustomer(deviceStorage(), form);
      else forgetDetails(deviceStorage());
      forgetOrderKey(tabStorage(), content);
      storeForm(tabStorage(), null);
      storeDrinks(tabStorage(), null);
      storeDiscount(tabStorage(), { code: '' });
      showToast({
        topic: 'order',
        title: 'Order Created!',
        text: placed.awaitsAgreement
          ? "We'll contact you to agree the delivery fee and day."
          : 'Please complete payment to confirm your order.',
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
      if (reason.field === 'discountCode') discount.refuse(`${problemsOf(reason)[0]?.text}.`);
      else focusField(reason.field);
    }
    if (reason.kind === 'total_changed') {
      setQuoted({ ...reason.now, areaId: area?.id });
      // The code may give another discount now.
      if (discount.terms) void discount.apply();
    }
    const { stock } = reason;
    if (stock) {
      live.note(stock);
      const refused = lines.find(
        ({ product: { id }, quantity }) => stock[id] && problemOfLine(quantity, stock[id]),
      );
      if (refused) focusDrink(refused);
    }
    live.refresh();
    // Not for a product that the shop has stopped selling: its page would disappear together with this form.
    const { kind } = reason;
    const isOfArea = reason.field === 'areaId';
    if (
      isOfArea ||
      (kind !== 'other' && kind !== 'unanswered' && kind !== 'offline' && kind !== 'unavailable')
    )
      void refresh();
  }

  function forget() {
    forgetCustomer(tabStorage(), deviceStorage());
    onForget();
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
      // The point belongs to the address that was typed.
      const isMoved = name === 'location';
      onFormChange({ ...form, ...(isMoved ? { mapPoint: '' } : {}), [name]: event.target.value });
      clearProblem(name);
    },
  });

  if (picking === 'open') {
    return (
      <DrinkPicker
        lines={lines}
        onLinesChange={onLinesChange}
        total={total}
        onDone={() => setPicking('done')}
      />
    );
  }
  return (
    <>
      <DialogHeading title="Your order" description={next} isTerse={!arrival?.isClosed || pause !== null} />
      <DialogBody>
        <form
          id={formId}
          ref={formElement}
          onSubmit={submit}
          noValidate
          className="grid grid-cols-1 gap-3 max-md:-mb-3 md:gap-5"
        >
          {unpaid ? (
            <Callout
              title={
                isSeveral && repeated
                  ? `You have ordered ${repeated.product.name} already`
                  : 'You have ordered this already'
              }
            >
              {unpaid.meaning.summary}
              <CalloutAction onClick={() => onPay(unpaid.order, true)}>Pay for that order</CalloutAction>
            </Callout>
          ) : null}
          {missing.length > 0 ? (
            <Callout title="Not everything can be ordered again">{describeMissing(missing)}</Callout>
          ) : null}
          <OrderLinesList
            lines={lines}
            onLinesChange={onLinesChange}
            priceOf={(drink) => quoted?.prices[drink.id] ?? drink.price}
            problemOf={problemOfDrink}
            hasAlternatives
            unitsLeftOf={(drink) => live.stockOf(drink).unitsLeft}
            ownUnitsOf={ownUnitsOf}
            isDisabled={isSubmitting}
            takesFocus={picking === 'done'}
            onAdd={() => setPicking('open')}
          />
          <div role="status" className="-mt-3 text-sm empty:hidden">
            {isAboveLimit ? (
              <LargeOrder
                drinks={lines.map((line) => `${line.quantity} × ${line.product.name}`).join(', ')}
              />
            ) : null}
          </div>
          {isKnown || isFilled ? (
            <p className="-my-3 flex flex-wrap items-center justify-between gap-x-3 text-sm text-ink-soft">
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
          <OrderFields
            field={field}
            chosen={inArea}
            remember={
              <label className="-my-1.5 inline-flex min-h-11 cursor-pointer items-center gap-2.5 text-sm">
                <input
                  type="checkbox"
                  checked={isToRemember}
                  disabled={isSubmitting}
                  onChange={(event) => setToRemember(event.target.checked)}
                  className="size-5 shrink-0 accent-leaf-600"
                />
                Remember my details on this device
              </label>
            }
            discount={<DiscountField discount={discount} cents={discountCents} isDisabled={isSubmitting} />}
            hasDiscount={discount.typed !== ''}
            area={
              <AreaField
                areas={areas}
                chosen={inArea}
                isGuessed={chosenArea === null}
                shopFee={settings.delivery_fee}
                arrival={arrival?.isClosed ? arrival.text : null}
                isDisabled={isSubmitting}
                problem={problemOf('areaId')}
                onChoose={(areaId) => {
                  onFormChange({ ...form, areaId });
                  clearProblem('areaId');
                }}
              />
            }
            mapPoint={
              <MapPoint
                point={form.mapPoint}
                isDisabled={isSubmitting}
                onChange={(mapPoint) => onFormChange({ ...form, mapPoint })}
              />
            }
          />
          {drinks.length === 0 ? null : (
            <>
              <Amounts
                drinks={drinks}
                deliveryFee={deliveryFee}
                isFeeOpen={area?.needs_agreement === true}
                discount={{ code: discount.terms?.code, cents: discountCents }}
              />
              <p className="text-sm text-ink-soft md:hidden">{next}</p>
            </>
          )}
        </form>
      </DialogBody>
      <DialogFooter isSticky={current === null}>
        <FailureCallout
          id={reasonId}
          failure={current}
          quantity={first?.quantity ?? 1}
          ownUnits={first ? ownUnitsOf(first.product) : 0}
          similar={similar}
          isToasted
        />
        <div className="grid gap-3 low:flex low:flex-wrap low:items-center low:*:basis-72 low:*:grow">
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
            disabled={isOnlyGone || isAboveLimit}
            isBusy={isSubmitting}
            // Not disabled: a refused order has just moved the focus here.
            aria-disabled={isSubmitting || isPaused || undefined}
            aria-describedby={isPaused ? reasonId : undefined}
            className="w-full low:w-auto"
          >
            {isSubmitting
              ? 'Processing...'
              : current?.kind === 'total_changed'
                ? `Accept and order · ${formatKsh(total)}`
                : drinks.length === 0
                  ? 'Place Order'
                  : `Place Order · ${formatKsh(total)}`}
          </Button>
        </div>
      </DialogFooter>
    </>
  );
}

/** The town that is named in the location, for an area of many. */
const guessIn = (location: string, area: DeliveryArea): string =>
  guessArea(location, [area])?.place ?? area.name;

const describeMissing = (names: readonly string[]): string =>
  `${names.join(', ')} ${names.length === 1 ? "isn't" : "aren't"} available right now. The rest is in this order.`;
