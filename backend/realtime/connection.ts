// One socket: reads its frames, keeps their order per topic, and holds its channels.
import type { RawData, WebSocket } from 'ws';
import { isKeepableText } from '../keepable.ts';
import { noRights } from './authorization.ts';
import { Channel, type ChannelLink, type Holder, rightsToJoin, unreadable } from './channel.ts';
import type { Hub } from './channels.ts';
import { readJoinConfig } from './join-config.ts';
import { RateWindow } from './limits.ts';
import { isOutage } from './outage.ts';
import {
  decodeBinary,
  decodeText,
  encodeText,
  MalformedFrame,
  type Message,
  type PushedBroadcast,
  type Version,
} from './protocol.ts';
import { claimsOf, TokenRefused } from './tokens.ts';

const topicPrefix = 'realtime:';
const mostUnfinished = 64;
const closeCodes = { normal: 1000, protocolError: 1002, policy: 1008, tryAgainLater: 1013 };
const goodByeMilliseconds = 5_000;
const lookAgainMilliseconds = 5;
const fewestLooks = 50;
const socketOpen = 1;

/** What the handshake established. */
export interface Handshake {
  version: Version;
  /** Who the API key stands for. */
  holder: Holder;
  headers: Readonly<Record<string, string>>;
}

/** A join that is answered with an error. */
class JoinRefused extends Error {}

export class Connection implements ChannelLink {
  readonly version: Version;
  readonly headers: Readonly<Record<string, string>>;
  readonly #hub: Hub;
  readonly #socket: WebSocket;
  readonly #holder: Holder;
  readonly #channels = new Map<string, Channel>();
  /** The end of what is being worked on, by topic: messages of one topic keep their order. */
  readonly #tails = new Map<string, Promise<void>>();
  readonly #joins: RateWindow;
  readonly #messages: RateWindow;
  readonly #frames: RateWindow;
  readonly #idle: NodeJS.Timeout;
  #unfinished = 0;
  #presenceBytes = 0;
  #room: Promise<void> | null = null;
  #isClosed = false;

  constructor(hub: Hub, socket: WebSocket, handshake: Handshake) {
    this.#hub = hub;
    this.#socket = socket;
    this.#holder = handshake.holder;
    this.version = handshake.version;
    this.headers = handshake.headers;
    this.#joins = new RateWindow(hub.limits.joinsPerSecond, 1000);
    this.#messages = new RateWindow(hub.limits.messagesPerSecond, 1000);
    this.#frames = new RateWindow(hub.limits.framesPerSecond, 1000);
    this.#idle = setTimeout(() => this.#socket.close(closeCodes.normal, 'idle'), hub.limits.idleMilliseconds);
    this.#idle.unref();
    socket.on('message', (data, isBinary) => this.#receive(data, isBinary));
    for (const event of ['ping', 'pong'] as const) socket.on(event, () => this.#idle.refresh());
    socket.on('close', () => this.#end());
    // A broken frame or connection: `close` follows, and nobody else needs to know.
    socket.on('error', () => {});
  }

  send(frame: string | Buffer): void {
    if (this.#socket.readyState !== socketOpen) return;
    if (this.#socket.bufferedAmount > 2 * this.#hub.limits.bufferedBytes) this.#giveUp();
    else this.#socket.send(frame);
  }

  takePresenceRoom(bytes: number): boolean {
    if (this.#presenceBytes + bytes > this.#hub.limits.presenceBytes) return false;
    this.#presenceBytes += bytes;
    return true;
  }

  get room(): Promise<void> | null {
    if (!this.#isFull(1)) return null;
    this.#room ??= this.#makeRoom().finally(() => {
      this.#room = null;
    });
    return this.#room;
  }

  #isFull(share: number): boolean {
    const { readyState, bufferedAmount } = this.#socket;
    return readyState === socketOpen && bufferedAmount > share * this.#hub.limits.bufferedBytes;
  }

  async #makeRoom(): Promise<void> {
    const deadline = performance.now() + this.#hub.limits.patienceMilliseconds;
    // It is looked at several times even if this process was too busy to send anything for so long.
    for (let look = 0; this.#isFull(0.5); look += 1) {
      if (look > fewestLooks && performance.now() > deadline) return this.#giveUp();
      await new Promise((done) => setTimeout(done, lookAgainMilliseconds));
    }
  }

  /** Lets go of a client that reads too slowly: what waits for it would otherwise fill the memory of everybody. */
  #giveUp() {
    this.#end();
    this.#socket.close(closeCodes.tryAgainLater, 'reads too slowly');
    // The good-bye stands behind all that waits.
    setTimeout(() => this.#socket.terminate(), goodByeMilliseconds).unref();
  }

  onClosed(channel: Channel): void {
    if (this.#channels.get(channel.topic) === channel) this.#channels.delete(channel.topic);
  }

  #receive(data: RawData, isBinary: boolean) {
    this.#idle.refresh();
    if (!this.#frames.take()) {
      this.#socket.close(closeCodes.policy, 'too many frames per second');
      return;
    }
    const frame = data as Buffer;
    let message: Message | PushedBroadcast;
    try {
      message = isBinary ? decodeBinary(frame) : decodeText(this.version, frame.toString());
      if (!isKeepableText(message.topic)) throw new MalformedFrame('no topic has such characters');
    } catch (error) {
      if (!(error instanceof MalformedFrame)) this.#hub.onFault(error);
      this.#socket.close(closeCodes.protocolError, 'malformed frame');
      return;
    }
    if (message.topic === 'phoenix') return this.#receiveHeartbeat(message);
    this.#inOrder(message);
  }

  #inOrder(message: Message | PushedBroadcast) {
    const { topic } = message;
    this.#unfinished += 1;
    if (this.#unfinished === mostUnfinished) this.#socket.pause();
    const before = this.#tails.get(topic) ?? Promise.resolve();
    const tail = before
      .then(() => this.#handle(message))
      .catch((error) => {
        this.#hub.onFault(error);
        this.#channels.get(topic)?.fail();
      })
      .finally(() => {
        this.#unfinished -= 1;
        if (this.#socket.isPaused && this.#unfinished < mostUnfinished / 2) this.#socket.resume();
        if (this.#tails.get(topic) === tail) this.#tails.delete(topic);
      });
    this.#tails.set(topic, tail);
  }

  async #handle(message: Message | PushedBroadcast): Promise<void> {
    if (this.#isClosed) return;
    const channel = this.#channels.get(message.topic);
    if ('userEvent' in message) {
      if (!channel) return this.#replyUnmatched(message);
      if (!this.#messages.take()) return this.#tooMany(channel);
      return channel.receiveBroadcast(message.ref, message.userEvent, message.data, true);
    }
    if (message.event === 'phx_join') return this.#join(message);
    if (message.event === 'phx_leave') return this.#leave(message, channel);
    if (!channel) return this.#replyUnmatched(message);
    if (!this.#messages.take()) return this.#tooMany(channel);
    return channel.receive(message);
  }

  async #join(message: Message): Promise<void> {
    if (!message.topic.startsWith(topicPrefix)) return this.#replyUnmatched(message);
    this.#channels.get(message.topic)?.close();
    const config = readJoinConfig(message.payload);
    const topic = message.topic.slice(topicPrefix.length);
    try {
      this.#checkJoin(topic);
      if (config.replay === 'invalid')
        throw new JoinRefused('UnableToReplayMessages: Replay params are not valid');
      if (config.replay && !config.isPrivate)
        throw new JoinRefused('UnableToReplayMessages: Replay is not allowed for public channels');
      const holder = await this.#holderOf(config.accessToken);
      const rights = await rightsToJoin(this.#hub, this, topic, config.isPrivate, holder).catch((error) => {
        if (isOutage(error)) throw error;
        // A policy that fails lets nobody in.
        this.#hub.onFault(error);
        return noRights;
      });
      if (!rights.broadcast && !rights.presence) throw new JoinRefused(`Unauthorized: ${unreadable(topic)}`);
      // Whoever is told "joined" misses nothing that is committed afterwards.
      await this.#hub.feed.ready;
      if (this.#isClosed) return;
      const channel = new Channel(this.#hub, this, {
        topic,
        joinRef: message.joinRef,
        config,
        holder,
        rights,
      });
      try {
        await channel.readStored();
        this.#checkRoom();
      } catch (error) {
        channel.end();
        throw error;
      }
      if (this.#isClosed) return channel.end();
      this.#channels.set(message.topic, channel);
      channel.open(message.ref);
      await channel.followChanges();
    } catch (error) {
      if (this.#channels.has(message.topic)) throw error;
      const isExpected = error instanceof JoinRefused || error instanceof TokenRefused;
      if (!isExpected) this.#hub.onFault(error);
      this.#reply(message, 'error', { reason: reasonOf(error) });
    }
  }

  #checkJoin(topic: string) {
    if (topic === '') throw new JoinRefused('TopicNameRequired: You must provide a topic name');
    if (!this.#joins.take()) throw new JoinRefused('ClientJoinRateLimitReached: Too many joins per second');
    this.#checkRoom();
  }

  #checkRoom() {
    if (this.#channels.size >= this.#hub.limits.channelsPerConnection)
      throw new JoinRefused('ChannelRateLimitReached: Too many channels');
  }

  async #holderOf(token: string | null): Promise<Holder> {
    const own = token === null || token.startsWith('sb_') ? this.#holder.token : token;
    return { claims: await claimsOf(this.#hub.authenticate, own), token: own };
  }

  #leave(message: Message, channel: Channel | undefined) {
    this.#reply(message, 'ok', {});
    // A late good-bye to an older membership must not end the newer one.
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
    clearTimeout(this.#idle);
    for (const channel of this.#channels.values()) channel.end();
    this.#channels.clear();
  }
}

function reasonOf(error: unknown): string {
  if (error instanceof TokenRefused) return `${error.code}: ${error.message}`;
  if (error instanceof JoinRefused) return error.message;
  return 'UnknownErrorOnChannel: Unknown Error on Channel';
}
