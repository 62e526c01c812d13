import { PostgrestClient } from '@supabase/postgrest-js';
import { expect, test } from 'vitest';
import type { Database } from '../../../../supabase/types.ts';
import { readOrders } from '../order-queries.ts';
import { firstOrdersRequest } from './first-orders-request.ts';

test('is the request that the screen of the orders sends first', async () => {
  const sent: { url: string; body: unknown }[] = [];
  const tables = new PostgrestClient<Database>('http://shop/rest/v1', {
    fetch: async (input, init) => {
      sent.push({ url: String(input), body: init?.body });
      return Response.json([]);
    },
  });
  const days = { from_day: null, until_day: null };
  const none = { search: '', status: '', payment: '', rider: '', due: '', ...days } as const;
  await readOrders(tables, none)({ after: null, limit: 25, signal: AbortSignal.timeout(1000) });
  const { path, body } = firstOrdersRequest();
  expect(sent).toEqual([{ url: `http://shop${path}`, body }]);
});
