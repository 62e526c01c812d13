// Kinds of M-PESA's transactions, as statements and confirmations name them.

/**
 * - `payment`: brings money to the shop.
 * - `reversal`: takes a received payment back.
 * - `outgoing`: other money that leaves, such as withdrawals and charges; none of the shop's orders.
 * - `unknown`: a person must look.
 */
export type TransactionKind = 'payment' | 'reversal' | 'outgoing' | 'unknown';

const pattern = (words: string) => new RegExp(`\\b(?:${words})\\b`);
const reversal = pattern('reversals?|reversed?|reverse');
const outgoing = pattern(
  'charges?|fees?|tariff|commission|withdraw(?:al|als|n)?|business payments?|payouts?|b2c|salary|promotion|settlements?|airtime|' +
    'transfers? (?:of funds|to|from)|funds? transfers?|payment to (?:customer|business)',
);
const fromBusiness = pattern('b2b|business');
const payment = pattern(
  'c2b|(?:customer )?pay ?bill(?: online)?|(?:customer )?buy ?goods(?: online)?|merchant payments?|customer payments?|pay utility|ni ?push',
);

/**
 * Classifies a transaction by the text of its type (Daraja: `TransactionType` of a confirmation, `transactiontype` of a statement line).
 * Money that another business pays (B2B) is `unknown`: the text does not say who paid whom.
 * @param type such as `Pay Bill`, `c2b-buy-goods-debit`, `Pay Bill Reversal`; a missing or empty one is a payment, because some messages
 *   have none
 */
export function transactionKindOf(type: unknown): TransactionKind {
  if (type === undefined || type === null) return 'payment';
  if (typeof type !== 'string' || type.length > 200) return 'unknown';
  const words = type
    .normalize('NFKC')
    // CustomerPayBillOnline
    .replace(/([a-z])([A-Z])/g, '$1 $2')
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, ' ')
    .trim();
  if (words === '') return type.trim() === '' ? 'payment' : 'unknown';
  if (reversal.test(words)) return 'reversal';
  if (outgoing.test(words)) return 'outgoing';
  if (fromBusiness.test(words)) return 'unknown';
  return payment.test(words) ? 'payment' : 'unknown';
}
