// Forgotten password: requests the e-mail; its link opens this page to set a new one.
import type { Session } from '@supabase/auth-js';
import { useEffect, useState } from 'react';
import { Link, redirect, useNavigate, useRevalidator } from 'react-router';
import { describeAuthProblem } from '../../lib/auth-error-texts.ts';
import { onStaffStatusChange, type Staff } from '../../lib/staff.ts';
import { passwordResetPath } from '../../lib/staff-status.ts';
import { Button } from '../../ui/button.tsx';
import { TextField } from '../../ui/field.tsx';
import { Notice } from '../../ui/notice.tsx';
import { showToast } from '../../ui/toasts/toasts.tsx';
import { useAttempt } from '../data/use-attempt.ts';
import { describeStaffPage, staffFor } from '../layout/staff-page.ts';
import { NewPasswordFields, readNewPassword } from '../ui/new-password-fields.tsx';
import { PanelLoading } from '../ui/panel-loading.tsx';
import type { Route } from './+types/reset-password-page.ts';
import { SecondStep } from './second-step.tsx';
import { SignInLayout } from './sign-in-layout.tsx';
import '../layout/staff.css';

export const meta: Route.MetaFunction = ({ matches }) => describeStaffPage(matches, 'Reset password');

export async function clientLoader({ request }: Route.ClientLoaderArgs) {
  const staff = staffFor(request);
  // The result of the link, if the page was opened by one.
  const { error } = await (await staff.auth()).initialize();
  if (error) window.history.replaceState(window.history.state, '', passwordResetPath);
  const { data } = await (await staff.auth()).getSession();
  const isByLink = data.session !== null && cameByLink(data.session);
  const status = await staff.status();
  if (status.is === 'staff' && !isByLink) throw redirect('/admin/account');
  return { staff, status, isByLink, linkProblem: error ? describeLinkProblem(error) : null };
}
clientLoader.hydrate = true as const;

const describeLinkProblem = (error: unknown) =>
  describeAuthProblem(error, 'Email link is invalid or has expired');

/** Whether a session began with a link from an e-mail rather than with a password. */
function cameByLink({ access_token }: Session): boolean {
  try {
    const payload = access_token.split('.')[1]?.replaceAll('-', '+').replaceAll('_', '/') ?? '';
    const { amr } = JSON.parse(atob(payload)) as { amr?: { method?: string }[] };
    return (amr ?? []).some(({ method = '' }) => ['recovery', 'otp', 'magiclink', 'invite'].includes(method));
  } catch {
    return false;
  }
}

export function HydrateFallback() {
  return (
    <SignInLayout title="Reset password" subtitle="A new password for the admin panel">
      <PanelLoading label="Loading..." />
    </SignInLayout>
  );
}

export default function ResetPasswordPage({ loaderData }: Route.ComponentProps) {
  const { staff, status, isByLink, linkProblem } = loaderData;
  const { revalidate } = useRevalidator();
  useEffect(() => onStaffStatusChange(staff, () => void revalidate()), [staff, revalidate]);

  if (isByLink && status.is === 'second step') {
    return (
      <SignInLayout title="Reset password" subtitle="First, the second step of your account">
        <SecondStep
          staff={staff}
          email={status.email}
          factors={status.factors}
          onPassed={() => void revalidate()}
        />
      </SignInLayout>
    );
  }
  return isByLink ? (
    <SignInLayout title="Set a new password" subtitle="You will stay signed in on this device">
      <NewPassword staff={staff} email={'email' in status ? status.email : ''} />
    </SignInLayout>
  ) : (
    <SignInLayout title="Reset password" subtitle="We send you a link to set a new one">
      <AskForLink staff={staff} linkProblem={linkProblem} />
    </SignInLayout>
  );
}

function AskForLink({ staff, linkProblem }: { staff: Staff; linkProblem: string | null }) {
  const { isBusy, problem, attempt } = useAttempt('The mail could not be sent');
  const [sentTo, setSentTo] = useState<string | null>(null);
  const [isSentBefore, setSentBefore] = useState(false);
  const [typed, setTyped] = useState('');

  async function requestLink(form: FormData) {
    const email = String(form.get('email')).trim();
    setTyped(email);
    let isRefused = false;
    const isRequested = await attempt(async () => {
      const redirectTo = new URL(passwordResetPath, window.location.href).href;
      const { error } = await (await staff.auth()).resetPasswordForEmail(email, { redirectTo });
      // Refused only while the last link is valid, which the owner of the address can use.
      isRefused = error?.code === 'over_email_send_rate_limit';
      return isRefused ? null : error;
    });
    if (!isRequested) return;
    setSentBefore(isRefused);
    setSentTo(email);
  }

  // The session that the code opens makes this page show the next step.
  const enterCode = (form: FormData) =>
    attempt(async () => {
      const token = String(form.get('code')).replace(/\s/g, '');
      return (await (await staff.auth()).verifyOtp({ email: sentTo ?? '', token, type: 'recovery' })).error;
    });

  return (
    <div className="grid gap-5">
      {linkProblem && !sentTo ? (
        <Notice tone="danger" title={linkProblem}>
          Please ask for a new link.
        </Notice>
      ) : null}
      {problem ? <Notice tone="danger" title={problem} /> : null}
      {sentTo ? (
        <>
          {isSentBefore ? (
            <Notice tone="info" title="We already sent an email">
              If {sentTo} belongs to an account, the newest email from us still works. Open its link, or enter
              its code here.
            </Notice>
          ) : (
            <Notice tone="success" title="Check your e-mail">
              If {sentTo} belongs to an account, a link and a code are on their way there. Either can be used
              once.
            </Notice>
          )}
          <form
            className="grid gap-5"
            onSubmit={(event) => {
              event.preventDefault();
              void enterCode(new FormData(event.currentTarget));
            }}
          >
            <TextField
              label="Code from the mail"
              name="code"
              required
              // The step follows from the user's last action.
              autoFocus
              inputMode="numeric"
              autoComplete="one-time-code"
              maxLength={20}
            />
            <Button type="submit" size="large" isBusy={isBusy}>
              Continue
            </Button>
            <Button tone="quiet" isBusy={isBusy} onClick={() => setSentTo(null)}>
              Ask for another mail
            </Button>
          </form>
        </>
      ) : (
        <form
          className="grid gap-5"
          onSubmit={(event) => {
            event.preventDefault();
            void requestLink(new FormData(event.currentTarget));
          }}
        >
          <TextField
            label="Email"
            name="email"
            type="email"
            required
            autoComplete="username"
            maxLength={254}
            defaultValue={typed}
          />
          <Button type="submit" size="large" isBusy={isBusy}>
            {isBusy ? 'Sending...' : 'Send the link'}
          </Button>
        </form>
      )}
      <Link
        to="/admin/login"
        className="inline-flex min-h-11 items-center justify-self-center rounded-md px-2 text-sm font-semibold text-leaf-700 underline"
      >
        Back to sign in
      </Link>
    </div>
  );
}

function NewPassword({ staff, email }: { staff: Staff; email: string }) {
  const { isBusy, problem, attempt } = useAttempt('The password could not be set');
  const [mismatch, setMismatch] = useState<string | null>(null);
  const navigate = useNavigate();

  async function set(form: FormData) {
    const { password, problem: wrong } = readNewPassword(form);
    setMismatch(wrong);
    if (wrong) return;
    const isSet = await attempt(async () => (await (await staff.auth()).updateUser({ password })).error);
    if (!isSet) return;
    showToast({ title: 'Success', text: 'Your new password is set' });
    await navigate('/admin/login', { replace: true });
  }

  return (
    <form
      className="grid gap-5"
      onSubmit={(event) => {
        event.preventDefault();
        void set(new FormData(event.currentTarget));
      }}
    >
      {problem ? <Notice tone="danger" title={problem} /> : null}
      <NewPasswordFields email={email} problem={mismatch} />
      <Button type="submit" size="large" isBusy={isBusy}>
        {isBusy ? 'Saving...' : 'Set password'}
      </Button>
    </form>
  );
}
