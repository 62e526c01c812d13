// Payments to the till or paybill from the phone menu: validated by the shop, booked, confirmed.
import type { SimulatorClock } from '../ledger/clock.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { PaymentMade } from '../ledger/ledger-entries.ts';
import { payerNameOf } from '../ledger/payer-name.ts';
import { drawReceipt } from '../ledger/receipt.ts';
import { confirm, writeConfirmation } from '../requests/confirmations.ts';
import type { OutgoingMessages } from '../requests/outgoing-messages.ts';
import { type Fields, fieldText } from '../requests/request-fields.ts';
import type { ShopMessages } from '../requests/shop-messages.ts';
import type { SimulatorSettings } from '../settings.ts';
import { readPhoneNumber } from './phone-number.ts';

export type PaymentDependencies = {
  settings: SimulatorSettings;
  clock: SimulatorClock;
  ledger: Ledger;
  outgoing: OutgoingMessages;
  messages: ShopMessages;
};

export type PaymentWithoutPrompt = { phone: string; number: string; amount: number; reference: string };

const LARGEST_AMOUNT = 250_000;

/**
 * Parses a payment from a phone: `{phone, number, amount, reference?}`.
 * @returns a sentence when the body is invalid
 */
export function readPaymentWithoutPrompt(
  fields: Fields | null,
  settings: SimulatorSettings,
): PaymentWithoutPrompt | string {
  if (!fields) return 'Send {phone, number, amount, reference}.';
  const phone = readPhoneNumber(fieldText(fields, 'phone'));
  const number = fieldText(fields, 'number');
  const amountText = fieldText(fields, 'amount');
  const reference = fieldText(fields, 'reference');
  if (phone === null) return 'phone is a Kenyan mobile number.';
  if (number !== settings.shortcode && number !== settings.tillNumber) {
    return `number is the paybill ${settings.shortcode} or the till ${settings.tillNumber}.`;
  }
  const amount = /^\d{1,6}$/.test(amountText) ? Number(amountText) : 0;
  if (amount < 1 || amount > LARGEST_AMOUNT) return 'amount is a whole number of shillings from 1 to 250000.';
  if (number === settings.shortcode && reference === '') return 'A paybill takes an account (reference).';
  if (reference.length > 20) return 'reference has 20 characters at most.';
  return { phone, number, amount, reference: number === settings.shortcode ? reference : '' };
}

/**
 * Makes the payment unless the shop's validation declines it. Resolves when it is in the ledger.
 * @returns the recorded payment, or the result code of the validation
 */
export async function payByHand(
  payment: PaymentWithoutPrompt,
  dependencies: PaymentDependencies,
): Promise<PaymentMade | { declined: string }> {
  const { settings, clock, ledger } = dependencies;
  const at = clock.now();
  const recorded: PaymentMade = {
    kind: 'payment made',
    at,
    receipt: drawReceipt(at, ledger.hasReceipt),
    payerName: payerNameOf(payment.phone),
    method: payment.number === settings.shortcode ? 'paybill' : 'till',
    ...payment,
  };
  const declined = await validateWithShop(recorded, dependencies);
  if (declined !== null) {
    await ledger.write({ kind: 'payment declined', at, ...payment, resultCode: declined });
    return { declined };
  }
  const written = ledger.write(recorded);
  await Promise.all([written, confirm(recorded, dependencies)]);
  return recorded;
}

/** The validation's result code if it declines; null when the payment may proceed. */
async function validateWithShop(
  recorded: PaymentMade,
  { settings, ledger, messages }: PaymentDependencies,
): Promise<string | null> {
  const urls = ledger.urls();
  if (!urls || !settings.asksValidation) return null;
  const { status, text } = await messages.post(
    urls.validationUrl,
    writeConfirmation(recorded, urls.shortcode, settings.c2bVersion),
  );
  const code = status !== null && status < 300 ? readResultCode(text) : null;
  // An unreadable response counts as no response.
  if (code === null) return urls.responseType === 'Completed' ? null : 'no answer';
  return code === '0' ? null : code;
}

function readResultCode(text: string): string | null {
  try {
    const { ResultCode } = JSON.parse(text) as Fields;
    return typeof ResultCode === 'string' || typeof ResultCode === 'number' ? String(ResultCode) : null;
  } catch {
    return null;
  }
}
