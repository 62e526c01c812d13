// The IP address that a request comes from, from sources that the client cannot write.
import { storableText } from './json-body.ts';
import { isSameSecret } from './secret.ts';

/** Headers in which our own server names its visitor, and proves that it is our own server. */
export const visitorHeaders = { address: 'x-visitor-address', token: 'x-visitor-token' } as const;

/**
 * The token with which our own server names its visitor's address to a hosted project. It is derived from the secret key, so every
 * process and the function compute the same, and it opens nothing else.
 */
export async function visitorToken(secretKey: string): Promise<string> {
  const bytes = new TextEncoder();
  const key = await crypto.subtle.importKey(
    'raw',
    bytes.encode(secretKey),
    { name: 'HMAC', hash: 'SHA-256' },
    false,
    ['sign'],
  );
  const signature = new Uint8Array(await crypto.subtle.sign('HMAC', key, bytes.encode('visitor address')));
  return Array.from(signature, (byte) => byte.toString(16).padStart(2, '0')).join('');
}

/**
 * Makes the reader of addresses. In this order: the visitor whom our own server names with its token; `cf-connecting-ip`, which the
 * network in front of a hosted project sets (our own server removes it); the last address of `x-forwarded-for`, which the nearest
 * proxy added. All that stands before it is the client's own text.
 * @param secretKeys keys of which our own server has one
 */
export function createSenderOf(secretKeys: readonly string[]): (request: Request) => Promise<string | null> {
  const tokens = Promise.all(secretKeys.map(visitorToken));
  return async ({ headers }) => {
    const token = headers.get(visitorHeaders.token);
    const visitor = headers.get(visitorHeaders.address);
    if (token && visitor) {
      const matches = await Promise.all((await tokens).map((own) => isSameSecret(token, own)));
      if (matches.includes(true)) return storableText(visitor.trim(), 64);
    }
    const address =
      headers.get('cf-connecting-ip')?.trim() || headers.get('x-forwarded-for')?.split(',').at(-1)?.trim();
    return address ? storableText(address, 64) : null;
  };
}
