// Reads the log of changes: what was committed since the last look, once, in the order of the commits.
//
// A transaction's changes are numbered before it commits, so numbers say nothing about commits. The database says it
// twice: snapshots tell what is new since the last look, and notifications, one per transaction, come in the order of
// the commits. What is new but not yet announced waits for its announcement. Whoever lost the connection that
// announcements come on looks by snapshot alone, in the order of the last numbers, which is right wherever one
// transaction could have seen the other.
import type { Database } from '../database/database.ts';
import { listening } from './listening.ts';
import { RetriedWork } from './retried-work.ts';
import type { ChangeType } from './subscription-params.ts';

const channel = 'realtime_changes';
const mostChanges = 500;
// A hosted project's bounds: a change of more bytes keeps only the values of few.
const largestChange = 1024 * 1024;
const largestKeptValue = 64;
const transactionId = /^\d+$/;

/** A row's change, as it stands in the log. */
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
  /** Names of the old values there are, also when they are too large to be told. */
  identity: string[];
  isTooLarge: boolean;
  /** The number of the look at the log that first saw it committed. */
  look: number;
  /** YYYY-MM-DDTHH:MM:SS.mmmZ */
  committedAt: string;
}

interface Committed {
  transaction: string;
  changes: number;
  committedAt: string;
  look: number;
}

/** What the log is read for. */
export interface ChangeReader {
  /** Whether anybody wants changes at all; if not, they are passed over. */
  isWanted(): boolean;
  /** Takes changes in the order of commits; what it rejects is given again. */
  take(changes: LoggedChange[]): Promise<void>;
}

export class ChangeLog {
  readonly #database: Database;
  readonly #reader: ChangeReader;
  readonly #onFault: (error: unknown) => void;
  /** Everything visible in it was seen; null while nobody wants changes. */
  #snapshot: string | null = null;
  #announced: string[] = [];
  /** Seen, but not yet announced. */
  readonly #held = new Map<string, Committed>();
  /** To be taken next, in this order; of the first, the changes after `#takenId`. */
  #due: Committed[] = [];
  #takenId = 0;
  #isCatchUpDue = false;
  #looks = 0;
  #waiting: ((look: number) => void)[] = [];
  readonly #reading: RetriedWork;
  #stop = async () => {};

  constructor(database: Database, reader: ChangeReader, onFault: (error: unknown) => void) {
    this.#database = database;
    this.#reader = reader;
    this.#onFault = onFault;
    this.#reading = new RetriedWork(
      { isDue: () => this.#isWorkDue(), work: (isStopped) => this.#workOff(isStopped) },
      onFault,
    );
  }

  /** Resolves when commits are heard of. */
  async start(): Promise<void> {
    const onAnnounced = (transaction: string) => {
      if (!transactionId.test(transaction)) return;
      this.#announced.push(transaction);
      this.#reading.start();
    };
    const onGap = () => {
      this.#isCatchUpDue = true;
      this.#reading.start();
    };
    this.#stop = await listening(this.#database, channel, onAnnounced, onGap, this.#onFault);
  }

  /**
   * Runs `action` after a look at the log.
   * @param action gets the look's number: whatever was committed before `atPresent` was called has it or a lower one,
   *   but may still be taken later, as it waits for its announcement; whatever is committed after `action` has a higher one
   */
  atPresent(action: (look: number) => void): Promise<void> {
    return new Promise((done) => {
      this.#waiting.push((look) => {
        action(look);
        done();
      });
      this.#reading.start();
    });
  }

  async close(): Promise<void> {
    const isIdle = this.#reading.stop();
    await this.#stop().catch(this.#onFault);
    await isIdle;
  }

  #isWorkDue() {
    return (
      this.#announced.length > 0 || this.#due.length > 0 || this.#isCatchUpDue || this.#waiting.length > 0
    );
  }

  async #workOff(isStopped: () => boolean): Promise<void> {
    while (!isStopped() && this.#isWorkDue()) {
      await this.#takeDue(isStopped);
      const waiting = this.#waiting.length;
      if (waiting === 0 && !this.#reader.isWanted()) {
        this.#forget();
        return;
      }
      if (this.#announced.length === 0 && !this.#isCatchUpDue && waiting === 0) continue;
      await this.#look();
      await this.#takeDue(isStopped);
      for (const action of this.#waiting.splice(0, waiting)) action(this.#looks);
    }
  }

  #forget() {
    this.#snapshot = null;
    this.#announced = [];
    this.#isCatchUpDue = false;
    this.#held.clear();
  }

  async #look(): Promise<void> {
    const announced = this.#announced.length;
    const isCatchUp = this.#isCatchUpDue;
    this.#isCatchUpDue = false;
    try {
      // One statement sees by one snapshot, the one it tells.
      const { rows } = await this.#database.query<{ snapshot: string; committed: Omit<Committed, 'look'>[] }>(
        `select pg_current_snapshot()::text as snapshot, (
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
      );
      for (const { snapshot, committed } of rows) {
        this.#snapshot = snapshot;
        this.#looks += 1;
        for (const one of committed) this.#held.set(one.transaction, { ...one, look: this.#looks });
      }
    } catch (error) {
      this.#isCatchUpDue ||= isCatchUp;
      throw error;
    }
    for (const transaction of this.#announced.splice(0, announced)) this.#release(transaction);
    if (isCatchUp) for (const transaction of [...this.#held.keys()]) this.#release(transaction);
  }

  #release(transaction: string) {
    const committed = this.#held.get(transaction);
    if (!committed) return;
    this.#held.delete(transaction);
    this.#due.push(committed);
  }

  async #takeDue(isStopped: () => boolean): Promise<void> {
    while (!isStopped()) {
      const [first] = this.#due;
      if (!first) return;
      const together = [first];
      let count = first.changes;
      for (const next of this.#due.slice(1)) {
        count += next.changes;
        if (count > mostChanges) break;
        together.push(next);
      }
      const changes = this.#reader.isWanted() ? await this.#fetch(together) : [];
      if (changes.length > 0) await this.#reader.take(changes);
      const isPart = together.length === 1 && changes.length === mostChanges;
      if (isPart) this.#takenId = changes.at(-1)?.id ?? 0;
      else {
        this.#due.splice(0, together.length);
        this.#takenId = 0;
      }
    }
  }

  async #fetch(together: readonly Committed[]): Promise<LoggedChange[]> {
    const { rows } = await this.#database.query<Omit<LoggedChange, 'committedAt' | 'look'>>(
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
       limit ${mostChanges}`,
      [
        `{${together.map(({ transaction }) => transaction).join(',')}}`,
        this.#takenId,
        largestChange,
        largestKeptValue,
      ],
    );
    const transactions = new Map(together.map((one) => [one.transaction, one]));
    return rows.map((row) => ({
      ...row,
      record: row.type === 'DELETE' ? null : row.record,
      oldRecord: row.type === 'INSERT' ? null : row.oldRecord,
      look: transactions.get(row.transaction)?.look ?? 0,
      committedAt: transactions.get(row.transaction)?.committedAt ?? '',
    }));
  }
}
