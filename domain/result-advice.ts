// Explanations of M-PESA's result codes for staff, with the remedy.

export interface ResultAdvice {
  what: string;
  advice: string;
  /** Whether the cause is the shop's settings or account, so that no customer can pay. */
  isOurs: boolean;
}

const customers = (what: string, advice: string): ResultAdvice => ({ what, advice, isOurs: false });
const shopProblem = (what: string, advice: string): ResultAdvice => ({ what, advice, isOurs: true });

// Daraja, result codes of a prompt.
const adviceByCode: Record<string, ResultAdvice> = {
  '0': customers('The money came.', 'Everything works.'),
  '1': customers('There is not enough money on the phone.', 'Top up and try again. The settings are right.'),
  '2': customers('The amount is below what M-PESA takes.', 'Try a larger amount.'),
  '3': customers(
    'The amount is above what M-PESA takes at once.',
    'Ask the customer to pay in parts, by hand.',
  ),
  '4': customers('The payer has reached their limit of the day.', 'Try another phone, or tomorrow.'),
  '8': shopProblem(
    'The account of the shop is full.',
    'Move money out of the till or paybill, then try again.',
  ),
  '17': customers(
    'The same amount was paid from this phone a moment ago.',
    'Wait two minutes and try again.',
  ),
  '1001': customers('Another M-PESA session is open on the phone.', 'Close it, wait a minute and try again.'),
  '1019': customers('The prompt was not answered in time.', 'Try again and enter the PIN within a minute.'),
  '1025': customers('M-PESA could not send the prompt.', 'Try again in a minute.'),
  '9999': customers('M-PESA could not send the prompt.', 'Try again in a minute.'),
  '1031': customers('The prompt was cancelled or not answered.', 'Try again. The settings are right.'),
  '1032': customers('The prompt was cancelled or not answered.', 'Try again. The settings are right.'),
  '1036': customers('The phone did not answer.', 'Check that it is on and has network.'),
  '1037': customers(
    'The phone did not answer.',
    'Check that it is on and has network. An old SIM card must be updated: dial *234#.',
  ),
  '2001': customers('The PIN was wrong.', 'Try again with the right PIN. The settings are right.'),
  '8006': customers('The PIN is locked.', 'The owner of the phone calls 100 or 200.'),
  '2006': shopProblem(
    "The account is not active, or not yours to use (M-PESA's code for an account's status).",
    'Ask M-PESA Business support whether the shortcode is active.',
  ),
  '2028': shopProblem(
    'The shortcode may not receive this kind of payment.',
    'Check MPESA_TRANSACTION_TYPE: a till takes CustomerBuyGoodsOnline with its store number as MPESA_SHORTCODE, a paybill CustomerPayBillOnline.',
  ),
  '2029': shopProblem(
    'M-PESA turned it down without a reason.',
    'Check shortcode and till, then ask M-PESA Business support.',
  ),
  SFC_IC0003: shopProblem(
    'The till or operator does not exist.',
    'Check MPESA_SHORTCODE and MPESA_TILL: of a till, the first is the store (head office) number.',
  ),
  '400.008.01': shopProblem(
    'The consumer key or secret is wrong.',
    'Copy both again from the app in the Daraja portal.',
  ),
  '400.008.02': shopProblem(
    'The consumer key or secret is wrong.',
    'Copy both again from the app in the Daraja portal.',
  ),
  R000001: customers(
    'M-PESA says that this money was sent back already.',
    'Look it up in the M-PESA portal.',
  ),
  R000002: customers('M-PESA does not know this receipt as a payment to this shop.', 'Send it back by hand.'),
  '21': shopProblem(
    'The initiator may not send money back.',
    "Give it the role 'Org Reversals Initiator' in the M-PESA portal.",
  ),
  initiator_missing: shopProblem(
    'No initiator is set.',
    'Set MPESA_INITIATOR_NAME and MPESA_INITIATOR_PASSWORD.',
  ),
  certificate_wrong: shopProblem(
    'MPESA_CERTIFICATE is no certificate.',
    'Download it again from the Daraja portal.',
  ),
  mpesa_unreachable: customers('M-PESA could not be reached.', 'Nothing was sent. Try again in a minute.'),
  http_429: customers('M-PESA received too many requests.', 'Nothing was sent. Try again in a minute.'),
  '500.003.02': customers('M-PESA is busy.', 'Nothing was sent. Try again in a minute.'),
};

/**
 * Explains a result or error code to staff.
 * @param code M-PESA's, Daraja's or ours; null when there is none
 * @param description M-PESA's description
 */
export function adviseOnResult(code: string | null | undefined, description?: string | null): ResultAdvice {
  const text = description ?? '';
  if (/wrong credentials/i.test(text)) {
    return shopProblem(
      'Shortcode and passkey do not belong together.',
      'Check MPESA_SHORTCODE and MPESA_PASSKEY.',
    );
  }
  if (/merchant does not exist/i.test(text)) {
    return shopProblem(
      'M-PESA does not know the shortcode.',
      'Check MPESA_SHORTCODE, and that MPESA_ENV is the right one.',
    );
  }
  if (/no access token: HTTP 40[0-3]/i.test(text)) {
    return shopProblem(
      'M-PESA refused the consumer key and secret.',
      'Copy both again from the app in the Daraja portal.',
    );
  }
  if (/lock subscriber/i.test(text)) return adviceByCode['1001'] as ResultAdvice;
  const advice = code && Object.hasOwn(adviceByCode, code) ? adviceByCode[code] : undefined;
  return (
    advice ??
    customers(
      text || 'M-PESA gave a reason that is not known here.',
      'Try again, and look at the log if it stays so.',
    )
  );
}

const ofReversals: Record<string, ResultAdvice> = {
  '1': shopProblem(
    'There is not enough money in the account of the shop.',
    'Top it up, then ask for the refund again.',
  ),
  '11': shopProblem(
    'The account of the shop is in a state that allows no refunds.',
    'Ask M-PESA Business support.',
  ),
  '2001': shopProblem(
    'The initiator or its password is wrong.',
    'Check MPESA_INITIATOR_NAME, its password and the certificate.',
  ),
  '8006': shopProblem('The initiator is locked.', 'Unlock it in the M-PESA portal and set a new password.'),
};

/** The same for a refund, where some codes have another meaning. */
export function adviseOnRefund(code: string | null | undefined, description?: string | null): ResultAdvice {
  return (code && Object.hasOwn(ofReversals, code) && ofReversals[code]) || adviseOnResult(code, description);
}
