// The link by which the customer of an unpaid order pays. Its key opens the order's details, so it is read only when staff want it.
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { shortOrderLink } from '../../../../domain/orders/order-link.ts';
import { dataOf } from '../../data/table-answer.ts';
import { useMember } from '../../layout/roles/use-member.tsx';
import { useShop } from '../../messages/use-shop.ts';

/** In memory from placing an order on, so that its member needs no question. */
export const payLinkKey = (orderId: string) => ['pay-link', orderId] as const;

/** @param isWanted reads it, which the order's timeline says */
export function usePayLink(orderId: string, isWanted: boolean) {
  const { tables } = useMember().staff;
  const { publicUrl } = useShop();
  const queries = useQueryClient();
  const query = useQuery({
    queryKey: payLinkKey(orderId),
    enabled: isWanted,
    queryFn: async () => {
      const shown = dataOf(await tables.rpc('show_pay_link', { order_id: orderId }));
      // From now on the order waits longer.
      void queries.invalidateQueries({ queryKey: ['orders'] });
      return shown;
    },
    staleTime: Number.POSITIVE_INFINITY,
    retry: false,
  });
  const { data } = query;
  return {
    ...query,
    link: data
      ? shortOrderLink(publicUrl || window.location.origin, data.tracking_number, data.access_key)
      : undefined,
  };
}
