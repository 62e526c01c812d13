// Asks for one text when a drink that is sold out is back. A plain form without JavaScript; with JavaScript the result appears in place.
import { useEffect, useId, useRef } from 'react';
import { useFetcher } from 'react-router';
import { deviceStorage, tabStorage } from '../../lib/browser/browser-storage.ts';
import { Button } from '../../ui/button.tsx';
import { TextField } from '../../ui/field.tsx';
import { Notice } from '../../ui/notice.tsx';
import { startingForm } from '../order/form/order-memory.ts';

/** Of the route `back-in-stock`. */
export interface StockAlertAnswer {
  isDone: boolean;
  text: string;
  /** As typed. */
  phone?: string;
}

interface StockAlertFormProps {
  product: { id: string; slug: string; name: string };
  /** Of a form that was sent without JavaScript. */
  sent?: StockAlertAnswer | undefined;
}

export default function StockAlertForm({ product, sent }: StockAlertFormProps) {
  const fetcher = useFetcher<StockAlertAnswer>();
  const isSending = fetcher.state !== 'idle';
  const answer = isSending ? undefined : (fetcher.data ?? sent);
  const done = useRef<HTMLDivElement>(null);
  const form = useRef<HTMLFormElement>(null);
  const titleId = useId();

  // After hydration: the server does not know the customer of this device. What was typed before stays.
  useEffect(() => {
    const field = phoneField(form.current);
    if (field) field.value ||= startingForm(tabStorage(), deviceStorage()).phone;
  }, []);
  // This code comes after the page: a link to the form has found nothing to scroll to.
  useEffect(() => {
    if (location.hash === '#back') form.current?.scrollIntoView({ block: 'center' });
  }, []);
  // Moves focus to the result: to the confirmation, or back to the field.
  useEffect(() => {
    if (!fetcher.data) return;
    if (fetcher.data.isDone) done.current?.focus();
    else phoneField(form.current)?.focus();
  }, [fetcher.data]);

  if (answer?.isDone) {
    return (
      <div ref={done} tabIndex={-1} className="outline-none!">
        <Notice tone="success" title={answer.text}>
          We delete your number then, or after 60 days.
        </Notice>
      </div>
    );
  }
  return (
    <section
      id="back"
      aria-labelledby={titleId}
      className="grid gap-3 rounded-xl bg-card p-4 shadow-sm sm:p-5"
    >
      <h2 id={titleId} className="text-xl">
        Tell me when it's back
      </h2>
      <fetcher.Form
        ref={form}
        method="post"
        action={`/shop/${product.slug}/back-in-stock`}
        defaultShouldRevalidate={false}
        className="grid gap-3"
      >
        <TextField
          label="Your phone"
          name="phone"
          type="tel"
          required
          maxLength={100}
          autoComplete="tel"
          placeholder="0712 345 678"
          defaultValue={sent?.phone}
          problem={answer?.text}
        />
        <label className="flex min-h-11 cursor-pointer items-center gap-3 text-sm">
          <input
            type="checkbox"
            name="consent"
            value="yes"
            required
            className="size-5 shrink-0 accent-leaf-600"
          />
          <span>Send me one text about {product.name}, and no other.</span>
        </label>
        <Button type="submit" isBusy={isSending} className="justify-self-start">
          {isSending ? 'One moment…' : 'Text me'}
        </Button>
      </fetcher.Form>
    </section>
  );
}

const phoneField = (form: HTMLFormElement | null) =>
  form?.elements.namedItem('phone') as HTMLInputElement | null | undefined;
