// Whether notifications arrive: a pooler in transaction mode accepts LISTEN and passes nothing on.
import { randomUUID } from 'node:crypto';
import type { Database } from '../database.ts';

const channel = 'notification_check';

/** Sends a notification through the database and waits for it. */
export async function receivesNotifications(database: Database, withinMs = 5000): Promise<boolean> {
  const sent = randomUUID();
  let arrived = () => {};
  const arrival = new Promise<void>((resolve) => {
    arrived = resolve;
  });
  const stop = await database.listen(channel, (payload) => {
    if (payload === sent) arrived();
  });
  let timer: NodeJS.Timeout | undefined;
  try {
    await database.query('select pg_notify($1, $2)', [channel, sent]);
    const late = new Promise<'late'>((resolve) => {
      timer = setTimeout(() => resolve('late'), withinMs);
    });
    return (await Promise.race([arrival, late])) !== 'late';
  } finally {
    clearTimeout(timer);
    await stop();
  }
}
