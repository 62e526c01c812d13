// The details of a reconciliation row: both sides, its history and all actions. Open while the URL has
// `?view=<receipt or payment>`.

import { type ReactNode, useId, useState } from 'react';
import { formatKes } from '../../../../domain/money.ts';
import { Button } from '../../../ui/button.tsx';
import {
  DialogBody,
  DialogFooter,
  DialogHeading,
  DialogOrDrawer,
} from '../../../ui/dialog/dialog-or-drawer.tsx';
import { TextField } from '../../../ui/field.tsx';
import { Notice } from '../../../ui/notice.tsx';
import { DialogLoadState } from '../../dialogs/dialog-load-state.tsx';
import { Discard } from '../../dialogs/discard.tsx';
import { useDialogParameter } from '../../dialogs/use-dialog-parameter.ts';
import { useUnsaved } from '../../dialogs/use-unsaved.tsx';
import { SearchBox } from '../../list/list-toolbar.tsx';
import { useManualRefundFields } from '../../orders/refunds/manual-refund-fields.tsx';
import { statusLabel } from '../../status/status-badge.tsx';
import type { LoadingQuery } from '../../ui/load-states.tsx';
import { NameInHistory } from '../../ui/staff-name.tsx';
import { formatDateTime } from '../../ui/time/dates.ts';
import {
  type BookDay,
  type Resolve,
  useCandidates,
  useHistory,
  useResolve,
} from '../reconciliation-queries.ts';
import { KindBadge, nameOf, OrderLink } from './difference-columns.tsx';
import {
  type BookRow,
  type Decision,
  decisionsFor,
  describeDecision,
  describeMoney,
  describeState,
  explainDecision,
  isUnknown,
  kinds,
  labelDecision,
} from './difference-texts.ts';
import { ManualRefund, useRecordManualRefund } from './manual-refund.tsx';
import { OrderCandidate } from './order-candidate.tsx';

interface DifferenceDialogProps {
  book: LoadingQuery & { data: BookDay | undefined };
}

export function DifferenceDialog({ book }: DifferenceDialogProps) {
  const { id, shownId, close } = useDialogParameter('view');
  const row = book.data?.rows.find((one) => one.id === shownId);
  return (
    <DialogOrDrawer hasOwnEntry={false} open={id !== null} onClose={close} size="large">
      {row ? (
        <Whole key={row.id} row={row} onClose={close} />
      ) : shownId ? (
        <DialogLoadState
          title="Payment"
          noun="payment"
          row={book.data ? null : undefined}
          query={book}
          onClose={close}
        />
      ) : null}
    </DialogOrDrawer>
  );
}

function Whole({ row, onClose }: { row: BookRow; onClose(): void }) {
  const [note, setNote] = useState('');
  const [confirming, setConfirming] = useState<Decision | null>(null);
  const isConfirming = confirming !== null;
  const [isByHand, setByHand] = useState(false);
  const handForm = useId();
  const resolve = useResolve(() => {
    setNote('');
    setConfirming(null);
  });
  const handFields = useManualRefundFields();
  const byHand = useRecordManualRefund(() => setByHand(false));
  const unsaved = useUnsaved(note.trim() !== '' || (isByHand && handFields.isTyped));
  const decisions = decisionsFor(row);
  const others = decisions.filter((decision) => decision !== 'give');
  // Orders that the payment may belong to, although its receipt was lost.
  const { data: candidates } = useCandidates(row.receipt ?? '', '', isUnknown(row));
  const mayHavePaid = isUnknown(row) ? candidates?.find((order) => order.lacks_receipt) : undefined;
  const decide = (decision: Decision) =>
    explainDecision(decision, row) && !isConfirming
      ? setConfirming(decision)
      : resolve.resolve({ row, decision, note, isSure: mayHavePaid !== undefined });
  const state = describeState(row);
  return (
    <>
      <DialogHeading
        title={
          <span className="flex flex-wrap items-center gap-x-3 gap-y-1">
            <span className="break-all">{row.receipt ?? 'Receipt not known yet'}</span>{' '}
            <KindBadge row={row} />
          </span>
        }
        description={state || describeKind(row)}
      />
      <DialogBody>
        <div className="grid gap-6">
          {isByHand ? (
            <ManualRefund
              id={handForm}
              row={row}
              isSure={mayHavePaid !== undefined}
              fields={handFields}
              note={byHand}
            />
          ) : null}
          {!isByHand && row.is_open && mayHavePaid ? (
            <Notice tone="info" title={`This may be the payment of order ${mayHavePaid.order_number}`}>
              A prompt of that order for the same amount, at the same time, has no receipt. Assign the money
              to that order: if it is paid already, it only gets its receipt.
            </Notice>
          ) : null}
          <Sides row={row} />
          {!isByHand && decisions.includes('give') ? (
            <GiveToOrder row={row} note={note} resolve={resolve} />
          ) : null}
          {!isByHand && decisions.length > 0 ? (
            <TextField
              label="Note"
              name="note"
              hint="Optional note, 3 to 200 characters"
              maxLength={200}
              autoComplete="off"
              value={note}
              disabled={resolve.isPending}
              onChange={(event) => setNote(event.target.value)}
            />
          ) : null}
          <History row={row} />
        </div>
      </DialogBody>
      <DialogFooter>
        {unsaved.isBlocked ? <Discard onStay={unsaved.stay} onLeave={unsaved.leave} /> : null}
        {isConfirming ? (
          <p className="mb-3 text-sm font-semibold text-danger">
            {explainDecision(confirming, row)}
            {mayHavePaid && confirming === 'refund'
              ? ` It may be the payment of order ${mayHavePaid.order_number}: then that order would be delivered unpaid.`
              : ''}
          </p>
        ) : null}
        {isByHand && mayHavePaid ? (
          <p className="mb-3 text-sm font-semibold text-danger">
            It may be the payment of order {mayHavePaid.order_number}: then that order would be delivered
            unpaid.
          </p>
        ) : null}
        <div
          className={`flex flex-wrap justify-end gap-3 max-md:*:grow ${unsaved.isBlocked ? 'hidden' : ''}`}
        >
          <Button
            tone="quiet"
            onClick={() => {
              if (!isConfirming && !isByHand) onClose();
              setConfirming(null);
              setByHand(false);
            }}
            // On a phone the cross above closes it; the space is needed for the actions.
            className={!isConfirming && !isByHand && decisions.length > 1 ? 'max-md:hidden' : ''}
          >
            {isConfirming || isByHand ? 'Not now' : 'Close'}
          </Button>
          {isByHand ? (
            <Button type="submit" form={handForm} isBusy={byHand.isPending}>
              It was sent back
            </Button>
          ) : null}
          {!isConfirming && !isByHand && decisions.includes('refund') ? (
            <Button tone="quiet" onClick={() => setByHand(true)}>
              I already refunded it
            </Button>
          ) : null}
          {(isByHand ? [] : others)
            .filter((decision) => !isConfirming || decision === confirming)
            .map((decision) => (
              <Button
                key={decision}
                tone={toneOf(decision)}
                isBusy={resolve.deciding(row) === decision}
                onClick={() => decide(decision)}
              >
                {decision === 'refund' && isConfirming ? 'Yes, send it back' : labelDecision(decision, row)}
              </Button>
            ))}
        </div>
      </DialogFooter>
    </>
  );
}

const toneOf = (decision: Decision) =>
  decision === 'refund' || decision === 'cancel_and_refund'
    ? 'danger'
    : decision === 'accept' || decision.startsWith('deliver')
      ? 'leaf'
      : 'dusk';

/** Describes the difference in a sentence. */
const describeKind = (row: BookRow): string =>
  describeMoney(row) ||
  (row.kind === 'not_compared' && row.method === 'till'
    ? 'Only your staff have entered it. The statement of that time has not been read yet.'
    : kinds[row.kind].meaning);

function Sides({ row }: { row: BookRow }) {
  const sources = [
    row.reported_by_confirmation_at ? 'Confirmation' : '',
    row.reported_by_statement_at ? 'Statement' : '',
  ].filter(Boolean);
  return (
    <div className="grid gap-4 sm:grid-cols-2">
      <Side title="Our books">
        {row.payment_id ? (
          <Facts>
            <Fact term="Amount">
              {row.our_cents === null ? 'None' : formatKes(row.our_cents)}
              {row.payment_status === 'review' ? ' requested, not booked' : ''}
            </Fact>
            <Fact term="Order">
              <OrderLink row={row} /> <bdi>{row.customer_name}</bdi>
            </Fact>
            <Fact term="To be paid">{row.charge_cents === null ? '' : formatKes(row.charge_cents)}</Fact>
            <Fact term="Order's payment">
              {row.order_payment_status && statusLabel(row.order_payment_status)}
            </Fact>
            <Fact term="Paid by">{row.method === 'till' ? 'Hand, to till or paybill' : 'Prompt'}</Fact>
            {row.owed_cents ? <Fact term="Owed to the customer">{formatKes(row.owed_cents)}</Fact> : null}
            {row.returned_cents ? <Fact term="Change sent back">{formatKes(row.returned_cents)}</Fact> : null}
          </Facts>
        ) : row.order_id ? (
          <Facts>
            <Fact term="Amount">None: the order is not paid by it</Fact>
            <Fact term="Order">
              <OrderLink row={row} /> <bdi>{row.customer_name}</bdi>
            </Fact>
            <Fact term="To be paid">{row.charge_cents === null ? '' : formatKes(row.charge_cents)}</Fact>
            <Fact term="Order's payment">
              {row.order_payment_status && statusLabel(row.order_payment_status)}
            </Fact>
          </Facts>
        ) : (
          <p className="mt-2 text-sm text-ink-soft">None of our payments matches this money.</p>
        )}
      </Side>
      <Side title="M-PESA">
        {row.their_cents === null ? (
          <p className="mt-2 text-sm text-ink-soft">
            {row.kind === 'not_compared'
              ? 'Its statement of that time is not read yet.'
              : 'No confirmation or statement has it.'}
          </p>
        ) : (
          <Facts>
            <Fact term="Amount">{formatKes(row.their_cents)}</Fact>
            <Fact term="Time">{formatDateTime(row.happened_at)}</Fact>
            <Fact term="Payer">
              {[row.payer_name, row.payer_phone].filter(Boolean).join(', ') || 'Unknown'}
            </Fact>
            <Fact term="Reference">{row.reference || 'None'}</Fact>
            <Fact term="Source">{sources.join(', ') || 'Callback only'}</Fact>
          </Facts>
        )}
      </Side>
    </div>
  );
}

function Side({ title, children }: { title: string; children: ReactNode }) {
  const id = useId();
  return (
    <section aria-labelledby={id} className="rounded-md border border-line bg-card px-4 py-3">
      <h3 id={id} className="text-base">
        {title}
      </h3>
      {children}
    </section>
  );
}

const Facts = ({ children }: { children: ReactNode }) => (
  <dl className="mt-2 grid gap-1.5 text-sm">{children}</dl>
);

function Fact({ term, children }: { term: string; children: ReactNode }) {
  return (
    <div className="flex flex-wrap justify-between gap-x-4">
      <dt className="text-ink-soft">{term}</dt>
      <dd className="ml-auto min-w-0 text-right break-words">{children}</dd>
    </div>
  );
}

function GiveToOrder({ row, note, resolve }: { row: BookRow; note: string; resolve: Resolve }) {
  const id = useId();
  const [search, setSearch] = useState('');
  const [chosen, setChosen] = useState<string | null>(null);
  const { data: orders, error, isPending, refetch } = useCandidates(row.receipt ?? '', search);
  return (
    <section aria-labelledby={id} className="grid gap-3">
      <h3 id={id} className="text-base">
        {labelDecision('give', row)}
      </h3>
      <SearchBox placeholder="Search orders..." searched={search} onSearch={setSearch} />
      {error ? (
        <p role="alert" className="flex flex-wrap items-center gap-3 text-sm text-danger">
          The orders could not be loaded.
          <Button tone="quiet" onClick={() => void refetch()}>
            Try again
          </Button>
        </p>
      ) : isPending ? (
        <p role="status" className="text-sm text-ink-soft">
          Loading orders...
        </p>
      ) : orders.length === 0 ? (
        <p role="status" className="text-sm text-ink-soft">
          {search ? 'No orders found.' : 'No unpaid order matches this amount. Search for one.'}
        </p>
      ) : (
        <ul aria-label={search ? 'Found orders' : 'Likely orders'} className="grid gap-2">
          {orders.map((order) => (
            <OrderCandidate
              key={order.id}
              order={order}
              row={row}
              isChosen={chosen === order.id}
              isBusy={resolve.deciding(row) === 'give'}
              isDisabled={resolve.isPending}
              onChoose={(isChosen) => setChosen(isChosen ? order.id : null)}
              onAssign={() => resolve.resolve({ row, decision: 'give', orderId: order.id, note })}
            />
          ))}
        </ul>
      )}
    </section>
  );
}

function History({ row }: { row: BookRow }) {
  const id = useId();
  const { data: events, error } = useHistory(row);
  return (
    <section aria-labelledby={id} className="grid gap-2">
      <h3 id={id} className="text-base">
        History
      </h3>
      {error ? (
        <p role="alert" className="text-sm text-danger">
          The history could not be loaded.
        </p>
      ) : !events ? (
        <p role="status" className="text-sm text-ink-soft">
          Loading...
        </p>
      ) : events.length === 0 ? (
        <p className="text-sm text-ink-soft">No decision about {nameOf(row)} yet.</p>
      ) : (
        <ol className="grid gap-2">
          {[...events].reverse().map((event) => (
            <li key={event.id} className="border-l-2 border-line-strong pl-3">
              <p className="font-semibold">{describeDecision(event.kind)}</p>
              {event.note ? <p className="text-sm break-words">{event.note}</p> : null}
              <p className="text-xs break-words text-ink-soft">
                <NameInHistory email={event.actor_email} otherwise={event.actor_id ? 'Staff' : 'The shop'} />{' '}
                · <time dateTime={event.happened_at}>{formatDateTime(event.happened_at)}</time>
              </p>
            </li>
          ))}
        </ol>
      )}
    </section>
  );
}
