// A choice between a few options, all of which are seen.
import { type ReactNode, useId } from 'react';

interface ChoicesProps<Value extends string> {
  label: string;
  options: readonly { value: Value; label: string }[];
  /** Undefined: nothing is chosen yet. */
  value: Value | undefined;
  problem?: string | undefined;
  onChoose(value: Value): void;
}

/** A few options, one of which is chosen, as pills. */
export function Choices<Value extends string>({
  label,
  options,
  value,
  problem,
  onChoose,
}: ChoicesProps<Value>): ReactNode {
  const name = useId();
  return (
    <fieldset
      className="min-w-0"
      aria-describedby={problem ? `${name}-problem` : undefined}
      data-problem={problem ? '' : undefined}
    >
      <legend className="mb-1.5 text-sm font-semibold">{label}</legend>
      <div className="flex flex-wrap gap-2">
        {options.map((option) => (
          <label
            key={option.value}
            className="relative inline-flex min-h-11 cursor-pointer items-center rounded-pill border border-line-strong bg-card px-4 text-sm font-semibold has-checked:border-dusk-800 has-checked:bg-dusk-800 has-checked:text-white has-focus-visible:outline-3 has-focus-visible:outline-offset-2 has-focus-visible:outline-(--ring)"
          >
            <input
              type="radio"
              name={name}
              value={option.value}
              checked={option.value === value}
              onChange={() => onChoose(option.value)}
              className="absolute inset-0 size-full cursor-pointer opacity-0"
            />
            {option.label}
          </label>
        ))}
      </div>
      {problem ? (
        <p id={`${name}-problem`} role="alert" className="mt-1.5 text-sm font-semibold text-danger">
          {problem}
        </p>
      ) : null}
    </fieldset>
  );
}
