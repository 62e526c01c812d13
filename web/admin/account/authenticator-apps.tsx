// Authenticator apps as the second factor: enrolled with a QR code or a secret and a first code, and removed.
import type { Factor } from '@supabase/auth-js';
import { useRef, useState } from 'react';
import type { Staff } from '../../lib/staff.ts';
import { Button } from '../../ui/button.tsx';
import { Card } from '../../ui/card.tsx';
import { CopyButton } from '../../ui/copy-button.tsx';
import { TextField } from '../../ui/field.tsx';
import { Notice } from '../../ui/notice.tsx';
import { showToast } from '../../ui/toasts/toasts.tsx';
import { useAttempt } from '../data/use-attempt.ts';
import { useStoreName } from '../layout/use-store-name.ts';
import { formatDate } from '../ui/time/dates.ts';
import { ConfirmRemoval } from './confirm-removal.tsx';
import { useReturnFocus } from './use-return-focus.ts';

interface AuthenticatorAppsProps {
  staff: Staff;
  apps: Factor[];
  onChanged(): void;
  onFirstAdded(): void;
}

interface Enrolment {
  id: string;
  image: string;
  secret: string;
}

export function AuthenticatorApps({ staff, apps, onChanged, onFirstAdded }: AuthenticatorAppsProps) {
  const storeName = useStoreName();
  const [enrolment, setEnrolment] = useState<Enrolment | null>(null);
  const { isBusy, problem, attempt } = useAttempt('That did not work');

  // Focus returns to where the finished step began.
  const addButton = useRef<HTMLButtonElement>(null);
  useReturnFocus(enrolment, () => addButton.current?.focus({ preventScroll: true }));

  const begin = (form: FormData) =>
    attempt(async () => {
      await dropUnfinished(staff);
      const { data, error } = await (await staff.auth()).mfa.enroll({
        factorType: 'totp',
        friendlyName: String(form.get('name')).trim(),
        issuer: `${storeName} Admin`,
      });
      if (data) setEnrolment({ id: data.id, image: toImageUrl(data.totp.qr_code), secret: data.totp.secret });
      return error;
    });
  const confirm = (form: FormData) =>
    attempt(async () => {
      const code = String(form.get('code')).replace(/\s/g, '');
      const { error } = await (await staff.auth()).mfa.challengeAndVerify({
        factorId: enrolment?.id ?? '',
        code,
      });
      if (!error) {
        showToast({ title: 'Success', text: 'Authenticator app added' });
        setEnrolment(null);
        onChanged();
        if (apps.length === 0) onFirstAdded();
      }
      return error;
    });
  const remove = (factorId: string) =>
    attempt(async () => {
      const { error } = await (await staff.auth()).mfa.unenroll({ factorId });
      if (!error) {
        showToast({ title: 'Success', text: 'Authenticator app removed' });
        onChanged();
      }
      return error;
    });
  const giveUp = () =>
    attempt(async () => {
      await (await staff.auth()).mfa.unenroll({ factorId: enrolment?.id ?? '' });
      setEnrolment(null);
      return null;
    });

  return (
    <Card
      title="Authenticator app"
      description="With one, signing in takes your password and a six-digit code from your phone."
    >
      <div className="grid gap-4">
        {problem ? <Notice tone="danger" title={problem} /> : null}
        {apps.length > 0 ? (
          <ul className="grid divide-y divide-line rounded-md border border-line">
            {apps.map(({ id, friendly_name, created_at }) => (
              <li key={id} className="flex flex-wrap items-center justify-between gap-x-3 px-4 py-2">
                <p>
                  <span className="font-semibold">{friendly_name || 'Authenticator app'}</span>
                  <span className="block text-sm text-ink-soft">Since {formatDate(created_at)}</span>
                </p>
                <ConfirmRemoval
                  what={friendly_name || 'the authenticator app'}
                  isBusy={isBusy}
                  onConfirm={() => void remove(id)}
                />
              </li>
            ))}
          </ul>
        ) : null}
        {enrolment ? (
          <Confirm enrolment={enrolment} isBusy={isBusy} onConfirm={confirm} onGiveUp={giveUp} />
        ) : (
          <form
            className="flex flex-wrap items-end gap-3"
            onSubmit={(event) => {
              event.preventDefault();
              void begin(new FormData(event.currentTarget));
            }}
          >
            <div className="min-w-48 flex-1">
              <TextField
                key={apps.length}
                label="Name of the device"
                name="name"
                required
                maxLength={60}
                defaultValue={apps.length === 0 ? 'My phone' : `My phone ${apps.length + 1}`}
              />
            </div>
            <Button ref={addButton} type="submit" isBusy={isBusy} className="min-h-12">
              Add an authenticator app
            </Button>
          </form>
        )}
      </div>
    </Card>
  );
}

/** Removes unfinished enrolments: one from before a reload would still occupy its name. */
async function dropUnfinished(staff: Staff): Promise<void> {
  const auth = await staff.auth();
  const { data } = await auth.mfa.listFactors();
  for (const { id, factor_type, status } of data?.all ?? []) {
    if (factor_type === 'totp' && status === 'unverified') await auth.mfa.unenroll({ factorId: id });
  }
}

interface ConfirmProps {
  enrolment: Enrolment;
  isBusy: boolean;
  onConfirm(form: FormData): void;
  onGiveUp(): void;
}

function Confirm({ enrolment, isBusy, onConfirm, onGiveUp }: ConfirmProps) {
  return (
    <form
      className="grid gap-4"
      onSubmit={(event) => {
        event.preventDefault();
        onConfirm(new FormData(event.currentTarget));
      }}
    >
      <p className="text-sm">Scan this with your authenticator app, or type the secret into it.</p>
      <div className="flex flex-wrap items-center gap-4">
        <img
          src={enrolment.image}
          alt="QR code for the authenticator app"
          width={176}
          height={176}
          className="size-44 rounded-md border border-line bg-white p-2"
        />
        <div className="min-w-0">
          <p className="text-sm font-semibold">Secret</p>
          <p data-secret className="font-mono text-sm break-all select-all">
            {enrolment.secret.replace(/(.{4})(?=.)/g, '$1 ')}
          </p>
          <CopyButton text={enrolment.secret} what="secret" />
        </div>
      </div>
      <TextField
        label="Code it shows"
        name="code"
        required
        autoFocus
        inputMode="numeric"
        autoComplete="one-time-code"
        pattern="\s*(\d\s*){6}"
        title="Please enter six digits"
        maxLength={12}
      />
      <div className="flex flex-wrap gap-3">
        <Button type="submit" isBusy={isBusy}>
          Confirm
        </Button>
        <Button tone="quiet" isBusy={isBusy} onClick={onGiveUp}>
          Cancel
        </Button>
      </div>
    </form>
  );
}

/** The client library puts the SVG into a data URL unescaped, where a `#` would end the URL. */
function toImageUrl(qrCode: string): string {
  const drawing = qrCode.slice(qrCode.indexOf('<'));
  return drawing.startsWith('<') ? `data:image/svg+xml,${encodeURIComponent(drawing)}` : qrCode;
}
