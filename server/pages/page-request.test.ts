import { expect, test } from 'vitest';
import { readPageRequest } from './page-request.ts';

const publicUrl = 'https://jani.example';
const post = (path: string, origin: string | null) =>
  readPageRequest(
    new Request(`${publicUrl}${path}`, {
      method: 'POST',
      headers: {
        host: 'jani.example',
        'content-type': 'application/x-www-form-urlencoded',
        ...(origin === null ? {} : { origin }),
      },
      body: 'step=seen',
    }),
    publicUrl,
  );

test('accepts a form without an origin on the page of a rider only', async () => {
  const accepted = await post('/ride/secret', 'null');
  expect(accepted).toBeInstanceOf(Request);
  expect((accepted as Request).headers.get('origin')).toBeNull();
  expect(await (accepted as Request).text()).toBe('step=seen');
  for (const path of ['/contact', '/rides/secret', '/contact?/ride/secret'])
    expect(await post(path, 'null')).toMatchObject({ status: 403 });
});

test('refuses forms of other sites everywhere', async () => {
  expect(await post('/ride/secret', 'https://other.example')).toMatchObject({ status: 403 });
  expect(await post('/contact', publicUrl)).toBeInstanceOf(Request);
});
