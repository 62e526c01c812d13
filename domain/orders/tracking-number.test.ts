import { expect, test } from 'vitest';
import { orderNumberExamples } from './order-number-examples.ts';
import {
  accountReference,
  describeOtherNumber,
  findTrackingNumbers,
  normaliseTrackingNumber,
  readOrderNumbers,
} from './tracking-number.ts';

test.each(orderNumberExamples)('reads the numbers of orders in %j', (text, numbers) =>
  expect(readOrderNumbers(text)).toEqual(numbers),
);

test('reads a text of a megabyte in a moment, however it is written', () => {
  const begun = performance.now();
  for (const piece of ['J', 'JJ', 'JJ-2026', 'ORD', 'ORD - ', '20261126', '- ', 'OIL1', 'ORDER NO ']) {
    readOrderNumbers(piece.repeat(1_000_000 / piece.length));
  }
  expect(performance.now() - begun).toBeLessThan(500);
});

test('trims a typed number and converts it to upper case', () => {
  expect(normaliseTrackingNumber(' jj-20261121-1234\n')).toBe('JJ-20261121-1234');
  expect(normaliseTrackingNumber('   ')).toBe('');
  expect(normaliseTrackingNumber(' no number ')).toBe('NO NUMBER');
});

test.each([
  'JJ-20261121-1234',
  'JJ 20261121 1234',
  'jj202611211234',
  'JJ_20261121_1234',
  '20261121-1234',
  'JJ\u201320261121\u20131234',
  '\u200bJJ-20261121-1234\u200b',
  'https://jani.example/track-order/JJ-20261121-1234?key=0123456789abcdef0123456789abcdef',
  'https://jani.example/t/20261121-1234-AAECAwQFBgcICQoLDA0ODw',
  'Your order JJ-20261121-1234 is on its way.',
  'JJ2611211234',
  'ORD-1060, JJ2611211234',
])('reads JJ-20261121-1234 from %j', (typed) =>
  expect(normaliseTrackingNumber(typed)).toBe('JJ-20261121-1234'),
);

test.each([' ord 1060', 'Order no. 1060', 'about ORD-1060.'])('reads ORD-1060 from %j', (typed) =>
  expect(normaliseTrackingNumber(typed)).toBe('ORD-1060'),
);

test.each(['JJ-2026112-1234', 'JJ-20261121-123', 'XJJ-20261121-1234567', '0123456789abcdef0123456789abcdef'])(
  'finds no tracking number in %j',
  (typed) => expect(normaliseTrackingNumber(typed)).toBe(typed.toUpperCase()),
);

test.each([
  ['ORD-1003', 'ORD-1003 is an order number.'],
  ['0712 345 678', 'That is a phone number.'],
  ['UKNTHGX0GL', 'That looks like an M-PESA receipt.'],
  ['1234', 'That is only a part of the number.'],
  ['JJ-20261121-1234', null],
  ['WATERMELON', null],
])('%j is recognised as another number: %j', (text, description) =>
  expect(describeOtherNumber(text)).toBe(description),
);

test.each([
  ['Where is JJ-20261121-1234?', [['JJ-20261121-1234', 'JJ-20261121-1234']]],
  [
    'jj 20261121 1234 and JJ261121-65432.',
    [
      ['JJ-20261121-1234', 'jj 20261121 1234'],
      ['JJ-20261121-65432', 'JJ261121-65432'],
    ],
  ],
  [`${'Long. '.repeat(200)}ẞJJ-20261121-1234`, [['JJ-20261121-1234', 'JJ-20261121-1234']]],
  ['On 2026-11-21 1400 I paid 20261121 1234, order 1500, XJJ-20261121-1234, JJ-20261321-1234', []],
])('finds the tracking numbers of %j with their places', (text, expected) => {
  expect(findTrackingNumbers(text).map(({ number, start, end }) => [number, text.slice(start, end)])).toEqual(
    expected,
  );
});

test('the account reference for M-PESA has at most twelve characters', () => {
  expect(accountReference('JJ-20261121-1234')).toBe('JJ2611211234');
  expect(accountReference('JJ-20261121-12345')).toBe('26112112345');
});
