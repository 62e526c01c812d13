// Adds a rider, or changes one.
import { type FormEvent, useRef, useState } from 'react';
import { DialogBody, DialogHeading, DialogOrDrawer, useKeepOpen } from '../../ui/dialog/dialog-or-drawer.tsx';
import { TextField } from '../../ui/field.tsx';
import { FormFooter } from '../dialogs/form-footer.tsx';
import { useUnsaved } from '../dialogs/use-unsaved.tsx';
import {
  checkRider,
  isPhoneTaken,
  type ListedRider,
  type RiderForm,
  riderLimits,
  useSaveRider,
} from './rider-list.ts';

/** Null: closed. */
export type EditedRider = { rider: ListedRider | null } | null;

export function RiderDialog({ edited, onClose }: { edited: EditedRider; onClose(): void }) {
  return (
    <DialogOrDrawer open={edited !== null} onClose={onClose}>
      {edited ? <Form key={edited.rider?.id ?? 'new'} rider={edited.rider} onClose={onClose} /> : null}
    </DialogOrDrawer>
  );
}

const fields = ['name', 'phone', 'vehicle', 'plate'] as const;

function Form({ rider, onClose }: { rider: ListedRider | null; onClose(): void }) {
  const saved: RiderForm = {
    name: rider?.name ?? '',
    phone: rider?.phone ?? '',
    vehicle: rider?.vehicle ?? '',
    plate: rider?.plate ?? '',
  };
  const element = useRef<HTMLFormElement>(null);
  const [form, setForm] = useState(saved);
  const [problems, setProblems] = useState<Partial<RiderForm>>({});
  const unsaved = useUnsaved(fields.some((name) => form[name] !== saved[name]));
  const save = useSaveRider(() => {
    unsaved.note(false);
    onClose();
  });
  useKeepOpen(save.isPending);
  function submit(event: FormEvent) {
    event.preventDefault();
    if (save.isPending) return;
    const found = checkRider(form);
    setProblems(found ?? {});
    const first = fields.find((name) => found?.[name]);
    if (first) {
      requestAnimationFrame(() => element.current?.querySelector<HTMLElement>(`[name="${first}"]`)?.focus());
      return;
    }
    save.mutate({ rider, form, isActive: rider?.is_active ?? true });
  }
  const field = (name: keyof RiderForm) => ({
    name,
    value: form[name],
    problem:
      name === 'phone' && isPhoneTaken(save.error) && form.phone === save.variables?.form.phone
        ? 'Another rider has this phone number'
        : problems[name],
    disabled: save.isPending,
    autoComplete: 'off',
    maxLength: riderLimits[name],
    onChange({ target }: { target: { value: string } }) {
      setForm((now) => ({ ...now, [name]: target.value }));
      setProblems(({ [name]: _, ...others }) => others);
    },
  });
  return (
    <>
      <DialogHeading
        title={rider ? rider.name : 'Add a rider'}
        description={
          rider ? 'Changes apply to assignments from now on' : 'Offered when you assign a delivery'
        }
      />
      <form ref={element} onSubmit={submit} noValidate className="contents">
        <DialogBody>
          <div className="grid gap-4">
            <TextField label="Name" required {...field('name')} />
            <TextField
              label="Phone"
              required
              type="tel"
              hint="A delivery assigned to this number is on the rider's page"
              {...field('phone')}
            />
            <TextField
              label="Vehicle"
              required
              placeholder="e.g., Motorbike, Van, Car"
              {...field('vehicle')}
            />
            <TextField label="Plate" hint="Optional" {...field('plate')} />
          </div>
        </DialogBody>
        <FormFooter
          unsaved={unsaved}
          label={save.isPending ? 'Saving...' : rider ? 'Save' : 'Add rider'}
          isBusy={save.isPending}
          isCancelDisabled={save.isPending}
          onCancel={onClose}
        />
      </form>
    </>
  );
}
