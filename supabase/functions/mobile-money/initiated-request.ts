// Requests that M-PESA carries out later and answers to an address of ours: reversals and status requests.
import type { DarajaClient } from './daraja-client.ts';
import { asFields, type Fields, parseFields, storableText } from './json-body.ts';
import { judgeRequest, type Refused, type Unknown } from './request-verdict.ts';
import { initiatorFields } from './security-credential.ts';

export type InitiatedRequest =
  /** M-PESA has taken it and will tell the result. */
  | { kind: 'accepted'; conversationId: string; originatorConversationId: string; body: string }
  | Refused
  | Unknown;

/** What M-PESA told later, in parts that every kind of request has. */
export interface ConversationResult {
  /** As text, whether it came as a number or a string; null when none is named. */
  resultCode: string | null;
  resultDescription: string | null;
  conversationId: string | null;
  originatorConversationId: string | null;
  /** M-PESA's receipt of what was carried out; null when nothing was. */
  receipt: string | null;
  /** ResultParameters by their keys. */
  parameters: Fields;
}

/**
 * Sends a request in the initiator's name. Never throws.
 * @param fields without Initiator and SecurityCredential
 * @returns refused with `initiator_missing` or `certificate_wrong` when the settings do not allow it
 */
export async function requestAsInitiator(
  daraja: DarajaClient,
  path: string,
  fields: Fields,
): Promise<InitiatedRequest> {
  let initiator: ReturnType<typeof initiatorFields>;
  try {
    initiator = initiatorFields(daraja.settings);
  } catch {
    return refusal('certificate_wrong', 'MPESA_CERTIFICATE is no certificate');
  }
  if (!initiator) return refusal('initiator_missing', 'MPESA_INITIATOR_NAME is not set');
  const verdict = judgeRequest(await daraja.post(path, { ...initiator, ...fields }));
  if (verdict.kind !== 'taken') return verdict;
  const conversationId = storableText(verdict.fields.ConversationID, 200) ?? '';
  // Daraja's own answers have it in both spellings.
  const originator = verdict.fields.OriginatorConversationID ?? verdict.fields.OriginatorCoversationID;
  return {
    kind: 'accepted',
    conversationId,
    originatorConversationId: storableText(originator, 200) ?? '',
    body: verdict.body,
  };
}

function refusal(code: string, description: string): Refused {
  return { kind: 'refused', code, description, body: '' };
}

/**
 * Reads the body that came to a result or time-out address. What is missing or odd becomes null, never an exception.
 * @param text the body as it came
 */
export function readConversationResult(text: string): ConversationResult {
  const result = asFields(parseFields(text)?.Result);
  return {
    resultCode: storableText(result?.ResultCode, 40)?.trim() || null,
    resultDescription: storableText(result?.ResultDesc, 500),
    conversationId: storableText(result?.ConversationID, 200) || null,
    originatorConversationId: storableText(result?.OriginatorConversationID, 200) || null,
    receipt: storableText(result?.TransactionID, 40)?.trim() || null,
    parameters: parametersOf(asFields(result?.ResultParameters)?.ResultParameter),
  };
}

/** A list of keys and values; a single one may come without its list. */
function parametersOf(list: unknown): Fields {
  const parameters: Fields = {};
  for (const item of Array.isArray(list) ? list : [list]) {
    const fields = asFields(item);
    if (typeof fields?.Key === 'string') parameters[fields.Key] = fields.Value;
  }
  return parameters;
}
