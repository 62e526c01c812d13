// The first screen of each page before scrolling, on a phone and on a desktop.
import type { Locator, Page } from 'playwright-core';
import { describe, expect } from 'vitest';
import { desktop, phone, waitForHydration } from '../../browser.ts';
import { amina, order, trackingNumberIn } from '../../shopper.ts';
import { asOwner } from '../../staff-member.ts';
import { openShopForStories, shop, story } from '../../story.ts';

openShopForStories();

async function boxOf(part: Locator) {
  const box = await part.boundingBox();
  if (!box) throw new Error('not shown');
  return { ...box, right: box.x + box.width, bottom: box.y + box.height };
}

/** Whether the element is fully on the screen and the centre of each edge can be touched. */
const isSeenWhole = (part: Locator) =>
  part.evaluate((element) => {
    const { left, right, top, bottom } = element.getBoundingClientRect();
    if (left < 0 || top < 0 || right > innerWidth || bottom > innerHeight) return false;
    const [x, y] = [(left + right) / 2, (top + bottom) / 2];
    return [
      [x, top + 1],
      [x, bottom - 1],
      [x, y],
    ].every(([atX = 0, atY = 0]) => {
      const hit = document.elementFromPoint(atX, atY);
      return hit !== null && (element.contains(hit) || hit.contains(element));
    });
  });

/** Whether the text of a card is on the screen and nothing but its own card lies there: the card's link covers its texts. */
const isSeenOnCard = (text: Locator) =>
  text.evaluate((element) => {
    const { left, right, top, bottom } = element.getBoundingClientRect();
    if (left < 0 || top < 0 || right > innerWidth || bottom > innerHeight) return false;
    const card = element.closest('article');
    return [top + 1, bottom - 1].every((y) =>
      card?.contains(document.elementFromPoint((left + right) / 2, y)),
    );
  });

const viewports = [
  ['a phone', phone],
  ['a desktop', desktop],
] as const;

describe.each(viewports)('on %s', (_, viewport) => {
  const isPhone = viewport === phone;

  story('the first screen of a product shows its price above the order button', async ({ newVisitor }) => {
    const { page } = await newVisitor({ viewport });
    for (const slug of ['mango-bottle', 'pineapple-mint-bottle', 'tamarind-bottle']) {
      await page.goto(`${shop.url}/shop/${slug}`);
      const price = page
        .getByRole('article')
        .getByText(/^KSh [\d,]+\.00$/)
        .first();
      expect(await isSeenWhole(price), slug).toBe(true);
      expect(await isSeenWhole(page.getByRole('button', { name: 'Order Now' })), slug).toBe(true);
      expect(await isSeenWhole(page.getByRole('heading', { level: 1 })), slug).toBe(true);
    }
  });

  story('the first screen shows the price, also on a low one', async ({ newVisitor }) => {
    const { page } = await newVisitor({ viewport: isPhone ? viewport : { width: 740, height: 360 } });
    await page.goto(`${shop.url}/shop/tamarind-bottle`);
    await waitForHydration(page);
    const row = page.locator('form').filter({ has: page.getByRole('button', { name: 'Order Now' }) });
    // A low screen shows it beside the button, a phone above.
    expect(await isSeenWhole((isPhone ? page : row).getByText('KSh 890.00').first())).toBe(true);
    expect(await isSeenWhole(page.getByRole('heading', { level: 1 }))).toBe(true);
    await row.getByText('+ KSh 1.00 delivery').waitFor();
    await row.getByRole('button', { name: 'Increase quantity' }).click();
    await row.getByText('KSh 1,780.00').waitFor();
  });

  story(
    'the first screen of a small phone says the price, or that a drink is out of stock',
    async ({ newVisitor }) => {
      if (!isPhone) return;
      const { page } = await newVisitor({ viewport: { width: 320, height: 568 } });
      await page.goto(`${shop.url}/shop/mango-bottle`);
      const row = page.locator('form').filter({ has: page.getByRole('button', { name: 'Order Now' }) });
      expect(await isSeenWhole(row.getByText('KSh 950.00'))).toBe(true);
      // The disabled button does not stay at the bottom, where it would cover the name.
      await page.goto(`${shop.url}/shop/tamarind-flask`);
      expect(await isSeenWhole(page.getByRole('heading', { level: 1 }))).toBe(true);
      await page.mouse.wheel(0, 60);
      await expect
        .poll(() => isSeenWhole(page.getByRole('article').getByText('Out of Stock').first()))
        .toBe(true);
    },
  );

  story('the first screen of the home page shows Shop Now', async ({ newVisitor }) => {
    for (const size of isPhone ? [viewport, { width: 740, height: 360 }] : [viewport]) {
      const { page } = await newVisitor({ viewport: size });
      await page.goto(shop.url);
      expect(
        await isSeenWhole(page.getByRole('link', { name: 'Shop Now' }).first()),
        `${size.width} px`,
      ).toBe(true);
    }
  });

  story('the first screen of the home page has the prices of drinks', async ({ newVisitor }) => {
    if (!isPhone) return;
    const { page } = await newVisitor({ viewport });
    await page.goto(shop.url);
    const hero = await boxOf(page.getByRole('region', { name: 'What we stand for' }));
    expect(hero.height).toBeLessThanOrEqual(380);
    const picks = page.getByRole('region', { name: 'Top Picks' }).getByRole('article');
    for (const [index, price] of ['KSh 950.00', 'KSh 1,200.00'].entries()) {
      expect(await isSeenOnCard(picks.nth(index).getByText(price))).toBe(true);
    }
  });

  story('the first screen of the shop has four drinks, or two full rows', async ({ newVisitor }) => {
    const { page } = await newVisitor({ viewport });
    await page.goto(`${shop.url}/shop`);
    const drinks = page.getByRole('main').getByRole('article');
    const prices = drinks.getByText(/^KSh [\d,]+\.00$/);
    if (isPhone) {
      for (const index of [0, 1, 2, 3]) expect(await isSeenOnCard(prices.nth(index)), `${index}`).toBe(true);
      return;
    }
    const boxes = await drinks.evaluateAll((cards) =>
      cards.map((card) => card.getBoundingClientRect()).map(({ top, bottom }) => ({ top, bottom })),
    );
    const rows = new Set(boxes.filter(({ bottom }) => bottom <= viewport.height).map(({ top }) => top));
    expect(rows.size).toBeGreaterThanOrEqual(2);
    // Shown once.
    expect(await page.getByRole('searchbox').count()).toBe(1);
    expect(await page.getByRole('banner').getByRole('combobox').count()).toBe(0);
  });

  story('a list names size and vessel, and the heading what is shown', async ({ newVisitor }) => {
    const { page } = await newVisitor({ viewport });
    for (const [query, heading] of [
      ['search=mango', '“mango”'],
      ['category=Mango', 'Mango'],
      ['brand=Embu Fresh&category=Mango', 'Embu Fresh Mango'],
      ['brand=Embu Fresh', 'Embu Fresh'],
    ] as const) {
      await page.goto(`${shop.url}/shop?${query}`);
      await page.getByRole('heading', { name: heading, level: 1, exact: true }).waitFor();
      const card = page
        .getByRole('article')
        .filter({ has: page.getByRole('heading', { name: 'Embu Fresh Mango', exact: true }) });
      await card.getByText('500 ml · bottle', { exact: true }).waitFor();
    }
    if (isPhone) await page.getByRole('button', { name: 'Filters 1 chosen' }).waitFor();
    // A sort leaves nothing out.
    await page.goto(`${shop.url}/shop?filter=brand`);
    await page.getByRole('heading', { name: 'Shop by brand', level: 1 }).waitFor();
    if (isPhone) await page.getByRole('button', { name: 'Filters', exact: true }).waitFor();
  });

  story('"+" opens the order form of a drink in one tap, over the list', async ({ newVisitor }) => {
    const { page } = await newVisitor({ viewport });
    for (const [path, name, price] of [
      ['/', 'Embu Fresh Passion', '1,200.00'],
      ['/shop', 'Dusk Energy Passion', '690.00'],
      ['/shop/mango-bottle', 'Meru Gold Mango', '1,500.00'],
    ] as const) {
      await page.goto(shop.url + path);
      await waitForHydration(page);
      const plus = page.getByRole('link', { name: `Order ${name}`, exact: true }).first();
      if (isPhone) await plus.tap();
      else await plus.press('Enter');
      const dialog = page.getByRole('dialog');
      await dialog.getByLabel(/^Name/).waitFor();
      expect(await dialog.textContent()).toContain(name);
      expect(await dialog.textContent()).toContain(`KSh ${price}`);
      expect(new URL(page.url()).pathname).toBe(path);
      // Back closes the form and stays on the list.
      await page.goBack();
      await dialog.waitFor({ state: 'detached' });
      expect(new URL(page.url()).pathname).toBe(path);
    }
    // A drink that cannot be ordered is still shown, calmly.
    await page.goto(`${shop.url}/shop?search=meru gold tamarind`);
    const gone = page.getByRole('article').first();
    await gone.getByText('Out of Stock', { exact: true }).waitFor();
    expect(await gone.getByRole('link', { name: /^Order / }).count()).toBe(0);
  });

  story('"+" leads to the form as a page without JavaScript', async ({ newVisitor }) => {
    const { page } = await newVisitor({ viewport, javaScriptEnabled: false });
    await page.goto(`${shop.url}/shop`);
    await page.getByRole('link', { name: 'Order Dusk Energy Passion', exact: true }).click();
    await page.waitForURL('**/shop/passion-can/order');
    await page.getByRole('heading', { name: 'Your order' }).waitFor();
  });

  story('a product shows its vessel whole, with label and size', async ({ newVisitor }) => {
    const { page } = await newVisitor({ viewport });
    for (const slug of ['mango-bottle', 'mango-can', 'mango-flask']) {
      await page.goto(`${shop.url}/shop/${slug}`);
      const picture = await boxOf(page.getByRole('article').first().locator('img').first());
      // Of the square drawing, the vessel takes the part from 10 to 91 %.
      const cut = Math.max(0, (picture.width - picture.height) / 2 / picture.width);
      expect(cut, slug).toBeLessThan(0.101);
      expect(picture.bottom, slug).toBeLessThan(viewport.height);
    }
  });

  story('the first screen of the contact page has the three ways to reach us', async ({ newVisitor }) => {
    const { page } = await newVisitor({ viewport });
    await page.goto(`${shop.url}/contact`);
    const ways = page.getByRole('region', { name: 'Ways to reach us' }).getByRole('listitem');
    expect(await ways.count()).toBe(3);
    for (const way of await ways.all()) expect(await isSeenWhole(way)).toBe(true);
    for (const text of await page.locator('details').all()) {
      expect(await text.evaluate((one) => (one as HTMLDetailsElement).open)).toBe(false);
    }
  });

  story('offers show the previous price, crossed out and for screen readers', async ({ newVisitor }) => {
    const { page } = await newVisitor({ viewport });
    await page.goto(shop.url);
    const offers = page.getByRole('region', { name: 'Drinks on Offer' }).getByRole('article');
    expect(await offers.count()).toBe(6);
    for (const offer of await offers.all()) {
      expect(await offer.locator('s').textContent()).toMatch(/^Previous price KSh [\d,]+\.00$/);
      const saving = (await offer.getByText(/^Save KSh [\d,]+$/).textContent()) ?? '';
      const [now = 0, before = 0] =
        (await offer.textContent())
          ?.match(/[\d,]+\.00/g)
          ?.map((figure) => Number(figure.replaceAll(',', ''))) ?? [];
      expect(before - now).toBe(Number(saving.replace(/\D/g, '')));
    }
    expect(await page.getByRole('region', { name: 'Top Picks' }).locator('s').count()).toBe(0);

    await page.goto(`${shop.url}/shop/tamarind-bottle`);
    const before = page.getByRole('article').first().locator('s').first();
    expect(await before.textContent()).toBe('Previous price KSh 1,050.00');
    expect(await before.evaluate((element) => getComputedStyle(element).textDecorationLine)).toBe(
      'line-through',
    );
    const blocks = await page.locator('script[type="application/ld+json"]').allTextContents();
    expect(blocks.join()).toContain('"priceType":"https://schema.org/StrikethroughPrice"');
    expect(blocks.join()).toContain('"price":"1050.00"');
  });

  story('the delivery hero shows bottle and fruit uncropped, beside the text', async ({ newVisitor }) => {
    const { page } = await newVisitor({ viewport });
    await page.goto(`${shop.url}/delivery`);
    const picture = await boxOf(page.locator('main header img'));
    const words = await boxOf(page.getByText('before the ice has a chance to melt'));
    // The image is not cropped: the box has its aspect ratio.
    expect(picture.width / picture.height).toBeCloseTo(isPhone ? 9 / 10 : 16 / 9, 1);
    if (isPhone) {
      // The upper 28 % of the image are sky.
      expect(words.bottom).toBeLessThan(picture.y + 0.2 * picture.height);
    } else {
      expect(picture.right).toBeLessThanOrEqual(desktop.width);
      expect(words.right).toBeLessThan(picture.x + 0.34 * picture.width);
    }
  });

  story("the carousel's dots do not cover the image", async ({ newVisitor }) => {
    const { page } = await newVisitor({ viewport });
    await page.goto(shop.url);
    await waitForHydration(page);
    const slides = page.getByRole('region', { name: 'What we stand for' });
    await slides.getByRole('button', { name: 'Play slides' }).waitFor();
    const dots = await boxOf(slides.getByRole('button', { name: 'Slide 4: 9 Unique Flavors' }));
    const picture = await boxOf(slides.locator('img').first());
    if (isPhone) expect(dots.y).toBeGreaterThanOrEqual(picture.bottom - 1);
    else expect(dots.right).toBeLessThan(picture.x + 0.34 * picture.width);
  });

  story('the steps of an order have space between them', async ({ newVisitor }) => {
    const { page } = await newVisitor({ viewport });
    await order(page, shop.url, 'mango-can', { ...amina, phone: isPhone ? '0726005501' : '0726005502' });
    const number = await trackingNumberIn(page);
    // The current step is bold, and Processing is the longest label.
    await asOwner(shop, `/rest/v1/orders?tracking_number=eq.${number}`, 'PATCH', { status: 'processing' });
    await page.goto(`${shop.url}/track-order/${number}`);
    const steps = page.getByRole('list', { name: 'Progress of the order' }).getByRole('listitem');
    const words = await steps.evaluateAll((items) =>
      items.map((item) => {
        const rectsOf = (node: Node) => {
          const range = document.createRange();
          range.selectNodeContents(node);
          return [...range.getClientRects()];
        };
        // Excludes the step's number and the text for screen readers.
        const label = item.lastElementChild?.firstChild ?? item;
        const time = item.querySelector('time');
        const text = [...rectsOf(label), ...(time ? rectsOf(time) : [])];
        return {
          label: label.textContent ?? '',
          lines: new Set(rectsOf(label).map(({ top }) => Math.round(top))).size,
          left: Math.min(...text.map(({ left }) => left)),
          right: Math.max(...text.map(({ right }) => right)),
        };
      }),
    );
    expect(words).toHaveLength(4);
    for (const [index, { left, lines, label }] of words.entries()) {
      expect(lines, `lines of ${label}`).toBeLessThanOrEqual(label.split(/\s+/).length);
      const before = words[index - 1];
      if (before) expect(left - before.right).toBeGreaterThanOrEqual(8);
    }
  });
});

story("the shop's fonts contain the letters of Kenyan names", async ({ newVisitor }) => {
  const { page, context } = await newVisitor();
  await page.goto(`${shop.url}/contact`);
  await waitForHydration(page);
  await page.evaluate(() => {
    for (const tag of ['p', 'h2']) {
      const line = document.createElement(tag);
      line.id = `names-${tag}`;
      line.textContent = 'Wanjikũ Mũthoni Gĩthĩnji ĨŨ';
      document.querySelector('main')?.append(line);
    }
  });
  const devtools = await context.newCDPSession(page);
  await devtools.send('DOM.enable');
  await devtools.send('CSS.enable');
  const { root } = await devtools.send('DOM.getDocument');
  const fontsOf = async (selector: string) => {
    const { nodeId } = await devtools.send('DOM.querySelector', { nodeId: root.nodeId, selector });
    const { fonts } = await devtools.send('CSS.getPlatformFontsForNode', { nodeId });
    return fonts.map(({ familyName, isCustomFont }) => isCustomFont && familyName);
  };
  await expect.poll(() => fontsOf('#names-p')).toEqual([expect.stringMatching(/^Figtree/)]);
  expect(await fontsOf('#names-h2')).toEqual([expect.stringMatching(/^Bricolage Grotesque/)]);
});

story('prices have KSh and cents everywhere except in the banner', async ({ newVisitor }) => {
  const { page } = await newVisitor();
  const textOf = async (current: Page, path: string) => {
    await current.goto(`${shop.url}${path}`);
    // biome-ignore lint/performance/useDomNodeTextContent: the rendered text, not the text of the document
    return current.getByRole('main').innerText();
  };
  for (const path of ['/shop/mango-bottle', '/delivery']) {
    const text = await textOf(page, path);
    expect(text).toContain('KSh 1.00');
    expect(text).not.toMatch(/KES/);
  }
  expect((await textOf(page, '/shop')).match(/KES [\d.,]+/g)).toEqual(['KES 1']);
});
