// The database side of broadcasts: receives rows that SQL sends, and passes clients' broadcasts to the other processes.
//
// Clients' broadcasts travel as NOTIFY, in parts where they are large, not as rows: nothing is written to disk, and a hosted
// project does not store them either. The sender's process does not wait for them.
import { randomBytes } from 'node:crypto';
import type { Database } from '../../database/database.ts';
import { listening } from '../changes/listening.ts';
import { RetriedWork } from '../changes/retried-work.ts';
import { type Broadcast, packBroadcast, storedData, unpackBroadcast } from './broadcast.ts';

const rowChannel = 'realtime_messages';
const peerChannel = 'realtime_broadcasts';
// PostgreSQL refuses payloads of 8000 bytes and more; the remainder is for the header of the part.
const partBytes = 7_800;
const maxQueuedParts = 4_000;
/** Maximum number of broadcasts from other processes that wait for delivery here. */
const maxQueuedBroadcasts = 1_000;
// A row has the start time of its transaction, so a row that is committed late may be older than rows already delivered.
const overlapSeconds = 60;
const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** Transfers broadcasts to and from the database. */
export interface BroadcastFeed {
  /** Resolves when every later commit is received. */
  ready: Promise<void>;
  /** Notifies the other processes, without waiting for them. */
  publish(broadcast: Broadcast): void;
  close(): Promise<void>;
}

interface MessageRow {
  id: string;
  topic: string;
  event: string | null;
  private: boolean;
  payload: string | null;
  binary_payload: Uint8Array | null;
  inserted_at: number;
}

/**
 * Starts listening.
 * @param deliver called for each broadcast from SQL (in commit order) and from other processes; returns null once it is delivered,
 *   otherwise resolves then
 * @param onError receives problems with the database; the feed retries by itself
 */
export function startBroadcastFeed(
  database: Database,
  deliver: (broadcast: Broadcast) => Promise<void> | null,
  onError: (error: unknown) => void,
): BroadcastFeed {
  const rows = new RowFeed(database, deliver, onError);
  const peers = new PeerFeed(database, deliver, onError);
  return {
    ready: Promise.all([rows.start(), peers.start()]).then(() => {}),
    publish: (broadcast) => peers.publish(broadcast),
    async close() {
      await Promise.all([rows.close(), peers.close()]);
    },
  };
}

/** Rows of realtime.messages: announced by id, fetched in batches, delivered in the order of the announcements. */
class RowFeed {
  readonly #database: Database;
  readonly #deliver: (broadcast: Broadcast) => Promise<void> | null;
  readonly #onError: (error: unknown) => void;
  #announced: string[] = [];
  #isCatchUpDue = false;
  #newestSeconds = 0;
  /** Recently delivered ids with their time: a row fetched after a lost connection may be among them. */
  readonly #delivered = new Map<string, number>();
  readonly #fetching: RetriedWork;
  #stop = async () => {};

  constructor(
    database: Database,
    deliver: (broadcast: Broadcast) => Promise<void> | null,
    onError: (error: unknown) => void,
  ) {
    this.#database = database;
    this.#deliver = deliver;
    this.#onError = onError;
    this.#fetching = new RetriedWork(
      {
        isDue: () => this.#announced.length > 0 || this.#isCatchUpDue,
        work: (isStopped) => this.#fetchAll(isStopped),
      },
      onError,
    );
  }

  async start(): Promise<void> {
    const onAnnounced = (id: string) => {
      if (!uuid.test(id)) return;
      this.#announced.push(id);
      this.#fetching.start();
    };
    const onMissedEvents = () => {
      this.#isCatchUpDue = true;
      this.#fetching.start();
    };
    this.#newestSeconds = Date.now() / 1000;
    this.#stop = await listening(this.#database, rowChannel, onAnnounced, onMissedEvents, this.#onError);
  }

  async close(): Promise<void> {
    const isIdle = this.#fetching.stop();
    await this.#stop().catch(this.#onError);
    await isIdle;
  }

  async #fetchAll(isStopped: () => boolean): Promise<void> {
    while (!isStopped() && (this.#announced.length > 0 || this.#isCatchUpDue)) {
      if (this.#isCatchUpDue) await this.#catchUp();
      const ids = this.#announced;
      if (ids.length === 0) continue;
      this.#announced = [];
      try {
        const found = await this.#select('id = any($1::uuid[])', `{${ids.join(',')}}`);
        const byId = new Map(found.map((row) => [row.id, row]));
        for (const id of ids) await this.#pass(byId.get(id));
      } catch (error) {
        this.#announced = [...ids, ...this.#announced];
        throw error;
      }
    }
  }

  async #catchUp(): Promise<void> {
    this.#isCatchUpDue = false;
    try {
      const since = this.#newestSeconds - overlapSeconds;
      for (const row of await this.#select('inserted_at > to_timestamp($1::float8)', since))
        await this.#pass(row);
    } catch (error) {
      this.#isCatchUpDue = true;
      throw error;
    }
  }

  async #select(condition: string, parameter: unknown): Promise<MessageRow[]> {
    const { rows } = await this.#database.query<MessageRow>(
      `select id, topic, event, private, payload::text as payload, binary_payload,
              extract(epoch from inserted_at)::float8 as inserted_at
       from realtime.messages where extension = 'broadcast' and ${condition} order by inserted_at`,
      [parameter],
    );
    return rows;
  }

  async #pass(row: MessageRow | undefined): Promise<void> {
    if (!row || this.#delivered.has(row.id)) return;
    this.#delivered.set(row.id, row.inserted_at);
    this.#newestSeconds = Math.max(this.#newestSeconds, row.inserted_at);
    for (const [id, insertedAt] of this.#delivered) {
      if (insertedAt >= this.#newestSeconds - overlapSeconds) break;
      this.#delivered.delete(id);
    }
    await this.#deliver({
      topic: row.topic,
      isPrivate: row.private,
      event: row.event ?? '',
      data: storedData(row.payload, row.binary_payload),
      meta: { id: row.id },
      isFramedBinary: false,
    });
  }
}

/**
 * Clients' broadcasts between processes. Those sent while a connection is lost are lost: the protocol does not guarantee
 * delivery.
 */
class PeerFeed {
  readonly #database: Database;
  readonly #deliver: (broadcast: Broadcast) => Promise<void> | null;
  readonly #onError: (error: unknown) => void;
  readonly #self = randomBytes(6).toString('hex');
  #sequence = 0;
  #waiting: string[] = [];
  #work: Promise<void> | null = null;
  /** Number of broadcasts that are received but not delivered yet. */
  #undelivered = 0;
  readonly #partial = new Map<string, { sequence: string; parts: string[] }>();
  #stop = async () => {};

  constructor(
    database: Database,
    deliver: (broadcast: Broadcast) => Promise<void> | null,
    onError: (error: unknown) => void,
  ) {
    this.#database = database;
    this.#deliver = deliver;
    this.#onError = onError;
  }

  /** The embedded database belongs to one process, so there are no others to notify. */
  get #isAlone() {
    return this.#database.kind === 'pglite';
  }

  async start(): Promise<void> {
    if (this.#isAlone) return;
    const onPart = (part: string) => this.#receive(part);
    const onMissedEvents = () => this.#partial.clear();
    this.#stop = await listening(this.#database, peerChannel, onPart, onMissedEvents, this.#onError);
  }

  async close(): Promise<void> {
    await this.#stop().catch(this.#onError);
    await this.#work;
  }

  publish(broadcast: Broadcast): void {
    if (this.#isAlone) return;
    const parts = inParts(packBroadcast(broadcast));
    if (this.#waiting.length + parts.length > maxQueuedParts) {
      this.#onError(
        new Error('broadcasts to other processes are sent faster than the database accepts them'),
      );
      return;
    }
    this.#sequence += 1;
    parts.forEach((part, index) => {
      this.#waiting.push(`${this.#self}:${this.#sequence}:${index}/${parts.length}:${part}`);
    });
    this.#work ??= this.#sendAll().finally(() => {
      this.#work = null;
    });
  }

  async #sendAll(): Promise<void> {
    // One statement at a time keeps the order; broadcasts that arrive in the meantime go with the next one.
    while (this.#waiting.length > 0) {
      const parts = this.#waiting;
      this.#waiting = [];
      await this.#database
        .query(`select pg_notify('${peerChannel}', part) from jsonb_array_elements_text($1::jsonb) as part`, [
          JSON.stringify(parts),
        ])
        .catch(this.#onError);
    }
  }

  #receive(text: string) {
    const [address, origin, sequence, index, count] = /^(\w+):(\d+):(\d+)\/(\d+):/.exec(text) ?? [];
    if (!address || !origin || !sequence || origin === this.#self) return;
    const part = text.slice(address.length);
    if (count === '1') return this.#unpack(part);
    if (index === '0') this.#partial.set(origin, { sequence, parts: [] });
    const partial = this.#partial.get(origin);
    if (!partial || partial.sequence !== sequence || partial.parts.length !== Number(index)) {
      this.#partial.delete(origin);
      return;
    }
    partial.parts.push(part);
    if (partial.parts.length < Number(count)) return;
    this.#partial.delete(origin);
    this.#unpack(Buffer.from(partial.parts.join(''), 'base64').toString());
  }

  #unpack(packed: string) {
    let broadcast: Broadcast;
    try {
      broadcast = unpackBroadcast(packed);
    } catch (error) {
      // During an update another version of this program may use another format.
      this.#onError(error);
      return;
    }
    if (this.#undelivered >= maxQueuedBroadcasts) {
      this.#onError(new Error('broadcasts of other processes arrive faster than they can be delivered'));
      return;
    }
    const delivered = this.#deliver(broadcast);
    if (!delivered) return;
    this.#undelivered += 1;
    void delivered.finally(() => {
      this.#undelivered -= 1;
    });
  }
}

/**
 * Splits a packed broadcast into notification payloads: as is when it fits, otherwise in base64, which can be split anywhere.
 */
function inParts(packed: string): string[] {
  if (Buffer.byteLength(packed) <= partBytes) return [packed];
  const base64 = Buffer.from(packed).toString('base64');
  return Array.from({ length: Math.ceil(base64.length / partBytes) }, (_, index) =>
    base64.slice(index * partBytes, (index + 1) * partBytes),
  );
}
