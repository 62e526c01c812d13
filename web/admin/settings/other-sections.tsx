// The sections of the settings that have no fields: pages, team and backups.
import { useQuery } from '@tanstack/react-query';
import { shopTextSlugs } from '../../../domain/shop-text.ts';
import { Button } from '../../ui/button.tsx';
import { Card } from '../../ui/card.tsx';
import { StatusLine } from '../dashboard/status-line.tsx';
import { useBackup } from '../dashboard/use-backup.ts';
import { dataOf } from '../data/table-answer.ts';
import { useMember } from '../layout/use-member.tsx';
import { useShop } from '../messages/use-shop.ts';
import { ScreenLoadState } from '../ui/load-states.tsx';
import { Screens } from './section-cards.tsx';
import { TerminalCommand } from './terminal-command.tsx';
import { useShopTexts } from './text-queries.ts';

/** The texts of the contact page, by their titles. */
export function PagesSection() {
  const texts = useShopTexts();
  if (!texts.data) return <ScreenLoadState noun="pages" queries={[texts]} />;
  const inOrder = shopTextSlugs.flatMap((slug) => texts.data.filter((text) => text.slug === slug));
  return (
    <Screens
      screens={inOrder.map(({ slug, title }) => ({
        label: title,
        words: 'At the foot of the contact page, where the footer and the order form link to',
        to: `/admin/settings/texts/${slug}`,
      }))}
    />
  );
}

export function TeamSection() {
  const {
    staff: { tables },
    email,
  } = useMember();
  const { publicUrl } = useShop();
  const colleagues = useQuery({
    queryKey: ['team'],
    queryFn: async ({ signal }) => dataOf(await tables.rpc('refund_approvers').abortSignal(signal)),
  });
  const curl = (method: string, path: string, body: string) =>
    `curl -X ${method} "${publicUrl}${path}" -H "apikey: $SECRET_KEY" -H "content-type: application/json" -d '${body}'`;
  return (
    <>
      <Card title="Staff">
        {colleagues.data ? (
          <ul className="grid gap-2">
            <li className="wrap-anywhere">
              {email} <span className="text-ink-soft">(you)</span>
            </li>
            {colleagues.data.map((colleague) => (
              <li key={colleague.email} className="wrap-anywhere">
                {colleague.email}
              </li>
            ))}
          </ul>
        ) : (
          <ScreenLoadState noun="staff" queries={[colleagues]} />
        )}
      </Card>
      <Card
        title="Invite or remove a colleague"
        description="In a terminal, with the secret key of the shop. The answer to the first command contains the id for the others."
      >
        <div className="grid grid-cols-[minmax(0,1fr)] gap-4">
          <TerminalCommand
            what="Send the invitation"
            command={curl(
              'POST',
              `/auth/v1/invite?redirect_to=${publicUrl}/admin/reset-password`,
              '{"email":"njeri@shop.example"}',
            )}
          />
          <TerminalCommand
            what="Give access"
            command={curl('POST', '/rest/v1/admin_profiles', '{"user_id":"THE_ID"}')}
          />
          <TerminalCommand
            what="Remove access, at the next request"
            command={curl('PATCH', '/rest/v1/admin_profiles?user_id=eq.THE_ID', '{"is_active":false}')}
          />
        </div>
      </Card>
    </>
  );
}

export function BackupsSection() {
  const { line, title, isHosted, isBusy, backUp } = useBackup();
  return (
    <>
      <Card
        title="Last backup"
        description={isHosted ? undefined : 'Every night at three. Each one is restored once, as a check.'}
      >
        <dl>
          <StatusLine label="Last Backup" line={line} title={title} />
        </dl>
        {isHosted ? null : (
          <Button tone="quiet" className="mt-4" isBusy={isBusy} onClick={backUp}>
            {isBusy ? 'Backing up...' : 'Back up now'}
          </Button>
        )}
      </Card>
      <Card
        title="Restore or move"
        description="In a terminal on the shop's machine, while the shop is stopped."
      >
        <div className="grid grid-cols-[minmax(0,1fr)] gap-4">
          {isHosted ? null : (
            <>
              <TerminalCommand
                what="Restore a backup"
                command="npm run restore -- data/backups/jani-….tar.gz"
              />
              <TerminalCommand
                what="Restore it in place of the present data"
                command="npm run restore -- --replace data/backups/jani-….tar.gz"
              />
            </>
          )}
          <TerminalCommand
            what="Move to another database"
            command="npm run move -- --to postgres://USER:PASSWORD@HOST/DATABASE"
          />
        </div>
      </Card>
    </>
  );
}
