import { expect, test } from 'vitest';
import {
  type AreaForm,
  type AreaRow,
  checkArea,
  describeArea,
  describeEstimate,
  estimatesByArea,
  formOf,
  moved,
  suggestedMinutes,
  toColumns,
  typedPromise,
} from './area-values.ts';

const karen: AreaRow = {
  id: 'karen',
  name: 'Karen',
  spellings: ['The Hub', 'Hardy'],
  fee_cents: 35_000,
  promise_from_minutes: 30,
  promise_to_minutes: 90,
  needs_agreement: false,
  is_active: true,
  position: 6,
  created_at: '2026-11-29T00:00:00Z',
  updated_at: '2026-11-29T00:00:00Z',
};
const form: AreaForm = formOf(karen);

test('reads and writes the same area', () => {
  expect(form).toEqual({
    name: 'Karen',
    pricing: 'own',
    fee: '350',
    from: '30',
    to: '90',
    spellings: 'The Hub, Hardy',
  });
  const { name, spellings, fee_cents, promise_from_minutes, promise_to_minutes, needs_agreement } = karen;
  expect(toColumns(form, karen)).toEqual({
    name,
    spellings,
    fee_cents,
    promise_from_minutes,
    promise_to_minutes,
    needs_agreement,
  });
});

test('a new area begins with the fee and the promise of the shop', () => {
  expect(checkArea({ ...formOf(null), name: 'Rongai' })).toEqual({});
  expect(toColumns({ ...formOf(null), name: ' Rongai ' }, null)).toMatchObject({
    name: 'Rongai',
    fee_cents: null,
    promise_from_minutes: 15,
    promise_to_minutes: 60,
    needs_agreement: false,
  });
});

test('an area whose fee is agreed keeps its own for later', () => {
  expect(toColumns({ ...form, pricing: 'agreed', from: 'x' }, karen)).toMatchObject({
    needs_agreement: true,
    fee_cents: 35_000,
    promise_to_minutes: 90,
  });
  expect(checkArea({ ...form, pricing: 'agreed', from: 'x', fee: '' })).toEqual({});
});

test.each<[Partial<AreaForm>, Partial<Record<keyof AreaForm, string>>]>([
  [{ name: ' ' }, { name: 'A name has 2 to 60 characters' }],
  [{ fee: '' }, { fee: 'A fee is whole shillings. 0 means free' }],
  [{ fee: '1.5' }, { fee: 'A fee is whole shillings. 0 means free' }],
  [{ from: '0' }, { from: 'Whole minutes, from 1 to 40,320 (four weeks)' }],
  [{ to: '20' }, { to: 'This is less than the earliest' }],
  [
    { spellings: 'x'.repeat(61) },
    { spellings: 'Each name has at most 60 characters: separate them with commas' },
  ],
])('reports the problem of %o', (change, problems) =>
  expect(checkArea({ ...form, ...change })).toEqual(problems),
);

test('accepts a free delivery', () => {
  expect(checkArea({ ...form, fee: '0' })).toEqual({});
  expect(toColumns({ ...form, fee: '0' }, karen).fee_cents).toBe(0);
});

test('says what an area costs and promises', () => {
  expect(describeArea(karen, 20_000)).toBe('KES 350 · 30-90 minutes');
  expect(describeArea({ ...karen, fee_cents: null }, 20_000)).toBe('KES 200, as the shop · 30-90 minutes');
  expect(describeArea({ ...karen, fee_cents: 0 }, 20_000)).toBe('Free · 30-90 minutes');
  expect(describeArea({ ...karen, needs_agreement: true }, 0)).toBe('Fee and day agreed with each customer');
  expect(typedPromise({ from: '1440', to: '4320' })).toBe('1-3 days');
  expect(typedPromise({ from: '60', to: '30' })).toBeNull();
});

test('moves an area within its list', () => {
  expect(moved(['a', 'b', 'c'], 0, 2)).toEqual(['b', 'c', 'a']);
  expect(moved(['a', 'b', 'c'], 2, 0)).toEqual(['c', 'a', 'b']);
  expect(moved(['a', 'b', 'c'], 1, 9)).toEqual(['a', 'c', 'b']);
  expect(moved(['a', 'b', 'c'], 0, -1)).toEqual(['a', 'b', 'c']);
});

test('describes what deliveries took, with the slowest hour where it is slower', () => {
  const row = (hour: number | null, p90_minutes: number, area_id = 'karen') => ({
    area_id,
    hour: hour as number,
    deliveries: 24,
    median_minutes: 38,
    p90_minutes,
  });
  const estimates = estimatesByArea([
    row(18, 70),
    row(null, 52),
    row(9, 60),
    row(null, 40, 'runda'),
    row(8, 39, 'runda'),
  ]);
  const [karen, runda] = [estimates.get('karen'), estimates.get('runda')];
  expect(karen && describeEstimate(karen)).toBe(
    'Took 38 minutes, 9 of 10 up to 52 (24 deliveries in 30 days). Slowest from 18:00: 70',
  );
  expect(runda && describeEstimate(runda)).toBe(
    'Took 38 minutes, 9 of 10 up to 40 (24 deliveries in 30 days)',
  );
  expect([karen && suggestedMinutes(karen), runda && suggestedMinutes(runda)]).toEqual([55, 40]);
  expect(estimates.get('langata')).toBeUndefined();
});
