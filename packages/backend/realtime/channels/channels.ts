// The channels of this process by topic, and the delivery of broadcasts to them.
import type { Authenticate } from '../../authenticate.ts';
import type { Database } from '../../database/database.ts';
import type { Backlog } from '../../limits/backlog.ts';
import type { FairQueue } from '../../limits/fair-queue.ts';
import type { PostgresChanges } from '../changes/postgres-changes.ts';
import type { PublicSenders } from '../connections/authorization.ts';
import { encodeText, SharedFrames } from '../connections/protocol.ts';
import { deliveryCost, type Limits, type SharedLimits } from '../limits.ts';
import { audienceOf, type Broadcast, framesOf, sizeOf, topicOf } from './broadcast.ts';
import type { BroadcastFeed } from './broadcast-feed.ts';
import type { FanOut } from './fan-out.ts';
import type { PresenceDiff, Presences } from './presence.ts';
import type { PresenceFeed } from './presence-feed.ts';

/** Shared by all connections of this process. */
export interface Hub {
  database: Database;
  authenticate: Authenticate;
  publicSenders: PublicSenders;
  limits: Limits;
  shared: SharedLimits;
  /** Database work of joins. */
  queue: FairQueue;
  /** Messages of clients that are being handled: the database is not closed before they end. */
  unfinished: Set<Promise<void>>;
  backlog: Backlog;
  onError: (error: unknown) => void;
  channels: Channels;
  presences: Presences<Receiver>;
  presenceFeed: PresenceFeed;
  feed: BroadcastFeed;
  changes: PostgresChanges;
}

/** A channel as the delivery sees it. */
export interface Receiver {
  audience: string;
  passBroadcast(broadcast: Broadcast, frames: SharedFrames): void;
  passPresence(frames: SharedFrames): void;
}

/** The channels of this process by topic; public and private topics of one name are separate. */
export class Channels {
  readonly #fanOut: FanOut;
  readonly #byAudience = new Map<string, Set<Receiver>>();

  constructor(fanOut: FanOut) {
    this.#fanOut = fanOut;
  }

  add(channel: Receiver): void {
    const members = this.#byAudience.get(channel.audience);
    if (members) members.add(channel);
    else this.#byAudience.set(channel.audience, new Set([channel]));
  }

  remove(channel: Receiver): void {
    const members = this.#byAudience.get(channel.audience);
    members?.delete(channel);
    if (members?.size === 0) this.#byAudience.delete(channel.audience);
  }

  /** Number of channels that receive a message to a topic. */
  countReceivers(audience: string): number {
    return this.#byAudience.get(audience)?.size ?? 0;
  }

  /**
   * Sends a broadcast to all channels of its topic in this process.
   * @param except the sender's channel, unless it receives its own messages
   * @returns null when it is delivered to all; otherwise resolves when it is
   */
  deliver(broadcast: Broadcast, except: Receiver | null = null): Promise<void> | null {
    const members = this.#byAudience.get(audienceOf(broadcast.topic, broadcast.isPrivate));
    if (!members) return null;
    const frames = framesOf(broadcast);
    return this.#fanOut.deliver(members, sizeOf(broadcast), (channel) => {
      if (channel !== except) channel.passBroadcast(broadcast, frames);
    });
  }

  /** Sends a presence change to all channels of a topic in this process. */
  deliverPresence(audience: string, diff: PresenceDiff): void {
    const members = this.#byAudience.get(audience);
    if (!members) return;
    const topic = `realtime:${topicOf(audience)}`;
    const message = { joinRef: null, ref: null, topic, event: 'presence_diff', payload: diff };
    const frames = new SharedFrames((version) => encodeText(version, message));
    const bytes = frames.for(2)?.bytes.length ?? 0;
    void this.#fanOut.deliver(members, bytes, (channel) => channel.passPresence(frames));
  }
}

/**
 * Sends a broadcast to all channels of its topic: here, and in the other processes through the database.
 * @returns null when it is delivered to all channels here; otherwise resolves when it is
 */
export function broadcastToAll(
  hub: Pick<Hub, 'channels' | 'feed'>,
  broadcast: Broadcast,
  except: Receiver | null = null,
): Promise<void> | null {
  hub.feed.publish(broadcast);
  return hub.channels.deliver(broadcast, except);
}

/** Cost of delivering a client's message, for the delivery limit. */
export function costOf(
  hub: Pick<Hub, 'channels'>,
  broadcast: Pick<Broadcast, 'topic' | 'isPrivate' | 'data'>,
): number {
  const receivers = hub.channels.countReceivers(audienceOf(broadcast.topic, broadcast.isPrivate));
  return Math.max(1, receivers) * deliveryCost(sizeOf(broadcast));
}
