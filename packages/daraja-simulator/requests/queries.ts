// Answers POST /mpesa/stkpushquery/v1/query: the result of a prompt.

import type { SimulatorContext } from '../faults/endpoint-faults.ts';
import { type SpikeArrest, spikeArrestResponse } from '../faults/spike-arrest.ts';
import type { SimulatorClock } from '../ledger/clock.ts';
import { currentDecision, type Ledger, type Prompt } from '../ledger/ledger.ts';
import type { SimulatorSettings } from '../settings.ts';
import { checkMerchant } from './credentials.ts';
import { badRequest, errorResponse, invalidPayload, noAnswer } from './daraja-errors.ts';
import { fieldText, readFields } from './request-fields.ts';
import { describeResult } from './result-codes.ts';
import type { Tokens } from './tokens.ts';

export type QueryDependencies = {
  settings: SimulatorSettings;
  clock: SimulatorClock;
  ledger: Ledger;
  tokens: Tokens;
  spikeArrest: SpikeArrest;
  queryCounts: QueryCounts;
};

/** Number of queries per prompt, and of queries above the rate limit. */
export type QueryCounts = {
  ofPrompt: Map<string, { requests: number; pendingAnswers: number }>;
  turnedAway: number;
};

export async function answerQuery(c: SimulatorContext, dependencies: QueryDependencies): Promise<Response> {
  const { settings, clock, ledger, queryCounts } = dependencies;
  const tokenError = dependencies.tokens.refuse(c.req.header('authorization'));
  if (tokenError) return errorResponse(tokenError);
  const fields = await readFields(c.req);
  if (fields === null) return errorResponse(invalidPayload);
  if (!dependencies.spikeArrest.admits(fieldText(fields, 'BusinessShortCode'))) {
    queryCounts.turnedAway += 1;
    await ledger.write({
      kind: 'request refused',
      at: clock.now(),
      api: 'queries',
      status: 429,
      errorCode: 'policies.ratelimit.SpikeArrestViolation',
      errorMessage: fieldText(fields, 'CheckoutRequestID'),
    });
    return spikeArrestResponse(settings.queryLimit);
  }
  const merchantError = checkMerchant(fields, settings);
  if (merchantError) return errorResponse(merchantError);

  const checkoutRequestId = fieldText(fields, 'CheckoutRequestID');
  if (checkoutRequestId === '') return errorResponse(badRequest('CheckoutRequestID'));
  const prompt = ledger.find(checkoutRequestId);
  if (!prompt) return errorResponse(noAnswer('The transaction does not Exist'));
  const count = queryCounts.ofPrompt.get(checkoutRequestId) ?? { requests: 0, pendingAnswers: 0 };
  queryCounts.ofPrompt.set(checkoutRequestId, count);
  count.requests += 1;
  if (clock.now() - prompt.push.at < settings.tooEarlyMs) {
    return errorResponse(badRequest('CheckoutRequestID'));
  }
  const decision = currentDecision(prompt);
  if (decision) {
    const { resultCode } = decision;
    return c.json(queryAnswer(prompt, String(resultCode), describeResult(resultCode, 'query')));
  }
  count.pendingAnswers += 1;
  return answerPending(c, prompt, count.pendingAnswers);
}

/** Daraja reports a pending transaction in two ways; the answers for a prompt alternate between them. */
function answerPending(c: SimulatorContext, prompt: Prompt, ordinal: number): Response {
  return ordinal % 2 === 1
    ? c.json(queryAnswer(prompt, '4999', 'The transaction is still under processing'))
    : errorResponse(noAnswer('The transaction is being processed'));
}

function queryAnswer({ push }: Prompt, resultCode: string, resultDesc: string) {
  return {
    ResponseCode: '0',
    // The spelling is Daraja's.
    ResponseDescription: 'The service request has been accepted successsfully',
    MerchantRequestID: push.merchantRequestId,
    CheckoutRequestID: push.checkoutRequestId,
    ResultCode: resultCode,
    ResultDesc: resultDesc,
  };
}
