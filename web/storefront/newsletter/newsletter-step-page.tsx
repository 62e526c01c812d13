// The pages that links of newsletter e-mails open. Opening one changes nothing, because mail scanners follow links;
// its button is a plain form. Mail programs post to the unsubscribe URL itself (RFC 8058).
import { data, Form, Link, useNavigation } from 'react-router';
import type { NewsletterStep } from '../../../domain/messages/newsletter-link.ts';
import { shopContext } from '../../lib/shop-context.ts';
import { Button, buttonStyle } from '../../ui/button.tsx';
import { Notice } from '../../ui/notice.tsx';
import { useShop } from '../layout/use-shop.ts';
import type { Route } from './+types/newsletter-step-page.ts';

const steps = {
  confirm: {
    procedure: 'confirm_newsletter',
    title: 'One tap to go',
    text: 'Confirm that you want news from us: a short note when a new flavor leaves the press.',
    button: 'Yes, send me news',
    done: 'You are on the list. First sip goes to you.',
    unknown:
      'This link was used already, or is older than a week. If you confirmed before, you are on the list. If not, subscribe again at the foot of any page.',
  },
  unsubscribe: {
    procedure: 'unsubscribe_from_newsletter',
    title: 'Leave the newsletter',
    text: 'We will send you no more news and delete your address from the list.',
    button: 'Unsubscribe',
    done: 'You are off the list, and your address is deleted.',
    unknown: 'This address is not on our list any more. If you still get news from us, please tell us.',
  },
} as const satisfies Record<NewsletterStep, object>;

export const meta: Route.MetaFunction = () => [
  { title: 'Newsletter' },
  { name: 'robots', content: 'noindex' },
];

export function headers() {
  return { 'Cache-Control': 'private, no-store', 'Referrer-Policy': 'same-origin' };
}

function stepOf({ step }: { step: string }): NewsletterStep {
  if (step !== 'confirm' && step !== 'unsubscribe') throw data(null, { status: 404 });
  return step;
}

export const loader = ({ params }: Route.LoaderArgs) => ({ step: stepOf(params) });

export async function action({ params, url, context }: Route.ActionArgs) {
  const { procedure } = steps[stepOf(params)];
  const { tables } = context.get(shopContext).store;
  const { data: isDone, error } = await tables.rpc(procedure, {
    token: (url.searchParams.get('token') ?? '').slice(0, 100),
  });
  if (error) return data({ outcome: 'failed' as const }, { status: 503 });
  return { outcome: isDone ? ('done' as const) : ('unknown' as const) };
}

export default function NewsletterStepPage({ loaderData, actionData }: Route.ComponentProps) {
  const { settings } = useShop();
  const isSending = useNavigation().state === 'submitting';
  const { title, text, button, done, unknown } = steps[loaderData.step];
  const outcome = actionData?.outcome;

  return (
    <section aria-labelledby="newsletter-step" className="page grid max-w-2xl gap-6 py-16 md:py-24">
      <h1 id="newsletter-step" className="text-4xl font-extrabold">
        {outcome === 'done' || outcome === 'unknown' ? 'Newsletter' : title}
      </h1>
      {outcome === 'done' ? <Notice tone="success" title={done} /> : null}
      {outcome === 'unknown' ? (
        <Notice tone="info" title="This link does not work any more">
          {unknown}
        </Notice>
      ) : null}
      {outcome === 'failed' ? (
        <Notice tone="danger" title="That did not work">
          Please try again in a moment, or write to {settings.support_email}.
        </Notice>
      ) : null}
      {outcome === undefined || outcome === 'failed' ? (
        <>
          <p className="text-lg text-ink-soft">{text}</p>
          <Form method="post" className="justify-self-start">
            <Button type="submit" size="large" isBusy={isSending}>
              {button}
            </Button>
          </Form>
        </>
      ) : (
        <Link to="/shop" className={`${buttonStyle('leaf', 'large')} justify-self-start`}>
          Back to Shop
        </Link>
      )}
    </section>
  );
}
