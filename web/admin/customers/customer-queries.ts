// Queries of the customers and their keys.
import { useQuery } from '@tanstack/react-query';
import { normalisePhone } from '../../../domain/people/phone.ts';
import type { Database } from '../../../supabase/types.ts';
import type { Staff } from '../../lib/staff.ts';
import { dataOf } from '../data/table-answer.ts';
import { useMember } from '../layout/roles/use-member.tsx';
import type { ReadPage } from '../list/use-rows.ts';

type Whole<Composite, Empty extends keyof Composite = never> = {
  [Name in keyof Composite]: Name extends Empty ? Composite[Name] : NonNullable<Composite[Name]>;
};

export type ListedCustomer = Whole<Database['public']['CompositeTypes']['listed_customer']>;
/** A phone with what is known of it. `name` is null while no order has it. */
export type ShownCustomer = Whole<
  Database['public']['CompositeTypes']['shown_customer'],
  | 'name'
  | 'email'
  | 'first_order_at'
  | 'notes'
  | 'notes_by'
  | 'notes_at'
  | 'block_reason'
  | 'blocked_by'
  | 'blocked_at'
>;

export const kinds = [
  { value: '', label: 'All customers' },
  { value: 'repeat', label: 'Repeat customers' },
  { value: 'credit', label: 'With credit' },
  { value: 'blocked', label: 'Blocked' },
] as const;
export type Kind = (typeof kinds)[number]['value'];

export const sorts = [
  ['-orders', 'Most orders'],
  ['-spent', 'Most spent'],
  ['name', 'Name'],
] as const;

export interface CustomerFilters {
  search: string;
  kind: Kind;
  sort: string;
}

/** A page of customers, those with the newest orders first. */
export const readCustomers =
  (tables: Staff['tables'], { search, kind, sort }: CustomerFilters): ReadPage<ListedCustomer> =>
  ({ after, limit, signal }) =>
    tables
      .rpc('list_customers', {
        search,
        kind: kinds.some(({ value }) => value === kind) && kind ? kind : null,
        sort: /^-?(name|orders|spent)$/.test(sort) ? sort : null,
        before_created_at: after?.created_at ?? null,
        before_id: after?.id ?? null,
        page_size: limit,
      })
      .abortSignal(signal) as unknown as ReturnType<ReadPage<ListedCustomer>>;

/**
 * What is known of a phone.
 * @param phone in any Kenyan format; not read before it is a whole number
 */
export function useCustomer(phone: string) {
  const { tables } = useMember().staff;
  const number = normalisePhone(phone);
  return useQuery({
    queryKey: ['customers', 'one', number],
    enabled: number !== null,
    queryFn: async ({ signal }) =>
      dataOf(await tables.rpc('customer_page', { phone: number ?? '' }).abortSignal(signal)) as ShownCustomer,
    staleTime: 0,
  });
}

/** More orders than a page shows at first. */
const newestOrders = 20;

/** The newest orders of a phone. */
export function useOrdersOfCustomer(phone: string) {
  const { tables } = useMember().staff;
  return useQuery({
    queryKey: ['orders', 'of customer', phone],
    queryFn: async ({ signal }) =>
      dataOf(
        await tables
          .from('orders')
          .select(
            'id, order_number, created_at, status, payment_status, payment_method, total_amount, order_items(quantity, product_name), payments(status)',
          )
          .eq('customer_phone', phone)
          .order('created_at', { ascending: false })
          .order('position', { referencedTable: 'order_items' })
          .limit(newestOrders)
          .abortSignal(signal),
      ),
  });
}
