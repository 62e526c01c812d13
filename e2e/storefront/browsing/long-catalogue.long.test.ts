// A catalogue of several pages: with JavaScript the list grows, without JavaScript each page has its own URL.
import type { Page } from 'playwright-core';
import { beforeAll, expect } from 'vitest';
import { expectAccessible } from '../../accessibility.ts';
import { phone, waitForHydration } from '../../browser.ts';
import { phoneFirst } from '../../selection.ts';
import { asOwner } from '../../staff-member.ts';
import { openShopForStories, shop, story } from '../../story.ts';

let total: number;

openShopForStories();
beforeAll(async () => {
  const seeded = await asOwner(shop, '/rest/v1/products?is_active=is.true&select=slug', 'GET');
  total = ((await seeded.json()) as unknown[]).length + 130;
  // Older than the seeded drinks, one minute apart.
  const crates = Array.from({ length: 130 }, (_, index) => ({
    name: `Crate ${index + 1}`,
    slug: `crate-${index + 1}`,
    price: 90_000 + index * 100,
    category: 'Mango',
    brand: index < 70 ? 'Crates' : 'Boxes',
    stock_quantity: 5,
    created_at: new Date(Date.parse('2026-01-01T00:00:00Z') - index * 60_000).toISOString(),
  }));
  await asOwner(shop, '/rest/v1/products', 'POST', crates);
});

const drinks = (page: Page) => page.getByRole('main').getByRole('article');
const more = (page: Page) => page.getByRole('link', { name: 'Show more drinks' });
const pageOf = (page: Page) => new URL(page.url()).searchParams.get('page');

story.for(phoneFirst)(
  'Show more drinks adds a page and keeps focus and scroll position %s',
  async ([, viewport], { newVisitor }) => {
    const { page } = await newVisitor({ viewport });
    await page.goto(`${shop.url}/shop`);
    // Until the code of the link is there, a press opens the next page alone, as without JavaScript.
    await waitForHydration(page, more(page));
    await page.getByText(`${total} drinks`, { exact: true }).waitFor();
    expect(await drinks(page).count()).toBe(60);
    const first = await drinks(page).first().textContent();

    await more(page).focus();
    // Cards far above are laid out late, so the page may grow there: the visible card must not move.
    const lastShown = drinks(page).nth(59);
    const isInSight = async () => {
      const box = await lastShown.boundingBox();
      return box !== null && box.y + box.height > 0 && box.y < viewport.height;
    };
    await expect.poll(isInSight).toBe(true);
    await page.keyboard.press('Enter');
    await page.getByText(`Showing 1 to 120 of ${total} drinks`).waitFor();
    await expect.poll(isInSight).toBe(true);
    expect(await more(page).evaluate((link) => link === document.activeElement)).toBe(true);
    expect(await drinks(page).count()).toBe(120);
    expect(await drinks(page).first().textContent()).toBe(first);
    expect(pageOf(page)).toBe('2');
    await expectAccessible(page, 'a long list');

    // After the last page the link disappears, and the focus moves next to its place.
    await page.keyboard.press('Enter');
    const end = page.getByText(`Showing 1 to ${total} of ${total} drinks`);
    await end.waitFor();
    await expect.poll(() => end.evaluate((text) => text === document.activeElement)).toBe(true);
    const slugs = await drinks(page)
      .getByRole('heading')
      .getByRole('link')
      .evaluateAll((links) => links.map((link) => link.getAttribute('href')));
    expect(new Set(slugs).size).toBe(total);

    // Back shows the same list again.
    await page.getByRole('link', { name: 'Crate 130', exact: true }).click();
    await page.waitForURL('**/shop/crate-130');
    await page.goBack();
    await end.waitFor();
    expect(await drinks(page).count()).toBe(total);

    // A filter or a sort order returns to the first page and stays in the URL.
    await page.goto(`${shop.url}/shop?brand=Crates&sort=price`);
    await waitForHydration(page, more(page));
    await page.getByText('70 drinks', { exact: true }).waitFor();
    await more(page).click();
    await page.getByText('Showing 1 to 70 of 70 drinks').waitFor();
    expect(await drinks(page).last().textContent()).toContain('Crate 70');
    await page.getByRole('searchbox', { name: 'Search', exact: true }).fill('whisky');
    await page.getByRole('heading', { name: 'No products found' }).waitFor();
    expect(new URL(page.url()).search).toBe('?search=whisky&brand=Crates&sort=price');
    await page.getByRole('link', { name: 'Show everything' }).click();
    await page.getByText(`${total} drinks`, { exact: true }).waitFor();
    expect(await drinks(page).count()).toBe(60);
  },
);

story('page links work without JavaScript', async ({ newVisitor }) => {
  const { page } = await newVisitor({ viewport: phone, javaScriptEnabled: false });
  await page.goto(`${shop.url}/shop?sort=price`, { waitUntil: 'domcontentloaded' });
  const names = new Set<string | null>();
  const pages = Math.ceil(total / 60);
  for (let number = 1; number <= pages; number += 1) {
    if (number > 1) await more(page).click();
    // Does not wait until 60 images are rendered for the first time.
    await page.waitForURL(number === 1 ? '**/shop?sort=price' : `**/shop?sort=price&page=${number}`, {
      waitUntil: 'domcontentloaded',
    });
    for (const name of await drinks(page).getByRole('heading').allTextContents()) names.add(name);
  }
  expect(names.size).toBe(total);
  expect(await more(page).count()).toBe(0);
  await page.getByRole('link', { name: 'Previous drinks' }).click();
  await page.waitForURL(`**/shop?sort=price&page=${pages - 1}`, { waitUntil: 'domcontentloaded' });

  const relations = () =>
    page
      .locator('link[rel=canonical], link[rel=prev], link[rel=next]')
      .evaluateAll((links) =>
        Object.fromEntries(links.map((link) => [link.getAttribute('rel'), link.getAttribute('href')])),
      );
  await page.goto(`${shop.url}/shop?page=2&utm_source=x`);
  const shopUrl = `${shop.url}/shop`;
  expect(await relations()).toEqual({
    canonical: `${shopUrl}?page=2`,
    prev: shopUrl,
    ...(pages > 2 ? { next: `${shopUrl}?page=3` } : {}),
  });
  // A page number beyond the last shows the first page.
  for (const odd of ['999', '0', 'x']) {
    await page.goto(`${shop.url}/shop?page=${odd}`);
    expect(await relations()).toEqual({ canonical: shopUrl, next: `${shopUrl}?page=2` });
  }
});

// Runs last, because it makes the list longer.
story('the sitemap is split above a thousand products', async ({ newVisitor }) => {
  const { page } = await newVisitor();
  const read = async (path: string) => {
    const answer = await page.request.get(`${shop.url}${path}`);
    const places = [...(await answer.text()).matchAll(/<loc>([^<]*)<\/loc>/g)].map(([, place = '']) => place);
    return { status: answer.status(), places };
  };
  const short = await read('/sitemap.xml');
  expect(short.places).toContain(`${shop.url}/shop/crate-1`);
  const most = Array.from({ length: 1000 }, (_, index) => ({
    name: `Bottle ${index}`,
    slug: `bottle-${index}`,
    price: 90_000,
    stock_quantity: 5,
  }));
  await asOwner(shop, '/rest/v1/products', 'POST', most);
  const parts = [`${shop.url}/sitemap.xml?part=1`, `${shop.url}/sitemap.xml?part=2`];
  await expect.poll(async () => (await read('/sitemap.xml')).places).toEqual(parts);
  const all = [...(await read('/sitemap.xml?part=1')).places, ...(await read('/sitemap.xml?part=2')).places];
  expect(new Set(all)).toEqual(
    new Set([...short.places, ...most.map(({ slug }) => `${shop.url}/shop/${slug}`)]),
  );
  expect(all).toHaveLength(short.places.length + most.length);
  expect((await read('/sitemap.xml?part=3')).status).toBe(404);
  expect((await read('/sitemap.xml?part=0')).places).toEqual(parts);
});
