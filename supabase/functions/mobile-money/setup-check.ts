// The payment settings as staff see them (without secrets), and the check whether the public URL is reachable.
import { checkCallbackUrl } from '../../../domain/mpesa/callback-url.ts';
import type { Reach, ReachStep, Setup } from '../../../domain/mpesa/payment-setup.ts';
import { callbackUrlFor, unknownUrl } from './callback-urls.ts';
import type { MobileMoneyContext } from './context.ts';
import { readText } from './request-body.ts';
import { isSameSecret, sign } from './secrets.ts';

const TIMEOUT_MS = 10_000;
const LIFETIME_MS = 60_000;
const MAX_RESPONSE_BYTES = 2048;

/**
 * Describes the settings for staff.
 * @throws DatabaseUnavailable
 */
export async function describeSetup(context: MobileMoneyContext): Promise<Setup> {
  const c2b = await context.till.readRegistration();
  const { settings } = context.daraja;
  const callbackUrl = context.publicCallbackBaseUrl();
  const isTill = settings.transactionType === 'CustomerBuyGoodsOnline';
  return {
    environment: settings.baseUrl.includes('sandbox.safaricom')
      ? 'sandbox'
      : settings.baseUrl.includes('safaricom')
        ? 'production'
        : 'simulator',
    mode: isTill ? 'till' : 'paybill',
    shortcode: settings.shortcode,
    till: isTill ? (settings.partyB ?? settings.shortcode) : null,
    configured: [
      { name: 'MPESA_CONSUMER_KEY', isSet: settings.consumerKey !== '', what: 'signs the shop in at M-PESA' },
      {
        name: 'MPESA_CONSUMER_SECRET',
        isSet: settings.consumerSecret !== '',
        what: 'signs the shop in at M-PESA',
      },
      { name: 'MPESA_PASSKEY', isSet: settings.passkey !== '', what: 'allows prompts on phones' },
      { name: 'MPESA_INITIATOR_NAME', isSet: Boolean(settings.initiator), what: 'sends money back' },
      {
        name: 'MPESA_NOMINATED_NUMBER',
        isSet: Boolean(settings.nominatedNumber),
        what: 'asks for the statement',
      },
    ],
    c2b: c2b && { registeredAt: c2b.registeredAt.toISOString(), version: c2b.version },
    canReverse: Boolean(settings.initiator),
    callbackUrl,
    callbackUrlProblems: checkCallbackUrl(callbackUrl),
  };
}

/**
 * Calls our own public URL as M-PESA would, with a signed code that expires after a minute.
 * Never throws.
 */
export async function checkPublicAddress(context: MobileMoneyContext): Promise<Reach> {
  const base = callbackUrlFor(context.publicCallbackBaseUrl(), 'reach');
  const expires = String(context.daraja.now().getTime() + LIFETIME_MS);
  const code = `${expires}-${sign(context.secretKey, `reach ${expires}`)}`;
  const began = Date.now();
  const isHttps = base.startsWith('https:');
  const done = (steps: Reach['steps']): Reach => ({
    address: base,
    isReached: steps.every(({ state }) => state === 'ok'),
    steps,
    tookMs: Date.now() - began,
  });
  const upTo = (names: ReachStep[], failed: ReachStep, detail: string): Reach['steps'] =>
    names.map((name, index) => ({
      name,
      state: name === failed ? 'failed' : index < names.indexOf(failed) ? 'ok' : 'not reached',
      detail: name === failed ? detail : '',
    }));
  const https: ReachStep[] = isHttps ? ['Certificate'] : [];
  const names: ReachStep[] = ['Name', 'Connection', ...https, 'Status', 'Answer'];
  try {
    const response = await context.fetch(`${base}/${code}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: '{}',
      // M-PESA does not follow redirects.
      redirect: 'manual',
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    const { text } = await readText(response, MAX_RESPONSE_BYTES);
    if (response.status !== 200) {
      const location = response.headers.get('location');
      const detail = `HTTP ${response.status}${location ? `, redirected to ${location}` : ''}. ${hintFor(response.status)}`;
      return done(upTo(names, 'Status', detail));
    }
    const proof = /"proof":"([0-9a-f]{64})"/.exec(text)?.[1] ?? '';
    if (!isSameSecret(proof, sign(context.secretKey, `answer ${code}`))) {
      const excerpt = text.replace(/\s+/g, ' ').slice(0, 120);
      return done(
        upTo(names, 'Answer', `Another server answered, not this shop: ${excerpt || 'an empty page'}`),
      );
    }
    return done(names.map((name) => ({ name, state: 'ok', detail: name === 'Status' ? 'HTTP 200' : '' })));
  } catch (problem) {
    const [step, detail] = stepOf(problem);
    return done(upTo(names, names.includes(step) ? step : 'Connection', detail));
  }
}

/** Answers the call of `checkPublicAddress`; 404 for every other caller. */
export async function answerReachability(context: MobileMoneyContext, code: string): Promise<Response> {
  const [, expires = '', signature = ''] = /^(\d{13})-([0-9a-f]{64})$/.exec(code) ?? [];
  const isGenuine =
    Number(expires) > context.daraja.now().getTime() &&
    isSameSecret(signature, sign(context.secretKey, `reach ${expires}`));
  return isGenuine
    ? Response.json({
        ResultCode: 0,
        ResultDesc: 'Accepted',
        proof: sign(context.secretKey, `answer ${code}`),
      })
    : unknownUrl();
}

function hintFor(status: number): string {
  if (status === 404) return 'The URL belongs to another server, or to another path of this one.';
  if (status === 401 || status === 403)
    return 'Something in front of the shop (a firewall, a password) turned it away.';
  if (status >= 300 && status < 400) return 'M-PESA does not follow redirects.';
  if (status >= 500) return 'The proxy in front of the shop does not reach it.';
  return '';
}

/** Which step failed and why, by the error codes of Node and Deno. */
function stepOf(problem: unknown): [step: ReachStep, detail: string] {
  const cause = problem instanceof Error && problem.cause ? problem.cause : problem;
  const { code, message } = cause as { code?: unknown; message?: unknown };
  const text = `${typeof code === 'string' ? code : ''} ${typeof message === 'string' ? message : ''}`.trim();
  const quoted = text.slice(0, 160);
  if (/ENOTFOUND|EAI_AGAIN|dns error|failed to lookup/i.test(text)) {
    return ['Name', `No such name: check the DNS entry of the domain (${quoted})`];
  }
  if (/CERT|SELF_SIGNED|UNABLE_TO|SSL|TLS|certificate|EPROTO/i.test(text)) {
    return ['Certificate', `The certificate is not trusted, and M-PESA will not trust it either (${quoted})`];
  }
  if (/ECONNREFUSED/i.test(text)) return ['Connection', `No server listens there (${quoted})`];
  if (/timeout|aborted/i.test(text)) return ['Connection', 'No answer within 10 seconds'];
  return ['Connection', quoted || 'The connection failed'];
}
