// Queries of the day's page. Their keys start with 'reconciliation': every change of money invalidates them.
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import type { Database } from '../../../supabase/types.ts';
import { dataOf, rowOrNull } from '../data/table-answer.ts';
import { useSave } from '../data/use-save.ts';
import { useMember } from '../layout/roles/use-member.tsx';
import type { ReadPage } from '../list/use-rows.ts';
import type { DayTotals } from './day-bridge.ts';

export function useDayTotals(day: string) {
  const { tables } = useMember().staff;
  return useQuery({
    queryKey: ['reconciliation', 'totals', day],
    queryFn: async ({ signal }) =>
      dataOf(await tables.rpc('day_totals', { day }).abortSignal(signal).single()),
  });
}

/** The cash of each member who took or gave back some. */
export function useCash(day: string) {
  const { tables } = useMember().staff;
  return useQuery({
    queryKey: ['reconciliation', 'cash', day],
    queryFn: async ({ signal }) => dataOf(await tables.rpc('cash_of_day', { day }).abortSignal(signal)),
  });
}
export type CashOfMember = Database['public']['Functions']['cash_of_day']['Returns'][number];

/** Cash that was not received by the end of the day, by the rider who has it. */
export function useCashDue(day: string) {
  const { tables } = useMember().staff;
  return useQuery({
    queryKey: ['reconciliation', 'cash due', day],
    queryFn: async ({ signal }) =>
      dataOf(await tables.rpc('cash_due_of_day', { day }).abortSignal(signal)) as CashDue[],
  });
}
/** person: null for orders that were delivered without a rider. */
export type CashDue = Omit<Database['public']['CompositeTypes']['cash_due'], 'person'> & {
  person: string | null;
};

type CloseRow = Database['public']['Tables']['day_closes']['Row'];
export type Count = Database['public']['Tables']['cash_counts']['Row'];
export interface Close extends Omit<CloseRow, 'totals' | 'cash_due'> {
  totals: Partial<DayTotals>;
  /** Empty, too, where an earlier version closed the day. */
  cash_due: CashDue[];
  counts: Count[];
}

/** How the day was closed; null before. */
export function useClose(day: string) {
  const { tables } = useMember().staff;
  return useQuery({
    queryKey: ['reconciliation', 'close', day],
    queryFn: async ({ signal }): Promise<Close | null> => {
      const row = rowOrNull<CloseRow & { counts: Count[] }>(
        await tables
          .from('day_closes')
          .select('*, counts:cash_counts(*)')
          .eq('day', day)
          .abortSignal(signal)
          .maybeSingle(),
      );
      return (
        row && {
          ...row,
          totals: row.totals as Partial<DayTotals>,
          cash_due: (row.cash_due ?? []) as unknown as CashDue[],
        }
      );
    },
  });
}

export interface CountedCash {
  member: string;
  expected_cents: number;
  counted_cents: number;
  reason: string | null;
}

export function useCloseDay(day: string, onSaved: () => void) {
  const { tables } = useMember().staff;
  return useSave<{ counts: CountedCash[]; note: string }>({
    write: async ({ counts, note }) =>
      dataOf(
        await tables.rpc('close_day', {
          day,
          counts: counts.map((count) => ({ ...count })),
          note: note.trim() || null,
        }),
      ),
    success: 'The day is closed',
    failure: 'Failed to close the day',
    refresh: ['reconciliation'],
    onSuccess: onSaved,
  });
}

type EntryRow = Database['public']['CompositeTypes']['money_entry'];
export type Entry = EntryRow & { id: string; created_at: string };

const asEntry = (row: EntryRow): Entry => ({ ...row, created_at: row.happened_at });

/** Reads what moved money in a span of days, page by page. */
export function useReadEntries(since: string, until: string): ReadPage<Entry> {
  const { tables } = useMember().staff;
  return async ({ after, limit, signal }) => {
    const { data, error } = await tables
      .rpc('money_entries', {
        since,
        until,
        page_size: limit,
        ...(after ? { after_time: after.created_at, after_id: after.id } : {}),
      })
      .abortSignal(signal);
    return { data: data?.map(asEntry) ?? null, error };
  };
}

/** As many rows of a day as the table service returns at once; a file has all of them. */
export const mostEntries = 1000;

export function useEntries(day: string) {
  const read = useReadEntries(day, day);
  return useQuery({
    queryKey: ['reconciliation', 'entries', day],
    queryFn: async ({ signal }) => ({
      day,
      rows: dataOf(await read({ after: null, limit: mostEntries, signal })),
    }),
    placeholderData: keepPreviousData,
  });
}
