// Classifies Daraja's answer to a request: accepted, certainly refused, or unknown.

import { type JsonObject, storableText } from '../../request-body.ts';
import type { DarajaReply } from './client.ts';

/** Nothing was carried out. `code` is Daraja's error code, `http_…`, or our own. */
export type Refused = {
  kind: 'refused';
  code: string;
  description: string;
  body: string;
  /** The requested delay in milliseconds, if M-PESA sent one. */
  retryAfterMs?: number;
};
/** It may have been carried out and must not simply be repeated. */
export type Unknown = { kind: 'unknown'; reason: string; body: string };
export type Accepted = { kind: 'accepted'; fields: JsonObject; body: string };

/** Bodies are stored up to this length. */
const MAX_STORED_BODY_LENGTH = 65_536;

/**
 * Classifies a reply (Daraja, error codes): refused only if certainly nothing was carried out.
 * @param reply result of the client
 * @param codes the field with the answer's code, and the codes that mean "accepted"
 */
export function classifyReply(
  reply: DarajaReply,
  codes: { field: string; accepted: readonly string[] } = { field: 'ResponseCode', accepted: ['0'] },
): Accepted | Refused | Unknown {
  if (reply.kind === 'not sent') {
    return { kind: 'refused', code: 'mpesa_unreachable', description: reply.reason, body: '' };
  }
  if (reply.kind === 'lost') return { kind: 'unknown', reason: reply.reason, body: '' };
  const { status, fields } = reply;
  const body = storableText(reply.body, MAX_STORED_BODY_LENGTH) ?? '';
  if (status >= 200 && status < 300) {
    const code = storableText(fields?.[codes.field], 40)?.trim();
    if (!fields || !code) return { kind: 'unknown', reason: `HTTP ${status} without a code`, body };
    if (codes.accepted.includes(code)) return { kind: 'accepted', fields, body };
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

function describe(fields: JsonObject): string {
  const text = fields.errorMessage ?? fields.ResponseDescription ?? fields.ResponseMessage;
  return storableText(text, 500) ?? '';
}

/**
 * Whether an error answer means that nothing was carried out.
 * @param status HTTP status
 * @param errorCode Daraja's error code; null without one
 * @param description Daraja's errorMessage
 */
function isSureRefusal(status: number, errorCode: string | null, description: string): boolean {
  // Daraja or its firewall rejected a 4xx before processing; only a 408 may have been processed.
  if (status >= 400 && status < 500) return status !== 408;
  // 500.001.1001 has at least five meanings; with these, nothing was done.
  if (errorCode === '500.001.1001') {
    return /lock subscriber|wrong credentials|merchant does not exist/i.test(description);
  }
  if (errorCode === '500.003.02') return /spike/i.test(description);
  return errorCode === '500.003.03';
}
