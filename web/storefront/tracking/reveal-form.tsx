// Asks who wants to see more of an order to show that it is theirs.
import { useEffect, useRef } from 'react';
import { Form, useNavigation } from 'react-router';
import { Button } from '../../ui/button.tsx';
import { TextField } from '../../ui/field.tsx';

interface RevealFormProps {
  problem: string | null;
  /** What the button says. */
  label: string;
  className?: string;
}

export function RevealForm({ problem, label, className = '' }: RevealFormProps) {
  const { state } = useNavigation();
  // Only until it is answered: who types the digits again while the page is still brought up to date is heard.
  const isAsking = state === 'submitting';
  const form = useRef<HTMLFormElement>(null);
  // Wrong digits are typed again: the field says what was wrong with them.
  useEffect(() => {
    const digits = form.current?.elements.namedItem('digits');
    if (problem && !isAsking && digits instanceof HTMLInputElement) digits.select();
  }, [problem, isAsking]);
  return (
    <Form
      ref={form}
      method="post"
      replace
      // The answer is the order itself: it need not be looked up once more.
      defaultShouldRevalidate={false}
      preventScrollReset
      className={`grid gap-3 ${className}`}
    >
      <TextField
        label="Last four digits of the phone"
        name="digits"
        inputMode="numeric"
        autoComplete="off"
        pattern="[0-9]{4}"
        title="Please enter four digits"
        maxLength={4}
        required
        hint="To see the details in full, show that this order is yours."
        problem={problem ?? undefined}
      />
      <Button type="submit" tone="quiet" isBusy={isAsking} className="justify-self-start">
        {label}
      </Button>
    </Form>
  );
}
