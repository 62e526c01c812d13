// The realtime service: WebSockets that speak the Phoenix protocol, and broadcasts over HTTP.
import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { type ServerOptions, WebSocketServer } from 'ws';
import type { Authenticate } from '../authenticate.ts';
import type { Service } from '../caller.ts';
import type { Database } from '../database/database.ts';
import { refuseUpgrade } from '../http/refuse-upgrade.ts';
import { Backlog } from '../limits/backlog.ts';
import type { FairQueue } from '../limits/fair-queue.ts';
import { createFairShare } from '../limits/fair-share.ts';
import { networksOf } from '../limits/network.ts';
import { PostgresChanges } from './changes/postgres-changes.ts';
import { startBroadcastFeed } from './channels/broadcast-feed.ts';
import { Channels, type Hub } from './channels/channels.ts';
import { FanOut } from './channels/fan-out.ts';
import { answerBroadcastRequest } from './channels/http-broadcast.ts';
import { Presences } from './channels/presence.ts';
import { PresenceFeed } from './channels/presence-feed.ts';
import type { PublicSenders } from './connections/authorization.ts';
import { Connection, type Handshake } from './connections/connection.ts';
import { ConnectionSlots } from './connections/connection-slots.ts';
import { FrameGate } from './connections/frame-gate.ts';
import { versionOf } from './connections/protocol.ts';
import { claimsOf, TokenRefused } from './connections/tokens.ts';
import { defaultLimits, FrameAllowance, type Limits, shareLimits } from './limits.ts';

const goingAway = 1001;
const maxHeaderBytes = 8 * 1024;
// Clients send a message in one frame, which arrives in packets.
const maxFragments = 64;
const smallestChunk = 512;
/** A close frame is queued behind unread data, and needs the client's answer. */
const closeTimeoutMs = 5_000;
const shutdownTimeoutMs = 1_000;

/** Dependencies of the realtime service. */
export interface RealtimeOptions {
  database: Database;
  /** Resolves an API key or a JWT to verified claims; rejects with InvalidToken. */
  authenticate: Authenticate;
  /** Receives errors whose details no client sees. */
  onError?: (error: unknown) => void;
  /** Allowed senders to public topics. `realtime.send` in the database always reaches everyone. Default: `everyone`. */
  publicSenders?: PublicSenders;
  /** Limits that differ from the defaults. */
  limits?: Partial<Limits>;
  /** Fair queue of the queries of joins. Default: its own. */
  joinQueue?: FairQueue;
  /** Counts unread messages, together with other unread bytes of the process. Default: its own. */
  backlog?: Backlog;
}

export interface RealtimeService extends Service {
  /**
   * Takes over an upgrade request of `node:http` for `/realtime/v1/websocket`: becomes a WebSocket, or is answered with an
   * HTTP error and `{ error }`, or destroyed when its network sends too many.
   */
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void;
  /** Open WebSockets. */
  readonly sockets: number;
  /** Closes every socket with a close frame and stops listening to the database. */
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
 * Creates the service and starts listening to the database. Its `fetch` answers `/realtime/v1/api/broadcast…`.
 */
export function createRealtimeService(options: RealtimeOptions): RealtimeService {
  const limits = { ...defaultLimits, ...options.limits };
  const onError = options.onError ?? (() => {});
  const backlog = options.backlog ?? new Backlog();
  const fanOut = new FanOut({ drained: () => backlog.drained(), onError });
  const channels = new Channels(fanOut);
  const hub: Hub = {
    database: options.database,
    authenticate: options.authenticate,
    publicSenders: options.publicSenders ?? 'everyone',
    limits,
    shared: shareLimits(limits),
    queue: options.joinQueue ?? createFairShare(options.database.kind).joins,
    unfinished: new Set(),
    backlog,
    onError,
    channels,
    presences: new Presences(),
    presenceFeed: new PresenceFeed({
      database: options.database,
      leaseMs: limits.presenceLeaseMs,
      onChange: (audience, diff) => channels.deliverPresence(audience, diff),
      onError,
    }),
    feed: startBroadcastFeed(options.database, (broadcast) => channels.deliver(broadcast), onError),
    changes: new PostgresChanges(options.database, fanOut, onError),
  };
  // The library's types do not have `closeTimeout` yet.
  const serverOptions: ServerOptions & { closeTimeout: number } = {
    noServer: true,
    maxPayload: limits.frameBytes,
    maxFragments: maxFragments,
    maxBufferedChunks: maxFragments + Math.ceil(limits.frameBytes / smallestChunk),
    perMessageDeflate: false,
    clientTracking: true,
    closeTimeout: closeTimeoutMs,
  };
  const server = new WebSocketServer(serverOptions);
  const slots = new ConnectionSlots(limits);
  let isClosed = false;

  async function acceptHandshake(
    request: IncomingMessage,
    socket: Duplex,
    networks: readonly string[],
  ): Promise<Handshake> {
    const [path = ''] = (request.url ?? '').split('?', 1);
    if (!/\/websocket\/?$/.test(path)) throw new HandshakeRefused(404, 'Not found');
    const query = handshakeQuery(request);
    const version = versionOf(query.get('vsn'));
    if (!version) throw new HandshakeRefused(400, 'Unsupported protocol version');
    const headers = textHeaders(request);
    const key = query.get('apikey') || headers['x-api-key'];
    if (!key) throw new HandshakeRefused(401, 'API key is missing');
    // Each connection retains its headers, for policies.
    const bytes = request.rawHeaders.reduce((sum, text) => sum + text.length, request.url?.length ?? 0);
    if (bytes > maxHeaderBytes) throw new HandshakeRefused(431, 'Request header fields too large');
    const release = isClosed ? null : slots.take(networks, () => socket.destroy());
    if (!release) throw new HandshakeRefused(429, 'Too many connected users');
    socket.once('close', release);
    const claims = await claimsOf(hub.authenticate, key);
    const isSecretKey = claims.role === 'service_role';
    return { version, holder: { claims, token: key }, headers, networks: isSecretKey ? [] : networks };
  }

  return {
    policy: { badToken: 'refused' },
    upgrade(request, socket, head) {
      // A client disconnect must not end the process.
      socket.on('error', () => socket.destroy());
      const address = request.headers['x-forwarded-for']?.toString();
      const networks = address ? networksOf(address) : [];
      // Without an answer, which browsers do not show, and which would take most of the time.
      if (!hub.shared.handshakes.take(networks)) {
        socket.destroy();
        return;
      }
      acceptHandshake(request, socket, networks)
        .then((handshake) => {
          if (socket.destroyed) return;
          const allowance = new FrameAllowance(limits, hub.shared, handshake.networks);
          const gate = new FrameGate(socket, head, {
            maxFrames: limits.framesPerSecond,
            admit: (frames, bytes) => allowance.take(frames, bytes),
          });
          server.handleUpgrade(request, gate, Buffer.alloc(0), (webSocket) => {
            if (isClosed) webSocket.close(goingAway);
            else new Connection(hub, webSocket, gate, handshake);
          });
        })
        .catch((error) => refuse(socket, error, onError));
    },
    get sockets() {
      return server.clients.size;
    },
    fetch: (request, caller) => answerBroadcastRequest(hub, request, caller),
    async close() {
      isClosed = true;
      for (const client of server.clients) client.close(goingAway, 'going away');
      let timer: NodeJS.Timeout | undefined;
      const late = new Promise<void>((done) => {
        timer = setTimeout(() => {
          for (const client of server.clients) client.terminate();
          done();
        }, shutdownTimeoutMs);
      });
      await new Promise<void>((done) => server.close(() => done()));
      await Promise.all(
        [...server.clients].map((client) => new Promise((done) => client.once('close', done))),
      );
      // Joins wait for a database that does not answer until it does: they are left.
      await Promise.race([Promise.all(hub.unfinished), late]);
      clearTimeout(timer);
      await Promise.all([hub.feed.close(), hub.changes.close(), hub.presenceFeed.close()]);
    },
  };
}

function refuse(socket: Duplex, error: unknown, onError: (error: unknown) => void) {
  const { status, message } = answerTo(error, onError);
  refuseUpgrade(socket, status, JSON.stringify({ error: message }));
}

function answerTo(error: unknown, onError: (error: unknown) => void): { status: number; message: string } {
  if (error instanceof HandshakeRefused) return error;
  if (error instanceof TokenRefused)
    return { status: 401, message: error.isExpired ? 'Token has expired' : error.message };
  onError(error);
  return { status: 500, message: 'Error connecting to Realtime' };
}

/** The query parameters of a handshake: `apikey`, `vsn`, `log_level`. */
export function handshakeQuery({ url = '' }: Pick<IncomingMessage, 'url'>): URLSearchParams {
  const at = url.indexOf('?');
  return new URLSearchParams(at < 0 ? '' : url.slice(at));
}

function textHeaders(request: IncomingMessage): Record<string, string> {
  const headers: Record<string, string> = {};
  for (const [name, value] of Object.entries(request.headers)) {
    if (value !== undefined) headers[name] = Array.isArray(value) ? value.join(', ') : value;
  }
  return headers;
}
