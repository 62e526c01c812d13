// A staff member's own account: password, second factor, recovery codes, passkeys and other sessions.
import { useRevalidator } from 'react-router';
import { Card } from '../../ui/card.tsx';
import { type Member, memberContext } from '../layout/roles/member.ts';
import { describeStaffPage } from '../layout/staff-page.ts';
import { NoticesSection } from '../notices/notices-section.tsx';
import { CardColumns } from '../ui/card-columns.tsx';
import type { Route } from './+types/account-page.ts';
import { AuthenticatorApps } from './authenticator-apps.tsx';
import { ChangePassword } from './change-password.tsx';
import { OtherSessions } from './other-sessions.tsx';
import { Passkeys } from './passkeys.tsx';
import { RecoveryCodes, useRecoveryCodes } from './recovery-codes.tsx';

export const meta: Route.MetaFunction = ({ matches }) => describeStaffPage(matches, 'Account');

async function readAccount({ staff, email }: Pick<Member, 'staff' | 'email'>) {
  const [factors, arePasskeysEnabled, sessions, recoveryCodes] = await Promise.all([
    staff.auth().then(({ mfa }) => mfa.listFactors()),
    staff.arePasskeysEnabled(),
    staff.tables.rpc('list_own_sessions'),
    staff.tables.rpc('count_recovery_codes'),
  ]);
  if (factors.error) throw factors.error;
  if (sessions.error) throw sessions.error;
  if (recoveryCodes.error) throw recoveryCodes.error;
  const passkeys = arePasskeysEnabled ? await (await staff.auth()).passkey.list() : null;
  if (passkeys?.error) throw passkeys.error;
  return {
    staff,
    email,
    apps: factors.data.totp,
    passkeys: passkeys?.data ?? null,
    sessions: sessions.data,
    recoveryCodesLeft: recoveryCodes.data,
  };
}

let shown: Awaited<ReturnType<typeof readAccount>> | null = null;

export async function clientLoader({ context }: Route.ClientLoaderArgs) {
  const member = context.get(memberContext);
  // The services refuse a session that has ended, and a refusal loads the screen again.
  if (!member.ended || shown === null) shown = await readAccount(member);
  return shown;
}
clientLoader.hydrate = true as const;

export default function AccountPage({ loaderData }: Route.ComponentProps) {
  const { staff, email, apps, passkeys, sessions, recoveryCodesLeft } = loaderData;
  const { revalidate } = useRevalidator();
  const refresh = () => void revalidate();
  const recoveryCodes = useRecoveryCodes(staff, refresh);
  return (
    <div className="grid gap-6">
      <header>
        <h1 className="text-3xl">Your account</h1>
        <p className="mt-1 break-words text-ink-soft">{email}</p>
      </header>
      <CardColumns>
        <ChangePassword staff={staff} email={email} onChanged={refresh} />
        <AuthenticatorApps
          staff={staff}
          apps={apps}
          onChanged={refresh}
          onFirstAdded={() => void recoveryCodes.make()}
        />
        {apps.length > 0 ? (
          <RecoveryCodes made={recoveryCodes} email={email} left={recoveryCodesLeft} />
        ) : null}
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
