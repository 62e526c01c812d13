// Product search: suggestions in the header, the shop page with its groups and filters, and synonyms set by staff.
import type { Locator, Page } from 'playwright-core';
import { describe, expect } from 'vitest';
import { until } from '../../../scripts/tests/open-shop.ts';
import { expectAccessible } from '../../accessibility.ts';
import { desktop, phone, waitForHydration } from '../../browser.ts';
import { atSizes } from '../../selection.ts';
import { enterAsStaff } from '../../staff-member.ts';
import { openShopForStories, shop, story } from '../../story.ts';

openShopForStories();

const drinks = (page: Page) => page.getByRole('main').getByRole('article');
const count = (page: Page, text: string) =>
  page.getByRole('main').getByRole('status').getByText(text).waitFor();

describe.each(
  atSizes([
    ['a phone', phone],
    ['a desktop', desktop],
  ] as const),
)('on %s', (device, viewport) => {
  const isPhone = viewport === phone;

  /** The search box of the header, which is in the menu on phones. */
  async function searchBox(page: Page): Promise<Locator> {
    if (isPhone) await page.getByRole('button', { name: 'Menu', exact: true }).click();
    return (isPhone ? page.getByRole('dialog') : page.getByRole('banner')).getByRole('combobox', {
      name: 'Search drinks',
    });
  }

  story('a question leads to its page, with and without drinks', async ({ newVisitor }) => {
    const { page } = await newVisitor({ viewport });
    await page.goto(`${shop.url}/shop?search=do+you+deliver+to+Mombasa`);
    await page.getByRole('heading', { name: 'No products found' }).waitFor();
    await page.getByRole('link', { name: 'See where and when we deliver' }).waitFor();
    await page.goto(`${shop.url}/shop?search=how+long+delivery`);
    await drinks(page).first().waitFor();
    await page.getByRole('link', { name: 'See where and when we deliver' }).click();
    await page.waitForURL(/\/delivery$/);
  });

  story('the header suggests drinks for keyboard and touch', async ({ newVisitor }) => {
    const { page } = await newVisitor({ viewport });
    const searches: string[] = [];
    page.on('request', (request) => {
      if (request.url().includes('/rpc/search_products'))
        searches.push((request.postDataJSON() as { search: string }).search);
    });
    await page.goto(`${shop.url}/delivery`);
    await waitForHydration(page);
    const box = await searchBox(page);
    const options = page.getByRole('option');
    await box.pressSequentially('pineaple', { delay: 20 });
    await options.first().waitFor();
    expect(await box.getAttribute('aria-expanded')).toBe('true');
    expect(await options.first().textContent()).toMatch(/Pineapple Mint.*KSh [\d,]+\.00/);
    await expect
      .poll(() =>
        options
          .first()
          .locator('img')
          .evaluate((image: HTMLImageElement) => image.naturalWidth),
      )
      .toBeGreaterThan(0);
    expect(await options.count()).toBeLessThanOrEqual(5);
    await page.getByText(/^\d drinks suggested/).waitFor({ state: 'attached' });
    await expect.poll(() => searches.at(-1)).toBe('pineaple');
    expect(searches.length, 'not every key is a request').toBeLessThan('pineaple'.length - 2);
    await expectAccessible(page, `suggestions on ${device}`);

    const active = async () => {
      const id = await box.getAttribute('aria-activedescendant');
      return id === null
        ? null
        : options.evaluateAll((all, wanted) => all.findIndex((option) => option.id === wanted), id);
    };
    const last = (await options.count()) - 1;
    for (const [key, index] of [
      ['ArrowDown', 0],
      ['ArrowDown', 1],
      ['ArrowUp', 0],
      ['ArrowUp', last],
      ['ArrowDown', 0],
      ['End', last],
      ['Home', 0],
    ] as const) {
      await page.keyboard.press(key);
      await expect.poll(active, { message: key }).toBe(index);
    }
    expect(await page.getByRole('option', { selected: true }).count()).toBe(1);
    await page.keyboard.press('Escape');
    await expect.poll(() => box.getAttribute('aria-expanded')).toBe('false');
    expect(await box.inputValue()).toBe('pineaple');
    if (isPhone) expect(await page.getByRole('dialog').isVisible(), 'the menu stays').toBe(true);
    await page.keyboard.press('ArrowDown');
    const name =
      (await page.getByRole('option', { selected: true }).locator('span').nth(2).textContent()) ?? '';
    await page.keyboard.press('Enter');
    await page.waitForURL('**/shop/pineapple-mint-*');
    await page.getByRole('heading', { level: 1, name }).waitFor();

    // By touch, without selecting a suggestion.
    const again = await searchBox(page);
    await again.fill('ukwaju');
    const tamarind = page.getByRole('option', { name: /Tamarind/ }).first();
    await (isPhone ? tamarind.tap() : tamarind.click());
    await page.waitForURL('**/shop/tamarind-*');
    // A page that opens takes the focus, which closes the suggestions.
    await page.getByRole('heading', { level: 1, name: /Tamarind/ }).waitFor();
    const third = await searchBox(page);
    await third.fill(' ginger & lemon ');
    await options.first().waitFor();
    await page.keyboard.press('Enter');
    await page.waitForURL(
      (url) => url.pathname === '/shop' && url.searchParams.get('search') === 'ginger & lemon',
    );
    await count(page, '3 drinks');
    await expect.poll(() => page.getByRole('listbox').count()).toBe(0);
  });

  story('"+" of a suggestion leads to the order form in one tap', async ({ newVisitor }) => {
    const { page } = await newVisitor({ viewport });
    await page.goto(`${shop.url}/delivery`);
    await waitForHydration(page);
    const box = await searchBox(page);
    await box.fill('hibiscus');
    const plus = page
      .getByRole('option', { name: /Hibiscus/ })
      .first()
      .getByTitle('Order');
    await (isPhone ? plus.tap() : plus.click());
    await page.waitForURL('**/shop/hibiscus-*/order');
    await page.getByRole('heading', { level: 1, name: 'Your order' }).waitFor();
    await page.getByLabel(/^Name/).fill('Amina');
    await page.goBack();
    await page.waitForURL('**/delivery');
  });

  story('the shop finds misspelt drinks and always suggests something', async ({ newVisitor }) => {
    const { page } = await newVisitor({ viewport });
    await page.goto(`${shop.url}/shop`);
    await waitForHydration(page);
    const box = page.getByRole('main').getByRole('searchbox');
    for (const text of ['lemon ginger', '750ml', 'juice ya embe', 'miraa']) {
      await box.fill(text);
      await page.waitForURL((url) => url.searchParams.get('search') === text);
      await until(async () => (await drinks(page).count()) > 2, text);
    }
    await box.fill('pineaple');
    await page.getByText('Did you mean').waitFor();
    await expect.poll(() => drinks(page).first().textContent()).toContain('Pineapple Mint');
    await page.getByRole('link', { name: 'pineapple', exact: true }).click();
    await page.waitForURL(/search=pineapple$/);
    await page.getByText('Did you mean').waitFor({ state: 'detached' });
    expect(await box.inputValue()).toBe('pineapple');
    await count(page, '3 drinks');

    await box.fill('whisky');
    await page.getByRole('heading', { name: 'No products found' }).waitFor();
    await count(page, '0 drinks');
    const others = page.getByRole('region', { name: 'How about one of these?' });
    await others.waitFor();
    expect(await others.getByRole('article').count()).toBe(4);
    await expectAccessible(page, `an empty result on ${device}`);
    await others.getByRole('link').first().click();
    await page.getByRole('button', { name: 'Order Now' }).waitFor();
    await page.goBack();
    await page.getByRole('heading', { name: 'No products found' }).waitFor();

    // A price or a tracking number matches no drink and still leads to a useful page.
    await box.fill('jj202601311234');
    await page.getByRole('link', { name: 'Track JJ-20260131-1234' }).waitFor();
    // The words of a pasted link find drinks, too.
    await box.fill('see https://jani.example/track-order/JJ-20260131-5678.');
    await page.getByRole('link', { name: 'Track JJ-20260131-5678' }).waitFor();
    await box.fill('chini ya 800');
    await page.getByText('These cost KSh 800.00 or less.').waitFor();
    await count(page, '8 drinks');
    await box.fill('whisky kama 500 bob');
    await page.getByRole('heading', { name: 'No products found' }).waitFor();
    await expect
      .poll(() => others.getByRole('article').first().textContent(), {
        message: 'the cheapest drink in stock',
      })
      .toContain('Dusk Energy Hibiscus');
    await page.getByRole('link', { name: 'See all drinks, cheapest first' }).click();
    await page.waitForURL(/sort=price$/);
    await count(page, '27 drinks');
    await page.goto(`${shop.url}/shop?search=mango+under+1000`);
    await page.getByText('These cost KSh 1,000.00 or less.').waitFor();
    expect(await drinks(page).first().textContent()).toContain('Mango');
    const note = page.getByText('The search finds drinks by name, not by price.');
    await page.goto(`${shop.url}/shop?search=mango+above+1000`);
    await note.waitFor();
    await page.getByRole('link', { name: 'See these, cheapest first' }).click();
    await page.waitForURL(/sort=price$/);
    await expect.poll(() => drinks(page).first().textContent()).toContain('Dusk Energy Mango');
    expect(await note.isVisible()).toBe(true);
  });

  story('Brands and Flavors open grouped sections with headings', async ({ newVisitor }) => {
    const { page } = await newVisitor({ viewport });
    for (const [query, title, groups] of [
      ['filter=brand', 'Shop by brand', ['Dusk Energy', 'Embu Fresh', 'Meru Gold']],
      [
        'filter=flavor',
        'Shop by flavor',
        [
          'Blackcurrant',
          'Coconut Lime',
          'Ginger Lemon',
          'Hibiscus',
          'Mango',
          'Passion',
          'Pineapple Mint',
          'Tamarind',
          'Watermelon',
        ],
      ],
    ] as const) {
      await page.goto(`${shop.url}/shop?${query}`);
      await page.getByRole('heading', { level: 1, name: title }).waitFor();
      expect(await page.getByRole('main').getByRole('heading', { level: 2 }).allTextContents()).toEqual(
        groups,
      );
      for (const name of groups) {
        const members = page.getByRole('region', { name, exact: true }).getByRole('article');
        expect(await members.count()).toBe(27 / groups.length);
        for (const text of await members.allTextContents()) expect(text).toContain(name);
      }
      await expectAccessible(page, `${title} on ${device}`);
    }
  });

  story('two whole drinks are on the first screen of the shop', async ({ newVisitor }) => {
    const { page } = await newVisitor({ viewport });
    for (const query of ['', '?filter=brand', '?filter=flavor', '?search=mango', '?category=Mango']) {
      await page.goto(`${shop.url}/shop${query}`);
      await waitForHydration(page);
      const bottoms = await drinks(page).evaluateAll((all) =>
        all
          .map((card) => card.getBoundingClientRect())
          .filter(({ right }) => right <= innerWidth)
          .map(({ bottom }) => bottom),
      );
      expect(
        bottoms.filter((bottom) => bottom <= viewport.height).length,
        `/shop${query}`,
      ).toBeGreaterThanOrEqual(2);
    }
  });

  story('filters narrow the list and can be cleared', async ({ newVisitor }) => {
    const { page } = await newVisitor({ viewport });
    await page.goto(`${shop.url}/shop`);
    await waitForHydration(page);
    const filters = page.getByRole('button', { name: /^Filters/ });
    if (isPhone) await filters.click();
    else expect(await filters.isVisible()).toBe(false);
    await page.getByRole('group', { name: 'Flavor' }).getByText('Passion', { exact: true }).click();
    await page.getByLabel('Brand').selectOption('Meru Gold');
    await count(page, '1 drink');
    await expectAccessible(page, `the filters on ${device}`);
    if (!isPhone) return;
    await page.getByRole('button', { name: 'Show 1 drink' }).click();
    await page.getByRole('heading', { name: 'Filters' }).waitFor({ state: 'hidden' });
    await page.getByRole('button', { name: 'Filters 2 chosen' }).waitFor();
    await page.getByRole('link', { name: 'Remove filter Meru Gold' }).click();
    await count(page, '3 drinks');
    await filters.click();
    await page.keyboard.press('Escape');
    await page.getByRole('heading', { name: 'Filters' }).waitFor({ state: 'hidden' });
  });

  story('staff add, edit and delete search words, and the shop uses them at once', async ({ newVisitor }) => {
    const { page } = await newVisitor({ viewport });
    const word = isPhone ? 'sukumawiki' : 'mchicha';
    const found = async (text: string) =>
      (await (await fetch(`${shop.url}/shop?search=${word}`)).text()).includes(text);
    expect(await found('No products found')).toBe(true);
    await enterAsStaff(shop, page, '/admin/products');
    await page.getByRole('main').getByRole('button', { name: 'More', exact: true }).click();
    await page.getByRole('button', { name: 'Search Words' }).click();
    const dialog = page.getByRole('dialog');
    const listed = dialog
      .getByRole('list', { name: 'Search words' })
      .getByRole('listitem')
      .filter({ hasText: word });
    const toast = (text: string) => page.getByText(text, { exact: true }).first();
    const adding = dialog.getByRole('form', { name: 'Add a search word' });
    const add = async (typed: string, means: string) => {
      await adding.getByLabel('Customers type').fill(typed);
      await adding.getByLabel('It means').fill(means);
      await adding.getByRole('button', { name: 'Add Search Word' }).click();
    };
    await add('Embe', 'mango');
    await dialog.getByText('This search word is listed already').waitFor();
    await add('one two three four', 'mango');
    await dialog.getByText('Search word takes 1 to 3 words').waitFor();
    await expectAccessible(page, `search words on ${device}`);
    await add(` ${word.toUpperCase()}! `, 'Tamarind');
    await toast('Search word added').waitFor();
    await listed.getByText('means tamarind').waitFor();
    await until(() => found('Embu Fresh Tamarind'), 'the shop finds tamarind');

    await dialog.getByLabel('Find in the list').fill(word);
    await listed.getByRole('button', { name: 'Edit' }).click();
    await dialog
      .getByRole('form', { name: `Edit ${word}` })
      .getByLabel('It means')
      .fill('passion');
    await page.keyboard.press('Enter');
    await toast('Search word saved').waitFor();
    await until(() => found('Embu Fresh Passion'), 'the shop finds passion');

    await listed.getByRole('button', { name: `Delete ${word}` }).click();
    await listed.getByRole('button', { name: `Delete ${word} for good` }).click();
    await toast('Search word deleted').waitFor();
    await listed.waitFor({ state: 'detached' });
    await until(() => found('No products found'), 'the shop finds nothing');
  });
});
