// A status that is changed where it is shown.
import { useEffect, useId, useState } from 'react';
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
  // Chosen while an earlier choice was still being saved: its turn comes after that one, if that one succeeded.
  const [next, setNext] = useState<{ status: string; after: string } | null>(null);
  useEffect(() => {
    if (saving !== undefined || next === null) return;
    setNext(null);
    if (value === next.after && value !== next.status) onChoose(next.status);
  }, [saving, next, value, onChoose]);
  const choose = (status: string) =>
    saving === undefined ? onChoose(status) : setNext({ status, after: saving });
  return (
    <>
      <label htmlFor={id} className="sr-only">
        {label}
      </label>
      <select
        id={id}
        value={next?.status ?? saving ?? value}
        aria-busy={saving !== undefined || undefined}
        // Not disabled while it is saved, which would throw the keyboard's focus away.
        onChange={({ target }) => choose(target.value)}
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
