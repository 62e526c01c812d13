// Shows the browser's validation errors beside the field in the shop's own texts. Without JavaScript the browser
// shows its own.
import { type FormEvent, useState } from 'react';

type Control = HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement;

function validationTextOf(
  { validity, type, title, minLength }: Control & { minLength?: number },
  label: string,
) {
  if (type === 'email') return 'Please enter a valid email address';
  if (validity.valueMissing) return `${label} is required`;
  if (validity.tooShort) return `At least ${minLength} characters`;
  return title || `Please check: ${label}`;
}

/** Returns the error, if any, and two handlers for the field. The first invalid field receives focus. */
export function useValidationText(label: string) {
  const [found, setFound] = useState<string>();
  return {
    found,
    onInvalid(event: FormEvent<Control>) {
      event.preventDefault();
      const field = event.currentTarget;
      setFound(validationTextOf(field, label));
      // After the error is rendered, so that screen readers read it with the field.
      if (field.form?.querySelector(':is(input, select, textarea):invalid') === field)
        requestAnimationFrame(() => field.focus());
    },
    onInput() {
      setFound(undefined);
    },
  };
}
