// Reads and writes the texts of the pages of flavors and brands.
import { useQuery } from '@tanstack/react-query';
import type { Database } from '../../../../supabase/types.ts';
import type { Staff } from '../../../lib/staff.ts';
import { changedRow, dataOf } from '../../data/table-answer.ts';
import { useMember } from '../../layout/roles/use-member.tsx';

/** Maximum characters of the text, as in the database. */
export const pageTextLength = 2000;

export interface PageRow extends Row {
  kind: 'flavor' | 'brand';
}
type Row = Database['public']['Functions']['list_pages']['Returns'][number];

/** Path of the page for visitors. */
export const pathOf = ({ kind, slug }: PageRow): string => `/${kind}s/${slug}`;

/** Every flavor, and the brands that a product has. */
export function usePages() {
  const { tables } = useMember().staff;
  return useQuery({
    queryKey: ['pages'],
    queryFn: async ({ signal }) => dataOf(await tables.rpc('list_pages').abortSignal(signal)) as PageRow[],
  });
}

/**
 * Writes the text of a page.
 * @param seen the row as the member read it
 * @throws ConflictError if it has changed since
 */
export async function writePageText(tables: Staff['tables'], text: string, seen: PageRow) {
  const columns = { page_text: text.trim() };
  const written =
    seen.kind === 'brand' ? tables.from('brands').update(columns) : tables.from('categories').update(columns);
  return changedRow(await written.eq('slug', seen.slug).eq('updated_at', seen.updated_at).select('slug'));
}
