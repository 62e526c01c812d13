// Offers to take back a price or fee that was just saved.
import { useQueryClient } from '@tanstack/react-query';
import { formatKes } from '../../../domain/money.ts';
import { changedRow } from '../data/table-answer.ts';
import { useMember } from '../layout/roles/use-member.tsx';
import { outcomeOf } from '../undo/outcome.ts';
import { offerUndo, undoMs } from '../undo/undoable-changes.ts';

export interface PriceChange {
  /** The product; null for the delivery fee. */
  productId: string | null;
  /** What has the price: the product's name, or 'Delivery fee'. */
  name: string;
  /** Cents. */
  from: number;
  to: number;
}

/** @returns offers the undo, with the success message */
export function usePriceUndo(): (change: PriceChange, success: string) => void {
  const { tables } = useMember().staff;
  const queries = useQueryClient();
  return ({ productId, name, from, to }, success) => {
    const text = 'Someone has changed it again since then. Nothing was undone.';
    const restore = async () =>
      productId === null
        ? changedRow(
            await tables
              .from('store_settings')
              .update({ delivery_fee: from })
              .eq('delivery_fee', to)
              .select('delivery_fee'),
            text,
          )
        : changedRow(
            await tables
              .from('products')
              .update({ price: from })
              .eq('id', productId)
              .eq('price', to)
              .select('id'),
            text,
          );
    offerUndo(
      {
        id: crypto.randomUUID(),
        orderId: productId ?? 'delivery fee',
        title: `${name}: ${formatKes(from)} to ${formatKes(to)}`,
        notifiesCustomer: false,
        endsAt: performance.now() + undoMs,
        isOvertakenBy: ({ table, row }) =>
          productId === null
            ? table === 'store_settings' && ![from, to].includes(Number(row.delivery_fee))
            : table === 'products' && row.id === productId && ![from, to].includes(Number(row.price)),
        async undo() {
          const outcome = await outcomeOf(restore, {
            undone: `${name}: ${formatKes(from)} again.`,
            unanswered: `The connection broke. Look at ${name} again.`,
          });
          for (const word of ['products', 'settings']) void queries.invalidateQueries({ queryKey: [word] });
          return outcome;
        },
      },
      success,
    );
  };
}
