// Answers POST /mpesa/stkpush/v1/processrequest: opens a prompt on a phone, or returns an error.

import { breakConnection, type SimulatorContext } from '../faults/endpoint-faults.ts';
import type { SimulatorClock } from '../ledger/clock.ts';
import type { Ledger, Prompt } from '../ledger/ledger.ts';
import type { SimulatorSettings } from '../settings.ts';
import { type DarajaError, errorResponse, invalidPayload, subscriberLocked } from './daraja-errors.ts';
import { outcomeFor } from './outcomes.ts';
import type { Prompts } from './prompts.ts';
import { type PushRequest, readPushRequest } from './push-request.ts';
import { type Fields, fieldText, readFields } from './request-fields.ts';
import type { Tokens } from './tokens.ts';

export type PushDependencies = {
  settings: SimulatorSettings;
  clock: SimulatorClock;
  ledger: Ledger;
  tokens: Tokens;
  prompts: Prompts;
};

export async function answerPush(c: SimulatorContext, dependencies: PushDependencies): Promise<Response> {
  const tokenError = dependencies.tokens.refuse(c.req.header('authorization'));
  if (tokenError) return errorResponse(tokenError);
  const fields = await readFields(c.req);
  if (fields === null) return errorResponse(invalidPayload);

  const reading = readPushRequest(fields, dependencies.settings);
  if ('error' in reading) return refuse(fields, reading.error, dependencies);
  if (isLocked(reading.push, dependencies)) return refuse(fields, subscriberLocked, dependencies);
  return answerAccepted(c, await dependencies.prompts.open(reading.push), dependencies.prompts);
}

/** One open prompt per phone; some numbers are always busy. */
function isLocked({ phone }: PushRequest, { settings, prompts }: PushDependencies): boolean {
  if (outcomeFor(phone).pushAnswer === 'refused') return true;
  return !settings.locksLate && prompts.openPromptOf(phone) !== undefined;
}

async function refuse(
  fields: Fields,
  error: DarajaError,
  { clock, ledger }: PushDependencies,
): Promise<Response> {
  await ledger.write({
    kind: 'push refused',
    at: clock.now(),
    ...error,
    phone: fieldText(fields, 'PhoneNumber'),
    amount: fieldText(fields, 'Amount'),
    accountReference: fieldText(fields, 'AccountReference'),
  });
  return errorResponse(error);
}

async function answerAccepted(c: SimulatorContext, prompt: Prompt, prompts: Prompts): Promise<Response> {
  const { pushAnswer } = outcomeFor(prompt.push.phone);
  if (pushAnswer === 'before') await prompts.decideNow(prompt);
  else prompts.scheduleDecision(prompt);
  if (pushAnswer === 'lost') return breakConnection(c);
  return c.json({
    MerchantRequestID: prompt.push.merchantRequestId,
    CheckoutRequestID: prompt.push.checkoutRequestId,
    ResponseCode: '0',
    ResponseDescription: 'Success. Request accepted for processing',
    CustomerMessage: 'Success. Request accepted for processing',
  });
}
