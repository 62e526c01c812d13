import { expect, test } from 'vitest';
import {
  advancePayment,
  beginPayment,
  isCutOff,
  type PaymentEvent,
  type PaymentState,
  takesLong,
} from './payment-machine.ts';

const after = (state: PaymentState, ...events: PaymentEvent[]) => events.reduce(advancePayment, state);
const told = (status: string, resultCode: string | null = null): PaymentEvent => ({
  type: 'told',
  paymentReference: 'ws_CO_1',
  status,
  resultCode,
});
const pay: PaymentEvent = { type: 'pay' };
const initiated: PaymentEvent = { type: 'initiated', paymentReference: 'ws_CO_1' };
const waiting = after(beginPayment(null), pay, initiated);

test('a new payment is idle and one with an open prompt is processing', () => {
  expect(beginPayment(null).phase).toBe('idle');
  expect(beginPayment('ws_CO_1')).toMatchObject({ phase: 'processing', paymentReference: 'ws_CO_1' });
});

test('it goes by initiating and processing to completed', () => {
  expect(after(beginPayment(null), pay).phase).toBe('initiating');
  expect(waiting).toMatchObject({ phase: 'processing', paymentReference: 'ws_CO_1' });
  expect(after(waiting, told('completed', '0'))).toEqual({ phase: 'completed' });
});

test('an initiation that is refused fails with its message', () =>
  expect(
    after(beginPayment(null), pay, {
      type: 'refused',
      error: 'No network',
      isUnreached: true,
      isUnanswered: true,
    }),
  ).toEqual({
    phase: 'failed',
    paymentReference: null,
    error: 'No network',
    isUnreached: true,
    isUnanswered: true,
    holdSeconds: 0,
  }));

test('money that staff look at ends in no failure that could be tried again', () => {
  const held = after(beginPayment(null), pay, { type: 'held' });
  expect(held).toEqual({ phase: 'held' });
  expect(after(held, { type: 'retry' }, pay)).toEqual({ phase: 'held' });
});

test('a failed payment is told by its result code', () => {
  expect(after(waiting, told('failed', '1032'))).toMatchObject({
    phase: 'failed',
    error: 'Payment was cancelled. Please try again. ❌',
  });
  expect(after(waiting, told('failed'))).toMatchObject({ error: 'Payment failed. Please try again. ❌' });
});

test('a phone that could not be reached is told apart from one that declined', () => {
  expect(after(waiting, told('failed', '1037'))).toMatchObject({ isUnreached: true });
  expect(after(waiting, told('failed', '1032'))).toMatchObject({ isUnreached: false });
});

test('what M-PESA would fail again is held back for as long as it would, and nothing else', () => {
  expect(after(waiting, told('failed', '17'))).toMatchObject({
    holdSeconds: 120,
    error: expect.stringContaining('do not pay again'),
  });
  expect(after(waiting, told('failed', '1032'))).toMatchObject({ holdSeconds: 0 });
});

test('any other status is still pending', () => {
  for (const status of ['pending', 'initiating', 'processing', 'whatever']) {
    expect(after(waiting, told(status))).toMatchObject({ phase: 'processing', status: 'pending' });
  }
  expect(after(waiting, told('review'))).toMatchObject({ phase: 'processing', status: 'review' });
  expect(after(waiting, told('review'), told('completed')).phase).toBe('completed');
});

test('retry goes back to idle without the error and the request', () =>
  expect(after(waiting, told('failed', '1'), { type: 'retry' })).toEqual({ phase: 'idle' }));

test('when the prompt on another phone ends without payment, this one can be paid from at once', () => {
  const elsewhere = after(beginPayment(null), pay, { ...initiated, promptedPhone: '0722 ••• •••' });
  expect(elsewhere).toMatchObject({ phase: 'processing', promptedPhone: '0722 ••• •••' });
  const ended = after(elsewhere, told('failed', '1032'));
  expect(ended).toEqual({ phase: 'idle', endedPhone: '0722 ••• •••' });
  expect(after(ended, pay)).toEqual({ phase: 'initiating' });
  expect(after(elsewhere, told('completed', '0'))).toEqual({ phase: 'completed' });
});

test('an answer about an earlier prompt changes nothing', () => {
  const second = after(waiting, told('failed', '1037'), { type: 'retry' }, pay, {
    type: 'initiated',
    paymentReference: 'ws_CO_2',
  });
  expect(after(second, told('completed'))).toBe(second);
});

test('events out of place change nothing', () => {
  const completed = after(waiting, told('completed'));
  for (const event of [pay, initiated, told('failed', '1'), { type: 'retry' } as const]) {
    expect(after(completed, event)).toBe(completed);
  }
  const initiating = after(beginPayment(null), pay);
  expect(after(initiating, pay)).toBe(initiating);
});

test('a customer learns that the answer takes long or cannot be had', () => {
  const pending = Array.from({ length: 30 }, () => told('pending'));
  expect(takesLong(after(waiting, ...pending.slice(1)))).toBe(false);
  expect(takesLong(after(waiting, ...pending))).toBe(true);
  expect(takesLong(after(waiting, told('unresolved')))).toBe(true);
  expect(takesLong(beginPayment(null))).toBe(false);
});

test('polls without an answer mean a lost connection, not a slow M-PESA, until the next answer', () => {
  const unanswered: PaymentEvent = { type: 'unanswered' };
  expect(isCutOff(after(waiting, unanswered))).toBe(false);
  const cutOff = after(waiting, ...Array.from({ length: 30 }, () => unanswered));
  expect([isCutOff(cutOff), takesLong(cutOff)]).toEqual([true, false]);
  expect(isCutOff(after(cutOff, told('pending')))).toBe(false);
  expect(after(cutOff, told('completed', '0'))).toEqual({ phase: 'completed' });
});
