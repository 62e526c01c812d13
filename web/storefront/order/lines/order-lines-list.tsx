// The drinks of an order form: quantity, removal, and what cannot be ordered beside its line.

import { type Ref, useLayoutEffect, useRef, useState } from 'react';
import { maxDrinks } from '../../../lib/orders/order-contents.ts';
import { CalloutAction, describeLeft, describeOwn, leftTitle } from '../order-callouts.tsx';
import { OrderedLine } from '../order-summary.tsx';
import {
  describeUnits,
  isGone,
  type LineProblem,
  type OrderedProduct,
  type OrderLine,
  withQuantity,
} from './order-lines.ts';
import { partySizesFor } from './party-sizes.ts';
import { QuantitySteps } from './quantity-steps.tsx';

interface OrderLinesListProps {
  lines: readonly OrderLine[];
  onLinesChange(lines: OrderLine[]): void;
  /** The shown price of a product, in cents. */
  priceOf(product: OrderedProduct): number;
  /** Beside its line; null if the line can be ordered. */
  problemOf(line: OrderLine): LineProblem | null;
  /** Units of a product that can be ordered. */
  unitsLeftOf(product: OrderedProduct): number;
  /** Units of a product that the customer's own unpaid order holds. */
  ownUnitsOf?: (product: OrderedProduct) => number;
  isDisabled: boolean;
  /** Whether the form itself reports that its only drink is gone, with alternatives. */
  hasAlternatives?: boolean;
  /** Whether the customer comes back from adding drinks. */
  takesFocus?: boolean;
  onAdd(): void;
}

/** Where the focus goes after a change: its element appears with it. */
type FocusTarget = 'undo' | 'add' | null;

export function OrderLinesList({
  lines,
  onLinesChange,
  priceOf,
  problemOf,
  unitsLeftOf,
  ownUnitsOf = () => 0,
  isDisabled,
  hasAlternatives = false,
  takesFocus = false,
  onAdd,
}: OrderLinesListProps) {
  const [removed, setRemoved] = useState<{ name: string; before: readonly OrderLine[] } | null>(null);
  const focusTarget = useRef<FocusTarget>(takesFocus ? 'add' : null);
  const addButton = useRef<HTMLButtonElement>(null);
  const undoButton = useRef<HTMLButtonElement>(null);
  // Not a passive effect: one of an earlier render could run after the press and before the element exists.
  useLayoutEffect(() => {
    if (focusTarget.current === 'undo') undoButton.current?.focus();
    if (focusTarget.current === 'add') addButton.current?.focus();
    focusTarget.current = null;
  });
  const isSeveral = lines.length > 1;

  function change(product: OrderedProduct, quantity: number) {
    setRemoved(quantity < 1 ? { name: product.name, before: lines } : null);
    // The pressed button disappears.
    if (quantity < 1) focusTarget.current = 'undo';
    onLinesChange(withQuantity(lines, product, quantity));
  }

  return (
    <div className={`grid grid-cols-1 gap-3 ${isSeveral ? '' : '-mb-2'}`}>
      <ul aria-label={isSeveral ? 'Your drinks' : 'Your drink'} className="grid grid-cols-1 gap-3">
        {lines.map((line) => {
          const { product, quantity } = line;
          const problem = problemOf(line);
          const remove = () => change(product, 0);
          return (
            <li key={product.id} data-drink={product.id} className="grid grid-cols-1 gap-1">
              <OrderedLine
                product={product}
                quantity={quantity}
                price={priceOf(product)}
                isOfSeveral={isSeveral}
                isGone={isGone(problem)}
                action={
                  isSeveral ? (
                    <TextButton
                      label={`Remove ${product.name}`}
                      isDisabled={isDisabled}
                      onClick={remove}
                      className="-my-3"
                    >
                      Remove
                    </TextButton>
                  ) : null
                }
              >
                <QuantitySteps
                  label={isSeveral ? `Quantity of ${product.name}` : 'Quantity'}
                  quantity={quantity}
                  isDisabled={isDisabled}
                  removeLabel={isSeveral ? `Remove ${product.name}` : undefined}
                  onChange={(next) => change(product, next)}
                />
              </OrderedLine>
              {isSeveral ? null : (
                <div className="-my-2 flex flex-wrap items-center justify-between gap-x-3 text-sm">
                  <TextButton ref={addButton} isDisabled={isDisabled} onClick={onAdd} className="">
                    Add another drink
                  </TextButton>
                  <PartySizes
                    sizes={partySizesFor(unitsLeftOf(product))}
                    quantity={quantity}
                    isDisabled={isDisabled}
                    onChoose={(size) => change(product, size)}
                  />
                </div>
              )}
              <LineNotice
                // That of a single drink may be shown with alternatives.
                problem={hasAlternatives && !isSeveral && isGone(problem) ? null : problem}
                ownUnits={ownUnitsOf(product)}
                onQuantityChange={(next) => change(product, next)}
                onRemove={isSeveral ? remove : undefined}
              />
            </li>
          );
        })}
      </ul>
      <div role="status" className="text-sm empty:hidden">
        {removed ? (
          <p className="flex flex-wrap items-center gap-x-2">
            {removed.name} removed.
            <button
              ref={undoButton}
              type="button"
              onClick={() => {
                focusTarget.current = 'add';
                setRemoved(null);
                onLinesChange([...removed.before]);
              }}
              className="min-h-11 rounded-md px-2 font-bold text-dusk-600 underline underline-offset-2 hover:text-dusk-800"
            >
              Undo
            </button>
          </p>
        ) : null}
      </div>
      {lines.length >= maxDrinks ? (
        <p className="text-sm text-ink-soft">
          {maxDrinks} different drinks are the most in one order ({describeUnits(lines)}).
        </p>
      ) : isSeveral ? (
        <TextButton
          ref={addButton}
          isDisabled={isDisabled}
          onClick={onAdd}
          className="-my-1.5 justify-self-start"
        >
          Add another drink
        </TextButton>
      ) : null}
    </div>
  );
}

interface TextButtonProps {
  ref?: Ref<HTMLButtonElement>;
  /** Accessible name. Default: the text. */
  label?: string;
  isDisabled: boolean;
  onClick(): void;
  className: string;
  children: string;
}

function TextButton({ ref, label, isDisabled, onClick, className, children }: TextButtonProps) {
  return (
    <button
      ref={ref}
      type="button"
      aria-label={label}
      disabled={isDisabled}
      onClick={onClick}
      className={`-mx-2 min-h-11 rounded-md px-2 font-semibold text-dusk-600 underline underline-offset-2 hover:text-dusk-800 disabled:text-ink-faint ${className}`}
    >
      {children}
    </button>
  );
}

interface PartySizesProps {
  sizes: readonly number[];
  quantity: number;
  isDisabled: boolean;
  onChoose(size: number): void;
}

function PartySizes({ sizes, quantity, isDisabled, onChoose }: PartySizesProps) {
  if (sizes.length === 0) return null;
  return (
    // biome-ignore lint/a11y/useSemanticElements: a fieldset has no place in a line of text
    <div role="group" aria-label="For a party" className="-mr-2 flex items-center text-ink-soft">
      <span aria-hidden="true" className="pr-1">
        Party?
      </span>
      {sizes.map((size) => (
        <button
          key={size}
          type="button"
          aria-pressed={quantity === size}
          disabled={isDisabled}
          onClick={() => onChoose(size)}
          className="group/size grid min-h-11 min-w-9 place-items-center font-semibold text-dusk-600 tabular-nums"
        >
          <span className="rounded-pill px-2 py-0.5 underline underline-offset-2 group-aria-pressed/size:bg-dusk-100 group-aria-pressed/size:no-underline">
            {size}
          </span>
        </button>
      ))}
    </div>
  );
}

interface LineNoticeProps {
  problem: LineProblem | null;
  ownUnits: number;
  onQuantityChange(quantity: number): void;
  /** Given if there are other drinks. */
  onRemove?: (() => void) | undefined;
}

/** Reports beside a line that it cannot be ordered, with the action that corrects it. */
function LineNotice({ problem, ownUnits, onQuantityChange, onRemove }: LineNoticeProps) {
  return (
    <div role="status" data-notice className="text-sm empty:hidden">
      {problem?.kind === 'too_many' ? (
        <>
          <strong>{leftTitle(problem.left)}.</strong> {describeLeft(problem.left, ownUnits)}
          <CalloutAction onClick={() => onQuantityChange(problem.left)}>
            Order {problem.left} instead
          </CalloutAction>
        </>
      ) : problem ? (
        <>
          <strong>{problem.kind === 'off' ? "We don't sell this one any more." : 'Sold out for now.'}</strong>{' '}
          {problem.kind === 'sold_out' && ownUnits > 0 ? describeOwn(ownUnits) : null}
          {onRemove ? <CalloutAction onClick={onRemove}>Remove it</CalloutAction> : null}
        </>
      ) : null}
    </div>
  );
}
