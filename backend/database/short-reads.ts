// Sends short reads that begin in the same turn of the event loop over one connection, in one packet: for the process, writing to a
// server and waking it up costs more than the rest of a short read.
import type { Socket } from 'node:net';
import type pg from 'pg';
import { asDatabaseError, isUnavailable } from './database.ts';
import type { Read } from './postgresql-read.ts';

/** Reads of one packet: the server runs them one after another, so that each waits for those before it. */
const maxTogether = 4;

/** Sends a read. @param isShort whether other reads may wait for it */
export type SendRead = (read: Read, isShort: boolean) => void;

/**
 * Creates the sender of a pool.
 * @param sharesConnections whether short reads may share a connection. Not with a pooler, which may lose count of pipelined transactions
 */
export function createReadSender(pool: pg.Pool, sharesConnections: boolean): SendRead {
  let collected: Read[] = [];
  const sendCollected = () => {
    if (collected.length > 0) send(collected);
    collected = [];
  };
  const send = (reads: readonly Read[]) =>
    pool.connect((failure, client, release) => {
      if (failure || !client) {
        for (const read of reads) read.callback(asDatabaseError(failure), null);
        return;
      }
      let unanswered = reads.length;
      let isBroken = false;
      const answered = (error: unknown) => {
        isBroken ||= isUnavailable(error);
        unanswered -= 1;
        if (unanswered === 0) release(isBroken);
      };
      const { stream } = (client as unknown as { connection: { stream: Socket } }).connection;
      if (reads.length > 1) stream.cork();
      for (const read of reads) {
        const { callback } = read;
        read.callback = (error, result) => {
          answered(error);
          callback(error, result);
        };
        try {
          client.query(read);
        } catch (error) {
          // A value that cannot be written; nothing was sent.
          answered(null);
          callback(error as Error, null);
        }
      }
      if (reads.length > 1) stream.uncork();
    });
  return (read, isShort) => {
    if (!isShort || !sharesConnections) {
      send([read]);
      return;
    }
    collected.push(read);
    if (collected.length === maxTogether) sendCollected();
    else if (collected.length === 1) setImmediate(sendCollected);
  };
}
