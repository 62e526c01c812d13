// What can be done with the chosen rows of a list, in place of its quick filters: move them on, assign them, print and export them.
import { useRef, useState } from 'react';
import { formatCount } from '../../../../domain/count.ts';
import { takesRider, type WorkStep, workStep } from '../../../../domain/deliveries/delivery-status.ts';
import { Button } from '../../../ui/button.tsx';
import { Icon } from '../../../ui/icons.tsx';
import { showToast } from '../../../ui/toasts/toasts.tsx';
import { dataOf, messageForUser } from '../../data/table-answer.ts';
import type { Carrier } from '../../deliveries/rider-queries.ts';
import { useMember } from '../../layout/roles/use-member.tsx';
import type { Selection } from '../../list/use-selection.ts';
import type { NextSteps } from '../../today/next-step-button.tsx';
import type { Queued, Step } from '../../today/use-next-step.ts';
import { usePart } from '../../ui/use-part.ts';
import { undoAll, undoableChanges, watchUndoAll } from '../../undo/undoable-changes.ts';
import { changeMany } from './change-many.ts';

const loadRiderDialog = () => import('./bulk-rider.tsx');
const loadPrint = () => import('./print-slips.tsx');

interface BulkBarProps<Row> {
  selection: Selection<Row>;
  /** The delivery of a row's order; null before it is paid. */
  queuedOf(row: Row): Queued | null;
  orderIdOf(row: Row): string;
  steps: NextSteps;
  /** Saves the rows as a file. Undefined for a role that may not. */
  onExport: ((rows: readonly Row[]) => Promise<void>) | undefined;
}

type Asked = { verb: 'Assign' | 'Hand over'; rows: Queued[] };

const inShop: readonly (WorkStep | null)[] = ['prepare', 'preparing', 'ready'];

export function BulkBar<Row extends { id: string }>({
  selection,
  queuedOf,
  orderIdOf,
  steps,
  onExport,
}: BulkBarProps<Row>) {
  const { tables } = useMember().staff;
  const [done, setDone] = useState<number | null>(null);
  const total = useRef(0);
  const [asked, setAsked] = useState<Asked | null>(null);
  const dialog = usePart(loadRiderDialog, asked !== null, () => setAsked(null));
  const [printed, setPrinted] = useState<readonly string[] | null>(null);
  const print = usePart(loadPrint, printed !== null, () => setPrinted(null));
  const { rows } = selection;
  const queued = rows.flatMap((row) => queuedOf(row) ?? []);
  const at = (...wanted: readonly (WorkStep | null)[]) =>
    queued.filter((delivery) => wanted.includes(workStep(delivery.order, delivery)));
  const forRiders = at(...inShop).filter(({ order }) => takesRider(order));
  const unassigned = forRiders.filter(({ delivery_person }) => delivery_person === null);

  /** @param what was done, for the message: 'assigned' */
  async function change(chosen: readonly Queued[], apply: (row: Queued) => Promise<void>, what?: string) {
    total.current = chosen.length;
    setDone(0);
    const isUndone = watchUndoAll(chosen.map(({ order }) => order.id));
    const { changed, failed } = await changeMany(chosen, apply, setDone, isUndone);
    setDone(null);
    steps.refresh();
    if (isUndone()) {
      // Requests that were on their way when the others were undone.
      const ids = new Set(changed.map(({ order }) => order.id));
      await undoAll(undoableChanges().filter(({ orderId }) => ids.has(orderId)));
      return;
    }
    const [first] = failed;
    if (first) {
      console.warn('Some orders were not changed', ...failed.map(({ error }) => error));
      const why = messageForUser(first.error) || 'Please look at it again.';
      showToast({
        kind: 'error',
        title: `${failed.length} of ${chosen.length} not changed`,
        text: `${first.row.order.order_number}: ${why}`,
      });
    } else selection.clear();
    if (!what || changed.length === 0) return;
    const text = `${changed.length} ${changed.length === 1 ? 'order' : 'orders'} ${what}`;
    showToast({ title: 'Success', text, topic: 'saved' });
    import('../../deliveries/offer-jobs.tsx')
      .then(({ offerJobs }) =>
        offerJobs(
          tables,
          changed.map(({ order }) => order.id),
          text,
        ),
      )
      // They can still be sent one by one.
      .catch((error: unknown) => console.warn('The jobs could not be offered', error));
  }
  const move = (chosen: readonly Queued[], step: Step, rider?: Carrier) =>
    change(chosen, (row) => steps.setOne(row, step, rider));
  const assign = (chosen: readonly Queued[], rider: Carrier) =>
    change(
      chosen,
      async (row) => {
        dataOf(
          await tables.rpc('assign_delivery', {
            order_id: row.order.id,
            delivery_person: rider.name,
            delivery_phone: rider.phone,
            delivery_vehicle: rider.vehicle,
            delivery_notes: null,
            seen_updated_at: null,
          }),
        );
      },
      `assigned to ${rider.name}`,
    );

  const actions: { label: string; chosen: readonly Queued[]; run(chosen: Queued[]): void }[] = [
    { label: 'Prepare', chosen: at('prepare'), run: (chosen) => void move(chosen, 'preparing') },
    { label: 'Ready', chosen: at('prepare', 'preparing'), run: (chosen) => void move(chosen, 'ready') },
    { label: 'Assign', chosen: unassigned, run: (chosen) => setAsked({ verb: 'Assign', rows: chosen }) },
    {
      label: 'Hand over',
      chosen: forRiders,
      run: (chosen) =>
        unassigned.length > 0
          ? setAsked({ verb: 'Hand over', rows: chosen })
          : void move(chosen, 'on_the_way'),
    },
    {
      label: 'Handed over',
      chosen: at('ready').filter(({ order }) => order.is_collected),
      run: (chosen) => void move(chosen, 'delivered'),
    },
    { label: 'Delivered', chosen: at('on_the_way'), run: (chosen) => void move(chosen, 'delivered') },
    { label: 'Send again', chosen: at('failed'), run: (chosen) => void move(chosen, 'ready') },
  ];
  const isBusy = done !== null;
  return (
    <section
      aria-label="Chosen rows"
      className="flex min-w-0 flex-1 items-center gap-1.5 overflow-x-auto py-0.5"
    >
      <p role="status" className="shrink-0 text-sm font-bold tabular-nums">
        {isBusy
          ? `${done} of ${total.current}...`
          : selection.isLoadingAll
            ? 'Loading all...'
            : `${formatCount(rows.length)} selected`}
      </p>
      <Button tone="quiet" onClick={selection.all} className={small}>
        All
      </Button>
      {actions
        .filter(({ chosen }) => chosen.length > 0)
        .map(({ label, chosen, run }) => (
          <Button key={label} tone="dusk" isBusy={isBusy} onClick={() => run([...chosen])} className={small}>
            {label} <span className="font-semibold text-dusk-200 tabular-nums">{chosen.length}</span>
          </Button>
        ))}
      {rows.length > 0 ? (
        <>
          <Button
            tone="quiet"
            isBusy={isBusy || printed !== null}
            onClick={() => setPrinted(rows.map(orderIdOf))}
            className={small}
          >
            Print slips
          </Button>
          {onExport ? (
            <Button tone="quiet" isBusy={isBusy} onClick={() => void onExport(rows)} className={small}>
              Export
            </Button>
          ) : null}
        </>
      ) : null}
      <button
        type="button"
        onClick={selection.clear}
        aria-label="Choose none"
        title="Choose none"
        className="ml-auto grid size-9 shrink-0 place-items-center rounded-md text-ink-soft hover:bg-paper-deep hover:text-ink"
      >
        <Icon name="close" className="size-4.5" />
      </button>
      {dialog ? (
        <dialog.BulkRider
          asked={asked}
          onClose={() => setAsked(null)}
          onChoose={(rider) => {
            if (!asked) return;
            steps.chooseRider(rider.name);
            setAsked(null);
            void (asked.verb === 'Assign'
              ? assign(asked.rows, rider)
              : move(asked.rows, 'on_the_way', rider));
          }}
        />
      ) : null}
      {print && printed ? <print.PrintSlips orderIds={printed} onPrinted={() => setPrinted(null)} /> : null}
    </section>
  );
}

const small = 'min-h-9! shrink-0 px-3! whitespace-nowrap shadow-none!';
