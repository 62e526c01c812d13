import { expect, test } from 'vitest';
import {
  checkDiscount,
  type DiscountForm,
  type DiscountRow,
  describeConditions,
  describeValue,
  formOf,
  stateOf,
  toColumns,
} from './discount-values.ts';

const form: DiscountForm = { ...formOf(null), code: 'JANI10', value: '10' };
const row: DiscountRow = {
  id: '1',
  code: 'JANI10',
  percent: 10,
  amount_cents: null,
  minimum_cents: 0,
  starts_at: null,
  ends_at: null,
  max_uses: null,
  max_uses_per_phone: null,
  is_active: true,
  created_at: '2026-11-01T09:00:00Z',
  updated_at: '2026-11-01T09:00:00Z',
  uses: 0,
  waiting: 0,
  cost_cents: 0,
  sold_cents: 0,
  has_orders: false,
};

test('a new code is a percentage, once per phone, until it is changed', () => {
  expect(formOf(null)).toMatchObject({ kind: 'percent', maxUsesPerPhone: '1', code: '' });
  expect(toColumns(form, null)).toEqual({
    code: 'JANI10',
    percent: 10,
    amount_cents: null,
    minimum_cents: 0,
    starts_at: null,
    ends_at: null,
    max_uses: null,
    max_uses_per_phone: 1,
  });
});

test('days are whole days in Nairobi, the last one included', () => {
  const columns = toColumns({ ...form, firstDay: '2026-12-01', lastDay: '2026-12-31' }, null);
  expect(columns.starts_at).toBe('2026-12-01T00:00:00+03:00');
  expect(columns.ends_at).toBe('2027-01-01T00:00:00+03:00');
  const stored = { ...row, starts_at: '2026-11-30T21:00:00Z', ends_at: '2026-12-31T21:00:00Z' };
  expect(formOf(stored)).toMatchObject({ firstDay: '2026-12-01', lastDay: '2026-12-31' });
});

test('a day that was not changed keeps its exact time', () => {
  const stored = { ...row, ends_at: '2026-12-31T10:15:00Z' };
  expect(toColumns(formOf(stored), stored).ends_at).toBe(stored.ends_at);
  expect(toColumns({ ...formOf(stored), lastDay: '2026-12-30' }, stored).ends_at).toBe(
    '2026-12-31T00:00:00+03:00',
  );
  expect(toColumns({ ...formOf(stored), lastDay: '' }, stored).ends_at).toBeNull();
});

test('a code is stored without spaces, in capitals, and amounts in cents', () => {
  const columns = toColumns(
    { ...form, code: ' karibu 200', kind: 'amount', value: '200', minimum: '1000', maxUses: '50' },
    null,
  );
  expect(columns).toMatchObject({
    code: 'KARIBU200',
    percent: null,
    amount_cents: 20_000,
    minimum_cents: 100_000,
    max_uses: 50,
  });
});

test.each<[keyof DiscountForm, Partial<DiscountForm>]>([
  ['code', { code: '' }],
  ['code', { code: 'AB' }],
  ['code', { code: 'WITH_UNDERSCORE' }],
  ['code', { code: '-DASH' }],
  ['code', { code: 'A'.repeat(21) }],
  ['value', { value: '' }],
  ['value', { value: '0' }],
  ['value', { value: '101' }],
  ['value', { value: '12.5' }],
  ['value', { kind: 'amount', value: '0.50' }],
  ['value', { kind: 'amount', value: '100.50' }],
  ['value', { kind: 'amount', value: '1000001' }],
  ['minimum', { minimum: '99.50' }],
  ['value', { kind: 'amount', value: 'ten' }],
  ['minimum', { minimum: '-1' }],
  ['minimum', { minimum: 'much' }],
  ['lastDay', { firstDay: '2026-12-02', lastDay: '2026-12-01' }],
  ['maxUses', { maxUses: '0' }],
  ['maxUses', { maxUses: '1.5' }],
  ['maxUsesPerPhone', { maxUsesPerPhone: 'two' }],
])('refuses a wrong %s: %j', (field, wrong) => {
  expect(Object.keys(checkDiscount({ ...form, ...wrong }))).toEqual([field]);
});

test('accepts what is right', () => {
  expect(checkDiscount(form)).toEqual({});
  expect(checkDiscount({ ...form, firstDay: '2026-12-01', lastDay: '2026-12-01', maxUses: '1' })).toEqual({});
  expect(checkDiscount({ ...form, kind: 'amount', value: '1', minimum: '0' })).toEqual({});
  expect(checkDiscount(formOf(row))).toEqual({});
  expect(formOf({ ...row, uses: 3, updated_at: 'later' })).toEqual(formOf(row));
});

test('describes a code', () => {
  expect(describeValue(row)).toBe('10 % off');
  expect(describeValue({ ...row, percent: null, amount_cents: 20_000 })).toBe('KES 200 off');
  expect(describeConditions(row)).toBe('');
  expect(describeConditions({ ...row, minimum_cents: 100_000, max_uses_per_phone: 1 })).toBe(
    'drinks from KES 1,000 · once per phone',
  );
  expect(describeConditions({ ...row, max_uses_per_phone: 3, ends_at: '2026-12-31T21:00:00Z' })).toMatch(
    /^3 times per phone · until .*31.*2026|^3 times per phone · until .*2026.*31/,
  );
});

test.each<[string, Partial<DiscountRow>, boolean]>([
  ['Active', {}, true],
  ['Ended', { is_active: false }, false],
  ['Over', { ends_at: '2026-12-01T00:00:00Z' }, false],
  ['Active', { ends_at: '2026-12-01T00:00:01Z' }, true],
  ['Not yet', { starts_at: '2026-12-01T00:00:01Z' }, true],
  ['Used up', { max_uses: 2, uses: 2 }, false],
  ['Active', { max_uses: 2, uses: 1 }, true],
])('a code is %s: %j', (label, columns, isOpen) => {
  expect(stateOf({ ...row, ...columns }, Date.parse('2026-12-01T00:00:00Z'))).toMatchObject({
    label,
    isOpen,
  });
});
