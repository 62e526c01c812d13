// Realtime changes of one order. Loaded only by pages that subscribe to an order.
import { RealtimeClient } from '@supabase/realtime-js';
import { type StoreAddress, servicesOrigin } from '../../supabase/services-origin.ts';

interface Follower {
  /** The message is only a hint: reload the order. */
  onChange(): void;
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
      if (isFollowing && payload?.id === handle) follower.onChange();
    })
    .subscribe((status) => {
      if (isFollowing && status !== 'CLOSED') follower.onGap(status === 'SUBSCRIBED');
    });
  return () => {
    isFollowing = false;
    void client.removeChannel(channel).finally(() => client.disconnect());
  };
}
