// A staff member's own account: password, second factor, passkeys and other sessions.
import { useRevalidator } from 'react-router';
import { Card } from '../../ui/card.tsx';
import { memberContext } from '../layout/member.ts';
import { describeStaffPage } from '../layout/staff-page.ts';
import { NoticesSection } from '../notices/notices-section.tsx';
import { CardColumns } from '../ui/card-columns.tsx';
import type { Route } from './+types/account-page.ts';
import { AuthenticatorApps } from './authenticator-apps.tsx';
import { ChangePassword } from './change-password.tsx';
import { OtherSessions } from './other-sessions.tsx';
import { Passkeys } from './passkeys.tsx';

export const meta: Route.MetaFunction = ({ matches }) => describeStaffPage(matches, 'Account');

export async function clientLoader({ context }: Route.ClientLoaderArgs) {
  const { staff, email } = context.get(memberContext);
  const [factors, arePasskeysEnabled, sessions] = await Promise.all([
    staff.auth.mfa.listFactors(),
    staff.arePasskeysEnabled(),
    staff.tables.rpc('list_own_sessions'),
  ]);
  if (factors.error) throw factors.error;
  if (sessions.error) throw sessions.error;
  const passkeys = arePasskeysEnabled ? await staff.auth.passkey.list() : null;
  if (passkeys?.error) throw passkeys.error;
  return {
    staff,
    email,
    apps: factors.data.totp,
    passkeys: passkeys?.data ?? null,
    sessions: sessions.data,
  };
}
clientLoader.hydrate = true as const;

export default function AccountPage({ loaderData }: Route.ComponentProps) {
  const { staff, email, apps, passkeys, sessions } = loaderData;
  const { revalidate } = useRevalidator();
  const refresh = () => void revalidate();
  return (
    <div className="grid gap-6">
      <header>
        <h1 className="text-3xl">Your account</h1>
        <p className="mt-1 break-words text-ink-soft">{email}</p>
      </header>
      <CardColumns>
        <ChangePassword staff={staff} email={email} onChanged={refresh} />
        <AuthenticatorApps staff={staff} apps={apps} onChanged={refresh} />
        {passkeys ? <Passkeys staff={staff} passkeys={passkeys} onChanged={refresh} /> : null}
        <Card
          title="Notices on this device"
          description="How this device reports what waits. Each device has its own choice."
        >
          <NoticesSection />
        </Card>
        <OtherSessions staff={staff} sessions={sessions} onChanged={refresh} />
      </CardColumns>
    </div>
  );
}
