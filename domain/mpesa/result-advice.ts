// M-PESA's result and error codes: who can end the cause, and its explanation for staff with the remedy.
import type { PaymentEndedBy } from '../../supabase/types.ts';

export interface ResultAdvice {
  what: string;
  advice: string;
  /**
   * Who can end the cause of a refusal. `owner`: the cause is the shop's settings or account, so that no customer can pay.
   * `unknown`: a code without a documented meaning, which is the owner's as soon as several customers in a row get it
   * (`private.pause_prompts`).
   */
  endedBy: PaymentEndedBy;
}

/**
 * Where the code was sent. `request`: in the answer to a request, before any phone was involved. `result`: in a callback or a query.
 */
export type CodeSource = 'request' | 'result';

const endedBy =
  (who: PaymentEndedBy) =>
  (what: string, advice: string): ResultAdvice => ({ what, advice, endedBy: who });
const byCustomer = endedBy('customer');
const byTime = endedBy('time');
const byOwner = endedBy('owner');
const unknown = endedBy('unknown');

const wrongPasskey = byOwner(
  'Shortcode and passkey do not belong together.',
  'Check MPESA_SHORTCODE and MPESA_PASSKEY.',
);
const wrongConsumerKey = byOwner(
  'M-PESA refused the consumer key and secret.',
  'Check MPESA_CONSUMER_KEY and MPESA_CONSUMER_SECRET: copy both again from the app in the Daraja portal.',
);
const wrongToken = byOwner(
  'M-PESA refuses the access of this app.',
  'Check MPESA_CONSUMER_KEY, MPESA_CONSUMER_SECRET and MPESA_ENV, and that no other system uses the same app.',
);
const productMissing = byOwner(
  'The Daraja app lacks this API.',
  'Add the product Lipa na M-PESA Online (M-PESA Express) to the app of MPESA_CONSUMER_KEY in the Daraja portal.',
);
const wrongShortcode = byOwner(
  'M-PESA does not accept the shortcode, the till or the kind of payment.',
  'Check MPESA_SHORTCODE, MPESA_TILL and MPESA_TRANSACTION_TYPE.',
);
const wrongAddress = byOwner(
  'M-PESA called an address that does not exist.',
  'Check MPESA_ENV, and update the shop: M-PESA may have moved this API.',
);
const wrongRequest = byOwner(
  'M-PESA does not accept a field that the shop fills in itself.',
  'No setting changes it: update the shop, and report the code.',
);
const openSession = byCustomer(
  'Another M-PESA session is open on the phone.',
  'Close it, wait a minute and try again.',
);
const busy = byTime('M-PESA is busy.', 'Nothing was sent. Try again in a minute.');
const down = byTime('M-PESA is down for a while.', 'Try again in a few minutes.');

// Daraja, result codes of a prompt.
const adviceByCode: Record<string, ResultAdvice> = {
  '0': byCustomer('The money came.', 'Everything works.'),
  '1': byCustomer('There is not enough money on the phone.', 'Top up and try again. The settings are right.'),
  '2': byCustomer('The amount is below what M-PESA takes.', 'Try a larger amount.'),
  '3': byCustomer(
    'The amount is above what M-PESA takes at once.',
    'Ask the customer to pay in parts, by hand.',
  ),
  '4': byCustomer('The payer has reached their limit of the day.', 'Try another phone, or tomorrow.'),
  '8': byOwner('The account of the shop is full.', 'Move money out of the till or paybill, then try again.'),
  '17': byTime('The same amount was paid from this phone a moment ago.', 'Wait two minutes and try again.'),
  '1001': openSession,
  '1019': byCustomer('The prompt was not answered in time.', 'Try again and enter the PIN within a minute.'),
  '1025': byTime('M-PESA could not send the prompt.', 'Try again in a minute.'),
  '9999': byTime('M-PESA could not send the prompt.', 'Try again in a minute.'),
  '1031': byCustomer('The prompt was cancelled or not answered.', 'Try again. The settings are right.'),
  '1032': byCustomer('The prompt was cancelled or not answered.', 'Try again. The settings are right.'),
  '1036': byCustomer('The phone did not answer.', 'Check that it is on and has network.'),
  '1037': byCustomer(
    'The phone did not answer.',
    'Check that it is on and has network. An old SIM card must be updated: dial *234#.',
  ),
  '2001': byCustomer('The PIN was wrong.', 'Try again with the right PIN. The settings are right.'),
  '8006': byCustomer('The PIN is locked.', 'The owner of the phone calls 100 or 200.'),
  '2006': byOwner(
    "The account is not active, or not yours to use (M-PESA's code for an account's status).",
    'Ask M-PESA Business support whether the shortcode is active.',
  ),
  '2028': byOwner(
    'The shortcode may not receive this kind of payment.',
    'Check MPESA_TRANSACTION_TYPE: a till takes CustomerBuyGoodsOnline with its store number as MPESA_SHORTCODE, a paybill CustomerPayBillOnline.',
  ),
  '2029': byOwner(
    'M-PESA turned it down without a reason.',
    'Check shortcode and till, then ask M-PESA Business support.',
  ),
  SFC_IC0003: byOwner(
    'The till or operator does not exist.',
    'Check MPESA_SHORTCODE and MPESA_TILL: of a till, the first is the store (head office) number.',
  ),
  '26': busy,
  '1101': wrongRequest,
  '1102': wrongRequest,
  E3008: byOwner(
    "M-PESA's test system prompts no other phone than its own.",
    'Set MPESA_ENV to production for real customers.',
  ),
  R000001: byCustomer(
    'M-PESA says that this money was sent back already.',
    'Look it up in the M-PESA portal.',
  ),
  R000002: byCustomer(
    'M-PESA does not know this receipt as a payment to this shop.',
    'Send it back by hand.',
  ),
  '21': byOwner(
    'The initiator may not send money back.',
    "Give it the role 'Org Reversals Initiator' in the M-PESA portal.",
  ),
  initiator_missing: byOwner(
    'No initiator is set.',
    'Set MPESA_INITIATOR_NAME and MPESA_INITIATOR_PASSWORD.',
  ),
  certificate_wrong: byOwner(
    'MPESA_CERTIFICATE is no certificate.',
    'Download it again from the Daraja portal.',
  ),

  // Daraja, error codes of a request.
  mpesa_unreachable: byTime('M-PESA could not be reached.', 'Nothing was sent. Try again in a minute.'),
  '400.002.05': unknown('M-PESA could not read the request.', 'Update the shop if it stays so.'),
  '400.003.01': wrongToken,
  '401.002.01': wrongToken,
  '401.003.01': wrongToken,
  '404.001.03': wrongToken,
  '404.001.04': wrongToken,
  http_401: wrongToken,
  '400.008.01': wrongConsumerKey,
  '400.008.02': wrongConsumerKey,
  '404.001.01': wrongAddress,
  '404.003.01': wrongAddress,
  http_404: wrongAddress,
  '405.001': wrongRequest,
  http_403: unknown(
    "M-PESA's firewall turned the shop away.",
    'It often lasts minutes. If it stays so, ask M-PESA to admit the address of this server.',
  ),
  http_429: byTime('M-PESA received too many requests.', 'Nothing was sent. Try again in a minute.'),
  '500.003.02': busy,
  '500.003.03': byTime('The quota of requests is used up.', 'Nothing was sent. Try again later.'),
  '500.003.1001': down,
};

interface Rule {
  code: RegExp;
  text: RegExp;
  source?: CodeSource;
  advice: ResultAdvice;
}

const any = /^/;
// Codes with several meanings, by M-PESA's description. The first that applies counts.
const rules: readonly Rule[] = [
  { code: any, text: /wrong credentials/i, advice: wrongPasskey },
  {
    code: any,
    text: /merchant does not exist/i,
    advice: byOwner(
      'M-PESA does not know the shortcode.',
      'Check MPESA_SHORTCODE, and that MPESA_ENV is the right one.',
    ),
  },
  { code: any, text: /lock subscriber/i, advice: openSession },
  { code: any, text: /no access token: HTTP 40[0-3]/i, advice: wrongConsumerKey },
  { code: /^(40[0134]\.|http_40[13]$)/, text: /no api ?product match/i, advice: productMissing },
  // "Bad Request - Invalid CallBackURL": the field's name says whose value it is.
  {
    code: /^400\./,
    text: /invalid (call ?back ?url|(confirmation|validation|result|queue ?time ?out) ?url)/i,
    advice: byOwner(
      'M-PESA does not accept the address to which it reports payments.',
      'Check PUBLIC_URL: https, reachable from outside, and without words such as mpesa, safaricom, sql or query.',
    ),
  },
  {
    code: /^400\./,
    text: /invalid (business ?)?short ?code|invalid (party ?b|transaction ?type|receiver ?party)/i,
    advice: wrongShortcode,
  },
  { code: /^400\./, text: /invalid (password|timestamp)/i, advice: wrongPasskey },
  {
    code: /^400\./,
    text: /invalid (phone ?number|party ?a|msisdn)/i,
    advice: byCustomer('M-PESA does not accept this phone number.', 'Pay from another phone.'),
  },
  {
    code: /^400\./,
    text: /invalid amount/i,
    advice: byCustomer('M-PESA does not take this amount at once.', 'Pay in parts, by hand.'),
  },
  {
    code: /^400\./,
    text: /invalid (account ?reference|transaction ?desc\w*|remarks|command ?id)/i,
    advice: wrongRequest,
  },
  {
    code: /^400\./,
    text: /invalid (initiator|security ?credential)/i,
    advice: byOwner(
      'The initiator or its password is wrong.',
      'Check MPESA_INITIATOR_NAME, its password and the certificate.',
    ),
  },
  {
    code: /^mpesa_unreachable$/,
    text: /CERT|SELF_SIGNED|UNABLE_TO/,
    advice: unknown(
      'The connection to M-PESA is not trusted.',
      'Check the clock of this server, and what stands between it and the Internet.',
    ),
  },
  // Of a prompt, 2001 is a wrong PIN. Before a phone was involved, it is about the shop's account.
  { code: /^(1|2001)$/, text: /initiator/i, source: 'request', advice: wrongPasskey },
  { code: /^(2001|8006)$/, text: any, source: 'request', advice: wrongPasskey },
  { code: any, text: /product assignment|not permitted according/i, advice: wrongShortcode },
  { code: /^403\./, text: any, advice: productMissing },
  { code: /^(http_5\d\d|503\b.*)$/, text: any, advice: down },
];

/**
 * Explains a result or error code to staff, and classifies it by who can end its cause (Daraja, result codes and error codes; the
 * fields of 400.002.02 and the messages of 500.001.1001 from public logs).
 * @param code M-PESA's, Daraja's or ours; null when there is none
 * @param description M-PESA's description
 * @param source where the code was sent. Default: a result
 * @returns `unknown` as `endedBy` for a code that is not documented
 */
export function adviseOnResult(
  code: string | null | undefined,
  description?: string | null,
  source: CodeSource = 'result',
): ResultAdvice {
  const text = description ?? '';
  const key = code?.trim() ?? '';
  const rule = rules.find(
    (one) => one.code.test(key) && one.text.test(text) && (one.source === undefined || one.source === source),
  );
  if (rule) return rule.advice;
  const advice = Object.hasOwn(adviceByCode, key) ? adviceByCode[key] : undefined;
  return (
    advice ??
    unknown(
      text || 'M-PESA gave a reason that is not known here.',
      'Try again, and look at the log if it stays so.',
    )
  );
}

const ofReversals: Record<string, ResultAdvice> = {
  '1': byOwner(
    'There is not enough money in the account of the shop.',
    'Top it up, then ask for the refund again.',
  ),
  '11': byOwner(
    'The account of the shop is in a state that allows no refunds.',
    'Ask M-PESA Business support.',
  ),
  '2001': byOwner(
    'The initiator or its password is wrong.',
    'Check MPESA_INITIATOR_NAME, its password and the certificate.',
  ),
  '8006': byOwner('The initiator is locked.', 'Unlock it in the M-PESA portal and set a new password.'),
};

/** The same for a refund, where some codes have another meaning. */
export function adviseOnRefund(code: string | null | undefined, description?: string | null): ResultAdvice {
  return (code && Object.hasOwn(ofReversals, code) && ofReversals[code]) || adviseOnResult(code, description);
}
