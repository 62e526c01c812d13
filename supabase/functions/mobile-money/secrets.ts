// Secrets: creating and comparing them, and redacting them in the log.

const CALLBACK_SECRET = /^[0-9a-f]{64}$/;

/** Creates the secret part of a callback URL: 32 random bytes as lower-case hex, as Daraja rejects mixed case. */
export function createCallbackSecret(): string {
  return toHex(crypto.getRandomValues(new Uint8Array(32)));
}

export function isCallbackSecret(text: string): boolean {
  return CALLBACK_SECRET.test(text);
}

/** Compares two texts in constant time. */
export async function isSameSecret(actual: string, expected: string): Promise<boolean> {
  const [left, right] = await Promise.all([actual, expected].map(sha256));
  if (!left || !right) return false;
  return left.reduce((difference, byte, index) => difference | (byte ^ (right[index] ?? 0)), 0) === 0;
}

/**
 * Creates the check whether a request has a secret key, as `apikey` or as bearer token.
 * @param secretKeys the valid keys; empty ones are ignored
 */
export function createSecretKeyCheck(secretKeys: readonly string[]): (request: Request) => Promise<boolean> {
  const configured = secretKeys.filter((key) => key !== '');
  return async ({ headers }) => {
    const candidates = [headers.get('apikey') ?? '', bearerTokenOf(headers) ?? ''];
    const matches = await Promise.all(
      configured.flatMap((key) => candidates.map((candidate) => isSameSecret(candidate, key))),
    );
    return matches.includes(true);
  };
}

/** Returns the bearer token of a request. */
export function bearerTokenOf(headers: Headers): string | undefined {
  return /^Bearer\s+(\S+)$/i.exec(headers.get('authorization') ?? '')?.[1];
}

/** Signs a text with HMAC-SHA-256. Returns lower-case hex. */
export async function sign(secretKey: string, text: string): Promise<string> {
  const bytes = new TextEncoder();
  const algorithm = { name: 'HMAC', hash: 'SHA-256' };
  const key = await crypto.subtle.importKey('raw', bytes.encode(secretKey), algorithm, false, ['sign']);
  return toHex(new Uint8Array(await crypto.subtle.sign('HMAC', key, bytes.encode(text))));
}

/** Returns the SHA-256 digest of a text. */
export async function sha256(text: string): Promise<Uint8Array> {
  return new Uint8Array(await crypto.subtle.digest('SHA-256', new TextEncoder().encode(text)));
}

/** Returns bytes as lower-case hex. */
export function toHex(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
}

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
