// Pulls M-PESA's statement, which finds payments whose callback and confirmation were both lost.

import type { MobileMoneyContext } from '../context.ts';
import { pullStatement, type Statement, type StatementLine } from '../daraja/statement.ts';

const PULL_INTERVAL_MINUTES = 30;
const BATCH_SIZE = 200;

/**
 * Pulls the due period of the statement, if any, and settles the lines that no earlier statement listed. A pull is complete only
 * once every line is settled, or checked by staff; otherwise its period is pulled again.
 * @returns how many payments it listed and how many were new; null if none was due
 * @throws DatabaseUnavailable
 */
export async function pullDueStatement(
  context: MobileMoneyContext,
): Promise<{ payments: number; newPayments: number } | null> {
  const pull = await context.till.leasePull(PULL_INTERVAL_MINUTES);
  if (!pull) return null;
  if (pull.missedSince) {
    context.log({
      level: 'error',
      event: 'the statement was not pulled for more than 48 hours',
      detail: `unknown period: ${pull.missedSince.toISOString()} to ${pull.from.toISOString()}`,
    });
  }
  try {
    const statement = await pullStatement(context.daraja, pull);
    // The lines before an error are payments, too.
    const payments = statement.lines.filter(({ kind }) => kind === 'payment').length;
    const { newPayments, waiting } = await settleLines(context, pull.id, statement.lines);
    const problem = problemOf(statement, waiting);
    await context.till.finishPull(pull.id, {
      payments,
      new_payments: newPayments,
      unreadable: waiting,
      ...(problem === null ? {} : { problem }),
    });
    if (problem !== null) context.log({ level: 'warn', event: 'statement not complete', detail: problem });
    if (newPayments > 0)
      context.log({ level: 'info', event: 'statement pulled', detail: `${newPayments} of ${payments} new` });
    return { payments, newPayments };
  } catch (error) {
    // Otherwise no process could pull until the lease expires.
    await context.till.finishPull(pull.id, { problem: 'The database was not available' }).catch(() => {});
    throw error;
  }
}

/** Why a pull is not complete; null if it is. */
function problemOf(statement: Statement, waiting: number): string | null {
  if (statement.kind === 'refused') return `${statement.code} ${statement.description}`.trim().slice(0, 500);
  if (statement.kind === 'unknown') return statement.reason.trim().slice(0, 500) || 'no reason was given';
  if (waiting === 0) return null;
  return `${waiting === 1 ? 'One line' : `${waiting} lines`} could not be read and must be checked by staff`;
}

async function settleLines(
  context: MobileMoneyContext,
  pullId: number,
  lines: readonly StatementLine[],
): Promise<{ newPayments: number; waiting: number }> {
  const done = { newPayments: 0, waiting: 0 };
  // Payments first, so that the reversals among the lines find them. Money that leaves otherwise is none of the shop's orders.
  const relevant = lines
    .filter(({ kind }) => kind !== 'outgoing')
    .sort((one, other) => Number(one.kind === 'reversal') - Number(other.kind === 'reversal'));
  for (let at = 0; at < relevant.length; at += BATCH_SIZE) {
    const some = relevant.slice(at, at + BATCH_SIZE);
    const receipts = some.filter(isClearPayment).map(({ receipt }) => receipt ?? '');
    const newReceipts = new Set(await context.till.listNewReceipts(receipts));
    for (const line of some) {
      const isClear = isClearPayment(line);
      if (isClear && !newReceipts.has(line.receipt ?? '')) continue;
      const outcome = await settleLine(context, line);
      if (outcome === 'unreadable') done.waiting += 1;
      else if (isClear) done.newPayments += 1;
    }
    if (!(await context.till.extendPull(pullId)))
      throw new Error('the pull was taken over by another process');
  }
  return done;
}

const isClearPayment = ({ kind, unreadable }: StatementLine): boolean =>
  kind === 'payment' && unreadable.length === 0;

/** @returns the outcome of the settlement; `unreadable` waits for staff */
async function settleLine(context: MobileMoneyContext, line: StatementLine): Promise<string> {
  const { outcome, paymentId } = await context.till.receive({
    source: 'statement',
    kind: line.kind,
    unreadable: line.unreadable,
    receipt: line.receipt ?? '',
    received_cents: line.receivedCents ?? 0,
    reference: line.reference,
    body: line.raw,
    ...(line.transactedAt ? { transacted_at: line.transactedAt.toISOString() } : {}),
    ...(line.reversedReceipt ? { reversed_receipt: line.reversedReceipt } : {}),
    ...(line.msisdn ? { payer_phone: line.msisdn } : {}),
    ...(line.sender ? { payer_name: line.sender } : {}),
  });
  // Usually its callback has settled it; otherwise it was lost until now.
  if (!['already_completed', 'checked'].includes(outcome)) {
    context.log({
      level: 'warn',
      event:
        line.kind === 'payment'
          ? 'payment found only in the statement'
          : `${line.kind} line in the statement`,
      ...(paymentId ? { paymentId } : {}),
      detail: outcome,
    });
  }
  return outcome;
}
