// The quantity: at least one, without a maximum.
import { useState } from 'react';
import { Icon } from '../../ui/icons.tsx';

interface QuantityStepperProps {
  value: number;
  onChange: (value: number) => void;
}

const stepStyle =
  'grid size-12 place-items-center rounded-pill text-dusk-800 hover:bg-paper-deep aria-disabled:cursor-not-allowed aria-disabled:text-line-strong';

// Maximum quantity whose price is still exact in cents.
const maxDigits = 9;

export function QuantityStepper({ value, onChange }: QuantityStepperProps) {
  // Shown as typed until the field loses the focus: a dot that disappeared would turn 3.5 into 35.
  const [typed, setTyped] = useState<string | null>(null);
  const step = (to: number) => {
    setTyped(null);
    onChange(Math.max(1, to));
  };
  return (
    <div className="grid max-w-full grid-cols-1 gap-1.5">
      <label htmlFor="quantity" className="text-sm font-semibold max-md:sr-only">
        Quantity
      </label>
      <div className="inline-flex max-w-full items-center rounded-pill border border-line-strong bg-card">
        <button
          type="button"
          aria-label="Decrease quantity"
          // Not disabled at its limit: disabling a focused button would lose the focus.
          aria-disabled={value <= 1 || undefined}
          onClick={() => step(value - 1)}
          className={stepStyle}
        >
          <Icon name="minus" />
        </button>
        <input
          id="quantity"
          name="quantity"
          inputMode="numeric"
          autoComplete="off"
          value={typed ?? value}
          onChange={(event) => {
            const { value: text } = event.target;
            // The quantity is the first whole number of the text, or the last valid one.
            const [digits] = /\d+/.exec(text.replace(/[\s,]/g, '')) ?? [];
            const isTooLong = (digits?.length ?? 0) > maxDigits;
            setTyped(isTooLong ? null : text);
            if (digits) onChange(Math.max(1, Number.parseInt(digits.slice(0, maxDigits), 10)));
          }}
          onFocus={(event) => event.target.select()}
          onBlur={() => setTyped(null)}
          className="h-12 max-w-32 min-w-14 field-sizing-content rounded-sm px-1 bg-transparent text-center font-display text-xl font-bold tabular-nums"
        />
        <button
          type="button"
          aria-label="Increase quantity"
          onClick={() => step(value + 1)}
          className={stepStyle}
        >
          <Icon name="plus" />
        </button>
      </div>
    </div>
  );
}
