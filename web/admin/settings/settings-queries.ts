// Reads and writes the settings row.
import { useQuery } from '@tanstack/react-query';
import type { Staff } from '../../lib/staff.ts';
import { changedRow, dataOf } from '../data/table-answer.ts';
import { useMember } from '../layout/roles/use-member.tsx';
import type { SettingsValues } from './settings-values.ts';

/** The settings, and when they were last changed. */
export type Settings = SettingsValues & { updated_at: string };

export function useSettings() {
  const { tables } = useMember().staff;
  return useQuery<Settings>({
    queryKey: ['settings', 'row'],
    queryFn: async ({ signal }) => dataOf(await tables.rpc('staff_settings').abortSignal(signal)),
    staleTime: 0,
  });
}

/**
 * Saves the form.
 * @param seen the `updated_at` of the settings that the member saw
 * @throws ConflictError if they have changed since
 */
export async function writeSettings(
  tables: Staff['tables'],
  values: SettingsValues,
  seen: string,
): Promise<Settings> {
  changedRow(
    await tables.from('store_settings').update(values).eq('id', true).eq('updated_at', seen).select('id'),
  );
  return dataOf(await tables.rpc('staff_settings'));
}
