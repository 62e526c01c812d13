// Secrets: creating and comparing them, and redacting them in the log.
import { createHash, createHmac, randomBytes, timingSafeEqual } from 'node:crypto';

const CALLBACK_SECRET = /^[0-9a-f]{64}$/;

/**
 * Creates the secret part of a callback URL: 16 random bytes and the first 16 of their signature, so that a server recognises its own
 * callbacks before it asks the database. Lower-case hex, as Daraja rejects mixed case.
 */
export function createCallbackSecret(secretKey: string): string {
  const random = randomBytes(16).toString('hex');
  return random + signatureOf(secretKey, random);
}

export function isCallbackSecret(text: string): boolean {
  return CALLBACK_SECRET.test(text);
}

/** Whether a callback secret was created with this key. Secrets of the till and of refunds are not: the database creates them. */
export function isSignedSecret(secretKey: string, secret: string): boolean {
  return (
    isCallbackSecret(secret) && isSameSecret(secret.slice(32), signatureOf(secretKey, secret.slice(0, 32)))
  );
}

const signatureOf = (secretKey: string, random: string) => sign(secretKey, `callback ${random}`).slice(0, 32);

/**
 * Compares two texts in constant time. The services have their own (`packages/backend/api-keys.ts`): a hosted project runs this function
 * without them, and they import nothing of the shop.
 */
export function isSameSecret(actual: string, expected: string): boolean {
  return timingSafeEqual(digestOf(actual), digestOf(expected));
}

/**
 * Creates the check whether a request has a secret key, as `apikey` or as bearer token.
 * @param secretKeys the valid keys; empty ones are ignored
 */
export function createSecretKeyCheck(secretKeys: readonly string[]): (request: Request) => boolean {
  const configured = secretKeys.filter((key) => key !== '');
  return ({ headers }) => {
    const candidates = [headers.get('apikey') ?? '', bearerTokenOf(headers) ?? ''];
    return configured.some((key) => candidates.some((candidate) => isSameSecret(candidate, key)));
  };
}

/** Returns the bearer token of a request. */
export function bearerTokenOf(headers: Headers): string | undefined {
  return /^Bearer\s+(\S+)$/i.exec(headers.get('authorization') ?? '')?.[1];
}

/** Signs a text with HMAC-SHA-256. Returns lower-case hex. */
export function sign(secretKey: string, text: string): string {
  return createHmac('sha256', secretKey).update(text).digest('hex');
}

/** Returns the SHA-256 digest of a text as lower-case hex. */
export function sha256(text: string): string {
  return digestOf(text).toString('hex');
}

// Without `crypto.subtle`, whose work waits for the threads that write files.
const digestOf = (text: string) => createHash('sha256').update(text).digest();

/**
 * Creates a function that redacts text for the log.
 * @param secrets texts to redact
 * @returns replaces them, callback secrets and phone numbers by `…`
 */
export function createRedactor(secrets: readonly string[]): (text: string) => string {
  const configured = secrets.filter((secret) => secret !== '');
  return (text) =>
    configured
      .reduce((cleaned, secret) => cleaned.replaceAll(secret, '…'), text)
      .replace(/[0-9a-f]{64}/g, '…')
      .replace(/\+?254\d{9}/g, '…');
}
