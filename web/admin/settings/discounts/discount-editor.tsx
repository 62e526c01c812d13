// The dialog of a discount code: created, edited, and deleted while no order has it.
import { formatKes } from '../../../../domain/money.ts';
import { DialogBody, DialogHeading, DialogOrDrawer } from '../../../ui/dialog/dialog-or-drawer.tsx';
import { TextField } from '../../../ui/field.tsx';
import { Notice } from '../../../ui/notice.tsx';
import { changedRow, isDuplicate } from '../../data/table-answer.ts';
import { useSave } from '../../data/use-save.ts';
import { DialogLoadState } from '../../dialogs/dialog-load-state.tsx';
import { RowForm, RowFormFooter } from '../../dialogs/row-form.tsx';
import { useDialogParameter } from '../../dialogs/use-dialog-parameter.ts';
import { useRowForm } from '../../dialogs/use-row-form.ts';
import { useMember } from '../../layout/roles/use-member.tsx';
import { Choices } from '../../ui/choices.tsx';
import { changeCode, useDiscountCode } from './discount-queries.ts';
import {
  checkDiscount,
  type DiscountRow,
  describeConditions,
  describeValue,
  formOf,
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
  const form = useRowForm({
    current,
    formOf,
    check: checkDiscount,
    async write(written, seen) {
      const columns = toColumns(written, seen);
      return seen
        ? changeCode(tables, seen, columns)
        : changedRow(await tables.from('discount_codes').insert(columns).select('id'));
    },
    success: 'Discount code saved successfully',
    failure: 'Failed to save the discount code',
    refresh: ['settings'],
    refusalOf: (error) => (isDuplicate(error) ? { code: 'There is a code with this name already' } : null),
    onClose,
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
    onSuccess: form.end,
  });
  const { typed, change, field } = form;
  const isFixed = current?.has_orders === true;
  return (
    <>
      <DialogHeading
        title={current ? `Discount code ${current.code}` : 'New discount code'}
        description="Off the price of the drinks, not of the delivery"
      />
      <DialogBody>
        <RowForm
          form={form}
          stored={current ? describeCode(current) : null}
          isBusy={form.isSaving || remove.isPending}
        >
          {current && isFixed ? (
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
        </RowForm>
      </DialogBody>
      <RowFormFooter
        form={form}
        deletion={
          current && !isFixed
            ? {
                question: `Delete the code ${current.code}?`,
                confirm: 'Delete code',
                isBusy: remove.isPending,
                run: () => remove.mutate(current),
              }
            : null
        }
        onCancel={onClose}
      />
    </>
  );
}

const describeCode = (row: DiscountRow): string =>
  [row.code, describeValue(row), describeConditions(row)].filter(Boolean).join(' · ');
const minimumOf = ({ minimum_cents }: DiscountRow): string =>
  minimum_cents > 0 ? ` drinks of at least ${formatKes(minimum_cents)}` : '';
