// What a client asks for when it joins. Anything unreadable takes its default, as a hosted project does it.
import { randomUUID } from 'node:crypto';
import { queriesForRights } from './authorization.ts';
import { isRecord } from './protocol.ts';

/** The settings of one membership in a channel. */
export interface JoinConfig {
  broadcast: { isAcknowledged: boolean; reachesSelf: boolean };
  /** Stored messages wanted at the start; 'invalid' when asked for in a way that makes no sense. */
  replay: { since: number; limit: number } | 'invalid' | null;
  wantsReplicationReady: boolean;
  presence: { key: string; isEnabled: boolean };
  postgresChanges: Record<string, unknown>[];
  isPrivate: boolean;
  accessToken: string | null;
}

const longestReplay = 25;
/** Bytes of a presence key. */
const longestKey = 255;

// What a join asks the database about a table it subscribes to.
const queriesPerTable = 2;
const tablesPerWildcard = 10;
/** A change is tested by each filter of its table. */
const subscriptionsPerFilter = 10;

/**
 * What a join costs.
 * @returns calls: 1, and about as many more as it asks queries of the database; subscriptions: what it takes of
 *   `changesPerNetwork`
 */
export function costOfJoin({ isPrivate, replay, postgresChanges }: JoinConfig): {
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
      queriesPerTable * tables.size +
      filterQueries.reduce((sum, queries) => sum + queries, 0),
    subscriptions: postgresChanges.length + (subscriptionsPerFilter - 1) * filters.length,
  };
}

/**
 * Reads the payload of phx_join.
 * @param payload whatever the client sent
 */
export function readJoinConfig(payload: unknown): JoinConfig {
  const { config: asked, access_token: token } = recordOf(payload);
  const config = recordOf(asked);
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
    isPrivate: isTrue(config.private),
    accessToken: typeof token === 'string' && token !== '' ? token : null,
  };
}

function readReplay(replay: unknown): JoinConfig['replay'] {
  if (replay === undefined || replay === null) return null;
  const { since, limit = longestReplay } = recordOf(replay);
  const isValid =
    typeof since === 'number' &&
    Number.isFinite(since) &&
    Math.abs(since) < 8.64e15 &&
    typeof limit === 'number' &&
    Number.isInteger(limit) &&
    limit >= 1;
  return isValid ? { since, limit: Math.min(limit, longestReplay) } : 'invalid';
}

const isKey = (key: unknown): key is string =>
  typeof key === 'string' && key !== '' && Buffer.byteLength(key) <= longestKey;
const recordOf = (value: unknown) => (isRecord(value) ? value : {});
const isTrue = (value: unknown) => value === true || value === 'true';
