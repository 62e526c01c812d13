// The statement of the last 48 hours: every payment that came in, by prompt or by hand (Daraja, Pull Transactions).

import type { Registration } from './c2b-registration.ts';
import type { DarajaClient } from './daraja-client.ts';
import { asFields, type Fields, storableText } from './json-body.ts';
import { darajaDateTime, readDarajaTime } from './merchant-password.ts';
import { judgeRequest, type Refused, type Unknown } from './request-verdict.ts';
import { centsOf } from './stk-callback.ts';

const REGISTER_PATH = '/pulltransactions/v1/register';
const QUERY_PATH = '/pulltransactions/v1/query';
/** Only against an answer that never ends. */
const MOST_PAGES = 500;

/** One payment of the statement. */
export interface StatementLine {
  receipt: string;
  /** Cents. */
  receivedCents: number;
  /** What the payer gave as account, or the prompt's AccountReference; '' for none. */
  reference: string;
  /** As M-PESA writes it: in full, masked, or null. */
  msisdn: string | null;
  /** The payer's name or whatever M-PESA calls the sender; null for none. */
  sender: string | null;
  transactedAt: Date;
  /** The line as it came. */
  raw: Fields;
}

/**
 * `lines` of a refused or unknown pull are those of the pages before. Lines without a receipt, an amount or a time that
 * can be read are in `unreadable`: there may be money in them.
 */
export type Statement = ({ kind: 'pulled' } | Refused | Unknown) & {
  lines: StatementLine[];
  unreadable: Fields[];
};

/**
 * Registers our shortcode for statements, once. Never throws; asking again is harmless.
 * @param registration `nominatedNumber`: the phone in the shortcode's own records at M-PESA, `254…`
 */
export async function registerStatement(
  daraja: DarajaClient,
  registration: { nominatedNumber: string; callbackUrl: string },
): Promise<Registration> {
  const verdict = judgeRequest(
    await daraja.post(REGISTER_PATH, {
      ShortCode: daraja.settings.shortcode,
      RequestType: 'Pull',
      NominatedNumber: registration.nominatedNumber,
      CallBackURL: registration.callbackUrl,
    }),
    { field: 'ResponseStatus', taken: ['1000'] },
  );
  if (verdict.kind === 'taken') return { kind: 'registered', body: verdict.body };
  return /already registered/i.test(verdict.body)
    ? { kind: 'already registered', body: verdict.body }
    : verdict;
}

/**
 * Reads the whole statement of a stretch of time, page by page. Never throws.
 * @param period at most the last 48 hours
 * @returns `pulled` only when the last page was reached; a receipt that is on two pages comes once
 */
export async function pullStatement(
  daraja: DarajaClient,
  period: { from: Date; to: Date },
): Promise<Statement> {
  const lines = new Map<string, StatementLine>();
  const unreadable: Fields[] = [];
  let offset = 0;
  for (let page = 0; page < MOST_PAGES; page += 1) {
    const verdict = judgeRequest(
      await daraja.post(QUERY_PATH, {
        ShortCode: daraja.settings.shortcode,
        StartDate: darajaDateTime(period.from),
        EndDate: darajaDateTime(period.to),
        // An offset in lines, not in pages.
        OffSetValue: String(offset),
      }),
      // 1001: no (more) payments.
      { field: 'ResponseCode', taken: ['1000', '1001'] },
    );
    const answer = { lines: [...lines.values()], unreadable };
    if (verdict.kind !== 'taken') return { ...verdict, ...answer };
    const found = entriesOf(verdict.fields.Response);
    const linesBefore = lines.size;
    for (const raw of found) {
      const line = readStatementLine(raw);
      if (line) lines.set(line.receipt, line);
      else unreadable.push(raw);
    }
    // Nothing new means the end, also where an offset is not heeded.
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

/** The payments lie in lists within a list, sometimes not; an empty statement may be the text `[[]]`. */
function entriesOf(response: unknown): Fields[] {
  if (!Array.isArray(response)) return [];
  return response
    .flat(2)
    .map(asFields)
    .filter((entry) => entry !== null);
}

/**
 * One line of a statement.
 * @returns null when it lacks a receipt, an amount or a time that can be read
 */
export function readStatementLine(raw: Fields): StatementLine | null {
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
