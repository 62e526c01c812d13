// Packing slips of several orders, one per page.
import { useEffect, useRef, useState } from 'react';
import { showToast } from '../../../ui/toasts/toasts.tsx';
import { useMember } from '../../layout/roles/use-member.tsx';
import OrderPapers from '../../print/order-papers.tsx';
import { readWholeOrder, type WholeOrder } from '../whole-order.ts';
import { changeMany } from './change-many.ts';

export function PrintSlips({ orderIds, onPrinted }: { orderIds: readonly string[]; onPrinted(): void }) {
  const { staff } = useMember();
  const [orders, setOrders] = useState<readonly WholeOrder[]>();
  const end = useRef(onPrinted);
  useEffect(() => {
    const reading = new AbortController();
    const { signal } = reading;
    const found = new Map<string, WholeOrder>();
    void changeMany(
      orderIds,
      async (id) => {
        const order = await readWholeOrder(staff, id, signal);
        if (order) found.set(id, order);
      },
      () => {},
    ).then(({ failed }) => {
      if (signal.aborted) return;
      if (failed.length === 0) {
        setOrders(orderIds.flatMap((id) => found.get(id) ?? []));
        return;
      }
      console.warn('Orders could not be read for printing', failed[0]?.error);
      showToast({ kind: 'error', title: 'Error', text: 'Failed to load the orders. Please try again.' });
      end.current();
    });
    return () => reading.abort();
  }, [staff, orderIds]);
  return orders ? <OrderPapers orders={orders} paper="slip" onPrinted={onPrinted} /> : null;
}
