// Moves an order of the queue to another step, with an offer to undo it.
import { nextStep, type WorkStep, workStep } from '../../../domain/deliveries/delivery-status.ts';
import type { OrderEventKind } from '../../../supabase/types.ts';
import type { ListedDelivery } from '../deliveries/delivery-queries.ts';
import { lastDeliveryChange } from '../deliveries/last-delivery-change.ts';
import type { Carrier } from '../deliveries/rider-queries.ts';
import { isNewer } from '../deliveries/use-delivery-status.ts';
import { useStatusChange } from '../undo/use-status-change.ts';

/** Where an order of the queue can be. */
export type Step = WorkStep | 'delivered';

export const stepLabels: Record<Step, string> = {
  prepare: 'To prepare',
  preparing: 'Being prepared',
  ready: 'Ready',
  on_the_way: 'On the way',
  failed: 'Delivery failed',
  delivered: 'Delivered',
};

/** Events of the timeline that move an order in the queue. */
const movingEvents = [
  'delivery_taken',
  'delivery_ready',
  'delivery_unpacked',
  'delivery_assigned',
  'delivery_status_changed',
] as const satisfies readonly OrderEventKind[];

const buttons: Record<WorkStep, string> = {
  prepare: 'Prepare',
  preparing: 'Ready',
  ready: 'Hand over',
  on_the_way: 'Delivered',
  failed: 'Send again',
};

/** The button that leads from a step to the next one. */
export const nextButton = (step: WorkStep, order: Queued['order']): [step: Step, label: string] => [
  nextStep(step, order),
  step === 'ready' && order.is_collected ? 'Handed over' : buttons[step],
];

/** What a step changes, and what decides whether it may. */
export type Queued = Pick<
  ListedDelivery,
  'id' | 'created_at' | 'updated_at' | 'delivery_status' | 'delivery_person' | 'taken_by' | 'ready_at'
> & {
  order: Pick<
    ListedDelivery['order'],
    | 'id'
    | 'order_number'
    | 'status'
    | 'payment_status'
    | 'payment_method'
    | 'is_collected'
    | 'cancel_requested_at'
    | 'cancel_declined_at'
  >;
};

/** The delivery of an order with its order; null before it is paid. */
export const queuedOf = (
  order: Queued['order'] & { delivery: Omit<Queued, 'order'> | null },
): Queued | null => order.delivery && { ...order.delivery, order };

/** The step of a delivery alone: its order follows in a row of its own. */
function stepOf(delivery: Pick<ListedDelivery, 'delivery_status' | 'taken_by' | 'ready_at'>): Step {
  const { delivery_status: status } = delivery;
  if (status === 'delivered') return 'delivered';
  if (status === 'picked_up' || status === 'in_transit') return 'on_the_way';
  return (
    workStep({ status: 'processing', payment_status: 'paid', payment_method: 'mpesa' }, delivery) ?? 'prepare'
  );
}

/** @param rider takes the orders that have none, unless another one is given with the step */
export const useNextStep = (rider: Carrier | undefined) =>
  useStatusChange<Queued, Step, Carrier>({
    set: (tables, delivery, step, chosen = rider) =>
      tables.rpc('move_on', {
        delivery_id: delivery.id,
        expected_step: workStep(delivery.order, delivery) ?? '',
        step,
        ...(step === 'on_the_way' && delivery.delivery_person === null && chosen
          ? { delivery_person: chosen.name, delivery_phone: chosen.phone, delivery_vehicle: chosen.vehicle }
          : {}),
      }),
    conflict: 'delivery_changed',
    async whatHappened(tables, { order }) {
      const last = await lastDeliveryChange(tables, order.id, movingEvents);
      const who = last ? `${last.actor} has just changed` : 'Someone has changed';
      return `${who} ${order.order_number}. You see it as it is now; nothing of yours was saved.`;
    },
    orderNumber: ({ order }) => order.order_number,
    orderId: ({ order }) => order.id,
    contradicts: (delivery, step, { table, row }) =>
      (table === 'deliveries' &&
        row.id === delivery.id &&
        isNewer(row, delivery.updated_at) &&
        stepOf(row as ListedDelivery) !== step) ||
      (table === 'orders' && row.id === delivery.order.id && row.payment_status !== 'paid'),
    statusOf: (delivery) => workStep(delivery.order, delivery) ?? 'prepare',
    label: (step) => stepLabels[step],
    success: 'The order moved on',
    failure: 'The order could not be moved on',
  });
