// The backups on the server's disk, who downloaded them, and the download itself.
import { useQuery, useQueryClient } from '@tanstack/react-query';
import type { Database } from '../../../../supabase/types.ts';
import { ShownError } from '../../../lib/shown-error.ts';
import { dataOf } from '../../data/table-answer.ts';
import { useMember } from '../../layout/roles/use-member.tsx';

export type Backup = Database['public']['Tables']['backups']['Row'];
export type Download = Pick<
  Database['public']['Tables']['backup_downloads']['Row'],
  'backup_id' | 'downloaded_by_email' | 'allowed_at'
>;

/** As many as the server stores. */
const stored = 7;

export function useBackups() {
  const { tables } = useMember().staff;
  return useQuery({
    queryKey: ['backups'],
    queryFn: async ({ signal }): Promise<{ backups: Backup[]; downloads: Download[] }> => {
      const backups = dataOf(
        await tables
          .from('backups')
          .select('*')
          .not('file_name', 'is', null)
          .order('id', { ascending: false })
          .limit(stored)
          .abortSignal(signal),
      );
      const downloads = dataOf(
        await tables
          .from('backup_downloads')
          .select('backup_id, downloaded_by_email, allowed_at')
          .not('started_at', 'is', null)
          .in(
            'backup_id',
            backups.map(({ id }) => id),
          )
          .order('id', { ascending: false })
          .limit(100)
          .abortSignal(signal),
      );
      return { backups, downloads };
    },
    // A backup or a check that is being made ends without a message to this screen.
    refetchInterval: 3000,
    staleTime: 0,
  });
}

export const sizeInWords = (bytes: number | null): string =>
  bytes === null
    ? ''
    : bytes < 1_000_000
      ? `${Math.ceil(bytes / 1000)} kB`
      : `${(bytes / 1_000_000).toFixed(1)} MB`;

/** Begins the download of a backup, by the browser itself: the file is never in the memory of the page. */
export function useDownload() {
  const { tables } = useMember().staff;
  const queries = useQueryClient();
  return async ({ id, file_name }: Backup): Promise<void> => {
    const token = dataOf(await tables.rpc('allow_backup_download', { backup_id: id }));
    const url = `${window.location.origin}/api/staff/backups/${token}`;
    // Asked first, because a download that fails says nothing to the page.
    const answer = await fetch(url, { method: 'HEAD', cache: 'no-store' }).catch(() => null);
    if (!answer?.ok) {
      throw new ShownError(
        answer?.status === 410
          ? 'Its file is not on the disk of this server any more. Choose a newer one, or look at the server.'
          : 'The shop did not answer. Please try again.',
      );
    }
    const link = document.createElement('a');
    link.href = url;
    link.download = file_name ?? '';
    link.click();
    void queries.invalidateQueries({ queryKey: ['backups'] });
  };
}
