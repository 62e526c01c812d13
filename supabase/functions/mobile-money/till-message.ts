// M-PESA's word of money without a prompt: a confirmation is kept, answered and taken up; a validation is judged.
import { readText, storableText } from './json-body.ts';
import { insistently } from './notice.ts';
import { isNoticeSecret, isSameSecret } from './secret.ts';
import { flagUnknownSource } from './source-address.ts';
import { readTillPayment } from './till-payment.ts';
import type { MobileMoneyWorld } from './world.ts';

const LARGEST_MESSAGE_BYTES = 64 * 1024;
const TAKEN_UP_AT_ONCE = 50;
/** M-PESA waits about eight seconds for a validation, and then does as the registration says: the payment goes on. */
const JUDGED_WITHIN_MS = 5_000;

// Daraja, C2B validation.
const refusals = {
  reference: { ResultCode: 'C2B00012', ResultDesc: 'Invalid Account Number' },
  amount: { ResultCode: 'C2B00013', ResultDesc: 'Invalid Amount' },
};
const accepted = { ResultCode: '0', ResultDesc: 'Accepted' };

export type TillPurpose = 'validation' | 'confirmation';

/**
 * Takes a message that came to one of the till's secret addresses.
 * @returns 200 once a confirmation is kept, whatever it says, and for every validation; 404 for an address that was
 *   never given out; 503 when a confirmation could not be kept
 */
export async function receiveTillMessage(
  world: MobileMoneyWorld,
  request: Request,
  secret: string,
  purpose: TillPurpose,
): Promise<Response> {
  if (!isNoticeSecret(secret)) return unknownAddress();
  try {
    const sender = await world.senderOf(request);
    const known = await insistently(() => world.till.secret(sender));
    if (!(await isSameSecret(secret, known))) return unknownAddress();
    flagUnknownSource(world, sender, 'till message');
    const { text, isCut } = await readText(request, LARGEST_MESSAGE_BYTES);
    if (purpose === 'validation') return Response.json(await judge(world, text));
    const body = storableText(text, LARGEST_MESSAGE_BYTES) ?? '';
    const id = await insistently(() => world.till.keep(body, sender));
    if (isCut) world.log({ level: 'warn', event: 'till message was too long and is cut' });
    await takeUp(world, id, body);
    return Response.json({ ResultCode: 0, ResultDesc: 'Accepted' });
  } catch (problem) {
    world.log({ level: 'error', event: `till ${purpose} failed`, detail: String(problem) });
    // A payment is never stopped by our trouble; the statement tells of it once more.
    if (purpose === 'validation') return Response.json(accepted);
    return Response.json({ ResultCode: 1, ResultDesc: 'Try again later' }, { status: 503 });
  }
}

async function judge(world: MobileMoneyWorld, text: string): Promise<typeof accepted> {
  const payment = readTillPayment(text);
  if (!payment.hasReference) return accepted;
  const late = new Promise<'accepted'>((resolve) => {
    const timer = setTimeout(() => resolve('accepted'), JUDGED_WITHIN_MS);
    (timer as { unref?: () => void }).unref?.();
  });
  const verdict = await Promise.race([world.till.judge(payment.reference, payment.receivedCents), late]);
  if (verdict === 'accepted') return accepted;
  world.log({ level: 'info', event: 'payment turned away before it was made', detail: verdict });
  return refusals[verdict];
}

/** Settles a kept confirmation. Trouble is logged: what was kept is taken up later. */
async function takeUp(world: MobileMoneyWorld, id: number, body: string): Promise<boolean> {
  const payment = readTillPayment(body);
  try {
    const { outcome, paymentId } = await insistently(() =>
      world.till.receive({
        source: 'confirmation',
        receipt: payment.receipt ?? '',
        received_cents: payment.receivedCents ?? 0,
        reference: payment.reference,
        body,
        message_id: id,
        ...(payment.transactedAt ? { transacted_at: payment.transactedAt.toISOString() } : {}),
        ...(payment.payerPhone ? { payer_phone: payment.payerPhone } : {}),
        ...(payment.payerName ? { payer_name: payment.payerName } : {}),
      }),
    );
    const isOdd = ['unmatched', 'unreadable', 'paid_twice', 'paid_needs_decision', 'goes_back'].includes(
      outcome,
    );
    world.log({
      level: isOdd ? 'warn' : 'info',
      event: 'confirmation taken',
      ...(paymentId ? { paymentId } : {}),
      detail: outcome,
    });
    return true;
  } catch (problem) {
    world.log({ level: 'error', event: 'confirmation kept but not taken up', detail: String(problem) });
    return false;
  }
}

/**
 * Takes up confirmations that were kept while something kept them from being settled.
 * @returns how many there were, and how many are settled now; throws StoreFailure
 */
export async function takeUpTillMessages(world: MobileMoneyWorld): Promise<{ found: number; taken: number }> {
  const left = await world.till.left(TAKEN_UP_AT_ONCE);
  let taken = 0;
  for (const { id, body } of left) if (await takeUp(world, id, body)) taken += 1;
  return { found: left.length, taken };
}

function unknownAddress(): Response {
  return Response.json({ error: 'Not found' }, { status: 404 });
}
