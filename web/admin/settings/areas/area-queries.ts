// Reads and writes the areas of delivery.
import { useQuery } from '@tanstack/react-query';
import type { Staff } from '../../../lib/staff.ts';
import { changedRow, dataOf, TableProblem } from '../../data/table-answer.ts';
import { useMember } from '../../layout/use-member.tsx';
import type { AreaRow } from './area-values.ts';

/** All of them, also inactive ones, in their order. */
export function useAreas() {
  const { tables } = useMember().staff;
  return useQuery({
    // With the settings, as the live changes of both.
    queryKey: ['settings', 'areas'],
    queryFn: async ({ signal }): Promise<AreaRow[]> =>
      dataOf(
        await tables.from('delivery_areas').select('*').order('position').order('name').abortSignal(signal),
      ),
  });
}

/**
 * Changes an area that is as the member saw it.
 * @throws ConflictError if it has changed since
 */
export const changeArea = async (
  tables: Staff['tables'],
  { id, updated_at }: Pick<AreaRow, 'id' | 'updated_at'>,
  columns: Partial<AreaRow>,
) =>
  changedRow(
    await tables
      .from('delivery_areas')
      .update(columns)
      .eq('id', id)
      .eq('updated_at', updated_at)
      .select('id'),
  );

/** Whether another area has the same name. */
export const isTaken = (error: Error | null): boolean =>
  error instanceof TableProblem && error.code === '23505';
