// What a browser finds wrong with a field, told beside it in the shop's words. Without scripts the browser's own bubble does.
import { type FormEvent, useState } from 'react';

type Control = HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement;

function wordsFor({ validity, type, title, minLength }: Control & { minLength?: number }, label: string) {
  if (type === 'email') return 'Please enter a valid email address';
  if (validity.valueMissing) return `${label} is required`;
  if (validity.tooShort) return `At least ${minLength} characters`;
  return title || `Please check: ${label}`;
}

/** Gives what is wrong, if anything, and the two handlers the field needs. The first wrong field takes the focus. */
export function useOwnWords(label: string) {
  const [found, setFound] = useState<string>();
  return {
    found,
    onInvalid(event: FormEvent<Control>) {
      event.preventDefault();
      const field = event.currentTarget;
      setFound(wordsFor(field, label));
      // Once the words are there, so that they are read with it.
      if (field.form?.querySelector(':is(input, select, textarea):invalid') === field)
        requestAnimationFrame(() => field.focus());
    },
    onInput() {
      setFound(undefined);
    },
  };
}
