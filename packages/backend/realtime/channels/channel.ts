// One channel: a connection's membership in a topic, from the accepted join to its end.

import type { Claims } from '../../database/as-role.ts';
import { visitorOf } from '../../limits/fair-share.ts';
import type { Follower } from '../changes/postgres-changes.ts';
import { acceptBindings } from '../changes/subscription-params.ts';
import {
  allRights,
  knownRightsToSend,
  type Rights,
  type RightsQuestion,
  readRights,
  writeRights,
} from '../connections/authorization.ts';
import { costOfJoin, type JoinConfig } from '../connections/join-config.ts';
import {
  encodeBroadcast,
  encodeBroadcastText,
  encodeText,
  type Frame,
  isRecord,
  type Message,
  type SharedFrames,
  type Version,
} from '../connections/protocol.ts';
import { claimsOf, expired, secondsUntilExpiry, TokenRefused } from '../connections/tokens.ts';
import { deliveryCost, RateWindow } from '../limits.ts';
import { audienceOf, type Broadcast, sizeOf } from './broadcast.ts';
import { broadcastToAll, costOf, type Hub } from './channels.ts';
import { stateOf } from './presence.ts';
import { type StoredMessage, storedMessages } from './replay.ts';

const recheckMilliseconds = 5 * 60_000;
const presenceWindowMilliseconds = 30_000;
/** Error of a broadcast with `persist`. Rows of `realtime.messages` are stored and replayed. */
export const storingUnsupported = 'Storing a broadcast (persist) is not supported';

/** The connection as its channels see it. */
export interface ChannelLink {
  version: Version;
  /** Headers of the handshake, for policies. */
  headers: Readonly<Record<string, string>>;
  /** The client's networks, for limits; empty for clients without per-network limits. */
  networks: readonly string[];
  send(frame: string | Frame): void;
  /**
   * Null while the client keeps up; otherwise resolves when it has caught up or was disconnected.
   * @param role the client's, which decides the timeout
   */
  drained(role: string): Promise<void> | null;
  /**
   * Reserves memory for presence, or releases it where `bytes` is negative.
   * @returns false above the limit
   */
  reservePresenceBytes(bytes: number): boolean;
  /** A signal that is aborted when the client disconnects. */
  readonly disconnected: AbortSignal;
  /** The channel ended itself. */
  onClosed(channel: Channel): void;
}

/** Identity of a channel: the claims in force, and their token. */
export interface Holder {
  claims: Claims;
  token: string;
}

export class Channel {
  readonly audience: string;
  readonly joinRef: string | null;
  readonly #hub: Hub;
  readonly #link: ChannelLink;
  readonly #name: string;
  readonly #config: JoinConfig;
  readonly #presenceCalls: RateWindow;
  readonly #onEnd: () => void;
  /** Stored messages to replay, if the client requested them. */
  #stored: readonly StoredMessage[] = [];
  /** Messages that arrived while the stored ones were read; sent after those. */
  #held: { broadcast: Broadcast; frames: SharedFrames }[] | null = null;
  #holder: Holder;
  #readRights: Rights;
  #sendRights: Promise<Rights> | null = null;
  #hasPresence: boolean;
  #followsPresence = false;
  /** Its presence payload, as text. */
  #tracked: string | null = null;
  #follower: Follower | null = null;
  /** Result of the subscription to table changes, for the client: null when they are followed. Undefined: none yet. */
  #changesProblem: string | null | undefined;
  /** Changes that arrived before the response to the join; null since then. */
  #earlyChanges: Frame[] | null = [];
  #recheck: NodeJS.Timeout | null = null;
  #isClosed = false;

  /** @param topic without `realtime:` */
  constructor(
    hub: Hub,
    link: ChannelLink,
    join: {
      topic: string;
      joinRef: string | null;
      config: JoinConfig;
      holder: Holder;
      rights: Rights;
      onEnd: () => void;
    },
  ) {
    this.#hub = hub;
    this.#link = link;
    this.#name = join.topic;
    this.#config = join.config;
    this.#holder = join.holder;
    this.#readRights = join.rights;
    this.#hasPresence = join.config.presence.isEnabled;
    this.#presenceCalls = new RateWindow(hub.limits.presenceCalls, presenceWindowMilliseconds);
    this.#onEnd = join.onEnd;
    this.joinRef = join.joinRef;
    this.audience = audienceOf(join.topic, join.config.isPrivate);
  }

  get topic(): string {
    return `realtime:${this.#name}`;
  }

  /** Reads what the client receives at the join: presences, and messages to replay. Call it before `open`. */
  async read(): Promise<void> {
    if (this.#hasPresence) await this.#followPresence();
    await this.#readStored();
  }

  /** Reads the messages to replay and queues new ones. */
  async #readStored(): Promise<void> {
    const { replay } = this.#config;
    if (!replay || replay === 'invalid') return;
    this.#held = [];
    this.#hub.channels.add(this);
    this.#stored = await storedMessages(this.#hub.database, this.#name, replay);
  }

  /** Answers the join and starts delivery: in this order, with nothing in between. Call it after `followChanges`. */
  open(ref: string | null): void {
    this.reply(ref, 'ok', { postgres_changes: acceptBindings(this.#config.postgresChanges) });
    const early = this.#earlyChanges ?? [];
    this.#earlyChanges = null;
    this.#sendChangesStatus();
    for (const frame of early) this.#link.send(frame);
    this.#hub.channels.add(this);
    this.#sendStored();
    if (this.#hasPresence) this.#sendPresenceState();
    if (this.#config.wantsReplicationReady)
      this.#sendSystem('system', 'ok', 'Replication connection established');
    this.#scheduleRecheck();
  }

  /**
   * Subscribes to table changes with the claims in force, and sends an open channel's client the result.
   * @returns why they are not followed; null when they are, or when the join requested none
   */
  async followChanges(): Promise<string | null> {
    if (this.#isClosed || this.#config.postgresChanges.length === 0) return null;
    const { topic } = this;
    const { version } = this.#link;
    const setProblem = (problem: string | null) => {
      this.#changesProblem = problem;
      this.#sendChangesStatus();
    };
    const follower: Follower = {
      claims: this.#holder.claims,
      bindings: acceptBindings(this.#config.postgresChanges),
      deliver: (ids, frames) => {
        const { role } = this.#holder.claims;
        const frame = frames.for(version, topic, ids);
        if (
          role === 'anon' &&
          !this.#hub.shared.visitorChanges.take(this.#link.networks, deliveryCost(frame.bytes.length))
        ) {
          this.shutDown('Too many messages per second');
          return null;
        }
        if (this.#earlyChanges) this.#earlyChanges.push(frame);
        else this.#link.send(frame);
        return this.#link.drained(role);
      },
      inShare: (work) => this.#inShare(work),
      onServed: () => setProblem(null),
      // The client joins again and then fetches what it shows.
      onMissedChanges: () => this.fail(),
    };
    const former = this.#follower;
    this.#follower = follower;
    const problem = await this.#hub.changes.follow(follower, former);
    if (this.#isClosed) this.#hub.changes.unfollow(follower);
    else setProblem(problem);
    return problem;
  }

  #sendChangesStatus() {
    if (this.#earlyChanges || this.#changesProblem === undefined) return;
    if (this.#changesProblem === null) this.#sendSystem('postgres_changes', 'ok', 'Subscribed to PostgreSQL');
    else this.#sendSystem('postgres_changes', 'error', this.#changesProblem);
  }

  /** Takes a text message of the client. */
  async receive(message: Message): Promise<void> {
    const payload = isRecord(message.payload) ? message.payload : {};
    switch (message.event) {
      case 'broadcast': {
        if (typeof payload.event !== 'string' || !(await this.#maySend('broadcast'))) return;
        await this.receiveBroadcast(message.ref, {
          event: payload.event,
          data: { encoding: 'json', text: JSON.stringify(payload.payload ?? {}) },
          isFramedBinary: false,
          isToBeStored: Boolean(payload.persist),
        });
        return;
      }
      case 'presence':
        await this.#receivePresence(message.ref, payload);
        return;
      case 'access_token':
        await this.#receiveToken(payload.access_token);
        return;
      default:
      // The protocol ignores unknown events without an answer.
    }
  }

  /** Takes a broadcast of the client, from either kind of frame. */
  async receiveBroadcast(
    ref: string | null,
    sent: Pick<Broadcast, 'event' | 'data' | 'isFramedBinary'> & { isToBeStored: boolean },
  ): Promise<void> {
    if (!(await this.#maySend('broadcast')) || this.#isClosed) return;
    const { event, data, isFramedBinary } = sent;
    if (sent.isToBeStored) {
      // Nothing is sent, or its sender would believe it stored, too. A sender that waits for no reply gets the message.
      this.reply(ref, 'error', { error: storingUnsupported });
      this.#sendSystem('broadcast', 'error', storingUnsupported);
      return;
    }
    const { isAcknowledged, reachesSelf } = this.#config.broadcast;
    const broadcast: Broadcast = {
      topic: this.#name,
      isPrivate: this.#config.isPrivate,
      event,
      data,
      meta: null,
      isFramedBinary,
    };
    if (sizeOf(broadcast) > this.#hub.limits.payloadBytes) {
      if (isAcknowledged) this.reply(ref, 'error', { reason: 'payload_size_exceeded' });
      return;
    }
    if (!this.#hub.shared.deliveries.take(this.#link.networks, costOf(this.#hub, broadcast)))
      return this.shutDown('Too many messages per second');
    // The sender's next message waits until this one is delivered.
    await broadcastToAll(this.#hub, broadcast, reachesSelf ? null : this);
    if (isAcknowledged) this.reply(ref, 'ok', {});
  }

  /** Sends another client's broadcast. */
  passBroadcast(broadcast: Broadcast, frames: SharedFrames): void {
    if (this.#isClosed || !this.#readRights.broadcast) return;
    if (this.#held) {
      this.#held.push({ broadcast, frames });
      return;
    }
    // A row's notification may arrive after the row was read for the replay.
    if (this.#stored.some(({ id }) => id === broadcast.meta?.id)) return;
    const frame = frames.for(this.#link.version);
    if (frame !== null) this.#link.send(frame);
  }

  /** Sends a presence change. */
  passPresence(frames: SharedFrames): void {
    if (this.#isClosed || this.#held || !this.#hasPresence || !this.#readRights.presence) return;
    const frame = frames.for(this.#link.version);
    if (frame !== null) this.#link.send(frame);
  }

  reply(ref: string | null, status: 'ok' | 'error', response: Record<string, unknown>): void {
    this.#send('phx_reply', { status, response }, ref);
  }

  /** Sends the client the reason and closes the channel. */
  shutDown(reason: string): void {
    if (this.#isClosed) return;
    this.#sendSystem('system', 'error', reason);
    this.close();
  }

  /** Closes the channel with a message to the client. */
  close(): void {
    if (this.#isClosed) return;
    this.#send('phx_close', {});
    this.end();
    this.#link.onClosed(this);
  }

  /** Closes the channel without a message: it failed (the client receives an error and rejoins) or the socket is closed. */
  end(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    if (this.#recheck) clearTimeout(this.#recheck);
    if (this.#follower) this.#hub.changes.unfollow(this.#follower);
    this.#hub.channels.remove(this);
    this.#leavePresence();
    if (this.#followsPresence) this.#hub.presenceFeed.unfollow(this.audience);
    this.#onEnd();
  }

  /** Closes the channel after an error of ours; the client rejoins after a delay. */
  fail(): void {
    if (this.#isClosed) return;
    this.#send('phx_error', {});
    this.end();
    this.#link.onClosed(this);
  }

  async #receivePresence(ref: string | null, payload: Record<string, unknown>): Promise<void> {
    if (!this.#presenceCalls.take()) return this.shutDown('Client presence rate limit exceeded');
    const event = String(payload.event ?? '').toLowerCase();
    if (event === 'untrack') {
      this.#leavePresence();
      this.reply(ref, 'ok', {});
      return;
    }
    if (event !== 'track') return this.reply(ref, 'error', { reason: 'Unknown presence event' });
    const tracked = payload.payload ?? {};
    if (!isRecord(tracked))
      return this.reply(ref, 'error', { reason: 'Presence track payload must be a map' });
    const maySend = await this.#maySend('presence');
    if (this.#isClosed) return;
    if (!maySend) return this.reply(ref, 'error', {});
    const text = JSON.stringify(tracked);
    if (Buffer.byteLength(text) > this.#hub.limits.payloadBytes)
      return this.shutDown('Track message size exceeded');
    if (!this.#hasPresence) {
      await this.#followPresence();
      if (this.#isClosed) return;
      this.#hasPresence = true;
      this.#sendPresenceState();
    }
    // The same presence again is no change.
    if (text !== this.#tracked && !this.#track(tracked, text))
      return this.shutDown('Track message size exceeded');
    this.reply(ref, 'ok', {});
  }

  /** Tracks the client's presence; false above its or its topic's limit. */
  #track(tracked: Readonly<Record<string, unknown>>, text: string): boolean {
    const { presences, presenceFeed, limits } = this.#hub;
    const { key } = this.#config.presence;
    const bytes = Buffer.byteLength(key) + Buffer.byteLength(text);
    const addedBytes = bytes - presences.bytesOf(this.audience, this);
    const bytesOfTopic = presences.bytesOf(this.audience) + presenceFeed.bytesOf(this.audience);
    if (bytesOfTopic + addedBytes > limits.presenceBytesPerTopic) return false;
    if (!this.#link.reservePresenceBytes(addedBytes)) return false;
    this.#tracked = text;
    this.#announcePresence(presences.track(this.audience, this, { key, bytes, payload: tracked }));
    return true;
  }

  #leavePresence() {
    const { presences } = this.#hub;
    this.#tracked = null;
    this.#link.reservePresenceBytes(-presences.bytesOf(this.audience, this));
    const change = presences.untrack(this.audience, this);
    if (change) this.#announcePresence(change);
  }

  #announcePresence({ joined, left }: ReturnType<Hub['presences']['track']>) {
    const { channels, presenceFeed } = this.#hub;
    const diff = { joins: stateOf(joined ? [joined] : []), leaves: stateOf(left ? [left] : []) };
    channels.deliverPresence(this.audience, diff);
    presenceFeed.publish(this.audience, { ...(joined ? { joined } : {}), left });
  }

  /** Loads and updates the presences of other processes as long as the channel is open. */
  async #followPresence(): Promise<void> {
    await this.#inShare(() => this.#hub.presenceFeed.follow(this.audience));
    if (this.#isClosed) this.#hub.presenceFeed.unfollow(this.audience);
    else this.#followsPresence = true;
  }

  async #receiveToken(token: unknown): Promise<void> {
    if (typeof token !== 'string' || token.startsWith('sb_') || token === this.#holder.token) return;
    if (!this.#hub.shared.calls.take(this.#link.networks, costOfJoin(this.#config).calls))
      return this.shutDown('Too many joins per second');
    try {
      const claims = await claimsOf(this.#hub.authenticate, token);
      this.#holder = { claims, token };
      this.#sendRights = null;
      await this.#renewReadRights();
      await this.followChanges();
    } catch (error) {
      if (!(error instanceof TokenRefused)) throw error;
      this.shutDown(error.message);
    }
  }

  async #maySend(extension: keyof Rights): Promise<boolean> {
    const question = this.#question();
    const cachedRights = knownRightsToSend(this.#hub, question);
    if (cachedRights) return cachedRights[extension];
    this.#sendRights ??= this.#inShare(() => writeRights(this.#hub.database, question));
    try {
      return (await this.#sendRights)[extension];
    } catch (error) {
      this.#sendRights = null;
      throw error;
    }
  }

  #inShare<T>(work: () => Promise<T>): Promise<T> {
    return inShare(this.#hub, this.#link, work);
  }

  async #renewReadRights(): Promise<void> {
    if (this.#isClosed) return;
    if (this.#config.isPrivate) {
      const { claims } = this.#holder;
      const rights = await this.#inShare(() => readRights(this.#hub.database, this.#question()));
      // A newer token was accepted in the meantime; its own result counts.
      if (claims !== this.#holder.claims) return;
      if (!rights.broadcast && !rights.presence) return this.shutDown(unreadable(this.#name));
      const isLess =
        (this.#readRights.broadcast && !rights.broadcast) ||
        (this.#hasPresence && this.#readRights.presence && !rights.presence);
      if (isLess)
        return this.shutDown(`You no longer have permission to read from this Channel topic: ${this.#name}`);
      this.#readRights = rights;
    }
    this.#scheduleRecheck();
  }

  #scheduleRecheck() {
    if (this.#isClosed) return;
    if (this.#recheck) clearTimeout(this.#recheck);
    const secondsLeft = secondsUntilExpiry(this.#holder.claims) ?? Number.POSITIVE_INFINITY;
    this.#recheck = setTimeout(
      () => this.#checkAgain(),
      Math.min(Math.max(0, secondsLeft * 1000), recheckMilliseconds),
    );
    this.#recheck.unref();
  }

  #checkAgain() {
    const secondsLeft = secondsUntilExpiry(this.#holder.claims);
    if (secondsLeft !== null && secondsLeft <= 0) return this.shutDown(expired(-secondsLeft).message);
    this.#sendRights = null;
    this.#renewReadRights().catch((error) => {
      this.#hub.onError(error);
      this.#scheduleRecheck();
    });
  }

  #sendStored() {
    const { version } = this.#link;
    for (const { id, event, data } of this.#stored) {
      const meta = { replayed: true, id };
      if (data.encoding === 'json') {
        this.#link.send(encodeBroadcastText(version, this.topic, event, data.text, meta, this.joinRef));
        continue;
      }
      const bytes = version === 2 && encodeBroadcast(this.topic, event, data, meta);
      if (bytes) this.#link.send({ bytes, isBinary: true });
    }
    const held = this.#held ?? [];
    this.#held = null;
    for (const { broadcast, frames } of held) this.passBroadcast(broadcast, frames);
  }

  #question(): RightsQuestion {
    return {
      claims: this.#holder.claims,
      topic: this.#name,
      isPrivate: this.#config.isPrivate,
      headers: this.#link.headers,
    };
  }

  #sendPresenceState() {
    if (!this.#readRights.presence) return;
    const { presences, presenceFeed } = this.#hub;
    this.#send(
      'presence_state',
      stateOf([...presences.of(this.audience), ...presenceFeed.remoteOf(this.audience)]),
    );
  }

  #sendSystem(extension: string, status: 'ok' | 'error', message: string) {
    this.#send('system', { extension, status, message, channel: this.#name });
  }

  #send(event: string, payload: unknown, ref: string | null = null) {
    if (this.#isClosed) return;
    this.#link.send(
      encodeText(this.#link.version, { joinRef: this.joinRef, ref, topic: this.topic, event, payload }),
    );
  }
}

/** Runs database work in the client's share of the queue. */
function inShare<T>(
  { queue }: Pick<Hub, 'queue'>,
  { networks, disconnected }: Pick<ChannelLink, 'networks' | 'disconnected'>,
  work: () => Promise<T>,
): Promise<T> {
  return queue.run(visitorOf(networks), work, { signal: () => disconnected });
}

/** Error when no policy allows reading a topic. */
export function unreadable(topic: string): string {
  return `You do not have permissions to read from this Channel topic: ${topic}`;
}

/** The rights of a join: from the policies on a private topic, all of them on a public one. */
export async function rightsToJoin(
  hub: Hub,
  link: ChannelLink,
  topic: string,
  isPrivate: boolean,
  holder: Holder,
): Promise<Rights> {
  if (!isPrivate) return allRights;
  const question = { claims: holder.claims, topic, isPrivate, headers: link.headers };
  return inShare(hub, link, () => readRights(hub.database, question));
}
