// The payment function `mobile-money`: collects an order's money by M-PESA. Web-standard, for Node and Deno alike.
import { checkStatus } from './check-status.ts';
import { connectDaraja } from './daraja-client.ts';
import { initiatePayment } from './initiate.ts';
import { parseFields, readText } from './json-body.ts';
import { receiveNotice } from './notice.ts';
import { openPaymentStore } from './payment-store.ts';
import { carriesSecretKey, queryOpenPayments } from './query-open.ts';
import { redactor } from './secret.ts';
import { senderOf } from './sender.ts';
import type { MobileMoneySettings } from './settings.ts';
import { openTokenStore } from './token-store.ts';
import type { MobileMoneyWorld } from './world.ts';

export type { DarajaSettings, MobileMoneyEvent, MobileMoneySettings } from './settings.ts';

const LARGEST_REQUEST_BYTES = 16 * 1024;
// The path is whole in our own runner; a hosted project leaves the prefix out. No "mpesa" in it: Daraja would refuse it.
const PATH = /^(?:\/functions\/v1)?\/mobile-money(?:\/notice\/([^/]*))?\/?$/;

/**
 * Makes the function.
 *
 * - `POST {action: 'initiate', phoneNumber, amount, trackingNumber, orderId}` (see initiate.ts)
 * - `POST {action: 'check-status', checkoutRequestId}` (see check-status.ts)
 * - `POST {action: 'query-open'}` with the secret key (see query-open.ts): `{asked, settled}`
 * - `POST /notice/{secret}`: M-PESA's notices (see notice.ts)
 * @returns answers a request, never rejects; 400, 401, 404, 405, 413 and 415 with `{error}` when it makes no sense
 */
export function createMobileMoney(settings: MobileMoneySettings): (request: Request) => Promise<Response> {
  const { store, daraja, noticeBaseUrl } = settings;
  const redact = redactor([
    store.secretKey,
    daraja.consumerKey,
    daraja.consumerSecret,
    daraja.passkey,
    daraja.initiator?.password ?? '',
  ]);
  const world: MobileMoneyWorld = {
    store: openPaymentStore(store),
    daraja: connectDaraja(daraja, { ...settings, tokenStore: openTokenStore(store, daraja) }),
    noticeBaseUrl: typeof noticeBaseUrl === 'string' ? () => noticeBaseUrl : noticeBaseUrl,
    log: (event) => settings.log?.({ ...event, ...(event.detail ? { detail: redact(event.detail) } : {}) }),
  };

  return async (request) => {
    try {
      const path = PATH.exec(new URL(request.url).pathname);
      if (!path) return refuse(404, 'Not found');
      if (request.method !== 'POST') return refuse(405, 'Only POST is answered here', { allow: 'POST' });
      return path[1] === undefined
        ? await answerAction(world, request, store.secretKey)
        : await receiveNotice(world, request, path[1]);
    } catch (problem) {
      world.log({ level: 'error', event: 'request failed', detail: String(problem) });
      return refuse(503, 'The payment service is not available right now');
    }
  };
}

async function answerAction(world: MobileMoneyWorld, request: Request, secretKey: string): Promise<Response> {
  // Another origin's page can send this type only after a preflight.
  if (!/^application\/json\b/i.test(request.headers.get('content-type') ?? '')) {
    return refuse(415, 'Send application/json');
  }
  const { text, isCut } = await readText(request, LARGEST_REQUEST_BYTES);
  if (isCut) return refuse(413, 'The request is too large');
  const fields = parseFields(text);
  if (!fields) return refuse(400, 'The body is not a JSON object');
  switch (fields.action) {
    case 'initiate':
      return Response.json(await initiatePayment(world, fields, senderOf(request)));
    case 'check-status':
      return checkStatus(world, fields);
    case 'query-open':
      if (!(await carriesSecretKey(request, secretKey))) return refuse(401, 'This needs the secret key');
      return Response.json(await queryOpenPayments(world));
    default:
      return refuse(400, 'Unknown action');
  }
}

function refuse(status: number, error: string, headers: Record<string, string> = {}): Response {
  return Response.json({ error }, { status, headers });
}
