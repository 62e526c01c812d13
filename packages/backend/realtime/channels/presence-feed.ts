// Presence across processes. Each process writes the presences of its own clients to the database, and caches those of the other
// processes for the topics on which it has members with presence.
import { randomUUID } from 'node:crypto';
import type { Database } from '../../database/database.ts';
import { listening } from '../changes/listening.ts';
import { RetriedWork } from '../changes/retried-work.ts';
import { type Appearance, type PresenceDiff, stateOf } from './presence.ts';

const channel = 'realtime_presences';
const uuidLength = 36;

interface FollowedAudience {
  /** Members here. */
  members: number;
  /** Presences of other processes by reference. */
  remote: Map<string, Appearance>;
  bytes: number;
  /** The last read; reads of a topic run one after another. */
  lastRead: Promise<void>;
}

interface PresenceFeedOptions {
  database: Database;
  /** Milliseconds after which the others delete the presences of a process that stopped. */
  leaseMs: number;
  /** Receives changes by other processes. */
  onChange: (audience: string, diff: PresenceDiff) => void;
  /** Receives problems with the database; the feed retries by itself. */
  onError: (error: unknown) => void;
}

export class PresenceFeed {
  readonly #options: PresenceFeedOptions;
  readonly #process = randomUUID();
  readonly #followed = new Map<string, FollowedAudience>();
  /** Presences of clients of this process by reference: the desired state of the database. */
  readonly #own = new Map<string, { audience: string; appearance: Appearance }>();
  /** References whose rows may differ from `#own`. */
  readonly #unwritten = new Set<string>();
  /** References that were sent to the database. */
  readonly #sent = new Set<string>();
  #isRenewalDue = false;
  /** When stopped processes were last deleted. */
  #checkedAt = Number.NEGATIVE_INFINITY;
  readonly #unread = new Set<string>();
  readonly #writing: RetriedWork;
  readonly #reading: RetriedWork;
  readonly #renewal: NodeJS.Timeout | null = null;
  readonly #ready: Promise<void>;
  #stop = async () => {};

  constructor(options: PresenceFeedOptions) {
    this.#options = options;
    this.#writing = new RetriedWork(
      { isDue: () => this.#unwritten.size > 0 || this.#isRenewalDue, work: () => this.#write() },
      options.onError,
    );
    this.#reading = new RetriedWork(
      { isDue: () => this.#unread.size > 0, work: (isStopped) => this.#readAll(isStopped) },
      options.onError,
    );
    this.#ready = this.#isAlone ? Promise.resolve() : this.#listen();
    if (this.#isAlone) return;
    this.#renewal = setInterval(() => this.#renew(), this.#renewalMs);
    this.#renewal.unref();
  }

  /** The embedded database belongs to one process. */
  get #isAlone() {
    return this.#options.database.kind === 'pglite';
  }

  get #renewalMs() {
    return this.#options.leaseMs / 3;
  }

  /**
   * Adds a member of a topic; resolves when the presences of other processes are known.
   * @throws when the database cannot be read; the member is not added
   */
  async follow(audience: string): Promise<void> {
    if (this.#isAlone) return;
    await this.#ready;
    const followed = this.#followed.get(audience);
    if (followed) {
      followed.members += 1;
    } else {
      const added = { members: 1, remote: new Map(), bytes: 0, lastRead: Promise.resolve() };
      this.#followed.set(audience, added);
      added.lastRead = this.#deleteStopped().then(() => this.#read(audience, added));
    }
    try {
      await this.#followed.get(audience)?.lastRead;
    } catch (error) {
      this.unfollow(audience);
      throw error;
    }
  }

  /** Removes a member of a topic. */
  unfollow(audience: string): void {
    const followed = this.#followed.get(audience);
    if (!followed) return;
    followed.members -= 1;
    if (followed.members === 0) this.#followed.delete(audience);
  }

  /** Presences of other processes. */
  remoteOf(audience: string): Iterable<Appearance> {
    return this.#followed.get(audience)?.remote.values() ?? [];
  }

  bytesOf(audience: string): number {
    return this.#followed.get(audience)?.bytes ?? 0;
  }

  /** Passes a change by a client of this process on to the other processes, without waiting for them. */
  publish(audience: string, { joined, left }: { joined?: Appearance; left?: Appearance | undefined }): void {
    if (this.#isAlone) return;
    if (left) {
      const ref = left.meta.phx_ref;
      this.#own.delete(ref);
      if (this.#sent.has(ref)) this.#unwritten.add(ref);
      else this.#unwritten.delete(ref);
    }
    if (joined) {
      this.#own.set(joined.meta.phx_ref, { audience, appearance: joined });
      this.#unwritten.add(joined.meta.phx_ref);
    }
    this.#writing.start();
  }

  async close(): Promise<void> {
    if (this.#isAlone) return;
    if (this.#renewal) clearInterval(this.#renewal);
    await Promise.all([this.#writing.stop(), this.#reading.stop()]);
    await this.#stop().catch(this.#options.onError);
    if (this.#sent.size > 0)
      await this.#deleteProcesses('id = $1', this.#process).catch(this.#options.onError);
  }

  async #listen(): Promise<void> {
    const { database, onError } = this.#options;
    const onChanged = (payload: string) => {
      // This process sent the change itself.
      if (payload.slice(0, uuidLength) === this.#process) return;
      this.#markUnread(payload.slice(uuidLength + 1));
    };
    const onMissedEvents = () => {
      for (const audience of this.#followed.keys()) this.#markUnread(audience);
    };
    this.#stop = await listening(database, channel, onChanged, onMissedEvents, onError);
  }

  #markUnread(audience: string) {
    if (!this.#followed.has(audience)) return;
    this.#unread.add(audience);
    this.#reading.start();
  }

  async #readAll(isStopped: () => boolean): Promise<void> {
    for (const audience of this.#unread) {
      if (isStopped()) return;
      this.#unread.delete(audience);
      const followed = this.#followed.get(audience);
      if (!followed) continue;
      const read = followed.lastRead.catch(() => {}).then(() => this.#read(audience, followed));
      followed.lastRead = read;
      try {
        await read;
      } catch (error) {
        this.#unread.add(audience);
        throw error;
      }
    }
  }

  async #read(audience: string, followed: FollowedAudience): Promise<void> {
    const { rows } = await this.#options.database.query<{ appearance: string }>(
      'select appearance from realtime.presences where audience = $1 and process <> $2 order by ref',
      [audience, this.#process],
    );
    const before = followed.remote;
    const appearances = rows.map(({ appearance }) => JSON.parse(appearance) as Appearance);
    followed.remote = new Map(appearances.map((appearance) => [appearance.meta.phx_ref, appearance]));
    followed.bytes = appearances.reduce((sum, { bytes }) => sum + bytes, 0);
    const joins = appearances.filter(({ meta }) => !before.has(meta.phx_ref));
    const leaves = [...before.values()].filter(({ meta }) => !followed.remote.has(meta.phx_ref));
    if (joins.length + leaves.length === 0 || this.#followed.get(audience) !== followed) return;
    this.#options.onChange(audience, { joins: stateOf(joins), leaves: stateOf(leaves) });
  }

  #renew() {
    if (this.#own.size === 0 && this.#followed.size === 0) return;
    this.#isRenewalDue = true;
    this.#writing.start();
  }

  async #write(): Promise<void> {
    this.#isRenewalDue = false;
    const refs = [...this.#unwritten];
    this.#unwritten.clear();
    try {
      if (refs.length > 0 || this.#own.size > 0) await this.#writeRows(refs);
      await this.#deleteStopped();
    } catch (error) {
      for (const ref of refs) this.#unwritten.add(ref);
      this.#isRenewalDue = true;
      throw error;
    }
  }

  async #writeRows(refs: string[]): Promise<void> {
    const joined = refs.flatMap((ref) => {
      const ownPresence = this.#own.get(ref);
      return ownPresence
        ? [{ ref, audience: ownPresence.audience, appearance: JSON.stringify(ownPresence.appearance) }]
        : [];
    });
    const left = refs.filter((ref) => !this.#own.has(ref));
    for (const { ref } of joined) this.#sent.add(ref);
    const { rows } = await this.#options.database.query<{ is_new: boolean }>(
      `with renewed as (
         insert into realtime.presence_processes (id) values ($3::uuid)
         on conflict (id) do update set seen_at = clock_timestamp()
         returning xmax = 0 as is_new
       ), gone as (
         delete from realtime.presences where ref = any($1::text[]) returning audience
       ), added as (
         insert into realtime.presences (ref, process, audience, appearance)
         select ref, $3::uuid, audience, appearance
         from json_to_recordset($2::json) as joined (ref text, audience text, appearance text)
         on conflict (ref) do nothing
         returning audience
       )
       select is_new, case when audience is not null then pg_notify('${channel}', $3::uuid || ':' || audience)::text end
       from renewed
       left join (select audience from gone union select audience from added) as changed on true`,
      [left, JSON.stringify(joined), this.#process],
    );
    for (const ref of left) this.#sent.delete(ref);
    // The others had deleted this process, and with it all of its presences.
    const isIncomplete = rows[0]?.is_new && joined.length < this.#own.size;
    if (isIncomplete) for (const ref of this.#own.keys()) this.#unwritten.add(ref);
  }

  /** Deletes the presences of processes that stopped without doing so. */
  async #deleteStopped(): Promise<void> {
    if (performance.now() - this.#checkedAt < this.#renewalMs / 2) return;
    this.#checkedAt = performance.now();
    await this.#deleteProcesses(
      `seen_at < clock_timestamp() - $1 * interval '1 millisecond'`,
      this.#options.leaseMs,
    );
  }

  async #deleteProcesses(condition: string, parameter: unknown): Promise<void> {
    await this.#options.database.query(
      `with stopped as (delete from realtime.presence_processes where ${condition} returning id)
       select pg_notify('${channel}', process || ':' || audience)
       from (select distinct process, audience from realtime.presences where process in (select id from stopped)) as changed`,
      [parameter],
    );
  }
}
