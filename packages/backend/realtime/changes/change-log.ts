// Reads the change log: everything committed since the last read, once, at short intervals while there are subscriptions.
//
// Commits are not announced: PostgreSQL makes transactions that notify commit one after another. A transaction's changes are numbered
// before it commits, so their numbers are not in commit order; snapshots show what is new since the last read. Transactions of one read
// are delivered in the order of their last numbers: one that could have seen another, or waited for it, follows it.
import type { Database } from '../../database/database.ts';
import { RetriedWork } from './retried-work.ts';
import type { ChangeType } from './subscription-params.ts';

const readEveryMs = 50;
const maxChanges = 500;
// A hosted project's limits: above them, a change keeps only its small values.
const largestChange = 1024 * 1024;
const largestStoredValue = 64;

/** A change of one row, as logged. */
export interface LoggedChange {
  transaction: string;
  id: number;
  /** The table's oid, and its name at that time. */
  relation: number;
  schema: string;
  table: string;
  type: ChangeType;
  record: Record<string, unknown> | null;
  oldRecord: Record<string, unknown> | null;
  /** Names of the old values, including values too large to send. */
  identity: string[];
  isTooLarge: boolean;
  /** The number of the read of the log that saw it committed first. */
  readNumber: number;
  /** YYYY-MM-DDTHH:MM:SS.mmmZ */
  committedAt: string;
}

interface Committed {
  transaction: string;
  changes: number;
  committedAt: string;
  readNumber: number;
}

/** Consumer of the log. */
export interface ChangeReader {
  /** Whether there are subscriptions at all; without them changes are skipped. */
  isWanted(): boolean;
  /** Receives changes in the order described above. Rejected changes are passed again. */
  take(changes: LoggedChange[]): Promise<void>;
  /** Changes were deleted from the log before they were read. */
  onMissedChanges(): void;
}

export class ChangeLog {
  readonly #database: Database;
  readonly #reader: ChangeReader;
  /** Every transaction visible in this snapshot was read; null without subscriptions. */
  #snapshot: string | null = null;
  /** Next to deliver, in this order; of the first, the changes after `#takenId`, which are that many fewer. */
  #due: Committed[] = [];
  #takenId = 0;
  #takenCount = 0;
  #isReadDue = false;
  #isFailing = false;
  #readCount = 0;
  #waiting: ((readNumber: number) => void)[] = [];
  readonly #reading: RetriedWork;
  #timer: NodeJS.Timeout | undefined;

  constructor(database: Database, reader: ChangeReader, onError: (error: unknown) => void) {
    this.#database = database;
    this.#reader = reader;
    this.#reading = new RetriedWork(
      { isDue: () => this.#isWorkDue(), work: (isStopped) => this.#workOff(isStopped) },
      (error) => {
        // Read again in half a second, until the database is back.
        if (!this.#isFailing) onError(error);
        this.#isFailing = true;
      },
    );
  }

  /** Reads the log from now on, while there are subscriptions. */
  start(): void {
    this.#timer = setInterval(() => {
      if (!this.#snapshot && !this.#reader.isWanted()) return;
      this.#isReadDue = true;
      this.#reading.start();
    }, readEveryMs);
    this.#timer.unref();
  }

  /**
   * Runs `action` after a read of the log.
   * @param action receives the number of that read: changes committed before the call have it or a lower one, changes committed after
   *   `action` a higher one
   */
  afterRead(action: (readNumber: number) => void): Promise<void> {
    return new Promise((done) => {
      this.#waiting.push((readNumber) => {
        action(readNumber);
        done();
      });
      this.#reading.start();
    });
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.#reading.stop();
  }

  #isWorkDue() {
    return this.#isReadDue || this.#due.length > 0 || this.#waiting.length > 0;
  }

  async #workOff(isStopped: () => boolean): Promise<void> {
    while (!isStopped() && this.#isWorkDue()) {
      await this.#takeDue(isStopped);
      const waiting = this.#waiting.length;
      if (waiting === 0 && !this.#reader.isWanted()) {
        this.#snapshot = null;
        this.#isReadDue = false;
        return;
      }
      if (!this.#isReadDue && waiting === 0) continue;
      await this.#read();
      await this.#takeDue(isStopped);
      for (const action of this.#waiting.splice(0, waiting)) action(this.#readCount);
    }
  }

  async #read(): Promise<void> {
    // A failed read is due again.
    this.#isReadDue = true;
    // One statement has one snapshot, the one that it returns.
    const { rows } = await this.#database.read<{
      snapshot: string;
      committed: Omit<Committed, 'readNumber'>[];
      isIncomplete: boolean;
    }>(
      `select pg_current_snapshot()::text as snapshot, exists (
         select from realtime.pruned_changes
         where transaction < pg_snapshot_xmax(pg_current_snapshot()) and not pg_visible_in_snapshot(transaction, $1::pg_snapshot)
       ) as "isIncomplete", (
         select coalesce(jsonb_agg(jsonb_build_object(
           'transaction', transaction::text, 'changes', changes, 'committedAt', committed_at
         ) order by last_id), '[]')
         from (
           select transaction, count(*) as changes, max(id) as last_id,
                  to_char(max(changed_at) at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as committed_at
           from realtime.changes
           where transaction >= pg_snapshot_xmin($1::pg_snapshot)
             and not pg_visible_in_snapshot(transaction, $1::pg_snapshot)
           group by transaction
         ) as new_transactions
       ) as committed`,
      [this.#snapshot],
      {},
    );
    this.#isReadDue = false;
    this.#isFailing = false;
    for (const { snapshot, committed, isIncomplete } of rows) {
      if (isIncomplete) this.#reader.onMissedChanges();
      this.#snapshot = snapshot;
      this.#readCount += 1;
      for (const one of committed) this.#due.push({ ...one, readNumber: this.#readCount });
    }
  }

  async #takeDue(isStopped: () => boolean): Promise<void> {
    while (!isStopped()) {
      const [first] = this.#due;
      if (!first) return;
      const together = [first];
      let count = first.changes;
      for (const next of this.#due.slice(1)) {
        count += next.changes;
        if (count > maxChanges) break;
        together.push(next);
      }
      const changes = this.#reader.isWanted() ? await this.#fetch(together) : [];
      if (changes.length > 0) await this.#reader.take(changes);
      const logged = together.reduce((sum, one) => sum + one.changes, -this.#takenCount);
      if (changes.length < Math.min(logged, maxChanges) && this.#reader.isWanted())
        this.#reader.onMissedChanges();
      const isPart = together.length === 1 && changes.length === maxChanges;
      if (isPart) {
        this.#takenId = changes.at(-1)?.id ?? 0;
        this.#takenCount += changes.length;
      } else {
        this.#due.splice(0, together.length);
        this.#takenId = 0;
        this.#takenCount = 0;
      }
    }
  }

  async #fetch(together: readonly Committed[]): Promise<LoggedChange[]> {
    const { rows } = await this.#database.query<Omit<LoggedChange, 'committedAt' | 'readNumber'>>(
      `select transaction::text as transaction, id, relation::int8 as relation, table_schema as schema,
              table_name as "table", type, is_large as "isTooLarge",
              case when is_large then (
                select coalesce(jsonb_object_agg(key, value), '{}') from jsonb_each(record)
                where octet_length(value::text) <= $4::int
              ) else record end as record,
              case when is_large then (
                select coalesce(jsonb_object_agg(key, value), '{}') from jsonb_each(old_record)
                where octet_length(value::text) <= $4::int
              ) else old_record end as "oldRecord",
              coalesce((select jsonb_agg(key) from jsonb_object_keys(old_record) as key), '[]') as identity
       from realtime.changes
       cross join lateral (
         select coalesce(octet_length(record::text), 0) + coalesce(octet_length(old_record::text), 0) > $3::int as is_large
       ) as size
       where transaction = any($1::xid8[]) and id > $2::int8
       order by array_position($1::xid8[], transaction), id
       limit ${maxChanges}`,
      [
        `{${together.map(({ transaction }) => transaction).join(',')}}`,
        this.#takenId,
        largestChange,
        largestStoredValue,
      ],
    );
    const transactions = new Map(together.map((one) => [one.transaction, one]));
    return rows.map((row) => ({
      ...row,
      record: row.type === 'DELETE' ? null : row.record,
      oldRecord: row.type === 'INSERT' ? null : row.oldRecord,
      readNumber: transactions.get(row.transaction)?.readNumber ?? 0,
      committedAt: transactions.get(row.transaction)?.committedAt ?? '',
    }));
  }
}
