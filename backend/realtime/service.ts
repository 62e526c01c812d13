// The realtime service: WebSockets that speak the Phoenix protocol, and broadcasts over HTTP.
import { type IncomingMessage, STATUS_CODES } from 'node:http';
import type { Duplex } from 'node:stream';
import { WebSocketServer } from 'ws';
import type { Authenticate } from '../authenticate.ts';
import type { Service } from '../caller.ts';
import type { Database } from '../database/database.ts';
import { networkOf } from '../network.ts';
import { startBroadcastFeed } from './broadcast-feed.ts';
import { Channels, type Hub } from './channels.ts';
import { Connection, type Handshake } from './connection.ts';
import { answerBroadcastRequest } from './http-broadcast.ts';
import { defaultLimits, type Limits } from './limits.ts';
import { PostgresChanges } from './postgres-changes.ts';
import { Presences } from './presence.ts';
import { versionOf } from './protocol.ts';
import { claimsOf, TokenRefused } from './tokens.ts';

const goingAway = 1001;
const patienceMilliseconds = 1_000;

/** What the realtime service needs. */
export interface RealtimeOptions {
  database: Database;
  /** Resolves an API key or a JWT to verified claims; rejects with InvalidToken. */
  authenticate: Authenticate;
  /** Told about faults that no client is told the details of. */
  onFault?: (error: unknown) => void;
  limits?: Partial<Limits>;
}

export interface RealtimeService extends Service {
  /**
   * Takes over an upgrade request of `node:http` for `/realtime/v1/websocket`: becomes a WebSocket, or is answered with an
   * HTTP error and `{ error }`.
   */
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void;
  /** Says good-bye to every socket and stops listening to the database. */
  close(): Promise<void>;
}

/** A handshake that is answered with an HTTP error. */
class HandshakeRefused extends Error {
  readonly status: number;
  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

/**
 * Makes the service and begins to listen to the database. Its `fetch` answers `/realtime/v1/api/broadcast…`.
 */
export function createRealtimeService(options: RealtimeOptions): RealtimeService {
  const limits = { ...defaultLimits, ...options.limits };
  const onFault = options.onFault ?? (() => {});
  const channels = new Channels();
  const hub: Hub = {
    database: options.database,
    authenticate: options.authenticate,
    limits,
    onFault,
    channels,
    presences: new Presences(),
    feed: startBroadcastFeed(options.database, (broadcast) => channels.deliver(broadcast), onFault),
    changes: new PostgresChanges(options.database, onFault),
  };
  const server = new WebSocketServer({
    noServer: true,
    maxPayload: limits.frameBytes,
    perMessageDeflate: false,
    clientTracking: true,
  });
  let greeting = 0;
  let isClosed = false;
  const perAddress = new Map<string, number>();

  /** Counts a socket until it is closed; false when its address has too many. */
  function admit(request: IncomingMessage, socket: Duplex): boolean {
    const address = request.headers['x-forwarded-for'];
    if (typeof address !== 'string' || address === '') return true;
    const network = networkOf(address);
    const count = (perAddress.get(network) ?? 0) + 1;
    if (count > limits.connectionsPerAddress) return false;
    perAddress.set(network, count);
    socket.once('close', () => {
      const left = (perAddress.get(network) ?? 1) - 1;
      if (left > 0) perAddress.set(network, left);
      else perAddress.delete(network);
    });
    return true;
  }

  async function shakeHands(request: IncomingMessage, socket: Duplex): Promise<Handshake> {
    const url = new URL(request.url ?? '/', 'http://realtime');
    if (!/\/websocket\/?$/.test(url.pathname)) throw new HandshakeRefused(404, 'Not found');
    const version = versionOf(url.searchParams.get('vsn'));
    if (!version) throw new HandshakeRefused(400, 'Unsupported protocol version');
    const headers = textHeaders(request);
    const key = url.searchParams.get('apikey') || headers['x-api-key'];
    if (!key) throw new HandshakeRefused(401, 'API key is missing');
    if (isClosed || server.clients.size + greeting > limits.connections)
      throw new HandshakeRefused(429, 'Too many connected users');
    if (!admit(request, socket)) throw new HandshakeRefused(429, 'Too many connected users');
    const claims = await claimsOf(hub.authenticate, key);
    return { version, holder: { claims, token: key }, headers };
  }

  return {
    upgrade(request, socket, head) {
      // Until the WebSocket takes over, a client that goes away must not bring the process down.
      const onSocketError = () => socket.destroy();
      socket.on('error', onSocketError);
      greeting += 1;
      shakeHands(request, socket)
        .finally(() => {
          greeting -= 1;
        })
        .then((handshake) => {
          if (socket.destroyed) return;
          socket.off('error', onSocketError);
          server.handleUpgrade(request, socket, head, (webSocket) => {
            if (isClosed) webSocket.close(goingAway);
            else new Connection(hub, webSocket, handshake);
          });
        })
        .catch((error) => refuse(socket, error, onFault));
    },
    fetch: (request, caller) => answerBroadcastRequest(hub, request, caller),
    async close() {
      isClosed = true;
      for (const client of server.clients) client.close(goingAway, 'going away');
      const impatience = setTimeout(() => {
        for (const client of server.clients) client.terminate();
      }, patienceMilliseconds);
      await new Promise<void>((done) => server.close(() => done()));
      await Promise.all(
        [...server.clients].map((client) => new Promise((done) => client.once('close', done))),
      );
      clearTimeout(impatience);
      await Promise.all([hub.feed.close(), hub.changes.close()]);
    },
  };
}

function refuse(socket: Duplex, error: unknown, onFault: (error: unknown) => void) {
  const { status, message } = answerTo(error, onFault);
  const body = JSON.stringify({ error: message });
  socket.end(
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\ncontent-type: application/json\r\n` +
      `content-length: ${Buffer.byteLength(body)}\r\nconnection: close\r\n\r\n${body}`,
  );
}

function answerTo(error: unknown, onFault: (error: unknown) => void): { status: number; message: string } {
  if (error instanceof HandshakeRefused) return error;
  if (error instanceof TokenRefused)
    return { status: 401, message: error.isExpired ? 'Token has expired' : error.message };
  onFault(error);
  return { status: 500, message: 'Error connecting to Realtime' };
}

function textHeaders(request: IncomingMessage): Record<string, string> {
  const headers: Record<string, string> = {};
  for (const [name, value] of Object.entries(request.headers)) {
    if (value !== undefined) headers[name] = Array.isArray(value) ? value.join(', ') : value;
  }
  return headers;
}
