// The second factor: a code from an authenticator app, a security key, or a recovery code, after the password.
import type { Factor } from '@supabase/auth-js';
import { lazy, Suspense, useState } from 'react';
import type { Staff } from '../../lib/staff.ts';
import { Button } from '../../ui/button.tsx';
import { TextField } from '../../ui/field.tsx';
import { Notice } from '../../ui/notice.tsx';
import { useAttempt } from '../data/use-attempt.ts';
import { PanelLoading } from '../ui/panel-loading.tsx';

const RecoveryCodeForm = lazy(() =>
  import('./recovery-code-form.tsx').catch(() => ({ default: MissingForm })),
);

interface SecondStepProps {
  staff: Staff;
  email: string;
  factors: Factor[];
  /** The session has the rights of staff now. */
  onPassed(): void;
}

export function SecondStep({ staff, email, factors, onPassed }: SecondStepProps) {
  const [isLost, setLost] = useState(false);
  const apps = factors.filter(({ factor_type }) => factor_type === 'totp');
  const [app = '', setApp] = useState(apps[0]?.id);
  const keys = factors.filter(({ factor_type }) => factor_type === 'webauthn');
  const { isBusy, problem, attempt } = useAttempt('The code could not be checked');

  const passCode = (form: FormData) =>
    attempt(async () => {
      const code = String(form.get('code')).replace(/\s/g, '');
      const { error } = await (await staff.auth()).mfa.challengeAndVerify({ factorId: app, code });
      if (!error) onPassed();
      return error;
    });
  const passKey = (factorId: string) =>
    attempt(async () => {
      const { error } = await (await staff.auth()).mfa.webauthn.authenticate({ factorId });
      if (!error) onPassed();
      return error;
    });

  return (
    <div className="grid gap-4">
      {problem && !isLost ? <Notice tone="danger" title={problem} /> : null}
      {isLost ? (
        <Suspense fallback={<PanelLoading label="Loading..." />}>
          <RecoveryCodeForm staff={staff} email={email} onPassed={onPassed} />
        </Suspense>
      ) : null}
      {apps.length > 0 && !isLost ? (
        <form
          className="grid gap-4"
          onSubmit={(event) => {
            event.preventDefault();
            void passCode(new FormData(event.currentTarget));
          }}
        >
          {apps.length > 1 ? (
            <fieldset className="grid gap-1 text-sm">
              <legend className="mb-1 font-semibold">Code from</legend>
              {apps.map(({ id, friendly_name }) => (
                <label key={id} className="flex min-h-9 items-center gap-2">
                  <input
                    type="radio"
                    name="app"
                    checked={app === id}
                    onChange={() => setApp(id)}
                    className="size-4 accent-leaf-600"
                  />
                  {friendly_name || 'Authenticator app'}
                </label>
              ))}
            </fieldset>
          ) : null}
          <TextField
            label="Code from your authenticator app"
            name="code"
            required
            // The step follows from the user's last action, and only typing is left to do.
            autoFocus
            inputMode="numeric"
            autoComplete="one-time-code"
            pattern="\s*(\d\s*){6}"
            title="Please enter six digits"
            maxLength={12}
            hint={`Six digits, a new one every 30 seconds. Signing in as ${email}.`}
          />
          <Button type="submit" size="large" isBusy={isBusy}>
            {isBusy ? 'Signing in...' : 'Continue'}
          </Button>
        </form>
      ) : null}
      {(isLost ? [] : keys).map(({ id, friendly_name }) => (
        <Button
          key={id}
          tone={apps.length > 0 ? 'outline' : 'leaf'}
          size="large"
          isBusy={isBusy}
          onClick={() => passKey(id)}
        >
          Use {friendly_name || 'a security key'}
        </Button>
      ))}
      <Button tone="quiet" isBusy={isBusy} onClick={() => setLost(!isLost)}>
        {isLost ? 'I have my phone after all' : 'I lost my phone'}
      </Button>
      <Button
        tone="quiet"
        isBusy={isBusy}
        onClick={() =>
          attempt(async () => {
            await staff.signOut();
            return null;
          })
        }
      >
        Use another account
      </Button>
    </div>
  );
}

/** After an update of the shop the form may be gone. */
function MissingForm() {
  return <Notice tone="danger" title="This could not be loaded. Please load the page again." />;
}
