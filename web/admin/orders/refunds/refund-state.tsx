// The state of a refund in words, and the actions of staff.

import { type FormEvent, useState } from 'react';
import { formatKes } from '../../../../domain/money.ts';
import { adviseOnRefund } from '../../../../domain/mpesa/result-advice.ts';
import type { RefundMethod } from '../../../../supabase/types.ts';
import { Button } from '../../../ui/button.tsx';
import { TextField } from '../../../ui/field.tsx';
import { dataOf } from '../../data/table-answer.ts';
import { useSave } from '../../data/use-save.ts';
import { ConfirmDialog } from '../../dialogs/confirm-dialog.tsx';
import { Discard } from '../../dialogs/discard.tsx';
import { focusFirstProblem } from '../../dialogs/focus-first-problem.ts';
import { InlineFooter } from '../../dialogs/form-footer.tsx';
import { useIsAwayFromHere, useUnsaved } from '../../dialogs/use-unsaved.tsx';
import { useMay, useMember } from '../../layout/roles/use-member.tsx';
import { labelOf } from '../../status/label-of.ts';
import { NameInHistory, useNameOf } from '../../ui/staff-name.tsx';
import { formatDateTime } from '../../ui/time/dates.ts';
import { reasonProblem, receiptProblem, receiptRefusal } from '../../ui/typed-problems.ts';
import { describeApprovers, type Refund, touchedByRefunds, useRefundApprovers } from './refund-queries.ts';

/** How the money of a completed refund went. */
export const refundWays: Record<RefundMethod, string> = {
  reversal: 'Sent back by M-PESA',
  by_hand: 'Sent back by hand',
  cash: 'Given back in cash',
  credit: 'Credit of the customer again',
};

/** @param order of the refunded payment; null for a test */
export function RefundState({ refund, order }: { refund: Refund; order: RefundedOrder | null }) {
  const amount = formatKes(refund.refund_cents);
  const nameOf = useNameOf();
  const by = nameOf(refund.requested_by_email ?? 'a former colleague');
  if (refund.sent_twice_at) return <DoubleRefund refund={refund} />;
  switch (refund.status) {
    case 'requested':
      return (
        <Box title={`Refund of ${amount} awaits a colleague's approval`} tone="danger">
          <p>
            Requested by {by}, {formatDateTime(refund.created_at)}: “{refund.reason}”
          </p>
          <ApproveOrWithdraw refund={refund} order={order} />
        </Box>
      );
    case 'approved':
      return (
        <Box title={`${amount} are about to be sent back`} tone="info">
          <p>
            {refund.result_code
              ? `${adviseOnRefund(refund.result_code, refund.result_description).what} The shop tries again on its own.`
              : `“${refund.reason}” (${by}${refund.approved_by_email ? `, approved by ${nameOf(refund.approved_by_email)}` : ''})`}
          </p>
          <ApproveOrWithdraw refund={refund} order={order} />
        </Box>
      );
    case 'sending':
    case 'sent':
      return (
        <Box title={`${amount} are on their way back`} tone="info">
          <p>M-PESA has the request and will report the result.</p>
        </Box>
      );
    case 'unknown':
      return (
        <Box title={`Not known yet whether ${amount} went back`} tone="danger">
          <p>
            {refund.result_code === 'R000001'
              ? "M-PESA says this money was sent back already. We're checking when."
              : "M-PESA did not answer. We're checking the result, and nothing is sent twice."}
          </p>
          <CloseUnknown refund={refund} />
        </Box>
      );
    case 'failed': {
      const { what, advice } = adviseOnRefund(refund.result_code, refund.result_description);
      return (
        <Box title={`${amount} were not sent back`} tone="danger">
          <p>
            {what} {advice}
            {refund.result_code ? ` (code ${refund.result_code})` : null}
          </p>
        </Box>
      );
    }
    case 'completed':
      return (
        <p className="text-sm text-ink-soft">
          {labelOf(refundWays, refund.method)}
          {refund.completed_at ? ` ${formatDateTime(refund.completed_at)}` : ''}
          {refund.refund_receipt ? (
            <>
              , receipt <span className="font-semibold text-ink">{refund.refund_receipt}</span>
            </>
          ) : null}
        </p>
      );
    default:
      return null;
  }
}

function DoubleRefund({ refund }: { refund: Refund }) {
  const title = `${formatKes(refund.refund_cents)} went back twice`;
  const receipt = refund.refund_receipt ? ` (receipt ${refund.refund_receipt})` : '';
  if (refund.sent_twice_seen_at) {
    return (
      <Box title={title} tone="info">
        <p className="break-words">
          M-PESA reported the second one late{receipt}. Dealt with by{' '}
          <NameInHistory email={refund.sent_twice_seen_by_email} otherwise="a former colleague" />,{' '}
          {formatDateTime(refund.sent_twice_seen_at)}: “{refund.sent_twice_note}”
        </p>
      </Box>
    );
  }
  return (
    <Box title={title} tone="danger">
      <p>
        M-PESA reported this reversal only after the money was sent back another way{receipt}. Ask the
        customer to return one of the two.
      </p>
      <ResolveDoubleRefund refund={refund} />
    </Box>
  );
}

/** Form that records how money that was sent back twice was resolved, so that it is no longer shown. */
export function ResolveDoubleRefund({ refund }: { refund: Refund }) {
  const { tables } = useMember().staff;
  const [isOpen, setOpen] = useState(false);
  const [note, setNote] = useState('');
  const [problem, setProblem] = useState<string>();
  const save = useSave({
    write: async () =>
      dataOf(await tables.rpc('acknowledge_sent_twice', { refund_id: refund.id, note: note.trim() })),
    success: "Noted. It's off the list now",
    failure: 'Failed to note it',
    isUnsafeToRepeat: true,
    refresh: touchedByRefunds,
  });
  const unsaved = useUnsaved(
    isOpen && note.trim() !== '' && !save.isPending && !save.isSuccess,
    useIsAwayFromHere(),
  );
  function submit(event: FormEvent<HTMLFormElement>) {
    event.preventDefault();
    const found = reasonProblem(note);
    setProblem(found);
    if (found) focusFirstProblem(event.currentTarget);
    else if (!save.isPending) save.mutate();
  }
  if (!isOpen) {
    return (
      <div>
        <Button tone="quiet" onClick={() => setOpen(true)}>
          It is dealt with
        </Button>
      </div>
    );
  }
  return (
    <form noValidate onSubmit={submit} className="grid gap-3 rounded-md bg-card p-3 text-ink">
      <TextField
        label="What became of the second payment"
        autoComplete="off"
        maxLength={200}
        hint="For example: paid back to the till, receipt UKL3AB12CD"
        value={note}
        onChange={(event) => setNote(event.target.value)}
        problem={problem}
      />
      <InlineFooter
        unsaved={unsaved}
        label="It is dealt with"
        isBusy={save.isPending}
        onCancel={() => setOpen(false)}
      />
    </form>
  );
}

const boxes = {
  danger: 'border-danger/40 bg-danger-soft text-danger',
  info: 'border-ember-200 bg-ember-50 text-ink',
};

function Box({
  title,
  tone,
  children,
}: {
  title: string;
  tone: keyof typeof boxes;
  children: React.ReactNode;
}) {
  return (
    <div className={`grid gap-2 rounded-md border px-4 py-3 text-sm ${boxes[tone]}`}>
      <p className="font-bold">{title}</p>
      {children}
    </div>
  );
}

export interface RefundedOrder {
  order_number: string;
  customer_name: string;
}

export function ApproveOrWithdraw({ refund, order }: { refund: Refund; order: RefundedOrder | null }) {
  const { id, staff } = useMember();
  const may = useMay();
  const [isAsking, setAsking] = useState(false);
  const approve = useSave({
    write: async () => dataOf(await staff.tables.rpc('approve_refund', { refund_id: refund.id })),
    success: 'Approved. M-PESA is asked to send the money back',
    failure: 'Failed to approve the refund',
    isUnsafeToRepeat: true,
    refresh: touchedByRefunds,
    onSuccess: () => setAsking(false),
  });
  const withdraw = useSave({
    write: async () => dataOf(await staff.tables.rpc('withdraw_refund', { refund_id: refund.id })),
    success: 'The refund is withdrawn',
    failure: 'Failed to withdraw the refund',
    isUnsafeToRepeat: true,
    refresh: touchedByRefunds,
  });
  const isOwn = refund.requested_by === id;
  const isBusy = approve.isPending || withdraw.isPending;
  const amount = formatKes(refund.refund_cents);
  const approvers = useRefundApprovers(refund.status === 'requested' && isOwn);
  const nameOf = useNameOf();
  // The only owner may approve an own refund; the database also asks for a second factor.
  const isAlone = isOwn && approvers?.length === 0 && may('approvals');
  const mayApproveFrom = new Date(Date.parse(refund.created_at) + 10 * 60_000).toISOString();
  return (
    <div className="flex flex-wrap items-center gap-3">
      {refund.status === 'requested' && may('approvals') && (!isOwn || isAlone) ? (
        <Button tone="danger" isBusy={isBusy} aria-haspopup="dialog" onClick={() => setAsking(true)}>
          Approve {amount}
        </Button>
      ) : null}
      <Button tone="quiet" isBusy={isBusy} onClick={() => withdraw.mutate()}>
        Withdraw
      </Button>
      {refund.status === 'requested' && !isOwn && !may('approvals') ? (
        <p>An owner approves it: it is above the refund limit.</p>
      ) : null}
      {refund.status === 'requested' && isOwn ? (
        <p>
          {isAlone
            ? `You are the only owner. With an authenticator app you can approve it yourself from ${formatDateTime(mayApproveFrom)} on.`
            : `You requested it, so ${describeApprovers(approvers?.map(nameOf))}.`}
        </p>
      ) : null}
      <ConfirmDialog
        open={isAsking}
        title={`Send back ${amount}?`}
        text="M-PESA sends it to the phone that paid. This can't be undone."
        confirm={`Approve ${amount}`}
        isBusy={approve.isPending}
        onConfirm={() => approve.mutate()}
        onCancel={() => setAsking(false)}
      >
        <dl className="grid gap-3">
          {order ? (
            <>
              <Fact term="Order">{order.order_number}</Fact>
              <Fact term="Customer">
                <bdi>{order.customer_name}</bdi>
              </Fact>
            </>
          ) : null}
          <Fact term="Receipt">{refund.receipt}</Fact>
          <Fact term="Reason">{refund.reason}</Fact>
          <Fact term="Requested by">
            <NameInHistory email={refund.requested_by_email} otherwise="a former colleague" />,{' '}
            {formatDateTime(refund.created_at)}
          </Fact>
        </dl>
      </ConfirmDialog>
    </div>
  );
}

function Fact({ term, children }: { term: string; children: React.ReactNode }) {
  return (
    <div>
      <dt className="text-sm text-ink-soft">{term}</dt>
      <dd className="font-semibold break-words">{children}</dd>
    </div>
  );
}

/** M-PESA may still execute a refund for this long (`close_unknown_refund`). */
const freshMs = 30 * 60_000;

function CloseUnknown({ refund }: { refund: Refund }) {
  const { tables } = useMember().staff;
  const [isOpen, setOpen] = useState(false);
  const [receipt, setReceipt] = useState('');
  const [problem, setProblem] = useState<string>();
  const close = useSave({
    write: async (found: string | null) =>
      dataOf(await tables.rpc('close_unknown_refund', { refund_id: refund.id, refund_receipt: found })),
    success: (_, found) => (found ? 'The refund is noted as sent' : 'The refund is noted as not sent'),
    failure: 'Failed to note it',
    isUnsafeToRepeat: true,
    refresh: touchedByRefunds,
    isShownElsewhere: (error) => receiptRefusal(error) !== undefined,
  });
  const unsaved = useUnsaved(
    isOpen && receipt.trim() !== '' && !close.isPending && !close.isSuccess,
    useIsAwayFromHere(),
  );
  if (!isOpen) {
    return (
      <div>
        <Button tone="quiet" onClick={() => setOpen(true)}>
          I looked it up
        </Button>
      </div>
    );
  }
  const isFresh = refund.sent_at !== null && Date.now() - Date.parse(refund.sent_at) < freshMs;
  return (
    <div className="grid gap-3 text-ink">
      <p>Look for a reversal of {refund.receipt} in the M-PESA portal.</p>
      <TextField
        label="Receipt of the reversal"
        autoComplete="off"
        autoCapitalize="characters"
        spellCheck={false}
        maxLength={20}
        value={receipt}
        onChange={(event) => setReceipt(event.target.value)}
        problem={problem}
      />
      {unsaved.isBlocked ? <Discard onStay={unsaved.stay} onLeave={unsaved.leave} /> : null}
      <div className={`flex flex-wrap gap-3 ${unsaved.isBlocked ? 'hidden' : ''}`}>
        <Button
          isBusy={close.isPending}
          onClick={() => {
            const found = receiptProblem(receipt);
            setProblem(found);
            if (!found) close.mutate(receipt, { onError: (error) => setProblem(receiptRefusal(error)) });
          }}
        >
          It was sent
        </Button>
        <Button tone="quiet" isBusy={close.isPending} disabled={isFresh} onClick={() => close.mutate(null)}>
          It was not sent
        </Button>
      </div>
      {isFresh ? (
        <p>
          Wait half an hour after it was tried before you say that it was not sent: M-PESA may still be
          working on it.
        </p>
      ) : null}
    </div>
  );
}
