// Starts and stops listening on a port.
import type { Server } from 'node:http';

/** A port or IP address that is unavailable. The message has the remedy. */
export class AddressTaken extends Error {
  override readonly name = 'AddressTaken';
}

/**
 * Maximum connections in the accept queue, up to the system's own limit. Above it, new ones are dropped, and their clients try again
 * after one, three and seven seconds: with Node's default of 511, a client that opens a thousand delays all others.
 */
const backlog = 4096;

/** Resolves when the server listens. */
export function listen(server: Server, { port, host }: { port: number; host: string }): Promise<void> {
  return new Promise((done, fail) => {
    server.once('error', (error: NodeJS.ErrnoException) =>
      fail(
        error.code === 'EADDRINUSE'
          ? new AddressTaken(`Port ${port} is taken; set PORT to a free one.`)
          : error,
      ),
    );
    server.listen({ port, host, backlog }, () => done());
  });
}

/** Resolves when all connections are closed. */
export function closeServer(server: Server): Promise<void> {
  return new Promise((done) => {
    server.close(() => done());
    server.closeIdleConnections();
    // Remaining connections are closed after two seconds.
    setTimeout(() => server.closeAllConnections(), 2000).unref();
  });
}
