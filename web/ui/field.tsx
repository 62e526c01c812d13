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

function Frame({
  id,
  label,
  hint,
  problem,
  required,
  children,
}: Described & { id: string; required: boolean | undefined; children: React.ReactNode }) {
  return (
    <div data-field className="grid content-start gap-1.5">
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

/** Props of a field's frame and of its control. A validation error replaces `problem`. */
function useField(
  { label, hint, problem: ownProblem }: Described,
  given: { id?: string | undefined; required?: boolean | undefined },
) {
  const ownId = useId();
  const id = given.id ?? ownId;
  const { found, onInvalid, onInput } = useValidationText(label);
  const problem = found ?? ownProblem;
  const describedBy = [problem && `${id}-problem`, hint && `${id}-hint`].filter(Boolean).join(' ');
  return {
    frame: { id, label, hint, problem, required: given.required },
    control: {
      id,
      onInvalid,
      onInput,
      'aria-invalid': problem ? true : undefined,
      'aria-describedby': describedBy || undefined,
    },
  };
}

export function TextField({ label, hint, problem, ...input }: Described & ComponentProps<'input'>) {
  const { frame, control } = useField({ label, hint, problem }, input);
  return (
    <Frame {...frame}>
      <input {...input} {...control} className={inputStyle} />
    </Frame>
  );
}

export function SelectField({ label, hint, problem, ...select }: Described & ComponentProps<'select'>) {
  const { frame, control } = useField({ label, hint, problem }, select);
  return (
    <Frame {...frame}>
      <select {...select} {...control} className={inputStyle} />
    </Frame>
  );
}

export function TextArea({ label, hint, problem, ...input }: Described & ComponentProps<'textarea'>) {
  const { frame, control } = useField({ label, hint, problem }, input);
  return (
    <Frame {...frame}>
      <textarea {...input} {...control} className={`${inputStyle} resize-y`} />
    </Frame>
  );
}
