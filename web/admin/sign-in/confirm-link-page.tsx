// Opened by links in the emails of a hosted project (supabase/templates). Opening it changes nothing, because mail scanners and chat
// previews open links and run scripts: its button uses the token. Our own services have such a page themselves.
import type { EmailOtpType } from '@supabase/auth-js';
import { useState } from 'react';
import { Link, useNavigate } from 'react-router';
import { passwordResetPath } from '../../lib/staff-status.ts';
import { Button } from '../../ui/button.tsx';
import { Notice } from '../../ui/notice.tsx';
import { Spinner } from '../../ui/spinner.tsx';
import { useAttempt } from '../data/use-attempt.ts';
import { describeStaffPage, staffFor } from '../layout/staff-page.ts';
import type { Route } from './+types/confirm-link-page.ts';
import { SignInLayout } from './sign-in-layout.tsx';
import '../layout/staff.css';

interface Step {
  title: string;
  text: string;
  button: string;
  /** Where it leads. */
  next: string;
}

const signIn: Step = {
  title: 'Sign in',
  text: 'Press the button to sign in on this device.',
  button: 'Sign in',
  next: '/admin/login',
};
const steps = {
  recovery: {
    title: 'Reset your password',
    text: 'Press the button, then choose a new password.',
    button: 'Continue',
    next: passwordResetPath,
  },
  invite: {
    title: 'Welcome to the team',
    text: 'Press the button to accept the invitation, then choose a password.',
    button: 'Accept the invitation',
    next: passwordResetPath,
  },
  email_change: {
    title: 'Change your email address',
    text: 'Press the button to confirm the change of your email address.',
    button: 'Confirm the change',
    next: '/admin/account',
  },
  magiclink: signIn,
  signup: { ...signIn, title: 'Confirm your email address', button: 'Confirm' },
  email: signIn,
} satisfies Partial<Record<EmailOtpType, Step>>;
const isKnown = (type: string): type is keyof typeof steps => Object.hasOwn(steps, type);

export const meta: Route.MetaFunction = ({ matches }) => describeStaffPage(matches, 'Link from an email');

export function headers() {
  return { 'Cache-Control': 'private, no-store', 'Referrer-Policy': 'no-referrer' };
}

export function clientLoader({ request }: Route.ClientLoaderArgs) {
  const { searchParams } = new URL(request.url);
  const [hash, type] = [searchParams.get('token_hash') ?? '', searchParams.get('type') ?? ''];
  return { staff: staffFor(request), link: hash && isKnown(type) ? { hash, type, step: steps[type] } : null };
}
clientLoader.hydrate = true as const;

export function HydrateFallback() {
  return (
    <SignInLayout title="Link from an email" subtitle="One moment">
      <Spinner label="Loading..." />
    </SignInLayout>
  );
}

export default function ConfirmLinkPage({ loaderData: { staff, link } }: Route.ComponentProps) {
  const { isBusy, problem, attempt } = useAttempt('This link does not work any more');
  const [isHalfWay, setHalfWay] = useState(false);
  const navigate = useNavigate();

  if (!link) {
    return (
      <SignInLayout
        title="This link is incomplete"
        subtitle="Open it again from the email, or copy all of it."
      >
        <AskForNewLink />
      </SignInLayout>
    );
  }
  const { hash, type, step } = link;

  async function use() {
    let hasSession = false;
    const isUsed = await attempt(async () => {
      const { data, error } = await (await staff.auth()).verifyOtp({ token_hash: hash, type });
      hasSession = data.session !== null;
      return error;
    });
    if (!isUsed) return;
    // The first of two addresses has confirmed.
    if (hasSession) await navigate(step.next, { replace: true });
    else setHalfWay(true);
  }

  return (
    <SignInLayout title={step.title} subtitle={step.text}>
      {isHalfWay ? (
        <Notice tone="success" title="One more step">
          Thank you. Now open the link that we sent to your other email address.
        </Notice>
      ) : (
        <div className="grid gap-5">
          {problem ? (
            <Notice tone="danger" title={problem}>
              Please ask for a new link, then open the newest email.
            </Notice>
          ) : null}
          <Button size="large" isBusy={isBusy} onClick={() => void use()}>
            {step.button}
          </Button>
          {problem ? <AskForNewLink /> : null}
          <p className="text-center text-sm text-ink-soft">
            If you did not ask for this, close this page. Nothing happens until you press the button.
          </p>
        </div>
      )}
    </SignInLayout>
  );
}

const AskForNewLink = () => (
  <Link
    to={passwordResetPath}
    className="inline-flex min-h-11 items-center justify-self-center rounded-md px-2 text-sm font-semibold text-leaf-700 underline"
  >
    Ask for a new link
  </Link>
);
