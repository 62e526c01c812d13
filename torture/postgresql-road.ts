// The road between one shop process and PostgreSQL: it tells of every commit, and can break there.
import { connect, createServer, type Server, type Socket } from 'node:net';
import { listenAnywhere } from './listen-anywhere.ts';

/** What is about to happen to a commit; the road waits for nothing, so what it does must be done at once. */
export type CommitMoment = 'commit before' | 'commit answered' | 'commit told';

export interface PostgresqlRoad {
  /** postgres:// URL that leads over this road. */
  url: string;
  /** Breaks every connection on it. */
  cut(): void;
  close(): Promise<void>;
}

/**
 * Opens a road.
 * @param databaseUrl where it leads
 * @param onCommit told of each moment of a commit of a transaction that may write; `true` drops what was on its way
 */
export async function openPostgresqlRoad(
  databaseUrl: string,
  onCommit: (moment: CommitMoment) => boolean = () => false,
): Promise<PostgresqlRoad> {
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
      if (isAnswer) onCommit('commit told');
    });
  });
  const { port, close } = await listenAnywhere(server);
  const road = new URL(databaseUrl);
  road.port = String(port);
  road.hostname = '127.0.0.1';
  const cut = () => {
    for (const socket of sockets) socket.destroy();
  };
  return {
    url: road.href,
    cut,
    async close() {
      cut();
      await close();
    },
  };
}
