// What an answer of Daraja says about the request itself: taken, surely refused, or nobody knows.
import type { DarajaReply } from './daraja-client.ts';
import { type Fields, storableText } from './json-body.ts';

/** Nothing was carried out. `code` is Daraja's error code, `http_…`, or a word of ours. */
export type Refused = {
  kind: 'refused';
  code: string;
  description: string;
  body: string;
  /** How long M-PESA asks us to wait, in milliseconds; absent when it does not say. */
  retryAfterMs?: number;
};
/** It may have been carried out: it must not be repeated blindly. */
export type Unknown = { kind: 'unknown'; reason: string; body: string };
export type Taken = { kind: 'taken'; fields: Fields; body: string };

/** Longest body that is kept. */
const LONGEST_BODY = 65_536;

/**
 * What an answer to a request means (Daraja, error codes): refused only when it is sure that nothing was carried out.
 * @param reply what the client got
 * @param codes the field in which the answer names its code, and the codes that mean "taken"
 */
export function judgeRequest(
  reply: DarajaReply,
  codes: { field: string; taken: readonly string[] } = { field: 'ResponseCode', taken: ['0'] },
): Taken | Refused | Unknown {
  if (reply.kind === 'not sent') {
    return { kind: 'refused', code: 'mpesa_unreachable', description: reply.reason, body: '' };
  }
  if (reply.kind === 'lost') return { kind: 'unknown', reason: reply.reason, body: '' };
  const { status, fields } = reply;
  const body = storableText(reply.body, LONGEST_BODY) ?? '';
  if (status >= 200 && status < 300) {
    const code = storableText(fields?.[codes.field], 40)?.trim();
    if (!fields || !code) return { kind: 'unknown', reason: `HTTP ${status} without a code`, body };
    if (codes.taken.includes(code)) return { kind: 'taken', fields, body };
    return { kind: 'refused', code, description: describe(fields), body };
  }
  const errorCode = storableText(fields?.errorCode, 40);
  const description = fields ? describe(fields) : '';
  if (isSureRefusal(status, errorCode, description)) {
    const { retryAfterMs } = reply;
    return {
      kind: 'refused',
      code: errorCode ?? `http_${status}`,
      description,
      body,
      ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
    };
  }
  return { kind: 'unknown', reason: `HTTP ${status} ${errorCode ?? ''}`.trim(), body };
}

function describe(fields: Fields): string {
  const text = fields.errorMessage ?? fields.ResponseDescription ?? fields.ResponseMessage;
  return storableText(text, 500) ?? '';
}

/**
 * Whether an answer that is no success says that nothing was carried out.
 * @param status HTTP status
 * @param errorCode Daraja's, null when it names none
 * @param description Daraja's errorMessage
 */
function isSureRefusal(status: number, errorCode: string | null, description: string): boolean {
  // A 4xx was turned away at the door, by Daraja or by the firewall before it; only a 408 may have got further.
  if (status >= 400 && status < 500) return status !== 408;
  // 500.001.1001 has at least five meanings: these mean that nothing was done.
  if (errorCode === '500.001.1001') {
    return /lock subscriber|wrong credentials|merchant does not exist/i.test(description);
  }
  if (errorCode === '500.003.02') return /spike/i.test(description);
  return errorCode === '500.003.03';
}
