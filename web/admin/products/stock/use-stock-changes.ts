// Changes the stock in the list of products. Quick presses are collected into one change of so many units, so that units sold in the
// meantime stay sold. A typed stock is saved only if the stock still is what the member saw.
import { useQueryClient } from '@tanstack/react-query';
import { useEffect, useRef, useState } from 'react';
import type { Staff } from '../../../lib/staff.ts';
import { ConflictError, dataOf } from '../../data/table-answer.ts';
import { useSave } from '../../data/use-save.ts';
import { useMember } from '../../layout/roles/use-member.tsx';
import { type Outcome, outcomeOf } from '../../undo/outcome.ts';
import { offerUndo, undoMs } from '../../undo/undoable-changes.ts';
import type { ListedProduct } from '../product-queries.ts';

/** Delay of the change after the last press, in ms. */
const pauseMs = 700;

interface StockChange {
  id: string;
  name: string;
  by: number;
  /** The stock that the member saw when typing; null for presses. */
  seen: number | null;
  /** Why, in the words of the member; '' for none. */
  reason: string;
}

/** A product whose stock is being changed. */
interface Pending {
  name: string;
  /** The last known stock of the database. */
  stock: number;
  /** Units of presses that are not sent yet. */
  waiting: number;
  /** Units that are being saved. */
  sending: number;
  /** Why, for the units that are not sent yet. */
  reason: string;
}

const shownStock = ({ stock, waiting, sending }: Pending): number => stock + waiting + sending;
const refreshed = ['products', 'dashboard'];

async function changeStock(tables: Staff['tables'], change: StockChange): Promise<number> {
  const { id, name, by, seen, reason } = change;
  const answer = await tables.rpc('change_stock', {
    product_id: id,
    by,
    ...(seen !== null && { seen_units: seen }),
    ...(reason && { reason }),
  });
  if (answer.error?.details === 'stock_changed') {
    throw new ConflictError(
      `${name} has ${answer.error.hint} units now, not ${seen} as you saw: units were sold or added in the meantime. Nothing of yours was saved.`,
    );
  }
  if (answer.error?.details === 'not_enough_stock') {
    throw new ConflictError(
      `Only ${answer.error.hint} of ${name} are left: units were sold in the meantime. Nothing was changed.`,
    );
  }
  if (answer.error?.details === 'product_unavailable') {
    throw new ConflictError(`Someone else deleted ${name} in the meantime. Nothing was changed.`);
  }
  return dataOf(answer);
}

export function useStockChanges() {
  const { tables } = useMember().staff;
  const queries = useQueryClient();
  const [pending, setPending] = useState<ReadonlyMap<string, Pending>>(new Map());
  // Presses and answers come faster than renders.
  const current = useRef(pending);
  const timers = useRef(new Map<string, ReturnType<typeof setTimeout>>());

  function set(id: string, entry: Pending | null): void {
    const next = new Map(current.current);
    if (entry) next.set(id, entry);
    else next.delete(id);
    current.current = next;
    setPending(next);
  }

  async function undo({ id, name, by }: StockChange): Promise<Outcome> {
    const outcome = await outcomeOf(
      () => changeStock(tables, { id, name, by: -by, seen: null, reason: '' }),
      {
        undone: `${name}: ${signed(-by)} in stock.`,
        unanswered: `The connection broke. Look at the stock of ${name} again.`,
      },
    );
    for (const word of refreshed) void queries.invalidateQueries({ queryKey: [word] });
    return outcome;
  }

  const save = useSave<StockChange, number>({
    write: (change) => changeStock(tables, change),
    failure: 'Failed to update the stock',
    // Without an answer the units may have been added.
    isUnsafeToRepeat: true,
    refresh: refreshed,
    onSuccess(units, change) {
      const { id, name, by } = change;
      offerUndo(
        {
          id: crypto.randomUUID(),
          orderId: `stock of ${id}`,
          title:
            units === undefined ? `${name}: ${signed(by)}` : `${name}: ${units - by} to ${units} in stock`,
          notifiesCustomer: false,
          endsAt: performance.now() + undoMs,
          // It is undone by so many units, whatever was sold since.
          isOvertakenBy: ({ table, type, row }) => table === 'products' && type === 'DELETE' && row.id === id,
          undo: () => undo(change),
        },
        'Stock updated successfully',
      );
    },
  });

  async function run(change: StockChange): Promise<void> {
    const saved = await save.mutateAsync(change).catch(() => null);
    const entry = current.current.get(change.id);
    if (!entry) return;
    // After a refusal the presses since then are dropped, too: they were made on a stock that is not there.
    if (!saved || entry.waiting === 0) {
      clearTimeout(timers.current.get(change.id));
      return set(change.id, null);
    }
    set(change.id, { ...entry, stock: saved.output ?? entry.stock + entry.sending, sending: 0 });
    plan(change.id);
  }

  function plan(id: string, delay = pauseMs): void {
    clearTimeout(timers.current.get(id));
    timers.current.set(
      id,
      setTimeout(() => send(id), delay),
    );
  }

  function send(id: string): void {
    clearTimeout(timers.current.get(id));
    const entry = current.current.get(id);
    // One after the other: the next presses follow when this change is saved.
    if (entry?.sending !== 0) return;
    // Presses that take each other back.
    if (entry.waiting === 0) set(id, null);
    else {
      set(id, { ...entry, waiting: 0, sending: entry.waiting, reason: '' });
      void run({ id, name: entry.name, by: entry.waiting, seen: null, reason: entry.reason });
    }
  }

  // Presses are not lost when the member leaves the list.
  const sendAll = useRef(() => {});
  useEffect(() => {
    sendAll.current = () => {
      for (const id of current.current.keys()) send(id);
    };
  });
  useEffect(() => {
    const onHidden = () => {
      if (document.visibilityState === 'hidden') sendAll.current();
    };
    document.addEventListener('visibilitychange', onHidden);
    return () => {
      document.removeEventListener('visibilitychange', onHidden);
      sendAll.current();
    };
  }, []);

  return {
    /** A product with the stock as changed here. */
    withPendingStock(product: ListedProduct): ListedProduct {
      const entry = pending.get(product.id);
      return entry ? { ...product, stock_quantity: shownStock(entry) } : product;
    },
    isChangingStock: ({ id }: ListedProduct) => (pending.get(id)?.sending ?? 0) !== 0,
    /** Adds units, or takes some away. */
    step({ id, name, stock_quantity }: ListedProduct, by: number): void {
      const entry = current.current.get(id) ?? {
        name,
        stock: stock_quantity,
        waiting: 0,
        sending: 0,
        reason: '',
      };
      if (shownStock(entry) + by < 0) return;
      set(id, { ...entry, waiting: entry.waiting + by });
      plan(id);
    },
    /**
     * Sets a typed stock.
     * @param seen the stock when the member began to type
     * @param reason why, in the member's words; '' for none
     */
    type({ id, name }: ListedProduct, seen: number, units: number, reason: string): void {
      const entry = current.current.get(id);
      if (entry) {
        // Presses that are not saved yet: the difference is added to them.
        set(id, { ...entry, waiting: entry.waiting + units - shownStock(entry), reason });
        plan(id, 0);
      } else if (units !== seen) {
        set(id, { name, stock: seen, waiting: 0, sending: units - seen, reason: '' });
        void run({ id, name, by: units - seen, seen, reason });
      }
    },
  };
}

const signed = (by: number): string =>
  `${by < 0 ? '−' : '+'}${Math.abs(by)} ${Math.abs(by) === 1 ? 'unit' : 'units'}`;
