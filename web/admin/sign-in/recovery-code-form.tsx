// A recovery code instead of the second factor, after a lost phone. It removes the second factor.
import { useState } from 'react';
import type { Staff } from '../../lib/staff.ts';
import { Button } from '../../ui/button.tsx';
import { TextField } from '../../ui/field.tsx';
import { showToast } from '../../ui/toasts/toasts.tsx';
import { useAction } from '../../ui/use-action.ts';
import { dataOf, messageForUser, TableProblem } from '../data/table-answer.ts';

interface RecoveryCodeFormProps {
  staff: Staff;
  email: string;
  /** The password alone signs in now. */
  onPassed(): void;
}

export default function RecoveryCodeForm({ staff, email, onPassed }: RecoveryCodeFormProps) {
  const { isRunning, run } = useAction();
  const [problem, setProblem] = useState<string>();
  const use = (code: string) =>
    run(
      async () => {
        setProblem(undefined);
        // Without its answer, only staff could ask what became of a write: with a signal it fails instead.
        const signal = AbortSignal.timeout(30_000);
        try {
          dataOf(await staff.tables.rpc('use_recovery_code', { code }).abortSignal(signal));
        } catch (error) {
          // An earlier try whose answer was lost.
          if (!(error instanceof TableProblem && error.details === 'no_second_factor')) throw error;
        }
        showToast({
          title: 'Your second factor is removed',
          text: 'Add an authenticator app under Account. Until then your password alone signs in.',
        });
        // Its event makes this and other tabs check the staff status again.
        await (await staff.auth()).refreshSession();
        onPassed();
      },
      (error) => {
        const own = error instanceof Error ? messageForUser(error) : '';
        if (!own) console.warn('A recovery code was not checked', error);
        setProblem(own || 'The code could not be checked. Please try again.');
      },
    );

  return (
    <form
      className="grid gap-4"
      onSubmit={(event) => {
        event.preventDefault();
        void use(String(new FormData(event.currentTarget).get('code')));
      }}
    >
      <TextField
        label="Recovery code"
        name="code"
        required
        autoFocus
        autoComplete="off"
        autoCapitalize="characters"
        spellCheck={false}
        maxLength={40}
        problem={problem}
        hint={`One of the ten that you kept. It removes the authenticator app of ${email} and signs out all other devices.`}
      />
      <Button type="submit" size="large" isBusy={isRunning}>
        {isRunning ? 'Signing in...' : 'Remove the app and sign in'}
      </Button>
    </form>
  );
}
