// Requests whose result M-PESA sends later to a callback URL: reversals and status queries.
import { constants, createPublicKey, publicEncrypt } from 'node:crypto';
import { asObject, type JsonObject, parseObject, storableText } from '../request-body.ts';
import type { DarajaSettings } from '../settings.ts';
import type { DarajaClient } from './connection/client.ts';
import { classifyReply, type Refused, type Unknown } from './connection/request-outcome.ts';

export type InitiatedRequest =
  /** M-PESA will send the result. */
  | { kind: 'accepted'; conversationId: string; originatorConversationId: string; body: string }
  | Refused
  | Unknown;

/** The result, with the fields common to all kinds of request. */
export interface ConversationResult {
  /** As text, whether sent as a number or a string; null if missing. */
  resultCode: string | null;
  resultDescription: string | null;
  conversationId: string | null;
  originatorConversationId: string | null;
  /** M-PESA's receipt as sent, or an id that is none if nothing was carried out. */
  transactionId: unknown;
  /** ResultParameters by key. */
  parameters: JsonObject;
}

/**
 * Sends a request as the initiator. Never throws.
 * @param fields without Initiator and SecurityCredential
 * @returns refused with `initiator_missing` or `certificate_wrong` if the settings lack it
 */
export async function requestAsInitiator(
  daraja: DarajaClient,
  path: string,
  fields: JsonObject,
): Promise<InitiatedRequest> {
  let initiator: ReturnType<typeof initiatorFields>;
  try {
    initiator = initiatorFields(daraja.settings);
  } catch {
    return refusal('certificate_wrong', 'MPESA_CERTIFICATE is no certificate');
  }
  if (!initiator) return refusal('initiator_missing', 'MPESA_INITIATOR_NAME is not set');
  const outcome = classifyReply(await daraja.post(path, { ...initiator, ...fields }));
  if (outcome.kind !== 'accepted') return outcome;
  const conversationId = storableText(outcome.fields.ConversationID, 200) ?? '';
  // Daraja's answers have both spellings.
  const originator = outcome.fields.OriginatorConversationID ?? outcome.fields.OriginatorCoversationID;
  return {
    kind: 'accepted',
    conversationId,
    originatorConversationId: storableText(originator, 200) ?? '',
    body: outcome.body,
  };
}

/** The initiator's fields of a request. */
interface InitiatorFields {
  Initiator: string;
  SecurityCredential: string;
}

/**
 * Returns the initiator's fields of a reversal or status query (Daraja, security credential): base64 of the password,
 * encrypted by RSA with PKCS #1 v1.5 padding.
 * @returns null without an initiator
 * @throws if the certificate is invalid
 */
function initiatorFields(settings: DarajaSettings): InitiatorFields | null {
  const { initiator } = settings;
  if (!initiator) return null;
  return {
    Initiator: initiator.name,
    SecurityCredential: encryptPassword(initiator.password, initiator.certificate),
  };
}

/**
 * @param password plain text
 * @param certificate PEM, of a certificate or of a public key
 * @throws if it is neither
 */
function encryptPassword(password: string, certificate: string): string {
  // Not every runtime encrypts with a certificate, but all do with its public key.
  const key = createPublicKey(certificate).export({ type: 'spki', format: 'pem' });
  return publicEncrypt(
    { key, padding: constants.RSA_PKCS1_PADDING },
    new TextEncoder().encode(password),
  ).toString('base64');
}

function refusal(code: string, description: string): Refused {
  return { kind: 'refused', code, description, body: '' };
}

/**
 * Reads the body of a result or time-out callback. Missing or malformed values become null, never an exception.
 * @param text the body as received
 */
export function readConversationResult(text: string): ConversationResult {
  const result = asObject(parseObject(text)?.Result);
  return {
    resultCode: storableText(result?.ResultCode, 40)?.trim() || null,
    resultDescription: storableText(result?.ResultDesc, 500),
    conversationId: storableText(result?.ConversationID, 200) || null,
    originatorConversationId: storableText(result?.OriginatorConversationID, 200) || null,
    transactionId: result?.TransactionID,
    parameters: parametersOf(asObject(result?.ResultParameters)?.ResultParameter),
  };
}

/** Reads a list of keys and values; a single one may be sent without a list. */
function parametersOf(list: unknown): JsonObject {
  const parameters: JsonObject = {};
  for (const item of Array.isArray(list) ? list : [list]) {
    const fields = asObject(item);
    if (typeof fields?.Key === 'string') parameters[fields.Key] = fields.Value;
  }
  return parameters;
}
