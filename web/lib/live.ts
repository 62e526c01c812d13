// Realtime changes of one order. Loaded only by pages that subscribe to an order.
import { RealtimeClient } from '@supabase/realtime-js';
import { type StoreAddress, servicesOrigin } from '../../supabase/store.ts';

/** An order that changed, without personal data. */
export interface OrderChange {
  /** The channel's key: the order's live handle or its id. */
  id: string;
  status: string;
  payment_status: string;
  updated_at: string;
}

interface Follower {
  onChange(change: OrderChange): void;
  /** Changes may have been missed because the channel has just opened or closed: reload the order. */
  onGap(isOpen: boolean): void;
}

/**
 * Subscribes to an order until the returned function is called.
 * @param handle the order's live handle. Its channel `order-{handle}` carries the same UPDATE events as the channel
 *   `order-{id}` (docs/product.md#calls), and needs no proof that the order is the caller's.
 */
export function followOrder(address: StoreAddress, handle: string, follower: Follower): () => void {
  const client = new RealtimeClient(`${servicesOrigin(address).replace(/^http/, 'ws')}/realtime/v1`, {
    params: { apikey: address.key },
  });
  let isFollowing = true;
  const channel = client
    .channel(`order-${handle}`)
    .on('broadcast', { event: 'UPDATE' }, ({ payload }) => {
      const change = readOrderChange(payload);
      if (isFollowing && change?.id === handle) follower.onChange(change);
    })
    .subscribe((status) => {
      if (isFollowing && status !== 'CLOSED') follower.onGap(status === 'SUBSCRIBED');
    });
  return () => {
    isFollowing = false;
    void client.removeChannel(channel).finally(() => client.disconnect());
  };
}

/** @returns null unless it is a change of an order */
export function readOrderChange(payload: unknown): OrderChange | null {
  if (typeof payload !== 'object' || payload === null) return null;
  const { id, status, payment_status, updated_at } = payload as Record<string, unknown>;
  return typeof id === 'string' &&
    typeof status === 'string' &&
    typeof payment_status === 'string' &&
    typeof updated_at === 'string'
    ? { id, status, payment_status, updated_at }
    : null;
}
