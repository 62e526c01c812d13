// The drinks of the order form without JavaScript. Every change is a submit button of the form around it.

import { formatKsh } from '../../../../domain/money.ts';
import { maxDrinks } from '../../../lib/orders/order-contents.ts';

import { Button } from '../../../ui/button.tsx';
import { TextField } from '../../../ui/field.tsx';
import { flavourSlug } from '../../../ui/flavour.tsx';
import { Icon } from '../../../ui/icons.tsx';
import { ProductImage } from '../../../ui/product-image.tsx';
import { describeLeft, leftTitle } from '../order-callouts.tsx';
import { OrderedLine } from '../order-summary.tsx';
import { isGone, type LineProblem, type OrderedProduct, type OrderLine } from './order-lines.ts';
import { partySizesFor } from './party-sizes.ts';
import {
  changeField,
  changeValues,
  drinkField,
  searchedField,
  searchField,
  writeDrink,
} from './posted-drinks.ts';

interface ChangeButtonProps {
  value: string;
  label?: string;
  className?: string;
  children: React.ReactNode;
}

/** Ignores incomplete fields: only an order needs them. */
function ChangeButton({ value, label, className = '', children }: ChangeButtonProps) {
  return (
    <button
      type="submit"
      name={changeField}
      value={value}
      aria-label={label}
      formNoValidate
      className={`min-h-11 rounded-md font-semibold text-dusk-600 underline underline-offset-2 hover:text-dusk-800 ${className}`}
    >
      {children}
    </button>
  );
}

function Step({ value, label, icon }: { value: string; label: string; icon: 'minus' | 'plus' }) {
  return (
    <button
      type="submit"
      name={changeField}
      value={value}
      aria-label={label}
      formNoValidate
      className="grid size-11 place-items-center rounded-pill border border-line-strong text-dusk-800 hover:bg-paper-deep"
    >
      <Icon name={icon} className="size-4" />
    </button>
  );
}

/** Enter in a field presses the first submit button of a form. This one comes before those that change the drinks. */
export function DefaultButton() {
  return (
    <button
      type="submit"
      name={changeField}
      value={changeValues.enter}
      formNoValidate
      tabIndex={-1}
      aria-hidden="true"
      className="sr-only"
    >
      Place Order
    </button>
  );
}

interface PlainLinesProps {
  lines: readonly OrderLine[];
  /** Shown beside its line, except that the page itself reports that its only drink is gone. */
  problemOf(line: OrderLine): LineProblem | null;
}

export function PlainLines({ lines, problemOf }: PlainLinesProps) {
  const isSeveral = lines.length > 1;
  return (
    <ul aria-label={isSeveral ? 'Your drinks' : 'Your drink'} className="grid grid-cols-1 gap-4">
      {lines.map((line) => {
        const { product, quantity } = line;
        const { id, name } = product;
        const problem = problemOf(line);
        return (
          <li key={id} className="grid grid-cols-1 gap-1">
            <input type="hidden" name={drinkField} value={writeDrink(line)} />
            {isSeveral ? (
              <OrderedLine
                product={product}
                quantity={quantity}
                isOfSeveral
                isGone={isGone(problem)}
                action={
                  <ChangeButton
                    value={changeValues.set(id, 0)}
                    label={`Remove ${name}`}
                    className="-mx-2 -my-3 px-2"
                  >
                    Remove
                  </ChangeButton>
                }
              >
                {/* biome-ignore lint/a11y/useSemanticElements: some browsers cannot lay out a fieldset as a pill */}
                <div role="group" aria-label={`Quantity of ${name}`} className="flex items-center">
                  {quantity > 1 ? (
                    <Step value={changeValues.set(id, quantity - 1)} label="One less" icon="minus" />
                  ) : null}
                  <strong className="min-w-9 px-1 text-center font-display text-lg wrap-anywhere tabular-nums">
                    {quantity}
                  </strong>
                  <Step value={changeValues.set(id, quantity + 1)} label="One more" icon="plus" />
                </div>
              </OrderedLine>
            ) : (
              <>
                <OrderedLine product={product} quantity={quantity} isGone={isGone(problem)} />
                <PartySizes line={line} />
              </>
            )}
            <LineNotice id={id} problem={isSeveral || !isGone(problem) ? problem : null} />
          </li>
        );
      })}
    </ul>
  );
}

function PartySizes({ line: { product, quantity } }: { line: OrderLine }) {
  const sizes = partySizesFor(product.stock_quantity).filter((size) => size !== quantity);
  if (sizes.length === 0) return null;
  return (
    <p className="-my-2 flex flex-wrap items-center text-sm text-ink-soft">
      Party?
      {sizes.map((size) => (
        <ChangeButton
          key={size}
          value={changeValues.set(product.id, size)}
          label={`Order ${size} for a party`}
          className="min-w-9 px-2"
        >
          {size}
        </ChangeButton>
      ))}
    </p>
  );
}

function LineNotice({ id, problem }: { id: string; problem: LineProblem | null }) {
  if (!problem) return null;
  return (
    <p role="status" className="text-sm">
      {problem.kind === 'too_many' ? (
        <>
          <strong>{leftTitle(problem.left)}.</strong> {describeLeft(problem.left, 0)}{' '}
          <ChangeButton value={changeValues.set(id, problem.left)} className="px-2">
            Order {problem.left} instead
          </ChangeButton>
        </>
      ) : (
        <>
          <strong>{problem.kind === 'off' ? "We don't sell this one any more." : 'Sold out for now.'}</strong>{' '}
          <ChangeButton value={changeValues.set(id, 0)} className="px-2">
            Remove it
          </ChangeButton>
        </>
      )}
    </p>
  );
}

interface PlainPickerProps {
  lines: readonly OrderLine[];
  /** Matches of the text, or suggestions without one. */
  drinks: readonly OrderedProduct[];
  term: string;
  isOpen: boolean;
}

export function PlainPicker({ lines, drinks, term, isOpen }: PlainPickerProps) {
  if (lines.length >= maxDrinks) {
    return <p className="text-sm text-ink-soft">{maxDrinks} different drinks are the most in one order.</p>;
  }
  const offered = drinks.filter(({ id }) => !lines.some(({ product }) => product.id === id));
  return (
    <details open={isOpen} className="group">
      <summary className="inline-flex min-h-11 list-none items-center gap-2 rounded-md font-semibold text-dusk-600 underline underline-offset-2 [&::-webkit-details-marker]:hidden">
        Add another drink
        <Icon name="chevron" className="size-4 transition-[rotate] group-open:rotate-180" />
      </summary>
      <div className="grid grid-cols-1 gap-3 pt-2">
        <div className="grid grid-cols-[minmax(0,1fr)_auto] items-end gap-2">
          <TextField
            label="Search drinks"
            type="search"
            name={searchField}
            autoComplete="off"
            defaultValue={term}
          />
          <Button
            type="submit"
            tone="outline"
            size="large"
            name={changeField}
            value={changeValues.search}
            formNoValidate
          >
            Search
          </Button>
        </div>
        <input type="hidden" name={searchedField} value={term} />
        {offered.length === 0 ? (
          <p role="status" className="text-sm wrap-anywhere">
            {term ? `No other drink in stock matches “${term}”.` : 'Every other drink is sold out right now.'}
          </p>
        ) : (
          <ul className="divide-y divide-line">
            {offered.map(({ id, name, price, image_url, category }) => (
              <li
                key={id}
                data-flavour={flavourSlug(category ?? null)}
                className="flex items-center gap-3 py-2"
              >
                <ProductImage
                  src={image_url}
                  alt=""
                  sizes="48px"
                  className="size-12 shrink-0 rounded-md text-xl!"
                />
                <p className="min-w-0 flex-1 leading-tight wrap-anywhere">
                  <span className="block font-semibold">{name}</span>
                  <span className="text-sm whitespace-nowrap text-ink-soft tabular-nums">
                    {formatKsh(price)}
                  </span>
                </p>
                <Button
                  type="submit"
                  tone="quiet"
                  name={changeField}
                  value={changeValues.add(id)}
                  aria-label={`Add ${name}`}
                  formNoValidate
                >
                  Add
                </Button>
              </li>
            ))}
          </ul>
        )}
      </div>
    </details>
  );
}
