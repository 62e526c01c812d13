// What a call of the table service brought: its data, or its problem as an error that can be thrown.

interface Answer<Data> {
  data: Data;
  error: { message: string } | null;
}

/** What the table service refused, with its status and its word for programs. */
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

/** A write that came too late: somebody else had changed what it would have changed. */
export class ChangedMeanwhile extends Error {
  constructor(
    message = 'Somebody else changed this in the meantime. You see the new state now; nothing of yours was saved.',
  ) {
    super(message);
    this.name = 'ChangedMeanwhile';
  }
}

/**
 * The data of an answer.
 * @throws TableProblem with the service's own message when it refused
 */
export function dataOf<Data>(answer: Answer<Data> & { status?: number }): NonNullable<Data> {
  if (answer.error) throw new TableProblem(answer.error, answer.status ?? 0);
  return answer.data as NonNullable<Data>;
}

/**
 * The row of an answer to `maybeSingle()`; null when there is none, which is an answer like any other.
 * @throws TableProblem with the service's own message when it refused
 */
export function rowOrNull<Row>(answer: Answer<Row | null> & { status?: number }): Row | null {
  return answer.error === null && answer.data === null ? null : (dataOf(answer) as Row);
}

/**
 * The one row that a conditional update gave back: `.update(…).eq('id', id).eq(<what was seen>).select()`.
 * @throws ChangedMeanwhile when there is none, since the row no longer is what the member saw
 */
export function changedRow<Row>(answer: Answer<Row[] | null> & { status?: number }, message?: string): Row {
  const [row] = dataOf(answer);
  if (row === undefined) throw new ChangedMeanwhile(message);
  return row;
}

/** What a service said of a failure, for people; '' when only the browser said anything, or something on the way, in HTML. */
export function wordsOf(error: Error): string {
  const words = error.message.trim();
  return error instanceof TableProblem && (error.status === 0 || words.startsWith('<')) ? '' : words;
}
