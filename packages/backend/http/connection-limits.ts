// Limits of connections: connections per network, pending requests per connection, unread bytes of responses,
// and bytes of incomplete requests.
import { IncomingMessage, type RequestListener, type Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { Backlog, type Reader } from '../limits/backlog.ts';
import { networksOf } from '../limits/network.ts';
import { NetworkQuota, NetworkRate } from '../limits/network-limits.ts';
import { clientAddressOf } from './client-address.ts';
import { maxConnections } from './file-limit.ts';
import { rawHeader } from './raw-header.ts';

export interface ConnectionLimits {
  /**
   * Maximum connections of all clients, WebSockets included. Above it, a new one replaces the one that has been waiting longest for its
   * client, of the network with the most of them.
   */
  connections: number;
  /**
   * Maximum connections per IPv4 address or IPv6 /64; wider networks have a multiple of it. Above it, a new one replaces the one that
   * has been waiting longest for its client. Behind a proxy they are not counted.
   */
  connectionsPerNetwork: number;
  /** New connections per second and network, with a burst of ten seconds: each may bring a packet full of requests to read. */
  newConnectionsPerNetwork: number;
  /** Requests of one connection that wait for their response at a time. Browsers and proxies send one after another. */
  pipelinedRequests: number;
  /**
   * Maximum bytes of incomplete request bodies, over all connections. Above it, the largest are disconnected every second; above one
   * and a half times as much, longer bodies are not read in the meantime.
   */
  receivedBytes: number;
  /** The same per network, counted as connections are. */
  receivedBytesPerNetwork: number;
  /** Milliseconds without progress after which a client that does not read is disconnected. */
  stalledMilliseconds: number;
}

export const defaultConnectionLimits: ConnectionLimits = {
  connections: maxConnections(),
  connectionsPerNetwork: 1_000,
  newConnectionsPerNetwork: 50,
  pipelinedRequests: 8,
  receivedBytes: 24_000_000,
  receivedBytesPerNetwork: 8_000_000,
  stalledMilliseconds: 30_000,
};

/** Approximate memory of a waiting response besides its bytes. */
const bytesOfResponse = 4 * 1024;
/** Approximate memory of a response that is read from a file or another service: a chunk in each of its streams. */
const bytesOfStream = 192 * 1024;
/** Approximate memory of a chunk of a body besides its bytes. */
const bytesOfChunk = 256;
/** Maximum bytes of a body in memory: services write longer ones to disk. */
const maxHeldBytes = 1024 * 1024;
/** Bytes of a body that are received even above the limit: most forms and calls are shorter. */
const freeBytes = 64 * 1024;
/** Chunks of any size that are allowed at the beginning of a body, for clients that write line by line. */
const freeChunks = 64;
/** Bytes of a chunk on average. Network packets carry at least several hundred, and each chunk passes through several streams. */
const minChunkBytes = 64;
const checkMilliseconds = 1_000;
const burstSeconds = 10;

/**
 * Milliseconds that an idle connection of a proxy stays open. Proxies close idle connections themselves (nginx after 60 s, Caddy after
 * 120 s). If the shop did so first, a request that a proxy sends at that moment would fail, and proxies repeat only reads.
 */
const proxyKeepAliveMilliseconds = 130_000;

/** Index of the chunk handler in Node's parser: `HTTPParser.kOnBody`, which Node does not export. */
const onBody = 3;

/**
 * Parses the rest of a packet without a buffer and a call for each chunk: for 64 KiB in chunks of one byte, those take 10 ms. Other
 * connections reuse the parser, but not before this connection is closed.
 */
function skipBody(socket: Socket): void {
  const { parser } = socket as Socket & { parser?: Record<number, unknown> };
  const handler = parser?.[onBody];
  if (!parser || typeof handler !== 'function') return;
  parser[onBody] = null;
  setImmediate(() => {
    parser[onBody] = handler;
  });
}

/**
 * A request that counts its body, and stops parsing when its connection is closed. Node continues to parse all that it has read
 * when a connection is destroyed, and 64 KiB hold 2,500 requests or 10,000 chunks: 40 ms of work. Its parser stops at an upgrade.
 */
export class BoundedRequest extends IncomingMessage {
  declare private isUpgradeRequested: boolean | null;
  #bytes = 0;
  #chunks = 0;
  /** The memory for unfinished bodies. Null before the server has the request. */
  memory: BodyMemory | null = null;
  /** Bytes counted for this request in `memory`. */
  countedBytes = 0;

  get upgrade(): boolean {
    return (
      (this.isUpgradeRequested === true && this.#asksForServedProtocol) || this.socket?.destroyed === true
    );
  }
  set upgrade(isRequested: boolean | null) {
    this.isUpgradeRequested = isRequested;
  }

  /** An upgrade to a protocol that is not served, such as h2c, is ignored (RFC 9110, 7.8). */
  get #asksForServedProtocol(): boolean {
    const protocols = (this.headers.upgrade ?? '').toLowerCase().split(',');
    return this.method === 'CONNECT' || protocols.some((protocol) => protocol.trim() === 'websocket');
  }

  /** Memory that the body takes until it is complete. */
  get heldBytes(): number {
    return this.complete || this.#bytes > maxHeldBytes ? 0 : this.#bytes + bytesOfChunk * this.#chunks;
  }

  override push(chunk: Buffer | null, encoding?: BufferEncoding): boolean {
    if (chunk === null) {
      this.memory?.count(this);
      return super.push(chunk, encoding);
    }
    if (this.socket.destroyed) return false;
    this.#bytes += chunk.length;
    this.#chunks += 1;
    if (this.#chunks <= freeChunks + this.#bytes / minChunkBytes) {
      this.memory?.count(this);
      // Node stops reading from the socket after false, until the body is read from again.
      return super.push(chunk, encoding) && !this.memory?.isFullFor(this);
    }
    this.socket.destroy();
    skipBody(this.socket);
    return false;
  }

  override _read(size: number): void {
    if (this.memory?.isFullFor(this)) this.memory.wait(this);
    else super._read(size);
  }

  /** Resumes reading from the socket after waiting for memory. */
  resumeReading(): void {
    if (!this.destroyed) super._read(0);
  }
}

/** A response that reports when its client does not read it as fast as it is written. */
export class BoundedResponse<
  Request extends IncomingMessage = IncomingMessage,
> extends ServerResponse<Request> {
  /** Called after each write that leaves bytes unread. */
  onUnread: (() => void) | null = null;

  override write(chunk: unknown, encoding?: unknown, callback?: unknown): boolean {
    const isRead = super.write(chunk, encoding as BufferEncoding, callback as () => void);
    this.#report();
    return isRead;
  }

  override end(chunk?: unknown, encoding?: unknown, callback?: unknown): this {
    super.end(chunk, encoding as BufferEncoding, callback as () => void);
    this.#report();
    return this;
  }

  #report(): void {
    if (this.socket && this.socket.writableLength > 0) this.onUnread?.();
  }
}

/** Memory for unfinished bodies. When it is full, longer bodies wait until others are complete or disconnected. */
class BodyMemory {
  readonly #maxBytes: number;
  readonly #waiting = new Set<BoundedRequest>();
  #total = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** Counts the current memory of a body. */
  count(request: BoundedRequest): void {
    const { heldBytes } = request;
    this.#total += heldBytes - request.countedBytes;
    request.countedBytes = heldBytes;
    this.resumeWaiting();
  }

  /** Releases the memory of a request that receives no more data. */
  forget(request: BoundedRequest): void {
    this.#total -= request.countedBytes;
    request.countedBytes = 0;
    request.memory = null;
    this.#waiting.delete(request);
    this.resumeWaiting();
  }

  isFullFor({ heldBytes }: BoundedRequest): boolean {
    return this.#total > this.#maxBytes && heldBytes > freeBytes;
  }

  wait(request: BoundedRequest): void {
    this.#waiting.add(request);
  }

  /** Resumes bodies while there is memory for a packet each, the longest waiting first. */
  resumeWaiting(): void {
    let freeTotal = this.#maxBytes - this.#total;
    for (const request of this.#waiting) {
      if (freeTotal <= 0) return;
      freeTotal -= freeBytes;
      this.#waiting.delete(request);
      request.resumeReading();
    }
  }
}

/** A connection and its pending responses. */
class Connection {
  readonly networks: readonly string[];
  readonly responses = new Set<ServerResponse>();
  /** Starts the requests that arrived while another one was handled, in their order. */
  readonly waiting: (() => void)[] = [];
  /** The latest request. */
  request: IncomingMessage | null = null;
  isUpgraded = false;
  /** When it was accepted, or its last response was complete, in milliseconds of a monotonic clock. */
  since = 0;
  /** The body being received; counts its bytes in memory. */
  readonly sender: Reader;
  /** The response being read; counts its bytes in memory. */
  readonly reader: Reader;
  readonly giveBack: () => void;
  readonly #socket: Socket;

  /** @param trustedProxies number of proxies in front. With any, the connection carries requests of many clients */
  constructor(socket: Socket, networks: readonly string[], giveBack: () => void, trustedProxies: number) {
    this.#socket = socket;
    this.networks = networks;
    this.giveBack = giveBack;
    const bytesHeld = () => (this.request instanceof BoundedRequest ? this.request.heldBytes : 0);
    this.sender = {
      networks,
      get queuedBytes() {
        return bytesHeld();
      },
      terminate: () => this.terminate(),
    };
    const bytesUnread = () => this.#unreadBytes();
    const networksOfReader = () =>
      trustedProxies > 0 && this.request
        ? networksOf(clientAddressOf(this.request, trustedProxies))
        : networks;
    this.reader = {
      get networks() {
        return networksOfReader();
      },
      get queuedBytes() {
        return bytesUnread();
      },
      terminate: () => this.terminate(),
    };
  }

  #unreadBytes(): number {
    if (this.#socket.writableLength === 0) return 0;
    let bytes = 0;
    for (const response of this.responses) {
      bytes += response.writableLength + (response.writableEnded ? bytesOfResponse : bytesOfStream);
    }
    return bytes;
  }

  /** Whether the connection waits for the client to send or to read, not for the server. WebSockets have their own limits. */
  get waitsForClient(): boolean {
    if (this.isUpgraded) return false;
    return this.responses.size === 0 || !this.request?.complete || this.#socket.writableLength > 0;
  }

  terminate(): void {
    this.giveBack();
    this.#socket.destroy();
  }
}

/** The connections per network, those with the oldest completed response first; without WebSockets. */
class Networks {
  /** By the widest network of their clients; '' for clients whose networks are not counted. */
  readonly #connections = new Map<string, Set<Connection>>();

  /** Adds a connection, or puts it last. */
  add(connection: Connection): void {
    const widest = connection.networks.at(-1) ?? '';
    const sockets = this.#connections.get(widest) ?? new Set();
    sockets.delete(connection);
    connection.since = performance.now();
    this.#connections.set(widest, sockets.add(connection));
  }

  delete(connection: Connection): void {
    const widest = connection.networks.at(-1) ?? '';
    const sockets = this.#connections.get(widest);
    sockets?.delete(connection);
    if (sockets?.size === 0) this.#connections.delete(widest);
  }

  /** Closes the connection of a network that has been waiting longest for its client, where there is one. */
  makeRoom(network: string, widest: string): void {
    const connection = this.#longestWaiting(widest, network);
    if (connection) this.#close(connection);
  }

  /**
   * Closes the connection that has been waiting longest for its client, of the networks with the most connections that have one.
   * @returns false when every connection waits for the server
   */
  makeRoomForAll(): boolean {
    let longest: Connection | null = null;
    let most = 0;
    for (const [widest, { size }] of this.#connections) {
      if (size < most) continue;
      const connection = this.#longestWaiting(widest);
      if (!connection || (size === most && longest && connection.since >= longest.since)) continue;
      longest = connection;
      most = size;
    }
    if (longest) this.#close(longest);
    return longest !== null;
  }

  #longestWaiting(widest: string, network?: string): Connection | null {
    for (const connection of this.#connections.get(widest) ?? []) {
      const isMeant = network === undefined || connection.networks.includes(network);
      if (isMeant && connection.waitsForClient) return connection;
    }
    return null;
  }

  #close(connection: Connection): void {
    this.delete(connection);
    connection.terminate();
  }
}

/**
 * Limits a server's connections. Call it after adding listeners; the server must be created with `BoundedRequest` and `BoundedResponse`.
 * @param trustedProxies number of proxies in front. With any, all connections are the proxy's, which has its own limits
 * @param backlog counts unread responses, together with other unread bytes of the process. Default: its own
 */
export function limitConnections(
  server: Server,
  trustedProxies: number,
  limits: ConnectionLimits = defaultConnectionLimits,
  backlog: Backlog = new Backlog(),
): void {
  if (trustedProxies > 0) server.keepAliveTimeout = proxyKeepAliveMilliseconds;
  const quota = new NetworkQuota({ perNetwork: limits.connectionsPerNetwork });
  const rate = new NetworkRate({ perNetwork: limits.newConnectionsPerNetwork }, burstSeconds);
  const received = new Backlog({
    queuedBytes: limits.receivedBytes,
    queuedBytesPerNetwork: limits.receivedBytesPerNetwork,
  });
  // Disconnecting the largest bodies frees memory for those that wait.
  const bodyMemory = new BodyMemory(1.5 * limits.receivedBytes);
  const connections = new Map<Socket, Connection>();
  const byNetwork = new Networks();
  const takePlace = (networks: readonly string[]): (() => void) | null => {
    if (!rate.take(networks)) return null;
    const giveBack = quota.take(networks);
    if (giveBack) return giveBack;
    // Otherwise one client could occupy all connections of an IP address that it shares with many, without sending anything.
    const full = quota.fullOf(networks);
    if (full !== null) byNetwork.makeRoom(full, networks.at(-1) ?? full);
    return quota.take(networks);
  };

  server.on('connection', (socket: Socket) => {
    const networks = trustedProxies > 0 ? [] : networksOfClient(socket.remoteAddress ?? '');
    const giveBack = takePlace(networks);
    const isFull = connections.size >= limits.connections;
    if (!giveBack || (isFull && !byNetwork.makeRoomForAll())) {
      giveBack?.();
      socket.destroy();
      return;
    }
    const connection = new Connection(socket, networks, giveBack, trustedProxies);
    connections.set(socket, connection);
    byNetwork.add(connection);
    socket.once('close', () => {
      connections.delete(socket);
      byNetwork.delete(connection);
      backlog.forget(connection.reader);
      received.forget(connection.sender);
      // A request whose response was complete before its body is not closed with its connection.
      if (connection.request instanceof BoundedRequest) bodyMemory.forget(connection.request);
      giveBack();
    });
  });
  if (server.listenerCount('upgrade') > 0) {
    server.prependListener('upgrade', (_request, socket) => {
      const connection = connections.get(socket as Socket);
      if (!connection) return;
      connection.isUpgraded = true;
      byNetwork.delete(connection);
    });
  }

  const listeners = server.listeners('request') as RequestListener[];
  server.removeAllListeners('request');
  server.on('request', (request: IncomingMessage, response: ServerResponse) => {
    const { socket } = request;
    const connection = connections.get(socket);
    if (!connection || socket.destroyed) return;
    const { responses, waiting } = connection;
    if (responses.size >= limits.pipelinedRequests) {
      socket.destroy();
      return;
    }
    const handle = () => {
      for (const listener of listeners) listener(request, response);
    };
    // The chunks of the same packet are counted first: a body of tiny chunks is disconnected before any work on the request.
    const handleAfterPacket = () =>
      setImmediate(() => {
        if (!socket.destroyed) handle();
      });
    if (connection.request instanceof BoundedRequest) bodyMemory.forget(connection.request);
    connection.request = request;
    if (request instanceof BoundedRequest) request.memory = bodyMemory;
    responses.add(response);
    if (response instanceof BoundedResponse) {
      response.onUnread = () => backlog.note(connection.reader, connection.reader.queuedBytes);
    }
    response.once('close', () => {
      responses.delete(response);
      if (connections.has(socket) && !connection.isUpgraded) byNetwork.add(connection);
      if (!socket.destroyed) waiting.shift()?.();
    });
    // Responses are sent in the order of the requests: work on the next one would only wait, or be lost when the client disconnects.
    const begin = rawHeader(request, 'transfer-encoding') === undefined ? handle : handleAfterPacket;
    if (responses.size === 1) begin();
    else waiting.push(begin);
  });

  // Node disconnects a client that sends nothing; without this listener it would also disconnect those that wait for us.
  server.timeout = limits.stalledMilliseconds;
  server.on('timeout', (socket: Socket) => {
    const connection = connections.get(socket);
    if (!connection || connection.isUpgraded || connection.waitsForClient) socket.destroy();
  });

  const check = setInterval(() => {
    for (const connection of connections.values()) {
      if (connection.sender.queuedBytes > 0) received.note(connection.sender, 0);
    }
    backlog.enforce();
    received.enforce();
    bodyMemory.resumeWaiting();
  }, checkMilliseconds);
  check.unref();
  server.once('close', () => clearInterval(check));
}

/** Connections from this machine are not counted: they are health checks, or a proxy that is not configured. */
function networksOfClient(address: string): string[] {
  const isLoopback = address === '::1' || /^(::ffff:)?127\./.test(address);
  return isLoopback ? [] : networksOf(address);
}
