// Listens on a free port of this machine.
import type { AddressInfo, Server } from 'node:net';

/** Starts a server on a free port. */
export async function listenOnFreePort(server: Server): Promise<{ port: number; close(): Promise<void> }> {
  await new Promise<void>((done, fail) => {
    server.once('error', fail);
    server.listen(0, '127.0.0.1', done);
  });
  return {
    port: (server.address() as AddressInfo).port,
    close: () => new Promise((done) => server.close(() => done())),
  };
}
