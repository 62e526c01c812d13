// Counter mode: the queue alone, with everything that the work needs.
import { screen, waitFor, within } from '@testing-library/dom';
import { expect, onTestFinished, test } from 'vitest';
import { type Order, placeAssignedOrder, placePaidOrder } from '../../../../e2e/placed-orders.ts';
import { asOwner, type StaffRole } from '../../../../e2e/staff-member.ts';
import { handOver, type OpenScreen, openScreen, readRows, shop } from '../../../testing/staff-screens.tsx';

/** Opens Today and then counter mode, as a member does. */
async function openCounter(
  on: 'phone' | 'desktop' = 'desktop',
  role: StaffRole = 'owner',
): Promise<OpenScreen> {
  const opened = await openScreen('/admin/today', { on, role });
  await opened.press(await screen.findByRole('button', { name: 'Counter' }));
  await screen.findByRole('heading', { name: 'Today at the counter' });
  return opened;
}
const cardIn = async (group: RegExp, { order_number }: Order) => {
  const section = within(await screen.findByRole('region', { name: group }));
  return within((await section.findByRole('link', { name: order_number })).closest('li') as HTMLElement);
};
const press = async (opened: OpenScreen, group: RegExp, name: string, order: Order) =>
  opened.press(
    await (await cardIn(group, order)).findByRole('button', { name: `${name} ${order.order_number}` }),
  );

/** Gives a browser's object a property until the end of the test. */
function provide(target: object, name: string, value: unknown): void {
  const before = Object.getOwnPropertyDescriptor(target, name);
  Object.defineProperty(target, name, { configurable: true, value });
  onTestFinished(() => {
    if (before) Object.defineProperty(target, name, before);
    else Reflect.deleteProperty(target, name);
  });
}

test.each(['phone', 'desktop'] as const)('an order is worked through at the counter, on a %s', async (on) => {
  await placeAssignedOrder(shop, 'Knows a rider');
  const order = await placePaidOrder(shop, `Counter ${on}`);
  const opened = await openCounter(on);
  expect(opened.address()).toBe('/admin/today?view=counter');
  expect(screen.queryByText('Admin Panel')).toBeNull();
  expect(screen.queryByRole('navigation')).toBeNull();
  await screen.findByText(/^\d+ open orders?$/);

  await press(opened, /^To prepare/, 'Prepare', order);
  await (await cardIn(/^To prepare/, order)).findByText('You have it');
  await press(opened, /^To prepare/, 'Ready', order);
  await cardIn(/^Ready/, order);
  // A step is undone here as everywhere.
  await opened.press(
    await screen.findByRole('button', { name: new RegExp(`^Undo ${order.order_number}: Ready`) }),
  );
  await press(opened, /^To prepare/, 'Ready', order);
  await opened.press(await (await cardIn(/^Ready/, order)).findByRole('button', { name: handOver(order) }));
  await press(opened, /^On the way/, 'Delivered', order);
  await waitFor(async () =>
    expect(await readRows<{ delivery_status: string }>(`deliveries?order_id=eq.${order.id}`)).toMatchObject([
      { delivery_status: 'delivered' },
    ]),
  );
});

test('no order is handed over in one press to a rider without a phone', async () => {
  await placeAssignedOrder(shop, 'Knows a rider');
  const [other, order] = [
    await placePaidOrder(shop, 'Its rider has no phone'),
    await placePaidOrder(shop, 'Waits for a rider'),
  ];
  const change = ({ id }: Order, columns: Record<string, unknown>) =>
    asOwner(shop, `/rest/v1/deliveries?order_id=eq.${id}`, 'PATCH', columns);
  await change(order, { ready_at: new Date().toISOString() });
  await change(other, { delivery_status: 'assigned', delivery_person: 'Phoneless' });
  await openCounter();
  const handingOver = await (await cardIn(/^Ready/, order)).findByRole('button', { name: handOver(order) });
  expect(handingOver.title).not.toContain('Phoneless');
});

test('Escape closes an opened order first, and then leaves', async () => {
  const order = await placePaidOrder(shop, 'Looked at');
  const opened = await openCounter();
  await opened.user.click(
    (await cardIn(/^To prepare/, order)).getByRole('link', { name: order.order_number }),
  );
  await screen.findByRole('dialog', { name: new RegExp(`^Order ${order.order_number}`) });
  expect(opened.address()).toBe(`/admin/today/${order.id}?view=counter`);
  await opened.user.keyboard('{Escape}');
  await waitFor(() => expect(opened.address()).toBe('/admin/today?view=counter'));
  await waitFor(() => expect(screen.queryByRole('dialog')).toBeNull());
  await opened.user.keyboard('{Escape}');
  await waitFor(() => expect(opened.address()).toBe('/admin/today'));
  await screen.findByText('Admin Panel');
});

test('Leave returns to Today', async () => {
  const opened = await openCounter();
  await opened.press(screen.getByRole('button', { name: 'Leave' }));
  await screen.findByRole('heading', { level: 1, name: 'Today' });
  expect(opened.address()).toBe('/admin/today');
});

test('an order that arrives is marked as new, and those before it are not', async () => {
  const before = await placePaidOrder(shop, 'Came before');
  await openCounter();
  const old = await cardIn(/^To prepare/, before);
  const order = await placePaidOrder(shop, 'Just came');
  const card = await cardIn(/^To prepare/, order);
  card.getByText('New order');
  expect(old.queryByText('New order')).toBeNull();
});

test('the whole screen is asked for by the press, and its end leaves counter mode', async () => {
  let full: Element | null = null;
  provide(document, 'fullscreenEnabled', true);
  const change = (element: Element | null) => {
    full = element;
    Object.defineProperty(document, 'fullscreenElement', { configurable: true, value: full });
    document.dispatchEvent(new Event('fullscreenchange'));
  };
  provide(document, 'fullscreenElement', null);
  provide(document.documentElement, 'requestFullscreen', async () => change(document.documentElement));
  provide(document, 'exitFullscreen', async () => change(null));

  const opened = await openCounter();
  expect(full).toBe(document.documentElement);
  expect(screen.queryByRole('button', { name: 'Full screen' })).toBeNull();
  change(null);
  await screen.findByRole('heading', { level: 1, name: 'Today' });
  expect(opened.address()).toBe('/admin/today');

  // Leaving gives the screen back, and goes back only once.
  await opened.press(screen.getByRole('button', { name: 'Counter' }));
  await opened.press(await screen.findByRole('button', { name: 'Leave' }));
  await screen.findByRole('heading', { level: 1, name: 'Today' });
  expect(full).toBeNull();
  expect(opened.address()).toBe('/admin/today');
});

test('the screen stays on, again after the page was hidden, until counter mode is left', async () => {
  const locks: (EventTarget & { released: boolean; release(): Promise<void> })[] = [];
  provide(navigator, 'wakeLock', {
    async request(kind: string) {
      expect(kind).toBe('screen');
      const lock = Object.assign(new EventTarget(), {
        released: false,
        async release() {
          lock.released = true;
          lock.dispatchEvent(new Event('release'));
        },
      });
      locks.push(lock);
      return lock;
    },
  });
  const opened = await openCounter();
  await waitFor(() => expect(locks).toHaveLength(1));
  expect(screen.queryByText(/may turn its screen off/)).toBeNull();

  provide(document, 'visibilityState', 'hidden');
  await locks[0]?.release();
  document.dispatchEvent(new Event('visibilitychange'));
  expect(locks).toHaveLength(1);
  Object.defineProperty(document, 'visibilityState', { configurable: true, value: 'visible' });
  document.dispatchEvent(new Event('visibilitychange'));
  await waitFor(() => expect(locks).toHaveLength(2));

  await opened.press(screen.getByRole('button', { name: 'Leave' }));
  await waitFor(() => expect(locks.map(({ released }) => released)).toEqual([true, true]));
});

test('says where the screen cannot be kept on', async () => {
  provide(navigator, 'wakeLock', { request: () => Promise.reject(new Error('The battery is low')) });
  await openCounter();
  await screen.findByText("This device may turn its screen off: the browser can't keep it on.");
});

// Only the answers are replaced: the shop of these tests is shared.
test.each([
  ['owner', true],
  ['counter', false],
] as const)('a pause of orders is shown, and resumed there by the role %s: %s', async (role, may) => {
  let isPaused = true;
  const { fetch } = globalThis;
  globalThis.fetch = async (input, init) => {
    const url = String(input instanceof Request ? input.url : input);
    if (url.includes('/order_pauses'))
      return Response.json(
        isPaused
          ? [
              {
                id: 1,
                reason: 'heavy rain',
                paused_until: null,
                changed_by_email: 'amina@mail.example',
                changed_at: new Date().toISOString(),
              },
            ]
          : [],
      );
    if (!url.includes('rpc/resume_orders')) return fetch(input, init);
    isPaused = false;
    return new Response(null, { status: 204 });
  };
  onTestFinished(() => {
    globalThis.fetch = fetch;
  });
  const opened = await openCounter('desktop', role);
  const banner = within(await screen.findByRole('region', { name: 'Orders are paused' }));
  banner.getByText('Orders are paused for now: heavy rain.');
  const resume = banner.queryByRole('button', { name: 'Resume now' });
  expect(resume !== null).toBe(may);
  if (!resume) return;
  await opened.press(resume);
  await waitFor(() => expect(screen.queryByRole('region', { name: 'Orders are paused' })).toBeNull());
  expect(document.activeElement).toBe(screen.getByRole('heading', { name: 'Today at the counter' }));
});
