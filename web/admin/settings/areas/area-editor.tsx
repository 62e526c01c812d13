// The dialog of an area of delivery.
import { Button } from '../../../ui/button.tsx';
import { DialogBody, DialogHeading, DialogOrDrawer } from '../../../ui/dialog/dialog-or-drawer.tsx';
import { TextArea, TextField } from '../../../ui/field.tsx';
import { changedRow, isDuplicate } from '../../data/table-answer.ts';
import { DialogLoadState } from '../../dialogs/dialog-load-state.tsx';
import { RowForm, RowFormFooter } from '../../dialogs/row-form.tsx';
import { useDialogParameter } from '../../dialogs/use-dialog-parameter.ts';
import { useRowForm } from '../../dialogs/use-row-form.ts';
import { useMember } from '../../layout/roles/use-member.tsx';
import { Choices } from '../../ui/choices.tsx';
import { changeArea } from './area-queries.ts';
import {
  type AreaEstimate,
  type AreaRow,
  checkArea,
  describeArea,
  describeEstimate,
  formOf,
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
  const form = useRowForm({
    current,
    formOf,
    check: checkArea,
    async write(written, seen) {
      const columns = toColumns(written, seen);
      return seen
        ? changeArea(tables, seen, columns)
        : changedRow(await tables.from('delivery_areas').insert(columns).select('id'));
    },
    success: (_, { name }) => `${name.trim()} saved`,
    failure: 'Failed to save the area',
    refresh: ['settings'],
    refusalOf: (error) => (isDuplicate(error) ? { name: 'There is an area with this name' } : null),
    onClose,
  });
  const { typed, change, field } = form;
  return (
    <>
      <DialogHeading
        title={current ? current.name : 'New area'}
        description="Customers choose it in their order, and see its fee and time at once"
      />
      <DialogBody>
        <RowForm form={form} stored={current ? `${current.name} · ${describeArea(current, shopFee)}` : null}>
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
                    form.focus('to');
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
        </RowForm>
      </DialogBody>
      <RowFormFooter form={form} onCancel={onClose} />
    </>
  );
}
