// The caller's IP address, from sources that the client cannot write.
import { storableText } from './request-body.ts';
import { isSameSecret, sign } from './secrets.ts';

/** Headers in which our own server sends its visitor's IP address and its proof. */
export const visitorHeaders = { address: 'x-visitor-address', token: 'x-visitor-token' } as const;

/**
 * Returns the token that our own server sends with its visitor's IP address to a hosted project. It is derived from the secret key, so every
 * process and the function compute the same one, and it grants nothing else.
 */
export function visitorToken(secretKey: string): string {
  return sign(secretKey, 'visitor address');
}

/**
 * Creates a function that reads the IP address. In this order: our own server's visitor with its token; `cf-connecting-ip`, which the
 * network in front of a hosted project sets (our own server removes it); the last address of `x-forwarded-for`, which the nearest
 * proxy added. Everything before that is the client's own text.
 * @param secretKeys the project's secret keys; our own server has one of them
 */
export function createCallerAddress(secretKeys: readonly string[]): (request: Request) => string | null {
  const tokens = secretKeys.map(visitorToken);
  return ({ headers }) => {
    const token = headers.get(visitorHeaders.token);
    const visitor = headers.get(visitorHeaders.address);
    if (token && visitor) {
      if (tokens.some((own) => isSameSecret(token, own))) return storableText(visitor.trim(), 64);
    }
    const address =
      headers.get('cf-connecting-ip')?.trim() || headers.get('x-forwarded-for')?.split(',').at(-1)?.trim();
    return address ? storableText(address, 64) : null;
  };
}
