// The button of a list that moves a paid order to its next step.
import { workStep } from '../../../domain/delivery-status.ts';
import { Button } from '../../ui/button.tsx';
import { useDialogOpener } from '../dialogs/use-dialog-parameter.ts';
import { useNextRider } from './use-next-rider.ts';
import { nextSteps, type Queued, useNextStep } from './use-next-step.ts';

/** What a list needs for these buttons, once for all of its rows. */
export function useNextSteps() {
  const [rider, chooseRider] = useNextRider();
  const assign = useDialogOpener('assign');
  return { rider, chooseRider, assign, ...useNextStep(rider) };
}
export type NextSteps = ReturnType<typeof useNextSteps>;

interface NextStepButtonProps {
  delivery: Queued;
  steps: NextSteps;
}

/** Nothing where the order waits for nothing. */
export function NextStepButton({ delivery, steps }: NextStepButtonProps) {
  const { rider, chooseRider, set, saving, assign } = steps;
  const step = workStep(delivery.order, delivery);
  if (!step) return null;
  const carrier = delivery.delivery_person ?? rider?.name;
  return (
    <Button
      tone={step === 'prepare' ? 'dusk' : 'leaf'}
      isBusy={saving(delivery) !== undefined}
      title={step === 'ready' && carrier ? `Hand over to ${carrier}` : undefined}
      onClick={() => {
        if (step === 'ready' && !carrier) {
          assign(delivery.id);
          return;
        }
        if (step === 'ready' && carrier) chooseRider(carrier);
        set(delivery, nextSteps[step][0]);
      }}
      className="min-h-10! min-w-0 grow px-2! text-xs! whitespace-nowrap shadow-none! rows:min-h-11!"
    >
      <span className="relative truncate">
        {step === 'ready' && !carrier ? 'Choose a rider' : nextSteps[step][1]}
        <span className="sr-only"> {delivery.order.order_number}</span>
      </span>
    </Button>
  );
}
