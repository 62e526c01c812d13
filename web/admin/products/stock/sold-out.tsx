// A product that cannot be ordered for a while, whatever its stock (docs/decisions/pauses.md).
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { Button } from '../../../ui/button.tsx';
import { dataOf } from '../../data/table-answer.ts';
import { useSave } from '../../data/use-save.ts';
import { useMember } from '../../layout/roles/use-member.tsx';
import type { RowAction } from '../../list/row-menu-items.tsx';
import { useNow } from '../../ui/time/age.tsx';
import { formatClock } from '../../ui/time/dates.ts';

export interface SoldOutProduct {
  id: string;
  name: string;
  sold_out_until: string | null;
}

/** As `set_sold_out`; null: its stock decides again. */
type Span = 'hour' | 'tomorrow' | null;

const spans: readonly { span: Span; label: string }[] = [
  { span: null, label: 'Sell again' },
  { span: 'hour', label: 'Sold out for an hour' },
  { span: 'tomorrow', label: 'Sold out until tomorrow, 6:00' },
];

/** The end, where it lies ahead. */
export const useSoldOutUntil = ({ sold_out_until }: Pick<SoldOutProduct, 'sold_out_until'>): string | null =>
  useNow() < Date.parse(sold_out_until ?? '') ? sold_out_until : null;

/** The changes that are possible now: selling it again, first, only while it is sold out. */
const spansOf = (until: string | null) => (until === null ? spans.slice(1) : spans);

/** @param onSaved called with the new end */
function useSoldOut(onSaved?: (until: string | null) => void) {
  const { tables } = useMember().staff;
  const now = useNow();
  return useSave<{ product: SoldOutProduct; span: Span }, string | null>({
    write: async ({ product, span }) =>
      dataOf<string | null>(await tables.rpc('set_sold_out', { product_id: product.id, span })),
    success: (until, { product }) =>
      until
        ? `${product.name} is sold out until ${formatClock(until, now)}`
        : `${product.name} can be ordered again`,
    failure: 'Failed to change whether it is sold out',
    refresh: ['products'],
    onSuccess: (until) => onSaved?.(until ?? null),
  });
}

export function SoldOutNote({ product }: { product: Pick<SoldOutProduct, 'sold_out_until'> }) {
  const now = useNow();
  const until = useSoldOutUntil(product);
  return until ? (
    <span className="block text-xs font-bold whitespace-nowrap text-danger table:leading-4 table:whitespace-normal">
      Sold out until {formatClock(until, now)}
    </span>
  ) : null;
}

/** Lines of the menu of a row, made when it opens. */
export function useSoldOutActions(product: SoldOutProduct): () => RowAction[] {
  const until = useSoldOutUntil(product);
  const save = useSoldOut();
  return () =>
    spansOf(until).map(({ span, label }) => ({ label, run: () => save.mutate({ product, span }) }));
}

/** In the form of a product. It is saved at once, whatever else is typed. */
export function SoldOutSection({ product }: { product: SoldOutProduct }) {
  const now = useNow();
  const [end, setEnd] = useState(product.sold_out_until);
  const until = useSoldOutUntil({ sold_out_until: end });
  const save = useSoldOut(setEnd);
  return (
    <section aria-label="Sold out for a while" className="grid gap-2">
      <p role="status" className={`text-sm ${until ? 'font-bold text-danger' : 'font-semibold'}`}>
        {until ? `Sold out until ${formatClock(until, now)}` : 'Sold out for a while?'}
      </p>
      <div className="flex flex-wrap gap-2">
        {spansOf(until).map(({ span, label }) => (
          <Button
            key={label}
            tone="quiet"
            className="px-4!"
            isBusy={save.isPending}
            onClick={() => save.mutate({ product, span })}
          >
            {label}
          </Button>
        ))}
      </div>
      <p className="text-sm text-ink-faint">At once, and it ends by itself. The stock stays as it is.</p>
      <Waiting productId={product.id} />
    </section>
  );
}

/** How many customers asked for a text when it is back. */
function Waiting({ productId }: { productId: string }) {
  const { tables } = useMember().staff;
  const { data: count } = useQuery({
    queryKey: ['products', 'waiting', productId],
    queryFn: async () => {
      // A product that was just deleted has no row.
      const [found] = dataOf(
        await tables.from('products').select('waiting:waiting_for_stock').eq('id', productId),
      );
      return found?.waiting ?? 0;
    },
  });
  if (!count) return null;
  return (
    <p className="text-sm font-semibold">
      {count === 1 ? '1 customer waits' : `${count} customers wait`} for a text when it is back. It leaves
      when the stock is above zero.
    </p>
  );
}
