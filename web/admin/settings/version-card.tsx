// Which version of the shop runs, since when, and how to update it. The shop asks no one whether there is a newer one.
import { useQuery } from '@tanstack/react-query';
import type { RunningVersion } from '../../../domain/running-version.ts';
import { Card } from '../../ui/card.tsx';
import { useMember } from '../layout/roles/use-member.tsx';
import { BoldFact } from '../ui/fact.tsx';
import { ScreenLoadState } from '../ui/load-states.tsx';
import { formatDate, formatDateTime } from '../ui/time/dates.ts';
import { TerminalCommand } from './terminal-command.tsx';

/** After this time without an update staff are reminded. */
const oldAfterMs = 60 * 24 * 60 * 60 * 1000;

export function RunningVersionCard({ isHosted }: { isHosted: boolean }) {
  const { staff } = useMember();
  const query = useQuery({
    queryKey: ['running-version'],
    queryFn: async ({ signal }): Promise<RunningVersion> => {
      const { data } = await (await staff.auth()).getSession();
      const answer = await fetch(`${window.location.origin}/api/staff/version`, {
        headers: { authorization: `Bearer ${data.session?.access_token ?? ''}` },
        signal,
      });
      if (!answer.ok) throw new Error(`The version was not answered: ${answer.status}`);
      return (await answer.json()) as RunningVersion;
    },
    staleTime: 60_000,
  });
  const version = query.data;
  const date = version && (version.changedAt ?? version.builtAt);
  return (
    <Card
      title="Version and updates"
      description="Updates are installed on the server. The shop makes a backup first, and goes back by itself if the new version does not start."
    >
      {version ? (
        <div className="grid grid-cols-[minmax(0,1fr)] gap-4">
          <dl className="grid gap-x-6 gap-y-3 sm:grid-cols-2">
            <BoldFact term="Version of">
              {date ? formatDate(date) : 'Development'}
              {version.commit ? <span className="font-normal text-ink-soft"> · {version.commit}</span> : null}
            </BoldFact>
            <BoldFact term="Runs since">{formatDateTime(version.startedAt)}</BoldFact>
          </dl>
          {date && Date.now() - Date.parse(date) > oldAfterMs ? (
            <p className="font-semibold">
              It is more than two months old. Updates bring corrections, also of security.
            </p>
          ) : null}
          <TerminalCommand what="Install the newest version" command="npm run update" />
          <p className="text-sm text-ink-soft">
            {isHosted ? 'It then names the commands that update the Supabase project. ' : ''}
            The shop does not ask anyone whether there is a newer version; this command does.
          </p>
        </div>
      ) : (
        <ScreenLoadState noun="version" queries={[query]} />
      )}
    </Card>
  );
}
