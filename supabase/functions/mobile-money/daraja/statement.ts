// The statement of the last 48 hours: every received payment, with or without a prompt (Daraja, Pull Transactions).

import { readPayerPhone } from '../../../../domain/mpesa/payer-phone.ts';
import { normaliseReceipt } from '../../../../domain/mpesa/receipt.ts';
import { type TransactionKind, transactionKindOf } from '../../../../domain/mpesa/transaction-kind.ts';
import { asObject, storableText } from '../request-body.ts';
import { type Registration, registrationOf } from './c2b-registration.ts';
import type { DarajaClient } from './connection/client.ts';
import { classifyReply, type Refused, type Unknown } from './connection/request-outcome.ts';
import { darajaDateTime } from './fields/field-formats.ts';
import { readMoneyFields, type UnreadablePart } from './fields/money-fields.ts';

const REGISTER_PATH = '/pulltransactions/v1/register';
const QUERY_PATH = '/pulltransactions/v1/query';
/** Maximum number of pages, in case the statement never ends. */
const MAX_PAGES = 500;
/** Characters of a line that are stored. */
const MAX_LINE_LENGTH = 16_384;

/** One line of the statement. */
export interface StatementLine {
  kind: TransactionKind;
  /** Null if missing or unreadable, as the other parts. */
  receipt: string | null;
  /** Cents. */
  receivedCents: number | null;
  transactedAt: Date | null;
  /** Parts that are missing or cannot be read: the line may be a payment all the same. */
  unreadable: UnreadablePart[];
  /** The account number that the payer typed, or the prompt's AccountReference; '' without one. */
  reference: string;
  /** The receipt of the payment that this line reverses; null unless it is named. */
  reversedReceipt: string | null;
  /** In full, masked or hashed; null without one. */
  msisdn: string | null;
  /** The payer's name as M-PESA sends it; null without one. */
  sender: string | null;
  /** JSON of the line as received. */
  raw: string;
}

/** `lines` of a refused or unknown pull are those of the previous pages. */
export type Statement = ({ kind: 'pulled' } | Refused | Unknown) & { lines: StatementLine[] };

/**
 * Registers our shortcode for statements. Never throws; can be repeated.
 * @param registration `nominatedNumber`: the shortcode's registered phone at M-PESA, `254…`
 */
export async function registerStatement(
  daraja: DarajaClient,
  registration: { nominatedNumber: string; callbackUrl: string },
): Promise<Registration> {
  return registrationOf(
    classifyReply(
      await daraja.post(REGISTER_PATH, {
        ShortCode: daraja.settings.shortcode,
        RequestType: 'Pull',
        NominatedNumber: registration.nominatedNumber,
        CallBackURL: registration.callbackUrl,
      }),
      { field: 'ResponseStatus', accepted: ['1000'] },
    ),
  );
}

/**
 * Reads the whole statement of a period, page by page. Never throws.
 * @param period at most the last 48 hours
 * @returns `pulled` only after the last page; an identical line is returned once
 */
export async function pullStatement(
  daraja: DarajaClient,
  period: { from: Date; to: Date },
): Promise<Statement> {
  const lines = new Map<string, StatementLine>();
  let offset = 0;
  let previousPage = '';
  for (let page = 0; page < MAX_PAGES; page += 1) {
    const outcome = classifyReply(
      await daraja.post(QUERY_PATH, {
        ShortCode: daraja.settings.shortcode,
        StartDate: darajaDateTime(period.from),
        EndDate: darajaDateTime(period.to),
        // The offset counts lines, not pages.
        OffSetValue: String(offset),
      }),
      // 1001: no (more) payments.
      { field: 'ResponseCode', accepted: ['1000', '1001'] },
    );
    if (outcome.kind !== 'accepted') return { ...outcome, lines: [...lines.values()] };
    const found = entriesOf(outcome.fields.Response);
    if (found === null) return incomplete('a page of the statement cannot be read', lines);
    const thisPage = JSON.stringify(found);
    // The same page again means the end, too: then the offset is ignored.
    if (found.length === 0 || thisPage === previousPage)
      return { kind: 'pulled', lines: [...lines.values()] };
    for (const entry of found) lines.set(JSON.stringify(entry), readStatementLine(entry));
    previousPage = thisPage;
    offset += found.length;
  }
  return incomplete('the statement does not end', lines);
}

const incomplete = (reason: string, lines: ReadonlyMap<string, StatementLine>): Statement => ({
  kind: 'unknown',
  reason,
  body: '',
  lines: [...lines.values()],
});

/**
 * Lines are in nested lists, sometimes in one list; an empty statement may be the text `[[]]`, or have no list.
 * @returns null for anything else
 */
function entriesOf(response: unknown): unknown[] | null {
  if (response === undefined || response === null || response === '') return [];
  if (typeof response === 'string') {
    try {
      return entriesOf(JSON.parse(response));
    } catch {
      return null;
    }
  }
  if (asObject(response)) return [response];
  return Array.isArray(response) ? response.flat(2) : null;
}

/**
 * Reads a line of a statement (Daraja, Pull Transactions). Never throws.
 * @param entry the line as received
 */
export function readStatementLine(entry: unknown): StatementLine {
  const fields = asObject(entry) ?? {};
  const money = readMoneyFields({
    receipt: fields.transactionId,
    amount: fields.amount,
    time: fields.trxDate,
  });
  const original = fields.originalTransactionId ?? fields.originaltransactionid;
  return {
    kind: transactionKindOf(fields.transactiontype),
    receipt: money.receipt,
    receivedCents: money.cents,
    transactedAt: money.at,
    unreadable: [
      ...(money.receipt === null ? ['receipt' as const] : []),
      ...(money.cents === null ? ['amount' as const] : []),
      ...(money.at === null ? ['time' as const] : []),
    ],
    reference: storableText(fields.billreference, 100)?.trim() ?? '',
    reversedReceipt: normaliseReceipt(original),
    msisdn: readPayerPhone(fields.msisdn),
    sender: storableText(fields.sender, 200)?.trim() || null,
    raw: storableText(JSON.stringify(entry) ?? '', MAX_LINE_LENGTH) ?? '',
  };
}
