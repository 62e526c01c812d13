import { expect, test } from 'vitest';
import { describeJob, joinJobs } from './rider-job.ts';

const now = Date.parse('2026-11-29T13:40:00+03:00');
const order = {
  order_number: 'ORD-1042',
  customer_name: 'Amina Kamau',
  customer_phone: '+254712345678',
  shipping_address: 'Westlands, Building: Delta',
  city: 'Nairobi',
  area_name: 'Westlands',
  map_point: null,
  delivery_notes: 'Allergic to hibiscus',
  promised_at: '2026-11-29T14:20:00+03:00',
  promised_again_at: null,
  order_items: [{ quantity: 2, product_name: 'Mango' }],
};

test('names promise, place, drinks, notes and the cash to collect', () => {
  expect(describeJob(order, 71_100, 'Call at the gate', now)).toBe(
    [
      'ORD-1042 for Amina Kamau, 0712 345 678',
      'By 14:20',
      'Westlands, Building: Delta, Nairobi',
      '2 x Mango',
      'Note: Allergic to hibiscus',
      'Note: Call at the gate',
      'Collect KSh 711.00 in cash',
      'https://www.google.com/maps/search/?api=1&query=Westlands%2C%20Building%3A%20Delta%2C%20Nairobi%2C%20Kenya',
    ].join('\n'),
  );
});

test('says that an order is paid, and leaves out notes that are not there', () => {
  const text = describeJob({ ...order, delivery_notes: null }, null, null, now);
  expect(text).toContain('\nPAID\n');
  expect(text).not.toContain('Note');
});

test('names the new time after a delay, and none without a promise', () => {
  const textOf = (changed: Partial<typeof order> | { promised_again_at: string }) =>
    describeJob({ ...order, ...changed }, null, null, now);
  expect(textOf({ promised_again_at: '2026-11-30T08:45:00+03:00' })).toContain('\nBy 08:45 tomorrow\n');
  expect(describeJob({ ...order, promised_at: null }, null, null, now)).not.toContain('By ');
});

test('names an area that the address does not, and links the point of the customer', () => {
  const text = describeJob(
    { ...order, area_name: 'Mombasa Road', map_point: '-1.29207,36.82195' },
    null,
    null,
    now,
  );
  expect(text).toContain('\nArea: Mombasa Road\n');
  expect(text).toContain('query=-1.29207%2C36.82195');
});

test('joins jobs to as few messages as fit into a link', () => {
  expect(joinJobs([])).toEqual([]);
  expect(joinJobs(['one', 'two'])).toEqual([{ text: 'one\n\ntwo', jobs: 2 }]);
  const jobs = Array.from({ length: 20 }, (_, index) => `${index} ${'x'.repeat(398)}`);
  const messages = joinJobs(jobs);
  expect(messages.map(({ jobs: count }) => count)).toEqual([7, 7, 6]);
  expect(messages.map(({ text }) => text).join('\n\n')).toBe(jobs.join('\n\n'));
});
