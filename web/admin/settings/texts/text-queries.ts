// Reads and writes the texts of the contact page.
import { useQuery } from '@tanstack/react-query';
import type { Database } from '../../../../supabase/types.ts';
import type { Staff } from '../../../lib/staff.ts';
import { changedRow, dataOf } from '../../data/table-answer.ts';
import { useMember } from '../../layout/roles/use-member.tsx';

export type ShopTextRow = Database['public']['Tables']['shop_texts']['Row'];

export interface ShopTextForm {
  title: string;
  body: string;
}

export const formOf = ({ title, body }: ShopTextForm): ShopTextForm => ({ title, body });

export const isSameText = (one: ShopTextForm, other: ShopTextForm): boolean =>
  one.title.trim() === other.title.trim() && one.body.trim() === other.body.trim();

export function useShopTexts() {
  const { tables } = useMember().staff;
  return useQuery({
    queryKey: ['texts', 'all'],
    queryFn: async ({ signal }) => dataOf(await tables.from('shop_texts').select('*').abortSignal(signal)),
    staleTime: 0,
  });
}

/**
 * Writes a text.
 * @param seen the row as the member read it
 * @throws ConflictError if it has changed since
 */
export async function writeShopText(
  tables: Staff['tables'],
  { title, body }: ShopTextForm,
  seen: Pick<ShopTextRow, 'slug' | 'updated_at'>,
): Promise<ShopTextRow> {
  return changedRow(
    await tables
      .from('shop_texts')
      .update({ title: title.trim(), body: body.trim() })
      .eq('slug', seen.slug)
      .eq('updated_at', seen.updated_at)
      .select('*'),
  );
}
