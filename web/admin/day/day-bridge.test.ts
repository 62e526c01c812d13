import fc from 'fast-check';
import { expect, test } from 'vitest';
import { bridgesOf, changesSince, type DayTotals } from './day-bridge.ts';

const day = '2026-11-28';
const cents = fc.integer({ min: -10_000_000, max: 10_000_000 });
const rare = fc.oneof(cents, fc.constant(0));
/** Steps as `day_totals` returns them; its totals are their sums. */
const totals = fc
  .record({
    placed: cents,
    rounding: cents,
    not_paid: rare,
    paid_with_credit: rare,
    paid_otherwise: rare,
    other_amounts: rare,
    paid_other_days: rare,
    by_prompt: cents,
    by_till: rare,
    in_cash: rare,
    refunded_by_mpesa: rare,
    refunded_by_hand: rare,
    refunded_in_cash: rare,
    kept: rare,
    other_clock: rare,
    missing_at_mpesa: rare,
    not_compared: rare,
    amounts_differ: rare,
    not_matched: rare,
    not_ours: rare,
    returned_unmatched: rare,
  })
  .map((steps): DayTotals => {
    const received = steps.by_prompt + steps.by_till + steps.in_cash;
    const refunded = steps.refunded_by_mpesa + steps.refunded_by_hand + steps.refunded_in_cash;
    const received_for_orders =
      steps.placed +
      steps.rounding +
      steps.not_paid +
      steps.paid_with_credit +
      steps.paid_otherwise +
      steps.other_amounts;
    const booked = received - steps.in_cash + steps.other_clock;
    return {
      ...steps,
      received,
      refunded,
      net_received: received + refunded,
      received_for_orders,
      placed_other_days: received - received_for_orders - steps.paid_other_days,
      booked,
      at_mpesa:
        booked +
        steps.missing_at_mpesa +
        steps.not_compared +
        steps.amounts_differ +
        steps.not_matched +
        steps.not_ours +
        steps.returned_unmatched,
      delivery_fees: 0,
      in_review: 0,
      discounts: 0,
    };
  });

test('each total is the one before it and the steps between them, for any amounts', () => {
  fc.assert(
    fc.property(totals, (given) => {
      for (const { lines } of bridgesOf(given, day)) {
        expect(lines.at(-1)?.isTotal).toBe(true);
        lines.reduce((sum, line, index) => {
          if (line.isTotal && index > 0) expect(line.cents).toBe(sum);
          return line.isTotal ? line.cents : sum + line.cents;
        }, 0);
      }
    }),
  );
});

test('each step and each total that staff see elsewhere links to its rows', () => {
  const all = fc.sample(totals, 1)[0] as DayTotals;
  const some = Object.fromEntries(Object.keys(all).map((step) => [step, 100])) as DayTotals;
  const lines = bridgesOf(some, day).flatMap((bridge) => bridge.lines);
  expect(lines.filter(({ isTotal, to }) => !isTotal && !to)).toEqual([]);
  expect(lines.length).toBeGreaterThan(25);
});

test('a step without an amount is left out, except how money comes in', () => {
  const none = { ...(fc.sample(totals, 1)[0] as DayTotals) };
  for (const step of Object.keys(none) as (keyof DayTotals)[]) none[step] = 0;
  expect(
    bridgesOf(none, day)
      .flatMap(({ lines }) => lines)
      .flatMap(({ label, isTotal }) => (isTotal ? [] : [label])),
  ).toEqual(['M-PESA prompts', 'Paid to the till', 'Cash']);
});

test('what changed since a day was closed is shown with both amounts, and nothing else', () => {
  const closed = fc.sample(totals, 1)[0] as DayTotals;
  expect(changesSince(closed, closed)).toEqual([]);
  expect(
    changesSince(closed, {
      ...closed,
      in_cash: closed.in_cash + 71_100,
      net_received: closed.net_received + 71_100,
    }),
  ).toEqual([
    { label: 'Cash', beforeCents: closed.in_cash, afterCents: closed.in_cash + 71_100 },
    {
      label: 'Money received',
      beforeCents: closed.net_received,
      afterCents: closed.net_received + 71_100,
    },
  ]);
  // An earlier version did not store it.
  expect(changesSince({ in_cash: closed.in_cash }, { ...closed, kept: closed.kept + 1 })).toEqual([]);
});
