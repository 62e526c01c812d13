// Registers the callback URLs for payments without a prompt (C2B).
import type { DarajaClient } from './client.ts';
import { type Accepted, classifyReply, type Refused, type Unknown } from './request-outcome.ts';

const REGISTER_PATH = '/mpesa/c2b/v2/registerurl';

export type Registration =
  | { kind: 'registered'; body: string }
  /** Production accepts one registration, possibly with other URLs; changing it needs the portal. */
  | { kind: 'already registered'; body: string }
  | Refused
  | Unknown;

/**
 * Registers the URLs for confirmations and validations of our shortcode (Daraja, C2B register URL). If the
 * validation does not answer, payments are completed. Never throws; can be repeated.
 * @param urls without the words that Daraja rejects
 */
export async function registerTillUrls(
  daraja: DarajaClient,
  urls: { confirmationUrl: string; validationUrl: string },
): Promise<Registration> {
  return registrationOf(
    classifyReply(
      await daraja.post(REGISTER_PATH, {
        ShortCode: daraja.settings.shortcode,
        ResponseType: 'Completed',
        ConfirmationURL: urls.confirmationUrl,
        ValidationURL: urls.validationUrl,
      }),
    ),
  );
}

/** The outcome of a registration, of C2B URLs or of the statement. */
export function registrationOf(outcome: Accepted | Refused | Unknown): Registration {
  const { kind, body } = outcome;
  if (kind === 'accepted') return { kind: 'registered', body };
  // Daraja reports this as an error, with one of the meanings of 500.003.1001.
  return /already registered/i.test(body) ? { kind: 'already registered', body } : outcome;
}
