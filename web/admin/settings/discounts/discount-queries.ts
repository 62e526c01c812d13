// Reads and writes the discount codes.
import { useQuery } from '@tanstack/react-query';
import type { Staff } from '../../../lib/staff.ts';
import { changedRow, dataOf, TableProblem } from '../../data/table-answer.ts';
import { useMember } from '../../layout/use-member.tsx';
import type { DiscountRow } from './discount-values.ts';

export function useDiscountCodes() {
  const { tables } = useMember().staff;
  return useQuery({
    // With the settings, as the live changes of both.
    queryKey: ['settings', 'discounts'],
    staleTime: 0,
    queryFn: async ({ signal }) =>
      dataOf(await tables.rpc('list_discount_codes').abortSignal(signal)) as DiscountRow[],
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

/** Whether another code has the same name. */
export const isTaken = (error: Error | null): boolean =>
  error instanceof TableProblem && error.code === '23505';
