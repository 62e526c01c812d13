// A labelled form field with a hint and an error.
import { type ComponentProps, useId } from 'react';
import { useValidationText } from './use-validation-text.ts';

/** Classes of inputs, selects and text areas. */
export const inputStyle =
  'block w-full min-h-12 rounded-md border border-line-strong bg-card px-4 py-2.5 text-base text-ink ' +
  'placeholder:text-ink-faint transition-[border-color,box-shadow] hover:border-dusk-500 ' +
  'focus-visible:border-dusk-600 aria-invalid:border-danger disabled:cursor-not-allowed disabled:bg-paper-deep disabled:text-ink-soft';

interface Described {
  label: string;
  hint?: string | undefined;
  /** The error, shown beside the field. */
  problem?: string | undefined;
}

function describedBy(id: string, { hint, problem }: Described) {
  return [problem && `${id}-problem`, hint && `${id}-hint`].filter(Boolean).join(' ') || undefined;
}

function Frame({
  id,
  label,
  hint,
  problem,
  required,
  children,
}: Described & { id: string; required: boolean | undefined; children: React.ReactNode }) {
  return (
    <div className="grid content-start gap-1.5">
      <label htmlFor={id} className="text-sm font-semibold text-ink">
        {label}
        {required ? (
          <span aria-hidden="true" className="text-danger">
            {' *'}
          </span>
        ) : null}
      </label>
      {children}
      {problem ? (
        <p id={`${id}-problem`} className="text-sm font-semibold text-danger">
          {problem}
        </p>
      ) : null}
      {hint ? (
        <p id={`${id}-hint`} className="text-sm text-ink-faint">
          {hint}
        </p>
      ) : null}
    </div>
  );
}

export function TextField({
  label,
  hint,
  problem: ownProblem,
  ...input
}: Described & ComponentProps<'input'>) {
  const ownId = useId();
  const id = input.id ?? ownId;
  const { found, onInvalid, onInput } = useValidationText(label);
  const problem = found ?? ownProblem;
  return (
    <Frame id={id} label={label} hint={hint} problem={problem} required={input.required}>
      <input
        {...input}
        id={id}
        onInvalid={onInvalid}
        onInput={onInput}
        aria-invalid={problem ? true : undefined}
        aria-describedby={describedBy(id, { label, hint, problem })}
        className={inputStyle}
      />
    </Frame>
  );
}

export function SelectField({
  label,
  hint,
  problem: ownProblem,
  ...select
}: Described & ComponentProps<'select'>) {
  const ownId = useId();
  const id = select.id ?? ownId;
  const { found, onInvalid, onInput } = useValidationText(label);
  const problem = found ?? ownProblem;
  return (
    <Frame id={id} label={label} hint={hint} problem={problem} required={select.required}>
      <select
        {...select}
        id={id}
        onInvalid={onInvalid}
        onInput={onInput}
        aria-invalid={problem ? true : undefined}
        aria-describedby={describedBy(id, { label, hint, problem })}
        className={inputStyle}
      />
    </Frame>
  );
}

export function TextArea({
  label,
  hint,
  problem: ownProblem,
  ...input
}: Described & ComponentProps<'textarea'>) {
  const ownId = useId();
  const id = input.id ?? ownId;
  const { found, onInvalid, onInput } = useValidationText(label);
  const problem = found ?? ownProblem;
  return (
    <Frame id={id} label={label} hint={hint} problem={problem} required={input.required}>
      <textarea
        {...input}
        id={id}
        onInvalid={onInvalid}
        onInput={onInput}
        aria-invalid={problem ? true : undefined}
        aria-describedby={describedBy(id, { label, hint, problem })}
        className={`${inputStyle} resize-y`}
      />
    </Frame>
  );
}
