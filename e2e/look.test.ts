import { expect } from 'vitest';
import { asOwner, enterAsStaff, callAsStaff } from './staff-member.ts';
import { placePaidOrder, placeAssignedOrder, placeOrder, changeOrder } from './placed-orders.ts';
import { openShopForStories, shop, story } from './story.ts';

openShopForStories();
story('look', async ({ newVisitor }) => {
  const names = ['Wanjiku Kamau', 'Otieno Brian', 'Amina Hassan Abdullahi', 'Njeri Mwangi', 'Chebet Ruto', 'Mutua David Kioko'];
  const products = (await (await asOwner(shop, '/rest/v1/products?select=id,name,slug,price&is_active=eq.true&stock_quantity=gt.20', 'GET')).json()) as { id: string; name: string; slug: string; price: number }[];
  for (let i = 0; i < 26; i += 1) {
    const product = products[i % products.length] as (typeof products)[number];
    const quantity = 1 + (i % 3);
    const o = i % 4 === 1 ? await placeAssignedOrder(shop, names[i % 6] as string) : await placeOrder(shop, names[i % 6] as string, '0712345678', { product_id: product.id, quantity, expected_total: product.price * quantity + 100 });
    if (i % 4 !== 1 && i % 5 !== 4) {
      await changeOrder(shop, o.id, { payment_status: 'paid', status: 'processing', reserved_until: null });
      await asOwner(shop, '/rest/v1/deliveries', 'POST', { order_id: o.id });
    }
    if (i % 6 === 2) await changeOrder(shop, o.id, { delivery_notes: 'Allergic to hibiscus! Call at the blue gate' });
  }
  const pages = (process.env.LOOK ?? '/admin/orders').split(',');
  for (const [w, h] of [[360, 740], [768, 1024], [1280, 800], [1440, 900]] as const) {
    const { page } = await newVisitor({ viewport: { width: w, height: h } });
    await enterAsStaff(shop, page);
    for (const p of pages) {
      await page.goto(shop.url + p);
      await page.getByRole('heading', { level: 1 }).waitFor();
      await page.waitForTimeout(1500);
      const top = await page.evaluate(() => document.querySelector('[data-row]')?.getBoundingClientRect().top);
      console.log(w, p, 'first row at', top, 'overflow', await page.evaluate(() => document.documentElement.scrollWidth - innerWidth));
      await page.screenshot({ path: `/tmp/look/${w}${p.replaceAll(/[/?=]/g, '-')}.png` });
    }
  }
}, 300_000);
