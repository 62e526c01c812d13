// Page changes of a hosted project: the process follows the tables that pages are made from, as every realtime client can.
import { RealtimeClient } from '@supabase/realtime-js';
import { WebSocket } from 'ws';
import type { Log } from '../monitoring/log.ts';
import type { PageCache } from './page-cache.ts';
import { changedTags, tablesWithOneTag } from './page-changes.ts';

const tables = ['products', ...tablesWithOneTag];
/** How long pages are cached while changes cannot be followed. */
const unfollowedMs = 5000;
/** Realtime does not promise to deliver every change. */
const safetyMs = 10 * 60 * 1000;
const rejoinMs = 3000;
const maxKnownProducts = 10_000;

/** A change of a row as the client library reports it; `old` holds the key alone. */
interface RowChange {
  table: string;
  eventType: string;
  new: Record<string, unknown>;
  old: Record<string, unknown>;
}

/**
 * Creates the translation of row changes to the cache tags of pages.
 * @returns for each change the changed tags, none when no page shows it, and null when that is unknown
 */
export function createChangeReader(): (change: RowChange) => string[] | null {
  // A change does not include the former row. Every order takes units, and pages only show whether there are any.
  const rowsById = new Map<unknown, Record<string, unknown>>();
  return ({ table, eventType, new: row, old }) => {
    if (table !== 'products') return changedTags(JSON.stringify({ table }));
    const id = eventType === 'DELETE' ? old.id : row.id;
    const before = rowsById.get(id);
    rowsById.delete(id);
    if (eventType !== 'DELETE') {
      rowsById.set(id, row);
      if (rowsById.size > maxKnownProducts) rowsById.delete(rowsById.keys().next().value);
      if (before && isShownAlike(before, row)) return [];
    }
    if (eventType !== 'INSERT' && !before) return null;
    return changedTags(
      JSON.stringify({
        table,
        ...(before ? { old: before } : {}),
        ...(eventType === 'DELETE' ? {} : { new: row }),
      }),
    );
  };
}

/** The same columns as in `private.after_product_change`. */
const shownColumns = [
  'name',
  'slug',
  'tagline',
  'description',
  'price',
  'previous_price',
  'image_url',
  'category',
  'brand',
  'is_active',
  'home_section',
  'home_position',
  'sold_out_until',
  'size',
  'khat_strength',
  'caffeine',
  'sweetened_with',
  'keeps',
  'allergens',
  'serving_note',
  'more_images',
];

function isShownAlike(before: Record<string, unknown>, after: Record<string, unknown>): boolean {
  return (
    // As texts: one of them is a list.
    shownColumns.every((column) => JSON.stringify(before[column]) === JSON.stringify(after[column])) &&
    (before.stock_quantity === 0) === (after.stock_quantity === 0)
  );
}

/**
 * Removes pages from the cache when rows change that they were made from. While changes are not received, pages are cached
 * for five seconds.
 * @param project origin of the project, and the secret key, with which every row is visible
 * @returns whether changes are received now, and a function that stops following
 */
export function followPageChanges(
  project: { url: string; secretKey: string },
  pages: Pick<PageCache, 'clear' | 'forget'>,
  log: Log,
): { isFollowing(): boolean; close(): Promise<void> } {
  const client = new RealtimeClient(`${project.url.replace(/^http/, 'ws')}/realtime/v1`, {
    params: { apikey: project.secretKey },
    transport: WebSocket as unknown as typeof globalThis.WebSocket,
    heartbeatIntervalMs: 10_000,
  });
  const readChange = createChangeReader();
  let isFollowing = false;
  let isStopped = false;
  let rejoin: NodeJS.Timeout | undefined;

  const setFollowing = (value: boolean) => {
    if (isStopped) return;
    // Changes between the last read and this moment were not reported.
    pages.clear();
    if (value !== isFollowing) {
      log.info(value ? 'following the tables that pages are made from' : 'page changes cannot be followed');
    }
    isFollowing = value;
  };
  const join = () => {
    if (isStopped) return;
    const channel = client.channel('page-changes');
    for (const table of tables) {
      channel.on('postgres_changes', { event: '*', schema: 'public', table }, (change) => {
        const tags = change.errors ? null : readChange(change as RowChange);
        if (tags) pages.forget(tags);
        else pages.clear();
      });
    }
    channel.on('system', {}, ({ extension, status }) => {
      if (extension === 'postgres_changes') setFollowing(status === 'ok');
    });
    let isClosed = false;
    channel.subscribe((status) => {
      if (isClosed || status === 'SUBSCRIBED') return;
      setFollowing(false);
      // The client joins again by itself after a lost connection, not after the server has closed the channel.
      if (status !== 'CLOSED') return;
      isClosed = true;
      rejoin = setTimeout(() => void client.removeChannel(channel).then(join, join), rejoinMs);
    });
  };
  const unfollowed = setInterval(() => {
    if (!isFollowing) pages.clear();
  }, unfollowedMs);
  const safety = setInterval(() => pages.clear(), safetyMs);
  join();
  return {
    isFollowing: () => isFollowing,
    async close() {
      isStopped = true;
      clearTimeout(rejoin);
      clearInterval(unfollowed);
      clearInterval(safety);
      await client.removeAllChannels();
      await client.disconnect();
    },
  };
}
