// Saves an assignment. Does not overwrite another member's change that this member has not seen.

import { ShownError } from '../../lib/shown-error.ts';
import { dataOf, TableProblem } from '../data/table-answer.ts';
import { useSave } from '../data/use-save.ts';
import { useMember } from '../layout/roles/use-member.tsx';
import type { DeliveryForm } from './delivery-form.ts';
import { type ListedDelivery, readDelivery } from './delivery-queries.ts';

/** Another member was faster; contains the current delivery. */
class AssignmentConflict extends ShownError {
  readonly current: ListedDelivery;

  constructor(message: string, current: ListedDelivery) {
    super(message);
    this.name = 'AssignmentConflict';
    this.current = current;
  }
}

export const formOf = (delivery: ListedDelivery): DeliveryForm => ({
  person: delivery.delivery_person ?? '',
  phone: delivery.delivery_phone ?? '',
  vehicle: delivery.delivery_vehicle ?? '',
  notes: delivery.delivery_notes ?? '',
});

/** Whether a delivery has what is in a form; the database trims it. */
export const isForm = (delivery: ListedDelivery, form: DeliveryForm): boolean =>
  Object.entries(formOf(delivery)).every(
    ([field, value]) => value === form[field as keyof DeliveryForm].trim(),
  );

export const isSameAssignment = (one: ListedDelivery, other: ListedDelivery): boolean =>
  isForm(one, formOf(other));

export function useAssignment(onSaved: () => void) {
  const { tables } = useMember().staff;

  const assign = (form: DeliveryForm, seen: ListedDelivery) =>
    tables.rpc('assign_delivery', {
      order_id: seen.order_id,
      delivery_person: form.person,
      delivery_phone: form.phone,
      delivery_vehicle: form.vehicle,
      delivery_notes: form.notes || null,
      // Without it the database treats the delivery as unassigned.
      seen_updated_at: seen.delivery_person === null ? null : seen.updated_at,
    });

  const success = (seen: ListedDelivery) =>
    seen.delivery_person === null
      ? 'Delivery assigned successfully'
      : 'Delivery assignment updated successfully';
  return useSave({
    async write({ form, seen }: { form: DeliveryForm; seen: ListedDelivery }) {
      let answer = await assign(form, seen);
      const code = answer.error?.details;
      if (answer.error && (code === 'delivery_already_assigned' || code === 'delivery_changed')) {
        const current = await readDelivery(tables, seen.id);
        if (!current) throw new TableProblem(answer.error, answer.status);
        if (!isSameAssignment(current, seen)) throw new AssignmentConflict(answer.error.message, current);
        // Only the status has changed, which needs no confirmation.
        answer = await assign(form, current);
      }
      dataOf(answer);
    },
    success: (_, { seen }) => success(seen),
    failure: 'Failed to assign delivery',
    refresh: ['deliveries', 'orders'],
    onSuccess(_, { seen }) {
      onSaved();
      import('./offer-jobs.tsx')
        .then(({ offerJobs }) => offerJobs(tables, [seen.order_id], success(seen)))
        // The job can still be sent from the menu of the delivery.
        .catch((error: unknown) => console.warn('The job could not be offered', error));
    },
    isShownElsewhere: (error) => error instanceof AssignmentConflict,
  });
}
