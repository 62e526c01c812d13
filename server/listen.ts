// Begins and ends listening, with words for what can go wrong.
import type { Server } from 'node:http';
import type { Config } from './config.ts';
import { AddressTaken } from './start-failure.ts';

/** Resolves when the server listens. */
export function listen(server: Server, { port, host }: Pick<Config, 'port' | 'host'>): Promise<void> {
  return new Promise((done, fail) => {
    server.once('error', (error: NodeJS.ErrnoException) =>
      fail(
        error.code === 'EADDRINUSE'
          ? new AddressTaken(`Port ${port} is taken; set PORT to a free one.`)
          : error,
      ),
    );
    server.listen(port, host, () => done());
  });
}

/** Resolves when nobody is connected any more. */
export function closeServer(server: Server): Promise<void> {
  return new Promise((done) => {
    server.close(() => done());
    server.closeIdleConnections();
    // Whoever is still connected after a moment is let go.
    setTimeout(() => server.closeAllConnections(), 2000).unref();
  });
}
