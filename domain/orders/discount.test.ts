import { expect, test } from 'vitest';
import { describeDiscount, discountOn, readTerms } from './discount.ts';

const terms = { code: 'JANI10', percent: null, amount_cents: null, minimum_cents: 0 };

test.each([
  ['a percentage', { percent: 10 }, 95_000, 10_000, 9_500],
  ['a percentage, up to whole shillings', { percent: 10 }, 95_500, 10_000, 9_600],
  ['an amount', { amount_cents: 20_000 }, 95_000, 10_000, 20_000],
  ['at most what the drinks cost', { amount_cents: 200_000 }, 95_000, 10_000, 95_000],
  ['all but one shilling where nothing else is to pay', { percent: 100 }, 95_000, 0, 94_900],
  ['nothing of a drink for one shilling', { percent: 100 }, 100, 0, 0],
  ['nothing of a free drink', { amount_cents: 100 }, 0, 0, 0],
  ['nothing below the minimum', { percent: 10, minimum_cents: 95_001 }, 95_000, 10_000, 0],
  ['from the minimum on', { percent: 10, minimum_cents: 95_000 }, 95_000, 10_000, 9_500],
])('takes off %s', (_, given, drinks, fee, expected) => {
  expect(discountOn({ ...terms, ...given }, drinks, fee)).toBe(expected);
});

test.each([
  ['a percentage', { ...terms, percent: 10 }],
  ['an amount', { ...terms, amount_cents: 20_000, minimum_cents: 100 }],
])('reads the discount of %s', (_, given) => {
  expect(readTerms({ ...given, more: 'of a later version' })).toEqual(given);
});

test.each([
  ['nothing', null],
  ['a text', 'JANI10'],
  ['a refusal', { code: 'PT409', details: 'discount_invalid' }],
  ['neither', terms],
  ['both', { ...terms, percent: 10, amount_cents: 100 }],
  ['a text as percentage', { ...terms, percent: '10' }],
  ['no code', { ...terms, percent: 10, code: undefined }],
])('reads no discount of %s', (_, given) => {
  expect(readTerms(given)).toBeNull();
});

test('names the code only to who may see it', () => {
  expect(describeDiscount('JANI10')).toBe('Discount (JANI10)');
  expect(describeDiscount(null)).toBe('Discount');
});
