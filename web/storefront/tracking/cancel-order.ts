// Cancels the order of a customer, or keeps the one that staff were asked to cancel (docs/decisions/cancelling.md).
import type { Store } from '../../../supabase/store.ts';

export const failedToCancel = "We couldn't change your order just now. Please try again.";

/**
 * @param wanted the payment status that the customer saw, or `keep`
 * @returns the problem; null once it is done
 */
export async function cancelOrder(
  tables: Store['tables'],
  tracking_number: string,
  access_key: string,
  wanted: string,
): Promise<string | null> {
  const { error } =
    wanted === 'keep'
      ? await tables.rpc('keep_own_order', { tracking_number, access_key })
      : await tables.rpc('cancel_own_order', {
          tracking_number,
          access_key,
          expected_payment_status: wanted,
        });
  if (!error) return null;
  // Only refusals have words for customers.
  return error.code?.startsWith('PT4') ? error.message : failedToCancel;
}
