// A member of staff enters an order: it is placed once, and what is wrong stands beside its cause.
import { screen, waitFor, within } from '@testing-library/dom';
import { expect, onTestFinished, test } from 'vitest';
import { placeOrder, placePaidOrder } from '../../../../e2e/placed-orders.ts';
import { asOwner } from '../../../../e2e/staff-member.ts';
import {
  interceptNext,
  type OpenScreen,
  openScreen,
  readRows,
  shop,
} from '../../../testing/staff-screens.tsx';

let numbers = 0;
/** A phone that no other test of these files has. */
const newNumber = () =>
  `07222${String(process.pid % 1000).padStart(3, '0')}${String(numbers++).padStart(2, '0')}`;
const international = (number: string) => `+254${number.slice(1)}`;
interface Row {
  id: string;
  order_number: string;
  source: string;
  is_collected: boolean;
  customer_name: string;
  customer_email: string;
  shipping_address: string;
  delivery_notes: string | null;
  total_amount: number;
  order_items: { product_name: string; quantity: number }[];
}
const ordersOf = (number: string) =>
  readRows<Row>(
    `orders?customer_phone=eq.${encodeURIComponent(international(number))}&select=*,order_items(product_name,quantity)&order=created_at`,
  );
/** A product of its own, which no other test orders. */
async function makeDrink(name: string, stock = 20): Promise<{ id: string; name: string }> {
  const slug = `${name.toLowerCase().replaceAll(' ', '-')}-${crypto.randomUUID().slice(0, 8)}`;
  await asOwner(shop, '/rest/v1/products', 'POST', { name, slug, price: 40_000, stock_quantity: stock });
  const [row] = await readRows<{ id: string; name: string }>(`products?slug=eq.${slug}`);
  return row as { id: string; name: string };
}
const type = async ({ fill }: OpenScreen, label: RegExp, text: string) =>
  fill(await screen.findByLabelText(label), text);
async function add(opened: OpenScreen, name: string): Promise<void> {
  await type(opened, /^Search drinks/, name);
  await opened.press(await screen.findByRole('button', { name: `Add ${name}` }));
}
/** Presses a button once it can be pressed. */
async function press(opened: OpenScreen, name: string | RegExp): Promise<void> {
  const button = await screen.findByRole<HTMLButtonElement>('button', { name });
  await waitFor(() => expect(button.disabled).toBe(false));
  await opened.press(button);
}
const dialog = async () => within(await screen.findByRole('dialog', { name: /^Order ORD-/ }));

test.each(['phone', 'desktop'] as const)('an order of a new caller, on a %s', async (on) => {
  const number = newNumber();
  const lemon = await makeDrink(`Lemon ${on} call`);
  const opened = await openScreen('/admin/orders', { on });
  await opened.user.click(await screen.findByRole('link', { name: 'New order' }));
  await type(opened, /^Phone/, `Otieno 254 ${number.slice(1)}`);
  await screen.findByText(/^New customer/);
  await type(opened, /^Name/, 'Otieno');
  await add(opened, lemon.name);
  await press(opened, `One more of ${lemon.name}`);
  await type(opened, /^Delivery location/, 'Kilimani');
  await screen.findByText('KES 801');
  await press(opened, 'Place order');
  const order = await dialog();
  order.getByText(new RegExp(`^Entered by ${opened.account.email} · call,`));
  const [placed, ...others] = await ordersOf(number);
  expect(others).toEqual([]);
  expect(placed).toMatchObject({
    source: 'call',
    is_collected: false,
    customer_email: '',
    shipping_address: 'Kilimani',
    total_amount: 80_100,
    order_items: [{ product_name: lemon.name, quantity: 2 }],
  });
  expect(opened.address()).toBe(`/admin/orders/${placed?.id}`);
  order.getByText('No email address: messages go as texts');
  // Who entered it has the link without another press.
  const chat = await order.findByRole('link', { name: 'Send by WhatsApp Otieno' });
  expect(chat.getAttribute('href')).toMatch(/^https:\/\/wa\.me\/254\d{9}\?text=.+%2Ft%2F\d{8}-\d+-/);
  await order.findByText(/^Text with the link to|^A text with the link goes to/);
});

test('a customer who ordered before is filled in, and gets the same again at the prices of now', async () => {
  const number = newNumber();
  await placePaidOrder(shop, 'Njoki Again', number);
  await placeOrder(shop, 'Njoki Again', number, {
    quantity: 2,
    delivery_location: 'Karen',
    building: 'Yaya',
    unit: '4',
    delivery_notes: 'Blue gate',
  });
  const opened = await openScreen('/admin/orders/new');
  await type(opened, /^Phone/, number);
  await screen.findByText('2 orders', { exact: false });
  await waitFor(() => expect(screen.getByLabelText<HTMLInputElement>(/^Name/).value).toBe('Njoki Again'));
  expect(screen.getByLabelText<HTMLInputElement>(/^Email/).value).toBe(`${number}@mail.example`);
  expect(screen.getByLabelText<HTMLInputElement>(/^Building/).value).toBe('Yaya');
  expect(screen.getByLabelText<HTMLTextAreaElement>(/^Delivery notes/).value).toBe('Blue gate');
  await press(opened, 'Westlands');
  expect(screen.getByLabelText<HTMLInputElement>(/^Building/).value).toBe('');
  await press(opened, /^Same again: 2 × .*Mango, KES 1,901/);
  await press(opened, 'Place order');
  await dialog();
  expect((await ordersOf(number)).at(-1)).toMatchObject({
    customer_name: 'Njoki Again',
    shipping_address: 'Westlands',
    delivery_notes: null,
    order_items: [{ quantity: 2 }],
  });
});

test('a customer in the shop takes it along: no fee, no address, and handed over without a rider', async () => {
  const number = newNumber();
  const lime = await makeDrink('Lime walk in');
  const opened = await openScreen('/admin/orders/new');
  await type(opened, /^Phone/, number);
  await type(opened, /^Name/, 'Here Now');
  await opened.user.click(screen.getByLabelText('Walk-in'));
  expect(screen.queryByLabelText(/^Delivery location/)).toBeNull();
  await add(opened, lime.name);
  await screen.findByText(/^1 drink · collected$/);
  await press(opened, 'Place order');
  const order = await dialog();
  order.getByText(/· walk-in,/);
  const [placed] = await ordersOf(number);
  expect(placed).toMatchObject({
    source: 'walk_in',
    is_collected: true,
    shipping_address: 'Collected at the shop',
    total_amount: 40_000,
  });
  await asOwner(shop, `/rest/v1/orders?id=eq.${placed?.id}`, 'PATCH', {
    payment_status: 'paid',
    status: 'processing',
    reserved_until: null,
  });
  await asOwner(shop, '/rest/v1/deliveries', 'POST', { order_id: placed?.id });
  const step = async (name: string) =>
    opened.press(await order.findByRole('button', { name: `${name} ${placed?.order_number}` }));
  await step('Prepare');
  await step('Ready');
  await step('Handed over');
  await waitFor(async () =>
    expect(
      await readRows(`orders?id=eq.${placed?.id}&select=status,delivery:deliveries(delivery_person)`),
    ).toEqual([{ status: 'delivered', delivery: { delivery_person: null } }]),
  );
});

test('what is missing is said beside it, the first field first, and corrected fields fall silent', async () => {
  const opened = await openScreen('/admin/orders/new');
  await press(opened, 'Place order');
  await screen.findByText(/^Please enter a valid Kenyan phone number/);
  screen.getByText(/^Please enter a valid name/);
  screen.getByText('Please enter a valid delivery location');
  screen.getByText('Please choose at least one drink');
  await waitFor(() => expect(document.activeElement).toBe(screen.getByLabelText(/^Phone/)));
  await type(opened, /^Name/, 'Amina');
  expect(screen.queryByText(/^Please enter a valid name/)).toBeNull();
  await opened.user.click(screen.getByLabelText('Collected'));
  expect(screen.queryByLabelText(/^Delivery location/)).toBeNull();
});

test('a drink that ran out is named at its line, and the order goes on with what is left', async () => {
  const number = newNumber();
  const guava = await makeDrink('Guava runs out', 5);
  const opened = await openScreen('/admin/orders/new', { expected: /409/ });
  await type(opened, /^Phone/, number);
  await type(opened, /^Name/, 'Too Late');
  await type(opened, /^Delivery location/, 'Karen');
  await add(opened, guava.name);
  for (let count = 0; count < 2; count++) await press(opened, `One more of ${guava.name}`);
  interceptNext('rpc/place_order', async (send) => {
    await asOwner(shop, `/rest/v1/products?id=eq.${guava.id}`, 'PATCH', { stock_quantity: 2 });
    return send();
  });
  await press(opened, 'Place order');
  const chosen = within(await screen.findByRole('region', { name: 'In the order' }));
  await chosen.findByText(/^Only 2 left/);
  await press(opened, 'Take 2');
  await press(opened, 'Place order');
  await dialog();
  expect(await ordersOf(number)).toMatchObject([{ order_items: [{ quantity: 2 }] }]);
});

test('an order whose answer is lost is placed once', async () => {
  const number = newNumber();
  const plum = await makeDrink('Plum lost answer');
  const opened = await openScreen('/admin/orders/new');
  await type(opened, /^Phone/, number);
  await type(opened, /^Name/, 'Lost Answer');
  await type(opened, /^Delivery location/, 'Karen');
  await add(opened, plum.name);
  interceptNext('rpc/place_order', async (send) => {
    await send();
    throw new TypeError('Failed to fetch');
  });
  await press(opened, 'Place order');
  await dialog();
  expect(await ordersOf(number)).toHaveLength(1);
});

test('an order that was saved before it was changed is not placed again unasked', async () => {
  const number = newNumber();
  const kiwi = await makeDrink('Kiwi changed after');
  const opened = await openScreen('/admin/orders/new', { expected: /409|504/ });
  await type(opened, /^Phone/, number);
  await type(opened, /^Name/, 'Changed After');
  await type(opened, /^Delivery location/, 'Karen');
  await add(opened, kiwi.name);
  // A gateway loses the answer, and nobody learns whether it was saved.
  interceptNext('rpc/place_order', async (send) => {
    await send();
    return new Response(JSON.stringify({ code: 'answer_lost', message: 'No answer', details: '' }), {
      status: 409,
      headers: { 'content-type': 'application/json' },
    });
  });
  await press(opened, 'Place order');
  await screen.findByText('The order could not be saved. Please try again.');
  await press(opened, `One more of ${kiwi.name}`);
  await press(opened, 'Place order');
  await screen.findByText('An order was saved with what you had entered before.');
  expect(await ordersOf(number)).toHaveLength(1);
  await press(opened, 'Save this as another order');
  await press(opened, 'Place order');
  await dialog();
  expect(await ordersOf(number)).toHaveLength(2);
});

test('a draft outlives its screen, and is discarded after a question', async () => {
  const opened = await openScreen('/admin/orders/new');
  await type(opened, /^Name/, 'Half Typed');
  await opened.user.click(screen.getByLabelText('WhatsApp'));
  await opened.user.click(
    within(screen.getByRole('navigation', { name: 'Admin' })).getByRole('link', { name: /^Today/ }),
  );
  await screen.findByRole('heading', { level: 1, name: 'Today' });
  await opened.user.keyboard('n');
  expect((await screen.findByLabelText<HTMLInputElement>(/^Name/)).value).toBe('Half Typed');
  expect(screen.getByLabelText<HTMLInputElement>('WhatsApp').checked).toBe(true);
  await press(opened, 'Start again');
  await press(opened, 'Keep it');
  await press(opened, 'Start again');
  await press(opened, 'Discard');
  expect(screen.getByLabelText<HTMLInputElement>(/^Name/).value).toBe('');
  expect(screen.getByLabelText<HTMLInputElement>('Call').checked).toBe(true);
});

test('any order that waits for its payment is prompted on another phone, and its link is shown on request', async () => {
  const order = await placeOrder(shop, 'Prompt Me', newNumber());
  const opened = await openScreen(`/admin/orders/${order.id}`);
  const shown = await dialog();
  const payments = within(shown.getByRole('region', { name: 'Payments' }));
  payments.getByText('A text with the link goes out with the first prompt.');
  await opened.press(payments.getByRole('button', { name: 'Pay link' }));
  await payments.findByRole('link', { name: /^Send by WhatsApp/ });
  await shown.findByText('Pay link shown to staff');
  const phone = payments.getByLabelText<HTMLInputElement>('Phone to prompt');
  expect(phone.value).not.toBe('');
  await opened.user.clear(phone);
  await opened.press(payments.getByRole('button', { name: /^Send M-PESA prompt/ }));
  await payments.findByText('Please enter a valid phone number');
  await opened.user.click(phone);
  await opened.user.paste('0799 111 222');
  await opened.press(payments.getByRole('button', { name: /^Send M-PESA prompt/ }));
  await shown.findByText('Payment prompt sent');
  const [prompt] = await readRows<{ phone: string; requested_by_email: string }>(
    `payments?order_id=eq.${order.id}`,
  );
  expect(prompt).toMatchObject({ phone: '+254799111222', requested_by_email: opened.account.email });
});

test('with the keyboard alone: n, the phone, Enter, a drink, and the order is saved', async () => {
  const number = newNumber();
  const papaya = await makeDrink('Papaya by keys');
  await placeOrder(shop, 'Keys Only', number);
  const opened = await openScreen('/admin/today');
  await screen.findByRole('heading', { level: 1, name: 'Today' });
  await opened.user.keyboard('n');
  await waitFor(() => expect(document.activeElement).toBe(screen.getByLabelText(/^Phone/)));
  await opened.user.keyboard(number);
  await screen.findByText('1 order', { exact: false });
  await opened.user.keyboard('{Enter}');
  const search = screen.getByLabelText(/^Search drinks/);
  await waitFor(() => expect(document.activeElement).toBe(search));
  await opened.user.keyboard('papaya by keys');
  await screen.findByRole('button', { name: `Add ${papaya.name}` });
  await opened.user.keyboard('{Enter}');
  const chosen = within(await screen.findByRole('region', { name: 'In the order' }));
  chosen.getByText(papaya.name);
  const place = screen.getByRole<HTMLButtonElement>('button', { name: 'Place order' });
  await waitFor(() => expect(place.disabled).toBe(false));
  // The search is over: with the row of a drink that leaves the list, the focus would go back to the beginning.
  const drinks = screen.getByRole('list', { name: 'Drinks' });
  await waitFor(() => {
    expect(drinks.getAttribute('aria-busy')).toBeNull();
    expect(within(drinks).getAllByRole('listitem').length).toBeGreaterThan(1);
  });
  for (let tabs = 0; document.activeElement !== place && tabs < 200; tabs++) await opened.user.tab();
  await opened.user.keyboard('{Enter}');
  await dialog();
  expect(await ordersOf(number)).toMatchObject([
    {},
    { order_items: [{ product_name: papaya.name, quantity: 1 }] },
  ]);
});

test('a drink is ordered while its stock is still being read, beside drinks that are known', async () => {
  const number = newNumber();
  const guava = await makeDrink('Guava in a hurry');
  await placeOrder(shop, 'In A Hurry', number);
  const opened = await openScreen('/admin/orders/new');
  await type(opened, /^Phone/, number);
  // The drink of the earlier order is known.
  const again = await screen.findByRole('button', { name: /^Same again: 1 × .*Mango/ });
  await waitFor(() => expect(again.getAttribute('aria-busy')).toBeNull());
  let letGo = () => {};
  const held = new Promise<void>((done) => {
    letGo = done;
  });
  interceptNext(`"ids":`, async (send) => {
    await held;
    return send();
  });
  await add(opened, guava.name);
  const chosen = within(await screen.findByRole('region', { name: 'In the order' }));
  chosen.getByText(guava.name);
  expect(chosen.queryByText('Not for sale any more')).toBeNull();
  await press(opened, 'Place order');
  await dialog();
  letGo();
  expect(await ordersOf(number)).toMatchObject([
    {},
    { order_items: [{ product_name: guava.name, quantity: 1 }] },
  ]);
});

test('an order with a discount code costs less, and its details say so', async () => {
  const number = newNumber();
  const code = `N-${crypto.randomUUID().slice(0, 8).toUpperCase()}`;
  await asOwner(shop, '/rest/v1/discount_codes', 'POST', { code, percent: 10 });
  const ginger = await makeDrink('Ginger with a code');
  const opened = await openScreen('/admin/orders/new');
  await type(opened, /^Phone/, number);
  await screen.findByText(/^New customer/);
  await type(opened, /^Name/, 'Otieno');
  await add(opened, ginger.name);
  await type(opened, /^Delivery location/, 'Kilimani');
  await press(opened, 'Discount code');
  await type(opened, /^Discount code/, 'NEVER-MADE');
  await press(opened, 'Apply');
  await screen.findByText('This discount code is not valid, or it has ended.');
  await type(opened, /^Discount code/, code.toLowerCase());
  await press(opened, 'Apply');
  await screen.findByText(`Code ${code}: KES 40 off`);
  await screen.findByText('KES 361');

  // It ends before the order is saved: the sentence is beside the field, and nothing is lost.
  await asOwner(shop, `/rest/v1/discount_codes?code=eq.${code}`, 'PATCH', { is_active: false });
  await press(opened, 'Place order');
  await screen.findByText('This discount code is not valid, or it has ended');
  await screen.findByText('KES 401');
  expect(await ordersOf(number)).toEqual([]);
  await asOwner(shop, `/rest/v1/discount_codes?code=eq.${code}`, 'PATCH', { is_active: true });
  expect(screen.getByLabelText<HTMLInputElement>(/^Discount code/).value).toBe(code);
  await press(opened, 'Apply');
  await screen.findByText('KES 361');
  await press(opened, 'Place order');
  const order = await dialog();
  await order.findByText(`Discount (${code})`);
  expect(await ordersOf(number)).toMatchObject([{ total_amount: 36_100 }]);
});

test.each(['phone', 'desktop'] as const)(
  'the area of an order is found by its address, chosen, and agreed on first outside Nairobi, on a %s',
  async (on) => {
    const number = newNumber();
    const melon = await makeDrink(`Melon ${on} area`);
    const areaName = `Far ${on} ${crypto.randomUUID().slice(0, 6)}`;
    await asOwner(shop, '/rest/v1/delivery_areas', 'POST', { name: areaName, fee_cents: 45_000 });
    onTestFinished(async () => {
      await asOwner(shop, `/rest/v1/delivery_areas?name=eq.${encodeURIComponent(areaName)}`, 'PATCH', {
        is_active: false,
      }).catch(() => {});
    });
    const opened = await openScreen('/admin/orders/new', { on });
    await type(opened, /^Phone/, number);
    await type(opened, /^Name/, 'Area Caller');
    await add(opened, melon.name);
    const area = within(await screen.findByRole('group', { name: 'Area' }));
    await type(opened, /^Delivery location/, 'Sarit Centre');
    await area.findByText('Westlands');
    area.getByText('(from the address)');
    await opened.press(area.getByRole('button', { name: 'Change the area' }));
    await opened.user.click(await area.findByRole('searchbox', { name: 'Search areas' }));
    await opened.user.paste(areaName);
    await opened.press(await area.findByRole('button', { name: new RegExp(`^${areaName}`) }));
    await screen.findByText(/delivery KES 450/);
    await screen.findByText('KES 850');
    await opened.press(area.getByRole('button', { name: 'Change the area' }));
    await opened.press(await area.findByRole('button', { name: 'Outside Nairobi' }));
    await screen.findByText(/delivery to be agreed/);
    await press(opened, 'Place order');
    const order = await dialog();
    await order.findByText('Agree on fee and day with the customer');
    expect(
      await readRows(
        `orders?customer_phone=eq.${encodeURIComponent(international(number))}&select=area_name,total_amount,awaits_agreement`,
      ),
    ).toEqual([{ area_name: 'Outside Nairobi', total_amount: 40_000, awaits_agreement: true }]);
  },
);

/** Ends an unpaid order as its time does. */
async function endTimeOf({ id }: { id: string }): Promise<void> {
  const past = new Date(Date.now() - 1000).toISOString();
  await asOwner(shop, `/rest/v1/orders?id=eq.${id}`, 'PATCH', { reserved_until: past, expires_at: past });
  await asOwner(shop, '/rest/v1/rpc/expire_reservations', 'POST', { at_most: 200 });
}

test('a shared link says until when it can be paid, and that it ended unpaid until someone has dealt with it', async () => {
  const order = await placeOrder(shop, 'Slow Answerer', newNumber());
  const opened = await openScreen(`/admin/orders/${order.id}`);
  const shown = await dialog();
  await shown.findByText(/and its drinks are held for it until then/);
  await opened.press(shown.getByRole('button', { name: 'Pay link' }));
  await shown.findByText(/Its drinks are held until/);
  await endTimeOf(order);
  await shown.findByText('The pay link ended unpaid');
  await opened.press(shown.getByRole('button', { name: 'Done' }));
  await waitFor(() => expect(shown.queryByText('The pay link ended unpaid')).toBeNull());
});

test('Today leads to an order whose pay link ended unpaid', async () => {
  const order = await placeOrder(shop, 'Never Answered', newNumber(), { source: 'whatsapp' });
  await endTimeOf(order);
  const { user } = await openScreen('/admin/today');
  // Another test may have ended one later.
  await user.click(await screen.findByRole('link', { name: /pay links? ended unpaid$/ }));
  await (await dialog()).findByText('The pay link ended unpaid');
});
