// The practice rider, who exists while payments are simulated.
import { ridePath } from '../../domain/deliveries/rider-page.ts';
import type { Store } from '../../supabase/store.ts';
import type { Log } from '../monitoring/log.ts';

/**
 * Creates the practice rider with a link, or deletes the one of an earlier start.
 * @returns the URL of the rider's page; null without simulated payments, or if the database refuses
 */
export async function preparePracticeRider(
  { tables }: Store,
  { isPractice, url, log }: { isPractice: boolean; url: string; log: Log },
): Promise<string | null> {
  const { data: secret, error } = await tables.rpc('practice_rider', { is_practice: isPractice });
  // The shop works without it.
  if (error) log.info({ reason: error.message }, 'the practice rider was not prepared');
  return secret ? `${url}${ridePath(secret)}` : null;
}
