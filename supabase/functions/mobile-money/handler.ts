// The payment function `mobile-money`: collects an order's payment by M-PESA. Uses web standards only, for Node and Deno.

import type { StaffArea } from '../../../domain/people/staff-rights.ts';
import { createCallerAddress } from './caller-address.ts';
import type { MobileMoneyContext } from './context.ts';
import { connectDaraja } from './daraja/connection/client.ts';
import { openTokenStore } from './database/access-tokens.ts';
import { openAccountStore } from './database/accounts.ts';
import { connectDatabase, DatabaseUnavailable } from './database/client.ts';
import { openPaymentStore } from './database/payments.ts';
import { openRefundStore } from './database/refunds.ts';
import { openTillStore } from './database/till.ts';
import { checkStatus } from './prompts/check-status.ts';
import { initiatePayment } from './prompts/initiate.ts';
import { queryOpenPayments } from './prompts/query-open.ts';
import { receiveCallback, settleStoredCallbacks } from './prompts/receive-callback.ts';
import { startPaymentTest } from './prompts/start-test.ts';
import { receiveRefundResult } from './refunds/receive-result.ts';
import { sendRefunds } from './refunds/send.ts';
import { parseObject, readText } from './request-body.ts';
import { createRedactor, createSecretKeyCheck, isCallbackSecret, sha256 } from './secrets.ts';
import type { MobileMoneyEvent, MobileMoneySettings } from './settings.ts';
import { answerReachability, checkPublicAddress, describeSetup } from './setup-check.ts';
import { staffCaller } from './staff-caller.ts';
import { inviteMember } from './team/invite.ts';
import { pullDueStatement } from './till/pull-statement.ts';
import { receiveTillMessage, settleStoredConfirmations } from './till/receive-message.ts';
import { registerTill, registerTillForStaff } from './till/register.ts';

export type { DarajaSettings, MobileMoneyEvent, MobileMoneySettings } from './settings.ts';

const MAX_REQUEST_BYTES = 16 * 1024;
// The path is whole in our own runner; a hosted project leaves the prefix out. No "mpesa" in it: Daraja would refuse it.
const PATH = /^(?:\/functions\/v1)?\/mobile-money(?:\/([a-z]+)\/([^/]+)(?:\/([a-z]+))?)?\/?$/;

// Actions that need the secret key.
const serviceActions: Record<string, (context: MobileMoneyContext) => Promise<unknown>> = {
  'query-open': queryOpenPayments,
  'take-up-till': async (context) => {
    const confirmations = await settleStoredConfirmations(context);
    const callbacks = await settleStoredCallbacks(context);
    return {
      found: confirmations.found + callbacks.found,
      taken: confirmations.taken + callbacks.taken,
    };
  },
  'pull-statement': pullDueStatement,
  'send-refunds': sendRefunds,
};

/**
 * Creates the function.
 *
 * - `POST {action: 'initiate', phoneNumber, amount, trackingNumber, orderId}` (prompts/initiate.ts); with a staff session also
 *   `byStaff: true`, a prompt that staff send to a customer
 * - `POST {action: 'check-status', checkoutRequestId}` (prompts/check-status.ts)
 * - with the secret key, `POST {action}`: `query-open` (prompts/query-open.ts) `{queried, settled}`; `take-up-till`, which
 *   settles stored confirmations and callbacks, `{found, taken}`; `pull-statement` (till/pull-statement.ts) `{payments, newPayments}`
 *   or null; `send-refunds` (refunds/send.ts) `{sent, queried}`
 * - with a staff session or the secret key: `POST {action: 'describe-setup'}` (setup-check.ts) `{setup}`; `{action: 'register-till'}`
 *   (till/register.ts) `{till, statement}`, or to staff `{error, code}`
 * - with a staff session: `POST {action: 'check-address'}` (setup-check.ts) `{reach}`; `{action: 'start-test', phoneNumber}` (prompts/start-test.ts) `{test}` or
 *   `{error, code}`
 * - with the session of an owner: `POST {action: 'invite-member'}` (team/invite.ts)
 * - `POST /notice/{secret}`: STK callbacks (prompts/receive-callback.ts)
 * - `POST /till/{secret}/validation` and `/confirmation`: payments without a prompt, C2B (till/receive-message.ts)
 * - `POST /reversal/{secret}/result`, `/timeout`, `/status` and `/outcome`: results of refunds (refunds/receive-result.ts)
 * - `POST /reach/{code}`: our own call of our public URL (setup-check.ts)
 * @returns answers a request and never rejects; invalid requests are answered with `{error}`: 400, 401, 403, 404, 405, 413, 415
 */
export function createMobileMoney(settings: MobileMoneySettings): (request: Request) => Promise<Response> {
  const { daraja, callbackBaseUrl, publicCallbackBaseUrl = callbackBaseUrl } = settings;
  const { secretKey, otherSecretKeys = [] } = settings.database;
  const secretKeys = [secretKey, ...otherSecretKeys];
  const database = connectDatabase(settings.database);
  const redact = createRedactor([
    ...secretKeys,
    daraja.consumerKey,
    daraja.consumerSecret,
    daraja.passkey,
    daraja.initiator?.password ?? '',
  ]);
  const payments = openPaymentStore(database);
  let noted: Promise<void> | null = null;
  const shared: MobileMoneyContext = {
    database,
    payments,
    till: openTillStore(database),
    refunds: openRefundStore(database),
    accounts: openAccountStore(settings.database),
    daraja: connectDaraja(daraja, { ...settings, tokenStore: openTokenStore(database, daraja) }),
    callbackBaseUrl: typeof callbackBaseUrl === 'string' ? () => callbackBaseUrl : callbackBaseUrl,
    publicCallbackBaseUrl:
      typeof publicCallbackBaseUrl === 'string' ? () => publicCallbackBaseUrl : publicCallbackBaseUrl,
    noteSettings() {
      noted ??= payments
        .noteSettings(sha256(JSON.stringify([daraja, shared.callbackBaseUrl()])))
        .catch((error) => {
          noted = null;
          throw error;
        });
      return noted;
    },
    fetch: settings.fetch ?? fetch,
    secretKey,
    afterAnswer: settings.afterAnswer ?? ((work) => work()),
    hasSecretKey: createSecretKeyCheck(secretKeys),
    callerAddress: createCallerAddress(secretKeys),
    log: (event) => settings.log?.({ ...event, ...(event.detail ? { detail: redact(event.detail) } : {}) }),
  };

  return async (request) => {
    const requestId = settings.requestIdOf?.(request);
    const context = requestId
      ? { ...shared, log: (event: MobileMoneyEvent) => shared.log({ ...event, requestId }) }
      : shared;
    try {
      const path = PATH.exec(new URL(request.url).pathname);
      if (!path) return refuse(404, 'Not found');
      if (request.method !== 'POST') return refuse(405, 'Only POST is answered here', { allow: 'POST' });
      const [, purpose, secret = '', part] = path;
      return purpose === undefined
        ? await answerAction(context, request)
        : await answerSecretUrl(context, request, purpose, secret, part);
    } catch (error) {
      context.log({ level: levelOf(error), event: 'request failed', detail: String(error) });
      return refuse(503, 'The payment service is not available right now', { 'retry-after': '5' });
    }
  };
}

function levelOf(error: unknown): MobileMoneyEvent['level'] {
  // A client that disconnects while sending is not an error.
  if (String(error) === 'Error: aborted') return 'info';
  return error instanceof DatabaseUnavailable && error.isOutage ? 'warn' : 'error';
}

/** Answers requests to the secret URLs, which only M-PESA and the shop have. */
async function answerSecretUrl(
  context: MobileMoneyContext,
  request: Request,
  purpose: string,
  secret: string,
  part: string | undefined,
): Promise<Response> {
  const path = part === undefined ? purpose : `${purpose}/${part}`;
  if (path === 'reach') return answerReachability(context, secret);
  if (!isCallbackSecret(secret)) return refuse(404, 'Not found');
  switch (path) {
    case 'notice':
      return receiveCallback(context, request, secret);
    case 'till/validation':
      return receiveTillMessage(context, request, secret, 'validation');
    case 'till/confirmation':
      return receiveTillMessage(context, request, secret, 'confirmation');
    case 'reversal/result':
      return receiveRefundResult(context, request, secret, 'result');
    case 'reversal/timeout':
      return receiveRefundResult(context, request, secret, 'timeout');
    case 'reversal/status':
      return receiveRefundResult(context, request, secret, 'status');
    case 'reversal/outcome':
      return receiveRefundResult(context, request, secret, 'outcome');
    default:
      return refuse(404, 'Not found');
  }
}

async function answerAction(context: MobileMoneyContext, request: Request): Promise<Response> {
  // Pages of other origins can send this type only after a preflight request.
  if (!/^application\/json\b/i.test(request.headers.get('content-type') ?? '')) {
    return refuse(415, 'Send application/json');
  }
  const { text, isCut } = await readText(request, MAX_REQUEST_BYTES);
  if (isCut) return refuse(413, 'The request is too large');
  const fields = parseObject(text);
  if (!fields) return refuse(400, 'The body is not a JSON object');
  const serviceAction =
    typeof fields.action === 'string' && Object.hasOwn(serviceActions, fields.action)
      ? serviceActions[fields.action]
      : undefined;
  if (serviceAction) {
    if (!context.hasSecretKey(request)) return refuse(401, 'This needs the secret key');
    return Response.json(await serviceAction(context));
  }
  switch (fields.action) {
    case 'initiate':
      // Customers are not asked who they are: that would cost each of them a query.
      return fields.byStaff === true
        ? forStaff(context, request, 'orders', (staffId) =>
            initiatePayment(context, fields, context.callerAddress(request), staffId),
          )
        : Response.json(await initiatePayment(context, fields, context.callerAddress(request), null));
    case 'check-status':
      return checkStatus(context, fields, context.callerAddress(request));
    case 'describe-setup':
      // With the secret key, too: the server checks the setup of a hosted project at its start.
      return context.hasSecretKey(request)
        ? Response.json({ setup: await describeSetup(context) })
        : forStaff(context, request, 'refunds', async () => ({ setup: await describeSetup(context) }));
    case 'register-till':
      return context.hasSecretKey(request)
        ? Response.json(await registerTill(context))
        : forStaff(context, request, 'settings', () => registerTillForStaff(context));
    case 'check-address':
      return forStaff(context, request, 'settings', async () => ({
        reach: await checkPublicAddress(context),
      }));
    case 'start-test':
      return forStaff(context, request, 'settings', (staffId) => startPaymentTest(context, fields, staffId));
    case 'invite-member':
      return forStaff(context, request, 'team', (staffId) => inviteMember(context, request, fields, staffId));
    default:
      return refuse(400, 'Unknown action');
  }
}

async function forStaff(
  context: MobileMoneyContext,
  request: Request,
  area: StaffArea,
  answer: (staffId: string) => Promise<object>,
): Promise<Response> {
  const staffId = await staffCaller(context, request, area);
  return staffId ? Response.json(await answer(staffId)) : refuse(403, 'Only staff may do this');
}

function refuse(status: number, error: string, headers: Record<string, string> = {}): Response {
  return Response.json({ error }, { status, headers });
}
