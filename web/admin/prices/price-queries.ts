// The history of prices and of the delivery fee, and the typical price.
import { useQuery } from '@tanstack/react-query';
import { dataOf } from '../data/table-answer.ts';
import { useMember } from '../layout/use-member.tsx';

/** The last changes of a product's price, newest first; of the delivery fee for null. */
export function usePriceChanges(productId: string | null) {
  const { tables } = useMember().staff;
  return useQuery({
    // A product's price and the settings change with their rows.
    queryKey: [productId === null ? 'settings' : 'products', 'price changes', productId],
    queryFn: async ({ signal }) => {
      const changes = tables.from('price_changes').select('*').order('id', { ascending: false }).limit(20);
      return dataOf(
        await (productId === null
          ? changes.is('product_id', null)
          : changes.eq('product_id', productId)
        ).abortSignal(signal),
      );
    },
    staleTime: 0,
  }).data;
}

/** The median price of active products in cents; null while it is not known. */
export function useTypicalPrice(): number | null {
  const { tables } = useMember().staff;
  const { data } = useQuery({
    queryKey: ['products', 'typical price'],
    queryFn: async ({ signal }) => dataOf(await tables.rpc('typical_price').abortSignal(signal)) ?? null,
  });
  return data ?? null;
}
