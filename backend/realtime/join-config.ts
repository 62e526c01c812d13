// What a client asks for when it joins. Anything unreadable takes its default, as a hosted project does it.
import { randomUUID } from 'node:crypto';
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
      key: typeof presence.key === 'string' && presence.key !== '' ? presence.key : randomUUID(),
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

const recordOf = (value: unknown) => (isRecord(value) ? value : {});
const isTrue = (value: unknown) => value === true || value === 'true';
