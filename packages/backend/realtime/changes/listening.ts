// Subscribes to notifications, also when the database is not available yet.
import type { Database } from '../../database/database.ts';

/**
 * Subscribes, and treats a first failure like a later one: the driver reconnects and then reports missed events.
 * @returns a function that unsubscribes, once the subscription is active
 */
export async function listening(
  database: Database,
  channel: string,
  listener: (payload: string) => void,
  onMissedEvents: () => void,
  onError: (error: unknown) => void,
): Promise<() => Promise<void>> {
  let reportConnected = () => {};
  const reconnected = new Promise<void>((done) => {
    reportConnected = done;
  });
  try {
    return await database.listen(channel, listener, () => {
      reportConnected();
      onMissedEvents();
    });
  } catch (error) {
    onError(error);
    await reconnected;
    return async () => {};
  }
}
