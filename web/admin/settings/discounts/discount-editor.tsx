// The dialog of a discount code: created, edited, and deleted while no order has it.
import { useId, useRef, useState } from 'react';
import { formatKes } from '../../../../domain/money.ts';
import { Button } from '../../../ui/button.tsx';
import {
  DialogBody,
  DialogHeading,
  DialogOrDrawer,
  useKeepOpen,
} from '../../../ui/dialog/dialog-or-drawer.tsx';
import { TextField } from '../../../ui/field.tsx';
import { Notice } from '../../../ui/notice.tsx';
import { changedRow } from '../../data/table-answer.ts';
import { useSave } from '../../data/use-save.ts';
import { DialogLoadState } from '../../dialogs/dialog-load-state.tsx';
import { Discard } from '../../dialogs/discard.tsx';
import { FormFooter } from '../../dialogs/form-footer.tsx';
import { useDialogParameter } from '../../dialogs/use-dialog-parameter.ts';
import { useUnsaved } from '../../dialogs/use-unsaved.ts';
import { useMember } from '../../layout/use-member.tsx';
import { Choices } from '../../ui/choices.tsx';
import { changeCode, isTaken, useDiscountCode } from './discount-queries.ts';
import {
  checkDiscount,
  type DiscountForm,
  type DiscountRow,
  describeConditions,
  describeValue,
  formOf,
  isSameForm,
  plainCode,
  toColumns,
} from './discount-values.ts';

/** The value of `?edit=` for a new code. */
export const newDiscount = 'new';

/** @param codes those that are shown: their dialog opens at once */
export function DiscountDialog({ codes }: { codes: readonly DiscountRow[] }) {
  const { id, shownId, close } = useDialogParameter('edit');
  const isNew = shownId === newDiscount;
  const query = useDiscountCode(isNew ? null : shownId);
  const found = query.data ?? (query.isSuccess ? null : codes.find((each) => each.id === shownId));
  return (
    <DialogOrDrawer hasOwnEntry={false} open={id !== null} onClose={close}>
      {isNew || found ? (
        <Editor key={shownId} current={isNew ? null : (found ?? null)} onClose={close} />
      ) : (
        <DialogLoadState
          title="Discount code"
          noun="discount code"
          row={found}
          query={query}
          onClose={close}
        />
      )}
    </DialogOrDrawer>
  );
}

/** @param current null for a new one */
function Editor({ current, onClose }: { current: DiscountRow | null; onClose(): void }) {
  const { tables } = useMember().staff;
  const id = useId();
  const form = useRef<HTMLFormElement>(null);
  // The values at opening: a change by a colleague is reported, and does not change the form.
  const [seen, setSeen] = useState(current);
  const [typed, setTyped] = useState(() => formOf(current));
  const [isChecked, setChecked] = useState(false);
  const [isDeleting, setDeleting] = useState(false);
  /** The code that another one has. */
  const [taken, setTaken] = useState<string | null>(null);
  const unsaved = useUnsaved(!isSameForm(typed, formOf(seen)));
  const end = () => {
    unsaved.note(false);
    onClose();
  };
  const save = useSave({
    write: async (written: DiscountForm) => {
      const columns = toColumns(written, seen);
      return seen
        ? changeCode(tables, seen, columns)
        : changedRow(await tables.from('discount_codes').insert(columns).select('id'));
    },
    success: 'Discount code saved successfully',
    failure: 'Failed to save the discount code',
    refresh: ['settings'],
    onSuccess: end,
    isShownElsewhere: isTaken,
  });
  const remove = useSave({
    write: async (row: DiscountRow) =>
      changedRow(
        await tables
          .from('discount_codes')
          .delete()
          .eq('id', row.id)
          .eq('updated_at', row.updated_at)
          .select('id'),
      ),
    success: 'Discount code deleted',
    failure: 'Failed to delete the discount code',
    refresh: ['settings'],
    onSuccess: end,
  });
  const isBusy = save.isPending || remove.isPending;
  useKeepOpen(isBusy);
  const problems = {
    ...(taken !== null && plainCode(typed.code) === taken
      ? { code: 'There is a code with this name already' }
      : {}),
    ...checkDiscount(typed),
  };
  const isFixed = current?.has_orders === true;
  const isChanged =
    !isBusy &&
    !save.isSuccess &&
    current !== null &&
    seen !== null &&
    current.updated_at !== seen.updated_at &&
    !isSameForm(formOf(current), formOf(seen));

  function submit() {
    setChecked(true);
    const [first] = Object.keys(checkDiscount(typed));
    if (!first) {
      save.mutate(typed, {
        onError(error) {
          if (!isTaken(error)) return;
          setTaken(plainCode(typed.code));
          focus('code');
        },
      });
      return;
    }
    focus(first);
  }
  function focus(name: string) {
    // After the error is rendered, so that screen readers read it with the field.
    requestAnimationFrame(() => (form.current?.elements.namedItem(name) as HTMLElement | null)?.focus());
  }
  const change = (changes: Partial<DiscountForm>) => setTyped((now) => ({ ...now, ...changes }));
  const field = (name: Exclude<keyof DiscountForm, 'kind'>) => ({
    name,
    value: typed[name],
    autoComplete: 'off',
    problem: isChecked ? problems[name] : undefined,
    onChange: ({ target }: { target: { value: string } }) => change({ [name]: target.value }),
  });

  return (
    <>
      <DialogHeading
        title={current ? `Discount code ${current.code}` : 'New discount code'}
        description="Off the price of the drinks, not of the delivery"
      />
      <DialogBody>
        <form
          ref={form}
          id={id}
          noValidate
          onSubmit={(event) => {
            event.preventDefault();
            if (!isBusy) submit();
          }}
          className="grid grid-cols-[minmax(0,1fr)] gap-4"
        >
          {isChanged && current ? (
            <Notice tone="danger" title="Someone else changed this">
              <span className="grid gap-3">
                <span className="block">
                  {[current.code, describeValue(current), describeConditions(current)]
                    .filter(Boolean)
                    .join(' · ')}
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
          {isFixed ? (
            <Notice tone="info" title={`${describeValue(current)}${minimumOf(current)}`}>
              Orders have this code, so this stays as it is. For another discount, end it and create another
              code.
            </Notice>
          ) : (
            <>
              <TextField
                label="Code"
                required
                autoCapitalize="characters"
                spellCheck={false}
                maxLength={30}
                placeholder="Such as KARIBU10"
                {...field('code')}
              />
              <Choices
                label="What it gives"
                value={typed.kind}
                options={[
                  { value: 'percent', label: 'Percentage' },
                  { value: 'amount', label: 'Amount' },
                ]}
                onChoose={(kind) => change({ kind })}
              />
              <div className="grid items-start gap-4 sm:grid-cols-2">
                <TextField
                  label={typed.kind === 'percent' ? 'Percent off' : 'Amount off (KES)'}
                  required
                  inputMode="numeric"
                  hint={typed.kind === 'percent' ? 'Rounded up to whole shillings' : undefined}
                  {...field('value')}
                />
                <TextField
                  label="Minimum of drinks (KES)"
                  inputMode="numeric"
                  hint="Empty: none"
                  {...field('minimum')}
                />
              </div>
            </>
          )}
          <div className="grid items-start gap-4 sm:grid-cols-2">
            <TextField label="First day" type="date" hint="Empty: at once" {...field('firstDay')} />
            <TextField label="Last day" type="date" hint="Empty: no end" {...field('lastDay')} />
            <TextField label="Uses in all" inputMode="numeric" hint="Empty: no limit" {...field('maxUses')} />
            <TextField
              label="Uses per phone"
              inputMode="numeric"
              hint="Empty: no limit"
              {...field('maxUsesPerPhone')}
            />
          </div>
        </form>
      </DialogBody>
      <FormFooter
        unsaved={unsaved}
        question={
          isDeleting && current ? (
            <Discard
              question={`Delete the code ${current.code}?`}
              stay="Keep it"
              leave="Delete code"
              isBusy={remove.isPending}
              onStay={() => setDeleting(false)}
              onLeave={() => remove.mutate(current)}
            />
          ) : null
        }
        label={save.isPending ? 'Saving...' : 'Save'}
        isBusy={isBusy}
        disabled={isChanged}
        form={id}
        onCancel={onClose}
      >
        {current && !isFixed ? (
          <Button tone="quiet" onClick={() => setDeleting(true)} className="mr-auto">
            Delete
          </Button>
        ) : null}
      </FormFooter>
    </>
  );
}

const minimumOf = ({ minimum_cents }: DiscountRow): string =>
  minimum_cents > 0 ? ` drinks of at least ${formatKes(minimum_cents)}` : '';
