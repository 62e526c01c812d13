// Saves a change of a status and offers to undo it. Changes of other members in the meantime are not overwritten.
import { useQueryClient } from '@tanstack/react-query';
import type { Database } from '../../../supabase/types.ts';
import type { Staff } from '../../lib/staff.ts';
import { ConflictError, dataOf, SavedWithoutAnswer } from '../data/table-answer.ts';
import { useSave } from '../data/use-save.ts';
import { useMember } from '../layout/roles/use-member.tsx';
import type { RowChange } from '../live/use-live-changes.ts';
import { type Outcome, outcomeOf } from './outcome.ts';
import { offerUndo } from './undoable-changes.ts';

type Change = Database['public']['CompositeTypes']['status_change'];

type Answer = {
  data: Change | null;
  error: { message: string; code?: string; details?: string } | null;
  status?: number;
};

interface StatusChange<Row, Status, Detail> {
  /** Calls the procedure that sets the status. */
  set(tables: Staff['tables'], row: Row, to: Status, detail?: Detail): PromiseLike<Answer>;
  /** The refusal's code if the row has changed since it was seen. */
  conflict: string;
  /** The row's current status, and who changed it. */
  whatHappened(tables: Staff['tables'], row: Row): Promise<string>;
  orderNumber(row: Row): string;
  orderId(row: Row): string;
  /**
   * Whether a change of a row contradicts the state right after the status was set. The state before it does not: the event of an
   * earlier change may arrive late.
   */
  contradicts(row: Row, to: Status, change: RowChange): boolean;
  statusOf(row: Row): Status;
  label(status: Status): string;
  /** The texts of the toasts. */
  success: string;
  failure: string;
}

/** The change, also of an answer that was lost: the database keeps it. */
export function changeOf(answer: Answer): Change {
  try {
    return dataOf(answer);
  } catch (error) {
    if (error instanceof SavedWithoutAnswer && error.answer) return error.answer as Change;
    throw error;
  }
}

const refreshed = ['orders', 'deliveries', 'products', 'dashboard'];

export function useStatusChange<Row extends { id: string }, Status extends string, Detail = never>(
  kind: StatusChange<Row, Status, Detail>,
) {
  const { tables } = useMember().staff;
  const queries = useQueryClient();
  const refresh = () => {
    for (const word of refreshed) void queries.invalidateQueries({ queryKey: [word] });
  };

  async function undo(changeId: string, row: Row): Promise<Outcome> {
    const number = kind.orderNumber(row);
    const outcome = await outcomeOf(
      async () => dataOf(await tables.rpc('undo_status_change', { change_id: changeId })),
      {
        undone: `${number} is ${kind.label(kind.statusOf(row))} again.`,
        unanswered: `The connection broke. The status of ${number} may have been undone all the same: look at it again.`,
      },
    );
    refresh();
    return outcome;
  }

  async function write(row: Row, to: Status, detail: Detail | undefined) {
    // The response's travel time is subtracted from the time to undo.
    const startedAt = performance.now();
    const answer = await kind.set(tables, row, to, detail);
    if (answer.error?.details === kind.conflict)
      throw new ConflictError(await kind.whatHappened(tables, row));
    return { change: changeOf(answer), startedAt };
  }
  const offer = ({ change, startedAt }: Awaited<ReturnType<typeof write>>, row: Row, to: Status) =>
    offerUndo(
      {
        id: change.change_id,
        title: `${kind.orderNumber(row)}: ${kind.label(to)}`,
        notifiesCustomer: change.notifies_customer,
        orderId: kind.orderId(row),
        isOvertakenBy: (later) => kind.contradicts(row, to, later),
        endsAt: startedAt + change.undo_seconds * 1000,
        undo: () => undo(change.change_id, row),
      },
      kind.success,
    );

  const save = useSave({
    write: ({ row, to, detail }: { row: Row; to: Status; detail: Detail | undefined }) =>
      write(row, to, detail),
    failure: kind.failure,
    // The customer may be notified, and without the response it cannot be undone.
    isUnsafeToRepeat: true,
    refresh: refreshed,
    onSuccess(saved, { row, to }) {
      if (saved) offer(saved, row, to);
    },
  });

  return {
    set: (row: Row, to: Status, detail?: Detail) => save.mutate({ row, to, detail }),
    /** The same as one of many: the caller reports the error that it throws, and refreshes the lists in the end. */
    async setOne(row: Row, to: Status, detail?: Detail): Promise<void> {
      offer(await write(row, to, detail), row, to);
    },
    refresh,
    /** The status that is being saved for a row. */
    saving: (row: Row) =>
      save.isPending && save.variables.row.id === row.id ? save.variables.to : undefined,
  };
}
