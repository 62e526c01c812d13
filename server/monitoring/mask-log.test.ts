import { DatabaseError } from '@jani-juice/backend/database';
import { expect, test } from 'vitest';
import { openLog } from './log.ts';
import { maskPath, maskText } from './mask-log.ts';
import { createRefusalLog } from './refused-requests.ts';

test.each([
  ['/', '/'],
  ['/shop?page=2', '/shop?page=2'],
  ['/shop/mango-mist', '/shop/•••'],
  ['/wanjiru@example.com', '/•••'],
  ['/track-order/JJ-20261121-1234.data?key=secret&a=b', '/track-order/•••?key=•••&a=•••'],
  ['/track-order/JJ-20261121-1234/receipt?key=secret', '/track-order/•••/receipt?key=•••'],
  ['/t/20261121-1234-ASNFZ4mrze8BI0VniavN7w/receipt', '/t/•••/receipt'],
  ['/ride/H8Poh4NV6CPNsmJ6TJ2ndUSc', '/ride/•••'],
  ['/newsletter/confirm?token=secret', '/newsletter/confirm?token=•••'],
  ['/rest/v1/orders?select=id,customer_phone', '/rest/v1/orders?select=id,customer_phone'],
  ['/rest/v1/orders?select=id%2C0712345678', '/rest/v1/orders?select=id,•••'],
  ['/rest/v1/orders?customer_phone=eq.0712345678', '/rest/v1/orders?customer_phone=eq.•••'],
  [
    '/rest/v1/orders?customer_name=not.ilike(any).{*wan*}',
    '/rest/v1/orders?customer_name=not.ilike(any).•••',
  ],
  ['/rest/v1/orders?items.note=fts(english).wanjiru', '/rest/v1/orders?items.note=•••'],
  ['/rest/v1/orders?or=(phone.eq.0712345678,email.eq.a@b.ke)', '/rest/v1/orders?or=•••'],
  ['/rest/v1/orders?access_key=in.(a1b2,c3d4)&limit=10', '/rest/v1/orders?access_key=in.•••&limit=10'],
  ['/rest/v1/orders?0712345678=eq.1&a@b.ke=eq.1', '/rest/v1/orders?•••=eq.•••&•••=eq.•••'],
  ['/rest/v1/0712345678?%=1', '/rest/v1/•••?•••=•••'],
  [
    '/rest/v1/rpc/track_order?tracking_number=JJ-1234&access_key=k',
    '/rest/v1/rpc/track_order?tracking_number=•••&access_key=•••',
  ],
  ['/rest/v1/rpc/track_order/0712345678', '/rest/v1/rpc/track_order/•••'],
  ['/auth/v1/verify?token=secret&type=recovery&email=a@b.ke', '/auth/v1/verify?token=•••&type=•••&email=•••'],
  ['/auth/v1/admin/users/9f0b3c1e-0000-4000-8000-000000000001', '/auth/v1/admin/users/•••'],
  ['/storage/v1/object/sign/receipts/wanjiru.pdf?token=eyJ.e.y', '/storage/v1/object/sign/•••/•••?token=•••'],
  ['/functions/v1/mobile-money/notice/abcdef?x=1', '/functions/v1/mobile-money/notice/•••?x=•••'],
  ['/functions/v1/mobile-money/till/abcdef/confirmation', '/functions/v1/mobile-money/till/•••/confirmation'],
  ['/realtime/v1/websocket?apikey=sb_publishable_x&vsn=1.0.0', '/realtime/v1/websocket?apikey=•••&vsn=•••'],
])('logs of %s only %s', (path, shown) => {
  expect(maskPath(path)).toBe(shown);
  expect(maskPath(shown)).toBe(shown);
});

const secrets = [
  '0712345678',
  '+254 712 345 678',
  '254712345678',
  'wanjiru@example.com',
  'JJ-20261121-1234',
  'ASNFZ4mrze8BI0VniavN7w',
  'eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJ4In0.c2ln',
  'sb_secret_abc',
  'QGH7SK61SU',
  '9f0b3c1e-0000-4000-8000-000000000001',
];

test.each([
  ['Key (customer_phone)=(•) already exists.'],
  ['Failing row contains (1, •, null).'],
  ['invalid input syntax for type integer: "•"'],
  ['column "•" does not exist'],
  ['550 5.1.1 <•>: Recipient address rejected'],
  ['GET https://shop.example/track-order/•?key=• failed'],
  ['no order • of •'],
  ['Unexpected token, "{\\"a\\": \\"•\\"}" is not valid JSON'],
])('masks every value in an error such as %s', (template) => {
  for (const secret of secrets) expect(maskText(template.replaceAll('•', secret))).not.toContain(secret);
});

test.each([
  'duplicate key value violates unique constraint "product slugs are unique"',
  'relation "orders" does not exist',
  'connect ECONNREFUSED 127.0.0.1:54321',
  'migration 20261127020000_limits.sql failed',
])('leaves an error without values as it is: %s', (text) => {
  expect(maskText(text)).toBe(text);
});

test('masks every line of the log, of every module', () => {
  const lines: string[] = [];
  const log = openLog('debug', { write: (line) => void lines.push(line) });
  const [phone = ''] = secrets;
  const error = new DatabaseError(`invalid input: "Wanjiru ${phone}"`, {
    code: '22P02',
    detail: `Key (phone)=(${phone})`,
  });
  log.error({ requestId: 'r-1', where: 'data', error: error.stack }, 'internal error');
  log.error({ error }, 'internal error');
  log.error(error, 'internal error');
  log.warn({ problem: `no account of ${secrets[3]}`, nested: [{ text: phone }] }, 'a message was not sent');
  log.debug({ method: 'GET', path: `/rest/v1/orders?phone=eq.${phone}` }, 'request');
  createRefusalLog({ log })({
    method: 'POST',
    path: `/rest/v1/rpc/track_order?phone=${phone}`,
    status: 403,
    address: '203.0.113.7',
    reason: 'service',
    requestId: 'r-2',
  });
  const text = lines.join('');
  for (const secret of [phone, 'Wanjiru', 'wanjiru', '203.0.113.7']) expect(text).not.toContain(secret);
  expect(text).toContain('mask-log.test.ts:');
  expect(text).toContain('"requestId":"r-2"');
  expect(text).toContain('/rest/v1/orders?phone=eq.•••');
});
