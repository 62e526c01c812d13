// Reads and validates the body of an STK push.
import { isAcceptedCallbackUrl } from './callback-url.ts';
import { checkMerchant } from './credentials.ts';
import { badRequest, type DarajaError } from './daraja-errors.ts';
import { type Fields, fieldText } from './request-fields.ts';

export type PushRequest = {
  shortcode: string;
  transactionType: string;
  amount: number;
  /** 254 and nine digits. */
  phone: string;
  partyB: string;
  callbackUrl: string;
  accountReference: string;
  transactionDesc: string;
};

const LARGEST_AMOUNT = 250_000;

/** Parses a push, or returns Daraja's first validation error. */
export function readPushRequest(
  fields: Fields,
  merchant: { shortcode: string; passkey: string },
): { push: PushRequest } | { error: DarajaError } {
  const merchantError = checkMerchant(fields, merchant);
  if (merchantError) return { error: merchantError };

  const push: PushRequest = {
    shortcode: fieldText(fields, 'BusinessShortCode'),
    transactionType: fieldText(fields, 'TransactionType'),
    amount: readWholeAmount(fieldText(fields, 'Amount')),
    phone: fieldText(fields, 'PhoneNumber'),
    partyB: fieldText(fields, 'PartyB'),
    callbackUrl: fieldText(fields, 'CallBackURL'),
    accountReference: fieldText(fields, 'AccountReference'),
    transactionDesc: fieldText(fields, 'TransactionDesc'),
  };
  const wrongField = findWrongField(push, fieldText(fields, 'PartyA'));
  return wrongField ? { error: badRequest(wrongField) } : { push };
}

function readWholeAmount(text: string): number {
  return /^\d{1,9}$/.test(text) ? Number(text) : Number.NaN;
}

function findWrongField(push: PushRequest, partyA: string): string | null {
  if (!['CustomerPayBillOnline', 'CustomerBuyGoodsOnline'].includes(push.transactionType))
    return 'TransactionType';
  if (!(push.amount >= 1 && push.amount <= LARGEST_AMOUNT)) return 'Amount';
  if (!/^254[17]\d{8}$/.test(partyA)) return 'PartyA';
  if (!/^\d{5,7}$/.test(push.partyB)) return 'PartyB';
  if (!/^254[17]\d{8}$/.test(push.phone)) return 'PhoneNumber';
  if (!isAcceptedCallbackUrl(push.callbackUrl)) return 'CallBackURL';
  if (!/^[A-Za-z0-9]{1,12}$/.test(push.accountReference)) return 'AccountReference';
  // The portal calls the field optional; without it the sandbox complains about "Remarks".
  if (push.transactionDesc === '') return 'Remarks';
  if (push.transactionDesc.length > 13) return 'TransactionDesc';
  return null;
}
