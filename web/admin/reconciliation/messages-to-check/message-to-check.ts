// Messages of M-PESA that staff must check: their rows, and what to say about them.
import type { Database, PaymentMessageSource } from '../../../../supabase/types.ts';
import { labelOf } from '../../status/label-of.ts';

type Row = Database['public']['Tables']['messages_to_check']['Row'];

/** A message that waits, with the order of its payment. */
export interface MessageToCheck extends Omit<Row, 'digest'> {
  payments: { order_id: string | null; orders: { order_number: string } | null } | null;
}

const sources: Partial<Record<PaymentMessageSource, string>> = {
  callback: 'callback',
  query: 'answer to a query',
  confirmation: 'confirmation',
  statement: 'statement',
  reversal_result: 'result of a refund',
  status_result: 'answer about a refund',
};

const parts: Record<string, string> = {
  code: 'the result',
  receipt: 'the receipt',
  amount: 'the amount',
  time: 'the time',
};

/** Where the message comes from, in words. */
export const sourceOf = ({ source }: Pick<Row, 'source'>): string => labelOf(sources, source);

/** @returns what is wrong, and what staff can do about it */
export function describeMessageToCheck(
  message: Pick<Row, 'problem' | 'unreadable' | 'refund_id' | 'payment_id'>,
): { title: string; text: string } {
  if (message.problem === 'reversed') {
    return {
      title: 'M-PESA reversed this payment',
      text: message.payment_id
        ? 'The shop did not ask for it. Its order needs your review: note the refund there with the receipt of the reversal.'
        : 'The shop did not ask for it, and knows no payment with its receipt. Compare it in the M-PESA portal.',
    };
  }
  if (message.problem === 'unknown_kind') {
    return {
      title: 'A kind of transaction that the shop does not know',
      text: 'If it is a payment to you, enter what it says.',
    };
  }
  const names = message.unreadable.map((part) => labelOf(parts, part));
  const last = names.at(-1) ?? 'a part';
  const listed = names.length > 1 ? `${names.slice(0, -1).join(', ')} and ${last}` : last;
  return {
    title: `${listed.charAt(0).toUpperCase()}${listed.slice(1)} can’t be read`,
    text: message.refund_id
      ? 'It is about a refund. Look it up in the M-PESA portal, and note its result in the order.'
      : 'Compare it with the M-PESA portal, then enter what it says.',
  };
}

/** Whether staff can enter it as money that came in. */
export const canBeEntered = ({ problem, refund_id }: Pick<Row, 'problem' | 'refund_id'>): boolean =>
  problem !== 'reversed' && refund_id === null;
