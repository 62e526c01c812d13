// "Tell me when it's back": a visitor leaves a phone for a drink that is sold out, with and without scripts; staff see who waits.
import { expect } from 'vitest';
import { expectAccessible } from '../../accessibility.ts';
import { desktop, phone, waitForHydration } from '../../browser.ts';
import { atSizes } from '../../selection.ts';
import { asOwner } from '../../staff-member.ts';
import { openShopForStories, shop, storyWith } from '../../story.ts';

openShopForStories();
const story = storyWith({ expectedFailures: /(400|409) \(/ });

/** A drink of this test alone, which is sold out. */
async function makeSoldOut(name: string): Promise<{ slug: string; phones(): Promise<string[]> }> {
  const slug = name.toLowerCase().replaceAll(' ', '-');
  const answer = await asOwner(shop, '/rest/v1/products', 'POST', {
    name,
    slug,
    price: 90_000,
    stock_quantity: 0,
    category: 'Mango',
  });
  expect(answer.ok).toBe(true);
  return {
    slug,
    async phones() {
      const path = `/rest/v1/stock_alerts?select=phone,products!inner(slug)&products.slug=eq.${slug}`;
      return ((await (await asOwner(shop, path, 'GET')).json()) as { phone: string }[]).map(
        (row) => row.phone,
      );
    },
  };
}

const sizes = atSizes([
  ['on a phone', phone, 'Baobab Phone', '0711009901'],
  ['at a desktop', desktop, 'Baobab Desktop', '0711009902'],
] as const);

story.for(sizes)(
  'a visitor asks for one text %s',
  async ([where, viewport, name, number], { newVisitor }) => {
    const { slug, phones } = await makeSoldOut(name);
    const { page } = await newVisitor({ viewport });
    await page.goto(`${shop.url}/shop?search=${encodeURIComponent(name)}`);
    await page.getByRole('link', { name: `Tell me when ${name} is back` }).click();
    await page.waitForURL(`**/shop/${slug}#back`);
    const form = page.getByRole('region', { name: "Tell me when it's back" });
    await waitForHydration(page, form.getByLabel('Your phone'));
    await form.getByLabel('Your phone').fill('12345');
    await form
      .getByRole('checkbox', { name: `Send me one text about ${name}, and no other.` })
      .press('Space');
    await form.getByLabel('Your phone').press('Enter');
    await form.getByText('Please enter a valid Kenyan phone number', { exact: false }).waitFor();
    await expect.poll(() => page.evaluate(() => document.activeElement?.getAttribute('name'))).toBe('phone');
    await expectAccessible(page, `the form for a text ${where}`);
    expect(await phones()).toEqual([]);
    await form.getByLabel('Your phone').fill(number);
    await form.getByRole('button', { name: 'Text me' }).click();
    await page.getByText(`We text you once ${name} is back.`).waitFor();
    await expectAccessible(page, `the answer about a text ${where}`);
    expect(await phones()).toEqual([number.replace(/^0/, '+254')]);
    expect(await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth)).toBe(0);
  },
);

story('a visitor without scripts asks for one text, and a link back has no form', async ({ newVisitor }) => {
  const { slug, phones } = await makeSoldOut('Baobab Plain');
  const { page } = await newVisitor({ viewport: phone, javaScriptEnabled: false });
  await page.goto(`${shop.url}/shop/${slug}`);
  await page.getByLabel('Your phone').fill('020 123');
  await page.getByRole('checkbox', { name: /one text about Baobab Plain/ }).check();
  await page.getByRole('button', { name: 'Text me' }).click();
  await page.getByText('Please enter a valid Kenyan phone number', { exact: false }).waitFor();
  expect(await page.getByLabel('Your phone').inputValue()).toBe('020 123');
  await page.getByLabel('Your phone').fill('0711 009 903');
  await page.getByRole('checkbox').check();
  await page.getByRole('button', { name: 'Text me' }).click();
  await page.getByText('We text you once Baobab Plain is back.').waitFor();
  expect(await phones()).toEqual(['+254711009903']);
  await page.goto(`${shop.url}/shop/${slug}/back-in-stock`);
  expect(new URL(page.url()).pathname).toBe(`/shop/${slug}`);
});
