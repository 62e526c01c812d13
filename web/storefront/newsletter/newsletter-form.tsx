// Subscribes an e-mail address to the newsletter. A plain form without JavaScript; with JavaScript the result appears
// in place.
import { useEffect, useRef } from 'react';
import { useFetcher } from 'react-router';
import { Button } from '../../ui/button.tsx';
import { useValidationText } from '../../ui/use-validation-text.ts';
import type { action } from './newsletter-page.tsx';

export function NewsletterForm() {
  const fetcher = useFetcher<typeof action>({ key: 'newsletter' });
  const isSending = fetcher.state !== 'idle';
  const answer = isSending ? undefined : fetcher.data;
  const { found, onInvalid, onInput } = useValidationText('Your email address');
  const problem = found ?? answer?.text;
  const done = useRef<HTMLParagraphElement>(null);
  const address = useRef<HTMLInputElement>(null);
  // Moves focus to the result: to the confirmation, or back to the field.
  useEffect(() => {
    if (answer) (done.current ?? address.current)?.focus();
  }, [answer]);

  if (answer?.isDone)
    return (
      <p ref={done} tabIndex={-1} role="status" className="font-semibold text-leaf-300 outline-none!">
        {answer.text}
      </p>
    );

  return (
    <fetcher.Form
      method="post"
      action="/newsletter"
      defaultShouldRevalidate={false}
      className="grid grid-cols-1 gap-2"
    >
      <label htmlFor="newsletter-email" className="sr-only">
        Your email address
      </label>
      <div className="flex flex-wrap gap-2">
        <input
          ref={address}
          id="newsletter-email"
          name="email"
          type="email"
          required
          maxLength={254}
          autoComplete="email"
          placeholder="you@example.com"
          onInvalid={onInvalid}
          onInput={onInput}
          aria-invalid={problem ? true : undefined}
          aria-describedby={problem ? 'newsletter-answer' : undefined}
          className="min-h-12 min-w-[min(11rem,100%)] flex-1 rounded-pill border border-white/40 bg-white/8 px-5 text-sm text-white placeholder:text-dusk-200 hover:border-white/70"
        />
        <Button type="submit" tone="ember" isBusy={isSending}>
          {isSending ? 'Subscribing…' : 'Subscribe'}
        </Button>
      </div>
      {problem ? (
        <p id="newsletter-answer" role="alert" className="text-sm font-semibold text-ember-200">
          {problem}
        </p>
      ) : null}
    </fetcher.Form>
  );
}
