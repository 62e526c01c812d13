// Answers the Pull Transactions API: incoming money of the last 48 hours and its reversals, in pages.

import type { Faults } from '../faults/faults.ts';
import { spell } from '../faults/spellings.ts';
import { readPhoneNumber } from '../phone/phone-number.ts';
import { isAcceptedCallbackUrl } from '../requests/callback-url.ts';
import { badRequest, type DarajaError, drawRequestId } from '../requests/daraja-errors.ts';
import { type Fields, fieldText } from '../requests/request-fields.ts';
import type { SimulatorSettings } from '../settings.ts';
import type { SimulatorClock } from './clock.ts';
import type { Ledger, Transaction } from './ledger.ts';
import { readNairobiDateTime } from './nairobi-time.ts';

const REACHES_BACK_MS = 48 * 60 * 60 * 1000;

type StatementDependencies = { settings: SimulatorSettings; clock: SimulatorClock; ledger: Ledger };

export async function registerForStatements(
  fields: Fields,
  { settings, clock, ledger }: StatementDependencies,
): Promise<Response | DarajaError> {
  const shortcode = fieldText(fields, 'ShortCode');
  const callbackUrl = fieldText(fields, 'CallBackURL');
  const nominatedNumber = readPhoneNumber(fieldText(fields, 'NominatedNumber'));
  if (![settings.shortcode, settings.tillNumber].includes(shortcode)) return badRequest('ShortCode');
  if (fieldText(fields, 'RequestType') !== 'Pull') return badRequest('RequestType');
  if (nominatedNumber === null) return badRequest('NominatedNumber');
  if (!isAcceptedCallbackUrl(callbackUrl)) return badRequest('CallBackURL');
  const isNew = ledger.statement() === null;
  if (isNew) {
    await ledger.write({
      kind: 'statement registered',
      at: clock.now(),
      shortcode,
      nominatedNumber,
      callbackUrl,
    });
  }
  return Response.json({
    ResponseRefID: drawRequestId(),
    ResponseStatus: isNew ? '1000' : '1001',
    ShortCode: shortcode,
    ResponseDescription: isNew ? 'ShortCode Registered Successfully' : 'ShortCode already Registered',
  });
}

export async function answerStatement(
  fields: Fields,
  { settings, clock, ledger, faults }: StatementDependencies & { faults: Faults },
): Promise<Response | DarajaError> {
  if (ledger.statement()?.shortcode !== fieldText(fields, 'ShortCode')) return badRequest('ShortCode');
  const from = readNairobiDateTime(fieldText(fields, 'StartDate'));
  const to = readNairobiDateTime(fieldText(fields, 'EndDate'));
  const offsetText = fieldText(fields, 'OffSetValue');
  if (from === null) return badRequest('StartDate');
  if (to === null || to < from) return badRequest('EndDate');
  if (!/^\d{1,9}$/.test(offsetText)) return badRequest('OffSetValue');
  const earliest = Math.max(from, clock.now() - REACHES_BACK_MS);
  const offset = Number(offsetText);
  const page = linesOf(ledger, settings)
    // Both ends are whole seconds and inclusive.
    .filter(({ at }) => at >= earliest && at < to + 1000)
    .slice(offset, offset + settings.statementPageSize);
  const lines = page.flatMap(({ line }) => {
    const fault = faults.takeMessageFault('lines');
    if (fault?.kind === 'drop') return [];
    return [fault?.kind === 'spell' ? spell(line, fault.spelling) : line];
  });
  return Response.json({
    ResponseRefID: drawRequestId(),
    ResponseCode: page.length > 0 ? '1000' : '1001',
    ResponseMessage: page.length > 0 ? 'Success' : 'No transactions found for the given period',
    Response: page.length > 0 ? [lines] : '[[]]',
  });
}

/** Everything that the statement lists, in order of time. */
function linesOf(ledger: Ledger, settings: SimulatorSettings): { at: number; line: unknown }[] {
  const payments = ledger
    .transactions()
    .map((payment) => ({ at: payment.at, line: writeLine(payment, settings) }));
  const reversals = ledger
    .transactions()
    .flatMap((payment) =>
      payment.reversal
        ? [{ at: payment.reversal.at, line: writeReversal(payment, payment.reversal, settings) }]
        : [],
    );
  return [...payments, ...reversals, ...ledger.addedLines()].sort((one, other) => one.at - other.at);
}

/** The API's own format: lower-case keys, the phone as a number, the amount as a string. */
function writeLine(transaction: Transaction, { merchantName }: SimulatorSettings) {
  return {
    transactionId: transaction.receipt,
    trxDate: new Date(transaction.at).toISOString().replace(/\.\d+/, ''),
    msisdn: Number(transaction.phone),
    sender: transaction.payerName.toUpperCase(),
    transactiontype: transaction.method === 'till' ? 'c2b-buy-goods-debit' : 'c2b-pay-bill-debit',
    billreference: transaction.reference,
    amount: transaction.amount.toFixed(2),
    organizationname: merchantName,
  };
}

/** A reversal has a receipt of its own, the account of the payment, and a negative amount. */
function writeReversal(
  payment: Transaction,
  reversal: NonNullable<Transaction['reversal']>,
  settings: SimulatorSettings,
) {
  return {
    ...writeLine(payment, settings),
    transactionId: reversal.receipt,
    trxDate: new Date(reversal.at).toISOString().replace(/\.\d+/, ''),
    transactiontype: payment.method === 'till' ? 'Buy Goods Reversal' : 'Pay Bill Reversal',
    amount: (-reversal.amount).toFixed(2),
    originalTransactionId: payment.receipt,
  };
}
