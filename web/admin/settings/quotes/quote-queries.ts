// Reads the words that customers let the shop show, and shows them on the storefront.
import type { Staff } from '../../../lib/staff.ts';
import { dataOf } from '../../data/table-answer.ts';
import { useMember } from '../../layout/roles/use-member.tsx';
import { type ReadPage, useRows } from '../../list/use-rows.ts';

export interface QuotableRating {
  /** The id of its order. */
  id: string;
  stars: number;
  words: string;
  /** Null: not chosen. */
  quoted_at: string | null;
  /** False for chosen words, too, while others were chosen later. */
  is_on_home_page: boolean;
  created_at: string;
  updated_at: string;
  order: {
    order_number: string;
    customer_name: string;
    area_name: string | null;
    city: string;
  };
}

/** The newest first. */
export function useQuotableRatings() {
  const { tables } = useMember().staff;
  const read: ReadPage<QuotableRating> = ({ after, limit, signal }) => {
    const rows = tables
      .from('ratings')
      .select(
        'id:order_id, stars, words, quoted_at, is_on_home_page, created_at, updated_at, order:orders!inner(order_number, customer_name, area_name, city)',
      )
      .eq('may_quote', true)
      .order('created_at', { ascending: false })
      .order('order_id', { ascending: false })
      .limit(limit)
      .abortSignal(signal);
    const page = after
      ? rows.or(
          `created_at.lt.${after.created_at},and(created_at.eq.${after.created_at},order_id.lt.${after.id})`,
        )
      : rows;
    return page as unknown as ReturnType<ReadPage<QuotableRating>>;
  };
  // With the orders, as the live changes of ratings.
  return useRows<QuotableRating>(['orders', 'quotable'], read);
}

/**
 * Shows the words of a rating on the storefront, or no longer.
 * @throws TableProblem if the customer has changed them since
 */
export const quoteRating = async (
  tables: Staff['tables'],
  { id, updated_at }: QuotableRating,
  isQuoted: boolean,
) =>
  dataOf(
    await tables.rpc('quote_rating', { order_id: id, is_quoted: isQuoted, seen_updated_at: updated_at }),
  );
