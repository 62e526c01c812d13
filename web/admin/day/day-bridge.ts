// How the totals of a day follow from each other: the money received, the books, and the orders placed.
import type { Database } from '../../../supabase/types.ts';

/** Amounts in cents; steps that take away are negative. */
export type DayTotals = Database['public']['Functions']['day_totals']['Returns'][number];

export interface BridgeLine {
  label: string;
  cents: number;
  /** A total. Default: a step from the total before to the next one. */
  isTotal?: boolean;
  /** Shown without an amount, too. */
  isAlways?: boolean;
  /** Where staff see this total. */
  where?: string;
  /** The screen with its rows. */
  to?: string;
}

export interface Bridge {
  title: string;
  /** A chain: each total is the one before and the steps between them. */
  lines: BridgeLine[];
}

/** Kinds of rows that the day's page lists under one step. */
export type Shown = 'prompt' | 'till' | 'cash' | 'by_mpesa' | 'by_hand' | 'in_cash' | 'back' | 'kept';

const withoutEmptySteps = (lines: BridgeLine[]): BridgeLine[] =>
  lines.filter(({ cents, isTotal, isAlways }) => isTotal || isAlways || cents !== 0);

const rowsOf =
  (day: string) =>
  (show: Shown | ''): string =>
    `/admin/day/${day}${show && `?show=${show}`}#entries`;

/** What came in and went out. */
export function moneyBridge(totals: DayTotals, day: string): Bridge {
  const rows = rowsOf(day);
  return {
    title: 'Money received',
    lines: withoutEmptySteps([
      { label: 'M-PESA prompts', cents: totals.by_prompt, isAlways: true, to: rows('prompt') },
      { label: 'Paid to the till', cents: totals.by_till, isAlways: true, to: rows('till') },
      { label: 'Cash', cents: totals.in_cash, isAlways: true, to: rows('cash') },
      {
        label: 'Came in',
        cents: totals.received,
        isTotal: true,
        where: 'Received, in the file for the accountant',
      },
      { label: 'Sent back by M-PESA', cents: totals.refunded_by_mpesa, to: rows('by_mpesa') },
      {
        label: "Sent back by hand, in M-PESA's portal",
        cents: totals.refunded_by_hand,
        to: rows('by_hand'),
      },
      { label: 'Given back in cash', cents: totals.refunded_in_cash, to: rows('in_cash') },
      {
        label: 'Money received',
        cents: totals.net_received,
        isTotal: true,
        where: 'Money received, on the dashboard and in reports',
        to: '/admin/dashboard',
      },
      ...(totals.kept === 0
        ? []
        : [
            { label: 'Kept for customers', cents: totals.kept, to: rows('kept') },
            { label: "The shop's own", cents: totals.net_received + totals.kept, isTotal: true },
          ]),
    ]),
  };
}

/** The same money in the shop's books of M-PESA, and in M-PESA's own. */
export function booksBridge(totals: DayTotals, day: string): Bridge {
  const rows = rowsOf(day);
  const books = (show: string) => `/admin/reconciliation?day=${day}${show && `&show=${show}`}`;
  return {
    title: "In M-PESA's books",
    lines: withoutEmptySteps([
      { label: 'Money received', cents: totals.net_received, isTotal: true },
      { label: 'Sent back: booked apart', cents: 0 - totals.refunded, to: rows('back') },
      { label: 'Cash: never at M-PESA', cents: 0 - totals.in_cash, to: rows('cash') },
      { label: "On another day by M-PESA's clock", cents: totals.other_clock, to: books('') },
      {
        label: 'Our books of M-PESA',
        cents: totals.booked,
        isTotal: true,
        where: 'Our books, in Reconciliation',
        to: books(''),
      },
      { label: 'Missing at M-PESA', cents: totals.missing_at_mpesa, to: books('missing_there') },
      { label: 'Not compared yet', cents: totals.not_compared, to: books('not_compared') },
      { label: 'Another amount at M-PESA', cents: totals.amounts_differ, to: books('wrong_amount') },
      { label: 'Not matched to an order yet', cents: totals.not_matched, to: books('open') },
      { label: 'Not ours', cents: totals.not_ours, to: books('missing_here') },
      { label: 'Sent back, of no order', cents: totals.returned_unmatched, to: books('missing_here') },
      {
        label: 'Reported by M-PESA',
        cents: totals.at_mpesa,
        isTotal: true,
        where: 'M-PESA, in Reconciliation',
        to: books(''),
      },
    ]),
  };
}

/** From the orders that were placed to the money that came in. */
export function ordersBridge(totals: DayTotals, day: string): Bridge {
  const orders = (filter = '') => `/admin/orders?day=range&from=${day}&until=${day}${filter}`;
  return {
    title: 'From the orders to the money',
    lines: withoutEmptySteps([
      {
        label: 'Orders placed, paid or not',
        cents: totals.placed,
        isTotal: true,
        where: 'Part of Total Revenue, on the dashboard',
        to: orders(),
      },
      { label: 'Charged in whole shillings', cents: totals.rounding, to: orders('&payment=paid') },
      {
        label: 'The same, as charged',
        cents: totals.placed + totals.rounding,
        isTotal: true,
        where: 'Total, in the file of orders',
      },
      { label: 'Not paid', cents: totals.not_paid, to: orders('&payment=unpaid') },
      { label: "Paid with a customer's credit", cents: totals.paid_with_credit, to: orders() },
      { label: 'Marked as paid without a payment', cents: totals.paid_otherwise, to: orders() },
      { label: 'Paid twice, in parts, or in another amount', cents: totals.other_amounts, to: orders() },
      {
        label: 'Received for these orders, on any day',
        cents: totals.received_for_orders,
        isTotal: true,
        where: 'Received, in the file of orders',
      },
      { label: 'Of it on other days', cents: totals.paid_other_days, to: orders() },
      {
        label: 'On this day for orders of other days',
        cents: totals.placed_other_days,
        to: rowsOf(day)(''),
      },
      { label: 'Came in', cents: totals.received, isTotal: true },
    ]),
  };
}

export const bridgesOf = (totals: DayTotals, day: string): Bridge[] => [
  moneyBridge(totals, day),
  booksBridge(totals, day),
  ordersBridge(totals, day),
];

export interface Change {
  label: string;
  beforeCents: number;
  afterCents: number;
}

/**
 * What a closed day would be now, as far as it differs. The close itself stays as it is.
 * @param closed as it was stored; an earlier version may have stored fewer totals
 */
export function changesSince(closed: Partial<Record<keyof DayTotals, number>>, now: DayTotals): Change[] {
  const shown: [keyof DayTotals, string][] = [
    ['by_prompt', 'M-PESA prompts'],
    ['by_till', 'Paid to the till'],
    ['in_cash', 'Cash'],
    ['refunded_by_mpesa', 'Sent back by M-PESA'],
    ['refunded_by_hand', "Sent back by hand, in M-PESA's portal"],
    ['refunded_in_cash', 'Given back in cash'],
    ['net_received', 'Money received'],
    ['kept', 'Kept for customers'],
    ['booked', 'Our books of M-PESA'],
    ['at_mpesa', 'Reported by M-PESA'],
  ];
  return shown.flatMap(([total, label]) => {
    const beforeCents = closed[total];
    return beforeCents === undefined || beforeCents === now[total]
      ? []
      : [{ label, beforeCents, afterCents: now[total] }];
  });
}
