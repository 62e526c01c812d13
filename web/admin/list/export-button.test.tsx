// An export as staff see it. Its pages and its file: export-rows.test.ts.
import { screen, waitFor, within } from '@testing-library/dom';
import { expect, onTestFinished, test } from 'vitest';
import { asOwner } from '../../../e2e/staff-member.ts';
import { openScreen, shop } from '../../testing/staff-screens.tsx';

test('an export that fails in the middle says so, saves nothing, and is continued', async () => {
  const name = crypto.randomUUID();
  const inquiry = { name, email: 'amina@mail.example', message: 'Do you deliver to Karen?' };
  await asOwner(shop, '/rest/v1/inquiries', 'POST', inquiry);
  const files: Blob[] = [];
  const { createObjectURL } = URL;
  URL.createObjectURL = (file: Blob) => {
    files.push(file);
    return 'data:,';
  };
  onTestFinished(() => {
    URL.createObjectURL = createObjectURL;
  });
  const { user, address } = await openScreen('/admin/inquiries', { expected: /^The export failed/ });
  await screen.findAllByText(name);
  // Not the list's own requests, which may be repeated at any time.
  const { fetch } = globalThis;
  let pages = 0;
  globalThis.fetch = async (input, init) => {
    if (String(init?.body).includes('"page_size":1000') && ++pages === 2)
      throw new TypeError('Failed to fetch');
    return fetch(input, init);
  };
  onTestFinished(() => {
    globalThis.fetch = fetch;
  });
  await user.click(await screen.findByRole('button', { name: 'Export CSV' }));
  const messages = within(await screen.findByRole('region', { name: /Messages/ }));
  await messages.findByText('Export stopped');
  expect(messages.getByText(/^It failed after \d+ inquiries\. No file was saved yet\.$/)).toBeTruthy();
  expect(files).toEqual([]);

  await user.click(messages.getByRole('button', { name: 'Continue export' }));
  await messages.findByText(/^\d+ inquiries exported$/);
  await waitFor(() => expect(messages.queryByText('Export stopped')).toBeNull());
  expect(files).toHaveLength(1);
  expect(address()).toBe('/admin/inquiries');
  expect((await files[0]?.text())?.split('\r\n').filter((line) => line.includes(name))).toHaveLength(1);
});
