// Reloads the schema cache after changes of the schema.
import type { Database } from '../../database/database.ts';
import { loadSchemaCache } from './schema-cache.ts';
import type { SchemaCache } from './schema-types.ts';

/** Milliseconds until a schema that could not be read is read again. */
const retryAfter = 500;

/**
 * Keeps a schema cache up to date. Running requests continue with the one they started with.
 * @param schemas the exposed schemas
 * @param channel notification channel of schema changes; null for none
 * @param searched further searched schemas
 * @param onError receives errors of reloading, which is retried
 * @returns the newest cache, until it is closed
 * @throws DatabaseError when the schema cannot be read at first
 */
export async function followSchema(
  database: Database,
  schemas: readonly string[],
  onError: (error: unknown) => void,
  channel: string | null = 'pgrst',
  searched: readonly string[] = [],
): Promise<{ readonly cache: SchemaCache; close(): Promise<void> }> {
  const load = () =>
    database.transaction((session) => loadSchemaCache(session, schemas, searched), {
      readOnly: true,
      settings: { search_path: '' },
    });
  let current: SchemaCache | null = null;
  let isStale = true;
  // Not null, because the first load includes changes that are announced before it begins.
  let loading: Promise<void> | null = Promise.resolve();
  let retry: NodeJS.Timeout | null = null;
  let isClosed = false;
  const reload = async () => {
    try {
      while (isStale) {
        isStale = false;
        current = await load();
      }
    } finally {
      loading = null;
    }
  };
  const onChange = () => {
    isStale = true;
    if (loading || isClosed) return;
    loading = reload().catch((error) => {
      onError(error);
      if (!isClosed) retry = setTimeout(onChange, retryAfter);
    });
  };
  // Subscribe first, so that a change during the first load is not missed.
  const onMessage = (payload: string) => {
    if (payload === 'reload schema' || payload === '') onChange();
  };
  const stop = channel === null ? async () => {} : await database.listen(channel, onMessage, onChange);
  try {
    loading = reload();
    await loading;
  } catch (error) {
    isClosed = true;
    await stop();
    throw error;
  }
  return {
    get cache() {
      if (!current) throw new Error('the schema has not been read');
      return current;
    },
    async close() {
      isClosed = true;
      if (retry) clearTimeout(retry);
      await stop();
      await loading;
    },
  };
}
