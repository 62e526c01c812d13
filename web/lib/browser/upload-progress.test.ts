import { expect, test } from 'vitest';
import { withUploadProgress } from './upload-progress.ts';

test('sends nothing when it was stopped before it began', async () => {
  const send = withUploadProgress(() => {}, AbortSignal.abort());
  await expect(send('https://shop.example/storage', { method: 'POST', body: 'x' })).rejects.toMatchObject({
    name: 'AbortError',
  });
});
