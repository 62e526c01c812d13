// The first screen of each page before scrolling, on a phone and on a desktop.
import type { Locator, Page } from 'playwright-core';
import { describe, expect } from 'vitest';
import { desktop, phone, waitForHydration } from '../browser.ts';
import { amina, order, trackingNumberIn } from '../shopper.ts';
import { asOwner } from '../staff-member.ts';
import { openShopForStories, shop, story } from '../story.ts';

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

  story('the sticky order bar shows the price', async ({ newVisitor }) => {
    const { page } = await newVisitor({ viewport: isPhone ? viewport : { width: 740, height: 360 } });
    await page.goto(`${shop.url}/shop/tamarind-bottle`);
    await waitForHydration(page);
    const row = page.locator('form').filter({ has: page.getByRole('button', { name: 'Order Now' }) });
    expect(await isSeenWhole(row.getByText('KSh 890.00'))).toBe(true);
    expect(await isSeenWhole(page.getByRole('heading', { level: 1 }))).toBe(true);
    await row.getByText('+ KSh 1.00 delivery').waitFor();
    await row.getByRole('button', { name: 'Increase quantity' }).click();
    await row.getByText('KSh 1,780.00').waitFor();
  });

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

  story('offers show the previous price, crossed out and for screen readers', async ({ newVisitor }) => {
    const { page } = await newVisitor({ viewport });
    await page.goto(shop.url);
    const offers = page.getByRole('region', { name: 'Drinks on Offer' }).getByRole('article');
    expect(await offers.count()).toBe(6);
    for (const offer of await offers.all()) {
      expect(await offer.locator('s').textContent()).toMatch(/^Previous price KSh [\d,]+\.00$/);
      await offer.getByText(/^Save \d+%$/).waitFor();
      const [before = 0, now = 0] =
        (await offer.textContent())
          ?.match(/[\d,]+\.00/g)
          ?.map((figure) => Number(figure.replaceAll(',', ''))) ?? [];
      expect(before).toBeGreaterThan(now);
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
        const range = document.createRange();
        range.selectNodeContents(item);
        const text = [...range.getClientRects()].filter(({ width }) => width > 2);
        // Excludes the step's number and the text for screen readers.
        const label = [...item.childNodes].find((node) => node.nodeType === Node.TEXT_NODE) ?? item;
        const own = document.createRange();
        own.selectNodeContents(label);
        return {
          label: label.textContent ?? '',
          lines: new Set([...own.getClientRects()].map(({ top }) => Math.round(top))).size,
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
