// Passkeys: sign-in with a fingerprint, a face or a security key instead of the password.
import type { PasskeyListItem } from '@supabase/auth-js';
import { useRef, useState } from 'react';
import type { Staff } from '../../lib/staff.ts';
import { Button } from '../../ui/button.tsx';
import { Card } from '../../ui/card.tsx';
import { TextField } from '../../ui/field.tsx';
import { Notice } from '../../ui/notice.tsx';
import { showToast } from '../../ui/toasts/toasts.tsx';
import { useAttempt } from '../data/use-attempt.ts';
import { formatDate } from '../ui/time/dates.ts';
import { ConfirmRemoval } from './confirm-removal.tsx';
import { useReturnFocus } from './use-return-focus.ts';

interface PasskeysProps {
  staff: Staff;
  passkeys: PasskeyListItem[];
  onChanged(): void;
}

export function Passkeys({ staff, passkeys, onChanged }: PasskeysProps) {
  const [renamed, setRenamed] = useState<string | null>(null);
  const { isBusy, problem, attempt } = useAttempt('That did not work');

  // Focus returns to the button that showed the removed field.
  const list = useRef<HTMLUListElement>(null);
  useReturnFocus(renamed, (passkeyId) =>
    list.current?.querySelector<HTMLElement>(`[data-rename="${passkeyId}"]`)?.focus(),
  );

  const change = (successText: string, work: () => Promise<{ error: Error | null }>) =>
    attempt(async () => {
      const { error } = await work();
      if (!error) {
        showToast({ title: 'Success', text: successText });
        setRenamed(null);
        onChanged();
      }
      return error;
    });

  return (
    <Card
      title="Passkeys"
      description="Sign in with your fingerprint, your face or a security key instead of the password."
    >
      <div className="grid gap-4">
        {problem ? <Notice tone="danger" title={problem} /> : null}
        {passkeys.length > 0 ? (
          <ul ref={list} className="grid divide-y divide-line rounded-md border border-line">
            {passkeys.map((passkey) => (
              <li key={passkey.id} className="flex flex-wrap items-center justify-between gap-3 px-4 py-2">
                {renamed === passkey.id ? (
                  <form
                    className="flex flex-1 flex-wrap items-end gap-2"
                    onSubmit={(event) => {
                      event.preventDefault();
                      const friendlyName = String(new FormData(event.currentTarget).get('name')).trim();
                      void change('Passkey renamed', async () =>
                        (await staff.auth()).passkey.update({ passkeyId: passkey.id, friendlyName }),
                      );
                    }}
                  >
                    <div className="min-w-40 flex-1">
                      <TextField
                        label="Name"
                        name="name"
                        required
                        autoFocus
                        maxLength={120}
                        defaultValue={passkey.friendly_name}
                      />
                    </div>
                    <Button type="submit" isBusy={isBusy}>
                      Save
                    </Button>
                    <Button tone="quiet" onClick={() => setRenamed(null)}>
                      Cancel
                    </Button>
                  </form>
                ) : (
                  <>
                    <p>
                      <span className="font-semibold">{nameOf(passkey)}</span>
                      <span className="block text-sm text-ink-soft">
                        Since {formatDate(passkey.created_at)}
                        {passkey.last_used_at ? `, last used ${formatDate(passkey.last_used_at)}` : ''}
                      </span>
                    </p>
                    <span className="flex flex-wrap gap-2">
                      <Button
                        tone="quiet"
                        isBusy={isBusy}
                        data-rename={passkey.id}
                        aria-label={`Rename ${nameOf(passkey)}`}
                        onClick={() => setRenamed(passkey.id)}
                      >
                        Rename
                      </Button>
                      <ConfirmRemoval
                        what={nameOf(passkey)}
                        isBusy={isBusy}
                        onConfirm={() =>
                          void change('Passkey removed', async () =>
                            (await staff.auth()).passkey.delete({ passkeyId: passkey.id }),
                          )
                        }
                      />
                    </span>
                  </>
                )}
              </li>
            ))}
          </ul>
        ) : null}
        <Button
          isBusy={isBusy}
          className="justify-self-start"
          onClick={() => void change('Passkey added', async () => (await staff.auth()).registerPasskey())}
        >
          Add a passkey
        </Button>
      </div>
    </Card>
  );
}

const nameOf = ({ friendly_name }: PasskeyListItem): string => friendly_name || 'Passkey';
