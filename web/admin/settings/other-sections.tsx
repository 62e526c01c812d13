// The sections of the settings that have no fields: pages and team (backups: backups-section.tsx).
import { useQuery } from '@tanstack/react-query';
import { shopTextSlugs } from '../../../domain/shop-text.ts';
import { Card } from '../../ui/card.tsx';
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
