// Sign-in (docs/product.md#sign-in): a password, then the second factor if the account has one.
import { useEffect, useState } from 'react';
import { Form, Link, redirect, useNavigation, useRevalidator } from 'react-router';
import { onStaffStatusChange, type Staff } from '../../lib/staff.ts';
import { Button } from '../../ui/button.tsx';
import { TextField } from '../../ui/field.tsx';
import { Notice } from '../../ui/notice.tsx';
import { showToast } from '../../ui/toasts/toasts.tsx';
import { useAction } from '../../ui/use-action.ts';
import { EarlyRequests } from '../data/early-requests.tsx';
import { useAttempt } from '../data/use-attempt.ts';
import { homeOf } from '../layout/roles/screen-areas.ts';
import { describeStaffPage, staffFor } from '../layout/staff-page.ts';
import { PanelLoading } from '../ui/panel-loading.tsx';
import type { Route } from './+types/sign-in-page.ts';
import { SecondStep } from './second-step.tsx';
import { SignInLayout } from './sign-in-layout.tsx';
import { describeSignInProblem } from './sign-in-problem.ts';
import '../layout/staff.css';

/** After this time on the page since sign-in, the reason is shown (docs/product.md#numbers). */
const hintAfterMs = 1000;

export const meta: Route.MetaFunction = ({ matches }) => describeStaffPage(matches, 'Sign in');

export async function clientLoader({ request }: Route.ClientLoaderArgs) {
  const staff = staffFor(request);
  const [status, arePasskeysEnabled] = await Promise.all([staff.status(), staff.arePasskeysEnabled()]);
  if (status.is === 'staff') throw redirect(homeOf(status.role));
  return { staff, status, canUsePasskey: arePasskeysEnabled && 'PublicKeyCredential' in window };
}
clientLoader.hydrate = true as const;

export async function clientAction({ request }: Route.ClientActionArgs) {
  const form = await request.formData();
  try {
    const { data, error } = await (await staffFor(request).auth()).signInWithPassword({
      email: String(form.get('email')).trim(),
      password: String(form.get('password')),
    });
    if (data.weakPassword) {
      showToast({
        kind: 'error',
        title: 'Your password is easy to guess',
        text: 'Please change it on the account page.',
      });
    }
    return { problem: error ? describeSignInProblem(error) : null };
  } catch (thrown) {
    return { problem: describeSignInProblem(thrown) };
  }
}

export function HydrateFallback() {
  return (
    <SignInLayout subtitle="Sign in to access the admin panel">
      <PanelLoading label="Loading..." />
      <EarlyRequests />
    </SignInLayout>
  );
}

export default function SignInPage({ loaderData, actionData }: Route.ComponentProps) {
  const { staff, status } = loaderData;
  const { revalidate } = useRevalidator();
  useEffect(() => onStaffStatusChange(staff, () => void revalidate()), [staff, revalidate]);

  return status.is === 'second step' ? (
    <SignInLayout subtitle="One more step to access the admin panel">
      <SecondStep
        staff={staff}
        email={status.email}
        factors={status.factors}
        onPassed={() => void revalidate()}
      />
    </SignInLayout>
  ) : (
    <SignInLayout subtitle="Sign in to access the admin panel">
      <SignInForm {...loaderData} problem={actionData?.problem ?? null} />
    </SignInLayout>
  );
}

type SignInFormProps = Route.ComponentProps['loaderData'] & { problem: string | null };

function SignInForm({ staff, status, canUsePasskey, problem }: SignInFormProps) {
  const isBusy = useNavigation().state !== 'idle';
  const passkey = useAttempt('Login failed');
  const isHintDue = useIsTrueFor(status.is === 'not staff', hintAfterMs);

  return (
    <div className="grid gap-5">
      {status.is === 'signed out' && staff.isSignOutUnconfirmed() ? (
        <Notice tone="info" title="You are signed out on this device, but the shop could not be reached.">
          The session stays open there until it expires. To end it now, sign in again and choose “Sign out
          everywhere else” on your account page.
        </Notice>
      ) : null}
      {problem ? <Notice tone="danger" title={problem} /> : null}
      {passkey.problem ? <Notice tone="danger" title={passkey.problem} /> : null}
      {status.is === 'not staff' && isHintDue ? <NotStaff staff={staff} email={status.email} /> : null}
      <Form method="post" className="grid gap-5">
        <TextField
          label="Email"
          name="email"
          type="email"
          required
          autoComplete="username webauthn"
          maxLength={254}
        />
        <TextField
          label="Password"
          name="password"
          type="password"
          required
          autoComplete="current-password"
          maxLength={256}
        />
        <Button type="submit" size="large" isBusy={isBusy}>
          {isBusy ? 'Signing in...' : 'Sign In'}
        </Button>
      </Form>
      {canUsePasskey ? (
        <Button
          tone="outline"
          size="large"
          isBusy={isBusy || passkey.isBusy}
          onClick={() => passkey.attempt(async () => (await (await staff.auth()).signInWithPasskey()).error)}
        >
          Sign in with a passkey
        </Button>
      ) : null}
      <Link
        to="/admin/reset-password"
        className="inline-flex min-h-11 items-center justify-self-center rounded-md px-2 text-sm font-semibold text-leaf-700 underline"
      >
        Forgot password?
      </Link>
    </div>
  );
}

function NotStaff({ staff, email }: { staff: Staff; email: string }) {
  const { isRunning, run } = useAction();
  return (
    <div className="grid gap-2">
      <Notice tone="info" title="If you are not redirected, you may not have admin privileges.">
        You are signed in as {email}.
      </Notice>
      <button
        type="button"
        aria-busy={isRunning}
        onClick={() => run(staff.signOut, (error) => console.warn('Signing out failed', error))}
        className="min-h-11 justify-self-start rounded-md px-1 text-sm font-semibold text-leaf-700 underline"
      >
        Sign out of this account
      </button>
    </div>
  );
}

/** True once a condition has held for a while. */
function useIsTrueFor(condition: boolean, milliseconds: number): boolean {
  const [hasStayed, setStayed] = useState(false);
  useEffect(() => {
    setStayed(false);
    if (!condition) return;
    const timer = setTimeout(() => setStayed(true), milliseconds);
    return () => clearTimeout(timer);
  }, [condition, milliseconds]);
  return hasStayed;
}
