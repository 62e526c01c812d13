import { expect, test } from 'vitest';
import { plainText, textLength } from './text-message.ts';

test.each([
  ['Wanjirũ wa Ngũgĩ', 'Wanjiru wa Ngugi'],
  ['José’s “Mango” – 2 × …', 'José\'s "Mango" - 2 x ...'],
  ['KSh\u00a01,234.00', 'KSh 1,234.00'],
  ['Ñandú Ü €5 [x]', 'Ñandu Ü €5 [x]'],
  ['茶 🍹', '茶 🍹'],
])('converts %s to %s', (text, written) => expect(plainText(text)).toBe(written));

test('a text in the GSM alphabet has 160 positions, and some characters take two', () => {
  expect(textLength('a'.repeat(160))).toEqual({ positions: 160, limit: 160, parts: 1 });
  expect(textLength('a'.repeat(161))).toEqual({ positions: 161, limit: 160, parts: 2 });
  expect(textLength('[€]')).toEqual({ positions: 6, limit: 160, parts: 1 });
  expect(textLength('a'.repeat(307)).parts).toBe(3);
});

test('one character outside the GSM alphabet reduces the limit to 70', () => {
  expect(textLength('ũ'.repeat(70))).toEqual({ positions: 70, limit: 70, parts: 1 });
  expect(textLength(`${'a'.repeat(70)}ũ`).parts).toBe(2);
  expect(textLength('🍹').positions).toBe(2);
});
