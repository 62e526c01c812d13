// Pulls M-PESA's statement: the last safety net for money whose notice and confirmation were both lost.
import { storableText } from './json-body.ts';
import { pullStatement, type StatementLine } from './statement.ts';
import type { MobileMoneyWorld } from './world.ts';

const EVERY_MINUTES = 30;
const ASKED_AT_ONCE = 200;

/**
 * Pulls the stretch of the statement that is due, if one is, and settles what no statement has told of before. A pull
 * counts only once all of it is settled; otherwise its stretch is pulled again.
 * @returns how many payments it named and how many were news; null when none was due; throws StoreFailure
 */
export async function pullDueStatement(
  world: MobileMoneyWorld,
): Promise<{ payments: number; news: number } | null> {
  const pull = await world.till.leasePull(EVERY_MINUTES);
  if (!pull) return null;
  if (pull.missedSince) {
    world.log({
      level: 'error',
      event: 'the statement was not pulled for more than 48 hours',
      detail: `nothing is known of ${pull.missedSince.toISOString()} to ${pull.from.toISOString()}`,
    });
  }
  try {
    const statement = await pullStatement(world.daraja, pull);
    // What came before the trouble is money all the same.
    const news = await settleLines(world, pull.id, statement.lines);
    if (statement.kind !== 'pulled') {
      const problem =
        statement.kind === 'refused' ? `${statement.code} ${statement.description}` : statement.reason;
      world.log({ level: 'warn', event: 'statement not pulled', detail: problem });
      await world.till.finishPull(pull.id, {
        problem: problem.trim().slice(0, 500) || 'no reason was given',
      });
      return { payments: statement.lines.length, news };
    }
    if (statement.unreadable.length > 0) {
      world.log({
        level: 'error',
        event: 'the statement has lines that cannot be read',
        detail: String(statement.unreadable.length),
      });
    }
    const payments = statement.lines.length;
    await world.till.finishPull(pull.id, { payments, news, unreadable: statement.unreadable.length });
    if (news > 0)
      world.log({ level: 'info', event: 'statement pulled', detail: `${news} of ${payments} news` });
    return { payments, news };
  } catch (problem) {
    // Left open it would be nobody's until its lease ends.
    await world.till.finishPull(pull.id, { problem: 'The database could not be asked' }).catch(() => {});
    throw problem;
  }
}

async function settleLines(
  world: MobileMoneyWorld,
  pullId: number,
  lines: readonly StatementLine[],
): Promise<number> {
  let news = 0;
  for (let at = 0; at < lines.length; at += ASKED_AT_ONCE) {
    const some = lines.slice(at, at + ASKED_AT_ONCE);
    const unheard = new Set(await world.till.unheard(some.map(({ receipt }) => receipt)));
    for (const line of some) {
      if (!unheard.has(line.receipt)) continue;
      const { outcome, paymentId } = await world.till.receive({
        source: 'statement',
        receipt: line.receipt,
        received_cents: line.receivedCents,
        reference: line.reference,
        transacted_at: line.transactedAt.toISOString(),
        body: storableText(JSON.stringify(line.raw), 16_384) ?? '',
        ...(line.msisdn ? { payer_phone: line.msisdn } : {}),
        ...(line.sender ? { payer_name: line.sender } : {}),
      });
      news += 1;
      // Usually it is known by its notice; what is not was lost until now.
      if (outcome !== 'already_completed') {
        world.log({
          level: 'warn',
          event: 'only the statement told of a payment',
          ...(paymentId ? { paymentId } : {}),
          detail: outcome,
        });
      }
    }
    if (!(await world.till.extendPull(pullId))) throw new Error('the pull was taken over by another process');
  }
  return news;
}
