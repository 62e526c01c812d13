// Staff manage products, their images and categories, at both screen sizes and with two staff members at once.
import { randomUUID } from 'node:crypto';
import { mkdtemp, readFile, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import sharp from 'sharp';
import { describe, expect } from 'vitest';
import { until } from '../../scripts/tests/open-shop.ts';
import { expectAccessible } from '../accessibility.ts';
import { delayResponses, desktop, dialogOf, phone, waitForHydration } from '../browser.ts';
import { atSizes, inLongRun } from '../selection.ts';
import { asOwner, enterAsStaff, pressUnlessTaken, toast } from '../staff-member.ts';
import { openShopForStories, shop, storyWith } from '../story.ts';

openShopForStories();

interface Product {
  id: string;
  name: string;
  slug: string;
  price: number;
  tagline: string | null;
  category: string | null;
  stock_quantity: number;
  is_active: boolean;
  image_url: string | null;
  more_images: string[];
}

let productCount = 0;
/** Creates a product for a story. */
async function makeProduct(name: string, more: Partial<Product> = {}): Promise<Product> {
  productCount += 1;
  const answer = await asOwner(shop, '/rest/v1/products', 'POST', {
    name,
    slug: `story-${productCount}-${randomUUID().slice(0, 8)}`,
    price: 95_000,
    category: 'Mango',
    stock_quantity: 40,
    ...more,
  });
  const [product] = (await answer.json()) as Product[];
  if (!product) throw new Error('no product was created');
  return product;
}
async function productNow(id: string): Promise<Product | undefined> {
  const answer = await asOwner(shop, `/rest/v1/products?id=eq.${id}`, 'GET');
  const [product] = (await answer.json()) as Product[];
  return product;
}
const change = (id: string, values: Partial<Product>) =>
  asOwner(shop, `/rest/v1/products?id=eq.${id}`, 'PATCH', values);

/** Places an order of one as a customer. */
async function orderOf({ id, price }: Product): Promise<void> {
  await asOwner(shop, '/rest/v1/rpc/place_order', 'POST', {
    idempotency_key: randomUUID(),
    product_id: id,
    quantity: 1,
    customer_name: 'Amina Otieno',
    customer_email: 'amina@example.com',
    customer_phone: '0712345678',
    delivery_location: 'Westlands',
    expected_total: price + 100,
  });
}

/** Names of the stored images. */
async function pictures(): Promise<string[]> {
  const path = '/storage/v1/object/list/product-images';
  const answer = await asOwner(shop, path, 'POST', { prefix: 'products', limit: 1000 });
  return ((await answer.json()) as { name: string }[]).map(({ name }) => name);
}

/** Uploads an image; returns the URL for a product. */
async function uploadAsOwner(name: string): Promise<string> {
  const { secret } = await shop.keys();
  const answer = await fetch(`${shop.url}/storage/v1/object/product-images/products/${name}`, {
    method: 'POST',
    headers: { apikey: secret, authorization: `Bearer ${secret}`, 'content-type': 'image/png' },
    body: new Uint8Array(await photograph('#73e23a').png().toBuffer()),
  });
  expect(answer.status).toBe(200);
  return `/storage/v1/object/public/product-images/products/${name}`;
}

const photograph = (colour: string) =>
  sharp({ create: { width: 1600, height: 1200, channels: 3, background: colour } });
const pickPicture = (page: Page, name: string, mimeType: string, buffer: Buffer) =>
  page.getByLabel('Image file').setInputFiles({ name, mimeType, buffer });
/** A field of the open dialog; labels of required fields end with a star. */
const field = (page: Page, label: string) => dialogOf(page).getByLabel(new RegExp(`^${label}( \\*)?$`));
const problemOf = async (page: Page, label: string) => {
  const described = (await field(page, label).getAttribute('aria-describedby')) ?? '';
  const id = described.split(' ').find((part) => part.endsWith('-problem'));
  return id ? page.locator(`[id="${id}"]`).textContent() : null;
};
async function openProducts(page: Page): Promise<void> {
  await page.goto(`${shop.url}/admin/products`);
  await page.getByRole('heading', { level: 1, name: 'Products' }).waitFor();
  await page.getByLabel('Products', { exact: true }).getByText('KES').first().waitFor();
}
/** Opens the dialog by its query string: 'new=1' or 'edit=…'. */
async function openProductDialog(page: Page, query: string): Promise<void> {
  await page.goto(`${shop.url}/admin/products?${query}`);
  await field(page, 'Product Name').waitFor();
  await field(page, 'Category').locator('option', { hasText: 'Mango' }).waitFor({ state: 'attached' });
}
const shopPage = async (path: string) => (await fetch(`${shop.url}${path}`)).text();

describe.each(
  atSizes([
    ['at the counter', desktop],
    ['on a phone', phone],
  ]),
)('%s', (_, viewport) => {
  const story = storyWith({ viewport });
  const longStory = inLongRun(story);
  const isPhone = viewport.width < 768;
  const size = isPhone ? 'small' : 'large';
  const rowOf = (page: Page, name: string) =>
    page.getByRole(isPhone ? 'listitem' : 'row').filter({ hasText: name });

  longStory('products are listed, searched literally and filtered', async ({ newVisitor }) => {
    await makeProduct(`100% Ukwaju_${size}* juice`, { category: null, stock_quantity: 0, is_active: false });
    await makeProduct(`100 Ukwaju ${size} juice`, { tagline: 'Nearly gone', stock_quantity: 3 });
    const { page } = await newVisitor();
    await enterAsStaff(shop, page);
    await openProducts(page);
    await page.getByText('Manage your product catalog').waitFor();
    if (!isPhone) {
      expect(await page.getByRole('columnheader').allTextContents()).toEqual([
        'Image',
        'Name',
        'Price',
        'Category',
        'Stock',
        'Status',
        'Actions',
      ]);
    }
    await rowOf(page, 'Meru Gold Tamarind').getByText('Out of stock').waitFor();
    const mango = rowOf(page, 'Embu Fresh Mango').filter({ hasText: 'KES 950' });
    await mango.getByText('KES 950', { exact: true }).waitFor();
    // A former card was 250 px high on a phone.
    expect((await mango.boundingBox())?.height).toBeLessThanOrEqual(isPhone ? 120 : 54);
    await expectAccessible(page);

    const search = page.getByRole('searchbox', { name: 'Search products' });
    for (const [typed, found] of [
      ['ukWAJU', 2],
      ['100%', 1],
      [`_${size}`, 1],
      [`${size}*`, 1],
    ] as const) {
      await search.fill(`${typed}`);
      await page.waitForURL((url) => url.searchParams.get('search') === typed);
      const mine = rowOf(page, size).filter({ hasText: 'Ukwaju' });
      await until(async () => (await mine.count()) === found, `${found} are found by ${typed}`);
    }
    const empty = rowOf(page, `100% Ukwaju_${size}*`);
    await empty.getByText('Uncategorized').waitFor();
    await empty.getByText('Inactive', { exact: true }).waitFor();
    await search.fill(`100 Ukwaju ${size}`);
    await rowOf(page, 'Nearly gone').getByText('Low').waitFor();

    await search.fill('nothing is called like this');
    await page.getByText('No products found').waitFor();
    await expectAccessible(page, 'an empty list');
    await page.getByRole('button', { name: 'Show all products' }).click();
    await page.getByLabel('Category').selectOption('Hibiscus');
    await page.waitForURL('**/admin/products?category=Hibiscus');
    await rowOf(page, 'Meru Gold Hibiscus').waitFor();
    await rowOf(page, 'Embu Fresh Mango').waitFor({ state: 'detached' });
    await page.getByRole('main').getByRole('button', { name: 'More', exact: true }).click();
    const [file] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('button', { name: 'Export CSV' }).click(),
    ]);
    expect(file.suggestedFilename()).toMatch(/^products-\d{4}-\d{2}-\d{2}\.csv$/);
    const text = await readFile(await file.path(), 'utf8');
    expect(text).toContain('Meru Gold Hibiscus,hibiscus-flask,');
    expect(text).toContain(',1450,,Hibiscus,81,Active');
    expect(text).not.toContain('Embu Fresh Mango');
    expect(await page.getByLabel('Category').locator('option').first().textContent()).toBe('All Categories');
  });

  longStory('a list that cannot be loaded says so and can be retried', async ({ newVisitor }) => {
    const { page } = await newVisitor({ expectedFailures: /403 \(Forbidden\)/ });
    await enterAsStaff(shop, page);
    await page.route('**/rest/v1/rpc/find_products*', (route) =>
      route.fulfill({ status: 403, json: { code: '42501', message: 'permission denied' } }),
    );
    await page.goto(`${shop.url}/admin/products`);
    await page.getByText('Products could not be loaded').waitFor();
    await expectAccessible(page, 'a list that failed');
    await page.unroute('**/rest/v1/rpc/find_products*');
    await pressUnlessTaken(
      page.getByRole('button', { name: 'Try again' }),
      rowOf(page, 'Embu Fresh Mango').first(),
    );
  });

  story('a product is added with its image, and the shop shows it at once', async ({ newVisitor }) => {
    const own = randomUUID().slice(0, 8);
    const name = `Café Baobab ${own}`;
    const slug = `cafe-baobab-${own}`;
    expect(await shopPage('/shop'), 'so that the page is in the cache').not.toContain(name);
    const { page, context } = await newVisitor({
      expectedFailures: /400 \(Bad Request\).*\/storage\/v1\/render\//,
    });
    await enterAsStaff(shop, page);
    await openProducts(page);
    await page.getByRole('link', { name: 'Add Product' }).click();
    await page.waitForURL('**/admin/products?new=1');
    await dialogOf(page).getByRole('heading', { name: 'Add New Product' }).waitFor();
    await dialogOf(page).getByText('Fill in the product details below').waitFor();

    await page.getByRole('button', { name: 'Create Product' }).click();
    await until(async () => (await problemOf(page, 'Product Name')) !== null, 'the errors are shown');
    expect(await problemOf(page, 'Product Name')).toBe('Product name is required');
    expect(await problemOf(page, 'Product Slug')).toBe('Product slug is required');
    expect(await problemOf(page, 'Price \\(KES\\)')).toBe('Price is required');
    expect(await problemOf(page, 'Category')).toBe('Category is required');
    await expect
      .poll(() => field(page, 'Product Name').evaluate((input) => input === document.activeElement))
      .toBe(true);
    await expectAccessible(page, 'a form with problems');

    await field(page, 'Product Name').fill(name);
    expect(await field(page, 'Product Slug').inputValue()).toBe(slug);
    await field(page, 'Price \\(KES\\)').fill('-1');
    await field(page, 'Stock Quantity').fill('-1');
    await page.getByRole('button', { name: 'Create Product' }).click();
    await dialogOf(page).getByText('Price must be positive').waitFor();
    await dialogOf(page).getByText('Stock quantity must be non-negative').waitFor();
    await field(page, 'Price \\(KES\\)').fill('950.50');
    await field(page, 'Stock Quantity').fill('25');
    await field(page, 'Before Offer \\(KES\\)').fill('950.50');
    await page.getByRole('button', { name: 'Create Product' }).click();
    await dialogOf(page).getByText('The price before an offer must be above the price').waitFor();
    await field(page, 'Before Offer \\(KES\\)').fill('1100');
    await field(page, 'Product Tagline').fill('Ubuyu with a spark');
    await field(page, 'Category').selectOption('Tamarind');
    await field(page, 'Description').fill('Cold.\nVery cold.');

    const picture = await photograph('#e2733a').jpeg().toBuffer();
    await dialogOf(page).getByRole('button', { name: 'Add Image' }).waitFor();
    await pickPicture(page, 'Front.JPEG', 'image/jpeg', picture);
    await page.getByRole('img', { name: 'Preview of the new one' }).waitFor();
    await dialogOf(page).getByRole('button', { name: 'Change Image' }).waitFor();
    await expectAccessible(page, 'a form with a picture');
    await page.getByRole('button', { name: 'Remove the chosen image' }).click();
    await dialogOf(page).getByRole('button', { name: 'Add Image' }).waitFor();
    await pickPicture(page, 'Front.JPEG', 'image/jpeg', picture);
    // On a slow connection the upload can be stopped.
    await page.route('**/storage/v1/object/**', () => {}, { times: 1 });
    await page.getByRole('button', { name: 'Create Product' }).click();
    await dialogOf(page).getByRole('button', { name: 'Stop upload' }).click();
    await dialogOf(page).getByText('The upload was stopped. Nothing was saved.').waitFor();
    await page.route('**/storage/v1/object/**', async (route) => {
      // The object of the stopped upload is removed in the background.
      if (route.request().method() !== 'POST') return route.continue();
      await dialogOf(page).getByRole('progressbar', { name: 'Uploading the image' }).waitFor();
      await dialogOf(page).getByRole('button', { name: 'Saving...' }).waitFor();
      await expectAccessible(page, 'an upload');
      await route.continue();
    });
    await page.getByRole('button', { name: 'Create Product' }).click();
    await toast(page, 'Product created successfully').filter({ hasText: 'Success' }).waitFor();
    await dialogOf(page).waitFor({ state: 'detached' });
    expect(new URL(page.url()).search).toBe('');

    const row = rowOf(page, name);
    await row.getByText('KES 950.5').waitFor();
    const thumbnail = row.locator('img:visible');
    await until(
      () => thumbnail.evaluate((image: HTMLImageElement) => image.naturalWidth > 0),
      'the picture shows',
    );
    expect(await thumbnail.evaluate((image: HTMLImageElement) => image.currentSrc)).toMatch(
      /\/storage\/v1\/render\/image\/public\/product-images\/products\/[0-9a-f-]{36}\.jpeg\?width=120&/,
    );

    await until(async () => (await shopPage('/shop')).includes(name), 'the shop lists it');
    const customer = await context.newPage();
    await customer.goto(`${shop.url}/shop/${slug}`);
    await customer.getByText('KSh 950.50').first().waitFor();
    await customer.getByText('Previous price KSh 1,100.00').first().waitFor();
    const shown = customer.getByRole('img', { name });
    await until(
      () => shown.evaluate((image: HTMLImageElement) => image.naturalWidth > 0),
      'customers see it',
    );
    const address = await shown.evaluate((image: HTMLImageElement) => image.currentSrc);
    expect(new URL(address).pathname).toContain('/storage/v1/render/image/public/product-images/products/');
    expect(await shown.getAttribute('width'), 'so that nothing moves when it arrives').toBe('960');
    for (const [accept, type] of [
      ['image/avif,image/webp,*/*', 'image/avif'],
      ['image/webp,*/*', 'image/webp'],
      ['*/*', 'image/jpeg'],
    ]) {
      const rendered = await fetch(address, { headers: { accept: accept ?? '' } });
      expect(rendered.headers.get('content-type')).toBe(type);
      await rendered.arrayBuffer();
    }
    // Without image rendering, the shop serves the uploaded image.
    await customer.route('**/storage/v1/render/**', (route) => route.fulfill({ status: 400 }));
    await customer.reload();
    await until(async () => {
      const { src, width } = await shown.evaluate((image: HTMLImageElement) => ({
        src: image.currentSrc,
        width: image.naturalWidth,
      }));
      return src.includes('/storage/v1/object/public/') && width === 1600;
    }, 'the picture itself shows');
  });

  longStory('errors appear beside their field, and nothing typed is lost', async ({ newVisitor }) => {
    const { page } = await newVisitor({
      expectedFailures: /(409 \(Conflict\).*\/rest\/)|could not be prepared/,
    });
    await enterAsStaff(shop, page);
    await openProductDialog(page, 'new=1');
    await field(page, 'Product Name').fill('Refused');
    await field(page, 'Product Slug').fill('mango-bottle');
    await field(page, 'Price \\(KES\\)').fill('900');
    await field(page, 'Category').selectOption('Mango');

    await pickPicture(
      page,
      'logo.svg',
      'image/svg+xml',
      Buffer.from('<svg xmlns="http://www.w3.org/2000/svg"/>'),
    );
    await dialogOf(page).getByText('This kind of image is not accepted.').waitFor();
    // A file, because a buffer would be sent over the DevTools protocol.
    const large = join(await mkdtemp(join(tmpdir(), 'jani-large-')), 'large.png');
    await writeFile(large, Buffer.alloc(25 * 1024 * 1024 + 1));
    await page.getByLabel('Image file').setInputFiles(large);
    await dialogOf(page).getByText('The image has 25.1 MB. At most 25 MB are accepted.').waitFor();
    await dialogOf(page).getByRole('button', { name: 'Add Image' }).waitFor();

    const disguised = Buffer.from('<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>');
    await pickPicture(page, 'front.png', 'image/png', disguised);
    await dialogOf(page).getByText('This image cannot be read. Choose another one.').waitFor();
    await expectAccessible(page, 'a picture that was refused');

    await pickPicture(page, 'front.png', 'image/png', await photograph('#3a73e2').png().toBuffer());
    await page.getByRole('button', { name: 'Create Product' }).click();
    await until(async () => (await problemOf(page, 'Product Slug')) !== null, 'the slug is refused');
    expect(await problemOf(page, 'Product Slug')).toBe('Another product has this slug already');
    await until(
      () => field(page, 'Product Slug').evaluate((input) => input === document.activeElement),
      'the keyboard is at the slug',
    );
    expect(await field(page, 'Product Name').inputValue()).toBe('Refused');
    const sent: string[] = [];
    page.on('request', (request) => {
      if (request.method() === 'POST') sent.push(new URL(request.url()).pathname);
    });
    await field(page, 'Product Slug').fill(`accepted-${size}`);
    await page.getByRole('button', { name: 'Create Product' }).click();
    await toast(page, 'Product created successfully').waitFor();
    expect(
      sent.filter((path) => path.includes('/storage/')),
      'the picture is not sent twice',
    ).toEqual([]);

    // The image of a discarded product is removed from storage.
    await dialogOf(page).waitFor({ state: 'detached' });
    const before = await pictures();
    await openProductDialog(page, 'new=1');
    await field(page, 'Product Name').fill('Given up');
    await field(page, 'Product Slug').fill('mango-bottle');
    await field(page, 'Price \\(KES\\)').fill('900');
    await field(page, 'Category').selectOption('Mango');
    await pickPicture(page, 'front.png', 'image/png', await photograph('#3ae273').png().toBuffer());
    await page.getByRole('button', { name: 'Create Product' }).click();
    await dialogOf(page).getByText('Another product has this slug already').waitFor();
    expect((await pictures()).length).toBe(before.length + 1);
    await page.getByRole('button', { name: 'Cancel' }).click();
    await page.getByRole('button', { name: 'Discard' }).click();
    await until(async () => (await pictures()).length === before.length, 'the picture is taken back');
  });

  longStory('a phone’s photo is rotated and resized before its upload', async ({ newVisitor }) => {
    const { page } = await newVisitor({ expectedFailures: /could not be prepared/ });
    await enterAsStaff(shop, page);
    await openProductDialog(page, 'new=1');
    // Noise hardly compresses, like a photo with many details.
    const photo = await sharp({
      create: {
        width: 3000,
        height: 2250,
        channels: 3,
        background: 'white',
        noise: { type: 'gaussian', mean: 128, sigma: 60 },
      },
    })
      .jpeg({ quality: 80 })
      .withMetadata({ orientation: 6 })
      .toBuffer();
    expect(photo.length).toBeGreaterThan(2 * 1024 * 1024);
    await pickPicture(page, 'IMG_0001.HEIC', 'image/heic', Buffer.from('ftypheic'));
    await dialogOf(page).getByText('This browser cannot open HEIC photos.').waitFor();
    await expectAccessible(page, 'a photo that cannot be read');
    // The browser detects the format from the bytes, not the name, and uploads the photo as a JPEG.
    await pickPicture(page, 'IMG_0003.HEIC', 'image/heic', photo);
    await dialogOf(page).getByText('IMG_0003.jpg').waitFor();
    await pickPicture(page, 'IMG_0002.JPG', 'image/jpeg', photo);
    await dialogOf(page).getByText('IMG_0002.jpg').waitFor();
    const name = `Photo ${size}`;
    await field(page, 'Product Name').fill(name);
    await field(page, 'Price \\(KES\\)').fill('900');
    await field(page, 'Category').selectOption('Mango');
    await page.getByRole('button', { name: 'Create Product' }).click();
    await dialogOf(page).waitFor({ state: 'detached' });
    const answer = await asOwner(
      shop,
      `/rest/v1/products?name=eq.${encodeURIComponent(name)}&select=image_url`,
      'GET',
    );
    const [row] = (await answer.json()) as { image_url: string }[];
    const stored = Buffer.from(await (await fetch(`${shop.url}${row?.image_url}`)).arrayBuffer());
    expect(await sharp(stored).metadata()).toMatchObject({ format: 'jpeg', width: 1500, height: 2000 });
    expect(stored.length).toBeLessThan(photo.length);
  });

  longStory('a product is edited, and a new image replaces the old one', async ({ newVisitor }) => {
    const product = await makeProduct(`Edited ${size}`, { tagline: 'Before' });
    const { page } = await newVisitor();
    await enterAsStaff(shop, page);
    await openProducts(page);
    const edit = async (colour: string, slug?: string) => {
      await page.getByRole('link', { name: `Edit Edited ${size}` }).click();
      await page.waitForURL(`**/admin/products?edit=${product.id}`);
      await dialogOf(page).getByRole('heading', { name: 'Edit Product' }).waitFor();
      await field(page, 'Product Name').fill(`Edited ${size} again`);
      expect(await field(page, 'Product Slug').inputValue(), 'not generated again').toBe(
        slug ?? product.slug,
      );
      await pickPicture(page, 'a.png', 'image/png', await photograph(colour).png().toBuffer());
      await page.getByRole('button', { name: 'Update Product' }).click();
      await toast(page, 'Product updated successfully').first().waitFor();
      await dialogOf(page).waitFor({ state: 'detached' });
    };
    await edit('#111111');
    const first = (await productNow(product.id))?.image_url ?? '';
    expect(first).toMatch(/^\/storage\/v1\/object\/public\/product-images\/products\/[0-9a-f-]{36}\.png$/);
    expect((await fetch(`${shop.url}${first}`)).status).toBe(200);
    await edit('#eeeeee');
    const now = await productNow(product.id);
    expect(now).toMatchObject({
      name: `Edited ${size} again`,
      tagline: 'Before',
      stock_quantity: 40,
      price: 95_000,
    });
    expect(now?.image_url).not.toBe(first);
    await until(async () => !(await fetch(`${shop.url}${first}`)).ok, 'the old picture is gone');
    expect((await fetch(`${shop.url}${now?.image_url}`)).status).toBe(200);
  });

  story('more images are added and removed, and its page shows them', async ({ newVisitor }) => {
    const name = `Album ${size} ${randomUUID().slice(0, 8)}`;
    const product = await makeProduct(name, { image_url: '/art/mango-can-960.webp' });
    const twin = await makeProduct(`Twin of ${name}`);
    const { page, context } = await newVisitor();
    await enterAsStaff(shop, page);
    const pick = async (colours: string[]) =>
      page.getByLabel('Files of more images').setInputFiles(
        await Promise.all(
          colours.map(async (colour, index) => ({
            name: `${index}.png`,
            mimeType: 'image/png',
            buffer: await photograph(colour).png().toBuffer(),
          })),
        ),
      );
    const save = async () => {
      await page.getByRole('button', { name: 'Update Product' }).click();
      await toast(page, 'Product updated successfully').first().waitFor();
      await dialogOf(page).waitFor({ state: 'detached' });
      return (await productNow(product.id))?.more_images ?? [];
    };
    await openProductDialog(page, `edit=${product.id}`);
    await pick(['#111111', '#333333', '#555555', '#777777', '#999999']);
    await dialogOf(page).getByText('Only 4 more images fit. The rest was left out.').waitFor();
    await page.getByRole('button', { name: 'Add more images' }).waitFor({ state: 'detached' });
    await page.getByRole('button', { name: 'Remove image 4' }).click();
    await expect
      .poll(() => page.evaluate(() => document.activeElement?.getAttribute('aria-label')))
      .toBe('Add more images');
    await expectAccessible(page, 'a form with several images');
    const added = await save();
    expect(added).toHaveLength(3);

    const customer = await context.newPage();
    await customer.goto(`${shop.url}/shop/${product.slug}`);
    const images = customer.getByRole('list', { name: `Images of ${name}` });
    const isInView = (number: number) =>
      expect
        .poll(async () => {
          const frame = await images.boundingBox();
          const image = await images
            .getByRole('listitem')
            .nth(number - 1)
            .boundingBox();
          return Math.round(Math.abs((image?.x ?? 0) - (frame?.x ?? 0)));
        })
        .toBe(0);
    await isInView(1);
    const third = customer.getByRole('button', { name: 'Image 3 of 4' });
    await waitForHydration(customer, third);
    await third.click();
    await isInView(3);
    await expect.poll(() => third.getAttribute('aria-current')).toBe('true');
    await images.focus();
    await customer.keyboard.press('ArrowRight');
    await isInView(4);
    const shown = customer.getByRole('img', { name: `${name}, image 4` });
    await until(
      () => shown.evaluate((image: HTMLImageElement) => image.naturalWidth > 0),
      'the last image shows',
    );
    await expectAccessible(customer, 'a gallery');
    await customer.close();

    // Its first image stays in storage for the other product.
    await change(twin.id, { image_url: added[0] ?? null });
    await openProductDialog(page, `edit=${product.id}`);
    // A removed one that is still being made smaller would be reported as missing.
    const kept = dialogOf(page).getByRole('listitem').getByRole('img');
    await kept.last().scrollIntoViewIfNeeded();
    await until(
      () =>
        kept.evaluateAll(
          (all) => all.length === 3 && all.every((image) => (image as HTMLImageElement).naturalWidth > 0),
        ),
      'the images show',
    );
    await page.getByRole('button', { name: 'Remove image 2' }).click();
    await page.getByRole('button', { name: 'Remove image 2' }).click();
    expect(await save()).toEqual([added[2]]);
    await until(async () => !(await fetch(`${shop.url}${added[1]}`)).ok, 'the removed image is gone');
    expect((await fetch(`${shop.url}${added[0]}`)).status).toBe(200);
  });

  longStory('leaving with unsaved changes asks first', async ({ newVisitor }) => {
    const product = await makeProduct(`Unsaved ${size}`);
    const { page } = await newVisitor();
    await enterAsStaff(shop, page);
    await openProducts(page);
    await page.getByRole('link', { name: `Edit Unsaved ${size}` }).click();
    await field(page, 'Product Tagline').fill('Hardly typed');
    await page.getByRole('button', { name: 'Cancel' }).click();
    await page.getByText('Discard unsaved changes?').waitFor();
    await expectAccessible(page, 'the question');
    await page.getByRole('button', { name: 'Keep editing' }).click();
    expect(await field(page, 'Product Tagline').inputValue()).toBe('Hardly typed');
    await page.keyboard.press('Escape');
    await page.getByRole('button', { name: 'Keep editing' }).click();
    if (isPhone) {
      const handle = await page.locator('[data-vaul-handle]').boundingBox();
      const [x, y] = [180, (handle?.y ?? 0) + 2];
      await page.mouse.move(x, y);
      await page.mouse.down();
      await page.mouse.move(x, y + 200, { steps: 5 });
      await page.mouse.move(x, y + 500, { steps: 5 });
      await page.mouse.up();
      await page.getByText('Discard unsaved changes?').waitFor();
      await until(
        async () => ((await dialogOf(page).boundingBox())?.y ?? 740) < 100,
        'the drawer is up again with its question',
      );
      await page.getByRole('button', { name: 'Keep editing' }).click();
    }
    await page.goBack();
    await page.getByText('Discard unsaved changes?').waitFor();
    expect(page.url()).toContain(`edit=${product.id}`);
    await page.getByRole('button', { name: 'Discard' }).click();
    await dialogOf(page).waitFor({ state: 'detached' });
    expect((await productNow(product.id))?.tagline).toBeNull();

    await page.getByRole('link', { name: `Edit Unsaved ${size}` }).click();
    await field(page, 'Product Tagline').waitFor();
    await page.getByRole('button', { name: 'Cancel' }).click();
    await dialogOf(page).waitFor({ state: 'detached' });
    await page.goto(`${shop.url}/admin/products?edit=${randomUUID()}`);
    await page.getByText('There is no such product').waitFor();
    await dialogOf(page).getByRole('button', { name: 'Close' }).last().click();
    await dialogOf(page).waitFor({ state: 'detached' });
  });

  longStory(
    'two staff members edit one product while customers buy it, and nothing is lost silently',
    async ({ newVisitor }) => {
      const product = await makeProduct(`Shared ${size}`, { tagline: 'Before' });
      const { page } = await newVisitor({ expectedFailures: /Failed to update product|net::ERR_FAILED/ });
      await enterAsStaff(shop, page);

      await openProductDialog(page, `edit=${product.id}`);
      await field(page, 'Product Tagline').fill('Mine');
      await change(product.id, { price: 90_000, tagline: 'Theirs' });
      await page.getByRole('button', { name: 'Update Product' }).click();
      const conflict = page.getByRole('alert', { name: 'Someone else changed this' });
      await conflict.getByText('You saw: 950').waitFor();
      await conflict.getByText('Now: 900').waitFor();
      await conflict.getByText('Yours: Mine').waitFor();
      expect(await productNow(product.id)).toMatchObject({ tagline: 'Theirs', price: 90_000 });
      await expectAccessible(page, 'a conflict');
      await page.getByRole('button', { name: 'Save mine instead' }).click();
      await toast(page, 'Product updated successfully').waitFor();
      expect(await productNow(product.id)).toMatchObject({ tagline: 'Mine', price: 90_000 });

      await openProductDialog(page, `edit=${product.id}`);
      await field(page, 'Price \\(KES\\)').fill('800');
      await change(product.id, { price: 70_000 });
      await page.getByRole('button', { name: 'Update Product' }).click();
      await page.getByRole('button', { name: 'Keep their changes' }).click();
      expect(await field(page, 'Price \\(KES\\)').inputValue()).toBe('700');
      // A sale does not conflict with the edit, and units sold stay sold.
      await orderOf({ ...product, price: 70_000 });
      await field(page, 'Product Tagline').fill('After a sale');
      await page.getByRole('button', { name: 'Update Product' }).click();
      await toast(page, 'Product updated successfully').first().waitFor();
      await dialogOf(page).waitFor({ state: 'detached' });
      expect(await productNow(product.id)).toMatchObject({ tagline: 'After a sale', stock_quantity: 39 });

      await openProductDialog(page, `edit=${product.id}`);
      await field(page, 'Stock Quantity').fill('60');
      await orderOf({ ...product, price: 70_000 });
      await page.getByRole('button', { name: 'Update Product' }).click();
      await conflict.getByText('Units were sold or added since you opened it.').waitFor();
      await conflict.getByText('Now: 38').waitFor();
      await page.getByRole('button', { name: 'Save mine instead' }).click();
      await toast(page, 'Product updated successfully').first().waitFor();
      await dialogOf(page).waitFor({ state: 'detached' });
      expect(await productNow(product.id)).toMatchObject({ stock_quantity: 60 });

      // A lost answer does not cause a conflict with the staff member's own change.
      await openProductDialog(page, `edit=${product.id}`);
      await field(page, 'Product Tagline').fill('Saved once');
      await page.route('**/rest/v1/products?*', async (route) => {
        if (route.request().method() !== 'PATCH') return route.continue();
        await route.fetch();
        await route.abort();
      });
      await page.getByRole('button', { name: 'Update Product' }).click();
      await toast(page, 'Saved. The connection broke before the shop could say so.').waitFor();
      await page.unroute('**/rest/v1/products?*');
      expect((await productNow(product.id))?.tagline).toBe('Saved once');
      await dialogOf(page).waitFor({ state: 'detached' });

      await openProductDialog(page, `edit=${product.id}`);
      await field(page, 'Product Tagline').fill('Too late');
      await asOwner(shop, `/rest/v1/products?id=eq.${product.id}`, 'DELETE');
      await pressUnlessTaken(
        page.getByRole('button', { name: 'Update Product' }),
        page.getByText('This product is gone'),
      );
      await expectAccessible(page, 'a product that is gone');
      await page.getByRole('button', { name: 'Cancel' }).click();
      await dialogOf(page).waitFor({ state: 'detached' });
    },
  );

  longStory('a product is switched off and on where it is listed', async ({ newVisitor }) => {
    const name = `Switched ${size}`;
    const product = await makeProduct(name);
    await until(async () => (await shopPage('/shop')).includes(name), 'the shop lists it');
    const { page } = await newVisitor({
      expectedFailures: /Failed to update product status|500 \(Internal Server Error\)/,
    });
    await enterAsStaff(shop, page);
    await openProducts(page);
    const row = rowOf(page, name);
    await row.getByRole('button', { name: `Deactivate ${name}` }).click();
    await row.getByText('Inactive', { exact: true }).waitFor();
    await toast(page, 'Product status updated').waitFor();
    await until(async () => !(await shopPage('/shop')).includes(name), 'the shop lists it no longer');
    await row.getByRole('button', { name: `Activate ${name}` }).click();
    await row.getByText('Active', { exact: true }).waitFor();
    await until(async () => (await productNow(product.id))?.is_active === true, 'it is active');

    // The database connection fails: the optimistic update is reverted.
    await page.route('**/rest/v1/products?*', (route) =>
      route.request().method() === 'PATCH'
        ? route.fulfill({ status: 500, json: { code: 'XX000', message: 'The disk is full' } })
        : route.continue(),
    );
    await row.getByRole('button', { name: `Deactivate ${name}` }).click();
    await toast(page, 'Failed to update product status').filter({ hasText: 'Error' }).waitFor();
    await row.getByText('Active', { exact: true }).waitFor();
    await page.unroute('**/rest/v1/products?*');

    // Another staff member saves first.
    await page.route('**/rest/v1/products?*', async (route) => {
      if (route.request().method() === 'PATCH') await change(product.id, { is_active: false });
      await route.continue();
    });
    await row.getByRole('button', { name: `Deactivate ${name}` }).click();
    await toast(page, 'Someone else changed this').waitFor();
    await row.getByText('Inactive', { exact: true }).waitFor();
    await page.unroute('**/rest/v1/products?*');
  });

  longStory('deleting a product keeps the orders that contain it complete', async ({ newVisitor }) => {
    const name = `Deleted ${size}`;
    const [picture, further] = await Promise.all([
      uploadAsOwner(`${randomUUID()}.png`),
      uploadAsOwner(`${randomUUID()}.png`),
    ]);
    await makeProduct(`Twin ${size}`, { image_url: picture });
    const product = await makeProduct(name, { image_url: picture, more_images: [further] });
    await orderOf(product);
    await orderOf(product);
    const { page } = await newVisitor();
    await enterAsStaff(shop, page);
    await openProducts(page);
    await page.getByRole('button', { name: `Delete ${name}` }).click();
    await dialogOf(page).getByText('2 orders contain it; they keep its name and price').waitFor();
    await dialogOf(page).getByText('None of them is paid yet').waitFor();
    await expectAccessible(page, 'the question before deleting');
    await page.getByRole('button', { name: 'Cancel' }).click();
    await dialogOf(page).waitFor({ state: 'detached' });

    const list = await delayResponses(page, /\/rpc\/find_products/);
    const deleteButton = page.getByRole('button', { name: `Delete ${name}` });
    await deleteButton.click();
    await page.getByRole('button', { name: 'Deactivate instead' }).click();
    await rowOf(page, name).getByText('Inactive', { exact: true }).waitFor();
    await toast(page, 'Product status updated').waitFor();
    await until(async () => (await productNow(product.id))?.is_active === false, 'it is inactive');
    // It would be refused: the list still has the product as it was.
    expect(await deleteButton.isDisabled()).toBe(true);
    list.release();

    await deleteButton.click();
    const isShownElsewhere = page.waitForResponse(
      (answer) =>
        decodeURIComponent(answer.url()).includes(`image_url.eq."${picture}"`) &&
        answer.request().method() === 'GET',
    );
    await dialogOf(page).getByRole('button', { name: 'Delete Product' }).click();
    await toast(page, 'Product deleted successfully').waitFor();
    expect(await (await isShownElsewhere).json()).toHaveLength(1);
    await rowOf(page, name).waitFor({ state: 'detached' });
    expect(await productNow(product.id)).toBeUndefined();
    const items = await asOwner(
      shop,
      `/rest/v1/order_items?product_name=eq.${encodeURIComponent(name)}`,
      'GET',
    );
    expect(await items.json()).toMatchObject([
      { product_id: null, product_name: name, unit_price: 95_000, quantity: 1 },
      { product_id: null, product_name: name, unit_price: 95_000, quantity: 1 },
    ]);
    await until(
      () => page.evaluate(() => document.activeElement?.tagName === 'MAIN'),
      'the keyboard goes on at the page',
    );

    // The image stays in storage while another product uses it.
    await until(async () => !(await fetch(`${shop.url}${further}`)).ok, 'the further image is gone');
    expect((await fetch(`${shop.url}${picture}`)).status).toBe(200);
    await page.getByRole('button', { name: `Delete Twin ${size}` }).click();
    await dialogOf(page).getByText('No order contains it.').waitFor();
    await dialogOf(page).getByRole('button', { name: 'Delete Product' }).click();
    await until(async () => !(await fetch(`${shop.url}${picture}`)).ok, 'the picture is gone');
  });

  longStory('categories are added, renamed with their products, and deactivated', async ({ newVisitor }) => {
    const [before, after] = [`Ubuyu ${size}`, `Baobab ${size}`];
    const { page } = await newVisitor({ expectedFailures: /409 \(Conflict\)|Failed to create category/ });
    await enterAsStaff(shop, page);
    await openProducts(page);
    await page.getByRole('main').getByRole('button', { name: 'More', exact: true }).click();
    await page.getByRole('button', { name: 'Manage Categories' }).click();
    await dialogOf(page).getByRole('heading', { name: 'Categories' }).waitFor();
    const add = async (name: string) => {
      await dialogOf(page).getByLabel('New Category').fill(name);
      await page.getByRole('button', { name: 'Add Category' }).click();
    };
    await add('  mango ');
    await dialogOf(page).getByText('There is a category of this name already').waitFor();
    await expectAccessible(page, 'a category name that is taken');
    await add(before);
    await toast(page, 'Category created successfully').waitFor();
    const category = dialogOf(page).getByRole('listitem').filter({ hasText: size });
    await category.getByText('0 products').waitFor();

    const product = await makeProduct(`Follower ${size}`, { category: before });
    await category.getByText('1 product', { exact: true }).waitFor();
    await page.getByRole('button', { name: `Rename ${before}` }).click();
    await dialogOf(page).getByText('1 product will follow.').waitFor();
    await page.keyboard.press('Escape');
    await page.getByRole('button', { name: `Rename ${before}` }).click();
    await dialogOf(page).getByLabel(`New name of ${before}`).fill('HIBISCUS');
    await page.getByRole('button', { name: 'Save Name' }).click();
    await dialogOf(page).getByText('There is a category of this name already').waitFor();
    await dialogOf(page).getByLabel(`New name of ${before}`).fill(after);
    await page.getByRole('button', { name: 'Save Name' }).click();
    await toast(page, 'Category renamed successfully. 1 product followed.').waitFor();
    expect((await productNow(product.id))?.category).toBe(after);
    await until(
      async () => (await shopPage('/shop')).includes(`value="${after}"`),
      'the shop offers the new name',
    );

    await page.getByRole('button', { name: `Deactivate ${after}` }).click();
    await toast(page, 'Category status updated').waitFor();
    await category.getByText('Inactive', { exact: true }).waitFor();
    await expectAccessible(page, 'the categories');
    await page.getByRole('button', { name: 'Close' }).click();
    await dialogOf(page).waitFor({ state: 'detached' });
    expect(await page.getByLabel('Category').locator('option').allTextContents()).not.toContain(after);
    await until(async () => {
      const listed = await shopPage('/shop');
      return !listed.includes(`value="${after}"`) && listed.includes(product.name);
    }, 'the shop offers the category no more, but still its product');
    // Editing a product does not remove it from its category.
    await page.goto(`${shop.url}/admin/products?edit=${product.id}`);
    await field(page, 'Category')
      .locator('option', { hasText: `${after} (inactive)` })
      .waitFor({ state: 'attached' });
    expect(await field(page, 'Category').inputValue()).toBe(after);
  });
});
