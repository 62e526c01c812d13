// Every state that the database allows has a label for staff.
import { readdir, readFile } from 'node:fs/promises';
import { describe, expect, test } from 'vitest';
import {
  deliveryStatusLabels,
  describePaymentOfOrder,
  labelOfPayment,
  labelOfStatus,
  orderStatusLabels,
  paymentLabels,
  paymentStatusLabels,
} from '../../../domain/staff-labels.ts';

const folder = new URL('../../schemas/', import.meta.url);
const schemas = (
  await Promise.all((await readdir(folder)).map((name) => readFile(new URL(name, folder), 'utf8')))
).join('\n');

/** The values that a check allows for a column of a table. */
function allowedIn(table: string, column: string): string[] {
  const [, definition = ''] =
    new RegExp(`create table public\\.${table} \\(\\n([\\s\\S]*?)\\n\\);`).exec(schemas) ?? [];
  const [, values = ''] = new RegExp(`check \\(${column} in \\(([^)]*)\\)\\)`).exec(definition) ?? [];
  return [...values.matchAll(/'([a-z_]+)'/g)].map(([, value = '']) => value).sort();
}

test.each([
  ['orders', 'status', orderStatusLabels],
  ['orders', 'payment_status', paymentStatusLabels],
  ['deliveries', 'delivery_status', deliveryStatusLabels],
  ['payments', 'status', paymentLabels],
])('of %s, every %s has a label, and no other', (table, column, labels) => {
  expect(allowedIn(table, column)).not.toEqual([]);
  expect(Object.keys(labels).sort()).toEqual(allowedIn(table, column));
});

test('one word has one label, whatever it is a status of', () => {
  const tables = [orderStatusLabels, deliveryStatusLabels, paymentStatusLabels];
  for (const labels of tables) {
    for (const [status, label] of Object.entries(labels))
      expect(labelOfStatus(status as never)).toEqual(label);
  }
});

describe('whether an order is paid', () => {
  const inReview = [{ status: 'failed' }, { status: 'review' }] as const;
  test.each([
    // status, payment status, payments, label, tone
    ['pending', 'unpaid', [], 'Unpaid', 'yellow'],
    ['cancelled', 'unpaid', [], 'Unpaid', 'grey'],
    ['pending', 'unpaid', inReview, 'Needs review', 'red'],
    ['cancelled', 'unpaid', inReview, 'Needs review', 'red'],
    ['shipped', 'unpaid', [], 'Unpaid', 'yellow'],
    ['processing', 'paid', [], 'Paid', 'green'],
    ['processing', 'paid', inReview, 'Paid', 'green'],
    ['cancelled', 'paid', [], 'Refund due', 'red'],
    ['pending', 'needs_review', [], 'Needs review', 'red'],
    ['cancelled', 'needs_review', [], 'Needs review', 'red'],
    ['cancelled', 'refunded', [], 'Refunded', 'grey'],
    ['delivered', 'refunded', [], 'Refunded', 'grey'],
  ] as const)('%s and %s, payments %j: %s', (status, payment_status, payments, text, tone) => {
    expect(describePaymentOfOrder({ status, payment_status, payments })).toEqual({ text, tone });
  });
});

test.each(['a_new_state', 'constructor', '__proto__'])(
  'a state of a newer shop is shown in words: %s',
  (status) => {
    expect(labelOfStatus(status as never)).toMatchObject({ tone: 'grey' });
    expect(labelOfPayment(status as never)).toMatchObject({ tone: 'grey' });
  },
);
