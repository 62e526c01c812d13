// Sends validations and confirmations of received money to the shop (C2B).
import { createHash } from 'node:crypto';
import type { SimulatorClock } from '../ledger/clock.ts';
import type { Ledger, Transaction } from '../ledger/ledger.ts';
import { compactNairobiTime } from '../ledger/nairobi-time.ts';
import type { C2bVersion, SimulatorSettings } from '../settings.ts';
import type { OutgoingMessages } from './outgoing-messages.ts';

type Confirmed = Omit<Transaction, 'checkoutRequestId' | 'reversal'>;

/** JSON of a confirmation or a validation. Amounts are strings with decimals; the phone number is masked, or hashed by v1. */
export function writeConfirmation(payment: Confirmed, shortcode: string, version: C2bVersion): string {
  const [firstName = '', lastName = ''] = payment.payerName.split(' ');
  return JSON.stringify({
    TransactionType: payment.method === 'till' ? 'Buy Goods' : 'Pay Bill',
    TransID: payment.receipt,
    TransTime: compactNairobiTime(payment.at),
    TransAmount: payment.amount.toFixed(2),
    BusinessShortCode: shortcode,
    BillRefNumber: payment.reference.slice(0, 20),
    InvoiceNumber: '',
    OrgAccountBalance: '',
    ThirdPartyTransID: '',
    MSISDN:
      version === 'v1' ? createHash('sha256').update(payment.phone).digest('hex') : maskPhone(payment.phone),
    FirstName: firstName,
    MiddleName: '',
    LastName: lastName,
  });
}

/** `2547 ***** 126`, as M-PESA masks it. */
function maskPhone(phone: string): string {
  return `${phone.slice(0, 4)} ***** ${phone.slice(-3)}`;
}

/**
 * Plans the confirmation of a payment. Resolves when it is in the ledger; does nothing while no URL is registered.
 */
export async function confirm(
  payment: Confirmed,
  dependencies: {
    settings: SimulatorSettings;
    clock: SimulatorClock;
    ledger: Ledger;
    outgoing: OutgoingMessages;
  },
  isDropped = false,
): Promise<void> {
  const { settings, clock, ledger, outgoing } = dependencies;
  const urls = ledger.urls();
  if (!urls) return;
  await outgoing.plan({
    purpose: 'confirmation',
    about: payment.receipt,
    url: urls.confirmationUrl,
    body: writeConfirmation(payment, urls.shortcode, settings.c2bVersion),
    dueAt: clock.now() + settings.confirmationDelayMs,
    isDropped,
  });
}
