// Subscriptions to table changes: the receivers of each change, and the values that they may see.
//
// Changes are processed in batches. Each table of a batch is described once, its filters are evaluated once, and row level
// security is queried once per distinct claims; then changes are delivered in commit order. Policies see the row as it is now,
// as on a hosted project.

import { asRole, type Claims, requestRoles } from '../../database/as-role.ts';
import type { Database } from '../../database/database.ts';
import { isQueueRejection } from '../../limits/fair-queue.ts';
import type { FanOut } from '../channels/fan-out.ts';
import { ChangeFrames } from '../connections/protocol.ts';
import { isOutage } from '../outage.ts';
import { askFilters, checkInterest, type FilterAnswer, filtersKey, UnfitInterest } from './change-filters.ts';
import { ChangeLog, type LoggedChange } from './change-log.ts';
import {
  type ChangedTable,
  describeTables,
  PublishedTables,
  quoted,
  type TableColumn,
} from './changed-tables.ts';
import { listening } from './listening.ts';
import { type ChangeInterest, listedInterest, readInterest, UnusableParams } from './subscription-params.ts';

const maxConcurrentQueries = 4;
const policyMilliseconds = 5_000;

/** A client that subscribes to changes. */
export interface Follower {
  claims: Claims;
  /** Its subscriptions as requested, numbered. */
  bindings: readonly (Readonly<Record<string, unknown>> & { id: number })[];
  /**
   * Receives a change: the subscriptions it is for, and its frames.
   * @returns null when it can receive more; otherwise resolves when it can, or has left
   */
  deliver(ids: readonly number[], frames: ChangeFrames): Promise<void> | null;
  /** Queries the database in the client's share of the queue. */
  inShare<T>(work: () => Promise<T>): Promise<T>;
  /** A subscription that was refused before is served now. */
  onServed(): void;
  /** Changes were missed. The follower is not served any more. */
  onMissedChanges(): void;
}

interface Interest extends ChangeInterest {
  id: number;
  follower: Follower;
  filtersKey: string;
  selectKey: string;
  /** Equal for equal claims. */
  identity: string;
}

interface Served {
  interests: readonly Interest[];
  /** The number of the log read that it started after. */
  since: number;
}

/** State of a table for one batch. */
interface TableAnswers {
  table: ChangedTable;
  filters: Map<number, FilterAnswer>;
  /** By identity: the changes whose row is visible. */
  visible: Map<string, ReadonlySet<number>>;
}

export class PostgresChanges {
  readonly #database: Database;
  readonly #fanOut: FanOut;
  readonly #onError: (error: unknown) => void;
  readonly #log: ChangeLog;
  readonly #tables: PublishedTables;
  readonly #served = new Map<Follower, Served>();
  readonly #refused = new Set<Follower>();
  #stops: (() => Promise<void>)[] = [];
  #isClosed = false;
  #watching: Promise<void> = Promise.resolve();
  readonly #ready: Promise<void>;

  /** Starts listening to the database. */
  constructor(database: Database, fanOut: FanOut, onError: (error: unknown) => void) {
    this.#database = database;
    this.#fanOut = fanOut;
    this.#onError = onError;
    this.#tables = new PublishedTables(database);
    this.#log = new ChangeLog(
      database,
      {
        isWanted: () => this.#served.size > 0,
        take: (changes) => this.#take(changes),
        onMissedChanges: () => this.#reportMissedChanges(),
      },
      onError,
    );
    this.#ready = this.#start();
    this.#ready.catch(onError);
  }

  /**
   * Subscribes a follower; it misses nothing that is committed after this resolves.
   * @param former the same client with older claims; it is served until the new one is
   * @returns the first error of its subscriptions, as the text of a system message; null when they are served
   * @throws DatabaseError when the database is unavailable
   */
  async follow(follower: Follower, former: Follower | null = null): Promise<string | null> {
    await this.#ready;
    try {
      const interests = await follower.inShare(() => this.#interestsOf(follower));
      await this.#log.afterRead((readNumber) => {
        // Changes still due to the former follower go to its successor.
        const since = (former && this.#served.get(former)?.since) ?? readNumber;
        if (former) this.unfollow(former);
        this.#served.set(follower, { interests, since });
      });
      return null;
    } catch (error) {
      if (former) this.unfollow(former);
      if (error instanceof UnusableParams) return error.message;
      if (!(error instanceof UnfitInterest)) throw error;
      this.#refused.add(follower);
      return error.message;
    }
  }

  unfollow(follower: Follower): void {
    this.#served.delete(follower);
    this.#refused.delete(follower);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await Promise.all(this.#stops.map((stop) => stop().catch(this.#onError)));
    await this.#watching;
    await this.#log.close();
  }

  async #start(): Promise<void> {
    const retry = () => this.#inOrder(() => this.#serveRefused());
    const watch = (payload: string) => {
      if (payload === 'reload schema' || payload === '') this.#inOrder(() => this.#watchTables());
    };
    const onMissedEvents = () => this.#inOrder(() => this.#watchTables());
    this.#stops = await Promise.all([
      listening(this.#database, 'realtime_tables', retry, retry, this.#onError),
      // Without the right to create event triggers, the publication is read again at each schema reload.
      listening(this.#database, 'pgrst', watch, onMissedEvents, this.#onError),
    ]);
    this.#log.start();
    this.#inOrder(() => this.#watchTables());
  }

  /** Runs work after an event that may have changed tables or the publication. */
  #inOrder(work: () => Promise<void>) {
    this.#tables.forget();
    this.#watching = this.#watching.then(() => (this.#isClosed ? undefined : work())).catch(this.#onError);
  }

  async #watchTables(): Promise<void> {
    await this.#database.query('select realtime.watch_tables()');
    await this.#serveRefused();
  }

  async #serveRefused(): Promise<void> {
    for (const follower of [...this.#refused]) {
      if (!this.#refused.delete(follower)) continue;
      // Claims may have changed or the client may have left: then it is in neither set.
      this.#served.set(follower, { interests: [], since: 0 });
      const reading = follower.inShare(() => this.#interestsOf(follower));
      const interests = await reading.catch((error) => {
        if (!(error instanceof UnfitInterest) && !isQueueRejection(error)) this.#onError(error);
        return null;
      });
      if (!interests) {
        if (this.#served.delete(follower)) this.#refused.add(follower);
        continue;
      }
      await this.#log.afterRead((since) => {
        if (!this.#served.has(follower)) return;
        this.#served.set(follower, { interests, since });
        follower.onServed();
      });
    }
  }

  /** @throws UnusableParams, UnfitInterest: one invalid subscription refuses all, as on a hosted project */
  async #interestsOf(follower: Follower): Promise<Interest[]> {
    const { claims, bindings } = follower;
    const interests = bindings.map((binding) => {
      const interest = readInterest(binding);
      return {
        ...interest,
        id: binding.id,
        follower,
        filtersKey: filtersKey(interest.filters),
        selectKey: interest.select ? JSON.stringify(interest.select) : '',
        identity: JSON.stringify(claims),
      };
    });
    const askedAt = performance.now();
    for (const interest of interests) {
      const check = async (readSince?: number) =>
        this.#checkInterest(interest, await this.#tables.find(interest.schema, interest.table, readSince));
      // A table may have changed since it was described, and its change be announced after this question: what does not fit a
      // remembered description is compared with a new one.
      await check().catch((error) => {
        if (!(error instanceof UnfitInterest)) throw error;
        return check(askedAt);
      });
    }
    return interests;
  }

  async #checkInterest(interest: Interest, tables: readonly ChangedTable[]): Promise<void> {
    const listed = `[${listedInterest(interest)}]`;
    const { role } = interest.follower.claims;
    if (tables.length === 0 || !requestRoles.has(role)) {
      throw new UnfitInterest(
        'Unable to subscribe to changes with given parameters. Please check Realtime is enabled for the given ' +
          `connect parameters: ${listed}`,
      );
    }
    for (const table of tables) {
      await checkInterest(this.#database, table, interest, role).catch((error) => {
        if (!(error instanceof UnfitInterest)) throw error;
        throw new UnfitInterest(
          'Unable to subscribe to changes with given parameters. An exception happened so please check your ' +
            `connect parameters: ${listed}. Exception: ${error.message}`,
        );
      });
    }
  }

  #reportMissedChanges() {
    this.#onError(new Error('changes were deleted from the log before they were read'));
    for (const follower of [...this.#served.keys()]) {
      this.unfollow(follower);
      follower.onMissedChanges();
    }
  }

  async #take(changes: LoggedChange[]): Promise<void> {
    const interestsOf = this.#lookUpInterests();
    const subscribed = changes.filter((change) => interestsOf(change).length > 0);
    if (subscribed.length === 0) return;
    const byTable = new Map<number, LoggedChange[]>();
    for (const change of subscribed) {
      const those = byTable.get(change.relation);
      if (those) those.push(change);
      else byTable.set(change.relation, [change]);
    }
    const tables = await describeTables(this.#database, [...byTable.keys()]);
    const answers = new Map<number, TableAnswers>();
    for (const [relation, ofTable] of byTable) {
      const table = tables.get(relation);
      if (table) answers.set(relation, await this.#ask(table, ofTable, interestsOf));
    }
    for (const change of subscribed) {
      const cached = answers.get(change.relation);
      if (cached) await this.#deliver(change, cached, interestsOf(change));
    }
  }

  /** Finds the subscriptions for a change, once for all changes of one kind. */
  #lookUpInterests(): (change: LoggedChange) => readonly Interest[] {
    const all = [...this.#served.values()].flatMap(({ interests, since }) =>
      interests.map((interest) => ({ interest, since })),
    );
    const found = new Map<string, Interest[]>();
    return ({ schema, table, type, readNumber }) => {
      const kind = JSON.stringify([schema, table, type, readNumber]);
      const before = found.get(kind);
      if (before) return before;
      const interests = all.flatMap(({ interest, since }) => {
        const isMeant =
          since < readNumber &&
          (interest.schema === '*' || interest.schema === schema) &&
          (interest.table === '*' || interest.table === table) &&
          (interest.event === '*' || interest.event === type);
        return isMeant ? [interest] : [];
      });
      found.set(kind, interests);
      return interests;
    };
  }

  async #ask(
    table: ChangedTable,
    changes: readonly LoggedChange[],
    interestsOf: (change: LoggedChange) => readonly Interest[],
  ): Promise<TableAnswers> {
    const filterSets = new Map(
      changes.flatMap(interestsOf).map((interest) => [interest.filtersKey, interest.filters]),
    );
    filterSets.delete('');
    const visible = new Map<string, ReadonlySet<number>>();
    const filters =
      table.isSecured || filterSets.size > 0
        ? await askFilters(this.#database, table, changes, [...filterSets.values()], this.#onError)
        : new Map<number, FilterAnswer>();
    if (!table.isSecured) return { table, filters, visible };

    const questions = new Map<string, { claims: Claims; ids: Set<number> }>();
    for (const change of changes) {
      if (change.type === 'DELETE') continue;
      for (const interest of interestsOf(change)) {
        const { claims } = interest.follower;
        if (problemFor(table, change, claims.role) || !passes(interest, change, filters)) continue;
        const question = questions.get(interest.identity) ?? { claims, ids: new Set() };
        questions.set(interest.identity, question);
        question.ids.add(change.id);
      }
    }
    const queries = [...questions];
    for (let from = 0; from < queries.length; from += maxConcurrentQueries) {
      await Promise.all(
        queries.slice(from, from + maxConcurrentQueries).map(async ([identity, { claims, ids }]) => {
          visible.set(identity, await this.#visibleTo(claims, table, ids, filters));
        }),
      );
    }
    return { table, filters, visible };
  }

  async #visibleTo(
    claims: Claims,
    table: ChangedTable,
    ids: ReadonlySet<number>,
    filters: ReadonlyMap<number, FilterAnswer>,
  ): Promise<ReadonlySet<number>> {
    const keys = [...ids].map((id) => `{"n": ${id}, "key": ${filters.get(id)?.key ?? '{}'}}`);
    const keyColumns = table.columns.filter(({ isKey }) => isKey);
    const columns = keyColumns.map(({ name, type }) => `${quoted(name)} ${type}`).join(', ');
    const isSame = keyColumns.map(({ name }) => `t.${quoted(name)} = k.${quoted(name)}`).join(' and ');
    try {
      const { rows } = await asRole(
        this.#database,
        claims,
        (session) =>
          session.query<{ n: number }>(
            `select c.n from jsonb_to_recordset($1::jsonb) as c(n int8, key jsonb)
             cross join lateral jsonb_to_record(c.key) as k(${columns})
             where exists (select from ${table.name} as t where ${isSame})`,
            [`[${keys.join(',')}]`],
          ),
        { readOnly: true, request: { statementTimeout: policyMilliseconds } },
      );
      return new Set(rows.map(({ n }) => n));
    } catch (error) {
      if (isOutage(error)) throw error;
      // A policy that fails shows nothing, and only to the clients it fails for.
      this.#onError(error);
      return new Set();
    }
  }

  /** Resolves when the next change may be delivered. */
  async #deliver(change: LoggedChange, answers: TableAnswers, interests: readonly Interest[]): Promise<void> {
    const written = new Map<string, ChangeFrames>();
    const ids = new Map<Follower, Map<string, number[]>>();
    let largest = 0;
    for (const interest of interests) {
      const { follower } = interest;
      const { role } = follower.claims;
      if (!this.#served.has(follower)) continue;
      const problem = problemFor(answers.table, change, role);
      if (!problem) {
        if (!passes(interest, change, answers.filters)) continue;
        const isSeen = !answers.table.isSecured || change.type === 'DELETE';
        if (!isSeen && !answers.visible.get(interest.identity)?.has(change.id)) continue;
      }
      const form = `${role} ${interest.selectKey}`;
      if (!written.has(form)) {
        const data = problem
          ? withheld(change, problem)
          : visibleChange(change, answers.table, role, interest.select);
        const json = JSON.stringify(data);
        largest = Math.max(largest, json.length);
        written.set(form, new ChangeFrames(json));
      }
      const forms = ids.get(follower) ?? new Map<string, number[]>();
      ids.set(follower, forms);
      const these = forms.get(form);
      if (these) these.push(interest.id);
      else forms.set(form, [interest.id]);
    }
    const waits: Promise<void>[] = [];
    await this.#fanOut.deliver(new Set(ids), largest, ([follower, forms]) => {
      // The client may have left in the meantime.
      if (!this.#served.has(follower)) return;
      for (const [form, these] of forms) {
        const frames = written.get(form);
        const wait = frames && follower.deliver(these, frames);
        if (wait) waits.push(wait);
      }
    });
    await Promise.all(waits);
  }
}

/** Whether the filters match a change; of a deleted row only its replica identity is known. */
function passes(
  { filters, filtersKey: key }: Interest,
  change: LoggedChange,
  answers: ReadonlyMap<number, FilterAnswer>,
): boolean {
  if (key === '') return true;
  if (change.type === 'DELETE' && !filters.every(({ column }) => change.identity.includes(column)))
    return false;
  return answers.get(change.id)?.passed.has(key) ?? false;
}

/** Why a role receives a change without its values. */
function problemFor(table: ChangedTable, { type }: LoggedChange, role: string): string | null {
  const keys = table.columns.filter(({ isKey }) => isKey);
  if (keys.length === 0 && table.isSecured) return 'Error 400: Bad Request, no primary key';
  if (type === 'DELETE') return null;
  const mayRead = keys.every(({ readers }) => readers.includes(role));
  const mayReadAny = table.columns.some(({ readers }) => readers.includes(role));
  return mayRead && mayReadAny ? null : 'Error 401: Unauthorized';
}

function withheld(change: LoggedChange, problem: string) {
  return {
    ...common(change),
    columns: [],
    ...(change.type === 'DELETE' ? {} : { record: {} }),
    ...(change.type === 'INSERT' ? {} : { old_record: {} }),
    errors: [problem],
  };
}

function visibleChange(
  change: LoggedChange,
  table: ChangedTable,
  role: string,
  select: readonly string[] | null,
) {
  const columns = table.columns.filter(
    ({ name, isKey, readers }) =>
      readers.includes(role) && (select === null || isKey || select.includes(name)),
  );
  // Policies cannot be evaluated on the old row any more, so tables with policies send only its key.
  const oldColumns = table.isSecured ? columns.filter(({ isKey }) => isKey) : columns;
  const of = (row: LoggedChange['record'], names: readonly TableColumn[]) =>
    Object.fromEntries(
      names.flatMap(({ name, typeName }) =>
        row && Object.hasOwn(row, name) ? [[name, clientValue(row[name], typeName)]] : [],
      ),
    );
  return {
    ...common(change),
    columns: columns.map(({ name, typeName }) => ({ name, type: typeName })),
    ...(change.type === 'DELETE' ? {} : { record: of(change.record, columns) }),
    ...(change.type === 'INSERT' ? {} : { old_record: of(change.oldRecord, oldColumns) }),
    errors: change.isTooLarge ? ['Error 413: Payload Too Large'] : null,
  };
}

/** A value as a hosted project sends it: bytes as bare hexadecimal digits. */
function clientValue(value: unknown, typeName: string): unknown {
  return typeName === 'bytea' && typeof value === 'string' ? value.replace(/^\\x/, '') : value;
}

function common({ schema, table, type, committedAt }: LoggedChange) {
  return { schema, table, commit_timestamp: committedAt, type };
}
