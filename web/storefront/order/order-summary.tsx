// The ordered product and its price.
import { formatKsh, orderTotal } from '../../../domain/money.ts';
import { flavourSlug } from '../../ui/flavour.tsx';
import { Icon } from '../../ui/icons.tsx';
import { Price } from '../../ui/price.tsx';
import { ProductImage } from '../../ui/product-image.tsx';

export interface OrderedProduct {
  id: string;
  name: string;
  /** Cents. */
  price: number;
  image_url: string | null;
  stock_quantity: number;
  category?: string | null;
  /** The slug of its page. */
  slug?: string;
}

interface OrderedLineProps {
  product: OrderedProduct;
  quantity: number;
  /** If missing, the quantity is fixed. */
  onQuantityChange?: ((quantity: number) => void) | undefined;
  isDisabled: boolean;
}

export function OrderedLine({ product, quantity, onQuantityChange, isDisabled }: OrderedLineProps) {
  return (
    <div
      data-flavour={flavourSlug(product.category ?? null)}
      className="flex items-center gap-4 md:rounded-lg md:border md:border-line md:bg-card md:p-3"
    >
      {/* On phones the first field comes first. */}
      <span className="hidden size-18 shrink-0 md:block">
        <ProductImage
          src={product.image_url}
          alt=""
          sizes="72px"
          className="size-full rounded-md text-3xl!"
        />
      </span>
      <div className="flex min-w-0 flex-1 flex-wrap items-center justify-between gap-x-4 gap-y-1">
        <p className="min-w-[min(8rem,100%)] flex-1">
          <span className="block leading-tight font-bold wrap-anywhere">{product.name}</span>
          <span className="text-sm text-ink-soft tabular-nums">{formatKsh(product.price)} each</span>
        </p>
        {onQuantityChange ? (
          // biome-ignore lint/a11y/useSemanticElements: some browsers cannot lay out a fieldset as a pill
          <div role="group" aria-label="Quantity" className="-ml-2 flex items-center">
            <Step
              label="One less"
              icon="minus"
              isDisabled={isDisabled}
              isAtEnd={quantity <= 1}
              onClick={() => onQuantityChange(Math.max(1, quantity - 1))}
            />
            <output className="max-w-28 min-w-9 text-center font-display text-lg leading-tight font-bold wrap-anywhere tabular-nums">
              {quantity}
            </output>
            <Step
              label="One more"
              icon="plus"
              isDisabled={isDisabled}
              onClick={() => onQuantityChange(quantity + 1)}
            />
          </div>
        ) : (
          <p className="min-w-0 font-bold wrap-anywhere">× {quantity}</p>
        )}
      </div>
    </div>
  );
}

interface StepProps {
  label: string;
  icon: 'minus' | 'plus';
  isDisabled: boolean;
  /** Disabled at its limit, but still focusable. */
  isAtEnd?: boolean;
  onClick(): void;
}

function Step({ label, icon, isDisabled, isAtEnd = false, onClick }: StepProps) {
  return (
    <button
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

interface AmountsProps {
  price: number;
  quantity: number;
  deliveryFee: number;
}

/** Subtotal, delivery fee and total. */
export function Amounts({ price, quantity, deliveryFee }: AmountsProps) {
  return (
    <dl className="grid grid-cols-[minmax(min-content,1fr)_minmax(0,auto)] gap-y-1.5 text-sm tabular-nums">
      <dt className="text-ink-soft">
        Subtotal{' '}
        <span className="sm:whitespace-nowrap">
          ({quantity} × {formatKsh(price)})
        </span>
      </dt>
      <dd className="pl-4 text-right wrap-anywhere">{formatKsh(price * quantity)}</dd>
      <dt className="text-ink-soft">Delivery fee</dt>
      <dd className="pl-4 text-right">{deliveryFee === 0 ? 'Free' : formatKsh(deliveryFee)}</dd>
      <dt className="mt-1.5 border-t border-line pt-2.5 text-base font-bold">Total</dt>
      <dd className="mt-1.5 border-t border-line pt-2 pl-4 text-right">
        <Price
          cents={orderTotal(price, quantity, deliveryFee)}
          className="text-xl max-md:whitespace-normal! wrap-anywhere"
        />
      </dd>
    </dl>
  );
}
