// Bounds of connections: how many a network holds, how many requests wait on one, and how many bytes of responses stay unread.
import { IncomingMessage, type RequestListener, type Server, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { Backlog, type Reader } from '../backend/backlog.ts';
import { networksOf } from '../backend/network.ts';
import { NetworkQuota, NetworkRate } from '../backend/network-limits.ts';

export interface ConnectionLimits {
  /** Connections per IPv4 address or IPv6 /64; wider networks have a multiple of it. Behind a proxy they are not counted. */
  connectionsPerNetwork: number;
  /** New connections per second and network, with a burst of ten seconds: each may bring a packet full of requests to read. */
  newConnectionsPerNetwork: number;
  /** Requests of one connection that wait for their response at a time. Browsers and proxies send one after another. */
  pipelinedRequests: number;
  /** Bytes of responses that may wait for their readers, over all connections. */
  queuedBytes: number;
  /** The same per network, counted as connections are. */
  queuedBytesPerNetwork: number;
  /** Milliseconds without progress after which a client that does not read is disconnected. */
  stalledMilliseconds: number;
}

export const defaultConnectionLimits: ConnectionLimits = {
  connectionsPerNetwork: 1_000,
  newConnectionsPerNetwork: 50,
  pipelinedRequests: 8,
  queuedBytes: 128_000_000,
  queuedBytesPerNetwork: 32_000_000,
  stalledMilliseconds: 30_000,
};

/** Memory that a waiting response takes besides its bytes, about. */
const bytesOfResponse = 4 * 1024;
const checkMilliseconds = 1_000;
const burstSeconds = 10;

/**
 * A request after which a closed connection is parsed no further; the `IncomingMessage` of a server with bounds. Node goes on with all
 * that it has read when a connection is destroyed, and 64 KiB hold 2,500 requests: 40 ms of work. Its parser stops at an upgrade.
 */
export class BoundedRequest extends IncomingMessage {
  declare private asked: boolean | null;

  get upgrade(): boolean {
    return this.asked === true || this.socket?.destroyed === true;
  }
  set upgrade(asked: boolean | null) {
    this.asked = asked;
  }
}

/** A connection and the responses that it waits for. */
class Connection implements Reader {
  readonly networks: readonly string[];
  readonly responses = new Set<ServerResponse>();
  /** Begins the requests that came while another one was handled, in their order. */
  readonly waiting: (() => void)[] = [];
  readonly #socket: Socket;

  constructor(socket: Socket, networks: readonly string[]) {
    this.#socket = socket;
    this.networks = networks;
  }

  get queuedBytes(): number {
    if (this.#socket.writableLength === 0) return 0;
    let bytes = 0;
    for (const response of this.responses) bytes += response.writableLength + bytesOfResponse;
    return bytes;
  }

  terminate(): void {
    this.#socket.destroy();
  }
}

/**
 * Puts bounds on a server's connections. Comes after its listeners are added; the server is made with `BoundedRequest`.
 * @param trustedProxies how many proxies stand in front: with one, all connections are its own, and it has limits of its own
 */
export function limitConnections(
  server: Server,
  trustedProxies: number,
  limits: ConnectionLimits = defaultConnectionLimits,
): void {
  const quota = new NetworkQuota({ perNetwork: limits.connectionsPerNetwork });
  const rate = new NetworkRate({ perNetwork: limits.newConnectionsPerNetwork }, burstSeconds);
  const backlog = new Backlog(limits);
  const connections = new Map<Socket, Connection>();

  server.on('connection', (socket: Socket) => {
    const networks = trustedProxies > 0 ? [] : networksOfClient(socket.remoteAddress ?? '');
    const giveBack = rate.take(networks) ? quota.take(networks) : null;
    if (!giveBack) {
      socket.destroy();
      return;
    }
    const connection = new Connection(socket, networks);
    connections.set(socket, connection);
    socket.once('close', () => {
      connections.delete(socket);
      backlog.forget(connection);
      giveBack();
    });
  });

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
    responses.add(response);
    response.once('close', () => {
      responses.delete(response);
      if (!socket.destroyed) waiting.shift()?.();
    });
    // Responses leave in the order of the requests: work on the next one would only wait, or be lost when the client goes away.
    if (responses.size === 1) handle();
    else waiting.push(handle);
  });

  // Node disconnects a client that sends nothing; without this listener it would also disconnect those that wait for us.
  server.timeout = limits.stalledMilliseconds;
  server.on('timeout', (socket: Socket) => {
    const isOurTurn = connections.get(socket)?.responses.size && socket.writableLength === 0;
    if (!isOurTurn) socket.destroy();
  });

  const check = setInterval(() => {
    for (const connection of connections.values()) {
      if (connection.queuedBytes > 0) backlog.note(connection, 0);
    }
    backlog.enforce();
  }, checkMilliseconds);
  check.unref();
  server.once('close', () => clearInterval(check));
}

/** What comes from this machine is not counted: a proxy that nobody told us of, and health checks. */
function networksOfClient(address: string): string[] {
  const isLoopback = address === '::1' || /^(::ffff:)?127\./.test(address);
  return isLoopback ? [] : networksOf(address);
}
