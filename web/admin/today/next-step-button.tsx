// The button that moves a paid order to its next step: in a row of a list, on a card, and in the order itself.
import { hasCancelRequest, workStep } from '../../../domain/deliveries/delivery-status.ts';
import { Button } from '../../ui/button.tsx';
import { useDialogOpener } from '../dialogs/use-dialog-parameter.ts';
import { useNextRider } from './use-next-rider.ts';
import { nextButton, type Queued, useNextStep } from './use-next-step.ts';

/** What a screen needs for these buttons, once for all of its orders. */
export function useNextSteps() {
  const [rider, chooseRider] = useNextRider();
  const assign = useDialogOpener('assign');
  return { rider, chooseRider, assign, ...useNextStep(rider) };
}
export type NextSteps = ReturnType<typeof useNextSteps>;

interface NextStepButtonProps {
  delivery: Queued;
  steps: NextSteps;
  /** With the height of a button and the rider's name, where there is more space than in a row. */
  isLarge?: boolean;
  /** Whether something else of the order is being saved. */
  isBusy?: boolean;
}

const large = 'px-3! counter:min-h-14 counter:text-base';
const inRow = 'min-h-10! px-1.5! text-xs! whitespace-nowrap shadow-none! rows:min-h-11!';

/** Nothing where the order waits for nothing. */
export function NextStepButton({ delivery, steps, isLarge = false, isBusy = false }: NextStepButtonProps) {
  const { rider, chooseRider, set, saving, assign } = steps;
  const step = workStep(delivery.order, delivery);
  // Without a step until staff have answered a request to cancel: in the opened order, and on its card.
  if (!step || hasCancelRequest(delivery.order)) return null;
  const [next, name] = nextButton(step, delivery.order);
  const needsRider = next === 'on_the_way';
  const carrier = needsRider ? (delivery.delivery_person ?? rider?.name) : undefined;
  const label = !needsRider
    ? name
    : carrier === undefined
      ? 'Choose a rider'
      : isLarge
        ? `Hand over to ${carrier.split(/\s/)[0]}`
        : 'Hand over';
  return (
    <Button
      tone={step === 'prepare' ? 'dusk' : 'leaf'}
      isBusy={isBusy || saving(delivery) !== undefined}
      title={carrier ? `Hand over to ${carrier}` : undefined}
      onClick={({ detail }) => {
        // The second press of a double one would press the button of the step after this one.
        if (detail > 1) return;
        if (needsRider && !carrier) {
          assign(delivery.id);
          return;
        }
        if (carrier) chooseRider(carrier);
        set(delivery, next);
      }}
      className={`min-w-0 grow ${isLarge ? `basis-20 ${large}` : inRow}`}
    >
      {/* The number for screen readers is clipped with the text: placed beyond it, it would widen the page. */}
      <span className={`relative ${isLarge ? 'line-clamp-2 leading-tight' : 'truncate'}`}>
        {label}
        <span className="sr-only"> {delivery.order.order_number}</span>
      </span>
    </Button>
  );
}
