// A quantity with buttons for one less and one more.
import type { Ref } from 'react';
import { Icon } from '../../../ui/icons.tsx';

interface QuantityStepsProps {
  /** Accessible name of the group. */
  label: string;
  quantity: number;
  isDisabled?: boolean;
  /** Given if one less than one removes the drink: the name of that button. */
  removeLabel?: string | undefined;
  plusRef?: Ref<HTMLButtonElement>;
  onChange(quantity: number): void;
}

export function QuantitySteps({
  label,
  quantity,
  isDisabled = false,
  removeLabel,
  plusRef,
  onChange,
}: QuantityStepsProps) {
  const isLast = quantity <= 1;
  return (
    // biome-ignore lint/a11y/useSemanticElements: some browsers cannot lay out a fieldset as a pill
    <div role="group" aria-label={label} className="-ml-2 flex shrink-0 items-center">
      <Step
        label={isLast && removeLabel ? removeLabel : 'One less'}
        icon="minus"
        isDisabled={isDisabled}
        isAtEnd={isLast && !removeLabel}
        onClick={() => onChange(Math.max(removeLabel ? 0 : 1, quantity - 1))}
      />
      <output className="max-w-28 min-w-9 text-center font-display text-lg leading-tight font-bold wrap-anywhere tabular-nums">
        {quantity}
      </output>
      <Step
        ref={plusRef}
        label="One more"
        icon="plus"
        isDisabled={isDisabled}
        onClick={() => onChange(quantity + 1)}
      />
    </div>
  );
}

interface StepProps {
  ref?: Ref<HTMLButtonElement> | undefined;
  label: string;
  icon: 'minus' | 'plus';
  isDisabled: boolean;
  /** Disabled at its limit, but still focusable. */
  isAtEnd?: boolean;
  onClick(): void;
}

function Step({ ref, label, icon, isDisabled, isAtEnd = false, onClick }: StepProps) {
  return (
    <button
      ref={ref}
      type="button"
      aria-label={label}
      disabled={isDisabled}
      aria-disabled={isAtEnd || undefined}
      onClick={onClick}
      className="group grid size-11 place-items-center rounded-pill aria-disabled:cursor-not-allowed"
    >
      <span className="grid size-9 place-items-center rounded-pill border border-line-strong text-dusk-800 transition-colors group-hover:bg-paper-deep group-disabled:border-line group-disabled:bg-transparent group-disabled:text-line-strong group-aria-disabled:border-line group-aria-disabled:bg-transparent group-aria-disabled:text-line-strong">
        <Icon name={icon} className="size-4" />
      </span>
    </button>
  );
}
