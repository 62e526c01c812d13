// Asks for the last four digits of the order's phone, as proof that the order is the customer's.
import { useEffect, useRef } from 'react';
import { Form, useNavigation } from 'react-router';
import { Button } from '../../ui/button.tsx';
import { TextField } from '../../ui/field.tsx';

interface RevealFormProps {
  problem: string | null;
  /** Label of the button. */
  label: string;
  hint: string;
  onSubmit?(): void;
  className?: string;
}

export function RevealForm({ problem, label, hint, onSubmit, className = '' }: RevealFormProps) {
  const { state } = useNavigation();
  // Only until the response: digits can be typed again while the page is still reloading.
  const isSubmitting = state === 'submitting';
  const form = useRef<HTMLFormElement>(null);
  // Selects wrong digits, to be replaced; the field shows the error.
  useEffect(() => {
    const digits = form.current?.elements.namedItem('digits');
    if (problem && !isSubmitting && digits instanceof HTMLInputElement) digits.select();
  }, [problem, isSubmitting]);
  return (
    <Form
      ref={form}
      method="post"
      replace
      onSubmit={() => onSubmit?.()}
      // Right digits reveal the order; wrong ones change nothing that is shown.
      defaultShouldRevalidate={false}
      preventScrollReset
      className={`grid gap-3 ${className}`}
    >
      <TextField
        label="Last four digits of the phone"
        name="digits"
        inputMode="numeric"
        autoComplete="off"
        // The whole number also reveals the order, and is required after too many wrong attempts.
        pattern="[0-9]{4}|[+0-9][0-9 \-]{8,18}"
        title="Please enter four digits"
        maxLength={20}
        required
        hint={hint}
        problem={problem ?? undefined}
      />
      <Button type="submit" tone="quiet" isBusy={isSubmitting} className="justify-self-start">
        {label}
      </Button>
    </Form>
  );
}
