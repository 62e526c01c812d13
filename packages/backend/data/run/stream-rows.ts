// Streams long responses: a cursor holds the rows in the database, and this process only the current batch.
import type { Session } from '../../database/database.ts';
import type { ReadPlan } from '../plan/plan-types.ts';
import { type RowsAnswer, writeRowSettings } from '../sql/sql.ts';
import type { Statement } from '../sql/sql-writer.ts';

/** Maximum rows of a response that one statement builds whole. */
export const maxBufferedRows = 2000;
const rowsAtATime = 100;
/** Maximum milliseconds of a client per batch, because it occupies a database connection. */
const maxPauseMs = 30_000;

/** A stream of rows. */
export interface RowStream {
  /** Number of rows, and response settings made by functions while they were read. */
  answer: RowsAnswer;
  body: ReadableStream<Uint8Array>;
  /** Resolves when the last row is sent or the client has left; rejects when reading fails. */
  ended: Promise<void>;
}

/** Whether a plan's rows may be sent one after another, and may be too many for one piece. */
export function isStreamable({ hasBody, media, node, maxAnswerBytes }: ReadPlan): boolean {
  return (
    hasBody &&
    maxAnswerBytes === Number.POSITIVE_INFINITY &&
    media.format === 'json' &&
    !media.explanation &&
    (node.limit === null || node.limit > maxBufferedRows)
  );
}

/** The plan limited to the rows of a whole response, plus one row that shows whether there are more. */
export function firstRowsOf(plan: ReadPlan): ReadPlan {
  return { ...plan, node: { ...plan.node, limit: maxBufferedRows + 1 } };
}

/**
 * Reads all rows inside the database, so that errors occur before anything is sent, and then returns them
 * as the client reads. The transaction must last until the end of the stream.
 * @param session an open transaction of a server
 * @param statement as `writeRows` wrote it
 * @throws DatabaseError
 */
export async function streamRows(session: Session, { sql, parameters }: Statement): Promise<RowStream> {
  await session.query(`declare answered scroll cursor for ${sql}`, parameters);
  const { rowCount } = await session.query('move forward all in answered');
  const { rows } = await session.query<RowsAnswer>(writeRowSettings(rowCount));
  const [answer] = rows;
  if (!answer) throw new Error('the statement returned no row');
  await session.query('move absolute 0 in answered');
  return { answer, ...bodyOf(session) };
}

function bodyOf(session: Session): Omit<RowStream, 'answer'> {
  let end = () => {};
  let fail: (error: unknown) => void = () => {};
  const ended = new Promise<void>((resolve, reject) => {
    end = resolve;
    fail = reject;
  });
  let pause: NodeJS.Timeout | undefined;
  let isFirst = true;
  const encoder = new TextEncoder();
  const body = new ReadableStream<Uint8Array>(
    {
      start(controller) {
        pause = setTimeout(() => {
          const error = new Error('the client reads its rows too slowly');
          controller.error(error);
          fail(error);
        }, maxPauseMs).unref();
      },
      async pull(controller) {
        try {
          const { rows } = await session.query<{ row: string }>(`fetch forward ${rowsAtATime} from answered`);
          pause?.refresh();
          const isLast = rows.length < rowsAtATime;
          const text = rows.map(({ row }) => row).join(', \n ');
          const before = isFirst ? '[' : text === '' ? '' : ', \n ';
          isFirst = false;
          controller.enqueue(encoder.encode(`${before}${text}${isLast ? ']' : ''}`));
          if (!isLast) return;
          controller.close();
          clearTimeout(pause);
          end();
        } catch (error) {
          clearTimeout(pause);
          fail(error);
          throw error;
        }
      },
      cancel() {
        clearTimeout(pause);
        end();
      },
    },
    { highWaterMark: 1 },
  );
  return { body, ended };
}
