// Detects when the embedded database breaks. PGlite ignores anything that stops PostgreSQL's program in the middle (a stack
// overflow, missing memory, a panic because the disk is full) and answers as if the statement had returned no rows;
// the unfinished work would be committed with the next statement.
import type { PGlite } from '@electric-sql/pglite';
import { DatabaseError } from '../database.ts';

// PostgreSQL's normal exit from a failed statement, the only one after which PGlite cleans up.
const ordinaryFailure = 100;

/** The part of PGlite that runs PostgreSQL's program. Not public; `pglite-break.test.ts` fails if it changes. */
interface Program {
  _PostgresMainLoopOnce(): void;
  stackRestore(place: number): void;
}

/**
 * Makes a database reject every call after it has broken.
 * @param onBreak called once, at the moment of the failure, before any caller is answered
 * @returns how many messages it has answered so far
 */
export function detectBreak(lite: PGlite, onBreak: (error: DatabaseError) => void): () => number {
  const { mod: program } = lite as unknown as { mod: Program };
  const { _PostgresMainLoopOnce: runOnce, stackRestore } = program;
  let broken: DatabaseError | null = null;
  program._PostgresMainLoopOnce = () => {
    try {
      runOnce();
    } catch (error) {
      if ((error as { status?: unknown }).status !== ordinaryFailure) {
        broken = new DatabaseError(`The embedded database broke (${error})`, { code: '08006', cause: error });
        onBreak(broken);
      }
      throw error;
    }
  };
  // PGlite's first call after anything was thrown, and the last one in a broken database.
  program.stackRestore = (place) => {
    if (broken) throw broken;
    stackRestore(place);
  };
  const exchange = lite.execProtocolRawSync.bind(lite);
  let answered = 0;
  lite.execProtocolRawSync = (message) => {
    if (broken) throw broken;
    try {
      return exchange(message);
    } catch (error) {
      throw broken ?? error;
    } finally {
      answered += 1;
    }
  };
  return () => answered;
}
