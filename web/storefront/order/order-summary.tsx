// An ordered drink, and the amounts of the order.
import type { ReactNode } from 'react';
import { formatKsh } from '../../../domain/money.ts';
import { describeDiscount } from '../../../domain/orders/discount.ts';
import { orderTotal, subtotalOf } from '../../lib/orders/order-contents.ts';
import { flavourSlug } from '../../ui/flavour.tsx';
import { Price, TextWithAmounts } from '../../ui/price.tsx';
import { ProductImage } from '../../ui/product-image.tsx';
import type { OrderedProduct } from './lines/order-lines.ts';

interface OrderedLineProps {
  product: OrderedProduct;
  quantity: number;
  /** The shown price in cents. Default: the product's. */
  price?: number;
  /** Whether the order has other drinks, too: the line is lower, and shows the price of all its units. */
  isOfSeveral?: boolean;
  /** Whether it can't be ordered now: neither price nor quantity matters. */
  isGone?: boolean;
  /** Beside the price. */
  action?: ReactNode;
  /** The buttons that change the quantity. If missing, it is fixed. */
  children?: ReactNode;
}

export function OrderedLine({
  product,
  quantity,
  price = product.price,
  isOfSeveral = false,
  isGone = false,
  action,
  children,
}: OrderedLineProps) {
  return (
    <div
      data-flavour={flavourSlug(product.category ?? null)}
      className={`flex items-center gap-4 md:rounded-lg md:border md:border-line md:bg-card ${isOfSeveral ? 'md:px-3 md:py-2' : 'md:p-3'}`}
    >
      {/* On phones the first field comes first. */}
      <span className={`hidden shrink-0 md:block ${isOfSeveral ? 'size-12' : 'size-18'}`}>
        <ProductImage
          src={product.image_url}
          alt=""
          sizes={isOfSeveral ? '48px' : '72px'}
          className="size-full rounded-md text-3xl!"
        />
      </span>
      <div className="flex min-w-0 flex-1 flex-wrap items-center justify-between gap-x-4 gap-y-1">
        <div className="min-w-[min(8rem,100%)] flex-1">
          <p className="leading-tight font-bold wrap-anywhere">{product.name}</p>
          {isGone ? null : (
            <div className="flex flex-wrap items-baseline gap-x-4 text-sm text-ink-soft tabular-nums">
              <p>
                <TextWithAmounts>
                  {isOfSeveral && quantity > 1
                    ? `${quantity} × ${formatKsh(price)} = ${formatKsh(price * quantity)}`
                    : `${formatKsh(price)} each`}
                </TextWithAmounts>
              </p>
              {action}
            </div>
          )}
        </div>
        {isGone ? null : (children ?? <p className="min-w-0 font-bold wrap-anywhere">× {quantity}</p>)}
      </div>
    </div>
  );
}

interface AmountsProps {
  /** The drinks with their prices in cents. */
  drinks: readonly { price: number; quantity: number }[];
  deliveryFee: number;
  /** What a code takes off, in cents. Default: nothing. */
  discount?: { code?: string | undefined; cents: number };
  /** Whether the fee is agreed on later. */
  isFeeOpen?: boolean;
}

/** Subtotal, discount, delivery fee and total. */
export function Amounts({ drinks, deliveryFee, discount = { cents: 0 }, isFeeOpen = false }: AmountsProps) {
  const [first] = drinks;
  // A phone shows the price of a single unit just above.
  const repeated =
    drinks.length === 1 && first?.quantity === 1 && discount.cents === 0 ? 'max-md:hidden' : '';
  const units = drinks.reduce((sum, { quantity }) => sum + quantity, 0);
  return (
    <dl className="grid grid-cols-[minmax(min-content,1fr)_minmax(0,auto)] gap-y-1 text-sm tabular-nums md:gap-y-1.5">
      <dt className={`text-ink-soft ${repeated}`}>
        Subtotal{' '}
        <span className="sm:whitespace-nowrap">
          {first && drinks.length === 1
            ? `(${first.quantity} × ${formatKsh(first.price)})`
            : `(${units} drinks)`}
        </span>
      </dt>
      <dd className={`pl-4 text-right wrap-anywhere ${repeated}`}>{formatKsh(subtotalOf(drinks))}</dd>
      {discount.cents > 0 ? (
        <>
          <dt className="text-ink-soft wrap-anywhere">{describeDiscount(discount.code)}</dt>
          <dd className="pl-4 text-right">−{formatKsh(discount.cents)}</dd>
        </>
      ) : null}
      <dt className="text-ink-soft">Delivery fee</dt>
      <dd className="pl-4 text-right">
        {isFeeOpen ? 'To be agreed' : deliveryFee === 0 ? 'Free' : formatKsh(deliveryFee)}
      </dd>
      <dt className="mt-1 border-t border-line pt-2 text-base font-bold">
        {isFeeOpen ? 'Total without delivery' : 'Total'}
      </dt>
      <dd className="mt-1 border-t border-line pt-1.5 pl-4 text-right">
        <Price
          cents={orderTotal(drinks, deliveryFee, discount.cents)}
          className="text-xl max-md:whitespace-normal! wrap-anywhere"
        />
      </dd>
    </dl>
  );
}
