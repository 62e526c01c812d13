// Starts and stops listening on a port.
import type { Server } from 'node:http';
import { Server as NetServer, type Socket } from 'node:net';

/** A port, IP address or socket file that cannot be used. The message has the remedy. */
export class UnusableAddress extends Error {
  override readonly name = 'UnusableAddress';
}

/** `settings`: the names of the settings for port and host, for error messages. */
type Address = { port: number; host: string; settings?: { port: string; host: string } } | { path: string };

function describeProblem({ code, message }: NodeJS.ErrnoException, at: Address): string {
  if ('path' in at) return `The socket file ${at.path} cannot be used (${message}).`;
  const settings = at.settings ?? { port: 'PORT', host: 'HOST' };
  if (code === 'EADDRINUSE') return `Port ${at.port} is taken; set ${settings.port} to a free one.`;
  if (code === 'EACCES') {
    return `This user may not listen on port ${at.port}; set ${settings.port} to one above 1023.`;
  }
  return `No server can listen on ${at.host} (${message}); set ${settings.host} to an IP address of this machine.`;
}

/**
 * Maximum connections in the accept queue, up to the system's own limit. Above it, new ones are dropped, and their clients try again
 * after one, three and seven seconds: with Node's default of 511, a client that opens a thousand delays all others.
 */
const backlog = 4096;

/** Open connections of each server. */
const connectionsOf = new WeakMap<Server, Set<Socket>>();

/** Resolves when the server listens, on a port or on a Unix domain socket. */
export function listen(server: Server, at: Address): Promise<void> {
  const connections = new Set<Socket>();
  connectionsOf.set(server, connections);
  server.on('connection', (socket) => {
    connections.add(socket);
    socket.once('close', () => connections.delete(socket));
  });
  return new Promise((done, fail) => {
    server.once('error', (error: NodeJS.ErrnoException) =>
      fail(new UnusableAddress(describeProblem(error, at))),
    );
    server.listen({ ...at, backlog }, () => done());
  });
}

/** How often connections that have become idle are closed, in milliseconds. */
const idleCheckMs = 50;
/** Milliseconds after which connections are closed whatever they wait for: enough to send 200 kB to a slow phone. */
const drainMs = 5_000;

/**
 * Closes a server started by `listen`. Requests that have arrived are answered, and answers sent to their end.
 * @returns resolves when all connections are closed
 */
export function closeServer(server: Server): Promise<void> {
  const connections = connectionsOf.get(server) ?? new Set();
  server.prependListener('request', (_, response) => {
    response.shouldKeepAlive = false;
  });
  const closeIdle = () => {
    // Node counts a connection as idle when its answer was written, even if most of it was not sent.
    for (const { writableLength } of connections) if (writableLength > 0) return;
    server.closeIdleConnections();
  };
  return new Promise((done) => {
    // An immediate runs after the requests that have arrived were read.
    const idleCheck = setInterval(() => setImmediate(closeIdle), idleCheckMs);
    setTimeout(() => server.closeAllConnections(), drainMs).unref();
    // The HTTP server's own method closes idle connections immediately.
    NetServer.prototype.close.call(server, () => {
      clearInterval(idleCheck);
      done();
    });
  });
}
