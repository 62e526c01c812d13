// Asks who takes several orders: one press on a recent rider, or another one by name, phone and vehicle.
import { useId, useState } from 'react';
import { DialogBody, DialogHeading, DialogOrDrawer } from '../../../ui/dialog/dialog-or-drawer.tsx';
import { TextField } from '../../../ui/field.tsx';
import {
  checkDeliveryForm,
  type DeliveryForm,
  type DeliveryFormProblems,
} from '../../deliveries/delivery-form.ts';
import { RiderChoice } from '../../deliveries/rider-choice.tsx';
import type { Carrier } from '../../deliveries/rider-queries.ts';
import { FormFooter } from '../../dialogs/form-footer.tsx';
import { useUnsaved } from '../../dialogs/use-unsaved.tsx';
import type { Queued } from '../../today/use-next-step.ts';
import { useLastValue } from '../../ui/use-last-value.ts';

type Asked = { verb: 'Assign' | 'Hand over'; rows: readonly Queued[] };

interface BulkRiderProps {
  /** Null: closed. */
  asked: Asked | null;
  onChoose(rider: Carrier): void;
  onClose(): void;
}

export function BulkRider({ asked, onChoose, onClose }: BulkRiderProps) {
  const shown = useLastValue(asked);
  return (
    <DialogOrDrawer open={asked !== null} onClose={onClose}>
      {shown ? <Choice asked={shown} onChoose={onChoose} onClose={onClose} /> : null}
    </DialogOrDrawer>
  );
}

const noRider: DeliveryForm = { person: '', phone: '', vehicle: '', notes: '' };

function Choice({ asked: { verb, rows }, onChoose, onClose }: BulkRiderProps & { asked: Asked }) {
  const id = useId();
  const [form, setForm] = useState(noRider);
  const [problems, setProblems] = useState<DeliveryFormProblems>({});
  const unsaved = useUnsaved(Object.values(form).some((text) => text.trim() !== ''));
  const waiting = rows.filter(({ delivery_person }) => delivery_person === null).length;
  const orders = (count: number) => `${count} ${count === 1 ? 'order' : 'orders'}`;
  const field = (name: 'person' | 'phone' | 'vehicle') => ({
    value: form[name],
    problem: problems[name],
    autoComplete: 'off',
    required: true,
    onChange: ({ target }: { target: { value: string } }) =>
      setForm((now) => ({ ...now, [name]: target.value })),
  });
  return (
    <>
      <DialogHeading
        title={`${verb} ${orders(rows.length)}`}
        description={
          waiting === rows.length
            ? 'Choose who takes them'
            : `Choose who takes ${waiting === 1 ? 'the one' : `the ${waiting}`} without a rider; the others keep theirs`
        }
      />
      <DialogBody>
        <form
          id={id}
          noValidate
          onSubmit={(event) => {
            event.preventDefault();
            const found = checkDeliveryForm(form);
            setProblems(found ?? {});
            if (found) return;
            const { person, phone, vehicle } = form;
            onChoose({
              name: person.trim(),
              phone: phone.trim(),
              vehicle: vehicle.trim(),
            });
          }}
          className="grid gap-5"
        >
          <RiderChoice isChosen={() => false} onChoose={onChoose} />
          <TextField label="Delivery Person" {...field('person')} />
          <TextField label="Phone Number" type="tel" {...field('phone')} />
          <TextField
            label="Vehicle Information"
            placeholder="e.g., Motorbike, Van, Car"
            {...field('vehicle')}
          />
        </form>
      </DialogBody>
      <FormFooter unsaved={unsaved} form={id} label={verb} isBusy={false} onCancel={onClose} />
    </>
  );
}
