// The count of new payments, where the newest one is taken back.
import { screen, waitFor } from '@testing-library/dom';
import { expect, onTestFinished, test } from 'vitest';
import { openScreen } from '../../testing/staff-screens.tsx';

test('a newest payment that is taken back does not set the screen going round in circles', async () => {
  const [earlier, later] = ['2026-11-28T10:00:00+00:00', '2026-11-28T11:00:00+00:00'];
  const asked: (string | null)[] = [];
  const { fetch } = globalThis;
  globalThis.fetch = async (input, init) => {
    const url = String(input instanceof Request ? input.url : input);
    if (!url.includes('rpc/count_payments_since')) return fetch(input, init);
    const { since } = JSON.parse(String(init?.body)) as { since: string | null };
    asked.push(since);
    return Response.json([{ count: 0, newest: since === later ? earlier : later }]);
  };
  onTestFinished(() => {
    globalThis.fetch = fetch;
  });
  await openScreen('/admin/orders');
  await waitFor(() => expect(asked).toContain(later));
  await screen.findByRole('heading', { level: 1, name: 'Orders' });
  await screen.findByTitle('Live: changes appear by themselves');
  expect(asked).not.toContain(earlier);
});
