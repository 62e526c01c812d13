import fc from 'fast-check';
import { expect, test } from 'vitest';
import { bridgesOf, type DayTotals } from './day-bridge.ts';

const cents = fc.integer({ min: -10_000_000, max: 10_000_000 });
/** Steps as `day_totals` returns them; its totals are their sums. */
const totals = fc
  .record({
    placed: cents,
    rounding: cents,
    not_paid: fc.oneof(cents, fc.constant(0)),
    paid_otherwise: fc.oneof(cents, fc.constant(0)),
    other_amounts: fc.oneof(cents, fc.constant(0)),
    paid_other_days: fc.oneof(cents, fc.constant(0)),
    placed_other_days: fc.oneof(cents, fc.constant(0)),
    refunded: fc.oneof(cents, fc.constant(0)),
    other_clock: fc.oneof(cents, fc.constant(0)),
  })
  .map((steps): DayTotals => {
    const received_for_orders =
      steps.placed + steps.rounding + steps.not_paid + steps.paid_otherwise + steps.other_amounts;
    const received = received_for_orders + steps.paid_other_days + steps.placed_other_days;
    return {
      ...steps,
      received_for_orders,
      received,
      net_received: received + steps.refunded,
      booked: received + steps.other_clock,
      delivery_fees: 0,
      in_review: 0,
    };
  });

test('each total is the one before it and the steps between them, for any amounts', () => {
  fc.assert(
    fc.property(totals, (given) => {
      for (const { lines } of bridgesOf(given)) {
        expect(lines[0]?.isTotal).toBe(true);
        expect(lines.at(-1)?.isTotal).toBe(true);
        lines.reduce((sum, line) => {
          if (line.isTotal) expect(line.cents).toBe(sum);
          return line.isTotal ? line.cents : sum + line.cents;
        }, lines[0]?.cents ?? 0);
      }
    }),
  );
});

test('a day without differences shows its totals only', () => {
  const day = { ...(fc.sample(totals, 1)[0] as DayTotals) };
  for (const step of Object.keys(day) as (keyof DayTotals)[]) day[step] = 0;
  expect(
    bridgesOf(day)
      .flatMap(({ lines }) => lines)
      .every(({ isTotal }) => isTotal),
  ).toBe(true);
});
