// Fourth stage, the only one that touches the database: a plan is run in an open transaction.
import type { Session } from '../../database/database.ts';
import { type PlainResponse, webHeaders } from '../../http/plain-response.ts';
import type { ParsedRequest } from '../parse/parse.ts';
import type { CallPlan, DescriptionPlan, MutationPlan, ReadPlan } from '../plan/plan-types.ts';
import { checkAnswer, respond, respondDocument } from '../respond/respond.ts';
import { type DescribedSchema, writeDescription } from '../schema/sql-description.ts';
import { type Answer, writeEstimate, writeExplanation, writeRows } from '../sql/sql.ts';
import type { Statement } from '../sql/sql-writer.ts';
import { maxBufferedRows, streamRows } from './stream-rows.ts';

/** How a plan is run. */
export interface RunOptions {
  /** The query string, for the response's headers. */
  search: string;
  /** Whether the client requested a rollback; null without a preference. */
  isRolledBack: boolean | null;
  /** Inserts this request's values into the plan's statement. */
  fill: (statement: Statement) => Statement;
  /** Receives a streamed response; null when responses must be complete. */
  deliver: ((response: Response) => void) | null;
}

/** Whether one statement returns the whole answer. */
export function isOneStatement(plan: ReadPlan | MutationPlan | CallPlan): boolean {
  if (plan.media.explanation) return false;
  return plan.kind !== 'read' || plan.count === null || plan.count === 'exact';
}

/**
 * Whether the answer of a change is checked before its commit. Not that of a call that returns one value: the locks that it holds
 * would wait for this process. As in PostgREST, invalid `response.` settings of a function are reported after the commit.
 */
export function isCheckedFirst(plan: MutationPlan | CallPlan): boolean {
  return plan.kind === 'mutation' || plan.called.isSet || plan.maxAffected !== null || plan.isCounted;
}

/**
 * Creates the response to a plan that is one statement.
 * @param run runs the statement in its own transaction, and the check before or after its commit
 * @param isFirstPart whether the statement is limited to `firstRowsOf` the plan
 * @returns null when there are more rows
 * @throws DataError for an unacceptable answer; DatabaseError
 */
export async function runOneStatement(
  run: (statement: Statement, check: (result: { rows: Answer[] }) => void) => Promise<{ rows: Answer[] }>,
  parsed: ParsedRequest,
  plan: ReadPlan | MutationPlan | CallPlan,
  statement: Statement,
  {
    search,
    isRolledBack,
    isFirstPart,
  }: Pick<RunOptions, 'search' | 'isRolledBack'> & { isFirstPart: boolean },
): Promise<PlainResponse | null> {
  const check = (result: { rows: Answer[] }) => checkAnswer(plan, answerOf(result));
  const answer = answerOf(await run(statement, check));
  if (isFirstPart && answer.page_total > maxBufferedRows) return null;
  return respond(parsed, plan, answer, search, isRolledBack);
}

/**
 * Runs the statement of a plan, or explains it, and creates the response.
 * @param written as `writeStatement` wrote it; of no more than `firstRowsOf` the plan where the rest may be streamed
 * @throws DataError for an unacceptable answer; DatabaseError
 */
export async function runPlan(
  session: Session,
  parsed: ParsedRequest,
  plan: ReadPlan | MutationPlan | CallPlan,
  written: Statement,
  { search, isRolledBack, fill, deliver }: RunOptions,
): Promise<Response | PlainResponse> {
  const statement = fill(written);
  const { explanation } = plan.media;
  if (explanation) {
    const { sql, parameters } = writeExplanation(statement, explanation);
    const { rows } = await session.query<{ 'QUERY PLAN': unknown }>(sql, parameters);
    const lines = rows.map((row) => row['QUERY PLAN']);
    return respondDocument(
      parsed,
      plan,
      explanation.form === 'text' ? `${lines.join('\n')}\n` : JSON.stringify(lines[0]),
    );
  }
  const answer = answerOf(await session.query<Answer>(statement.sql, statement.parameters));
  if (plan.kind === 'read' && plan.count) await estimateTotal(session, plan, answer, fill);
  checkAnswer(plan, answer);
  if (deliver && plan.kind === 'read' && answer.page_total > maxBufferedRows) {
    const stream = await streamRows(session, fill(writeRows(plan)));
    const ofRows = { ...answer, ...stream.answer };
    checkAnswer(plan, ofRows);
    const { status, headers, body } = respond(parsed, plan, ofRows, search, isRolledBack);
    if (body === null) await stream.body.cancel();
    const response = new Response(body === null ? null : stream.body, {
      status,
      headers: webHeaders(headers),
    });
    deliver(response);
    await stream.ended;
    return response;
  }
  return respond(parsed, plan, answer, search, isRolledBack);
}

/**
 * Reads the data of a schema's description, as the role of the transaction.
 * @throws DatabaseError
 */
export async function runDescription(session: Session, plan: DescriptionPlan): Promise<DescribedSchema> {
  const { sql, parameters } = writeDescription(plan);
  const { rows } = await session.query<DescribedSchema>(sql, parameters);
  return rows[0] ?? { comment: null, relations: [], functions: [] };
}

function answerOf({ rows: [answer] }: { rows: Answer[] }): Answer {
  if (!answer) throw new Error('the statement returned no row');
  return answer;
}

async function estimateTotal(
  session: Session,
  plan: ReadPlan,
  answer: Answer,
  fill: RunOptions['fill'],
): Promise<void> {
  const isEstimated =
    plan.count === 'estimated' &&
    (plan.exactCountUpTo === Number.POSITIVE_INFINITY || (answer.total ?? 0) > plan.exactCountUpTo);
  if (plan.count !== 'planned' && !isEstimated) return;
  const { sql, parameters } = fill(writeEstimate(plan));
  const { rows } = await session.query<{ 'QUERY PLAN': Array<{ Plan: { 'Plan Rows': number } }> }>(
    sql,
    parameters,
  );
  const estimate = rows[0]?.['QUERY PLAN'][0]?.Plan['Plan Rows'] ?? 0;
  answer.total = Math.max(answer.total ?? 0, estimate);
}
