// Secrets: drawing one, comparing with one, keeping them out of the log.

const NOTICE_SECRET = /^[0-9a-f]{64}$/;

/** The unguessable end of a notice address: 32 random bytes as lower-case hex, since Daraja refuses mixed case. */
export function drawNoticeSecret(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(32)), (byte) =>
    byte.toString(16).padStart(2, '0'),
  ).join('');
}

export function isNoticeSecret(text: string): boolean {
  return NOTICE_SECRET.test(text);
}

/** Whether two texts are equal, in a time that does not depend on where they differ. */
export async function isSameSecret(given: string, expected: string): Promise<boolean> {
  const [left, right] = await Promise.all([given, expected].map(digest));
  if (!left || !right) return false;
  return left.reduce((difference, byte, index) => difference | (byte ^ (right[index] ?? 0)), 0) === 0;
}

/**
 * Makes the check whether a request carries a secret key, as `apikey` or as bearer token.
 * @param secretKeys the keys that count; empty ones do not
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
 * Makes text fit for a log.
 * @param secrets what must not appear, in any place
 * @returns a function that replaces them, every notice secret and every phone number by `…`
 */
export function redactor(secrets: readonly string[]): (text: string) => string {
  const known = secrets.filter((secret) => secret !== '');
  return (text) =>
    known
      .reduce((cleaned, secret) => cleaned.replaceAll(secret, '…'), text)
      .replace(/[0-9a-f]{64}/g, '…')
      .replace(/\+?254\d{9}/g, '…');
}
