// Stored messages for someone who comes late to a private topic.
import type { Database } from '../database/database.ts';

/** A stored message. */
export interface StoredMessage {
  id: string;
  event: string;
  /** JSON text. */
  payload: string;
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
  const { rows } = await database.query<StoredMessage>(
    `select id, coalesce(event, '') as event, coalesce(payload::text, 'null') as payload
     from realtime.messages
     where topic = $1 and extension = 'broadcast' and private and inserted_at >= to_timestamp($2::float8 / 1000)
     order by inserted_at desc limit $3::int`,
    [topic, since, limit],
  );
  return rows.reverse();
}
