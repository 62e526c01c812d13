// Why a delivery failed, in the words of staff and in those that the customer reads (docs/product.md#deliveries).
import type { DeliveryFailureReason } from '../../supabase/types.ts';

/** The reasons in the order in which staff choose. `words` follow "we could not deliver your order:"; empty for none. */
export const deliveryFailures: Record<DeliveryFailureReason, { label: string; words: string }> = {
  nobody_there: { label: 'Nobody was there', words: 'nobody was at the address' },
  no_answer: { label: 'Phone not answered', words: 'we could not reach you by phone' },
  address_not_found: { label: 'Address not found', words: 'we could not find the address' },
  not_accepted: { label: 'Not accepted at the door', words: 'it was not accepted at the door' },
  damaged: { label: 'Drinks were damaged', words: 'the drinks were damaged on the way' },
  rider_problem: { label: 'Rider could not continue', words: 'our rider could not continue' },
  other: { label: 'Another reason', words: '' },
};
