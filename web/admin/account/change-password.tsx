// Changes the password, with the current one, and with a code by e-mail if the auth service requires it.
import { useRef, useState } from 'react';
import type { Staff } from '../../lib/staff.ts';
import { Button } from '../../ui/button.tsx';
import { Card } from '../../ui/card.tsx';
import { TextField } from '../../ui/field.tsx';
import { Notice } from '../../ui/notice.tsx';
import { useAttempt } from '../data/use-attempt.ts';
import { NewPasswordFields, readNewPassword } from '../ui/new-password-fields.tsx';

interface ChangePasswordProps {
  staff: Staff;
  email: string;
  onChanged(): void;
}

export function ChangePassword({ staff, email, onChanged }: ChangePasswordProps) {
  const form = useRef<HTMLFormElement>(null);
  const { isBusy, problem, attempt } = useAttempt('The password could not be changed');
  const [mismatch, setMismatch] = useState<string | null>(null);
  const [needsCode, setNeedsCode] = useState(false);
  const [isChanged, setChanged] = useState(false);

  async function change(fields: FormData) {
    const { password, problem: wrong } = readNewPassword(fields);
    setMismatch(wrong);
    setChanged(false);
    if (wrong) return;
    const code = String(fields.get('code') ?? '').trim();
    let isCodeRequired = false;
    const isDone = await attempt(async () => {
      const { error } = await (await staff.auth()).updateUser({
        password,
        current_password: String(fields.get('current')),
        ...(code ? { nonce: code } : {}),
      });
      if (error?.code !== 'reauthentication_needed') return error;
      isCodeRequired = true;
      return (await (await staff.auth()).reauthenticate()).error;
    });
    if (!isDone) return;
    setNeedsCode(isCodeRequired);
    if (isCodeRequired) return;
    setChanged(true);
    form.current?.reset();
    onChanged();
  }

  return (
    <Card title="Password" description="A new password ends your sessions on other devices.">
      <form
        ref={form}
        className="grid max-w-md gap-4"
        onSubmit={(event) => {
          event.preventDefault();
          void change(new FormData(event.currentTarget));
        }}
      >
        {problem ? <Notice tone="danger" title={problem} /> : null}
        {isChanged ? <Notice tone="success" title="Your password is changed" /> : null}
        <TextField
          label="Current password"
          name="current"
          type="password"
          required
          autoComplete="current-password"
          maxLength={256}
        />
        <NewPasswordFields email={email} problem={mismatch} />
        {needsCode ? (
          <TextField
            label="Code from our mail"
            name="code"
            required
            autoFocus
            inputMode="numeric"
            autoComplete="one-time-code"
            maxLength={12}
            hint="You signed in a while ago, so we have sent a code to your address."
          />
        ) : null}
        <Button type="submit" isBusy={isBusy} className="justify-self-start">
          {isBusy ? 'Saving...' : 'Change password'}
        </Button>
      </form>
    </Card>
  );
}
