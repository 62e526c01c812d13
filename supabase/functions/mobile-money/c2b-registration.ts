// Tells M-PESA where to send word of money that comes without a prompt (C2B).
import type { DarajaClient } from './daraja-client.ts';
import { judgeRequest, type Refused, type Unknown } from './request-verdict.ts';

const REGISTER_PATH = '/mpesa/c2b/v2/registerurl';

export type Registration =
  | { kind: 'registered'; body: string }
  /** In production M-PESA takes one registration; another needs the portal. It may name other addresses than these. */
  | { kind: 'already registered'; body: string }
  | Refused
  | Unknown;

/**
 * Registers the addresses for confirmations and validations of our shortcode (Daraja, C2B register URL). Where the
 * validation does not answer, payments are completed. Never throws; asking again is harmless.
 * @param urls without the words that Daraja forbids
 */
export async function registerTillUrls(
  daraja: DarajaClient,
  urls: { confirmationUrl: string; validationUrl: string },
): Promise<Registration> {
  const verdict = judgeRequest(
    await daraja.post(REGISTER_PATH, {
      ShortCode: daraja.settings.shortcode,
      ResponseType: 'Completed',
      ConfirmationURL: urls.confirmationUrl,
      ValidationURL: urls.validationUrl,
    }),
  );
  // It is an error in Daraja's words (500.003.1001), and one of the meanings of that code.
  if (verdict.kind !== 'taken' && /already registered/i.test(verdict.body)) {
    return { kind: 'already registered', body: verdict.body };
  }
  return verdict.kind === 'taken' ? { kind: 'registered', body: verdict.body } : verdict;
}
