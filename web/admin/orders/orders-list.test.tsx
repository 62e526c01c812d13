// The list of orders as a place to work: one press to the next step, many orders at once, keys, order and views.
import { screen, waitFor, within } from '@testing-library/dom';
import { expect, test } from 'vitest';
import {
  changeOrder,
  type Order,
  placeAssignedOrder,
  placeOrder,
  placePaidOrder,
} from '../../../e2e/placed-orders.ts';
import { interceptNext, type OpenScreen, openScreen, readRows, shop } from '../../testing/staff-screens.tsx';

type Shape = 'phone' | 'desktop';
const list = async (on: Shape) =>
  within(await screen.findByRole(on === 'phone' ? 'list' : 'table', { name: 'Orders' }));
const link = ({ order_number }: Order) => screen.findByRole('link', { name: `View ${order_number}` });
const rowOf = async (order: Order) => within((await link(order)).closest('[data-row]') as HTMLElement);
const numbers = async (on: Shape) =>
  (await (await list(on)).findAllByRole('link', { name: /^View / })).map((one) =>
    one.textContent?.replace('View ', ''),
  );
const press = async ({ press }: OpenScreen, name: string | RegExp) =>
  press(await screen.findByRole('button', { name }));
const undoBar = async () => within(await screen.findByRole('region', { name: 'Undo' }));
const deliveriesOf = (orders: readonly Order[]) =>
  readRows<{ delivery_status: string; delivery_person: string | null }>(
    `deliveries?order_id=in.(${orders.map(({ id }) => id).join(',')})`,
  );

test.each(['phone', 'desktop'] as const)('each row has one button for its next step, on a %s', async (on) => {
  const order = await placeAssignedOrder(shop, `Stepwise ${on}`);
  const unpaid = await placeOrder(shop, `Stepwise ${on}`);
  const opened = await openScreen(`/admin/orders?search=Stepwise+${on}`, { on });
  const step = async (name: string) =>
    opened.press(await (await rowOf(order)).findByRole('button', { name: `${name} ${order.order_number}` }));
  await step('Prepare');
  await step('Ready');
  await step('Hand over');
  await step('Delivered');
  await waitFor(async () =>
    expect(await deliveriesOf([order])).toMatchObject([
      { delivery_status: 'delivered', delivery_person: 'Joseph Otieno' },
    ]),
  );
  expect((await rowOf(unpaid)).queryByRole('button', { name: /^(Prepare|Ready|Hand over)/ })).toBeNull();

  // Everything else is behind a menu, and the row itself opens the order.
  await opened.press((await rowOf(unpaid)).getByRole('button', { name: `More for ${unpaid.order_number}` }));
  const names = (await screen.findAllByRole('menuitem')).map(({ textContent }) => textContent);
  expect(names).toEqual(['View', `Call Stepwise ${on}`, 'Chat on WhatsApp', "Customer's tracking page"]);
  await opened.user.keyboard('{Escape}');
  await opened.user.click((await rowOf(unpaid)).getByText(/^1 × Mango/));
  await screen.findByRole('dialog', { name: new RegExp(`^Order ${unpaid.order_number}`) });
});

/** Beside other work, twenty changes one after the other take longer than one. */
const manyCalls = { timeout: 60_000 };

test('twenty orders are assigned, handed over and delivered with eight presses', async () => {
  await placeAssignedOrder(shop, 'Knows Joseph');
  const orders = await Promise.all(Array.from({ length: 20 }, () => placePaidOrder(shop, 'Many at once')));
  const opened = await openScreen('/admin/orders?search=Many+at+once');
  await waitFor(async () => expect(await numbers('desktop')).toHaveLength(20));
  const chooseAll = async () => opened.user.click(await screen.findByLabelText('Select all orders'));
  const rider = async () => {
    const dialog = within(await screen.findByRole('dialog'));
    await opened.press(await dialog.findByRole('button', { name: /^Joseph Otieno/ }));
  };

  await chooseAll();
  await screen.findByText('20 selected');
  await press(opened, /^Assign 20/);
  await rider();
  await waitFor(
    async () =>
      expect((await deliveriesOf(orders)).filter(({ delivery_person }) => delivery_person)).toHaveLength(20),
    manyCalls,
  );
  await waitFor(() => expect(screen.queryByText(/selected$/)).toBeNull());

  await chooseAll();
  await press(opened, /^Hand over 20/);
  await (await undoBar()).findByText('20 changed');
  await waitFor(() => expect(screen.queryByText(/selected$/)).toBeNull());
  const are = (status: string) =>
    waitFor(
      async () =>
        expect(
          (await deliveriesOf(orders)).filter(({ delivery_status }) => delivery_status === status),
        ).toHaveLength(20),
      manyCalls,
    );
  await are('picked_up');

  await chooseAll();
  await press(opened, /^Delivered 20/);
  await are('delivered');
});

test('one of many orders that was changed by somebody else stays, and is named', async () => {
  const [first, second] = [
    await placeAssignedOrder(shop, 'Some of them'),
    await placeAssignedOrder(shop, 'Some of them'),
  ];
  const opened = await openScreen('/admin/orders?search=Some+of+them', {
    on: 'phone',
    expected: /not changed|409/,
  });
  await press(opened, 'Select');
  for (const { order_number } of [first, second])
    await opened.user.click(await screen.findByLabelText(`Select ${order_number}`));
  // While the button is pressed, so that the screen does not know it yet.
  const [delivery] = await readRows<{ id: string }>(`deliveries?order_id=eq.${first.id}`);
  interceptNext((delivery as { id: string }).id, async (send) => {
    await changeOrder(shop, first.id, { status: 'cancelled' });
    return send();
  });
  await press(opened, /^Ready 2/);
  await screen.findByText('1 of 2 not changed');
  await waitFor(async () =>
    expect(await readRows(`deliveries?order_id=eq.${second.id}&ready_at=not.is.null`)).toHaveLength(1),
  );
  expect(await readRows(`deliveries?order_id=eq.${first.id}&ready_at=not.is.null`)).toHaveLength(0);
});

test.each(['orders', 'deliveries'])('an empty list of %s offers no choice of rows', async (list) => {
  await openScreen(`/admin/${list}?search=No+such+name`, { on: 'phone' });
  await screen.findByText(`No ${list} found`);
  expect(screen.queryByRole('button', { name: 'Select' })).toBeNull();
});

test('"Undo all" in the middle of many changes undoes those that are on their way, too', async () => {
  const orders = await Promise.all(Array.from({ length: 5 }, () => placePaidOrder(shop, 'Undone halfway')));
  const opened = await openScreen('/admin/orders?search=Undone+halfway');
  await waitFor(async () => expect(await numbers('desktop')).toHaveLength(5));
  let release = () => {};
  const held = new Promise<void>((done) => {
    release = done;
  });
  interceptNext('rpc/move_on', async (send) => {
    await held;
    return send();
  });
  await opened.user.click(await screen.findByLabelText('Select all orders'));
  await press(opened, /^Prepare 5/);
  await (await undoBar()).findByText('4 changed');
  await opened.press((await undoBar()).getByRole('button', { name: 'Undo all' }));
  release();
  await waitFor(async () => {
    const states = await readRows<{ taken_by: string | null; updated_at: string; created_at: string }>(
      `deliveries?order_id=in.(${orders.map(({ id }) => id).join(',')})`,
    );
    expect(states.map(({ taken_by }) => taken_by)).toEqual([null, null, null, null, null]);
    // Each was changed, and changed back.
    expect(states.every(({ updated_at, created_at }) => updated_at !== created_at)).toBe(true);
  });
  // Nothing is offered for what is undone, and the rows stay chosen.
  await screen.findByText('5 selected');
  await waitFor(() => expect(screen.queryByRole('button', { name: /^Undo/ })).toBeNull());
});

test('keys move, choose, open and search; they rest while somebody types, or when they are switched off', async () => {
  const [older, newer] = [await placePaidOrder(shop, 'By keys'), await placePaidOrder(shop, 'By keys')];
  const opened = await openScreen('/admin/orders?search=By+keys');
  const { keyboard } = opened.user;
  await link(older);
  const hasFocus = async (order: Order) => expect(document.activeElement).toBe(await link(order));
  await keyboard('j');
  await hasFocus(newer);
  await keyboard('j');
  await hasFocus(older);
  await keyboard('k');
  await hasFocus(newer);
  await keyboard('x');
  await screen.findByText('1 selected');
  await keyboard('jx');
  await screen.findByText('2 selected');
  await keyboard('{Escape}');
  await waitFor(() => expect(screen.queryByText('2 selected')).toBeNull());
  await keyboard('/');
  const search = screen.getByRole('searchbox', { name: 'Search orders' });
  expect(document.activeElement).toBe(search);
  await keyboard('jx');
  expect((search as HTMLInputElement).value).toBe('By keysjx');
  await opened.user.clear(search);
  await opened.user.paste('By keys');
  (await link(newer)).focus();
  await keyboard('{Enter}');
  await screen.findByRole('dialog', { name: new RegExp(`^Order ${newer.order_number}`) });
  await keyboard('j');
  await keyboard('{Escape}');
  await waitFor(() => expect(screen.queryByRole('dialog')).toBeNull());

  await press(opened, 'Filters');
  await opened.user.click(await screen.findByRole('checkbox', { name: /^Keys:/ }));
  (document.activeElement as HTMLElement).blur();
  await keyboard('j');
  expect(document.activeElement).toBe(document.body);
});

test('the row after one that leaves the list takes the focus', async () => {
  const orders = [
    await placePaidOrder(shop, 'Leaves The List'),
    await placePaidOrder(shop, 'Leaves The List'),
  ];
  const [first, second] = orders as [Order, Order];
  const opened = await openScreen('/admin/orders?due=prepare&search=Leaves+The+List');
  (await (await rowOf(first)).findByRole('button', { name: `Prepare ${first.order_number}` })).focus();
  await opened.user.keyboard('{Enter}');
  await waitFor(() => expect(document.activeElement?.textContent).toBe(`Ready ${first.order_number}`));
  await waitFor(() => expect(document.activeElement?.getAttribute('aria-busy')).toBeNull());
  await opened.user.keyboard('{Enter}');
  await waitFor(() => expect(screen.queryByRole('link', { name: `View ${first.order_number}` })).toBeNull());
  expect(document.activeElement?.textContent).toBe(`View ${second.order_number}`);
});

test('columns sort the list, in the address too; open work comes oldest first', async () => {
  const [first, second] = [
    await placePaidOrder(shop, 'Amina In order'),
    await placePaidOrder(shop, 'Zuhura In order'),
  ];
  const shown = [first, second].map(({ order_number }) => order_number);
  const opened = await openScreen('/admin/orders?search=In+order');
  const isShown = (expected: string[]) =>
    waitFor(async () => expect(await numbers('desktop')).toEqual(expected));
  await isShown(shown.toReversed());
  await press(opened, 'Customer');
  await waitFor(() => expect(opened.address()).toContain('sort=customer'));
  await isShown(shown);
  const heading = screen.getByRole('columnheader', { name: 'Customer' });
  expect(heading.getAttribute('aria-sort')).toBe('ascending');
  await press(opened, 'Customer');
  await isShown(shown.toReversed());
  expect(heading.getAttribute('aria-sort')).toBe('descending');
  await press(opened, 'Customer');
  await waitFor(() => expect(opened.address()).not.toContain('sort'));
  await isShown(shown.toReversed());
  await press(opened, /^To prepare/);
  await isShown(shown);
  await press(opened, 'Date');
  await isShown(shown.toReversed());
});

test('a view is kept under a name, shown again, and removed', async () => {
  const opened = await openScreen('/admin/orders?payment=unpaid&sort=-total');
  await press(opened, /^Filters/);
  await opened.user.type(await screen.findByLabelText('Name of this view'), 'Who owes most');
  await press(opened, 'Save view');
  await press(opened, 'Who owes most');
  await waitFor(() => expect(opened.address()).toBe('/admin/orders'));
  // The button turns with the screen, after the address.
  await screen.findByRole('button', { name: 'Who owes most', pressed: false });
  await press(opened, 'Who owes most');
  await waitFor(() => expect(opened.address()).toBe('/admin/orders?payment=unpaid&sort=-total'));
  await press(opened, 'Remove the view Who owes most');
  await waitFor(() => expect(screen.queryByRole('button', { name: 'Who owes most' })).toBeNull());
});
