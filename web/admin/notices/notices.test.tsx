// The notices of a device: what its member chooses, and the sounds that its browser allows.
import { screen, waitFor, within } from '@testing-library/dom';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { placeOrder } from '../../../e2e/placed-orders.ts';
import { asOwner, sessionOf } from '../../../e2e/staff-member.ts';
import { type OpenScreen, openScreen, readRows, shop } from '../../testing/staff-screens.tsx';
import { deviceSettings } from './device-settings.ts';

const original = globalThis.AudioContext;
/** Contexts that were made before a press: a browser warns of each in its console. */
let early: number;
/** Notes that were played. */
let notes: number;
/** Whether the browser allows sounds only after a press. */
let waitsForPress: boolean;

const parameter = () => ({
  value: 0,
  setValueAtTime() {},
  linearRampToValueAtTime() {},
  exponentialRampToValueAtTime() {},
});

/** A browser's audio, without a device. */
class SilentAudio {
  state = 'suspended';
  currentTime = 0;
  destination = {};
  constructor() {
    if (waitsForPress) early += 1;
    else this.state = 'running';
  }
  async resume() {
    // A browser that waits leaves the call unanswered.
    if (waitsForPress) await new Promise(() => {});
    this.state = 'running';
  }
  async close() {}
  createOscillator() {
    const start = () => {
      notes += 1;
    };
    return { type: '', frequency: parameter(), connect: (next: unknown) => next, start, stop() {} };
  }
  createGain() {
    return { gain: parameter(), connect: (next: unknown) => next };
  }
}

beforeEach(() => {
  [notes, early, waitsForPress] = [0, 0, false];
  Object.defineProperty(navigator, 'userActivation', {
    configurable: true,
    get: () => ({ hasBeenActive: !waitsForPress }),
  });
  globalThis.AudioContext = SilentAudio as never;
});
afterEach(() => {
  globalThis.AudioContext = original;
  Reflect.deleteProperty(navigator, 'userActivation');
});

async function openNotices(opened: OpenScreen) {
  await opened.press(await screen.findByRole('button', { name: 'Notices' }));
  return within(await screen.findByRole('dialog', { name: 'Notices on this device' }));
}

test('a new paid order makes a sound, an earlier payment does not', async () => {
  const payAtTill = async (name: string, transacted_at: string) => {
    const { id } = await placeOrder(shop, name);
    const [order] = await readRows<{ order_number: string; tracking_number: string; charge_cents: number }>(
      `orders?id=eq.${id}&select=order_number,tracking_number,charge_cents`,
    );
    const receipt = `UKL${crypto
      .randomUUID()
      .replaceAll(/[^a-f0-9]/g, '')
      .slice(0, 7)
      .toUpperCase()}`;
    const paid = await asOwner(shop, '/rest/v1/rpc/receive_mpesa_transaction', 'POST', {
      source: 'statement',
      receipt,
      received_cents: order?.charge_cents,
      reference: order?.tracking_number,
      transacted_at,
      body: '{}',
    });
    expect(paid.ok).toBe(true);
    return order?.order_number ?? '';
  };
  await openScreen('/admin/inquiries');
  await screen.findByText('Live: changes appear by themselves');
  const now = new Date();
  const old = await payAtTill('Paid Yesterday', new Date(now.getTime() - 86_400_000).toISOString());
  const messages = within(await screen.findByRole('region', { name: /Messages/ }));
  await messages.findByText(new RegExp(`^${old}, KES`));
  const recent = await payAtTill('Paid Now', now.toISOString());
  await messages.findByText(new RegExp(`^1 × Mango · Westlands · ${recent} · Paid Now`));
  await waitFor(() => expect(notes).toBeGreaterThan(0));
});

test('the bell says when the browser waits for a press', async () => {
  waitsForPress = true;
  const opened = await openScreen('/admin/inquiries');
  const bell = await screen.findByRole('button', { name: 'Press for sound' });
  expect(bell.title).toBe('Press once anywhere so that this device may make sounds');
  expect(early).toBe(0);
  waitsForPress = false;
  await opened.user.click(screen.getByText('Admin Panel'));
  const dialog = await openNotices(opened);
  await opened.user.click(dialog.getByRole('button', { name: 'Test' }));
  await waitFor(() => expect(notes).toBe(3));
});

test('sound, repetition, events and counts are chosen for this device', async () => {
  const opened = await openScreen('/admin/inquiries');
  const dialog = await openNotices(opened);
  await opened.user.click(dialog.getByLabelText('Loud'));
  await waitFor(() => expect(notes, 'a sample').toBe(3));
  await opened.user.click(dialog.getByLabelText(/^Repeat every 20 seconds/));
  await opened.user.click(dialog.getByLabelText('Inquiries'));
  await opened.user.click(dialog.getByLabelText('Failed deliveries'));
  await opened.user.click(dialog.getByLabelText('In the title of the tab'));
  expect(deviceSettings()).toMatchObject({
    volume: 'loud',
    repeats: true,
    kinds: ['paid_order', 'late_order', 'cancel_request', 'order_to_agree', 'refund_to_approve', 'low_stock'],
    countsInTitle: false,
    countsOnIcon: true,
  });
  await opened.user.click(dialog.getByLabelText('Inquiries'));
  expect(deviceSettings().kinds).toEqual([
    'paid_order',
    'late_order',
    'cancel_request',
    'order_to_agree',
    'refund_to_approve',
    'inquiry',
    'low_stock',
  ]);
  await opened.user.click(dialog.getByLabelText('Off'));
  expect(dialog.getByLabelText(/^Repeat every 20 seconds/)).toHaveProperty('disabled', true);
  expect(dialog.getByRole('button', { name: 'Test' })).toHaveProperty('disabled', true);
});

test('a drink that runs low is a notice, which leads to what is low on stock', async () => {
  const slug = `low-${crypto.randomUUID()}`;
  const values = { name: slug, slug, price: 95_000, category: 'Mango', stock_quantity: 12 };
  const answer = await asOwner(shop, '/rest/v1/products', 'POST', values);
  const [product] = (await answer.json()) as [{ id: string }];
  const opened = await openScreen('/admin/inquiries');
  await screen.findByText('Live: changes appear by themselves');
  const change = { stock_quantity: 4 };
  await asOwner(shop, `/rest/v1/products?id=eq.${product.id}`, 'PATCH', change);
  const messages = within(await screen.findByRole('region', { name: /Messages/ }));
  await messages.findByText(`${slug} · 4 left`);
  messages.getByText('Low on stock');
  await waitFor(() => expect(notes, 'one melody').toBe(3));
  await opened.user.click(messages.getByRole('button', { name: 'View' }));
  await waitFor(() => expect(opened.address()).toBe('/admin/products?stock=low&sort=stock'));
});

test('a device that gets pushes is listed for its member, and removed', async () => {
  const opened = await openScreen('/admin/inquiries');
  const { access_token } = await sessionOf(shop, opened.account);
  const saved = await fetch(`${shop.url}/rest/v1/rpc/save_push_subscription`, {
    method: 'POST',
    headers: {
      apikey: (await shop.keys()).publishable,
      authorization: `Bearer ${access_token}`,
      'content-type': 'application/json',
    },
    body: JSON.stringify({
      endpoint: `https://push.example/${crypto.randomUUID()}`,
      p256dh: `B${'a'.repeat(86)}`,
      auth_secret: 'b'.repeat(22),
      device: 'Chrome on Android',
      kinds: ['paid_order'],
    }),
  });
  const id = (await saved.json()) as string;
  const dialog = await openNotices(opened);
  await opened.press(await dialog.findByRole('button', { name: 'Remove Chrome on Android' }));
  await waitFor(() => expect(dialog.queryByText('Chrome on Android')).toBeNull());
  expect(await readRows(`push_subscriptions?id=eq.${id}`)).toEqual([]);
});
