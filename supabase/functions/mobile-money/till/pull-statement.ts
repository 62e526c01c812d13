// Pulls M-PESA's statement, which finds payments whose callback and confirmation were both lost.

import type { MobileMoneyContext } from '../context.ts';
import { pullStatement, type StatementLine } from '../daraja/statement.ts';
import { storableText } from '../request-body.ts';

const PULL_INTERVAL_MINUTES = 30;
const BATCH_SIZE = 200;

/**
 * Pulls the due period of the statement, if any, and settles the payments that no earlier statement listed. A pull is
 * finished only once all of them are settled; otherwise its period is pulled again.
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
    const newPayments = await settleLines(context, pull.id, statement.lines);
    if (statement.kind !== 'pulled') {
      const problem =
        statement.kind === 'refused' ? `${statement.code} ${statement.description}` : statement.reason;
      context.log({ level: 'warn', event: 'statement not pulled', detail: problem });
      await context.till.finishPull(pull.id, {
        problem: problem.trim().slice(0, 500) || 'no reason was given',
      });
      return { payments: statement.lines.length, newPayments };
    }
    if (statement.unreadable.length > 0) {
      context.log({
        level: 'error',
        event: 'the statement has lines that cannot be read',
        detail: String(statement.unreadable.length),
      });
    }
    const payments = statement.lines.length;
    await context.till.finishPull(pull.id, {
      payments,
      new_payments: newPayments,
      unreadable: statement.unreadable.length,
    });
    if (newPayments > 0)
      context.log({ level: 'info', event: 'statement pulled', detail: `${newPayments} of ${payments} new` });
    return { payments, newPayments };
  } catch (error) {
    // Otherwise no process could pull until the lease expires.
    await context.till.finishPull(pull.id, { problem: 'The database was not available' }).catch(() => {});
    throw error;
  }
}

async function settleLines(
  context: MobileMoneyContext,
  pullId: number,
  lines: readonly StatementLine[],
): Promise<number> {
  let newPayments = 0;
  for (let at = 0; at < lines.length; at += BATCH_SIZE) {
    const some = lines.slice(at, at + BATCH_SIZE);
    const newReceipts = new Set(await context.till.listNewReceipts(some.map(({ receipt }) => receipt)));
    for (const line of some) {
      if (!newReceipts.has(line.receipt)) continue;
      const { outcome, paymentId } = await context.till.receive({
        source: 'statement',
        receipt: line.receipt,
        received_cents: line.receivedCents,
        reference: line.reference,
        transacted_at: line.transactedAt.toISOString(),
        body: storableText(JSON.stringify(line.raw), 16_384) ?? '',
        ...(line.msisdn ? { payer_phone: line.msisdn } : {}),
        ...(line.sender ? { payer_name: line.sender } : {}),
      });
      newPayments += 1;
      // Usually its callback has settled it; otherwise it was lost until now.
      if (outcome !== 'already_completed') {
        context.log({
          level: 'warn',
          event: 'payment found only in the statement',
          ...(paymentId ? { paymentId } : {}),
          detail: outcome,
        });
      }
    }
    if (!(await context.till.extendPull(pullId)))
      throw new Error('the pull was taken over by another process');
  }
  return newPayments;
}
