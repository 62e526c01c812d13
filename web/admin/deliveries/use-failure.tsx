// Asks why a delivery failed, and saves it with an offer to undo.
import { type ReactNode, useState } from 'react';
import { confirmDeliveryStatus } from '../status/status-change.ts';
import { loadConfirmation } from '../status/status-select.tsx';
import { usePart } from '../ui/use-part.ts';
import type { ListedDelivery } from './delivery-queries.ts';
import { useDeliveryStatus } from './use-delivery-status.ts';

export function useFailure(): {
  /** For a delivery that is on its way. */
  ask(delivery: ListedDelivery): void;
  isSaving(delivery: ListedDelivery): boolean;
  /** The open question; to be rendered by the caller. */
  question: ReactNode;
} {
  const status = useDeliveryStatus();
  // Stays set while the question closes.
  const [asked, setAsked] = useState<ListedDelivery | null>(null);
  const [isAsking, setAsking] = useState(false);
  const dialog = usePart(loadConfirmation, isAsking, () => setAsking(false));
  const confirmation = asked && confirmDeliveryStatus(asked, 'failed');
  return {
    ask(delivery) {
      setAsked(delivery);
      setAsking(true);
    },
    isSaving: (delivery) => status.saving(delivery) !== undefined,
    question:
      dialog && confirmation ? (
        <dialog.StatusConfirmation
          confirmation={confirmation}
          isOpen={isAsking}
          onCancel={() => setAsking(false)}
          onConfirm={(reason) => {
            setAsking(false);
            status.set(asked, 'failed', reason);
          }}
        />
      ) : null,
  };
}
