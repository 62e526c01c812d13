// The discount code of a new order: a text button, then a field, then the applied code.
import { useEffect, useRef, useState } from 'react';
import { formatKes } from '../../../../domain/money.ts';
import type { DiscountTerms } from '../../../../domain/orders/discount.ts';
import { checkCode } from '../../../lib/orders/check-discount-code.ts';
import { Button } from '../../../ui/button.tsx';
import { TextField } from '../../../ui/field.tsx';
import { useAction } from '../../../ui/use-action.ts';
import { useMember } from '../../layout/roles/use-member.tsx';

interface DraftDiscountProps {
  terms: DiscountTerms | null;
  /** What it takes off these drinks, in cents: 0 below its minimum. */
  cents: number;
  /** Why the order was refused with it. */
  problem: string | undefined;
  disabled: boolean;
  onChange(terms: DiscountTerms | null): void;
}

export function DraftDiscount({ terms, cents, problem, disabled, onChange }: DraftDiscountProps) {
  const { tables } = useMember().staff;
  const [typed, setTyped] = useState(terms?.code ?? '');
  const [isOpen, setOpen] = useState(false);
  const [found, setFound] = useState<string>();
  const { isRunning, run } = useAction();
  const input = useRef<HTMLDivElement>(null);
  const isField = terms === null && (isOpen || problem !== undefined);
  const wasPressed = useRef(false);
  useEffect(() => {
    if (isField && wasPressed.current) input.current?.querySelector('input')?.focus();
    wasPressed.current = false;
  }, [isField]);

  const apply = () =>
    run(
      async () => {
        setFound(undefined);
        const checked = typed.trim() === '' ? null : await checkCode(tables, typed);
        setFound(checked ? checked.problem : 'Please enter the code.');
        if (!checked?.terms) return;
        setTyped(checked.terms.code);
        onChange(checked.terms);
      },
      (error) => {
        console.warn('The discount code could not be checked', error);
        setFound('The code could not be checked. Please try again.');
      },
    );

  if (terms) {
    return (
      <p className="flex flex-wrap items-center justify-between gap-x-3 text-sm">
        <span className="wrap-anywhere" role="status">
          {cents > 0
            ? `Code ${terms.code}: ${formatKes(cents)} off`
            : terms.minimum_cents > 0
              ? `Code ${terms.code} is for drinks from ${formatKes(terms.minimum_cents)}`
              : `Code ${terms.code} takes nothing off`}
        </span>
        <button
          type="button"
          disabled={disabled}
          aria-label={`Remove code ${terms.code}`}
          onClick={() => {
            setTyped('');
            setOpen(false);
            onChange(null);
          }}
          className="tap font-semibold underline"
        >
          Remove
        </button>
      </p>
    );
  }
  if (!isField) {
    return (
      <button
        type="button"
        disabled={disabled}
        onClick={() => {
          wasPressed.current = true;
          setOpen(true);
        }}
        className="tap justify-self-start text-sm font-semibold underline"
      >
        Discount code
      </button>
    );
  }
  return (
    <div ref={input} className="flex items-start gap-2">
      <div className="min-w-0 flex-1">
        <TextField
          label="Discount code"
          name="discountCode"
          value={typed}
          problem={found ?? problem}
          disabled={disabled}
          autoComplete="off"
          autoCapitalize="characters"
          spellCheck={false}
          maxLength={40}
          onChange={({ target }) => {
            setTyped(target.value);
            setFound(undefined);
          }}
          onKeyDown={(event) => {
            if (event.key !== 'Enter') return;
            // Not the order.
            event.preventDefault();
            void apply();
          }}
        />
      </div>
      <Button
        tone="quiet"
        isBusy={isRunning}
        disabled={disabled}
        onClick={() => void apply()}
        className="mt-7 min-h-12!"
      >
        {isRunning ? 'Checking...' : 'Apply'}
      </Button>
    </div>
  );
}
