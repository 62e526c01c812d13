// The request for the first orders without filters, as the screen sends it (a test compares them).
import { pageSize } from '../../list/use-rows.ts';
import { listedColumns, type OrderFilters, parametersOf } from '../order-queries.ts';

const noFilters: OrderFilters = {
  search: '',
  status: '',
  payment: '',
  rider: '',
  due: '',
  from_day: null,
  until_day: null,
};

export function firstOrdersRequest(): { path: string; body: string } {
  const query = new URLSearchParams({
    select: listedColumns.replaceAll(' ', ''),
    'payments.status': 'eq.review',
    'order_items.order': 'position.asc',
    'rating.limit': '1',
    order: 'created_at.desc,id.desc',
  });
  return {
    path: `/rest/v1/rpc/search_orders?${query}`,
    body: JSON.stringify({
      ...parametersOf(noFilters),
      sort: null,
      before_created_at: null,
      before_id: null,
      page_size: pageSize,
    }),
  };
}
