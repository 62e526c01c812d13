// The placeholders of a text that staff edit: their meaning, and buttons that insert them.
import type { RefObject } from 'react';
import { keysOf } from '../data/keys-of.ts';

interface PlaceholdersProps<Name extends string> {
  /** Meaning of each placeholder, by its name without braces. */
  words: Readonly<Partial<Record<Name, string>>>;
  /** The form whose field `body` they are inserted into. */
  form: RefObject<HTMLFormElement | null>;
  /** Called with the text of the field including the placeholder. */
  onInsert(body: string): void;
}

export function Placeholders<Name extends string>({ words, form, onInsert }: PlaceholdersProps<Name>) {
  function insert(name: Name) {
    const field = form.current?.elements.namedItem('body');
    if (!(field instanceof HTMLTextAreaElement)) return;
    const { selectionStart: start, selectionEnd: end, value } = field;
    const word = `{${name}}`;
    onInsert(`${value.slice(0, start)}${word}${value.slice(end)}`);
    requestAnimationFrame(() => {
      field.focus();
      field.setSelectionRange(start + word.length, start + word.length);
    });
  }

  return (
    <details>
      <summary className="min-h-11 cursor-pointer py-2.5 font-semibold">Placeholders</summary>
      <ul className="grid gap-1">
        {keysOf(words).map((name) => (
          <li key={name} className="text-sm">
            <button
              type="button"
              onClick={() => insert(name)}
              className="tap relative rounded-sm px-1 font-mono font-semibold text-dusk-600 underline"
            >
              <span className="sr-only">Insert </span>
              {`{${name}}`}
            </button>{' '}
            {words[name]}
          </li>
        ))}
      </ul>
    </details>
  );
}
