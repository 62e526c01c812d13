// Pages of flavors and brands: by the links of lists and products, and with the text that staff write.
import { expect } from 'vitest';
import { until } from '../../../scripts/tests/open-shop.ts';
import { expectAccessible } from '../../accessibility.ts';
import { desktop, phone, waitForHydration } from '../../browser.ts';
import { asOwner } from '../../staff-member.ts';
import { openShopForStories, shop, story } from '../../story.ts';

openShopForStories();

story.for([phone, desktop])(
  'a visitor goes from a drink to its flavor, a brand and another drink, at %o',
  async (viewport, { newVisitor }) => {
    const { page } = await newVisitor({ viewport });
    await page.goto(`${shop.url}/shop/hibiscus-can`);
    // Before it, the link loads a document, and the browser warns that it did not use the document's preloaded image: it has a larger one.
    await waitForHydration(page);
    await page.getByRole('link', { name: 'All Hibiscus drinks' }).click();
    await page.waitForURL('**/flavors/hibiscus');
    await page.getByRole('heading', { level: 1, name: 'Hibiscus' }).waitFor();
    await page.getByText('Flavor · 3 drinks').waitFor();
    expect(await page.title()).toMatch(/^Hibiscus drinks from KSh [\d,.]+, delivered in Nairobi · /);
    await expectAccessible(page, 'the page of a flavor');
    await page.getByRole('navigation', { name: 'Brands' }).getByRole('link', { name: 'Meru Gold' }).click();
    await page.waitForURL('**/brands/meru-gold');
    await page.getByRole('heading', { level: 1, name: 'Meru Gold' }).waitFor();
    await page.getByRole('link', { name: 'Meru Gold Coconut Lime', exact: true }).click();
    await page.waitForURL('**/shop/coconut-lime-flask');
    await page.getByRole('heading', { level: 1, name: 'Meru Gold Coconut Lime' }).waitFor();
  },
);

story.for([phone, desktop])(
  'a product shows its facts, its size in the title and its price once, at %j',
  async (viewport, { newVisitor }) => {
    const { page } = await newVisitor({ viewport });
    await page.goto(`${shop.url}/shop/tamarind-bottle`);
    const main = page.getByRole('main');
    expect(await page.title()).toMatch(/^Embu Fresh Tamarind, 500 ml, for KSh [\d,.]+ in Nairobi · /);
    for (const [fact, text] of [
      ['Size', '500 ml'],
      ['Strength of khat', 'Light'],
      ['Sweetened with', 'Honey'],
    ] as const) {
      await main.getByRole('term').filter({ hasText: fact }).waitFor();
      await main.getByRole('definition').filter({ hasText: text }).first().waitFor();
    }
    const article = main.getByRole('article').first();
    expect(await article.getByText('890.00').filter({ visible: true }).count()).toBe(1);
    await expectAccessible(page, 'the page of a product with facts');
  },
);

story.for([desktop, phone])(
  'the list by flavor leads to its pages, at %o',
  async (viewport, { newVisitor }) => {
    const { page } = await newVisitor({ viewport });
    await page.goto(`${shop.url}/flavors`);
    await page.waitForURL('**/shop?filter=flavor');
    await page.getByRole('heading', { level: 2, name: 'Tamarind' }).getByRole('link').click();
    await page.waitForURL('**/flavors/tamarind');
  },
);

story('a page shows a new text at once, and none of an unknown or inactive flavor', async () => {
  const read = async (path: string) => {
    const answer = await fetch(`${shop.url}${path}`);
    return { status: answer.status, html: await answer.text() };
  };
  expect((await read('/flavors/watermelon')).html).not.toContain('Text of the story');
  const change = (values: object) => asOwner(shop, '/rest/v1/categories?slug=eq.watermelon', 'PATCH', values);
  await change({ page_text: 'Text of the story & more' });
  await until(
    async () => (await read('/flavors/watermelon')).html.includes('Text of the story &amp; more'),
    'the new text is shown',
    2000,
  );
  await change({ is_active: false });
  await until(async () => (await read('/flavors/watermelon')).status === 404, 'the page is gone', 2000);
  await change({ is_active: true });
  await until(async () => (await read('/flavors/watermelon')).status === 200, 'the page is back', 2000);
  for (const path of ['/flavors/no-such', '/brands/no-such', '/brands/eq.x', `/flavors/${'a'.repeat(300)}`]) {
    expect((await read(path)).status, path).toBe(404);
  }
});
