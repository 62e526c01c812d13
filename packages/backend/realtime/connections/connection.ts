// One socket: parses frames, keeps their order per topic, and owns the socket's channels.
import type { RawData, WebSocket } from 'ws';
import type { Reader } from '../../limits/backlog.ts';
import { isQueueRejection, QueueFull } from '../../limits/fair-queue.ts';
import { isStorableText } from '../../storable.ts';
import { Channel, type ChannelLink, type Holder, rightsToJoin, unreadable } from '../channels/channel.ts';
import type { Hub } from '../channels/channels.ts';
import { RateWindow } from '../limits.ts';
import { isOutage } from '../outage.ts';
import { noRights } from './authorization.ts';
import type { FrameGate } from './frame-gate.ts';
import { costOfJoin, type JoinConfig, readJoinConfig } from './join-config.ts';
import {
  decodeBinary,
  decodeText,
  encodeText,
  type Frame,
  MalformedFrame,
  type Message,
  type PushedBroadcast,
  type Version,
} from './protocol.ts';
import { claimsOf, TokenRefused } from './tokens.ts';

const topicPrefix = 'realtime:';
const maxUnfinished = 64;
/** Maximum bytes of messages that wait for the one before them. */
const maxUnfinishedBytes = 1024 * 1024;
/** Approximate memory of a queued frame besides its bytes: most frames are smaller. */
const bytesOfQueuedFrame = 512;
const maxSubscriptions = 100;
const closeCodes = { normal: 1000, protocolError: 1002, tryAgainLater: 1013 };
const checkIntervalMs = 5;
const msPerCheck = 40;
const socketOpen = 1;

/** Result of the handshake. */
export interface Handshake {
  version: Version;
  /** Claims of the API key. */
  holder: Holder;
  headers: Readonly<Record<string, string>>;
  /**
   * The client's networks, narrowest first; empty without an IP address. Also empty with the secret key, which belongs to the operator:
   * it has limits per socket and in total, but none per network.
   */
  networks: readonly string[];
}

const tooManyJoins = 'ClientJoinRateLimitReached: Too many joins per second';

/** A join that is answered with an error. */
class JoinRefused extends Error {}

export class Connection implements ChannelLink, Reader {
  readonly version: Version;
  readonly headers: Readonly<Record<string, string>>;
  readonly networks: readonly string[];
  readonly #hub: Hub;
  readonly #socket: WebSocket;
  readonly #gate: FrameGate;
  readonly #holder: Holder;
  readonly #channels = new Map<string, Channel>();
  /** The last pending work by topic: messages of one topic keep their order. */
  readonly #tails = new Map<string, Promise<void>>();
  readonly #joins: RateWindow;
  readonly #messages: RateWindow;
  readonly #idle: NodeJS.Timeout;
  readonly #onSent = () => {
    this.#queuedFrames -= 1;
  };
  #queuedFrames = 0;
  #unfinished = 0;
  #unfinishedBytes = 0;
  #presenceBytes = 0;
  #drained: Promise<void> | null = null;
  readonly #disconnection = new AbortController();
  #isClosed = false;

  constructor(hub: Hub, socket: WebSocket, gate: FrameGate, handshake: Handshake) {
    this.#hub = hub;
    this.#socket = socket;
    this.#gate = gate;
    this.#holder = handshake.holder;
    this.version = handshake.version;
    this.headers = handshake.headers;
    this.networks = handshake.networks;
    this.#joins = new RateWindow(hub.limits.joinsPerSecond, 1000);
    this.#messages = new RateWindow(hub.limits.messagesPerSecond, 1000);
    this.#idle = setTimeout(() => this.#closeWith(closeCodes.normal, 'idle'), hub.limits.idleMilliseconds);
    this.#idle.unref();
    socket.on('message', (data, isBinary) => this.#receive(data, isBinary));
    for (const event of ['ping', 'pong'] as const) socket.on(event, () => this.#idle.refresh());
    socket.on('close', () => {
      hub.backlog.forget(this);
      this.#end();
    });
    // A broken frame, after which the library has sent the close frame.
    socket.on('error', () => {
      this.#end();
      gate.finish();
    });
  }

  send(frame: string | Frame): void {
    if (this.#socket.readyState !== socketOpen) return;
    if (this.queuedBytes > 2 * this.#hub.limits.bufferedBytes) {
      this.#disconnectSlowReader();
      return;
    }
    const { bytes, isBinary } = typeof frame === 'string' ? { bytes: frame, isBinary: false } : frame;
    this.#queuedFrames += 1;
    this.#socket.send(bytes, { binary: isBinary }, this.#onSent);
    if (this.#socket.bufferedAmount > 0) this.#hub.backlog.note(this, bytes.length + bytesOfQueuedFrame);
  }

  get queuedBytes(): number {
    return this.#socket.bufferedAmount + bytesOfQueuedFrame * this.#queuedFrames;
  }

  get disconnected(): AbortSignal {
    return this.#disconnection.signal;
  }

  terminate(): void {
    this.#end();
    this.#socket.terminate();
  }

  reservePresenceBytes(bytes: number): boolean {
    if (this.#presenceBytes + bytes > this.#hub.limits.presenceBytes) return false;
    this.#presenceBytes += bytes;
    return true;
  }

  drained(role: string): Promise<void> | null {
    if (!this.#isFull(1)) return null;
    const { slowReaderTimeoutMs, slowVisitorTimeoutMs } = this.#hub.limits;
    this.#drained ??= this.#waitForReader(
      role === 'anon' ? slowVisitorTimeoutMs : slowReaderTimeoutMs,
    ).finally(() => {
      this.#drained = null;
    });
    return this.#drained;
  }

  #isFull(share: number): boolean {
    return (
      this.#socket.readyState === socketOpen && this.queuedBytes > share * this.#hub.limits.bufferedBytes
    );
  }

  async #waitForReader(timeoutMs: number): Promise<void> {
    const deadline = performance.now() + timeoutMs;
    // Checked several times, because this process may have been too busy to send.
    const minChecks = timeoutMs / msPerCheck;
    for (let check = 0; this.#isFull(0.5); check += 1) {
      if (check > minChecks && performance.now() > deadline) return this.#disconnectSlowReader();
      await new Promise((done) => setTimeout(done, checkIntervalMs));
    }
  }

  /** Disconnects a client that reads too slowly: its unread messages would fill the process's memory. */
  #disconnectSlowReader(): void {
    this.#closeWith(closeCodes.tryAgainLater, 'reads too slowly');
  }

  /** Closes the connection and ignores further frames. */
  #closeWith(code: number, reason: string) {
    if (this.#isClosed) return;
    this.#end();
    this.#socket.close(code, reason);
    this.#gate.finish();
  }

  onClosed(channel: Channel): void {
    if (this.#channels.get(channel.topic) === channel) this.#channels.delete(channel.topic);
  }

  #receive(data: RawData, isBinary: boolean) {
    if (this.#isClosed) return;
    this.#idle.refresh();
    const frame = data as Buffer;
    let message: Message | PushedBroadcast;
    try {
      message = isBinary ? decodeBinary(frame) : decodeText(this.version, frame.toString());
      if (!isStorableText(message.topic)) throw new MalformedFrame('no topic has such characters');
    } catch (error) {
      if (!(error instanceof MalformedFrame)) this.#hub.onError(error);
      this.#closeWith(closeCodes.protocolError, 'malformed frame');
      return;
    }
    if (message.topic === 'phoenix') return this.#receiveHeartbeat(message);
    this.#inOrder(message, frame.length);
  }

  #inOrder(message: Message | PushedBroadcast, bytes: number) {
    const { topic } = message;
    this.#unfinished += 1;
    this.#unfinishedBytes += bytes;
    if (this.#unfinished >= maxUnfinished || this.#unfinishedBytes >= maxUnfinishedBytes)
      this.#socket.pause();
    const before = this.#tails.get(topic) ?? Promise.resolve();
    const tail = before
      .then(() => this.#handle(message, bytes))
      .catch((error) => {
        if (!isQueueRejection(error)) this.#hub.onError(error);
        this.#channels.get(topic)?.fail();
      })
      .finally(() => {
        this.#unfinished -= 1;
        this.#unfinishedBytes -= bytes;
        const isRelieved = this.#unfinished < maxUnfinished / 2 && this.#unfinishedBytes < maxUnfinishedBytes;
        if (this.#socket.isPaused && isRelieved) this.#socket.resume();
        if (this.#tails.get(topic) === tail) this.#tails.delete(topic);
        this.#hub.unfinished.delete(tail);
      });
    this.#tails.set(topic, tail);
    this.#hub.unfinished.add(tail);
  }

  async #handle(message: Message | PushedBroadcast, bytes: number): Promise<void> {
    if (this.#isClosed) return;
    const channel = this.#channels.get(message.topic);
    if ('userEvent' in message) {
      if (!channel) return this.#replyUnmatched(message);
      if (!this.#messages.take()) return this.#tooMany(channel);
      return channel.receiveBroadcast(message.ref, {
        ...message,
        event: message.userEvent,
        isFramedBinary: true,
      });
    }
    if (message.event === 'phx_join') return this.#join(message, bytes);
    if (message.event === 'phx_leave') return this.#leave(message, channel);
    if (!channel) return this.#replyUnmatched(message);
    if (!this.#messages.take()) return this.#tooMany(channel);
    return channel.receive(message);
  }

  async #join(message: Message, bytes: number): Promise<void> {
    if (!message.topic.startsWith(topicPrefix)) return this.#replyUnmatched(message);
    this.#channels.get(message.topic)?.close();
    const topic = message.topic.slice(topicPrefix.length);
    let release = () => {};
    try {
      if (topic === '') throw new JoinRefused('TopicNameRequired: You must provide a topic name');
      if (bytes > this.#hub.limits.joinBytes)
        throw new JoinRefused('ClientJoinRateLimitReached: The join is too large');
      const config = readJoinConfig(message.payload);
      release = this.#admitJoin(config, bytes);
      if (config.replay === 'invalid')
        throw new JoinRefused('UnableToReplayMessages: Replay params are not valid');
      if (config.replay && !config.isPrivate)
        throw new JoinRefused('UnableToReplayMessages: Replay is not allowed for public channels');
      const holder = await this.#holderOf(config.accessToken);
      const rights = await rightsToJoin(this.#hub, this, topic, config.isPrivate, holder).catch((error) => {
        if (isOutage(error) || isQueueRejection(error)) throw error;
        // A policy that fails grants nothing.
        this.#hub.onError(error);
        return noRights;
      });
      if (!rights.broadcast && !rights.presence) throw new JoinRefused(`Unauthorized: ${unreadable(topic)}`);
      // After the response to the join, the client receives every later commit.
      await this.#hub.feed.ready;
      if (this.#isClosed) return release();
      const channel = new Channel(this.#hub, this, {
        topic,
        joinRef: message.joinRef,
        config,
        holder,
        rights,
        onEnd: release,
      });
      try {
        await channel.read();
        const problem = await channel.followChanges();
        if (problem !== null && config.waitsForChanges)
          throw new JoinRefused(`RealtimeDisabledForConfiguration: ${problem}`);
        this.#checkChannelCount();
      } catch (error) {
        channel.end();
        throw error;
      }
      if (this.#isClosed) return channel.end();
      this.#channels.set(message.topic, channel);
      channel.open(message.ref);
    } catch (error) {
      if (this.#channels.has(message.topic)) throw error;
      release();
      const isExpected =
        error instanceof JoinRefused || error instanceof TokenRefused || isQueueRejection(error);
      if (!isExpected) this.#hub.onError(error);
      this.#reply(message, 'error', { reason: reasonOf(error) });
    }
  }

  /** Counts a join and the resources that its channel will hold.
   * @returns a function that releases them
   * @throws JoinRefused
   */
  #admitJoin(config: JoinConfig, bytes: number): () => void {
    const { shared } = this.#hub;
    const { calls, subscriptions } = costOfJoin(config);
    if (config.postgresChanges.length > maxSubscriptions)
      throw new JoinRefused(
        `ChannelRateLimitReached: Unable to subscribe to more than ${maxSubscriptions} kinds of changes at once`,
      );
    if (!this.#joins.take() || !shared.calls.take(this.networks, calls)) throw new JoinRefused(tooManyJoins);
    this.#checkChannelCount();
    const channel = shared.channels.take(this.networks, 1 + Math.floor(bytes / 1024));
    const changes = channel && shared.changes.take(this.networks, subscriptions);
    if (changes) {
      return () => {
        channel();
        changes();
      };
    }
    channel?.();
    throw new JoinRefused('ChannelRateLimitReached: Too many channels');
  }

  #checkChannelCount() {
    if (this.#channels.size >= this.#hub.limits.channelsPerConnection)
      throw new JoinRefused('ChannelRateLimitReached: Too many channels');
  }

  async #holderOf(token: string | null): Promise<Holder> {
    const ownToken = token === null || token.startsWith('sb_') ? this.#holder.token : token;
    return { claims: await claimsOf(this.#hub.authenticate, ownToken), token: ownToken };
  }

  #leave(message: Message, channel: Channel | undefined) {
    this.#reply(message, 'ok', {});
    // A late leave of an older membership must not end the newer one.
    const isMeant = message.joinRef === null || message.joinRef === channel?.joinRef;
    if (isMeant) channel?.close();
  }

  #receiveHeartbeat(message: Message | PushedBroadcast) {
    if ('event' in message && message.event === 'heartbeat') this.#reply(message, 'ok', {});
    else this.#replyUnmatched(message);
  }

  #tooMany(channel: Channel) {
    channel.shutDown('Too many messages per second');
  }

  #replyUnmatched(message: Message | PushedBroadcast) {
    this.#reply(message, 'error', { reason: 'unmatched topic' });
  }

  #reply(
    { joinRef, ref, topic }: Message | PushedBroadcast,
    status: 'ok' | 'error',
    response: Record<string, unknown>,
  ) {
    this.send(
      encodeText(this.version, { joinRef, ref, topic, event: 'phx_reply', payload: { status, response } }),
    );
  }

  #end() {
    this.#isClosed = true;
    this.#disconnection.abort();
    clearTimeout(this.#idle);
    for (const channel of this.#channels.values()) channel.end();
    this.#channels.clear();
  }
}

function reasonOf(error: unknown): string {
  if (error instanceof TokenRefused) return `${error.code}: ${error.message}`;
  if (error instanceof JoinRefused) return error.message;
  if (error instanceof QueueFull) return tooManyJoins;
  return 'UnknownErrorOnChannel: Unknown Error on Channel';
}
