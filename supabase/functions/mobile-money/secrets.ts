// Secrets: creating and comparing them, and redacting them in the log.

const CALLBACK_SECRET = /^[0-9a-f]{64}$/;

/**
 * Creates the secret part of a callback URL: 16 random bytes and the first 16 of their signature, so that a server recognises its own
 * callbacks before it asks the database. Lower-case hex, as Daraja rejects mixed case.
 */
export async function createCallbackSecret(secretKey: string): Promise<string> {
  const random = toHex(crypto.getRandomValues(new Uint8Array(16)));
  return random + (await signatureOf(secretKey, random));
}

export function isCallbackSecret(text: string): boolean {
  return CALLBACK_SECRET.test(text);
}

/** Whether a callback secret was created with this key. Secrets of the till and of refunds are not: the database creates them. */
export async function isSignedSecret(secretKey: string, secret: string): Promise<boolean> {
  return (
    isCallbackSecret(secret) &&
    isSameSecret(secret.slice(32), await signatureOf(secretKey, secret.slice(0, 32)))
  );
}

const signatureOf = async (secretKey: string, random: string) =>
  (await sign(secretKey, `callback ${random}`)).slice(0, 32);

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
