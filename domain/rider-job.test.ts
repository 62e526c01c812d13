import { expect, test } from 'vitest';
import { describeJob } from './rider-job.ts';

const order = {
  order_number: 'ORD-1042',
  customer_name: 'Amina Kamau',
  customer_phone: '+254712345678',
  shipping_address: 'Westlands, Building: Delta',
  city: 'Nairobi',
  delivery_notes: 'Allergic to hibiscus',
  order_items: [{ quantity: 2, product_name: 'Mango' }],
};

test('names place, drinks, notes and the cash to collect', () => {
  expect(describeJob(order, 71_100, 'Call at the gate')).toBe(
    [
      'ORD-1042 for Amina Kamau, 0712 345 678',
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
  const text = describeJob({ ...order, delivery_notes: null }, null, null);
  expect(text).toContain('\nPAID\n');
  expect(text).not.toContain('Note');
});
