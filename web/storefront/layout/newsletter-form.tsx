// Takes an e-mail address for the newsletter. Works as a plain form; with scripts the answer appears in place.
import { useFetcher } from 'react-router';
import { buttonStyle } from '../../ui/button.tsx';
import type { action } from './newsletter-page.tsx';

export function NewsletterForm() {
  const fetcher = useFetcher<typeof action>({ key: 'newsletter' });
  const isSending = fetcher.state !== 'idle';
  const answer = isSending ? undefined : fetcher.data;

  if (answer?.isDone)
    return (
      <p role="status" className="font-semibold text-leaf-300">
        {answer.text}
      </p>
    );

  return (
    <fetcher.Form method="post" action="/newsletter" className="grid gap-2">
      <label htmlFor="newsletter-email" className="sr-only">
        E-mail address
      </label>
      <div className="flex flex-wrap gap-2">
        <input
          id="newsletter-email"
          name="email"
          type="email"
          required
          maxLength={254}
          autoComplete="email"
          placeholder="you@example.com"
          aria-describedby={answer ? 'newsletter-answer' : undefined}
          className="min-h-12 min-w-44 flex-1 rounded-pill border border-white/40 bg-white/8 px-5 text-sm text-white placeholder:text-dusk-200 hover:border-white/70"
        />
        <button type="submit" disabled={isSending} className={buttonStyle('ember', 'medium')}>
          {isSending ? 'Subscribing…' : 'Subscribe'}
        </button>
      </div>
      {answer ? (
        <p id="newsletter-answer" role="alert" className="text-sm font-semibold text-ember-200">
          {answer.text}
        </p>
      ) : null}
    </fetcher.Form>
  );
}
