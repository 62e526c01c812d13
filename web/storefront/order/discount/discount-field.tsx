// The discount code in the order form: a field, then the applied code.
import { type KeyboardEvent, useEffect, useRef } from 'react';
import { formatKsh } from '../../../../domain/money.ts';
import { Button } from '../../../ui/button.tsx';
import { TextField } from '../../../ui/field.tsx';
import { TextWithAmounts } from '../../../ui/price.tsx';
import type { DiscountCode } from './use-discount.ts';

const textButton =
  '-mx-2 min-h-11 rounded-md px-2 text-sm font-semibold text-dusk-600 underline underline-offset-2 hover:text-dusk-800';

interface DiscountFieldProps {
  discount: DiscountCode;
  /** What the code takes off these drinks, in cents: 0 below its minimum. */
  cents: number;
  isDisabled: boolean;
}

export function DiscountField({ discount, cents, isDisabled }: DiscountFieldProps) {
  const { terms, typed, problem, isChecking } = discount;
  const isApplied = terms !== null;
  // What was pressed disappears: focus moves to what replaces it.
  const part = useRef<HTMLDivElement>(null);
  const wasPressed = useRef(false);
  // biome-ignore lint/correctness/useExhaustiveDependencies: focus moves when `isApplied` changes
  useEffect(() => {
    if (wasPressed.current) part.current?.querySelector<HTMLElement>('input, button')?.focus();
    wasPressed.current = false;
  }, [isApplied]);
  const seen = useRef(discount.refusals);
  useEffect(() => {
    // A disabled field cannot take focus.
    if (isDisabled || seen.current === discount.refusals) return;
    seen.current = discount.refusals;
    const input = part.current?.querySelector('input');
    input?.focus();
    input?.parentElement?.scrollIntoView({ block: 'nearest' });
  }, [discount.refusals, isDisabled]);
  const press = (act: () => unknown) => () => {
    wasPressed.current = true;
    void act();
  };
  function applyOnEnter(event: KeyboardEvent) {
    if (event.key !== 'Enter' || event.nativeEvent.isComposing) return;
    // Not the order.
    event.preventDefault();
    press(discount.apply)();
  }

  return (
    <div ref={part}>
      {terms ? (
        <div className="-my-2 flex flex-wrap items-center justify-between gap-x-3 text-sm">
          <p className="min-w-0 wrap-anywhere">
            <TextWithAmounts>
              {cents > 0
                ? `Code ${terms.code} takes ${formatKsh(cents)} off.`
                : terms.minimum_cents > 0
                  ? `Code ${terms.code} is for drinks of at least ${formatKsh(terms.minimum_cents)}.`
                  : `Code ${terms.code} takes nothing off this order.`}
            </TextWithAmounts>
          </p>
          <button
            type="button"
            onClick={press(discount.remove)}
            disabled={isDisabled}
            aria-label={`Remove code ${terms.code}`}
            className={textButton}
          >
            Remove
          </button>
        </div>
      ) : (
        <div className="grid grid-cols-1 gap-1">
          <div className="flex flex-wrap items-start gap-x-2">
            {/* With large text the button wraps below, where it would otherwise cover the input. */}
            <div className="min-w-[min(8rem,100%)] flex-1">
              <TextField
                label="Discount code"
                name="discountCode"
                value={typed}
                problem={problem}
                disabled={isDisabled}
                autoComplete="off"
                autoCapitalize="characters"
                spellCheck={false}
                maxLength={40}
                onChange={(event) => discount.type(event.target.value)}
                onKeyDown={applyOnEnter}
              />
            </div>
            {/* Beside the input, below its label. */}
            <Button
              tone="outline"
              className="mt-7 min-h-12!"
              isBusy={isChecking}
              disabled={isDisabled}
              onClick={press(discount.apply)}
            >
              {isChecking ? 'Checking...' : 'Apply'}
            </Button>
          </div>
          {problem ? (
            <button
              type="button"
              onClick={() => {
                discount.remove();
                part.current?.querySelector('input')?.focus();
              }}
              disabled={isDisabled}
              className={`${textButton} justify-self-start`}
            >
              Order without a code
            </button>
          ) : null}
        </div>
      )}
      <p role="status" className="sr-only">
        {terms && cents > 0 ? `Code ${terms.code} applied: ${formatKsh(cents)} off.` : ''}
      </p>
    </div>
  );
}
