// The stock of a product in its row: one unit less or more, or a typed number. Enter saves it, Escape restores it.
import { type KeyboardEvent, useId, useState } from 'react';
import { Icon } from '../../ui/icons.tsx';
import type { ListedProduct } from './product-queries.ts';
import { checkStock, readWhole } from './product-values.ts';

export interface StockHandlers {
  isChangingStock(product: ListedProduct): boolean;
  onStep(product: ListedProduct, by: number): void;
  /** @param seen the stock when the member began to type */
  onType(product: ListedProduct, seen: number, units: number): void;
}

interface Draft {
  text: string;
  seen: number;
}

const stepButton =
  'grid min-h-9 w-9 shrink-0 place-items-center text-ink hover:bg-paper-deep rows:min-h-11 rows:w-11 ' +
  'aria-disabled:cursor-not-allowed aria-disabled:text-ink-faint aria-disabled:hover:bg-transparent';

export function StockStepper({ product, ...handlers }: StockHandlers & { product: ListedProduct }) {
  const { isChangingStock, onStep, onType } = handlers;
  const id = useId();
  const { name, stock_quantity: units, is_low_on_stock: isLow } = product;
  const [draft, setDraft] = useState<Draft | null>(null);
  const problem = draft && checkStock(draft.text);

  function commit(): void {
    if (!draft || problem) return;
    setDraft(null);
    onType(product, draft.seen, readWhole(draft.text) ?? draft.seen);
  }
  function onKeyDown(event: KeyboardEvent<HTMLInputElement>): void {
    const step = { ArrowUp: 1, ArrowDown: -1 }[event.key];
    if (event.key === 'Enter') commit();
    else if (event.key === 'Escape') setDraft(null);
    else if (step && !draft) onStep(product, step);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }
  return (
    <div className="min-w-0">
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
          type="text"
          inputMode="numeric"
          autoComplete="off"
          aria-label={`Units of ${name}`}
          aria-invalid={problem ? true : undefined}
          aria-describedby={problem ? `${id}-problem` : undefined}
          data-own-escape
          value={draft?.text ?? String(units)}
          onFocus={({ target }) => target.select()}
          onChange={({ target }) => setDraft({ text: target.value, seen: draft?.seen ?? units })}
          onKeyDown={onKeyDown}
          onBlur={commit}
          className={`w-14 rounded-none border-x border-line bg-transparent px-1 text-center font-semibold tabular-nums aria-invalid:text-danger ${
            units === 0 ? 'text-danger' : isLow ? 'text-tone-orange' : 'text-ink'
          }`}
        />
        <button
          type="button"
          aria-label={`One more of ${name}`}
          onClick={() => onStep(product, 1)}
          className={stepButton}
        >
          <Icon name="plus" className="size-4" />
        </button>
      </fieldset>
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
