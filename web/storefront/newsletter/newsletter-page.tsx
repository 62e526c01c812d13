// Receives newsletter subscriptions. Its page is shown only without JavaScript.
import { data, Link } from 'react-router';
import { isEmail } from '../../../domain/people/email.ts';
import { withTimeout } from '../../../domain/timeout.ts';
import { shopContext } from '../../lib/shop-context.ts';
import { buttonStyle } from '../../ui/button.tsx';
import { Notice } from '../../ui/notice.tsx';
import type { Route } from './+types/newsletter-page.ts';

export const meta: Route.MetaFunction = () => [
  { title: 'Newsletter' },
  { name: 'robots', content: 'noindex' },
];

// Without a submitted form there is no page. Thrown after the loaders, so that the error page has the storefront's layout.
export const middleware: Route.MiddlewareFunction[] = [
  async ({ request }, next) => {
    const answer = await next();
    if (request.method !== 'POST') throw data(null, { status: 404 });
    return answer;
  },
];

export const loader = () => null;

const failed = 'That did not work. Please try again later.';

export async function action({ request, context }: Route.ActionArgs) {
  const email = String((await request.formData()).get('email') ?? '').trim();
  if (!isEmail(email)) {
    return data({ isDone: false, text: 'Please enter a valid email address' }, { status: 400 });
  }
  const { error, status } = await context
    .get(shopContext)
    .store.tables.rpc('subscribe_to_newsletter', { email });
  if (!error) return { isDone: true, text: 'Almost there: open the link in the mail we just sent you.' };
  const text = error.message && status === 429 ? error.message : failed;
  return data({ isDone: false, text }, { status: status >= 400 ? status : 503 });
}

/** Reports a request that does not reach the server as a failure; the footer's form shows it in place. */
export async function clientAction({ serverAction }: Route.ClientActionArgs) {
  const answer = await withTimeout(serverAction()).catch(() => null);
  return typeof answer?.text === 'string' ? answer : { isDone: false, text: failed };
}

export default function NewsletterPage({ actionData }: Route.ComponentProps) {
  return (
    <section className="page grid max-w-text gap-6 py-20">
      <h1 className="text-4xl">Newsletter</h1>
      {actionData ? <Notice tone={actionData.isDone ? 'success' : 'danger'} title={actionData.text} /> : null}
      <Link to="/shop" className={`${buttonStyle('leaf', 'large')} justify-self-start`}>
        Back to Shop
      </Link>
    </section>
  );
}
