// The dialog that assigns a delivery or edits its assignment. Open while the URL has `?assign=<id>`.
import { useEffect, useId, useRef, useState } from 'react';
import { Link } from 'react-router';
import { formatKes, shownAmount } from '../../../domain/money.ts';
import { formatPhone } from '../../../domain/people/phone.ts';
import { Button } from '../../ui/button.tsx';
import { DialogBody, DialogHeading, DialogOrDrawer, useKeepOpen } from '../../ui/dialog/dialog-or-drawer.tsx';
import { TextArea, TextField } from '../../ui/field.tsx';
import { Notice } from '../../ui/notice.tsx';
import { showToast } from '../../ui/toasts/toasts.tsx';
import { DialogLoadState } from '../dialogs/dialog-load-state.tsx';
import { focusFirstProblem } from '../dialogs/focus-first-problem.ts';
import { FormFooter } from '../dialogs/form-footer.tsx';
import { useDialogParameter } from '../dialogs/use-dialog-parameter.ts';
import { useUnsaved } from '../dialogs/use-unsaved.tsx';
import { useMember } from '../layout/roles/use-member.tsx';
import { drinksOf } from '../orders/place.ts';
import { formatDateTime } from '../ui/time/dates.ts';
import {
  checkDeliveryForm,
  type DeliveryForm,
  type DeliveryFormProblems,
  deliveryFormLimits,
} from './delivery-form.ts';
import { type ListedDelivery, useDelivery } from './delivery-queries.ts';
import { lastDeliveryChange } from './last-delivery-change.ts';
import { MapLink } from './map-link.tsx';
import { RiderChoice } from './rider-choice.tsx';
import type { Rider } from './rider-queries.ts';
import { formOf, isForm, isSameAssignment, useAssignment } from './use-assignment.ts';

export function AssignDialog() {
  const { id, shownId, close } = useDialogParameter('assign');
  return (
    <DialogOrDrawer hasOwnEntry={false} open={id !== null} onClose={close}>
      {shownId ? <Opened key={shownId} id={shownId} onClose={close} /> : null}
    </DialogOrDrawer>
  );
}

function Opened({ id, onClose }: { id: string; onClose(): void }) {
  const query = useDelivery(id);
  if (query.data) return <AssignForm delivery={query.data} onClose={onClose} />;
  return (
    <DialogLoadState
      title="Assign Delivery"
      noun="delivery"
      row={query.data}
      query={query}
      onClose={onClose}
    />
  );
}

const fields = ['person', 'phone', 'vehicle', 'notes'] as const;

function AssignForm({ delivery: current, onClose }: { delivery: ListedDelivery; onClose(): void }) {
  const id = useId();
  const formElement = useRef<HTMLFormElement>(null);
  const assignButton = useRef<HTMLButtonElement>(null);
  // The values at opening: a background refresh is reported, and does not change the form.
  const [seen, setSeen] = useState(current);
  const [form, setForm] = useState<DeliveryForm>(() => formOf(current));
  const [problems, setProblems] = useState<DeliveryFormProblems>({});
  const unsaved = useUnsaved(fields.some((field) => form[field] !== formOf(seen)[field]));
  const save = useAssignment(() => {
    unsaved.note(false);
    onClose();
  });
  useKeepOpen(save.isPending);

  const isFirst = seen.delivery_person === null;
  const isOther = !isSameAssignment(current, seen);
  // What was typed is saved: by this member's own save, whose answer was lost.
  const hasArrived = isOther && save.isError && isForm(current, form);
  // After this member's own save the list may be refreshed before the dialog closes.
  const isChanged = isOther && !hasArrived && !save.isPending && !save.isSuccess;
  useEffect(() => {
    if (!hasArrived) return;
    showToast({ title: 'Success', text: 'Your own change has arrived' });
    unsaved.note(false);
    onClose();
  }, [hasArrived, unsaved, onClose]);

  function submit(from: ListedDelivery) {
    const found = checkDeliveryForm(form);
    setProblems(found ?? {});
    if (found) {
      focusFirstProblem(formElement.current);
      return;
    }
    save.mutate({ form, seen: from });
  }
  function choose({ name, phone, vehicle }: Rider) {
    setForm((now) => ({ ...now, person: name, phone: phone ?? '', vehicle: vehicle ?? '' }));
    setProblems(({ notes }) => (notes ? { notes } : {}));
    // The next action by keyboard: Enter assigns.
    assignButton.current?.focus();
  }
  const field = (name: keyof DeliveryForm) => ({
    name,
    value: form[name],
    problem: problems[name],
    disabled: save.isPending,
    autoComplete: 'off',
    onChange({ target }: { target: { value: string } }) {
      setForm((now) => ({ ...now, [name]: target.value }));
      setProblems(({ [name]: _, ...others }) => others);
    },
  });

  return (
    <>
      <DialogHeading
        title={isFirst ? 'Assign Delivery' : 'Edit Assignment'}
        description={`Assign delivery details for order ${seen.order.order_number}`}
      />
      <DialogBody>
        <form
          ref={formElement}
          id={id}
          noValidate
          onSubmit={(event) => {
            event.preventDefault();
            if (!save.isPending) submit(seen);
          }}
          className="grid gap-5"
        >
          {isChanged ? (
            <ChangedNotice
              current={current}
              onTakeTheirs={() => {
                setSeen(current);
                setForm(formOf(current));
                setProblems({});
              }}
              onWriteMine={() => {
                setSeen(current);
                submit(current);
              }}
            />
          ) : null}
          {current.order.status === 'cancelled' ? (
            <Notice tone="danger" title="This order was cancelled">
              To deliver it after all, change the order first.
            </Notice>
          ) : null}
          <Destination delivery={current} />
          <RiderChoice
            isChosen={({ name, phone, vehicle }) =>
              form.person === name && form.phone === phone && form.vehicle === vehicle
            }
            isDisabled={save.isPending}
            onChoose={choose}
          />
          <TextField label="Delivery Person" required {...field('person')} />
          <TextField label="Phone Number" required type="tel" {...field('phone')} />
          <TextField
            label="Vehicle Information"
            required
            placeholder="e.g., Motorbike, Van, Car"
            {...field('vehicle')}
          />
          <TextArea
            label="Delivery Notes"
            rows={3}
            maxLength={deliveryFormLimits.notes}
            placeholder="Optional delivery instructions"
            {...field('notes')}
          />
        </form>
      </DialogBody>
      <FormFooter
        unsaved={unsaved}
        label={
          save.isPending
            ? isFirst
              ? 'Assigning...'
              : 'Saving...'
            : isFirst
              ? 'Assign Delivery'
              : 'Save Assignment'
        }
        isBusy={save.isPending}
        disabled={isChanged}
        isCancelDisabled={save.isPending}
        form={id}
        submitRef={assignButton}
        onCancel={onClose}
      />
    </>
  );
}

/** The recipient, to read out to the rider on the phone. */
function Destination({ delivery: { order } }: { delivery: ListedDelivery }) {
  return (
    <div className="grid gap-1 rounded-md bg-paper-deep px-4 py-3 text-sm break-words">
      <p>
        <Link to={`/admin/orders/${order.id}`} className="tap font-semibold underline">
          {order.order_number}
        </Link>
        , {formatKes(shownAmount(order.total_amount, order.payment_status))}
      </p>
      <p>{drinksOf(order.order_items)}</p>
      {order.anonymised_at ? null : (
        <>
          <p>
            <bdi>{order.customer_name}</bdi>,{' '}
            <a href={`tel:${order.customer_phone}`} className="tap whitespace-nowrap underline">
              {formatPhone(order.customer_phone)}
            </a>
          </p>
          <p>
            <MapLink order={order} />
          </p>
        </>
      )}
      {order.delivery_notes ? (
        <p className="whitespace-pre-line text-ink-soft">Customer's notes: {order.delivery_notes}</p>
      ) : null}
    </div>
  );
}

interface ChangedNoticeProps {
  current: ListedDelivery;
  onTakeTheirs(): void;
  onWriteMine(): void;
}

/** Another staff member has assigned it: shows both assignments to choose one. */
function ChangedNotice({ current, onTakeTheirs, onWriteMine }: ChangedNoticeProps) {
  const { tables } = useMember().staff;
  const [by, setBy] = useState('');
  useEffect(() => {
    let isStopped = false;
    void lastDeliveryChange(tables, current.order_id).then((last) => {
      if (!isStopped && last?.details.person) setBy(`Assigned by ${last.actor}, ${formatDateTime(last.at)}.`);
    });
    return () => {
      isStopped = true;
    };
  }, [tables, current.order_id]);
  return (
    <section
      role="alert"
      aria-label="Someone else changed this"
      // On a phone it appears above the visible part.
      ref={(element) => element?.scrollIntoView({ block: 'nearest' })}
      className="grid gap-3 rounded-md border border-ember-200 bg-ember-50 px-4 py-4 text-sm break-words"
    >
      <p>
        <strong className="block text-base">{current.delivery_person} has this delivery now</strong>
        {[current.delivery_phone, current.delivery_vehicle, current.delivery_notes]
          .filter(Boolean)
          .join(', ')}
        . {by} Nothing of yours was saved yet.
      </p>
      <div className="flex flex-wrap gap-3">
        <Button tone="quiet" onClick={onTakeTheirs} className="bg-card!">
          Keep their changes
        </Button>
        <Button tone="dusk" onClick={onWriteMine}>
          Save mine instead
        </Button>
      </div>
    </section>
  );
}
