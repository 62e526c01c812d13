// The report on a span of days.
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import type { Database } from '../../../supabase/types.ts';
import { dataOf } from '../data/table-answer.ts';
import { useMember } from '../layout/roles/use-member.tsx';
import { daysBetween, type Span } from './report-span.ts';

type Composite = Database['public']['CompositeTypes'];
export type Report = Composite['report'];
export type ReportDay = Composite['report_day'];
export type ReportHour = Composite['report_hour'];
export type PromptCount = Composite['report_prompt'];

/** Longer spans are not read again with every change: a year takes the database most of a second. */
const mostLiveDays = 31;

/** With 'reconciliation' as the first part of its key every change of money invalidates it. */
export function useReport(span: Span | null) {
  const { tables } = useMember().staff;
  return useQuery({
    enabled: span !== null,
    queryKey: [span && daysBetween(span) > mostLiveDays ? 'long reports' : 'reconciliation', 'report', span],
    queryFn: async ({ signal }) => {
      const { since, until } = span as Span;
      const report: Report = dataOf(await tables.rpc('report', { since, until }).abortSignal(signal));
      return { ...report, span: { since, until } };
    },
    placeholderData: keepPreviousData,
  });
}

/** How the deliveries of a span went. With 'deliveries' as the first part of its key their changes invalidate it. */
export function useDeliveryReport(span: Span) {
  const { tables } = useMember().staff;
  return useQuery({
    queryKey: [daysBetween(span) > mostLiveDays ? 'long reports' : 'deliveries', 'report', span],
    queryFn: async ({ signal }): Promise<Composite['delivery_report']> =>
      dataOf(
        await tables.rpc('delivery_report', { since: span.since, until: span.until }).abortSignal(signal),
      ),
  });
}
export type DeliveryLine = Composite['delivery_line'];

/** In whole percent; null where nothing arrived. */
export const onTimePercent = ({
  delivered,
  on_time,
}: Pick<DeliveryLine, 'delivered' | 'on_time'>): number | null =>
  delivered === 0 ? null : Math.round((100 * on_time) / delivered);

const sum = (numbers: readonly number[]): number => numbers.reduce((total, number) => total + number, 0);

/** The figures of the whole span. */
export function totalsOf({ days, prompts }: Pick<Report, 'days' | 'prompts'>) {
  const sold = sum(days.map((day) => day.sold));
  const soldCents = sum(days.map(({ sold_cents }) => sold_cents));
  return {
    orders: sum(days.map(({ orders }) => orders)),
    sold,
    soldCents,
    /** In whole shillings; null without a paid order. */
    averageCents: sold === 0 ? null : Math.round(soldCents / sold / 100) * 100,
    receivedCents: sum(days.map(({ received_cents }) => received_cents)),
    refundedCents: sum(days.map(({ refunded_cents }) => refunded_cents)),
    netCents: sum(days.map(({ net_cents }) => net_cents)),
    ...successOf(prompts),
  };
}

/** How many prompts were sent whose outcome is known, and how many of them were paid. */
export function successOf(prompts: readonly PromptCount[]): { ended: number; paid: number } {
  const count = (isCounted: (status: string) => boolean) =>
    sum(prompts.filter(({ status }) => isCounted(status)).map((row) => row.prompts));
  return {
    ended: count((status) => status === 'completed' || status === 'failed'),
    paid: count((status) => status === 'completed'),
  };
}
