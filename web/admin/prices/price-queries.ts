// The history of the delivery fee, and the typical price.
import { useQuery } from '@tanstack/react-query';
import { dataOf } from '../data/table-answer.ts';
import { useMember } from '../layout/roles/use-member.tsx';

/** The last changes of the delivery fee, newest first. */
export function useFeeChanges() {
  const { tables } = useMember().staff;
  return useQuery({
    // They change with the row of the settings.
    queryKey: ['settings', 'fee changes'],
    queryFn: async ({ signal }) =>
      dataOf(
        await tables
          .from('price_changes')
          .select('*')
          .is('product_id', null)
          .order('id', { ascending: false })
          .limit(20)
          .abortSignal(signal),
      ),
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
