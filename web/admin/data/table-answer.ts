// Results of the table service: data, or an error to throw.
import { lostCode, savedCode } from '../../lib/lost-answers.ts';
import { ShownError } from '../../lib/shown-error.ts';

interface Answer<Data> {
  data: Data;
  error: { message: string } | null;
}

/** An error response of the table service, with its status and code. */
export class TableProblem extends Error {
  readonly status: number;
  readonly code: string;
  readonly details: string;

  constructor(error: { message: string; code?: string; details?: string | null }, status: number) {
    super(error.message);
    this.name = 'TableProblem';
    this.status = status;
    this.code = error.code ?? '';
    this.details = error.details ?? '';
  }
}

/** A write that was saved, although its answer was lost. */
export class SavedWithoutAnswer extends Error {
  override name = 'SavedWithoutAnswer';
  /** What the procedure returned; null if the database kept no answer. */
  readonly answer: unknown;
  constructor(answer: unknown) {
    super('Saved, without an answer');
    this.answer = answer;
  }
}

/** A conflicting write: another member has changed the row. */
export class ConflictError extends ShownError {
  override name = 'ConflictError';
  constructor(
    message = 'Someone else changed this in the meantime. You see the new state now; nothing of yours was saved.',
  ) {
    super(message);
  }
}

/**
 * The data of a response.
 * @throws TableProblem with the service's own message
 * @throws SavedWithoutAnswer after a write whose answer was lost
 */
export function dataOf<Data>(answer: Answer<Data> & { status?: number }): NonNullable<Data> {
  if (answer.error) {
    const problem = new TableProblem(answer.error, answer.status ?? 0);
    throw problem.code === savedCode ? new SavedWithoutAnswer(JSON.parse(problem.details)) : problem;
  }
  return answer.data as NonNullable<Data>;
}

/**
 * The row of a response to `maybeSingle()`; null if there is none.
 * @throws TableProblem with the service's own message
 */
export function rowOrNull<Row>(answer: Answer<Row | null> & { status?: number }): Row | null {
  return answer.error === null && answer.data === null ? null : (dataOf(answer) as Row);
}

/**
 * The one row that a conditional update returned: `.update(…).eq('id', id).eq(<seen values>).select()`.
 * @throws ConflictError without a row, because it has changed since the member saw it
 */
export function changedRow<Row>(answer: Answer<Row[] | null> & { status?: number }, message?: string): Row {
  const [row] = dataOf(answer);
  if (row === undefined) throw new ConflictError(message);
  return row;
}

/**
 * The message of an error if it is for users: thrown by the shop's own code, or by `private.refuse` in its
 * procedures.
 * @returns '' for messages of the database, a library, the browser or a gateway
 */
export function messageForUser(error: Error): string {
  const isOurs =
    error instanceof ShownError || (error instanceof TableProblem && /^PT\d{3}$/.test(error.code));
  return isOurs ? error.message.trim() : '';
}

/** Whether another row has the same unique value. */
export const isDuplicate = (error: Error): boolean => error instanceof TableProblem && error.code === '23505';

/** Whether a call had no response, so that it may have been executed. */
export const isUnanswered = (error: Error): boolean =>
  error instanceof TableProblem && [0, 502, 503, 504].includes(error.status);

/** The id of a write of which nothing is known yet; null for any other error. */
export const lostWriteOf = (error: Error): string | null =>
  error instanceof TableProblem && error.code === lostCode ? error.details : null;
