// The payment function `mobile-money`: collects an order's money by M-PESA. Web-standard, for Node and Deno alike.
import { checkStatus } from './check-status.ts';
import { connectDaraja } from './daraja-client.ts';
import { initiatePayment } from './initiate.ts';
import { parseFields, readText } from './json-body.ts';
import { receiveNotice, takeUpFailedNotices } from './notice.ts';
import { openPaymentStore } from './payment-store.ts';
import { startPaymentTest } from './payment-test.ts';
import { queryOpenPayments } from './query-open.ts';
import { type RefundNotice, receiveRefundNotice } from './refund-notice.ts';
import { sendRefunds } from './refund-send.ts';
import { openRefundStore } from './refund-store.ts';
import { createSecretKeyCheck, redactor } from './secret.ts';
import { createSenderOf } from './sender.ts';
import type { MobileMoneyEvent, MobileMoneySettings } from './settings.ts';
import { answerReach, checkPublicAddress, describeSetup } from './setup-check.ts';
import { staffCaller } from './staff-caller.ts';
import { pullDueStatement } from './statement-pull.ts';
import { receiveTillMessage, type TillPurpose, takeUpTillMessages } from './till-message.ts';
import { registerTill } from './till-registration.ts';
import { openTillStore } from './till-store.ts';
import { openTokenStore } from './token-store.ts';
import type { MobileMoneyWorld } from './world.ts';

export type { DarajaSettings, MobileMoneyEvent, MobileMoneySettings } from './settings.ts';

const LARGEST_REQUEST_BYTES = 16 * 1024;
// The path is whole in our own runner; a hosted project leaves the prefix out. No "mpesa" in it: Daraja would refuse it.
const PATH = /^(?:\/functions\/v1)?\/mobile-money(?:\/([a-z]+)\/([^/]+)(?:\/([a-z]+))?)?\/?$/;

// What only the shop itself may have done, with the secret key.
const serviceActions: Record<string, (world: MobileMoneyWorld) => Promise<unknown>> = {
  'query-open': queryOpenPayments,
  'take-up-till': async (world) => {
    const [messages, notices] = [await takeUpTillMessages(world), await takeUpFailedNotices(world)];
    return { found: messages.found + notices.found, taken: messages.taken + notices.taken };
  },
  'pull-statement': pullDueStatement,
  'register-till': registerTill,
  'send-refunds': sendRefunds,
};

/**
 * Makes the function.
 *
 * - `POST {action: 'initiate', phoneNumber, amount, trackingNumber, orderId}` (see initiate.ts)
 * - `POST {action: 'check-status', checkoutRequestId}` (see check-status.ts)
 * - with the secret key: `POST {action: 'query-open'}` (see query-open.ts): `{asked, settled}`; `'take-up-till'` (see
 *   till-message.ts, and notice.ts): `{found, taken}`; `'pull-statement'` (see statement-pull.ts): `{payments, news}` or null;
 *   `'register-till'` (see till-registration.ts): `{till, statement}`; `'send-refunds'` (see refund-send.ts): `{sent,
 *   asked}`
 * - `POST {action: 'describe-setup'}` (with the secret key too), `{action: 'check-address'}` and `{action: 'start-test', phoneNumber}` with a staff
 *   session (see setup-check.ts, payment-test.ts): `{setup}`, `{reach}`, `{test}` or `{error, code}`
 * - `POST /notice/{secret}`: M-PESA's notices of prompts (see notice.ts)
 * - `POST /till/{secret}/validation` and `/confirmation`: of money without a prompt (see till-message.ts)
 * - `POST /reversal/{secret}/result`, `/timeout` and `/status`: what it tells of refunds (see refund-notice.ts)
 * - `POST /reach/{code}`: our own call of our public address (see setup-check.ts)
 * @returns answers a request, never rejects; 400, 401, 403, 404, 405, 413 and 415 with `{error}` when it makes no sense
 */
export function createMobileMoney(settings: MobileMoneySettings): (request: Request) => Promise<Response> {
  const { store, daraja, noticeBaseUrl, publicNoticeBaseUrl = noticeBaseUrl } = settings;
  const secretKeys = [store.secretKey, ...(store.otherSecretKeys ?? [])];
  const redact = redactor([
    ...secretKeys,
    daraja.consumerKey,
    daraja.consumerSecret,
    daraja.passkey,
    daraja.initiator?.password ?? '',
  ]);
  const shared: MobileMoneyWorld = {
    store: openPaymentStore(store),
    till: openTillStore(store),
    daraja: connectDaraja(daraja, { ...settings, tokenStore: openTokenStore(store, daraja) }),
    refunds: openRefundStore(store),
    noticeBaseUrl: typeof noticeBaseUrl === 'string' ? () => noticeBaseUrl : noticeBaseUrl,
    publicNoticeBaseUrl:
      typeof publicNoticeBaseUrl === 'string' ? () => publicNoticeBaseUrl : publicNoticeBaseUrl,
    fetch: settings.fetch ?? fetch,
    secretKey: store.secretKey,
    carriesSecretKey: createSecretKeyCheck(secretKeys),
    senderOf: createSenderOf(secretKeys),
    log: (event) => settings.log?.({ ...event, ...(event.detail ? { detail: redact(event.detail) } : {}) }),
  };

  return async (request) => {
    const requestId = settings.requestIdOf?.(request);
    const world = requestId
      ? { ...shared, log: (event: MobileMoneyEvent) => shared.log({ ...event, requestId }) }
      : shared;
    try {
      const path = PATH.exec(new URL(request.url).pathname);
      if (!path) return refuse(404, 'Not found');
      if (request.method !== 'POST') return refuse(405, 'Only POST is answered here', { allow: 'POST' });
      const [, purpose, secret = '', part] = path;
      return purpose === undefined
        ? await answerAction(world, request)
        : await answerAddress(world, request, purpose, secret, part);
    } catch (problem) {
      // Whoever goes away in the middle of what they send is nothing to look into.
      const level = String(problem) === 'Error: aborted' ? 'info' : 'error';
      world.log({ level, event: 'request failed', detail: String(problem) });
      return refuse(503, 'The payment service is not available right now');
    }
  };
}

/** What comes to the addresses that are known to nobody but M-PESA and ourselves. */
async function answerAddress(
  world: MobileMoneyWorld,
  request: Request,
  purpose: string,
  secret: string,
  part: string | undefined,
): Promise<Response> {
  const address = part === undefined ? purpose : `${purpose}/${part}`;
  switch (address) {
    case 'notice':
      return receiveNotice(world, request, secret);
    case 'till/validation':
    case 'till/confirmation':
      return receiveTillMessage(world, request, secret, part as TillPurpose);
    case 'reversal/result':
    case 'reversal/timeout':
    case 'reversal/status':
    case 'reversal/outcome':
      return receiveRefundNotice(world, request, secret, part as RefundNotice);
    case 'reach':
      return answerReach(world, secret);
    default:
      return refuse(404, 'Not found');
  }
}

async function answerAction(world: MobileMoneyWorld, request: Request): Promise<Response> {
  // Another origin's page can send this type only after a preflight.
  if (!/^application\/json\b/i.test(request.headers.get('content-type') ?? '')) {
    return refuse(415, 'Send application/json');
  }
  const { text, isCut } = await readText(request, LARGEST_REQUEST_BYTES);
  if (isCut) return refuse(413, 'The request is too large');
  const fields = parseFields(text);
  if (!fields) return refuse(400, 'The body is not a JSON object');
  const serviceAction =
    typeof fields.action === 'string' && Object.hasOwn(serviceActions, fields.action)
      ? serviceActions[fields.action]
      : undefined;
  if (serviceAction) {
    if (!(await world.carriesSecretKey(request))) return refuse(401, 'This needs the secret key');
    return Response.json(await serviceAction(world));
  }
  switch (fields.action) {
    case 'initiate':
      return Response.json(await initiatePayment(world, fields, await world.senderOf(request)));
    case 'check-status':
      return checkStatus(world, fields, await world.senderOf(request));
    case 'describe-setup':
      // The shop's own server asks too, with the secret key, when it starts on a hosted project.
      return (await world.carriesSecretKey(request))
        ? Response.json({ setup: describeSetup(world) })
        : forStaff(world, request, async () => ({ setup: describeSetup(world) }));
    case 'check-address':
      return forStaff(world, request, async () => ({ reach: await checkPublicAddress(world) }));
    case 'start-test':
      return forStaff(world, request, (member) => startPaymentTest(world, fields, member));
    default:
      return refuse(400, 'Unknown action');
  }
}

async function forStaff(
  world: MobileMoneyWorld,
  request: Request,
  answer: (member: string) => Promise<object>,
): Promise<Response> {
  const member = await staffCaller(world, request);
  return member ? Response.json(await answer(member)) : refuse(403, 'Only staff may do this');
}

function refuse(status: number, error: string, headers: Record<string, string> = {}): Response {
  return Response.json({ error }, { status, headers });
}
