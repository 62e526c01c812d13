// Asks the database for the discount of a code.
import { type DiscountTerms, readTerms } from '../../../domain/orders/discount.ts';
import { requestTimeoutMs } from '../../../domain/timeout.ts';
import type { Store } from '../../../supabase/store.ts';

/** What was found of a code: its discount, or why it cannot be used, as a sentence. */
export type CheckedCode = { terms: DiscountTerms; problem?: undefined } | { terms: null; problem: string };

/** Does not throw. */
export async function checkCode(tables: Store['tables'], code: string): Promise<CheckedCode> {
  const { data, error } = await tables
    .rpc('check_discount_code', { code })
    .abortSignal(AbortSignal.timeout(requestTimeoutMs));
  const terms = readTerms(data);
  if (terms) return { terms };
  const isRefused = error?.details === 'discount_invalid' || error?.details === 'too_many_discount_codes';
  return {
    terms: null,
    problem: isRefused ? `${error.message}.` : "We couldn't check the code just now. Please try again.",
  };
}
