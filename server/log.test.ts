import { expect, test } from 'vitest';
import { maskPath } from './log.ts';

test('what opens an order or a payment is never logged', () => {
  expect(maskPath('/functions/v1/mobile-money/notice/abcdef?x=1')).toBe(
    '/functions/v1/mobile-money/notice/•••?x=1',
  );
  expect(maskPath('/functions/v1/mobile-money/till/abcdef/confirmation')).toBe(
    '/functions/v1/mobile-money/till/•••/confirmation',
  );
  expect(maskPath('/track-order/JJ-20261121-1234.data?key=secret&a=b')).toBe('/track-order/•••?key=•••&a=b');
  expect(maskPath('/t/20261121-1234-ASNFZ4mrze8BI0VniavN7w/receipt')).toBe('/t/•••/receipt');
  expect(maskPath('/track-order/JJ-20261121-1234/receipt?key=secret')).toBe(
    '/track-order/•••/receipt?key=•••',
  );
});
