// What the shop knows of a caller: their orders, with one press for the same again, and their other addresses.
import { formatCount } from '../../../../domain/count.ts';
import { formatKes } from '../../../../domain/money.ts';
import { Button } from '../../../ui/button.tsx';
import { Icon } from '../../../ui/icons.tsx';
import { Notice } from '../../../ui/notice.tsx';
import { useCustomer } from '../../customers/customer-queries.ts';
import { useNow } from '../../ui/time/age.tsx';
import { formatClock } from '../../ui/time/dates.ts';
import { type Draft, hasAddress, type KnownDrinks, withAddress, withSameAgain } from './draft.ts';
import type { KnownCustomer, PastOrder, useKnownCustomer } from './new-order-queries.ts';

interface FoundCustomerProps {
  found: ReturnType<typeof useKnownCustomer>;
  draft: Draft;
  /** The drinks of the orders. */
  drinks: KnownDrinks;
  /** In cents. */
  deliveryFee: number;
  onChange(draft: Draft): void;
}

export function FoundCustomer({ found, ...props }: FoundCustomerProps) {
  const { data: customer, error, isFetching, refetch, isEnabled } = found;
  if (!isEnabled) return null;
  if (customer) {
    return (
      <>
        <Known customer={customer} {...props} />
        <AboutCustomer phone={props.draft.form.phone} />
      </>
    );
  }
  return (
    <>
      <AboutCustomer phone={props.draft.form.phone} />
      <p role="status" className="flex flex-wrap items-center gap-x-3 text-sm text-ink-soft">
        {customer === null ? (
          'New customer: no order has this phone.'
        ) : error ? (
          <>
            Earlier orders could not be looked up. You can enter the details yourself.
            <button
              type="button"
              onClick={() => void refetch()}
              disabled={isFetching}
              className="tap font-semibold text-ink underline"
            >
              Look again
            </button>
          </>
        ) : (
          'Looking for earlier orders...'
        )}
      </p>
    </>
  );
}

/** Credit, notes of colleagues, and whether the storefront takes no orders for this phone. */
function AboutCustomer({ phone }: { phone: string }) {
  const { data: customer } = useCustomer(phone);
  if (!customer || !(customer.is_blocked || customer.credit_cents > 0 || customer.notes)) return null;
  const { is_blocked, block_reason, credit_cents, notes } = customer;
  return (
    <div className="grid gap-1.5 text-sm">
      {is_blocked ? (
        <Notice tone="danger" title="This phone is blocked on the storefront">
          {block_reason ? `“${block_reason}” ` : ''}You can enter the order all the same.
        </Notice>
      ) : null}
      {credit_cents > 0 ? (
        <p className="font-semibold">
          {formatKes(credit_cents)} of credit: the order offers to use it once it is entered.
        </p>
      ) : null}
      {notes ? <p className="wrap-anywhere whitespace-pre-line text-ink-soft">Notes: {notes}</p> : null}
    </div>
  );
}

function Known({
  customer,
  draft,
  drinks,
  deliveryFee,
  onChange,
}: Omit<FoundCustomerProps, 'found'> & { customer: KnownCustomer }) {
  const { orders, received_cents, addresses } = customer;
  return (
    <div className="grid gap-2 rounded-md border border-leaf-300 bg-success-soft px-3 py-2.5">
      <p role="status" className="text-sm">
        <b className="wrap-anywhere">{customer.name}</b>
        {' · '}
        {orders === 1 ? '1 order' : `${formatCount(orders)} orders`}
        {' · '}
        <span className="whitespace-nowrap tabular-nums">{formatKes(received_cents)} received</span>
      </p>
      <ul className="grid gap-1.5 empty:hidden">
        {differentOrders(customer.last_orders).map((order) => (
          <li key={order.id}>
            <SameAgain
              order={order}
              drinks={drinks}
              fee={draft.isCollected ? 0 : deliveryFee}
              onPress={() => onChange(withSameAgain(draft, order.items, drinks))}
            />
          </li>
        ))}
      </ul>
      {addresses.length > 1 && !draft.isCollected ? (
        <fieldset className="flex min-w-0 flex-wrap gap-1.5">
          <legend className="sr-only">Deliver to</legend>
          {addresses.map((address) => {
            const isChosen = hasAddress(draft, address);
            return (
              <button
                key={address.address}
                type="button"
                aria-pressed={isChosen}
                onClick={() => onChange(withAddress(draft, address))}
                className="inline-flex min-h-10 max-w-full min-w-0 items-center gap-1.5 rounded-pill border border-line-strong bg-card px-3 text-sm aria-pressed:border-leaf-600 aria-pressed:font-semibold"
              >
                <Icon name={isChosen ? 'check' : 'pin'} className="size-4 shrink-0" />
                <span className="truncate">{address.address}</span>
              </button>
            );
          })}
        </fieldset>
      ) : null}
    </div>
  );
}

/** The last three orders with different drinks. */
function differentOrders(orders: readonly PastOrder[]): PastOrder[] {
  const seen = new Set<string>();
  return orders
    .filter(({ items }) => {
      const content = items
        .map(({ product_id, product_name, quantity }) => `${quantity} ${product_id ?? product_name}`)
        .sort()
        .join();
      if (items.length === 0 || seen.has(content)) return false;
      seen.add(content);
      return true;
    })
    .slice(0, 3);
}

interface SameAgainProps {
  order: PastOrder;
  drinks: KnownDrinks;
  /** In cents. */
  fee: number;
  onPress(): void;
}

function SameAgain({ order, drinks, fee, onPress }: SameAgainProps) {
  const now = useNow();
  const drinkOf = ({ product_id }: PastOrder['items'][number]) => drinks.get(product_id ?? '');
  const isKnown = order.items.every(({ product_id }) => product_id === null || drinks.has(product_id));
  const missing = isKnown
    ? order.items.filter((item) => (drinkOf(item)?.units_left ?? 0) < item.quantity)
    : [];
  const canBeHad = !isKnown || order.items.some((item) => (drinkOf(item)?.units_left ?? 0) > 0);
  // At the prices of today.
  const total = order.items.reduce(
    (sum, item) => sum + item.quantity * (drinkOf(item)?.price ?? item.unit_price),
    fee,
  );
  return (
    <Button
      tone="quiet"
      isBusy={!isKnown}
      disabled={!canBeHad}
      onClick={onPress}
      className="w-full justify-between! rounded-md! border border-line-strong bg-card! px-3! text-left font-normal!"
    >
      <span className="min-w-0">
        <span className="block leading-snug wrap-anywhere">
          <b>Same again:</b>{' '}
          {order.items.map(({ quantity, product_name }) => `${quantity} × ${product_name}`).join(', ')},{' '}
          <span className="whitespace-nowrap tabular-nums">{formatKes(total)}</span>
        </span>
        <span className="block text-xs text-ink-soft">
          {formatClock(order.created_at, now)}
          {missing.length > 0
            ? ` · too few of ${missing.map(({ product_name }) => product_name).join(', ')}`
            : ''}
        </span>
      </span>
      <Icon name="plus" className="size-5 shrink-0 text-leaf-700" />
    </Button>
  );
}
