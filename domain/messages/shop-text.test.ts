import { describe, expect, test } from 'vitest';
import { checkShopText, describeMonths, fillShopText, shopTextPlaceholders } from './shop-text.ts';

const facts = {
  store_name: 'Jani Juice',
  support_phone: '+254700000000',
  support_email: 'hello@jani.example',
  delivery_fee: 100,
  order_details_months: 24,
  inquiries_months: 12,
  payment_messages_months: 18,
};

test('replaces placeholders by settings', () => {
  expect(
    fillShopText(
      '{shop}: {delivery_fee}, {order_details_kept}, {inquiries_kept}, {payment_messages_kept}',
      facts,
    ),
  ).toBe('Jani Juice: KSh 1.00, 2 years, 1 year, 18 months');
  expect(fillShopText('{delivery_fee}', { ...facts, delivery_fee: 0 })).toBe('free');
  const lowest = (delivery_fee: number) =>
    fillShopText('{delivery_fee}', { ...facts, delivery_fee, has_other_fees: true });
  expect([lowest(100), lowest(0)]).toEqual(['from KSh 1.00', 'free in some areas']);
});

test('phone and email become links', () => {
  expect(fillShopText('{phone} {email}', facts)).toBe(
    '[0700 000 000](tel:\\+254700000000) [hello\\@jani\\.example](mailto:hello\\@jani\\.example)',
  );
});

test('a value is plain text in Markdown', () => {
  expect(fillShopText('{shop}', { ...facts, store_name: '**J** [x](/y) <b> {email}' })).toBe(
    '\\*\\*J\\*\\* \\[x\\]\\(\\/y\\) \\<b\\> \\{email\\}',
  );
});

test('does not change an unknown placeholder', () => {
  expect(fillShopText('{toString} {fee}', facts)).toBe('{toString} {fee}');
});

test.each([
  [1, '1 month'],
  [11, '11 months'],
  [12, '1 year'],
  [18, '18 months'],
  [24, '2 years'],
])('formats %d months as "%s"', (months, words) => expect(describeMonths(months)).toBe(words));

describe('a text', () => {
  const good = { title: 'Terms', body: 'Be kind' };
  test('may use every placeholder', () => {
    const body = Object.keys(shopTextPlaceholders)
      .map((name) => `{${name}}`)
      .join(' ');
    expect(checkShopText({ ...good, body })).toEqual({});
  });

  test.each([
    [{ ...good, title: ' ' }, { title: 'A text needs a title' }],
    [{ ...good, title: 'a'.repeat(81) }, { title: 'At most 80 characters' }],
    [{ ...good, body: ' \n' }, { body: 'A text needs words' }],
    [{ ...good, body: 'a'.repeat(20_001) }, { body: 'At most 20,000 characters' }],
    [{ ...good, body: 'Call {fone}' }, { body: 'There is no placeholder {fone}' }],
  ])('%#: is rejected with its reason', (text, problems) => expect(checkShopText(text)).toEqual(problems));
});
