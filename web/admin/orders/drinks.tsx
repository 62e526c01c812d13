// What an order consists of, as it is packed: quantity and drink first, never cut, then the brand, then the customer's notes.
import { StaffIcon } from '../layout/sidebar/staff-icons.tsx';
import { drinkAndBrand, unitsOf } from './place.ts';

interface OrderedDrinks {
  order_items: readonly {
    quantity: number;
    product_name: string;
    product: { brand: string | null } | null;
  }[];
  delivery_notes: string | null;
}

/** @param withUnits whether the number of items follows the brand */
export function Drinks({ order, withUnits = false }: { order: OrderedDrinks; withUnits?: boolean }) {
  const { order_items, delivery_notes } = order;
  return (
    <>
      {order_items.length === 0 ? <span className="block">{unitsOf([])}</span> : null}
      {order_items.map((item, index) => {
        const [drink, brand] = drinkAndBrand(item);
        const more = [brand, withUnits && index === order_items.length - 1 && unitsOf(order_items)];
        return (
          <span key={index} className="block leading-5 wrap-anywhere">
            <span className="font-semibold">
              {item.quantity} × {drink}
            </span>{' '}
            <span className={`text-xs text-ink-soft ${withUnits ? 'block' : 'table:block'}`}>
              {more.filter(Boolean).join(' · ')}
            </span>
          </span>
        );
      })}
      {delivery_notes ? (
        <span className="flex gap-1 text-xs leading-5 text-ember-700" title={delivery_notes}>
          <StaffIcon name="note" className="mt-0.5 size-4 shrink-0" />
          <span className="line-clamp-2 wrap-anywhere">
            <span className="sr-only">Customer's notes: </span>
            {delivery_notes}
          </span>
        </span>
      ) : null}
    </>
  );
}
