import { describe, expect, test } from 'vitest';
import type { DeliveryStatus, OrderPaymentStatus, OrderStatus } from '../../../supabase/types.ts';
import {
  confirmDeliveryStatus,
  confirmOrderStatus,
  deliveryNeedsConsent,
  deliveryStatusBlock,
  needsConsent,
  type OrderState,
  orderStatusBlock,
} from './status-change.ts';

const order = (status: OrderStatus, payment_status: OrderPaymentStatus = 'paid'): OrderState => ({
  order_number: 'ORD-1001',
  status,
  payment_status,
  total_amount: 190_050,
});
const delivery = (delivery_status: DeliveryStatus, of = order('processing')) => ({
  delivery_status,
  order: of,
});

describe('an order', () => {
  test.each<[OrderStatus, OrderStatus]>([
    ['pending', 'processing'],
    ['processing', 'shipped'],
    ['pending', 'delivered'],
    ['shipped', 'delivered'],
    ['out_for_delivery', 'delivered'],
    ['out_for_delivery', 'shipped'],
  ])('that is paid goes from %s to %s without a question', (from, to) => {
    expect(confirmOrderStatus(order(from), to)).toBeNull();
    expect(needsConsent(order(from), to)).toBe(false);
  });

  test.each<[OrderStatus, OrderStatus]>([
    ['delivered', 'shipped'],
    ['delivered', 'processing'],
    ['shipped', 'pending'],
    ['processing', 'pending'],
  ])('asks before it goes back from %s to %s', (from, to) => {
    expect(confirmOrderStatus(order(from), to)).toMatchObject({
      title: expect.stringMatching(/^Set order ORD-1001 back to/),
      tone: 'danger',
    });
  });

  test.each<[OrderStatus, OrderStatus, rider: string | null, question: string | undefined]>([
    // from, to, rider, question
    ['pending', 'shipped', null, 'Ship without a rider'],
    ['processing', 'shipped', null, 'Ship without a rider'],
    ['processing', 'delivered', null, 'Deliver without a rider'],
    ['shipped', 'delivered', null, 'Deliver without a rider'],
    ['processing', 'shipped', 'Joseph', undefined],
    ['processing', 'delivered', 'Joseph', undefined],
    ['out_for_delivery', 'shipped', null, undefined],
    ['pending', 'processing', null, undefined],
  ])(
    'that is paid and %s asks before it becomes %s, with the rider %s: %s',
    (from, to, delivery_person, confirm) => {
      const question = confirmOrderStatus({ ...order(from), delivery: { id: 'd1', delivery_person } }, to);
      expect(question?.confirm).toBe(confirm);
      expect(question?.instead?.to).toBe(confirm && '/admin/deliveries?search=ORD-1001&assign=d1');
    },
  );

  test('that is reopened as shipped says that it has no rider', () => {
    const cancelled = { ...order('cancelled'), delivery: { id: 'd1', delivery_person: null } };
    expect(confirmOrderStatus(cancelled, 'shipped')?.text).toMatch(/No rider is assigned\.$/);
    expect(confirmOrderStatus(cancelled, 'processing')?.text).not.toMatch(/rider/);
  });

  test('asks about the missing payment before the missing rider', () => {
    const unpaid = { ...order('pending', 'unpaid'), delivery: { id: 'd1', delivery_person: null } };
    expect(confirmOrderStatus(unpaid, 'shipped')?.confirm).toBe('Ship unpaid');
  });

  test('asks before it is cancelled, and shows what happens to money and drinks', () => {
    expect(confirmOrderStatus(order('processing'), 'cancelled')?.text).toBe(
      'KES 1,901 was paid: a refund becomes due. The drinks go back into stock.',
    );
    expect(confirmOrderStatus(order('shipped', 'unpaid'), 'cancelled')?.text).toBe(
      'The drinks are not put back into stock.',
    );
  });

  test('with a payment in review asks about that money first', () => {
    const inReview = {
      ...order('pending', 'unpaid'),
      payments: [{ status: 'failed' as const }, { status: 'review' as const }],
    };
    expect(confirmOrderStatus(inReview, 'shipped')?.title).toBe('The payment of ORD-1001 needs review');
    expect(confirmOrderStatus(inReview, 'cancelled')?.text).toBe(
      'A payment of it needs review: decide about that money in Reconciliation. The drinks go back into stock.',
    );
  });

  test('asks before a cancelled one is reopened', () => {
    expect(confirmOrderStatus(order('cancelled'), 'processing')?.title).toBe('Take order ORD-1001 up again?');
  });

  test.each(['unpaid', 'needs_review'] as const)('that is %s needs consent to leave the shop', (money) => {
    for (const to of ['shipped', 'delivered'] as const) {
      expect(needsConsent(order('pending', money), to)).toBe(true);
      expect(confirmOrderStatus(order('pending', money), to)).not.toBeNull();
    }
    expect(needsConsent(order('pending', money), 'processing')).toBe(false);
    expect(confirmOrderStatus(order('pending', money), 'processing')).toBeNull();
    expect(needsConsent(order('shipped', money), 'delivered')).toBe(true);
    expect(needsConsent(order('cancelled', money), 'shipped')).toBe(true);
  });

  test('that is refunded cannot leave the shop', () => {
    expect(orderStatusBlock(order('cancelled', 'refunded'), 'shipped')).toBe('Money sent back');
    expect(orderStatusBlock(order('processing', 'refunded'), 'delivered')).toBe('Money sent back');
    expect(orderStatusBlock(order('cancelled', 'refunded'), 'processing')).toBeNull();
    expect(orderStatusBlock(order('cancelled'), 'shipped')).toBeNull();
  });
});

describe('a delivery', () => {
  test.each<[DeliveryStatus, DeliveryStatus]>([
    ['assigned', 'picked_up'],
    ['picked_up', 'in_transit'],
    ['in_transit', 'delivered'],
    ['assigned', 'failed'],
    ['failed', 'assigned'],
  ])('of a paid order goes from %s to %s without a question', (from, to) => {
    expect(confirmDeliveryStatus(delivery(from), to)).toBeNull();
  });

  test.each<[DeliveryStatus, DeliveryStatus]>([
    ['delivered', 'in_transit'],
    ['picked_up', 'assigned'],
    ['in_transit', 'failed'],
    ['delivered', 'failed'],
  ])('asks before it goes from %s to %s', (from, to) => {
    expect(confirmDeliveryStatus(delivery(from), to)).not.toBeNull();
  });

  test('that left the shop fails for a reason, which is chosen instead of confirmed', () => {
    for (const from of ['picked_up', 'in_transit'] as const) {
      const question = confirmDeliveryStatus(delivery(from), 'failed');
      expect(question).toMatchObject({ confirm: null });
      expect(question?.choices?.map(({ label }) => label)).toContain('Nobody was there');
    }
    expect(confirmDeliveryStatus(delivery('pending', order('shipped')), 'failed')).toMatchObject({
      confirm: null,
    });
  });

  test('needs the consent that its order needs', () => {
    expect(deliveryNeedsConsent(delivery('assigned', order('pending', 'unpaid')), 'picked_up')).toBe(true);
    expect(deliveryNeedsConsent(delivery('picked_up', order('shipped', 'unpaid')), 'in_transit')).toBe(false);
    expect(deliveryNeedsConsent(delivery('in_transit', order('shipped', 'unpaid')), 'delivered')).toBe(true);
    expect(deliveryNeedsConsent(delivery('assigned', order('pending', 'unpaid')), 'failed')).toBe(false);
    expect(deliveryNeedsConsent(delivery('assigned'), 'picked_up')).toBe(false);
  });

  test('of a cancelled order can only fail, and of a refunded one cannot leave', () => {
    const cancelled = delivery('in_transit', order('cancelled'));
    expect(deliveryStatusBlock(cancelled, 'delivered')).toBe('Order cancelled');
    expect(deliveryStatusBlock(cancelled, 'failed')).toBeNull();
    expect(confirmDeliveryStatus(cancelled, 'failed')).toBeNull();
    expect(deliveryStatusBlock(delivery('assigned', order('processing', 'refunded')), 'picked_up')).toBe(
      'Money sent back',
    );
  });
});
