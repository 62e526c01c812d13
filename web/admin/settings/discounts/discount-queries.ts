// Reads and writes the discount codes.
import { useQuery } from '@tanstack/react-query';
import type { Staff } from '../../../lib/staff.ts';
import { changedRow, dataOf } from '../../data/table-answer.ts';
import { isUuid } from '../../dialogs/uuid.ts';
import { useMember } from '../../layout/roles/use-member.tsx';
import { type ReadPage, useRows } from '../../list/use-rows.ts';
import type { DiscountRow } from './discount-values.ts';

/** The codes of which a part is searched for, the newest first. */
export function useDiscountCodes(search: string) {
  const { tables } = useMember().staff;
  const read: ReadPage<DiscountRow> = ({ after, limit, signal }) =>
    tables
      .rpc('list_discount_codes', {
        search,
        before_created_at: after?.created_at ?? null,
        before_id: after?.id ?? null,
        page_size: limit,
      })
      .abortSignal(signal) as unknown as ReturnType<ReadPage<DiscountRow>>;
  // With the settings, as the live changes of both.
  return useRows<DiscountRow>(['settings', 'discounts', search], read);
}

/**
 * One code, which may be on no page that is shown; null if there is none.
 * @param id null: nothing is read
 */
export function useDiscountCode(id: string | null) {
  const { tables } = useMember().staff;
  return useQuery({
    queryKey: ['settings', 'discount', id],
    enabled: id !== null,
    staleTime: 0,
    queryFn: async ({ signal }) => {
      if (!isUuid(id ?? '')) return null;
      const rows = dataOf(await tables.rpc('list_discount_codes', { only_id: id }).abortSignal(signal));
      return (rows[0] as DiscountRow | undefined) ?? null;
    },
  });
}

/**
 * Changes a code that is as the member saw it.
 * @throws ConflictError if it has changed since
 */
export const changeCode = async (
  tables: Staff['tables'],
  { id, updated_at }: Pick<DiscountRow, 'id' | 'updated_at'>,
  columns: object,
) =>
  changedRow(
    await tables
      .from('discount_codes')
      .update(columns)
      .eq('id', id)
      .eq('updated_at', updated_at)
      .select('id'),
  );
