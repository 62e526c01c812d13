// Stored messages for clients that join a private topic late.
import type { Database } from '../../database/database.ts';
import type { BroadcastData } from '../connections/protocol.ts';
import { storedData } from './broadcast.ts';

/** A stored message. */
export interface StoredMessage {
  id: string;
  event: string;
  data: BroadcastData;
}

/**
 * The newest messages SQL sent to a private topic, oldest first.
 * @param since milliseconds since 1970
 */
export async function storedMessages(
  database: Database,
  topic: string,
  { since, limit }: { since: number; limit: number },
): Promise<StoredMessage[]> {
  const { rows } = await database.query<{
    id: string;
    event: string;
    payload: string | null;
    binary_payload: Uint8Array | null;
  }>(
    `select id, coalesce(event, '') as event, payload::text as payload, binary_payload
     from realtime.messages
     where topic = $1 and extension = 'broadcast' and private and inserted_at >= to_timestamp($2::float8 / 1000)
     order by inserted_at desc limit $3::int`,
    [topic, since, limit],
  );
  return rows
    .reverse()
    .map((row) => ({ id: row.id, event: row.event, data: storedData(row.payload, row.binary_payload) }));
}
