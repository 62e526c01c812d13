// A delivery whose rider typed wrong codes: after five of them staff finish it.
import { useState } from 'react';
import { Button } from '../../ui/button.tsx';
import { Notice } from '../../ui/notice.tsx';
import { dataOf } from '../data/table-answer.ts';
import { useSave } from '../data/use-save.ts';
import { useMember } from '../layout/roles/use-member.tsx';
import { isReasonRefused, ReasonForm } from '../orders/payments/reason-form.tsx';

/** As `private.most_code_tries`. */
const mostTries = 5;

export function WrongCodes({ delivery }: { delivery: { id: string; wrong_codes: number } }) {
  const { tables } = useMember().staff;
  const [isAsking, setAsking] = useState(false);
  const finish = useSave({
    write: async (reason: string) =>
      dataOf(await tables.rpc('finish_without_code', { delivery_id: delivery.id, reason })),
    success: 'Delivered, without the code',
    failure: 'Failed to finish the delivery',
    refresh: ['orders', 'deliveries'],
    isShownElsewhere: isReasonRefused,
  });
  if (isAsking) {
    return (
      <ReasonForm
        label="Finish without the code"
        text="The order is set to delivered. The reason stays in its timeline."
        confirm="Set to delivered"
        error={finish.error}
        isBusy={finish.isPending}
        onConfirm={(reason) => finish.mutate(reason)}
        onCancel={() => setAsking(false)}
      />
    );
  }
  const isLocked = delivery.wrong_codes >= mostTries;
  return (
    <div className="mt-3 grid justify-items-start gap-3">
      <Notice
        tone={isLocked ? 'danger' : 'info'}
        title={
          isLocked
            ? 'Five wrong codes at the door'
            : `${delivery.wrong_codes} wrong ${delivery.wrong_codes === 1 ? 'code' : 'codes'} at the door`
        }
      >
        {isLocked
          ? 'The rider cannot finish this delivery. Call the customer, then finish it here.'
          : 'The code is on the page of the customer, and in the text that the order is on its way.'}
      </Notice>
      <Button tone="quiet" onClick={() => setAsking(true)}>
        Finish without the code
      </Button>
    </div>
  );
}
