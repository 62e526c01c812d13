import { expect, test } from 'vitest';
import { describeKind, describeValues } from './audit-texts.ts';

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

test('a kind has words, and an unknown one of a later version shows itself', () => {
  expect(describeKind({ area: 'team', kind: 'second_factor_reset' })).toBe('Second factor reset');
  expect(describeKind({ area: 'reconciliation', kind: 'accepted' })).not.toBe('accepted');
  expect(describeKind({ area: 'team', kind: 'new_kind' })).toBe('new_kind');
});
