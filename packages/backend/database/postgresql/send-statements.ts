// Sends single statements over the connections of a pool. Short reads that begin in the same turn of the event loop share a connection
// and a packet: writing to a server and waking it up costs this process more than the rest of a short read.
import type { Socket } from 'node:net';
import type pg from 'pg';
import { asDatabaseError, isUnavailable } from '../database.ts';
import type { SingleStatement } from './postgresql-statement.ts';

/** Reads of one packet: the server runs them one after another, so that each waits for those before it. */
const maxTogether = 4;

/** Sends a statement. @param isShort whether it is a read for which others may wait */
export type SendStatement = (statement: SingleStatement, isShort: boolean) => void;

/**
 * Creates the sender of a pool.
 * @param sharesConnections whether short reads may share a connection. Not with a pooler, which may lose count of pipelined transactions
 */
export function createSender(pool: pg.Pool, sharesConnections: boolean): SendStatement {
  let collected: SingleStatement[] = [];
  const sendCollected = () => {
    const statements = collected;
    collected = [];
    if (statements.length > 0) send(statements);
  };
  const send = (statements: readonly SingleStatement[]) =>
    pool.connect((failure, client, release) => {
      if (failure || !client) {
        for (const { callback } of statements) callback(asDatabaseError(failure), null);
        return;
      }
      let unanswered = statements.length;
      let isBroken = false;
      const answered = (error: unknown) => {
        isBroken ||= isUnavailable(error);
        unanswered -= 1;
        if (unanswered === 0) release(isBroken);
      };
      const { stream } = (client as unknown as { connection: { stream: Socket } }).connection;
      if (statements.length > 1) stream.cork();
      for (const statement of statements) {
        const { callback } = statement;
        statement.callback = (error, result) => {
          answered(error);
          callback(error, result);
        };
        try {
          client.query(statement);
        } catch (error) {
          // A value that cannot be written; nothing was sent.
          answered(null);
          callback(error, null);
        }
      }
      if (statements.length > 1) stream.uncork();
    });
  return (statement, isShort) => {
    if (!isShort || !sharesConnections) {
      send([statement]);
      return;
    }
    collected.push(statement);
    if (collected.length === maxTogether) sendCollected();
    else if (collected.length === 1) setImmediate(sendCollected);
  };
}
