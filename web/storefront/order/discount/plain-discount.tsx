// The discount code of the order form without JavaScript.

import { formatKsh } from '../../../../domain/money.ts';
import type { DiscountTerms } from '../../../../domain/orders/discount.ts';
import { Button } from '../../../ui/button.tsx';
import { TextField } from '../../../ui/field.tsx';
import { TextWithAmounts } from '../../../ui/price.tsx';

/** Names of the field, of the button beside it, and of the hidden field with the code whose discount is shown. */
export const codeField = 'discountCode';
export const applyField = 'applyCode';
export const appliedField = 'appliedCode';

interface PlainDiscountProps {
  typed: string;
  terms: DiscountTerms | null;
  problem: string | undefined;
  /** What the code takes off, in cents. */
  cents: number;
  /** Whether the code was just applied or refused. */
  takesFocus: boolean;
}

/** An empty field removes the code. */
export function PlainDiscount({ typed, terms, problem, cents, takesFocus }: PlainDiscountProps) {
  return (
    <div>
      <input type="hidden" name={appliedField} value={terms?.code ?? ''} />
      <div className="flex items-start gap-2">
        <div className="min-w-0 flex-1">
          <TextField
            label="Discount code"
            name={codeField}
            defaultValue={terms?.code ?? typed}
            problem={problem}
            autoComplete="off"
            autoCapitalize="characters"
            spellCheck={false}
            maxLength={40}
            autoFocus={takesFocus}
          />
        </div>
        <Button
          type="submit"
          tone="outline"
          name={applyField}
          value="yes"
          formNoValidate
          className="mt-7 min-h-12!"
        >
          Apply
        </Button>
      </div>
      {terms ? (
        <p className="mt-1.5 text-sm">
          <TextWithAmounts>
            {cents > 0
              ? `Code ${terms.code} takes ${formatKsh(cents)} off.`
              : `Code ${terms.code} is for drinks of at least ${formatKsh(terms.minimum_cents)}.`}
          </TextWithAmounts>
        </p>
      ) : problem ? (
        <p className="mt-1.5 text-sm">Leave it empty to order without a code.</p>
      ) : null}
    </div>
  );
}
