// Reports what became of a write, as soon as the shop can be asked.
import type { Staff } from '../../lib/staff.ts';
import { showToast } from '../../ui/toasts/toasts.tsx';

const questionEveryMs = 5000;
/** The database forgets a write after an hour. */
const longestMs = 10 * 60_000;

/** Asks until there is an answer, and shows it. Also resolves without one after ten minutes. */
export async function followLostWrite(staff: Staff, writeId: string): Promise<void> {
  for (const startedAt = Date.now(); Date.now() - startedAt < longestMs; ) {
    await new Promise((resolve) => setTimeout(resolve, questionEveryMs));
    const settled = await staff.settleWrite(writeId).catch(() => null);
    if (!settled) continue;
    showToast(
      settled.is_saved
        ? {
            title: 'Saved after all',
            text: 'Your own change has arrived: the connection broke after it was saved.',
          }
        : {
            kind: 'error',
            title: 'Not saved',
            text: 'The connection broke before your change arrived. Nothing was changed: please try again.',
          },
    );
    return;
  }
}
