// Staff change the stock in the list, look up its history, and copy a product.
import { randomUUID } from 'node:crypto';
import { screen, waitFor, within } from '@testing-library/dom';
import { expect, test } from 'vitest';
import { asOwner } from '../../../../e2e/staff-member.ts';
import {
  interceptNext,
  type OpenScreen,
  openScreen,
  readRows,
  shop,
} from '../../../testing/staff-screens.tsx';

interface Product {
  id: string;
  name: string;
  slug: string;
  stock_quantity: number;
}

async function makeProduct(more: Record<string, unknown> = {}): Promise<Product> {
  const slug = `stock-${randomUUID()}`;
  const answer = await asOwner(shop, '/rest/v1/products', 'POST', {
    name: slug,
    slug,
    price: 95_000,
    category: 'Mango',
    stock_quantity: 40,
    ...more,
  });
  return ((await answer.json()) as [Product])[0];
}
const change = ({ id }: Product, values: Record<string, unknown>) =>
  asOwner(shop, `/rest/v1/products?id=eq.${id}`, 'PATCH', values);
const stockOf = async ({ id }: Product) =>
  (await readRows<Product>(`products?id=eq.${id}`))[0]?.stock_quantity;
/** The changes of the stock after the first, the oldest first. */
const changesOf = async ({ id }: Product) =>
  (
    await readRows<{ from_units: number; to_units: number; changed_by_email: string | null }>(
      `stock_changes?product_id=eq.${id}&select=from_units,to_units,changed_by_email&order=id`,
    )
  ).slice(1);
const reasonsOf = async ({ id }: Product) =>
  (await readRows<{ reason: string | null }>(`stock_changes?product_id=eq.${id}&select=reason&order=id`))
    .slice(1)
    .map(({ reason }) => reason);
const whyOf = ({ name }: Product) =>
  screen.getByRole<HTMLInputElement>('textbox', { name: `Why the stock of ${name} changes (optional)` });
const listOf = ({ name }: Product) => `/admin/products?search=${name}`;
const fieldOf = ({ name }: Product) =>
  screen.findByRole<HTMLInputElement>('textbox', { name: `Units of ${name}` });

async function type({ user }: OpenScreen, field: HTMLElement, keys: string): Promise<void> {
  await user.clear(field);
  await user.type(field, keys);
}

test.each(['desktop', 'phone'] as const)(
  'quick presses are one change, which a sale does not disturb, and undo takes back: %s',
  async (on) => {
    const product = await makeProduct();
    const opened = await openScreen(listOf(product), { on });
    const field = await fieldOf(product);
    const more = screen.getByRole('button', { name: `One more of ${product.name}` });
    let release = () => {};
    const isReleased = new Promise<void>((resolve) => {
      release = resolve;
    });
    const isSent = new Promise<void>((resolve) =>
      interceptNext('/rpc/change_stock', async (send) => {
        resolve();
        await isReleased;
        return send();
      }),
    );
    await opened.user.click(more);
    await isSent;
    // Collected while the first is being saved.
    await opened.user.click(more);
    await opened.user.click(more);
    await opened.user.click(screen.getByRole('button', { name: `One less of ${product.name}` }));
    expect(field.value).toBe('42');
    // Sold before the first is saved.
    await change(product, { stock_quantity: 38 });
    release();
    await waitFor(async () => expect(await stockOf(product)).toBe(40));
    await waitFor(() => expect(field.value).toBe('40'));
    await opened.user.click(
      await screen.findByRole('button', { name: new RegExp(`^Undo ${product.name}: 39 to 40`) }),
    );
    await waitFor(async () => expect(await stockOf(product)).toBe(39));
    const { email } = opened.account;
    expect(await changesOf(product)).toEqual([
      { from_units: 40, to_units: 38, changed_by_email: null },
      { from_units: 38, to_units: 39, changed_by_email: email },
      { from_units: 39, to_units: 40, changed_by_email: email },
      { from_units: 40, to_units: 39, changed_by_email: email },
    ]);
  },
);

test('a typed stock is saved by Enter, and restored by Escape', async () => {
  const product = await makeProduct();
  const opened = await openScreen(listOf(product));
  const field = await fieldOf(product);
  await type(opened, field, '57{Escape}');
  expect(field.value).toBe('40');
  await type(opened, field, '1.5{Enter}');
  expect((await screen.findByText('Stock quantity must be a whole number')).id).toBe(
    field.getAttribute('aria-describedby'),
  );
  await type(opened, field, '58{Enter}');
  await waitFor(async () => expect(await stockOf(product)).toBe(58));
  // The arrow keys are presses, too.
  await waitFor(() => expect(field.closest('fieldset')?.getAttribute('aria-busy')).toBeNull());
  await opened.user.type(field, '{ArrowDown}{ArrowDown}');
  await waitFor(async () => expect(await stockOf(product)).toBe(56));
  expect((await changesOf(product))[0]).toMatchObject({ from_units: 40, to_units: 58 });
});

test.each(['desktop', 'phone'] as const)(
  'a typed stock may have a reason, which its history shows: %s',
  async (on) => {
    const product = await makeProduct();
    const opened = await openScreen(listOf(product), { on });
    const field = await fieldOf(product);
    expect(screen.queryByRole('textbox', { name: /^Why the stock/ })).toBeNull();
    await type(opened, field, '38');
    await opened.user.tab();
    expect(document.activeElement).toBe(whyOf(product));
    expect(await stockOf(product), 'not saved yet').toBe(40);
    await opened.user.keyboard('2{Enter}');
    expect((await screen.findByText('Please say why, in 3 to 200 characters')).id).toBe(
      whyOf(product).getAttribute('aria-describedby'),
    );
    await opened.user.keyboard(' broken {Enter}');
    await waitFor(async () => expect(await stockOf(product)).toBe(38));
    expect(document.activeElement).toBe(field);
    // Without a reason, typing and leaving the field is enough.
    await waitFor(() => expect(field.closest('fieldset')?.getAttribute('aria-busy')).toBeNull());
    await type(opened, field, '50');
    await opened.user.click(screen.getByRole('searchbox', { name: 'Search products' }));
    await waitFor(async () => expect(await stockOf(product)).toBe(50));
    // Escape restores the stock, and leaving the reason saves both.
    await waitFor(() => expect(field.closest('fieldset')?.getAttribute('aria-busy')).toBeNull());
    await type(opened, field, '51');
    await opened.user.type(whyOf(product), 'Counted again{Escape}');
    expect(field.value).toBe('50');
    await type(opened, field, '52');
    await opened.user.type(whyOf(product), 'Delivery from Meru');
    await opened.user.click(screen.getByRole('searchbox', { name: 'Search products' }));
    await waitFor(async () => expect(await stockOf(product)).toBe(52));
    expect(await reasonsOf(product)).toEqual(['2 broken', null, 'Delivery from Meru']);

    await opened.user.click(screen.getByRole('link', { name: `Edit ${product.name}` }));
    const dialog = within(await screen.findByRole('dialog'));
    await opened.user.click(await dialog.findByText('Stock and price history', { selector: 'summary' }));
    const changes = within(await dialog.findByRole('list', { name: 'Stock and price history' }));
    expect(changes.getAllByRole('listitem')[2]?.textContent).toMatch(/^Edited: 2 broken−240 to 38/);
  },
);

test('a typed stock overwrites no change that the member has not seen', async () => {
  const product = await makeProduct();
  const opened = await openScreen(listOf(product), { expected: /Failed to update the stock/ });
  const field = await fieldOf(product);
  await opened.user.clear(field);
  await opened.user.type(field, '50');
  await change(product, { stock_quantity: 37 });
  await opened.user.type(field, '{Enter}');
  await screen.findByText(
    `${product.name} has 37 units now, not 40 as you saw: units were sold or added in the meantime. Nothing of yours was saved.`,
  );
  expect(await stockOf(product)).toBe(37);
  await waitFor(() => expect(field.value).toBe('37'));
});

test('more units than are left cannot be taken away', async () => {
  const product = await makeProduct({ stock_quantity: 2 });
  const opened = await openScreen(listOf(product), { expected: /Failed to update the stock/ });
  const field = await fieldOf(product);
  const less = screen.getByRole('button', { name: `One less of ${product.name}` });
  interceptNext('/rpc/change_stock', async (send) => {
    await change(product, { stock_quantity: 0 });
    return send();
  });
  await opened.user.click(less);
  await screen.findByText(
    `Only 0 of ${product.name} are left: units were sold in the meantime. Nothing was changed.`,
  );
  await waitFor(() => expect(field.value).toBe('0'));
  await waitFor(() => expect(less.getAttribute('aria-disabled')).toBe('true'));
  screen.getByText('Out of stock');
});

test('a change whose answer is lost is made once', async () => {
  const product = await makeProduct();
  const opened = await openScreen(listOf(product));
  const field = await fieldOf(product);
  interceptNext('/rpc/change_stock', async (send) => {
    await send();
    throw new TypeError('Failed to fetch');
  });
  await opened.user.click(screen.getByRole('button', { name: `One more of ${product.name}` }));
  await screen.findByText('Saved. The connection broke before the shop could say so.');
  await waitFor(() => expect(field.value).toBe('41'));
  expect(await stockOf(product)).toBe(41);
});

test('an implausible stock is saved only after a question', async () => {
  const product = await makeProduct();
  const opened = await openScreen(listOf(product));
  const field = await fieldOf(product);
  await type(opened, field, '4000{Enter}');
  await screen.findByText('The stock goes from 40 to 4000.');
  await opened.press(screen.getByRole('button', { name: 'Change it' }));
  await waitFor(() => expect(field.value).toBe('40'));
  expect(await stockOf(product)).toBe(40);
  await type(opened, field, '4000{Enter}');
  await opened.press(await screen.findByRole('button', { name: 'Save it like this' }));
  await waitFor(async () => expect(await stockOf(product)).toBe(4000));
});

test('what is low on stock is a filter, by the threshold of the product', async () => {
  const product = await makeProduct({ stock_quantity: 12, low_stock_below: 20 });
  const other = await makeProduct({ name: `${product.name} other`, stock_quantity: 12 });
  const opened = await openScreen(listOf(product));
  await fieldOf(other);
  await opened.user.click(await screen.findByRole('button', { name: /^Low on stock/ }));
  await waitFor(() => expect(screen.queryByText(other.name)).toBeNull());
  expect(opened.address()).toContain('stock=low');
  within(await screen.findByRole('row', { name: new RegExp(product.name) })).getByText('Low');
});

test('keys go to a product and open it', async () => {
  const product = await makeProduct();
  const opened = await openScreen(listOf(product));
  await fieldOf(product);
  await opened.user.keyboard('j{Enter}');
  const dialog = within(await screen.findByRole('dialog', { name: 'Edit Product' }));
  expect((await dialog.findByLabelText<HTMLInputElement>(/^Product Name/)).value).toBe(product.name);
});

test('the list is sorted by stock, in the URL', async () => {
  const few = await makeProduct({ stock_quantity: 3 });
  const many = await makeProduct({ name: `${few.name} many`, stock_quantity: 300 });
  const opened = await openScreen(listOf(few));
  await fieldOf(many);
  const names = () =>
    screen.getAllByRole('textbox', { name: /^Units of/ }).map((field) => field.getAttribute('aria-label'));
  expect(names()).toEqual([`Units of ${many.name}`, `Units of ${few.name}`]);
  await opened.user.click(screen.getByRole('button', { name: 'Stock' }));
  await waitFor(() => expect(names()).toEqual([`Units of ${few.name}`, `Units of ${many.name}`]));
  expect(opened.address()).toContain('sort=stock');
  // A phone has no titles of columns.
  await opened.user.selectOptions(screen.getByLabelText('Sort by'), 'Name, Z to A');
  await waitFor(() => expect(names()).toEqual([`Units of ${many.name}`, `Units of ${few.name}`]));
  expect(opened.address()).toContain('sort=-name');
});

test('the product shows who changed its stock and price, and why', async () => {
  const product = await makeProduct();
  await change(product, { stock_quantity: 45, price: 90_000 });
  const order = await asOwner(shop, '/rest/v1/rpc/place_order', 'POST', {
    idempotency_key: randomUUID(),
    product_id: product.id,
    quantity: 2,
    customer_name: 'Amina Otieno',
    customer_email: 'amina@example.com',
    customer_phone: '0712345678',
    delivery_location: 'Westlands',
    expected_total: 180_100,
  });
  const { order_number } = (
    (await readRows(`orders?id=eq.${((await order.json()) as { id: string }).id}`)) as [
      { order_number: string },
    ]
  )[0];
  const opened = await openScreen(`/admin/products?edit=${product.id}`);
  const dialog = within(await screen.findByRole('dialog'));
  await opened.user.click(await dialog.findByText('Stock and price history', { selector: 'summary' }));
  const changes = within(await dialog.findByRole('list', { name: 'Stock and price history' }));
  const [ordered, edited, price] = changes.getAllByRole('listitem').map(({ textContent }) => textContent);
  expect(ordered).toMatch(new RegExp(`^Ordered−245 to 43${order_number}`));
  expect(price).toMatch(/^PriceKES 950 to KES 900The shop itself/);
  expect(edited).toMatch(/^Edited\+540 to 45The shop itself/);
});

test('brand, threshold and home section are edited', async () => {
  const product = await makeProduct();
  const opened = await openScreen(`/admin/products?edit=${product.id}`);
  const dialog = within(await screen.findByRole('dialog'));
  // A brand of the shop, in its spelling.
  await opened.user.type(await dialog.findByLabelText('Brand'), 'meru gold');
  await opened.user.type(dialog.getByLabelText('Low Stock Below'), '15');
  await opened.user.selectOptions(dialog.getByLabelText('Home Page'), 'Drinks on Offer');
  await opened.user.type(await dialog.findByLabelText('Place in Section'), '9');
  await opened.press(dialog.getByRole('button', { name: 'Update Product' }));
  await waitFor(async () =>
    expect(
      await readRows(
        `products?id=eq.${product.id}&select=brand,low_stock_below,home_section,home_position,stock_quantity`,
      ),
    ).toEqual([
      {
        brand: 'Meru Gold',
        low_stock_below: 15,
        home_section: 'drinks_on_offer',
        home_position: 9,
        stock_quantity: 40,
      },
    ]),
  );
});

test('a copy keeps texts, price and images, has no units, and waits until it is activated', async () => {
  const images = { image_url: '/art/mango-can-960.webp', more_images: ['/art/mango-bottle-960.webp'] };
  const product = await makeProduct({ brand: 'Meru Gold', tagline: 'Cold', ...images });
  const opened = await openScreen(listOf(product));
  await opened.press(await screen.findByRole('button', { name: `More for ${product.name}` }));
  await opened.user.click(await screen.findByRole('menuitem', { name: 'Duplicate' }));
  const dialog = within(await screen.findByRole('dialog'));
  const name = await dialog.findByLabelText<HTMLInputElement>(/^Product Name/);
  expect(name.value).toBe(product.name);
  await type(opened, name, `${product.name} twin`);
  await opened.press(dialog.getByRole('button', { name: 'Create Product' }));
  await waitFor(async () =>
    expect(
      await readRows(
        `products?slug=eq.${product.slug}-twin&select=name,brand,tagline,price,stock_quantity,is_active,image_url,more_images`,
      ),
    ).toEqual([
      {
        name: `${product.name} twin`,
        brand: 'Meru Gold',
        tagline: 'Cold',
        price: 95_000,
        stock_quantity: 0,
        is_active: false,
        ...images,
      },
    ]),
  );
});

test('Today counts what is low on stock, and leads there', async () => {
  const product = await makeProduct({ stock_quantity: 1 });
  const opened = await openScreen('/admin/today');
  await opened.user.click(await screen.findByRole('link', { name: /low on stock$/ }));
  await waitFor(() => expect(opened.address()).toBe('/admin/products?stock=low&sort=stock'));
  await opened.user.type(await screen.findByRole('searchbox', { name: 'Search products' }), product.name);
  await fieldOf(product);
});
