// The initiator's password as M-PESA wants it: encrypted with the certificate of its portal.
import { constants, createPublicKey, publicEncrypt } from 'node:crypto';
import type { DarajaSettings } from './settings.ts';

/** Whoever may move the shop's money at M-PESA, by name and encrypted password. */
export interface InitiatorFields {
  Initiator: string;
  SecurityCredential: string;
}

/**
 * The initiator's fields of a reversal or a status request (Daraja, security credential): base64 of the password,
 * encrypted by RSA with PKCS #1 v1.5 padding.
 * @returns null when no initiator is set
 * @throws when the certificate is none
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
 * @param password in clear
 * @param certificate PEM, of a certificate or of a public key
 * @throws when it is neither
 */
function encryptPassword(password: string, certificate: string): string {
  // Not every runtime encrypts with a certificate, but all do with its key.
  const key = createPublicKey(certificate).export({ type: 'spki', format: 'pem' });
  return publicEncrypt(
    { key, padding: constants.RSA_PKCS1_PADDING },
    new TextEncoder().encode(password),
  ).toString('base64');
}
