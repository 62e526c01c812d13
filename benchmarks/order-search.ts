// Staff's order search at three sizes of the shop, on both databases, compared with the lookup of one order by its id.
import { startThrowawayPostgresql } from '../scripts/throwaway-postgresql.ts';
import { compare, load, type Row } from './load.ts';
import { openStaffShop } from './staff-shop.ts';

const first = ['Amina', 'Brian', 'Chebet', 'David', 'Esther', 'Faith', 'George', 'Halima'];
const last = ['Kamau', 'Otieno', 'Wanjiku', 'Mutua', 'Kiprop'];
const shown =
  'id,order_number,customer_name,customer_email,created_at,total_amount,status,order_items(quantity,product_name)';

/** Order number `index`, counted from the newest; one every few minutes for a year. */
function orderOf(index: number) {
  return {
    order_number: `BENCH-${index}`,
    tracking_number: `JJ-20251001-${100_000 + index}`,
    customer_name: `${first[index % first.length]} ${last[index % last.length]}`,
    customer_email: `customer.${index}@mail.example`,
    customer_phone: '+254712345678',
    shipping_address: 'Westlands',
    status: index % 1000 === 0 ? 'cancelled' : 'delivered',
    delivery_fee: 100,
    total_amount: 95_100,
    created_at: new Date(Date.UTC(2026, 0, 1) - index * 300_000).toISOString(),
  };
}

/**
 * @param sizes numbers of orders, ascending
 * @param effort rounds, and seconds of each round
 */
export async function benchOrderSearch(
  sizes: readonly number[],
  effort: { rounds: number; seconds: number },
): Promise<Row[]> {
  const cluster = await startThrowawayPostgresql({});
  try {
    return [
      ...(await benchOn('PGlite', {}, sizes, effort)),
      ...(await benchOn('PostgreSQL', { DATABASE_URL: cluster.url }, sizes, effort)),
    ];
  } finally {
    await cluster.stop();
  }
}

async function benchOn(
  database: string,
  environment: Record<string, string>,
  sizes: readonly number[],
  { rounds, seconds }: { rounds: number; seconds: number },
): Promise<Row[]> {
  const shop = await openStaffShop(environment);
  try {
    const { asStaff } = shop;
    const rows: Row[] = [];
    let there = 0;
    for (const size of sizes) {
      const before = there;
      await shop.insert('orders', size - before, 1000, (index) => orderOf(before + index));
      there = size;
      const middle = `customer.${Math.round(size / 2)}@`;
      const search = (given: Record<string, string>) =>
        `${shop.url}/rest/v1/rpc/search_orders?${new URLSearchParams({ ...given, select: shown })}`;
      const found = await fetch(search({ search: middle }), { headers: asStaff });
      const [order] = (await found.json()) as { id: string }[];
      if (!order) throw new Error(`${middle} is not found`);
      const one = `${shop.url}/rest/v1/orders?id=eq.${order.id}&select=${shown}`;
      for (const [what, given] of [
        ['broad', { search: 'kamau' }],
        ['rare', { search: middle }],
        ['rare, in a status', { search: middle, status: 'delivered' }],
        ['common words that no order has together', { search: 'amina brian westlands' }],
        ['two unknown characters', { search: '%%' }],
      ] as const) {
        const measured = await compare(
          // One connection, to measure the latency for one person.
          () => load(search(given), asStaff, { seconds, connections: 1 }),
          () => load(one, asStaff, { seconds, connections: 1 }),
          rounds,
        );
        rows.push({
          name: `order search, ${size.toLocaleString('en-KE')} orders, ${what}: over one order by its id (${database})`,
          ...measured,
        });
      }
    }
    return rows;
  } finally {
    await shop.close();
  }
}
