// The question before a pause. The shop of these tests is shared, so that no test pauses it: e2e/staff/orders/pause-orders.long.test.ts does.
import { screen, within } from '@testing-library/dom';
import { expect, test } from 'vitest';
import { interceptNext, type OpenScreen, openScreen } from '../../testing/staff-screens.tsx';

async function openDialog(opened: OpenScreen) {
  await opened.press(await screen.findByRole('button', { name: 'Pause orders' }));
  return within(await screen.findByRole('dialog', { name: 'Pause orders' }));
}
/** Answers the next call without sending it. */
const answerNext = (answer: Response) =>
  new Promise<void>((resolve) => {
    interceptNext('rpc/pause_orders', async () => {
      resolve();
      return answer;
    });
  });

test.each(['/admin/today', '/admin/settings'])(
  'asks why and for how long, and shows what customers read, on %s',
  async (path) => {
    const opened = await openScreen(path);
    const dialog = await openDialog(opened);
    await opened.press(dialog.getByRole('button', { name: 'Pause orders' }));
    await dialog.findByText('Please choose why');
    await opened.user.click(dialog.getByRole('radio', { name: 'Rain' }));
    expect(dialog.queryByText('Please choose why')).toBeNull();
    dialog.getByText(/^Orders are paused until \d\d:\d\d: heavy rain\.$/);
    await opened.user.click(dialog.getByRole('radio', { name: 'Until I resume' }));
    dialog.getByText('Orders are paused for now: heavy rain.');
    const called = answerNext(new Response(null, { status: 204 }));
    await opened.press(dialog.getByRole('button', { name: 'Pause orders' }));
    await called;
    await screen.findByText('Orders are paused');
  },
);

test('own words are required, and a refusal of them stands beside the field', async () => {
  const opened = await openScreen('/admin/today');
  const dialog = await openDialog(opened);
  await opened.user.click(dialog.getByRole('radio', { name: 'Other words' }));
  await opened.press(dialog.getByRole('button', { name: 'Pause orders' }));
  const field = dialog.getByLabelText(/^Your words/);
  expect(field.getAttribute('aria-invalid')).toBe('true');
  await opened.user.click(field);
  await opened.user.paste('our road is flooded.');
  dialog.getByText(/^Orders are paused until \d\d:\d\d: our road is flooded\.$/);
  void answerNext(
    Response.json(
      { code: 'PT400', details: 'reason_invalid', message: 'Customers read this', hint: '' },
      { status: 400 },
    ),
  );
  await opened.press(dialog.getByRole('button', { name: 'Pause orders' }));
  await dialog.findByText('Customers read this');
  expect(field.getAttribute('aria-invalid')).toBe('true');
});
