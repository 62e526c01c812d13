// Settlement of messages: the rows of the table in docs/decisions/payments.md, by their names.
import { readFile } from 'node:fs/promises';
import { expect, test } from 'vitest';
import { setUpShop } from '../steps.ts';

const orderId = 'a0000000-0000-4000-8000-000000000001';
const otherOrderId = 'a0000000-0000-4000-8000-000000000002';

/** A prompt for KSh 951 without a result. */
const prompted = {
  id: 'b0000000-0000-4000-8000-000000000001',
  order_id: orderId as string | null,
  purpose: 'order',
  charge_cents: 95_100,
  status: 'processing',
  method: 'prompt',
  receipt: null,
  presumption: null,
  checkout_request_id: 'ws_1',
};
const paid = { ...prompted, status: 'completed', receipt: 'UKL1' };
/** Paid by presumption: matched only by the payer's reference. */
const presumed = { ...paid, presumption: 'attempt' };
/** A separate payment with the receipt of the message, entered by staff. */
const byHand = {
  ...prompted,
  id: 'b0000000-0000-4000-8000-000000000002',
  method: 'till',
  status: 'completed',
  receipt: 'UKL2',
};

const openTest = { ...prompted, order_id: null, purpose: 'test', charge_cents: 100 };
const paidTest = { ...openTest, status: 'completed', receipt: 'UKL1' };

const success = {
  source: 'callback',
  result: 'succeeded',
  result_code: '0',
  received_cents: 95_100,
  receipt: 'UKL2',
  checkout_request_id: 'ws_1',
};
const failure = { ...success, result: 'failed', result_code: '1032', received_cents: null, receipt: null };
const query = { ...success, source: 'query', received_cents: null, receipt: null };
/** In review, because a message said that it failed and named money. */
const contradicted = { ...prompted, status: 'review', review_cause: 'contradiction' };

interface Facts {
  attempt: object;
  report: object;
  owner?: object;
  isOtherRequest?: boolean;
  attemptGoesBack?: boolean;
  ownerGoesBack?: boolean;
}

const rows: [title: string, facts: Facts, decision: string, splitsReceipt?: boolean][] = [
  [
    'the request id is another attempt’s',
    { attempt: prompted, report: success, isOtherRequest: true },
    'other_request',
  ],
  ['M-PESA has not decided', { attempt: prompted, report: { ...query, result: 'pending' } }, 'pending'],
  ['a failure of an open attempt', { attempt: prompted, report: failure }, 'failed'],
  [
    'a failure of an unresolved attempt',
    { attempt: { ...prompted, status: 'unresolved' }, report: failure },
    'failed',
  ],
  [
    'a failure of an attempt that is paid by presumption',
    { attempt: presumed, report: failure },
    'failed',
    true,
  ],
  [
    'a failure of an attempt whose presumed money goes back',
    { attempt: presumed, report: failure, attemptGoesBack: true },
    'superseded',
  ],
  ['a failure of a paid attempt', { attempt: paid, report: failure }, 'superseded'],
  [
    'a failure of a failed attempt',
    { attempt: { ...prompted, status: 'failed' }, report: failure },
    'superseded',
  ],
  [
    'a failure of an attempt in review',
    { attempt: { ...prompted, status: 'review' }, report: failure },
    'superseded',
  ],
  [
    'a failure that names amount and receipt, of an open attempt',
    { attempt: prompted, report: { ...failure, received_cents: 95_100, receipt: 'UKL2' } },
    'contradiction',
  ],
  [
    'a failure that names an amount only',
    { attempt: prompted, report: { ...failure, received_cents: 95_100 } },
    'contradiction',
  ],
  [
    'a failure that names a receipt only',
    { attempt: prompted, report: { ...failure, receipt: 'UKL2' } },
    'contradiction',
  ],
  [
    'a failure whose amount or receipt cannot be read',
    { attempt: prompted, report: { ...failure, unreadable: ['amount'] } },
    'contradiction',
  ],
  [
    'no known result, but money, for an open attempt',
    { attempt: prompted, report: { ...success, result: 'pending', result_code: '00' } },
    'contradiction',
  ],
  [
    'a failure that names money, of a failed attempt',
    { attempt: { ...prompted, status: 'failed' }, report: { ...failure, receipt: 'UKL2' } },
    'contradiction',
  ],
  [
    'an answer to a query that fails and names money',
    { attempt: prompted, report: { ...query, result: 'failed', result_code: '1032', receipt: 'UKL2' } },
    'contradiction',
  ],
  [
    'a failure that names another amount',
    { attempt: prompted, report: { ...failure, received_cents: 100, receipt: 'UKL2' } },
    'wrong_amount',
  ],
  [
    'a failure that names money, of a paid attempt',
    { attempt: paid, report: { ...failure, received_cents: 95_100, receipt: 'UKL2' } },
    'superseded',
  ],
  [
    'a failure that names money, of an attempt that is paid by presumption',
    { attempt: presumed, report: { ...failure, received_cents: 95_100, receipt: 'UKL2' } },
    'superseded',
  ],
  [
    'a failure that names the receipt of another payment',
    { attempt: prompted, report: { ...failure, receipt: 'UKL2' }, owner: byHand },
    'receipt_replayed',
  ],
  [
    'an answer to a query that succeeds, after a contradiction',
    { attempt: contradicted, report: query },
    'completes',
  ],
  [
    'an answer to a query that fails, after a contradiction',
    { attempt: contradicted, report: { ...query, result: 'failed', result_code: '1032' } },
    'superseded',
  ],
  [
    'a success with the charged amount, after a contradiction',
    { attempt: contradicted, report: success },
    'completes',
  ],
  [
    'another amount for an open attempt',
    { attempt: prompted, report: { ...success, received_cents: 100 } },
    'wrong_amount',
  ],
  [
    'no amount in a callback',
    { attempt: prompted, report: { ...success, received_cents: null } },
    'wrong_amount',
  ],
  [
    'another amount for a paid attempt',
    { attempt: paid, report: { ...success, received_cents: 100 } },
    'superseded',
  ],
  [
    'a query of an attempt in review',
    { attempt: { ...prompted, status: 'review', review_cause: 'wrong_amount' }, report: query },
    'needs_review',
  ],
  [
    'the receipt of another order',
    { attempt: prompted, report: success, owner: { ...byHand, order_id: otherOrderId } },
    'receipt_replayed',
  ],
  [
    'the proven receipt of another prompt',
    { attempt: prompted, report: success, owner: { ...byHand, method: 'prompt' } },
    'receipt_replayed',
  ],
  [
    'the receipt of a payment test',
    { attempt: prompted, report: success, owner: { ...paidTest, id: byHand.id, receipt: 'UKL2' } },
    'receipt_replayed',
  ],
  [
    'the receipt of an order’s payment, for a payment test',
    { attempt: openTest, report: { ...success, received_cents: 100 }, owner: byHand },
    'receipt_replayed',
  ],
  [
    'a receipt that goes back with another prompt',
    {
      attempt: prompted,
      report: success,
      owner: { ...byHand, method: 'prompt', presumption: 'receipt' },
      ownerGoesBack: true,
    },
    'already_completed',
  ],
  [
    'a receipt typed by staff, for a paid attempt',
    { attempt: paid, report: success, owner: byHand },
    'already_completed',
  ],
  [
    'a receipt typed by staff, for an open attempt',
    { attempt: prompted, report: success, owner: byHand },
    'confirmed_by_hand',
  ],
  [
    'a receipt typed by staff, for an attempt that is paid by presumption',
    { attempt: presumed, report: success, owner: byHand },
    'confirmed_by_hand',
    true,
  ],
  [
    'a second receipt for a paid payment test',
    { attempt: paidTest, report: { ...success, received_cents: 100 } },
    'already_completed',
  ],
  ['a second receipt for a paid attempt', { attempt: paid, report: success }, 'paid_twice'],
  [
    'a second receipt under a reference, for an attempt that is paid by presumption',
    { attempt: presumed, report: { ...success, source: 'confirmation', checkout_request_id: null } },
    'paid_twice',
  ],
  ['the same success again', { attempt: paid, report: { ...success, receipt: 'UKL1' } }, 'adds_details'],
  [
    'another receipt for an attempt whose receipt is presumed',
    { attempt: { ...paid, presumption: 'receipt' }, report: success },
    'adds_details',
    true,
  ],
  ['a success of an open attempt', { attempt: prompted, report: success }, 'completes'],
  [
    'a success of a failed attempt',
    { attempt: { ...prompted, status: 'failed' }, report: success },
    'completes',
  ],
  [
    'another receipt for an attempt that is paid by presumption',
    { attempt: presumed, report: success },
    'completes',
    true,
  ],
];

const { database } = setUpShop('pglite');

test.each(rows)('%s', async (_, facts, decision, splitsReceipt = false) => {
  const { rows: answers } = await database.query<{ decision: string; splits_receipt: boolean }>(
    `select (private.decide_settlement(
       jsonb_populate_record(null::public.payments, $1), jsonb_populate_record(null::private.payment_report, $2),
       jsonb_populate_record(null::public.payments, $3), $4, $5, $6
     )).*`,
    [
      JSON.stringify(facts.attempt),
      JSON.stringify(facts.report),
      JSON.stringify(facts.owner ?? {}),
      facts.isOtherRequest ?? false,
      facts.attemptGoesBack ?? false,
      facts.ownerGoesBack ?? false,
    ],
  );
  expect(answers).toEqual([{ decision, splits_receipt: splitsReceipt }]);
});

test('the table in docs/decisions/payments.md has these rows', async () => {
  const text = await readFile(new URL('../../../docs/decisions/payments.md', import.meta.url), 'utf8');
  const documented = [...text.matchAll(/^\| ([^|]+) \| `(\w+)` \|/gm)].map(([, title, decision]) => [
    title,
    decision,
  ]);
  expect(documented).toEqual(rows.map(([title, , decision]) => [title, decision]));
});
