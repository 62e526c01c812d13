// The drinks of a new order: a list to choose from, those sold most first, and what was chosen.

import { type KeyboardEvent, useDeferredValue, useEffect, useEffectEvent, useState } from 'react';
import { formatCount } from '../../../../domain/count.ts';
import { formatKes } from '../../../../domain/money.ts';
import { maxDrinks } from '../../../lib/orders/order-contents.ts';

import { Button } from '../../../ui/button.tsx';
import { Icon } from '../../../ui/icons.tsx';
import { ProductImage } from '../../../ui/product-image.tsx';
import { drinkAndBrand } from '../place.ts';
import {
  type Draft,
  type Drink,
  type KnownDrinks,
  type Line,
  priceOf,
  problemOfLine,
  withQuantity,
} from './draft.ts';
import { useDrinks } from './new-order-queries.ts';

interface DrinkPickerProps {
  draft: Draft;
  /** The drinks of the order. */
  drinks: KnownDrinks;
  /** What the shop said about a drink, by its id. */
  refusals: ReadonlyMap<string, string>;
  /** What is missing in the list of drinks. */
  problem: string | undefined;
  disabled: boolean;
  onChange(draft: Draft): void;
}

/** Rows before "More drinks". */
const firstRows = 6;

export function DrinkPicker({ draft, drinks, refusals, problem, disabled, onChange }: DrinkPickerProps) {
  const [typed, setTyped] = useState('');
  const search = useDeferredValue(typed.trim().slice(0, 100));
  const [isWhole, setWhole] = useState(false);
  const { data: found, error, isFetching, refetch, isPlaceholderData } = useDrinks(search);
  const shown = isWhole || search !== '' ? found : found?.slice(0, firstRows);
  const isFull = draft.lines.length >= maxDrinks;
  const quantityOf = (id: string) => draft.lines.find(({ productId }) => productId === id)?.quantity ?? 0;
  const set = (drink: Pick<Drink, 'id' | 'name' | 'price'>, quantity: number) =>
    onChange(withQuantity(draft, drink, quantity));

  // Pressed before the drinks of this search are known, it counts once they are.
  const [isEntered, setEntered] = useState(false);
  const isSettled = search === typed.trim().slice(0, 100) && found !== undefined && !isPlaceholderData;
  const addFirst = useEffectEvent(() => {
    setEntered(false);
    const first = found?.[0];
    if (search === '' || !first || first.units_left === 0) return;
    set(first, Math.min(quantityOf(first.id) + 1, first.units_left));
    setTyped('');
  });
  useEffect(() => {
    if (isEntered && isSettled) addFirst();
  }, [isEntered, isSettled]);

  function onKeyDown(event: KeyboardEvent) {
    if (event.key !== 'Enter') return;
    // Adds the first drink instead of placing the order.
    event.preventDefault();
    setEntered(true);
  }
  return (
    <div className="grid gap-3">
      <div className="relative">
        <Icon
          name="search"
          className="pointer-events-none absolute top-1/2 left-3 size-4.5 -translate-y-1/2 text-ink-faint"
        />
        <input
          type="search"
          aria-label="Search drinks"
          aria-invalid={problem ? true : undefined}
          aria-describedby={problem ? 'drinks-problem' : undefined}
          placeholder="Search drinks..."
          name="drinks"
          value={typed}
          maxLength={100}
          autoComplete="off"
          disabled={disabled}
          onChange={({ target }) => {
            setTyped(target.value);
            setEntered(false);
          }}
          onKeyDown={onKeyDown}
          className="min-h-11 w-full rounded-md border border-line-strong bg-card pr-2 pl-9 text-base placeholder:text-ink-faint aria-invalid:border-danger"
        />
      </div>
      {problem ? (
        <p id="drinks-problem" className="-mt-1.5 text-sm font-semibold text-danger">
          {problem}
        </p>
      ) : null}
      {error && !found ? (
        <p role="alert" className="flex flex-wrap items-center gap-3 text-sm text-danger">
          The drinks could not be loaded.
          <Button tone="quiet" isBusy={isFetching} onClick={() => void refetch()}>
            Try again
          </Button>
        </p>
      ) : null}
      <ul aria-label="Drinks" aria-busy={isPlaceholderData || undefined} className="grid">
        {shown?.map((drink) => (
          <Choosable
            key={drink.id}
            drink={drink}
            quantity={quantityOf(drink.id)}
            disabled={disabled || (isFull && quantityOf(drink.id) === 0)}
            onSet={(quantity) => set(drink, quantity)}
          />
        ))}
      </ul>
      {found?.length === 0 ? (
        <p role="status" className="text-sm text-ink-soft">
          No drink for sale has these words in its name or brand.
        </p>
      ) : null}
      {shown && found && shown.length < found.length ? (
        <Button tone="quiet" onClick={() => setWhole(true)}>
          More drinks
        </Button>
      ) : null}
      {isFull ? (
        <p role="status" className="text-sm text-ink-soft">
          An order has at most {maxDrinks} different drinks.
        </p>
      ) : null}
      {draft.lines.length > 0 ? (
        <section aria-label="In the order" className="grid gap-1 border-t border-line pt-3">
          <h3 className="text-sm font-bold">In the order</h3>
          <ul className="grid">
            {draft.lines.map((line) => (
              <Chosen
                key={line.productId}
                line={line}
                price={priceOf(line, drinks)}
                unitsLeft={drinks.get(line.productId)?.units_left}
                problem={problemOfLine(line, drinks) ?? refusals.get(line.productId) ?? null}
                disabled={disabled}
                onSet={(quantity) =>
                  set({ id: line.productId, name: line.name, price: line.price }, quantity)
                }
              />
            ))}
          </ul>
        </section>
      ) : null}
    </div>
  );
}

function describeStock(units: number): string {
  return units === 0 ? 'Out of stock' : `${formatCount(units)} left`;
}

interface ChoosableProps {
  drink: Drink;
  quantity: number;
  disabled: boolean;
  onSet(quantity: number): void;
}

function Choosable({ drink, quantity, disabled, onSet }: ChoosableProps) {
  const [name, brand] = drinkAndBrand({ product_name: drink.name, product: { brand: drink.brand } });
  const isOut = drink.units_left === 0;
  return (
    <li className="flex min-h-14 items-center gap-2.5 border-b border-line py-1 last:border-b-0">
      <span className={`block size-10 shrink-0 ${isOut ? 'opacity-50' : ''}`}>
        <ProductImage src={drink.image_url} alt="" sizes="40px" className="size-full rounded-md text-lg!" />
      </span>
      <span className="min-w-0 flex-1 text-sm leading-5">
        <span className="line-clamp-2 font-semibold wrap-anywhere">
          {name} {brand ? <span className="font-normal text-ink-soft">{brand}</span> : null}
        </span>
        <span className="block text-xs text-ink-soft tabular-nums">
          {formatKes(drink.price)} ·{' '}
          <span className={isOut ? 'font-bold text-danger' : ''}>{describeStock(drink.units_left)}</span>
        </span>
      </span>
      {isOut && quantity === 0 ? null : (
        <Stepper
          name={drink.name}
          quantity={quantity}
          most={drink.units_left}
          disabled={disabled}
          onSet={onSet}
        />
      )}
    </li>
  );
}

interface ChosenProps {
  line: Line;
  /** In cents, now. */
  price: number;
  /** Undefined while unknown, or not for sale. */
  unitsLeft: number | undefined;
  problem: string | null;
  disabled: boolean;
  onSet(quantity: number): void;
}

function Chosen({ line, price, unitsLeft, problem, disabled, onSet }: ChosenProps) {
  const isFewer = unitsLeft !== undefined && unitsLeft > 0 && unitsLeft < line.quantity;
  return (
    <li data-line={line.productId} className="flex items-center gap-2 py-1 text-sm">
      <span className="min-w-0 flex-1 leading-5">
        <span className="wrap-anywhere">
          <b className="tabular-nums">{line.quantity} ×</b> {line.name}
        </span>
        {price === line.price ? null : (
          <span className="block text-xs font-semibold text-ember-800">
            {formatKes(price)} each now, {formatKes(line.price)} before
          </span>
        )}
        {problem ? (
          <span role="alert" className="block font-semibold text-danger">
            {problem}
            {isFewer ? (
              <button
                type="button"
                disabled={disabled}
                onClick={() => onSet(unitsLeft)}
                className="tap ml-2 font-semibold underline"
              >
                Take {unitsLeft}
              </button>
            ) : null}
          </span>
        ) : null}
      </span>
      <span className="whitespace-nowrap tabular-nums">{formatKes(price * line.quantity)}</span>
      <button
        type="button"
        disabled={disabled}
        onClick={() => onSet(0)}
        aria-label={`Take ${line.name} out`}
        title="Take out"
        className="grid size-10 shrink-0 place-items-center rounded-md text-ink-soft hover:bg-paper-deep hover:text-ink"
      >
        <Icon name="close" className="size-4" />
      </button>
    </li>
  );
}

interface StepperProps {
  name: string;
  quantity: number;
  /** Units that can be ordered. */
  most: number;
  disabled: boolean;
  onSet(quantity: number): void;
}

const step =
  'grid size-11 shrink-0 place-items-center rounded-md text-ink hover:bg-paper-deep ' +
  'disabled:cursor-not-allowed disabled:text-ink-faint disabled:hover:bg-transparent';

function Stepper({ name, quantity, most, disabled, onSet }: StepperProps) {
  return (
    <fieldset
      aria-label={`Quantity of ${name}`}
      className="flex shrink-0 items-center rounded-md border border-line-strong bg-card"
    >
      {quantity > 0 ? (
        <>
          <button
            type="button"
            disabled={disabled}
            aria-label={`One less of ${name}`}
            onClick={() => onSet(quantity - 1)}
            className={step}
          >
            <Icon name="minus" className="size-4" />
          </button>
          <output className="min-w-5 text-center font-bold tabular-nums">{quantity}</output>
        </>
      ) : null}
      <button
        type="button"
        disabled={disabled || quantity >= most}
        aria-label={quantity === 0 ? `Add ${name}` : `One more of ${name}`}
        onClick={() => onSet(quantity + 1)}
        className={step}
      >
        <Icon name="plus" className="size-4" />
      </button>
    </fieldset>
  );
}
