// The chat with the shop on WhatsApp, from each page, with what the page is about.
import type { Page } from 'playwright-core';
import { describe, expect } from 'vitest';
import { placeOrder } from '../../placed-orders.ts';
import { phoneFirst } from '../../selection.ts';
import { openShopForStories, shop, story } from '../../story.ts';

openShopForStories();

/** What the chat behind a link starts with. */
async function textOf(page: Page, area: 'main' | 'contentinfo', name: RegExp): Promise<string | null> {
  const target = new URL(
    (await page.getByRole(area).getByRole('link', { name }).first().getAttribute('href')) ?? '',
  );
  expect(target.origin + target.pathname).toMatch(/^https:\/\/wa\.me\/254\d{9}$/);
  return target.searchParams.get('text');
}

describe.each(phoneFirst)('%s', (_, viewport) => {
  story('a chat names the drink or the order of its page', async ({ newVisitor }) => {
    const { page } = await newVisitor({ viewport });
    await page.goto(`${shop.url}/shop/mango-bottle`);
    const name = await page.getByRole('heading', { level: 1 }).textContent();
    const aboutDrink = `Habari! It's about ${name}.`;
    expect(await textOf(page, 'main', /^Ask on WhatsApp$/)).toBe(aboutDrink);
    expect(await textOf(page, 'contentinfo', /^WhatsApp chat/)).toBe(aboutDrink);

    const { tracking_number } = await placeOrder(shop, 'Chat Wambui', '0711060101');
    await page.goto(`${shop.url}/track-order/${tracking_number}`);
    const aboutOrder = `Habari! It's about order ${tracking_number}.`;
    expect(await textOf(page, 'main', /^WhatsApp us$/)).toBe(aboutOrder);
    expect(await textOf(page, 'contentinfo', /^WhatsApp chat/)).toBe(aboutOrder);

    await page.goto(`${shop.url}/track-order/JJ-20200101-1000`);
    await page.getByRole('heading', { name: 'No Order Found' }).waitFor();
    expect(await textOf(page, 'main', /^WhatsApp us$/)).toBe("Habari! It's about order JJ-20200101-1000.");

    await page.goto(`${shop.url}/contact`);
    expect(await textOf(page, 'main', /^Chat on WhatsApp$/)).toBe('Habari!');
  });

  story('Share and Copy offer WhatsApp where the browser can do neither', async ({ newVisitor }) => {
    const { page } = await newVisitor({ viewport });
    await page.addInitScript(() => {
      Object.defineProperty(Navigator.prototype, 'share', { value: undefined });
      Object.defineProperty(Navigator.prototype, 'clipboard', { value: undefined });
      Document.prototype.execCommand = () => false;
    });
    await page.goto(`${shop.url}/shop/mango-bottle`);
    await page.getByRole('button', { name: 'Share' }).click();
    const link = page.getByRole('link', { name: 'Send by WhatsApp' });
    expect(new URL((await link.getAttribute('href')) ?? '').searchParams.get('text')).toMatch(
      /^.+ http\S+\/shop\/mango-bottle$/,
    );

    const { tracking_number } = await placeOrder(shop, 'Copy Wambui', '0711060102');
    await page.goto(`${shop.url}/track-order/${tracking_number}`);
    await page.getByRole('button', { name: 'Copy tracking number' }).first().click();
    expect(new URL((await link.getAttribute('href')) ?? '').searchParams.get('text')).toBe(tracking_number);
  });
});
