// A status that is changed where it is shown.
import { useId } from 'react';
import { statusWords } from './status-badge.tsx';

interface StatusSelectProps {
  /** Whose status it is, for who cannot see the row: 'Status of ORD-1001'. */
  label: string;
  value: string;
  /** What may be chosen. A value beyond them is shown, but cannot be chosen again once left. */
  options: readonly string[];
  /** The status that is being saved. */
  saving?: string | undefined;
  onChoose(status: string): void;
}

export function StatusSelect({ label, value, options, saving, onChoose }: StatusSelectProps) {
  const id = useId();
  return (
    <>
      <label htmlFor={id} className="sr-only">
        {label}
      </label>
      <select
        id={id}
        value={saving ?? value}
        aria-busy={saving !== undefined || undefined}
        // Not disabled while it is saved, which would throw the keyboard's focus away.
        onChange={(event) => saving === undefined && onChoose(event.target.value)}
        className="min-h-11 rounded-md border border-line-strong bg-card px-3 text-sm font-semibold text-ink transition-[border-color] hover:border-dusk-500 aria-busy:cursor-progress aria-busy:text-ink-soft"
      >
        {options.includes(value) ? null : (
          <option value={value} disabled>
            {statusWords(value)}
          </option>
        )}
        {options.map((option) => (
          <option key={option} value={option}>
            {statusWords(option)}
          </option>
        ))}
      </select>
    </>
  );
}
