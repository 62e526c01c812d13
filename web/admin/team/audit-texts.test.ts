import { expect, test } from 'vitest';
import type { Json } from '../../../supabase/types.ts';
import { describeKind, describeSubject, describeValues } from './audit-texts.ts';

test('a change says what differs, in words', () => {
  expect(
    describeValues({
      before: { role: 'staff', is_active: true, name: '' },
      after: { role: 'counter', is_active: false, name: 'Njeri' },
    }),
  ).toEqual(['Role: Staff to Counter', 'Access: yes to no', 'Name: none to Njeri']);
  expect(describeValues({ before: { price: 95_000 }, after: { price: 99_000 } })).toEqual([
    'Price: KES 950 to KES 990',
  ]);
  expect(describeValues({ before: { till_number: '' }, after: { till_number: '123456' } })).toHaveLength(1);
});

test('what begins or ends shows its values once, without those that are empty', () => {
  expect(describeValues({ before: null, after: { refund: 190_100, reason: 'Broken', alone: null } })).toEqual(
    ['Amount: KES 1,901', 'Reason: Broken'],
  );
  expect(describeValues({ before: { role: 'owner' }, after: null })).toEqual(['Role: Owner']);
  expect(describeValues({ before: null, after: null })).toEqual([]);
});

test('of long texts it shows the part that differs, and of codes amounts and days', () => {
  const text = (word: string) =>
    `Habari, ${'we deliver every day. '.repeat(10)}Call ${word} before ten. ${'Asante. '.repeat(10)}`;
  const body = { before: { body: text('us') }, after: { body: text('the shop') } };
  const [shown = ''] = describeValues(body);
  expect(shown).toBe('Text: …Call us… to …Call the shop…');
  const all = {
    percent: 10,
    amount_cents: null,
    minimum_cents: 50_000,
    starts_at: '2026-11-21T09:00:00Z',
    is_active: true,
  };
  expect(describeValues({ kind: 'discount_code_added', before: null, after: all })).toEqual([
    'Percent off: 10',
    'From: KES 500',
    expect.stringMatching(/^Starts: .*2026/),
  ]);
});

test('a message is named with its way, everything else as it is', () => {
  expect(describeSubject({ kind: 'message_template_changed', subject: 'order_paid, mail' })).toBe(
    'Payment received, email',
  );
  expect(describeSubject({ kind: 'message_template_changed', subject: 'later_kind, text' })).toBe(
    'later_kind, text',
  );
  expect(describeSubject({ kind: 'discount_code_added', subject: 'JANI10' })).toBe('JANI10');
});

test('what is added is in use, unless it says otherwise', () => {
  expect(describeValues({ before: null, after: { role: 'owner', is_active: true } })).toEqual([
    'Role: Owner',
  ]);
  expect(describeValues({ before: null, after: { is_active: false } })).toEqual(['Access: no']);
});

test('a kind has words, and an unknown one of a later version shows itself', () => {
  expect(describeKind({ area: 'team', kind: 'second_factor_reset' })).toBe('Second factor reset');
  expect(describeKind({ area: 'reconciliation', kind: 'accepted' })).not.toBe('accepted');
  expect(describeKind({ area: 'pauses', kind: 'orders_paused' })).toBe('Orders paused');
  expect(describeKind({ area: 'team', kind: 'new_kind' })).toBe('new_kind');
});

test('of a product it shows files by their names, amounts, moments and sections', () => {
  const change = (before: Record<string, Json>, after: Record<string, Json>) =>
    describeValues({ kind: 'product_changed', before, after });
  expect(change({ is_active: true }, { is_active: false })).toEqual(['Active: yes to no']);
  expect(change({ image_url: null }, { image_url: 'https://images.example/products/mango.webp' })).toEqual([
    'Image: none to mango.webp',
  ]);
  expect(change({ more_images: ['/a/1.webp', '/a/2.webp'] }, { more_images: [] })).toEqual([
    'More images: 1.webp, 2.webp to none',
  ]);
  expect(change({ previous_price: 120_000 }, { previous_price: null })).toEqual([
    'Before offer: KES 1,200 to none',
  ]);
  expect(change({ home_section: null }, { home_section: 'top_picks' })).toEqual([
    'Home page: none to Top Picks',
  ]);
  expect(change({ sold_out_until: null }, { sold_out_until: '2026-11-21T09:00:00Z' })).toEqual([
    expect.stringMatching(/^Sold out until: none to .*2026/),
  ]);
  expect(change({ keeps: null }, { keeps: '3 days' })).toEqual(['Keeps: none to 3 days']);
  const added = { name: 'Mango', price: 95_000, is_active: true, more_images: [], tagline: null };
  expect(describeValues({ kind: 'product_added', before: null, after: added })).toEqual([
    'Name: Mango',
    'Price: KES 950',
  ]);
});

test('a closed day shows its date and the difference of the cash, a pause its reason and end', () => {
  expect(describeSubject({ kind: 'day_closed', subject: '2026-11-21' })).toMatch(/November 21, 2026/);
  expect(
    describeValues({ kind: 'day_closed', before: null, after: { difference: -1_100, note: null } }),
  ).toEqual(['Difference in cash: KES -11']);
  expect(
    describeValues({ kind: 'orders_paused', before: null, after: { reason: 'Heavy rain', until: null } }),
  ).toEqual(['Reason: Heavy rain']);
});
