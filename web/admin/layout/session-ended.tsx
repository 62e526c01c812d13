// Sign-in dialog over the screen of an ended session, so that typed text is not lost.
import { Dialog } from 'radix-ui';
import type { Staff } from '../../lib/staff.ts';
import type { StaffStatus } from '../../lib/staff-status.ts';
import { Button } from '../../ui/button.tsx';
import { TextField } from '../../ui/field.tsx';
import { Notice } from '../../ui/notice.tsx';
import { useAttempt } from '../data/use-attempt.ts';
import { SecondStep } from '../sign-in/second-step.tsx';

interface SessionEndedProps {
  staff: Staff;
  email: string;
  status: StaffStatus;
  hasUnsaved: boolean;
}

/** Hides the screen beneath. Closes once this tab or another one has a session again. */
export function SessionEnded({ staff, email, status, hasUnsaved }: SessionEndedProps) {
  const stay = (event: Event) => event.preventDefault();
  return (
    <Dialog.Root open>
      <Dialog.Portal>
        <Dialog.Overlay className="fixed inset-0 z-60 bg-(image:--gradient-dusk)" />
        <Dialog.Content
          onEscapeKeyDown={stay}
          onInteractOutside={stay}
          className="fixed top-1/2 left-1/2 z-60 grid max-h-[calc(100dvh-1rem)] w-[min(28rem,calc(100vw-2rem))] -translate-x-1/2 -translate-y-1/2 gap-5 overflow-y-auto rounded-xl bg-paper p-6 text-ink shadow-xl outline-none"
        >
          <header className="grid gap-1">
            <Dialog.Title className="text-2xl">Your session has ended</Dialog.Title>
            <Dialog.Description className="text-sm text-ink-soft">
              {hasUnsaved ? 'What you typed is still here. ' : ''}Sign in again to go on where you were.
            </Dialog.Description>
          </header>
          {status.is === 'second step' ? (
            <SecondStep staff={staff} email={status.email} factors={status.factors} onPassed={() => {}} />
          ) : (
            <PasswordForm staff={staff} email={email} />
          )}
          <div className="flex flex-wrap gap-x-4 text-sm font-semibold">
            <a
              href="/admin/login"
              target="_blank"
              rel="noreferrer"
              className="inline-flex min-h-11 items-center text-leaf-700 underline"
            >
              Sign in in a new tab
            </a>
            <a href="/admin/login" className="inline-flex min-h-11 items-center text-leaf-700 underline">
              {hasUnsaved ? 'Leave without saving' : 'Use another account'}
            </a>
          </div>
        </Dialog.Content>
      </Dialog.Portal>
    </Dialog.Root>
  );
}

function PasswordForm({ staff, email }: { staff: Staff; email: string }) {
  const { isBusy, problem, attempt } = useAttempt('Login failed');
  return (
    <form
      className="grid gap-4"
      onSubmit={(event) => {
        event.preventDefault();
        const password = String(new FormData(event.currentTarget).get('password'));
        void attempt(async () => (await (await staff.auth()).signInWithPassword({ email, password })).error);
      }}
    >
      {problem ? <Notice tone="danger" title={problem} /> : null}
      <input type="hidden" name="email" autoComplete="username" value={email} readOnly />
      <TextField
        label="Password"
        name="password"
        type="password"
        required
        autoFocus
        autoComplete="current-password"
        maxLength={256}
        hint={`Signing in as ${email}.`}
      />
      <Button type="submit" size="large" isBusy={isBusy}>
        {isBusy ? 'Signing in...' : 'Sign In'}
      </Button>
    </form>
  );
}
