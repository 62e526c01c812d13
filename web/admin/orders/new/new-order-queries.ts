// What the form of a new order reads: the customer by the phone, the drinks, the fee; and how it is placed.

import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { useMemo } from 'react';
import type { DeliveryArea } from '../../../../domain/deliveries/delivery-area.ts';
import { normalisePhone } from '../../../../domain/people/phone.ts';
import { savedCode } from '../../../lib/lost-answers.ts';
import { detailsToSend, fieldOfRefusal, type OrderForm } from '../../../lib/orders/order-form.ts';
import type { Staff } from '../../../lib/staff.ts';
import { dataOf, isUnanswered, messageForUser, TableProblem } from '../../data/table-answer.ts';
import { useMember } from '../../layout/roles/use-member.tsx';
import { type Amounts, type Draft, type Drink, formToSend, type KnownDrinks } from './draft.ts';

/**
 * Who ordered with a phone before.
 * @param phone as typed; not searched before it is a whole number
 * @returns `data`: null for a new customer; undefined until known
 */
export function useKnownCustomer(phone: string) {
  const { tables } = useMember().staff;
  const number = normalisePhone(phone);
  return useQuery({
    queryKey: ['orders', 'customer', number],
    enabled: number !== null,
    queryFn: async ({ signal }) => {
      const found = dataOf(
        await tables.rpc('customer_by_phone', { phone: number ?? '' }).abortSignal(signal),
      ) as KnownCustomer | null;
      // A procedure that returns no row answers with one of empty columns.
      return found?.phone ? found : null;
    },
    staleTime: 0,
  });
}

export interface KnownCustomer {
  phone: string;
  name: string;
  email: string;
  orders: number;
  /** In cents. */
  received_cents: number;
  addresses: { address: string; notes: string | null }[];
  last_orders: PastOrder[];
}

export interface PastOrder {
  id: string;
  order_number: string;
  created_at: string;
  status: string;
  total_amount: number;
  items: { product_id: string | null; product_name: string; quantity: number; unit_price: number }[];
}

/** Drinks that match a search, those sold most first; while another search is read, those of the last one. */
export function useDrinks(search: string) {
  const { tables } = useMember().staff;
  return useQuery({
    queryKey: ['products', 'to order', search],
    queryFn: async ({ signal }): Promise<Drink[]> =>
      dataOf(await tables.rpc('drinks_to_order', { search }).abortSignal(signal)),
    placeholderData: keepPreviousData,
  });
}

/** Drinks as they can be ordered now, by id. Those that are not for sale are missing; null until known. */
export function useDrinksById(ids: readonly string[]): KnownDrinks {
  const { tables } = useMember().staff;
  const wanted = [...new Set(ids)].sort();
  const { data } = useQuery({
    queryKey: ['products', 'to order', 'by id', wanted],
    enabled: wanted.length > 0,
    queryFn: async ({ signal }): Promise<(readonly [id: string, Drink | null])[]> => {
      const found = dataOf(await tables.rpc('drinks_to_order', { ids: wanted }).abortSignal(signal));
      return wanted.map((id) => [id, found.find((drink) => drink.id === id) ?? null]);
    },
    // While a further drink is being read, the others stay known.
    placeholderData: keepPreviousData,
    staleTime: 0,
  });
  return useMemo(() => new Map(data), [data]);
}

export interface PlacedOrder {
  orderId: string;
  trackingNumber: string;
  accessKey: string;
}

export type Refusal = {
  /** A sentence for staff. */
  text: string;
  /** The field or drink that it is about. */
  field?: keyof OrderForm | 'discountCode';
  productId?: string;
  /** An order with this draft's key was saved before the draft was changed. */
  isSavedBefore?: boolean;
  /** It may have been saved: sending it again gives the same order. */
  isUnanswered?: boolean;
};

interface Answer {
  id: string;
  tracking_number: string;
  access_key: string;
}

/**
 * Places the order of a draft. The same draft is placed once, however often it is sent.
 * @param amounts as shown
 */
export async function placeDraft(
  tables: Staff['tables'],
  draft: Draft,
  { total, discount }: Pick<Amounts, 'total' | 'discount'>,
  area: Pick<DeliveryArea, 'id'> | null,
): Promise<PlacedOrder | Refusal> {
  const { key, lines, source, isCollected } = draft;
  // Below its minimum, the form says that the code does not apply.
  const code = discount > 0 ? draft.discount?.code : undefined;
  const send = () =>
    tables.rpc('place_order', {
      idempotency_key: key,
      items: lines.map(({ productId, quantity }) => ({ product_id: productId, quantity })),
      ...detailsToSend(formToSend(draft)),
      expected_total: Math.min(total, 2 ** 31 - 1),
      source,
      is_collected: isCollected,
      ...(code ? { discount_code: code } : {}),
      ...(area ? { area_id: area.id } : {}),
    });
  let answer = await send();
  // Saved, but the answer was lost: the same key returns the order.
  if (answer.error?.code === savedCode) answer = await send();
  if (answer.error) return refusalOf(answer.error, answer.status);
  const { id, tracking_number, access_key } = answer.data as unknown as Answer;
  return { orderId: id, trackingNumber: tracking_number, accessKey: access_key };
}

const unanswered =
  'The shop did not answer, so the order may have been saved. Press again: it is never saved twice.';

function refusalOf(
  error: { message: string; code: string; details: string | null; product_id?: unknown },
  status: number,
): Refusal {
  const problem = new TableProblem(error, status);
  if (isUnanswered(problem) || status === 0) return { text: unanswered, isUnanswered: true };
  const text = messageForUser(problem) || 'The order could not be saved. Please try again.';
  if (problem.details === 'idempotency_key_reused') {
    return { text: 'An order was saved with what you had entered before.', isSavedBefore: true };
  }
  const field = fieldOfRefusal[problem.details];
  return {
    text,
    ...(field && field !== 'acceptsTerms' ? { field } : {}),
    ...(typeof error.product_id === 'string' ? { productId: error.product_id } : {}),
  };
}
