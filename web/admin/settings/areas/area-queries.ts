// Reads and writes the areas of delivery.
import { useQuery } from '@tanstack/react-query';
import type { Staff } from '../../../lib/staff.ts';
import { changedRow, dataOf } from '../../data/table-answer.ts';
import { useMember } from '../../layout/roles/use-member.tsx';
import { type AreaEstimate, type AreaRow, estimatesByArea } from './area-values.ts';

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

/** What deliveries took, by the id of the area. Empty where it cannot be read: it is only a suggestion. */
export function useEstimates(): Map<string, AreaEstimate> {
  const { tables } = useMember().staff;
  const { data } = useQuery({
    queryKey: ['settings', 'estimates'],
    queryFn: async ({ signal }) =>
      estimatesByArea(dataOf(await tables.rpc('delivery_estimates').abortSignal(signal))),
  });
  return data ?? none;
}
const none = new Map<string, AreaEstimate>();

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
