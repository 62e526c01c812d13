// Notices when the embedded database breaks. PGlite passes over whatever stops PostgreSQL's program in the middle (its stack
// is used up, memory that is not there, a panic because the disk is full) and answers as if the statement had found nothing;
// what it had begun would be committed with what comes next.
import type { PGlite } from '@electric-sql/pglite';
import { DatabaseError } from './database.ts';

// How PostgreSQL leaves a statement that failed: PGlite tidies up after that, and after nothing else.
const ordinaryFailure = 100;

/** The part of PGlite that runs PostgreSQL's program; not of its public interface, `pglite-break.test.ts` holds it. */
interface Program {
  _PostgresMainLoopOnce(): void;
  stackRestore(place: number): void;
}

/**
 * From now on a database that breaks answers nothing more.
 * @param onBreak called once, at the moment of the failure, before any caller is answered
 * @returns how many messages it has answered so far
 */
export function noticeBreak(lite: PGlite, onBreak: (error: DatabaseError) => void): () => number {
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
  // The first that PGlite does after anything was thrown, and the last it does with what is broken.
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
