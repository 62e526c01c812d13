import { expect, test } from 'vitest';
import type { ReportedStatus } from '../../../domain/mpesa/payment-result.ts';
import {
  advancePayment,
  beginPayment,
  canResend,
  isConnectionLost,
  type PaymentEvent,
  type PaymentState,
  takesLong,
} from './payment-machine.ts';

const after = (state: PaymentState, ...events: PaymentEvent[]) => events.reduce(advancePayment, state);
const reported = (status: ReportedStatus, resultCode: string | null = null): PaymentEvent => ({
  type: 'reported',
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

test('goes through initiating and processing to completed', () => {
  expect(after(beginPayment(null), pay).phase).toBe('initiating');
  expect(waiting).toMatchObject({ phase: 'processing', paymentReference: 'ws_CO_1' });
  expect(after(waiting, reported('completed', '0'))).toEqual({ phase: 'completed' });
});

test('a refused initiation fails with its message', () =>
  expect(
    after(beginPayment(null), pay, {
      type: 'refused',
      error: 'No network',
      isUnreached: true,
      isUnanswered: true,
      isFinal: false,
    }),
  ).toEqual({
    phase: 'failed',
    paymentReference: null,
    error: 'No network',
    resultCode: null,
    isUnreached: true,
    isUnanswered: true,
    isFinal: false,
    retryAfterSeconds: 0,
  }));

test('a payment under review cannot be retried', () => {
  const inReview = after(beginPayment(null), pay, { type: 'in_review' });
  expect(inReview).toEqual({ phase: 'in_review' });
  expect(after(inReview, { type: 'retry' }, pay)).toEqual({ phase: 'in_review' });
});

test('a failed payment has the message of its result code', () => {
  expect(after(waiting, reported('failed', '1032'))).toMatchObject({
    phase: 'failed',
    error: 'Payment was cancelled. Please try again. ❌',
  });
  expect(after(waiting, reported('failed'))).toMatchObject({ error: 'Payment failed. Please try again. ❌' });
});

test('distinguishes an unreachable phone from a declined prompt', () => {
  expect(after(waiting, reported('failed', '1037'))).toMatchObject({ isUnreached: true });
  expect(after(waiting, reported('failed', '1032'))).toMatchObject({ isUnreached: false });
});

test('offers no other attempt where it can only fail', () => {
  expect(after(waiting, reported('failed', '3'))).toMatchObject({ isFinal: true });
  for (const code of ['1', '4', '1032', '1037', '2001'])
    expect(after(waiting, reported('failed', code))).toMatchObject({ isFinal: false });
});

test('sends again in one press only what the customer has seen', () => {
  const failedOf = (...events: PaymentEvent[]) => {
    const state = after(beginPayment(null), pay, ...events);
    return state.phase === 'failed' && canResend(state);
  };
  const refused = {
    type: 'refused',
    error: '',
    isUnreached: true,
    isUnanswered: false,
    isFinal: false,
  } as const;
  expect(failedOf(initiated, reported('failed', '1032'))).toBe(true);
  expect(failedOf(refused)).toBe(true);
  // Such as an order with another total.
  expect(failedOf({ ...refused, isUnreached: false })).toBe(false);
  expect(failedOf({ ...refused, isFinal: true })).toBe(false);
  expect(failedOf(initiated, reported('failed', '3'))).toBe(false);
});

test('blocks a retry only for results that M-PESA would repeat, and for as long', () => {
  expect(after(waiting, reported('failed', '17'))).toMatchObject({
    retryAfterSeconds: 120,
    error: 'Payment failed. Please try again. ❌',
    resultCode: '17',
  });
  expect(after(waiting, reported('failed', '1032'))).toMatchObject({
    retryAfterSeconds: 0,
    resultCode: '1032',
  });
});

test('goes on after a status that is not the last', () => {
  expect(after(waiting, reported('pending'))).toMatchObject({ phase: 'processing', status: 'pending' });
  expect(after(waiting, reported('review'))).toMatchObject({ phase: 'processing', status: 'review' });
  expect(after(waiting, reported('review'), reported('completed')).phase).toBe('completed');
});

test('retry returns to idle without the error and the request', () =>
  expect(after(waiting, reported('failed', '1'), { type: 'retry' })).toEqual({ phase: 'idle' }));

test('when the prompt on another phone ends unpaid, this phone can pay at once', () => {
  const elsewhere = after(beginPayment(null), pay, { ...initiated, promptedPhone: '0722 ••• •••' });
  expect(elsewhere).toMatchObject({ phase: 'processing', promptedPhone: '0722 ••• •••' });
  const ended = after(elsewhere, reported('failed', '1032'));
  expect(ended).toEqual({ phase: 'idle', endedPhone: '0722 ••• •••' });
  expect(after(ended, pay)).toEqual({ phase: 'initiating' });
  expect(after(elsewhere, reported('completed', '0'))).toEqual({ phase: 'completed' });
});

test('ignores an answer about an earlier prompt', () => {
  const second = after(waiting, reported('failed', '1037'), { type: 'retry' }, pay, {
    type: 'initiated',
    paymentReference: 'ws_CO_2',
  });
  expect(after(second, reported('completed'))).toBe(second);
});

test('a shop without prompts offers no retry, whether it is known before or after asking for one', () => {
  const paused: PaymentEvent = { type: 'paused' };
  for (const state of [after(beginPayment(null), paused), after(beginPayment(null), pay, paused)]) {
    expect(state).toEqual({ phase: 'paused' });
    expect(after(state, { type: 'retry' }, pay, initiated)).toEqual({ phase: 'paused' });
  }
  expect(after(waiting, paused)).toBe(waiting);
});

test('ignores events that do not belong to the state', () => {
  const completed = after(waiting, reported('completed'));
  for (const event of [pay, initiated, reported('failed', '1'), { type: 'retry' } as const]) {
    expect(after(completed, event)).toBe(completed);
  }
  const initiating = after(beginPayment(null), pay);
  expect(after(initiating, pay)).toBe(initiating);
});

test('shows that the answer takes long or is unavailable', () => {
  const pending = Array.from({ length: 30 }, () => reported('pending'));
  expect(takesLong(after(waiting, ...pending.slice(1)))).toBe(false);
  expect(takesLong(after(waiting, ...pending))).toBe(true);
  expect(takesLong(after(waiting, reported('unresolved')))).toBe(true);
  expect(takesLong(beginPayment(null))).toBe(false);
});

test('unanswered polls mean a lost connection, not a slow M-PESA, until the next answer', () => {
  const unanswered: PaymentEvent = { type: 'unanswered' };
  expect(isConnectionLost(after(waiting, unanswered))).toBe(false);
  const lost = after(waiting, ...Array.from({ length: 30 }, () => unanswered));
  expect([isConnectionLost(lost), takesLong(lost)]).toEqual([true, false]);
  expect(isConnectionLost(after(lost, reported('pending')))).toBe(false);
  expect(after(lost, reported('completed', '0'))).toEqual({ phase: 'completed' });
});
