// Parses the payload of a join. Unreadable values take their defaults, as on a hosted project.
import { randomUUID } from 'node:crypto';
import { queriesForRights } from './authorization.ts';
import { isRecord } from './protocol.ts';

/** Settings of one channel. */
export interface JoinConfig {
  broadcast: { isAcknowledged: boolean; reachesSelf: boolean };
  /** Stored messages to replay; 'invalid' for an invalid request. */
  replay: { since: number; limit: number } | 'invalid' | null;
  wantsReplicationReady: boolean;
  presence: { key: string; isEnabled: boolean };
  postgresChanges: Record<string, unknown>[];
  /** Whether the join fails when its table changes cannot be followed. Default: the join succeeds, and a message has the error. */
  waitsForChanges: boolean;
  isPrivate: boolean;
  accessToken: string | null;
}

const maxReplayedMessages = 25;
/** Maximum bytes of a presence key. */
const maxKeyBytes = 255;

// Number of queries per table subscription of a join.
const queriesPerTable = 2;
const tablesPerWildcard = 10;
/** Each filter of a table is evaluated for each change. */
const subscriptionsPerFilter = 10;

/** Cost of a join. Calls: 1, plus about one per query; subscriptions: its share of `changesPerNetwork`. */
export function costOfJoin({ isPrivate, replay, presence, postgresChanges }: JoinConfig): {
  calls: number;
  subscriptions: number;
} {
  const tables = new Set(postgresChanges.map(({ schema, table }) => JSON.stringify([schema, table])));
  const filters = postgresChanges.filter(({ filter }) => typeof filter === 'string' && filter !== '');
  const filterQueries = filters.map(({ table }) =>
    typeof table === 'string' && table !== '*' ? 1 : tablesPerWildcard,
  );
  return {
    calls:
      1 +
      (isPrivate ? queriesForRights : 0) +
      (replay ? 1 : 0) +
      (presence.isEnabled ? 1 : 0) +
      queriesPerTable * tables.size +
      filterQueries.reduce((sum, queries) => sum + queries, 0),
    subscriptions: postgresChanges.length + (subscriptionsPerFilter - 1) * filters.length,
  };
}

/**
 * Reads the payload of phx_join.
 * @param payload as the client sent it, unchecked
 */
export function readJoinConfig(payload: unknown): JoinConfig {
  const { config: unchecked, access_token: token } = recordOf(payload);
  const config = recordOf(unchecked);
  const broadcast = recordOf(config.broadcast);
  const presence = recordOf(config.presence);
  return {
    broadcast: { isAcknowledged: isTrue(broadcast.ack), reachesSelf: isTrue(broadcast.self) },
    replay: readReplay(broadcast.replay),
    wantsReplicationReady: isTrue(broadcast.replication_ready),
    presence: {
      key: isKey(presence.key) ? presence.key : randomUUID(),
      isEnabled: isTrue(presence.enabled),
    },
    postgresChanges: Array.isArray(config.postgres_changes) ? config.postgres_changes.filter(isRecord) : [],
    waitsForChanges: isTrue(recordOf(config.postgres_changes_options).wait),
    isPrivate: isTrue(config.private),
    accessToken: typeof token === 'string' && token !== '' ? token : null,
  };
}

function readReplay(replay: unknown): JoinConfig['replay'] {
  if (replay === undefined || replay === null) return null;
  const { since, limit = maxReplayedMessages } = recordOf(replay);
  const isValid =
    typeof since === 'number' &&
    Number.isFinite(since) &&
    Math.abs(since) < 8.64e15 &&
    typeof limit === 'number' &&
    Number.isInteger(limit) &&
    limit >= 1;
  return isValid ? { since, limit: Math.min(limit, maxReplayedMessages) } : 'invalid';
}

const isKey = (key: unknown): key is string =>
  typeof key === 'string' && key !== '' && Buffer.byteLength(key) <= maxKeyBytes;
const recordOf = (value: unknown) => (isRecord(value) ? value : {});
const isTrue = (value: unknown) => value === true || value === 'true';
