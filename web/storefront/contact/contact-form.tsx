// The message form. Without JavaScript the answer is a page; with JavaScript it is a toast, and the form is cleared.
import { useEffect, useRef, useState } from 'react';
import { useFetcher } from 'react-router';
import { Button } from '../../ui/button.tsx';
import { TextArea, TextField } from '../../ui/field.tsx';
import { Notice } from '../../ui/notice.tsx';
import { prepareToasts, tryToShowToast } from '../../ui/toasts/toasts.tsx';

const sent = { title: 'Message sent successfully!', text: "We'll get back to you as soon as possible." };
const failed = { title: 'Error sending message', text: 'Please try again later.' };

/** `wasSent` is the result of a form that was sent without JavaScript. */
export function ContactForm({ wasSent }: { wasSent: boolean | undefined }) {
  const fetcher = useFetcher<{ isSent: boolean }>();
  const form = useRef<HTMLFormElement>(null);
  const isSending = fetcher.state !== 'idle';
  const isSubmitted = useRef(false);
  const [outcome, setOutcome] = useState(wasSent);

  useEffect(() => {
    if (fetcher.state !== 'idle') return;
    isSubmitted.current = false;
    if (!fetcher.data) return;
    const { isSent } = fetcher.data;
    if (isSent) form.current?.reset();
    void tryToShowToast(isSent ? sent : { ...failed, kind: 'error' }).then((isShown) =>
      setOutcome(isShown ? undefined : isSent),
    );
  }, [fetcher.state, fetcher.data]);

  return (
    <fetcher.Form
      ref={form}
      method="post"
      action="/contact"
      defaultShouldRevalidate={false}
      onFocus={prepareToasts}
      onSubmit={(event) => {
        if (isSubmitted.current) event.preventDefault();
        // A message sent offline would be lost.
        if (!navigator.onLine) {
          event.preventDefault();
          void tryToShowToast({
            ...failed,
            text: 'You are offline. Please try again when you are back.',
            kind: 'error',
          });
          return;
        }
        isSubmitted.current = true;
      }}
      className="grid gap-5"
    >
      {outcome === undefined ? null : (
        // Without JavaScript the answer is a new page: scrolls to the result, which is below the first screen.
        <div tabIndex={-1} {...(wasSent === undefined ? {} : { autoFocus: true })} className="outline-none!">
          {outcome ? (
            <Notice tone="success" title={sent.title}>
              {sent.text}
            </Notice>
          ) : (
            <Notice tone="danger" title={failed.title}>
              {failed.text}
            </Notice>
          )}
        </div>
      )}
      <div className="grid grid-cols-1 gap-5 sm:grid-cols-2">
        <TextField label="First name" name="firstName" required maxLength={99} autoComplete="given-name" />
        <TextField label="Last name" name="lastName" required maxLength={99} autoComplete="family-name" />
        <TextField label="Email" name="email" type="email" required maxLength={254} autoComplete="email" />
        <TextField
          label="Phone"
          name="phone"
          type="tel"
          maxLength={40}
          autoComplete="tel"
          placeholder="+254 7XX XXX XXX"
        />
      </div>
      <TextField label="Subject" name="subject" maxLength={300} />
      <TextArea label="Message" name="message" required rows={6} maxLength={10000} />
      <Button type="submit" size="large" isBusy={isSending} className="justify-self-start">
        {isSending ? 'Sending...' : 'Send message'}
      </Button>
    </fetcher.Form>
  );
}
