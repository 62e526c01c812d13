// Listening to the database in a way that survives a database which is not there yet.
import type { Database } from '../database/database.ts';

/**
 * Listens, and treats a first failure like a later one: the driver comes back by itself and then reports a gap.
 * @returns when the channel is heard; a function that ends it
 */
export async function listening(
  database: Database,
  channel: string,
  listener: (payload: string) => void,
  onGap: () => void,
  onFault: (error: unknown) => void,
): Promise<() => Promise<void>> {
  let hear = () => {};
  const heardAfterGap = new Promise<void>((done) => {
    hear = done;
  });
  try {
    return await database.listen(channel, listener, () => {
      hear();
      onGap();
    });
  } catch (error) {
    onFault(error);
    await heardAfterGap;
    return async () => {};
  }
}
