// Registers the callback URLs for payments without a prompt (C2B).
import { type DarajaClient, type DarajaReply, lacksProduct } from './connection/client.ts';
import { type Accepted, classifyReply, type Refused, type Unknown } from './connection/request-outcome.ts';

/** An app has one version, as the portal shows. They differ in the payer's phone of confirmations: masked, or a hash (v1). */
const VERSIONS = ['v2', 'v1'] as const;
export type C2bVersion = (typeof VERSIONS)[number];

export type Registration =
  | { kind: 'registered'; body: string }
  /** Production accepts one registration, possibly with other URLs; changing it needs the portal. */
  | { kind: 'already registered'; body: string }
  | Refused
  | Unknown;

/** A registration of URLs with the version that decided it. */
export type UrlRegistration = Registration & {
  version: C2bVersion;
  /** The version that the app lacks; null if the first one that was tried exists. */
  lacks: C2bVersion | null;
};

/**
 * Registers the URLs for confirmations and validations of our shortcode (Daraja, C2B register URL). If the
 * validation does not answer, payments are completed. Where the app lacks a version of the API, the other one is tried. Never throws;
 * can be repeated.
 * @param urls without the words that Daraja rejects
 * @param first the version to try first: that of the last registration. Default: v2
 */
export async function registerTillUrls(
  daraja: DarajaClient,
  urls: { confirmationUrl: string; validationUrl: string },
  first: C2bVersion | null = null,
): Promise<UrlRegistration> {
  const register = (version: C2bVersion) =>
    daraja.post(`/mpesa/c2b/${version}/registerurl`, {
      ShortCode: daraja.settings.shortcode,
      ResponseType: 'Completed',
      ConfirmationURL: urls.confirmationUrl,
      ValidationURL: urls.validationUrl,
    });
  const version = first ?? VERSIONS[0];
  const reply = await register(version);
  if (!isMissing(reply)) return { ...registrationOf(classifyReply(reply)), version, lacks: null };
  const other = version === 'v2' ? 'v1' : 'v2';
  const second = await register(other);
  return isMissing(second)
    ? { ...registrationOf(classifyReply(reply)), version, lacks: null }
    : { ...registrationOf(classifyReply(second)), version: other, lacks: version };
}

/** Whether the API is not there for this app: the app lacks its product, or the path does not exist. */
function isMissing(reply: DarajaReply): boolean {
  if (reply.kind !== 'answered') return false;
  const { status, fields } = reply;
  return (
    lacksProduct(fields) ||
    ['404.001.01', '404.003.01'].includes(String(fields?.errorCode)) ||
    (status === 404 && fields?.errorCode === undefined)
  );
}

/** The outcome of a registration, of C2B URLs or of the statement. */
export function registrationOf(outcome: Accepted | Refused | Unknown): Registration {
  const { kind, body } = outcome;
  if (kind === 'accepted') return { kind: 'registered', body };
  // Daraja reports this as an error, with one of the meanings of 500.003.1001.
  return /already registered/i.test(body) ? { kind: 'already registered', body } : outcome;
}
