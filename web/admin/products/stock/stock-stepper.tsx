// The stock of a product in its row: one unit less or more, or a typed number, which may have a reason. Enter saves it, Escape restores it.
import { type FocusEvent, type KeyboardEvent, useId, useRef, useState } from 'react';
import { Icon } from '../../../ui/icons.tsx';
import { reasonProblem } from '../../ui/typed-problems.ts';
import type { ListedProduct } from '../product-queries.ts';
import { checkStock, readWhole } from '../product-values.ts';

export interface StockHandlers {
  isChangingStock(product: ListedProduct): boolean;
  onStep(product: ListedProduct, by: number): void;
  /**
   * @param seen the stock when the member began to type
   * @param reason why, in the member's words; '' for none
   */
  onType(product: ListedProduct, seen: number, units: number, reason: string): void;
}

interface Draft {
  text: string;
  seen: number;
  reason: string;
}

const stepButton =
  'grid min-h-9 w-9 shrink-0 place-items-center text-ink hover:bg-paper-deep rows:min-h-11 rows:w-11 ' +
  'aria-disabled:cursor-not-allowed aria-disabled:text-ink-faint aria-disabled:hover:bg-transparent';

export function StockStepper({ product, ...handlers }: StockHandlers & { product: ListedProduct }) {
  const { isChangingStock, onStep, onType } = handlers;
  const id = useId();
  const { name, stock_quantity: units, is_low_on_stock: isLow } = product;
  const [draft, setDraft] = useState<Draft | null>(null);
  const stockProblem = draft && checkStock(draft.text);
  const whyProblem = draft?.reason.trim() ? reasonProblem(draft.reason) : null;
  const problem = stockProblem ?? whyProblem;
  const number = useRef<HTMLInputElement>(null);
  const why = useRef<HTMLInputElement>(null);

  function commit(): void {
    if (!draft || problem) return;
    setDraft(null);
    onType(product, draft.seen, readWhole(draft.text) ?? draft.seen, draft.reason.trim());
  }
  function onKeyDown(event: KeyboardEvent<HTMLInputElement>): void {
    const isNumber = event.currentTarget === number.current;
    const step = isNumber && !draft && { ArrowUp: 1, ArrowDown: -1 }[event.key];
    if (event.key === 'Enter') commit();
    else if (event.key === 'Escape') setDraft(null);
    else if (step) onStep(product, step);
    else return;
    // The field of the reason goes with the draft.
    if (!isNumber && (event.key === 'Escape' || !problem)) number.current?.focus();
    event.preventDefault();
    event.stopPropagation();
  }
  function onBlur({ relatedTarget }: FocusEvent): void {
    if (relatedTarget === null || (relatedTarget !== number.current && relatedTarget !== why.current))
      commit();
  }
  return (
    <div className="relative min-w-0">
      <fieldset
        aria-label={`Stock of ${name}`}
        aria-busy={isChangingStock(product) || undefined}
        className="inline-flex overflow-hidden rounded-md border border-line-strong bg-card focus-within:border-dusk-500 aria-busy:bg-paper-deep"
      >
        <button
          type="button"
          aria-label={`One less of ${name}`}
          aria-disabled={units === 0 || undefined}
          onClick={() => onStep(product, -1)}
          className={stepButton}
        >
          <Icon name="minus" className="size-4" />
        </button>
        <input
          ref={number}
          type="text"
          inputMode="numeric"
          autoComplete="off"
          aria-label={`Units of ${name}`}
          aria-invalid={stockProblem ? true : undefined}
          aria-describedby={stockProblem ? `${id}-problem` : undefined}
          data-own-escape
          value={draft?.text ?? String(units)}
          onFocus={({ target }) => target.select()}
          onChange={({ target }) => setDraft({ seen: units, reason: '', ...draft, text: target.value })}
          onKeyDown={onKeyDown}
          onBlur={onBlur}
          className={`w-14 rounded-none border-x border-line bg-transparent px-1 text-center font-semibold tabular-nums aria-invalid:text-danger ${
            units === 0 ? 'text-danger' : isLow ? 'text-tone-orange' : 'text-ink'
          }`}
        />
        <button
          type="button"
          aria-label={`One more of ${name}`}
          // After a typed number the next key press of Tab leads to its reason.
          tabIndex={draft ? -1 : undefined}
          onClick={() => onStep(product, 1)}
          className={stepButton}
        >
          <Icon name="plus" className="size-4" />
        </button>
      </fieldset>
      {draft ? (
        // Beside the number, over its own row: other rows keep their place while one of them is pressed.
        <input
          ref={why}
          type="text"
          autoComplete="off"
          maxLength={200}
          aria-label={`Why the stock of ${name} changes (optional)`}
          aria-invalid={whyProblem ? true : undefined}
          aria-describedby={whyProblem ? `${id}-problem` : undefined}
          data-own-escape
          placeholder="Why? (optional)"
          value={draft.reason}
          onChange={({ target }) => setDraft({ ...draft, reason: target.value })}
          onKeyDown={onKeyDown}
          onBlur={onBlur}
          className="absolute top-0 left-full z-10 ml-1.5 min-h-9 w-52 rounded-md border border-line-strong bg-card px-2 text-sm shadow-md rows:min-h-11 rows:w-40"
        />
      ) : null}
      {problem ? (
        <p
          id={`${id}-problem`}
          role="alert"
          className="max-w-44 text-left text-xs font-semibold whitespace-normal text-danger"
        >
          {problem}
        </p>
      ) : null}
    </div>
  );
}

/** Whether few units are left, in words. */
export function StockLevel({ stock_quantity, is_low_on_stock }: ListedProduct) {
  if (stock_quantity > 0 && !is_low_on_stock) return null;
  return (
    <span
      className={`text-xs font-bold whitespace-nowrap ${stock_quantity === 0 ? 'text-danger' : 'text-tone-orange'}`}
    >
      {stock_quantity === 0 ? 'Out of stock' : 'Low'}
    </span>
  );
}
