// Cash at the door instead of a prompt, where the settings offer it: the call of `choose_cash`.
import { requestTimeoutMs } from '../../../domain/timeout.ts';
import type { Store } from '../../../supabase/store.ts';

/**
 * Chooses cash for an unpaid order. Repeating it changes nothing.
 * @returns null once it is chosen, or why it is not, for the customer; does not throw
 */
export async function chooseCash(
  tables: Store['tables'],
  { orderId, accessKey }: { orderId: string; accessKey: string },
): Promise<string | null> {
  const { error, status } = await tables
    .rpc('choose_cash', { order_id: orderId, access_key: accessKey })
    .abortSignal(AbortSignal.timeout(requestTimeoutMs));
  if (!error) return null;
  const isRefusal = status >= 400 && status < 500 && error.details !== '' && error.message !== '';
  return isRefusal ? error.message : 'We got no answer. Please try again: you choose it only once.';
}
