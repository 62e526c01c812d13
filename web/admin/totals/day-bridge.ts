// How the totals of a day follow from each other: the file of orders, the money received on the dashboard, and the books.
import type { Database } from '../../../supabase/types.ts';

/** Amounts in cents; steps that take away are negative. */
export type DayTotals = Database['public']['Functions']['day_totals']['Returns'][number];

export interface BridgeLine {
  label: string;
  cents: number;
  /** A total. Default: a step from the total before to the next one. */
  isTotal?: boolean;
  /** Where staff see this total. */
  where?: string;
}

/** A chain of lines: each total is the one before and the steps between them. Steps without an amount are left out. */
export function bridgesOf(totals: DayTotals): { title: string; lines: BridgeLine[] }[] {
  const received = { label: 'Payments that arrived', cents: totals.received, isTotal: true };
  return [
    {
      title: 'From the orders to the money',
      lines: [
        {
          label: 'Orders placed, paid or not',
          cents: totals.placed,
          isTotal: true,
          where: 'Part of Total Revenue, on the dashboard',
        },
        { label: 'Charged in whole shillings', cents: totals.rounding },
        {
          label: 'The same, as charged',
          cents: totals.placed + totals.rounding,
          isTotal: true,
          where: 'Total, in the file of orders',
        },
        { label: 'Not paid', cents: totals.not_paid },
        { label: 'Paid without M-PESA', cents: totals.paid_otherwise },
        { label: 'Paid twice, in parts, or in another amount', cents: totals.other_amounts },
        {
          label: 'Received for these orders, on any day',
          cents: totals.received_for_orders,
          isTotal: true,
          where: 'Received, in the file of orders',
        },
        { label: 'Of it on other days', cents: totals.paid_other_days },
        { label: 'On this day for orders of other days', cents: totals.placed_other_days },
        received,
        { label: 'Sent back on this day', cents: totals.refunded },
        {
          label: 'Received, less refunds',
          cents: totals.net_received,
          isTotal: true,
          where: 'Money received, on the dashboard',
        },
      ],
    },
    {
      title: 'From the money to the books',
      lines: [
        received,
        { label: "On another day by M-PESA's clock", cents: totals.other_clock },
        {
          label: 'Booked, before refunds',
          cents: totals.booked,
          isTotal: true,
          where: 'Our books, in Reconciliation',
        },
      ],
    },
  ].map(({ title, lines }) => ({
    title,
    lines: lines.filter(({ cents, isTotal }) => isTotal || cents !== 0),
  }));
}
