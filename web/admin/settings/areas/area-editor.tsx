// The dialog of an area of delivery.
import { useId, useRef, useState } from 'react';
import { Button } from '../../../ui/button.tsx';
import {
  DialogBody,
  DialogHeading,
  DialogOrDrawer,
  useKeepOpen,
} from '../../../ui/dialog/dialog-or-drawer.tsx';
import { TextArea, TextField } from '../../../ui/field.tsx';
import { Notice } from '../../../ui/notice.tsx';
import { changedRow } from '../../data/table-answer.ts';
import { useSave } from '../../data/use-save.ts';
import { DialogLoadState } from '../../dialogs/dialog-load-state.tsx';
import { FormFooter } from '../../dialogs/form-footer.tsx';
import { useDialogParameter } from '../../dialogs/use-dialog-parameter.ts';
import { useUnsaved } from '../../dialogs/use-unsaved.ts';
import { useMember } from '../../layout/use-member.tsx';
import { Choices } from '../../ui/choices.tsx';
import { changeArea, isTaken } from './area-queries.ts';
import {
  type AreaEstimate,
  type AreaForm,
  type AreaRow,
  checkArea,
  describeArea,
  describeEstimate,
  formOf,
  isSameForm,
  suggestedMinutes,
  toColumns,
  typedPromise,
} from './area-values.ts';

/** The value of `?edit=` for a new area. */
export const newArea = 'new';

interface AreaDialogProps {
  areas: AreaRow[] | undefined;
  /** In cents. */
  shopFee: number;
  estimates: ReadonlyMap<string, AreaEstimate>;
}

export function AreaDialog({ areas, shopFee, estimates }: AreaDialogProps) {
  const { id, shownId, close } = useDialogParameter('edit');
  const found = areas && (areas.find((each) => each.id === shownId) ?? null);
  const isNew = shownId === newArea;
  return (
    <DialogOrDrawer hasOwnEntry={false} open={id !== null} onClose={close}>
      {isNew || found ? (
        <Editor
          key={shownId}
          current={isNew ? null : (found ?? null)}
          shopFee={shopFee}
          estimate={(shownId && estimates.get(shownId)) || null}
          onClose={close}
        />
      ) : (
        <DialogLoadState title="Area" noun="area" row={found} onClose={close} />
      )}
    </DialogOrDrawer>
  );
}

interface EditorProps {
  /** Null for a new one. */
  current: AreaRow | null;
  shopFee: number;
  estimate: AreaEstimate | null;
  onClose(): void;
}

function Editor({ current, shopFee, estimate, onClose }: EditorProps) {
  const { tables } = useMember().staff;
  const id = useId();
  const form = useRef<HTMLFormElement>(null);
  // The values at opening: a change by a colleague is reported, and does not change the form.
  const [seen, setSeen] = useState(current);
  const [typed, setTyped] = useState(() => formOf(current));
  const [isChecked, setChecked] = useState(false);
  /** The name that another one has. */
  const [taken, setTaken] = useState<string | null>(null);
  const unsaved = useUnsaved(!isSameForm(typed, formOf(seen)));
  const save = useSave({
    write: async (written: AreaForm) => {
      const columns = toColumns(written, seen);
      return seen
        ? changeArea(tables, seen, columns)
        : changedRow(await tables.from('delivery_areas').insert(columns).select('id'));
    },
    success: (_, { name }) => `${name.trim()} saved`,
    failure: 'Failed to save the area',
    refresh: ['settings'],
    onSuccess() {
      unsaved.note(false);
      onClose();
    },
    isShownElsewhere: isTaken,
  });
  useKeepOpen(save.isPending);
  const problems = {
    ...(taken !== null && typed.name.trim() === taken ? { name: 'There is an area with this name' } : {}),
    ...checkArea(typed),
  };
  const isChanged =
    !save.isPending &&
    !save.isSuccess &&
    current !== null &&
    seen !== null &&
    current.updated_at !== seen.updated_at &&
    !isSameForm(formOf(current), formOf(seen));

  function submit() {
    setChecked(true);
    const [first] = Object.keys(checkArea(typed));
    if (first) {
      focus(first);
      return;
    }
    save.mutate(typed, {
      onError(error) {
        if (!isTaken(error)) return;
        setTaken(typed.name.trim());
        focus('name');
      },
    });
  }
  function focus(name: string) {
    // After the error is rendered, so that screen readers read it with the field.
    requestAnimationFrame(() => (form.current?.elements.namedItem(name) as HTMLElement | null)?.focus());
  }
  const change = (changes: Partial<AreaForm>) => setTyped((now) => ({ ...now, ...changes }));
  const field = (name: Exclude<keyof AreaForm, 'pricing'>) => ({
    name,
    value: typed[name],
    autoComplete: 'off',
    problem: isChecked ? problems[name] : undefined,
    onChange: ({ target }: { target: { value: string } }) => change({ [name]: target.value }),
  });

  return (
    <>
      <DialogHeading
        title={current ? current.name : 'New area'}
        description="Customers choose it in their order, and see its fee and time at once"
      />
      <DialogBody>
        <form
          ref={form}
          id={id}
          noValidate
          onSubmit={(event) => {
            event.preventDefault();
            if (!save.isPending) submit();
          }}
          className="grid grid-cols-[minmax(0,1fr)] gap-4"
        >
          {isChanged && current ? (
            <Notice tone="danger" title="Someone else changed this">
              <span className="grid gap-3">
                <span className="block">
                  {current.name} · {describeArea(current, shopFee)}
                </span>
                <span className="flex flex-wrap gap-3">
                  <Button
                    tone="quiet"
                    onClick={() => {
                      setSeen(current);
                      setTyped(formOf(current));
                    }}
                  >
                    Keep their changes
                  </Button>
                  <Button tone="quiet" onClick={() => setSeen(current)}>
                    Keep mine
                  </Button>
                </span>
              </span>
            </Notice>
          ) : null}
          <TextField label="Name" required maxLength={60} {...field('name')} />
          <Choices
            label="Delivery fee"
            value={typed.pricing}
            options={[
              { value: 'shop', label: 'As the shop' },
              { value: 'own', label: 'Its own' },
              { value: 'agreed', label: 'Agreed each time' },
            ]}
            onChoose={(pricing) => change({ pricing })}
          />
          {typed.pricing === 'own' ? (
            <TextField
              label="Fee (KES)"
              required
              inputMode="numeric"
              hint="0 means free. For orders placed from now on"
              {...field('fee')}
            />
          ) : null}
          {typed.pricing === 'agreed' ? (
            <p className="text-sm text-ink-soft">
              No prompt is sent until you have agreed on fee and day. Such orders wait for you on Today.
            </p>
          ) : (
            <div className="grid items-start gap-4 sm:grid-cols-2">
              <TextField
                label="Arrives after (minutes)"
                required
                inputMode="numeric"
                hint="At the earliest"
                {...field('from')}
              />
              <TextField
                label="Arrives within (minutes)"
                required
                inputMode="numeric"
                hint={typedPromise(typed) ? `Customers read: ${typedPromise(typed)}` : 'A day has 1,440'}
                {...field('to')}
              />
            </div>
          )}
          {estimate && typed.pricing !== 'agreed' ? (
            <p className="flex flex-wrap items-center justify-between gap-x-4 gap-y-1 rounded-md bg-paper-deep px-4 py-2 text-sm">
              <span className="min-w-48 flex-1">{describeEstimate(estimate)}</span>
              {typed.to.trim() === String(suggestedMinutes(estimate)) ? null : (
                <Button
                  tone="quiet"
                  onClick={() => {
                    change({ to: String(suggestedMinutes(estimate)) });
                    focus('to');
                  }}
                >
                  Promise {suggestedMinutes(estimate)} minutes
                </Button>
              )}
            </p>
          ) : null}
          <TextArea
            label="Other names (optional)"
            rows={4}
            hint="Spellings, streets and buildings, separated by commas. A typed address with one of them is taken for this area"
            {...field('spellings')}
          />
        </form>
      </DialogBody>
      <FormFooter
        unsaved={unsaved}
        isBusy={save.isPending}
        disabled={isChanged}
        form={id}
        onCancel={onClose}
      />
    </>
  );
}
