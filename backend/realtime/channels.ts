// Who is on which topic in this process, and the one way a broadcast reaches them.
import type { Authenticate } from '../authenticate.ts';
import type { Database } from '../database/database.ts';
import { audienceOf, type Broadcast, BroadcastFrames } from './broadcast.ts';
import type { BroadcastFeed } from './broadcast-feed.ts';
import type { Channel } from './channel.ts';
import type { Limits } from './limits.ts';
import type { PostgresChanges } from './postgres-changes.ts';
import type { PresenceDiff, Presences } from './presence.ts';

/** What all connections of this process share. */
export interface Hub {
  database: Database;
  authenticate: Authenticate;
  limits: Limits;
  onFault: (error: unknown) => void;
  channels: Channels;
  presences: Presences<Channel>;
  feed: BroadcastFeed;
  changes: PostgresChanges;
}

/** The channels of this process by topic; public and private topics of one name are separate. */
export class Channels {
  readonly #byAudience = new Map<string, Set<Channel>>();

  add(channel: Channel): void {
    const members = this.#byAudience.get(channel.audience);
    if (members) members.add(channel);
    else this.#byAudience.set(channel.audience, new Set([channel]));
  }

  remove(channel: Channel): void {
    const members = this.#byAudience.get(channel.audience);
    members?.delete(channel);
    if (members?.size === 0) this.#byAudience.delete(channel.audience);
  }

  /**
   * Sends a broadcast to everybody on its topic in this process.
   * @param except the sender, when it does not want its own messages
   */
  deliver(broadcast: Broadcast, except: Channel | null = null): void {
    const members = this.#byAudience.get(audienceOf(broadcast.topic, broadcast.isPrivate));
    if (!members) return;
    const frames = new BroadcastFrames(broadcast);
    for (const channel of members) {
      if (channel !== except) channel.passBroadcast(broadcast, frames);
    }
  }

  /** Tells everybody on a topic in this process who came and went. */
  deliverPresence(audience: string, diff: PresenceDiff | null): void {
    if (!diff) return;
    for (const channel of this.#byAudience.get(audience) ?? []) channel.passPresence(diff);
  }
}

/** Sends a broadcast to everybody on its topic: here at once, in the other processes through the database. */
export function broadcastToAll(
  hub: Pick<Hub, 'channels' | 'feed'>,
  broadcast: Broadcast,
  except: Channel | null = null,
): void {
  hub.channels.deliver(broadcast, except);
  hub.feed.publish(broadcast);
}
