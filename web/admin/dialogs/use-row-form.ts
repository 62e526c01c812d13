// The state of a form that edits a row: what is typed, its problems, and whether a colleague saved something else in the meantime.
import { useId, useRef, useState } from 'react';
import { type Save, useSave } from '../data/use-save.ts';
import { useUnsaved } from './use-unsaved.tsx';

type Problems<Form> = { [Name in keyof Form]?: string | undefined };
const namesOf = <Form extends object>(fields: Form | Problems<Form>) =>
  Object.keys(fields) as (keyof Form & string)[];
/** The fields that hold any text. */
type TextName<Form> = { [Name in keyof Form]: string extends Form[Name] ? Name : never }[keyof Form] & string;

interface RowFormOptions<Row, Form, Written>
  extends Pick<Save<Form, Written>, 'success' | 'failure' | 'refresh'> {
  /** The stored row. Null: a new one. */
  current: Row;
  formOf(row: Row): Form;
  /** The problems of a form, in the order of its fields. */
  check(form: Form): Problems<Form>;
  /** Stores a form without problems, unless the row has changed since it was seen. */
  write(form: Form, seen: Row): Promise<Written>;
  /** The problem of a field that made the database refuse the form. Null: the error has another cause. */
  refusalOf?(error: Error): Problems<Form> | null;
  onClose(): void;
}

export function useRowForm<
  Row extends { updated_at: string } | null,
  Form extends Record<keyof Form, string | boolean>,
  Written,
>({ current, formOf, check, write, refusalOf, onClose, ...texts }: RowFormOptions<Row, Form, Written>) {
  const id = useId();
  const element = useRef<HTMLFormElement>(null);
  // The values at opening: a change by a colleague is reported, and does not change the form.
  const [seen, setSeen] = useState(current);
  const [typed, setTyped] = useState(() => formOf(current));
  const [isChecked, setChecked] = useState(false);
  const [refused, setRefused] = useState<{ form: Form; problems: Problems<Form> }>();
  const isSame = (one: Form, other: Form) => namesOf(one).every((name) => one[name] === other[name]);
  const unsaved = useUnsaved(!isSame(typed, formOf(seen)));
  const end = () => {
    unsaved.note(false);
    onClose();
  };
  const save = useSave<Form, Written>({
    ...texts,
    write: (form) => write(form, seen),
    onSuccess: end,
    isShownElsewhere: (error) => Boolean(refusalOf?.(error)),
  });
  const problems = check(typed);

  function focus(name: keyof Form & string) {
    // After the error is rendered, so that screen readers read it with the field.
    requestAnimationFrame(() => (element.current?.elements.namedItem(name) as HTMLElement | null)?.focus());
  }
  const change = (changes: Partial<Form>) => setTyped((now) => ({ ...now, ...changes }));
  const problemOf = (name: keyof Form) =>
    problems[name] ?? (refused?.form[name] === typed[name] ? refused?.problems[name] : undefined);

  return {
    id,
    element,
    typed,
    problems,
    unsaved,
    isSaving: save.isPending,
    /** Whether a colleague has saved other values since. */
    isChanged:
      !save.isPending &&
      !save.isSuccess &&
      current?.updated_at !== seen?.updated_at &&
      !isSame(formOf(current), formOf(seen)),
    change,
    /** Attributes of a field. */
    field: (name: TextName<Form>) => ({
      name,
      value: typed[name] as string,
      autoComplete: 'off',
      problem: isChecked ? problemOf(name) : undefined,
      onChange: ({ target }: { target: { value: string } }) =>
        change({ [name]: target.value } as Partial<Form>),
    }),
    focus,
    /** Closes the dialog without a question. */
    end,
    submit() {
      setChecked(true);
      const [first] = namesOf<Form>(problems);
      if (first) return focus(first);
      save.mutate(typed, {
        onError(error) {
          const found = refusalOf?.(error);
          if (!found) return;
          setRefused({ form: typed, problems: found });
          const [name] = namesOf<Form>(found);
          if (name) focus(name);
        },
      });
    },
    takeTheirs() {
      setSeen(current);
      setTyped(formOf(current));
    },
    keepMine: () => setSeen(current),
  };
}

/** What the elements around the fields need of such a form. */
export type RowFormState = Pick<
  ReturnType<typeof useRowForm>,
  'id' | 'element' | 'unsaved' | 'isSaving' | 'isChanged' | 'submit' | 'takeTheirs' | 'keepMine'
>;
