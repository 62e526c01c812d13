// The customer's rating of a delivery: the call of `rate_order`.
import { requestTimeoutMs } from '../../../domain/timeout.ts';
import type { Store } from '../../../supabase/store.ts';
import type { Rating } from './tracked-order.ts';

export const maxRatingWords = 300;

/**
 * Rates a delivered order. Repeating it changes nothing.
 * @returns null once it is stored, or why it is not, for the customer; does not throw
 */
export async function rateOrder(
  tables: Store['tables'],
  { id, accessKey }: { id: string; accessKey: string },
  { stars, words, mayQuote }: Rating,
): Promise<string | null> {
  const { error, status } = await tables
    .rpc('rate_order', { order_id: id, access_key: accessKey, stars, words, may_quote: mayQuote })
    .abortSignal(AbortSignal.timeout(requestTimeoutMs));
  if (!error) return null;
  const isRefusal = status >= 400 && status < 500 && error.details !== '' && error.message !== '';
  return isRefusal ? `${error.message}.` : 'We got no answer. Please try again.';
}
