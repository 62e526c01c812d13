// The initiator's password, encrypted with M-PESA's certificate.
import { constants, createPublicKey, publicEncrypt } from 'node:crypto';
import type { DarajaSettings } from '../settings.ts';

/** The initiator's fields of a request. */
export interface InitiatorFields {
  Initiator: string;
  SecurityCredential: string;
}

/**
 * Returns the initiator's fields of a reversal or status query (Daraja, security credential): base64 of the password,
 * encrypted by RSA with PKCS #1 v1.5 padding.
 * @returns null without an initiator
 * @throws if the certificate is invalid
 */
export function initiatorFields(settings: DarajaSettings): InitiatorFields | null {
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
