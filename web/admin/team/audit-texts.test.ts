import { expect, test } from 'vitest';
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
  expect(describeKind({ area: 'team', kind: 'new_kind' })).toBe('new_kind');
});
