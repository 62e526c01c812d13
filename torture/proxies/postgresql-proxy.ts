// Proxy between one shop process and PostgreSQL that reports every commit and can break the connection there.
import { connect, createServer, type Server, type Socket } from 'node:net';
import { listenOnFreePort } from './listen-on-free-port.ts';

/** Progress of a commit. Handlers must be synchronous. */
export type CommitMoment = 'commit before' | 'commit answered' | 'commit forwarded';

export interface PostgresqlProxy {
  /** postgres:// URL of the proxy. */
  url: string;
  /** Breaks every connection. */
  cut(): void;
  close(): Promise<void>;
}

/**
 * Starts the proxy.
 * @param databaseUrl its target
 * @param onCommit called at each step of a commit of a writing transaction; `true` breaks the connection there
 */
export async function openPostgresqlProxy(
  databaseUrl: string,
  onCommit: (moment: CommitMoment) => boolean = () => false,
): Promise<PostgresqlProxy> {
  const target = new URL(databaseUrl);
  const sockets = new Set<Socket>();
  const server: Server = createServer((shop) => {
    const database = connect(Number(target.port), target.hostname);
    let isWriting = false;
    let awaitsCommit = false;
    const end = () => {
      shop.destroy();
      database.destroy();
    };
    for (const socket of [shop, database]) {
      socket.setNoDelay(true);
      sockets.add(socket);
      socket.on('error', end);
      socket.on('close', () => {
        sockets.delete(socket);
        end();
      });
    }
    shop.on('data', (chunk: Buffer) => {
      const begun = /begin(?: isolation level [a-z ]+?)?( read only)?\0/.exec(chunk.toString('latin1'));
      if (begun) isWriting = begun[1] === undefined;
      if (isWriting && chunk.includes('commit\0')) {
        if (onCommit('commit before')) return end();
        awaitsCommit = true;
      }
      database.write(chunk);
    });
    database.on('data', (chunk: Buffer) => {
      const isAnswer = awaitsCommit && chunk.includes('COMMIT\0');
      if (isAnswer) {
        awaitsCommit = false;
        if (onCommit('commit answered')) return end();
      }
      shop.write(chunk);
      if (isAnswer) onCommit('commit forwarded');
    });
  });
  const { port, close } = await listenOnFreePort(server);
  const proxyUrl = new URL(databaseUrl);
  proxyUrl.port = String(port);
  proxyUrl.hostname = '127.0.0.1';
  const cut = () => {
    for (const socket of sockets) socket.destroy();
  };
  return {
    url: proxyUrl.href,
    cut,
    async close() {
      cut();
      await close();
    },
  };
}
