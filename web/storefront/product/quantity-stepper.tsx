// The quantity: at least one, without a maximum.
import { useState } from 'react';
import { Icon } from '../../ui/icons.tsx';

interface QuantityStepperProps {
  value: number;
  onChange: (value: number) => void;
  isDisabled?: boolean;
}

const step =
  'grid size-12 place-items-center rounded-pill text-dusk-800 hover:bg-paper-deep disabled:text-line-strong aria-disabled:cursor-not-allowed aria-disabled:text-line-strong';

// Maximum quantity whose price is still exact in cents.
const maxDigits = 9;

export function QuantityStepper({ value, onChange, isDisabled = false }: QuantityStepperProps) {
  // The field may be empty while the customer types; the quantity stays the last valid one.
  const [isEmpty, setEmpty] = useState(false);
  return (
    <div className="grid max-w-full grid-cols-1 gap-1.5">
      <label htmlFor="quantity" className="text-sm font-semibold max-md:sr-only">
        Quantity
      </label>
      <div className="inline-flex max-w-full items-center rounded-pill border border-line-strong bg-card">
        <button
          type="button"
          aria-label="Decrease quantity"
          disabled={isDisabled}
          // Not disabled at its limit: disabling a focused button would lose the focus.
          aria-disabled={value <= 1 || undefined}
          onClick={() => onChange(Math.max(1, value - 1))}
          className={step}
        >
          <Icon name="minus" />
        </button>
        <input
          id="quantity"
          name="quantity"
          inputMode="numeric"
          autoComplete="off"
          value={isEmpty ? '' : value}
          disabled={isDisabled}
          onChange={(event) => {
            // Only the leading whole number of pasted text: 1.5 or 1e3 are not 15 or 13.
            const [digits = ''] = /\d+/.exec(event.target.value.replace(/[\s,]/g, '')) ?? [];
            const typed = Number.parseInt(digits.slice(0, maxDigits), 10);
            setEmpty(Number.isNaN(typed));
            if (!Number.isNaN(typed)) onChange(Math.max(1, typed));
          }}
          onFocus={(event) => event.target.select()}
          onBlur={() => setEmpty(false)}
          className="h-12 max-w-32 min-w-14 field-sizing-content rounded-sm px-1 bg-transparent text-center font-display text-xl font-bold tabular-nums disabled:text-ink-soft"
        />
        <button
          type="button"
          aria-label="Increase quantity"
          disabled={isDisabled}
          onClick={() => onChange(value + 1)}
          className={step}
        >
          <Icon name="plus" />
        </button>
      </div>
    </div>
  );
}
