// Adds drinks to an order: search, suggestions, and the quantity of each at once. Shown in place of the dialog's content.

import { type ReactNode, useEffect, useId, useRef, useState } from 'react';
import { formatKsh } from '../../../../domain/money.ts';
import { maxDrinks } from '../../../lib/orders/order-contents.ts';

import { Button } from '../../../ui/button.tsx';
import { useDialogEntry } from '../../../ui/dialog/dialog-history.ts';
import { DialogBody, DialogFooter, DialogHeading } from '../../../ui/dialog/dialog-or-drawer.tsx';
import { TextField } from '../../../ui/field.tsx';
import { flavourSlug } from '../../../ui/flavour.tsx';
import { ProductImage } from '../../../ui/product-image.tsx';
import { leftTitle } from '../order-callouts.tsx';
import {
  describeUnits,
  type OrderedProduct,
  type OrderLine,
  quantityIn,
  withQuantity,
} from './order-lines.ts';
import { QuantitySteps } from './quantity-steps.tsx';
import { useDrinks } from './use-drinks.ts';

interface DrinkPickerProps {
  lines: readonly OrderLine[];
  onLinesChange(lines: OrderLine[]): void;
  /** Of the whole order with its delivery fee, in cents. */
  total: number;
  onDone(): void;
  /** By Back and Escape. Default: `onDone`. */
  onBack?: () => void;
  /** Default: Done. */
  doneLabel?: string;
}

export function DrinkPicker({
  lines,
  onLinesChange,
  total,
  onDone,
  onBack = onDone,
  doneLabel = 'Done',
}: DrinkPickerProps) {
  const [typed, setTyped] = useState('');
  const { groups, term, isLoading, retry } = useDrinks(typed, lines);
  const [announcement, setAnnouncement] = useState('');
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => heading.current?.focus(), []);
  useDialogEntry(true, () => {
    onBack();
    return true;
  });
  const isFull = lines.length >= maxDrinks;

  function change(product: OrderedProduct, quantity: number) {
    const next = withQuantity(lines, product, quantity);
    setAnnouncement(
      quantity > 0
        ? `${quantity} × ${product.name} in your order. ${describeUnits(next)} in all.`
        : `${product.name} removed. ${describeUnits(next)} in all.`,
    );
    onLinesChange(next);
  }
  const rowsOf = (drinks: readonly OrderedProduct[]) =>
    drinks.map((product) => (
      <Row
        key={product.id}
        product={product}
        quantity={quantityIn(lines, product.id)}
        // An order keeps one drink.
        isRemovable={lines.length > 1}
        isFull={isFull}
        onChange={(quantity) => change(product, quantity)}
      />
    ));

  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: Escape anywhere inside returns to the order
    <div
      className="contents"
      data-own-escape
      onKeyDown={(event) => {
        if (event.key === 'Escape') onBack();
      }}
    >
      <DialogHeading
        ref={heading}
        title="Add another drink"
        description="All in one order, with one delivery fee."
      />
      <DialogBody>
        <div className="grid grid-cols-1 gap-4">
          <TextField
            label="Search drinks"
            type="search"
            name="drink-search"
            inputMode="search"
            enterKeyHint="search"
            autoComplete="off"
            placeholder="Mango, ginger, can…"
            value={typed}
            onChange={(event) => setTyped(event.target.value)}
          />
          {isFull ? (
            <p role="status" className="text-sm font-semibold">
              {maxDrinks} different drinks are the most in one order.
            </p>
          ) : null}
          <div aria-busy={isLoading || undefined} className="grid grid-cols-1 gap-4">
            {groups === null ? (
              <p role="status" className="text-sm text-ink-soft">
                Loading drinks…
              </p>
            ) : groups === 'failed' ? (
              <div role="status" className="grid justify-items-start gap-2 text-sm">
                We couldn't load the drinks just now.
                <Button tone="outline" onClick={retry}>
                  Try again
                </Button>
              </div>
            ) : groups.every(({ drinks }) => drinks.length === 0) ? (
              <p role="status" className="text-sm wrap-anywhere">
                {term
                  ? `No drink in stock matches “${term}”. Try another word.`
                  : 'Every other drink is sold out right now.'}
              </p>
            ) : (
              groups.map(({ title, drinks }) => <Group key={title} title={title} rows={rowsOf(drinks)} />)
            )}
          </div>
        </div>
        <p role="status" className="sr-only">
          {announcement}
        </p>
      </DialogBody>
      <DialogFooter isSticky>
        <Button size="large" onClick={onDone} className="w-full">
          {doneLabel} · {formatKsh(total)}
        </Button>
      </DialogFooter>
    </div>
  );
}

/** Matches of a text have no title. */
function Group({ title, rows }: { title: string; rows: ReactNode }) {
  const id = useId();
  return (
    <section aria-label={title ? undefined : 'Matches'} aria-labelledby={title ? id : undefined}>
      {title ? (
        <h3 id={id} className="text-sm font-semibold text-ink-soft">
          {title}
        </h3>
      ) : null}
      <ul className="divide-y divide-line">{rows}</ul>
    </section>
  );
}

interface RowProps {
  product: OrderedProduct;
  quantity: number;
  isRemovable: boolean;
  /** Whether no other drink can be added. */
  isFull: boolean;
  onChange(quantity: number): void;
}

function Row({ product, quantity, isRemovable, isFull, onChange }: RowProps) {
  const { name, price, image_url, category, stock_quantity } = product;
  const plus = useRef<HTMLButtonElement>(null);
  const add = useRef<HTMLButtonElement>(null);
  const isPressed = useRef(false);
  const isIn = quantity > 0;
  // The pressed button disappears: focus moves to its replacement.
  useEffect(() => {
    if (isPressed.current) (isIn ? plus : add).current?.focus();
    isPressed.current = false;
  }, [isIn]);
  const change = (next: number) => {
    isPressed.current = next > 0 !== isIn;
    onChange(next);
  };
  return (
    <li
      data-flavour={flavourSlug(category ?? null)}
      className="flex flex-wrap items-center justify-end gap-x-3 gap-y-1 py-2"
    >
      <span className="@container relative size-12 shrink-0 overflow-hidden rounded-md bg-[color-mix(in_oklab,var(--flavour)_30%,var(--color-paper-deep))]">
        <ProductImage src={image_url} alt="" sizes="48px" className="absolute inset-0 size-full" />
      </span>
      <p className="min-w-[min(8rem,100%)] flex-1 leading-tight wrap-anywhere">
        <span className="block font-semibold">{name}</span>
        <span className="text-sm whitespace-nowrap text-ink-soft tabular-nums">{formatKsh(price)}</span>
        {quantity > stock_quantity ? (
          <strong className="block text-sm">{leftTitle(stock_quantity)}.</strong>
        ) : null}
      </p>
      {isIn ? (
        <QuantitySteps
          label={`Quantity of ${name}`}
          quantity={quantity}
          removeLabel={isRemovable ? `Remove ${name}` : undefined}
          plusRef={plus}
          onChange={change}
        />
      ) : (
        <Button ref={add} tone="quiet" aria-label={`Add ${name}`} disabled={isFull} onClick={() => change(1)}>
          Add
        </Button>
      )}
    </li>
  );
}
