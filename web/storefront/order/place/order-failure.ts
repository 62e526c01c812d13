// Error messages for orders that could not be placed.

// Error codes (the `details` of the database's error) about the order itself …
const orderCodes = new Set([
  'idempotency_key_missing',
  'idempotency_key_reused',
  'name_invalid',
  'name_too_long',
  'email_invalid',
  'email_too_long',
  'phone_invalid',
  'phone_blocked',
  'location_invalid',
  'address_too_long',
  'notes_too_long',
  'terms_not_accepted',
  'too_many_orders',
  'too_many_unpaid_orders',
  'no_tracking_number',
  'orders_paused',
  'discount_invalid',
  'discount_used',
  'discount_minimum',
  'too_many_discount_codes',
]);
// … and about the ordered products.
const itemCodes = new Set([
  'product_unavailable',
  'out_of_stock',
  'not_enough_stock',
  'quantity_invalid',
  'items_invalid',
  'total_changed',
  'total_too_large',
]);

/**
 * The text of the 'Order Failed' toast (docs/product.md#order-form).
 * @param error the table API's error: `message` for people, `details` with the code (docs/error-codes.md); null when it
 *   answered without an order
 */
export function describeOrderFailure(
  error: { message?: string | null; details?: string | null } | null,
): string {
  if (!error) return 'Order was not created successfully';
  if (!error.message) return 'Failed to place order. Please try again.';
  if (error.details && itemCodes.has(error.details)) return `Failed to create order item: ${error.message}`;
  if (error.details && orderCodes.has(error.details)) return `Failed to create order: ${error.message}`;
  return 'Failed to place order. Please try again.';
}
