// The statement of the last 48 hours: every received payment, with or without a prompt (Daraja, Pull Transactions).

import { asObject, type JsonObject, storableText } from '../request-body.ts';
import { type Registration, registrationOf } from './c2b-registration.ts';
import type { DarajaClient } from './client.ts';
import { centsOf, darajaDateTime, readDarajaTime } from './field-formats.ts';
import { classifyReply, type Refused, type Unknown } from './request-outcome.ts';

const REGISTER_PATH = '/pulltransactions/v1/register';
const QUERY_PATH = '/pulltransactions/v1/query';
/** Maximum number of pages, in case the statement never ends. */
const MAX_PAGES = 500;

/** One payment of the statement. */
export interface StatementLine {
  receipt: string;
  /** Cents. */
  receivedCents: number;
  /** The account number that the payer typed, or the prompt's AccountReference; '' without one. */
  reference: string;
  /** As M-PESA sends it: in full, masked, or null. */
  msisdn: string | null;
  /** The payer's name as M-PESA sends it; null without one. */
  sender: string | null;
  transactedAt: Date;
  /** The line as received. */
  raw: JsonObject;
}

/**
 * `lines` of a refused or unknown pull are those of the previous pages. Lines without a readable receipt, amount or time
 * are in `unreadable`: they may be payments.
 */
export type Statement = ({ kind: 'pulled' } | Refused | Unknown) & {
  lines: StatementLine[];
  unreadable: JsonObject[];
};

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
 * @returns `pulled` only after the last page; a receipt on two pages is returned once
 */
export async function pullStatement(
  daraja: DarajaClient,
  period: { from: Date; to: Date },
): Promise<Statement> {
  const lines = new Map<string, StatementLine>();
  const unreadable: JsonObject[] = [];
  let offset = 0;
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
    const answer = { lines: [...lines.values()], unreadable };
    if (outcome.kind !== 'accepted') return { ...outcome, ...answer };
    const found = entriesOf(outcome.fields.Response);
    const linesBefore = lines.size;
    for (const raw of found) {
      const line = readStatementLine(raw);
      if (line) lines.set(line.receipt, line);
      else unreadable.push(raw);
    }
    // No new lines means the end, also if the offset is ignored.
    if (found.length === 0 || lines.size === linesBefore) {
      return { kind: 'pulled', lines: [...lines.values()], unreadable };
    }
    offset += found.length;
  }
  return {
    kind: 'unknown',
    reason: 'the statement does not end',
    body: '',
    lines: [...lines.values()],
    unreadable,
  };
}

/** Payments are in nested lists, sometimes in one list; an empty statement may be the text `[[]]`. */
function entriesOf(response: unknown): JsonObject[] {
  if (!Array.isArray(response)) return [];
  return response
    .flat(2)
    .map(asObject)
    .filter((entry) => entry !== null);
}

/**
 * Reads a line of a statement.
 * @returns null without a readable receipt, amount or time
 */
export function readStatementLine(raw: JsonObject): StatementLine | null {
  const receipt = storableText(raw.transactionId, 40)?.trim();
  const receivedCents = centsOf(raw.amount);
  const transactedAt = readDarajaTime(raw.trxDate);
  if (!receipt || receivedCents === null || !transactedAt) return null;
  return {
    receipt,
    receivedCents,
    reference: storableText(raw.billreference, 100)?.trim() ?? '',
    msisdn: storableText(raw.msisdn, 40)?.trim() || null,
    sender: storableText(raw.sender, 200)?.trim() || null,
    transactedAt,
    raw,
  };
}
