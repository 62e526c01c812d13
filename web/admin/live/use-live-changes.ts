// Subscribes to changes of the shop's tables and invalidates the queries that show them.
import { useQueryClient } from '@tanstack/react-query';
import { useEffect, useState } from 'react';
import type { Database } from '../../../supabase/types.ts';
import { onSessionRenewed } from '../../lib/staff.ts';
import { keysOf } from '../data/keys-of.ts';
import { useMember } from '../layout/roles/use-member.tsx';

/** Queries, by the first part of their key, that show data of a table. */
const shownIn = {
  orders: ['orders', 'deliveries', 'dashboard', 'reconciliation', 'notices', 'customers'],
  payments: ['orders', 'dashboard', 'reconciliation', 'customers', 'kept', 'payment-tests', 'payment-health'],
  deliveries: ['deliveries', 'orders', 'notices'],
  inquiries: ['inquiries', 'dashboard', 'notices'],
  products: ['products', 'categories', 'pages', 'dashboard', 'notices'],
  categories: ['categories', 'products', 'pages'],
  brands: ['pages'],
  delivery_areas: ['settings'],
  discount_codes: ['settings'],
  store_settings: ['settings', 'messages'],
  shop_texts: ['texts'],
  ratings: ['orders'],
  refunds: ['orders', 'refunds', 'payment-tests', 'dashboard', 'payment-health', 'notices'],
  notices: ['notices'],
  outbox_messages: ['messages'],
  message_templates: ['templates'],
  reply_templates: ['templates'],
  mpesa_transactions: ['reconciliation', 'orders'],
  reconciliation_events: ['reconciliation'],
  day_closes: ['reconciliation'],
  messages_to_check: ['reconciliation', 'dashboard'],
  statement_pulls: ['reconciliation', 'dashboard'],
} as const satisfies Partial<Record<keyof Database['public']['Tables'], readonly string[]>>;

/** Queries are refetched at most this often. */
const pauseMs = 1500;
/** Delay before joining again after the server closed the channel. */
const rejoinMs = 3000;

export interface RowChange {
  table: keyof typeof shownIn;
  type: 'INSERT' | 'UPDATE' | 'DELETE';
  row: Record<string, unknown>;
  /** When it was committed, by the database's clock: ISO. */
  at: string;
}

export type LiveState = 'connecting' | 'live' | 'lost';

/**
 * Subscribes while it is mounted and active.
 * @param onChange called with every change, in order; must be stable
 * @returns whether changes currently arrive
 */
export function useLiveChanges(onChange: (change: RowChange) => void, isActive: boolean): LiveState {
  const { staff, id } = useMember();
  const queries = useQueryClient();
  const [state, setState] = useState<LiveState>('connecting');

  useEffect(() => {
    if (!isActive) return;
    let isStopped = false;
    let wasInterrupted = false;
    let close = () => {};
    const due = new Set<string>();
    let timer: ReturnType<typeof setTimeout> | undefined;
    let lastTime = 0;
    let isReading = false;
    const refetch = async () => {
      timer = undefined;
      lastTime = Date.now();
      const words = [...due];
      due.clear();
      // Refetching aborts a running request: changes that come faster than a slow network answers must not abort each other's.
      isReading = true;
      await Promise.all(words.map((word) => queries.invalidateQueries({ queryKey: [word] })));
      isReading = false;
      if (due.size > 0) readSoon([]);
    };
    // The first change is shown at once; those that follow closely are combined.
    const readSoon = (words: readonly string[]) => {
      for (const word of words) due.add(word);
      if (!isReading && !isStopped)
        timer ??= setTimeout(refetch, Math.max(0, lastTime + pauseMs - Date.now()));
    };

    const open = async () => {
      const client = await staff.live();
      if (isStopped) return;
      let again: ReturnType<typeof setTimeout> | undefined;
      const join = async () => {
        // Without the member's token the channel has a visitor's rights, who receives nothing.
        await client.setAuth();
        if (isStopped) return;
        const channel = client.channel(`staff-${id}`);
        // Of an ended session of this account, with its rights.
        channel.on('broadcast', { event: 'access_changed' }, () => {
          if (!isStopped) void staff.checkSession();
        });
        for (const table of keysOf(shownIn)) {
          channel.on('postgres_changes', { event: '*', schema: 'public', table }, (change) => {
            if (isStopped) return;
            readSoon(shownIn[table]);
            onChange({ table, type: change.eventType, row: change.new, at: change.commit_timestamp });
          });
        }
        channel.on('system', {}, ({ extension, status }) => {
          if (isStopped || extension !== 'postgres_changes') return;
          setState(status === 'ok' ? 'live' : 'lost');
          if (status !== 'ok') return;
          // Changes since the last read are not sent again.
          void queries.invalidateQueries();
          if (wasInterrupted) void staff.checkSession();
          wasInterrupted = false;
        });
        let isClosed = false;
        channel.subscribe((status) => {
          if (isStopped || isClosed || status === 'SUBSCRIBED') return;
          setState('lost');
          wasInterrupted = true;
          // The client itself reconnects; a channel that the server closed must be joined again.
          if (status !== 'CLOSED') return;
          isClosed = true;
          again = setTimeout(
            () => void client.removeChannel(channel).then(join).catch(reportError),
            rejoinMs,
          );
        });
      };
      const stopRenewing = onSessionRenewed(staff, () => void client.setAuth());
      close = () => {
        stopRenewing();
        clearTimeout(again);
        void client.removeAllChannels().finally(() => client.disconnect());
      };
      await join();
    };
    const reportError = (error: unknown) => {
      console.warn('The live channel could not be opened', error);
      if (!isStopped) setState('lost');
    };
    open().catch(reportError);
    return () => {
      isStopped = true;
      clearTimeout(timer);
      close();
    };
  }, [staff, id, isActive, queries, onChange]);
  return state;
}
