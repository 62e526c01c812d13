// One membership of one connection in one topic, from the accepted join to the end.
import type { Claims } from '../database/as-role.ts';
import { allRights, type Rights, readRights, writeRights } from './authorization.ts';
import { audienceOf, type Broadcast, type BroadcastFrames } from './broadcast.ts';
import { broadcastToAll, type Hub } from './channels.ts';
import type { JoinConfig } from './join-config.ts';
import { RateWindow } from './limits.ts';
import type { Follower } from './postgres-changes.ts';
import type { PresenceDiff } from './presence.ts';
import {
  type BroadcastData,
  encodeBroadcast,
  encodeBroadcastText,
  encodeChangeText,
  encodeText,
  isRecord,
  type Message,
  type Version,
} from './protocol.ts';
import { type StoredMessage, storedMessages } from './replay.ts';
import { acceptBindings } from './subscription-params.ts';
import { claimsOf, expired, secondsUntilExpiry, TokenRefused } from './tokens.ts';

const recheckMilliseconds = 5 * 60_000;
const presenceWindowMilliseconds = 30_000;

/** The connection as its channels see it. */
export interface ChannelLink {
  version: Version;
  /** Headers of the handshake, for policies. */
  headers: Readonly<Record<string, string>>;
  send(frame: string | Buffer): void;
  /** Null while the client keeps up; otherwise resolves when it has caught up or was let go. */
  room: Promise<void> | null;
  /**
   * Takes room for what its client is present with, or gives it back where `bytes` are negative.
   * @returns false when there is not so much
   */
  takePresenceRoom(bytes: number): boolean;
  /** The channel ended itself. */
  onClosed(channel: Channel): void;
}

/** Who holds a channel: the claims in force, and the token they came from. */
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
  /** What was stored before the join, for who asked to have it repeated. */
  #stored: readonly StoredMessage[] = [];
  /** New messages that came while the stored ones were read: they are sent after those. */
  #held: { broadcast: Broadcast; frames: BroadcastFrames }[] | null = null;
  #holder: Holder;
  #readRights: Rights;
  #writeRights: Promise<Rights> | null = null;
  #hasPresence: boolean;
  /** What it is present with, as text. */
  #tracked: string | null = null;
  #follower: Follower | null = null;
  #recheck: NodeJS.Timeout | null = null;
  #isClosed = false;

  /** @param topic without `realtime:` */
  constructor(
    hub: Hub,
    link: ChannelLink,
    join: { topic: string; joinRef: string | null; config: JoinConfig; holder: Holder; rights: Rights },
  ) {
    this.#hub = hub;
    this.#link = link;
    this.#name = join.topic;
    this.#config = join.config;
    this.#holder = join.holder;
    this.#readRights = join.rights;
    this.#hasPresence = join.config.presence.isEnabled;
    this.#presenceCalls = new RateWindow(hub.limits.presenceCalls, presenceWindowMilliseconds);
    this.joinRef = join.joinRef;
    this.audience = audienceOf(join.topic, join.config.isPrivate);
  }

  get topic(): string {
    return `realtime:${this.#name}`;
  }

  /** Reads what the client asked to have repeated, and holds what comes meanwhile. Comes before `open`. */
  async readStored(): Promise<void> {
    const { replay } = this.#config;
    if (!replay || replay === 'invalid') return;
    this.#held = [];
    this.#hub.channels.add(this);
    this.#stored = await storedMessages(this.#hub.database, this.#name, replay);
  }

  /** Answers the join and begins to take messages: in this order, and nothing in between. */
  open(ref: string | null): void {
    this.reply(ref, 'ok', { postgres_changes: acceptBindings(this.#config.postgresChanges) });
    this.#hub.channels.add(this);
    this.#sendStored();
    if (this.#hasPresence) this.#sendPresenceState();
    if (this.#config.wantsReplicationReady)
      this.#sendSystem('system', 'ok', 'Replication connection established');
    this.#scheduleRecheck();
  }

  /** Subscribes to the changes of tables the client asked for, with the claims in force, and tells the client how it went. */
  async followChanges(): Promise<void> {
    if (this.#isClosed || this.#config.postgresChanges.length === 0) return;
    const { topic } = this;
    const { version } = this.#link;
    const onServed = () => this.#sendSystem('postgres_changes', 'ok', 'Subscribed to PostgreSQL');
    const follower: Follower = {
      claims: this.#holder.claims,
      bindings: acceptBindings(this.#config.postgresChanges),
      tell: (ids, json) => {
        this.#link.send(encodeChangeText(version, topic, ids, json));
        return this.#link.room;
      },
      onServed,
    };
    const former = this.#follower;
    this.#follower = follower;
    const problem = await this.#hub.changes.follow(follower, former);
    if (this.#isClosed) return this.#hub.changes.unfollow(follower);
    if (problem === null) onServed();
    else this.#sendSystem('postgres_changes', 'error', problem);
  }

  /** Takes a text message of the client. */
  async receive(message: Message): Promise<void> {
    const payload = isRecord(message.payload) ? message.payload : {};
    switch (message.event) {
      case 'broadcast': {
        if (typeof payload.event !== 'string') return;
        const text = JSON.stringify(payload.payload ?? {});
        await this.receiveBroadcast(message.ref, payload.event, { encoding: 'json', text }, false);
        return;
      }
      case 'presence':
        await this.#receivePresence(message.ref, payload);
        return;
      case 'access_token':
        await this.#receiveToken(payload.access_token);
        return;
      default:
      // Unknown events are passed over without a word, as the protocol has it.
    }
  }

  /** Takes a broadcast of the client, from either kind of frame. */
  async receiveBroadcast(
    ref: string | null,
    event: string,
    data: BroadcastData,
    isFramedBinary: boolean,
  ): Promise<void> {
    const { isAcknowledged, reachesSelf } = this.#config.broadcast;
    const bytes = data.encoding === 'json' ? Buffer.byteLength(data.text) : data.bytes.length;
    if (bytes > this.#hub.limits.payloadBytes) {
      if (isAcknowledged) this.reply(ref, 'error', { reason: 'payload_size_exceeded' });
      return;
    }
    if (!(await this.#mayWrite('broadcast')) || this.#isClosed) return;
    broadcastToAll(
      this.#hub,
      {
        topic: this.#name,
        isPrivate: this.#config.isPrivate,
        event,
        data,
        meta: null,
        isFramedBinary,
      },
      reachesSelf ? null : this,
    );
    if (isAcknowledged) this.reply(ref, 'ok', {});
  }

  /** Passes on a broadcast of somebody else. */
  passBroadcast(broadcast: Broadcast, frames: BroadcastFrames): void {
    if (!this.#readRights.broadcast) return;
    if (this.#held) {
      this.#held.push({ broadcast, frames });
      return;
    }
    // The announcement of a row may come after the row was read with the stored ones.
    if (this.#stored.some(({ id }) => id === broadcast.meta?.id)) return;
    const frame = frames.for(this.#link.version);
    if (frame !== null) this.#link.send(frame);
  }

  /** Passes on who came and went. */
  passPresence(diff: PresenceDiff): void {
    if (this.#held || !this.#hasPresence || !this.#readRights.presence) return;
    this.#link.send(
      encodeText(this.#link.version, {
        joinRef: null,
        ref: null,
        topic: this.topic,
        event: 'presence_diff',
        payload: diff,
      }),
    );
  }

  reply(ref: string | null, status: 'ok' | 'error', response: Record<string, unknown>): void {
    this.#send('phx_reply', { status, response }, ref);
  }

  /** Tells the client why, and ends. */
  shutDown(reason: string): void {
    if (this.#isClosed) return;
    this.#sendSystem('system', 'error', reason);
    this.close();
  }

  /** Ends, and says so to the client. */
  close(): void {
    if (this.#isClosed) return;
    this.#send('phx_close', {});
    this.end();
    this.#link.onClosed(this);
  }

  /** Ends without a word: something failed (the client is told to join again) or the socket is gone. */
  end(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    if (this.#recheck) clearTimeout(this.#recheck);
    if (this.#follower) this.#hub.changes.unfollow(this.#follower);
    this.#leavePresence();
    this.#hub.channels.remove(this);
    this.#hub.channels.deliverPresence(this.audience, this.#hub.presences.untrack(this.audience, this));
  }

  /** Ends after a fault of ours; the client joins again after a while. */
  fail(): void {
    if (this.#isClosed) return;
    this.#send('phx_error', {});
    this.end();
    this.#link.onClosed(this);
  }

  async #receivePresence(ref: string | null, payload: Record<string, unknown>): Promise<void> {
    if (!this.#presenceCalls.take()) return this.shutDown('Client presence rate limit exceeded');
    const { presences, channels } = this.#hub;
    const event = String(payload.event ?? '').toLowerCase();
    if (event === 'untrack') {
      this.#leavePresence();
      channels.deliverPresence(this.audience, presences.untrack(this.audience, this));
      this.reply(ref, 'ok', {});
      return;
    }
    if (event !== 'track') return this.reply(ref, 'error', { reason: 'Unknown presence event' });
    const tracked = payload.payload ?? {};
    if (!isRecord(tracked))
      return this.reply(ref, 'error', { reason: 'Presence track payload must be a map' });
    const text = JSON.stringify(tracked);
    if (Buffer.byteLength(text) > this.#hub.limits.payloadBytes)
      return this.shutDown('Track message size exceeded');
    const mayWrite = await this.#mayWrite('presence');
    if (this.#isClosed) return;
    if (!mayWrite) return this.reply(ref, 'error', {});
    if (!this.#hasPresence) {
      this.#hasPresence = true;
      this.#sendPresenceState();
    }
    // Whoever says the same again has not changed.
    if (text !== this.#tracked) {
      const before = this.#tracked === null ? 0 : Buffer.byteLength(this.#tracked);
      if (!this.#link.takePresenceRoom(Buffer.byteLength(text) - before))
        return this.shutDown('Track message size exceeded');
      this.#tracked = text;
      const diff = presences.track(this.audience, this, this.#config.presence.key, tracked);
      channels.deliverPresence(this.audience, diff);
    }
    this.reply(ref, 'ok', {});
  }

  #leavePresence() {
    if (this.#tracked !== null) this.#link.takePresenceRoom(-Buffer.byteLength(this.#tracked));
    this.#tracked = null;
  }

  async #receiveToken(token: unknown): Promise<void> {
    if (typeof token !== 'string' || token.startsWith('sb_') || token === this.#holder.token) return;
    try {
      const claims = await claimsOf(this.#hub.authenticate, token);
      this.#holder = { claims, token };
      this.#writeRights = null;
      await this.#renewReadRights();
      await this.followChanges();
    } catch (error) {
      if (!(error instanceof TokenRefused)) throw error;
      this.shutDown(error.message);
    }
  }

  async #mayWrite(extension: keyof Rights): Promise<boolean> {
    if (!this.#config.isPrivate) return true;
    this.#writeRights ??= writeRights(this.#hub.database, this.#question());
    try {
      return (await this.#writeRights)[extension];
    } catch (error) {
      this.#writeRights = null;
      throw error;
    }
  }

  async #renewReadRights(): Promise<void> {
    if (this.#isClosed) return;
    if (this.#config.isPrivate) {
      const { claims } = this.#holder;
      const rights = await readRights(this.#hub.database, this.#question());
      // A newer token was taken in the meantime: its own answer counts.
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
    this.#writeRights = null;
    this.#renewReadRights().catch((error) => {
      this.#hub.onFault(error);
      this.#scheduleRecheck();
    });
  }

  #sendStored() {
    const { version } = this.#link;
    for (const { id, event, data } of this.#stored) {
      const meta = { replayed: true, id };
      const frame =
        data.encoding === 'json'
          ? encodeBroadcastText(version, this.topic, event, data.text, meta, this.joinRef)
          : version === 2 && encodeBroadcast(this.topic, event, data, meta);
      if (frame) this.#link.send(frame);
    }
    const held = this.#held ?? [];
    this.#held = null;
    for (const { broadcast, frames } of held) this.passBroadcast(broadcast, frames);
  }

  #question() {
    return { claims: this.#holder.claims, topic: this.#name, headers: this.#link.headers };
  }

  #sendPresenceState() {
    if (!this.#readRights.presence) return;
    this.#send('presence_state', this.#hub.presences.stateOf(this.audience));
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

/** What is said when no policy lets someone read a topic. */
export function unreadable(topic: string): string {
  return `You do not have permissions to read from this Channel topic: ${topic}`;
}

/** The rights to join with: what the policies say of a private topic, all of them on a public one. */
export async function rightsToJoin(
  hub: Hub,
  link: ChannelLink,
  topic: string,
  isPrivate: boolean,
  holder: Holder,
): Promise<Rights> {
  if (!isPrivate) return allRights;
  return readRights(hub.database, { claims: holder.claims, topic, headers: link.headers });
}
