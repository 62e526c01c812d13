// Recognises M-PESA's callbacks by their secret URLs, before they wait in a queue.
import { isSignedSecret } from '../../supabase/functions/mobile-money/secrets.ts';

const secretUrl = /^\/functions\/v1\/mobile-money\/(?:notice|till|reversal)\/([0-9a-f]{64})(?:\/|$)/;
/** Secrets of the till and of refunds that were right once. The till has one. */
const maxRemembered = 100;

export interface SecretUrls {
  /** Whether the secret of a path is ours. */
  isKnown(path: string): boolean;
  /** Remembers the secret of a path that the payment function has accepted. */
  remember(path: string): void;
}

/** @param secretKey the key with which the payment function signs its secrets */
export function createSecretUrls(secretKey: string): SecretUrls {
  const remembered = new Set<string>();
  const secretIn = (path: string) => secretUrl.exec(path)?.[1];
  return {
    isKnown(path) {
      const secret = secretIn(path);
      return secret !== undefined && (remembered.has(secret) || isSignedSecret(secretKey, secret));
    },
    remember(path) {
      const secret = secretIn(path);
      if (secret === undefined || remembered.has(secret)) return;
      const [oldest] = remembered;
      if (remembered.size >= maxRemembered && oldest !== undefined) remembered.delete(oldest);
      remembered.add(secret);
    },
  };
}
