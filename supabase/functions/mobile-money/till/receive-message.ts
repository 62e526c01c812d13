// Payments without a prompt (C2B): confirmations are stored, settled and answered; validations are checked.
import { unknownUrl } from '../callback-urls.ts';
import type { MobileMoneyContext } from '../context.ts';
import { readTillPayment } from '../daraja/c2b-payment.ts';
import { flagUnknownSource } from '../daraja/known-sources.ts';
import { withRetries } from '../database/client.ts';
import { readText, storableText } from '../request-body.ts';
import { isSameSecret } from '../secrets.ts';

const MAX_MESSAGE_BYTES = 64 * 1024;
const BATCH_SIZE = 50;
/** M-PESA waits about eight seconds for a validation. Without an answer the payment is made, as registered. */
const VALIDATION_TIMEOUT_MS = 5_000;

// Daraja, C2B validation.
const refusals = {
  reference: { ResultCode: 'C2B00012', ResultDesc: 'Invalid Account Number' },
  amount: { ResultCode: 'C2B00013', ResultDesc: 'Invalid Amount' },
};
const accepted = { ResultCode: '0', ResultDesc: 'Accepted' };

// Outcomes of the settlement that staff should know about.
const outcomesToCheck = new Set([
  'unmatched',
  'unreadable',
  'reversed',
  'paid_twice',
  'paid_needs_review',
  'goes_back',
]);

type TillPurpose = 'validation' | 'confirmation';

/**
 * Receives a message at one of the till's secret URLs.
 * @returns 200 for every validation, and once a confirmation is stored, whatever its contents; 404 for an unknown URL;
 *   503 when a confirmation could not be stored
 */
export async function receiveTillMessage(
  context: MobileMoneyContext,
  request: Request,
  secret: string,
  purpose: TillPurpose,
): Promise<Response> {
  try {
    const address = context.callerAddress(request);
    const storedSecret = await withRetries(() => context.till.readSecret(address));
    if (!isSameSecret(secret, storedSecret)) return unknownUrl();
    flagUnknownSource(context, address, 'till message');
    const { text, isCut } = await readText(request, MAX_MESSAGE_BYTES);
    if (purpose === 'validation') return Response.json(await validate(context, text));
    const body = storableText(text, MAX_MESSAGE_BYTES) ?? '';
    const id = await withRetries(() => context.till.storeConfirmation(body, address));
    if (isCut) context.log({ level: 'warn', event: 'till message was too long and is cut' });
    await settleConfirmation(context, id, body);
    return Response.json({ ResultCode: 0, ResultDesc: 'Accepted' });
  } catch (error) {
    context.log({ level: 'error', event: `till ${purpose} failed`, detail: String(error) });
    // Our errors never stop a payment. The statement lists it again.
    if (purpose === 'validation') return Response.json(accepted);
    return Response.json({ ResultCode: 1, ResultDesc: 'Try again later' }, { status: 503 });
  }
}

async function validate(context: MobileMoneyContext, text: string): Promise<typeof accepted> {
  const payment = readTillPayment(text);
  if (!payment.hasReference) return accepted;
  const timeout = new Promise<'accepted'>((resolve) => {
    const timer = setTimeout(() => resolve('accepted'), VALIDATION_TIMEOUT_MS);
    (timer as { unref?: () => void }).unref?.();
  });
  const outcome = await Promise.race([
    context.till.validate(payment.reference, payment.receivedCents),
    timeout,
  ]);
  if (outcome === 'accepted') return accepted;
  context.log({ level: 'info', event: 'payment rejected by validation', detail: outcome });
  return refusals[outcome];
}

/** Settles a stored confirmation. If that fails, the error is logged and the confirmation is settled later. */
async function settleConfirmation(context: MobileMoneyContext, id: number, body: string): Promise<boolean> {
  const payment = readTillPayment(body);
  try {
    const { outcome, paymentId } = await withRetries(() =>
      context.till.receive({
        source: 'confirmation',
        receipt: payment.receipt ?? '',
        received_cents: payment.receivedCents ?? 0,
        kind: payment.kind,
        unreadable: payment.unreadable,
        reference: payment.reference,
        body,
        message_id: id,
        ...(payment.transactedAt ? { transacted_at: payment.transactedAt.toISOString() } : {}),
        ...(payment.payerPhone ? { payer_phone: payment.payerPhone } : {}),
        ...(payment.payerName ? { payer_name: payment.payerName } : {}),
      }),
    );
    context.log({
      level: outcomesToCheck.has(outcome) ? 'warn' : 'info',
      event: 'confirmation settled',
      ...(paymentId ? { paymentId } : {}),
      detail: outcome,
    });
    return true;
  } catch (error) {
    context.log({ level: 'error', event: 'confirmation stored but not settled', detail: String(error) });
    return false;
  }
}

/**
 * Settles stored confirmations whose first settlement failed.
 * @returns how many there were, and how many are settled now
 * @throws DatabaseUnavailable
 */
export async function settleStoredConfirmations(
  context: MobileMoneyContext,
): Promise<{ found: number; taken: number }> {
  const stored = await context.till.listUnprocessedConfirmations(BATCH_SIZE);
  let settled = 0;
  for (const { id, body } of stored) if (await settleConfirmation(context, id, body)) settled += 1;
  return { found: stored.length, taken: settled };
}
