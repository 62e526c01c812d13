// Secrets: creating and comparing them, and redacting them in the log.

const NOTICE_SECRET = /^[0-9a-f]{64}$/;

/** Creates the secret part of a callback URL: 32 random bytes as lower-case hex, as Daraja rejects mixed case. */
export function createCallbackSecret(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(32)), (byte) =>
    byte.toString(16).padStart(2, '0'),
  ).join('');
}

export function isCallbackSecret(text: string): boolean {
  return NOTICE_SECRET.test(text);
}

/** Compares two texts in constant time. */
export async function isSameSecret(given: string, expected: string): Promise<boolean> {
  const [left, right] = await Promise.all([given, expected].map(digest));
  if (!left || !right) return false;
  return left.reduce((difference, byte, index) => difference | (byte ^ (right[index] ?? 0)), 0) === 0;
}

/**
 * Creates the check whether a request has a secret key, as `apikey` or as bearer token.
 * @param secretKeys the valid keys; empty ones are ignored
 */
export function createSecretKeyCheck(secretKeys: readonly string[]): (request: Request) => Promise<boolean> {
  const known = secretKeys.filter((key) => key !== '');
  return async ({ headers }) => {
    const given = [
      headers.get('apikey') ?? '',
      /^Bearer\s+(\S+)$/i.exec(headers.get('authorization') ?? '')?.[1] ?? '',
    ];
    const matches = await Promise.all(
      known.flatMap((key) => given.map((candidate) => isSameSecret(candidate, key))),
    );
    return matches.includes(true);
  };
}

async function digest(text: string): Promise<Uint8Array> {
  return new Uint8Array(await crypto.subtle.digest('SHA-256', new TextEncoder().encode(text)));
}

/**
 * Creates a function that redacts text for the log.
 * @param secrets texts to redact
 * @returns replaces them, callback secrets and phone numbers by `…`
 */
export function createRedactor(secrets: readonly string[]): (text: string) => string {
  const known = secrets.filter((secret) => secret !== '');
  return (text) =>
    known
      .reduce((cleaned, secret) => cleaned.replaceAll(secret, '…'), text)
      .replace(/[0-9a-f]{64}/g, '…')
      .replace(/\+?254\d{9}/g, '…');
}
