// Areas of delivery: chosen or recognised in the order form, and an order whose fee and day staff agree on before it is paid.
import { describe, expect } from 'vitest';
import { expectAccessible } from '../../accessibility.ts';
import { dialogOf } from '../../browser.ts';
import { phoneFirst } from '../../selection.ts';
import {
  amina,
  fillOrder,
  openOrderDialog,
  payButton,
  placeOrderButton,
  trackingNumberIn,
} from '../../shopper.ts';
import { asOwner, enterAsStaff, toast } from '../../staff-member.ts';
import { openShopForStories, shop, story } from '../../story.ts';

openShopForStories();
const changeArea = (name: string, change: Record<string, unknown>) =>
  asOwner(shop, `/rest/v1/delivery_areas?name=eq.${encodeURIComponent(name)}`, 'PATCH', change);
const inThreeDays = () =>
  new Intl.DateTimeFormat('sv-SE', { timeZone: 'Africa/Nairobi' }).format(Date.now() + 3 * 86_400_000);

describe.each(phoneFirst)('%s', (_, viewport) => {
  story(
    'an area is chosen in one tap or by its search, and changes fee, total and promise',
    async ({ newVisitor }) => {
      await changeArea('Karen', { fee_cents: 35_000, promise_from_minutes: 30, promise_to_minutes: 90 });
      const { page } = await newVisitor({ viewport });
      await openOrderDialog(page, shop.url, 'mango-bottle');
      const dialog = dialogOf(page);
      await fillOrder(page, { ...amina, location: 'mpaka rd westlands' });
      await dialog.getByText(/^Westlands \(from the address\)KSh 1\.00, 15-60 minutes$/).waitFor();
      await dialog.getByRole('button', { name: 'Change the area' }).click();
      await expectAccessible(page, 'the chips of the areas');
      // By the keyboard: search, then Enter.
      await page.keyboard.type('kare');
      await page.keyboard.press('Enter');
      await dialog.getByText('KSh 350.00, 30-90 minutes').waitFor();
      await expect
        .poll(() => page.evaluate(() => document.activeElement?.textContent))
        .toBe('Change the area');
      await dialog.getByRole('button', { name: 'Place Order · KSh 1,300.00' }).waitFor();
      await dialog
        .getByText(/^Arrives by \d\d:\d\d( tomorrow)?\. Next, you'll pay with M-PESA\.$/)
        .first()
        .waitFor();
      // By a tap.
      await dialog.getByRole('button', { name: 'Change the area' }).click();
      if (viewport.width < 768) {
        // The first areas; the others after a tap, which goes on with the first of them.
        expect(await dialog.locator('button[data-area]:visible').count()).toBe(7);
        await dialog.getByRole('button', { name: '11 more' }).click();
        await expect.poll(() => page.evaluate(() => document.activeElement?.textContent)).toBe('Runda');
      }
      expect(await dialog.locator('button[data-area]:visible').count()).toBe(17);
      await dialog.getByRole('button', { name: 'Kilimani' }).click();
      await dialog.getByText('KSh 1.00, 15-60 minutes').waitFor();
      await placeOrderButton(page).click();
      await payButton(page).waitFor();
      const number = await trackingNumberIn(page);
      const [stored] = await (
        await asOwner(
          shop,
          `/rest/v1/orders?tracking_number=eq.${number}&select=area_name,delivery_fee,shipping_address`,
          'GET',
        )
      ).json();
      expect(stored).toEqual({
        area_name: 'Kilimani',
        delivery_fee: 100,
        shipping_address: 'mpaka rd westlands',
      });
    },
  );

  story('outside Nairobi staff agree on fee and day, and the customer pays then', async ({ newVisitor }) => {
    const { page } = await newVisitor({ viewport });
    await openOrderDialog(page, shop.url, 'mango-bottle');
    await fillOrder(page, { ...amina, phone: '0712000777', location: 'Nyali, Mombasa' });
    await dialogOf(page)
      .getByText("We'll call or WhatsApp you to agree the fee and day for Nyali.")
      .waitFor();
    await dialogOf(page).getByText('To be agreed', { exact: true }).waitFor();
    await placeOrderButton(page).click();
    await dialogOf(page).getByRole('heading', { name: "We'll contact you about the fee and day" }).waitFor();
    expect(await payButton(page).count()).toBe(0);
    expect(await dialogOf(page).getByRole('link', { name: 'WhatsApp us' }).getAttribute('href')).toContain(
      'https://wa.me/',
    );
    await expectAccessible(page, 'an order to be agreed');
    const number = await trackingNumberIn(page);
    await dialogOf(page).getByRole('button', { name: 'Track Your Order' }).click();
    await page.getByRole('heading', { name: "We'll contact you about the fee and day" }).waitFor();
    await page.getByRole('link', { name: 'Call us' }).waitFor();

    const { page: staff } = await newVisitor({ viewport });
    await enterAsStaff(shop, staff, '/admin/today');
    await staff.getByRole('link', { name: /to agree fee and day for/ }).click();
    const order = staff.getByRole('dialog');
    await order.getByText('Agree on fee and day with the customer').waitFor();
    await order.getByRole('button', { name: 'Agreed: let them pay' }).click();
    await order.getByText('A fee is whole shillings. 0 means free').waitFor();
    await order.getByLabel(/^Delivery fee/).fill('600');
    await order.getByLabel(/^Day of delivery/).fill(inThreeDays());
    await expectAccessible(staff, 'the form of an agreement');
    await order.getByRole('button', { name: 'Agreed: let them pay' }).click();
    await toast(staff, /can pay ORD-\d+ now/).waitFor();
    await order.getByText(/^Agreed for/).waitFor();

    // The page of the customer follows.
    await page.getByRole('heading', { name: 'Payment due: KSh 1,550.00' }).waitFor();
    await page.reload();
    await page.getByText('Arrives on').waitFor();
    await page.getByRole('button', { name: /^Pay/ }).first().waitFor();
    expect(number).toMatch(/^JJ-/);
  });

  story(
    'without scripts the area is a select, and the page shows its fee before it orders',
    async ({ newVisitor }) => {
      await changeArea('Karen', { fee_cents: 35_000, promise_from_minutes: 30, promise_to_minutes: 90 });
      const { page } = await newVisitor({ viewport, javaScriptEnabled: false });
      await page.goto(`${shop.url}/shop/mango-bottle/order?quantity=1`);
      await page.getByLabel(/^Name/).fill(amina.name);
      await page.getByLabel(/^Email/).fill(amina.email);
      await page.getByLabel(/^Phone/).fill('0712000778');
      await page.getByLabel('Area').selectOption({ label: 'Karen: KSh 350.00, 30-90 minutes' });
      await page.getByLabel(/^Delivery location/).fill('The Hub, gate 2');
      await page.getByRole('button', { name: 'Place Order' }).click();
      await page.getByText('Delivery in Karen: KSh 350.00').waitFor();
      expect(
        await page
          .getByLabel('Area')
          .evaluate((select: HTMLSelectElement) => select.selectedOptions[0]?.text),
      ).toContain('Karen');
      await page.getByRole('button', { name: 'Place Order' }).click();
      await page.getByText('Payment due: KSh 1,300.00').waitFor();
      await page.goto(`${shop.url}/delivery`);
      expect(await page.getByRole('region', { name: 'Coverage areas' }).getByRole('listitem').count()).toBe(
        15,
      );
    },
  );

  story('the position is asked for after a tap, and only then', async ({ newVisitor }) => {
    const { page } = await newVisitor({ viewport });
    await page.context().setGeolocation({ latitude: -1.292066, longitude: 36.821946 });
    await page.context().grantPermissions(['geolocation'], { origin: shop.url });
    await openOrderDialog(page, shop.url, 'mango-bottle');
    await fillOrder(page, { ...amina, phone: '0712000779' });
    await dialogOf(page).getByRole('button', { name: 'Use my location' }).click();
    await dialogOf(page).getByText('Our rider gets your place on the map.').waitFor();
    await placeOrderButton(page).click();
    await payButton(page).waitFor();
    const number = await trackingNumberIn(page);
    const [stored] = await (
      await asOwner(shop, `/rest/v1/orders?tracking_number=eq.${number}&select=map_point`, 'GET')
    ).json();
    expect(stored).toEqual({ map_point: '-1.29207,36.82195' });
  });
});

story('pages name the opening hours and the fees of the settings as soon as they change', async () => {
  const setHours = (opening_hours: object[]) =>
    asOwner(shop, '/rest/v1/store_settings?id=is.true', 'PATCH', { opening_hours });
  const reads = (path: string, words: RegExp, absent: RegExp) =>
    expect
      .poll(
        async () => {
          const text = await (await fetch(`${shop.url}${path}`)).text();
          return words.test(text) && !absent.test(text);
        },
        { message: `${path}: ${words}` },
      )
      .toBe(true);
  await changeArea('Karen', { fee_cents: null });
  await setHours([]);
  await reads('/shop', /KES 1 delivery fee applies to all orders/, /Delivery from/);
  await reads('/contact', /Always open/, /Mon-Sat/);
  await reads('/', /24\/7/, /Mon-Sat/);
  await reads('/delivery', /on every order/, /Mon-Sat/);
  try {
    await changeArea('Karen', { fee_cents: 35_000 });
    await setHours([1, 2, 3, 4, 5, 6].map((day) => ({ day, from: '09:00', to: '17:00' })));
    await reads('/shop', /Delivery from KES 1, depending on the area/, /all orders/);
    await reads('/contact', /Mo-Sa 09:00-17:00/, /person, 24\/7|Always open|around the clock|00:00-23:59/);
    await reads('/contact', /from KSh 1\.00/, /Nairobi: KSh/);
    await reads('/', /Mon-Sat 9:00-17:00/, /24\/7|every day of the week|00:00-23:59/);
    await reads(
      '/delivery',
      /Mon-Sat 9:00-17:00/,
      /7 days a week|[Ee]very day|seven days|on every order|all orders/,
    );
    await reads('/shop/mango-bottle', /Delivery from KSh 1\.00, depending on your area/, /Delivery adds/);
  } finally {
    await changeArea('Karen', { fee_cents: null });
    await setHours([]);
  }
});
