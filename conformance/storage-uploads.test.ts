// Uploads (product images, harmful content, interrupted uploads) and image renderings.
import { createReadStream } from 'node:fs';
import { readdir, writeFile } from 'node:fs/promises';
import { request as httpRequest } from 'node:http';
import { join } from 'node:path';
import { deflateSync, gzipSync } from 'node:zlib';
import { testDatabases } from '@jani-juice/backend/testing';
import sharp from 'sharp';
import { Upload } from 'tus-js-client';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { type OpenServices, openServices } from '../scripts/tests/open-services.ts';

const sampleImage = (format: 'png' | 'jpeg' | 'webp' | 'gif' | 'avif', width = 64, height = 48) =>
  sharp({ create: { width, height, channels: 3, background: '#2e7d32' } })
    .toFormat(format)
    .toBuffer();

/** A 1-bit PNG with the given compressed rows. */
function pngOf(width: number, height: number, rows: Buffer): Buffer {
  const chunk = (type: string, data: Buffer) => {
    const body = Buffer.concat([Buffer.from(type, 'latin1'), data]);
    const sizes = Buffer.alloc(8);
    sizes.writeUInt32BE(data.length, 0);
    sizes.writeUInt32BE(crc32(body), 4);
    return Buffer.concat([sizes.subarray(0, 4), body, sizes.subarray(4)]);
  };
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  header[8] = 1;
  return Buffer.concat([
    Buffer.from('\x89PNG\r\n\x1a\n', 'latin1'),
    chunk('IHDR', header),
    chunk('IDAT', rows),
    chunk('IEND', Buffer.alloc(0)),
  ]);
}

function crc32(bytes: Buffer): number {
  let crc = 0xffffffff;
  for (const byte of bytes) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit += 1) crc = crc & 1 ? (crc >>> 1) ^ 0xedb88320 : crc >>> 1;
  }
  return (crc ^ 0xffffffff) >>> 0;
}

/** An animated GIF of 64 pixels. */
function gifOf(frames: number): Promise<Buffer> {
  const pixels = Buffer.from(Array.from({ length: frames * 64 * 3 }, (_, n) => (n % 384 < 192 ? 0 : 255)));
  return sharp(pixels, { raw: { width: 8, height: 8 * frames, channels: 3, pageHeight: 8 } })
    .gif()
    .toBuffer();
}

const bytesOf = async (blob: Blob | null) => Buffer.from((await blob?.arrayBuffer()) ?? new ArrayBuffer());

describe.each(testDatabases())('uploads on %s', (kind) => {
  let storage: OpenServices;
  let serviceClient: ReturnType<OpenServices['client']>;
  let staff: ReturnType<ReturnType<OpenServices['client']>['from']>;
  let staffToken: string;

  beforeAll(async () => {
    storage = await openServices(kind);
    serviceClient = storage.client(storage.keys.secret);
    staffToken = (await storage.person('staff')).token;
    staff = storage.client(staffToken).from('product-images');
  });
  afterEach(() => {
    expect(storage.errors.splice(0).map(String)).toEqual([]);
  });
  afterAll(() => storage.close());

  const refusal = (error: unknown) => {
    const { statusCode, message } = (error ?? {}) as Record<string, unknown>;
    return { statusCode, message };
  };
  const read = async (path: string) => {
    const answer = await fetch(staff.getPublicUrl(path).data.publicUrl);
    return { answer, bytes: Buffer.from(await answer.arrayBuffer()) };
  };
  const workFiles = async () =>
    (await readdir(join(storage.folder, 'work'), { withFileTypes: true })).filter((entry) => entry.isFile());

  describe('product images', () => {
    test('are uploaded, replaced and deleted by staff under products/, and public', async () => {
      const content = await sampleImage('png');
      expect(
        (await staff.upload('products/mango.png', content, { contentType: 'image/png' })).error,
      ).toBeNull();
      expect(
        (await staff.upload('products/mango.png', content, { contentType: 'image/png', upsert: true })).error,
      ).toBeNull();
      const { answer, bytes } = await read('products/mango.png');
      expect([answer.status, answer.headers.get('content-type')]).toEqual([200, 'image/png']);
      expect(await sharp(bytes).metadata()).toMatchObject({ format: 'png', width: 64, height: 48 });
      const visitor = storage.client(storage.keys.publishable).from('product-images');
      expect((await visitor.list('products')).data?.map(({ name }) => name)).toContain('mango.png');
      expect((await visitor.download('products/mango.png')).error).toBeNull();
      expect((await staff.copy('products/mango.png', 'products/copy.png')).error).toBeNull();
      expect((await staff.move('products/copy.png', 'products/moved.png')).error).toBeNull();
      expect((await staff.remove(['products/moved.png'])).data).toHaveLength(1);
      expect(refusal((await staff.upload('mango.png', content, { contentType: 'image/png' })).error)).toEqual(
        {
          statusCode: '403',
          message: 'new row violates row-level security policy',
        },
      );
      expect((await staff.move('products/mango.png', 'mango.png')).error).toMatchObject({
        statusCode: '403',
      });
    });

    test('cannot be changed by others', async () => {
      const content = await sampleImage('png');
      await staff.upload('products/existing.png', content, { contentType: 'image/png' });
      const others = {
        anonymous: storage.keys.publishable,
        customer: (await storage.person('customer')).token,
        'inactive staff': (await storage.person('inactive staff')).token,
      };
      for (const [who, token] of Object.entries(others)) {
        const client = storage.client(token).from('product-images');
        const options = { contentType: 'image/png' };
        const denied = { statusCode: '403' };
        expect((await client.upload('products/x.png', content, options)).error, who).toMatchObject(denied);
        expect((await client.update('products/existing.png', content, options)).error, who).toMatchObject(
          denied,
        );
        expect((await client.createSignedUploadUrl('products/x.png')).error, who).toMatchObject(denied);
        expect((await client.copy('products/existing.png', 'products/x.png')).error, who).toMatchObject(
          denied,
        );
        expect((await client.move('products/existing.png', 'products/x.png')).error, who).toMatchObject(
          denied,
        );
        expect((await client.remove(['products/existing.png'])).data, who).toEqual([]);
        expect((await storage.client(token).emptyBucket('product-images')).error, who).not.toBeNull();
      }
      expect((await staff.exists('products/existing.png')).data).toBe(true);
    });

    test('lose their metadata, and are rotated upright', async () => {
      const photo = await sharp({ create: { width: 40, height: 20, channels: 3, background: 'orange' } })
        .jpeg()
        .withExif({ IFD0: { Copyright: 'Kamau', Artist: 'SECRET-PLACE' } })
        .withMetadata({ orientation: 6 })
        .toBuffer();
      const polyglot = Buffer.concat([photo, Buffer.from('<script>alert(1)</script>/*SECRET-PLACE*/')]);
      await staff.upload('products/photo.jpg', polyglot, { contentType: 'image/jpeg' });
      const { bytes } = await read('products/photo.jpg');
      expect(bytes.includes('SECRET-PLACE')).toBe(false);
      expect(bytes.includes('script')).toBe(false);
      expect(await sharp(bytes).metadata()).toMatchObject({ width: 20, height: 40 });
    });

    test('a GIF that is also a script is stored as an image only, and stays animated', async () => {
      const gif = await sampleImage('gif');
      const polyglots = {
        behind: Buffer.concat([gif, Buffer.from('*/=1;alert(document.domain)')]),
        around: Buffer.concat([
          Buffer.from('GIF89a/*'),
          gif.subarray(8),
          Buffer.from('*/=1;alert(document.domain)'),
        ]),
      };
      const outcomes: Record<string, string> = {};
      for (const [name, polyglot] of Object.entries(polyglots)) {
        const { error } = await staff.upload(`products/${name}.gif`, polyglot, { contentType: 'image/gif' });
        outcomes[name] = error
          ? `refused with ${refusal(error).statusCode}`
          : (await read(`products/${name}.gif`)).bytes.includes('alert')
            ? 'a script'
            : 'an image';
      }
      expect(outcomes).toEqual({ behind: 'an image', around: 'an image' });

      const frames = Buffer.alloc(8 * 16 * 3);
      frames.fill(255, 8 * 8 * 3);
      const moving = await sharp(frames, { raw: { width: 8, height: 16, channels: 3, pageHeight: 8 } })
        .gif()
        .toBuffer();
      await staff.upload('products/moving.gif', moving, { contentType: 'image/gif' });
      expect((await sharp((await read('products/moving.gif')).bytes).metadata()).pages).toBe(2);
    });

    test('have the type of their bytes, whatever their name and declared type are', async () => {
      const webp = await sampleImage('webp');
      await staff.upload('products/really-webp.png', webp, { contentType: 'image/png' });
      expect((await read('products/really-webp.png')).answer.headers.get('content-type')).toBe('image/webp');
      await serviceClient.createBucket('only-png', { public: false, allowedMimeTypes: ['image/png'] });
      const jpeg = await sampleImage('jpeg');
      const pngs = serviceClient.from('only-png');
      expect((await pngs.upload('jpeg-called.png', jpeg, { contentType: 'image/png' })).error).toBeNull();
      expect((await pngs.info('jpeg-called.png')).data?.contentType).toBe('image/png');
      expect(
        (await sharp(await bytesOf((await pngs.download('jpeg-called.png')).data)).metadata()).format,
      ).toBe('png');
      expect(refusal((await pngs.upload('x.jpg', jpeg, { contentType: 'image/jpeg' })).error)).toEqual({
        statusCode: '415',
        message: 'mime type image/jpeg is not supported',
      });
      const avif = await sampleImage('avif');
      expect(
        (await staff.upload('products/a.avif', new Blob([new Uint8Array(avif)], { type: 'image/avif' })))
          .error,
      ).toBeNull();
      expect((await read('products/a.avif')).answer.headers.get('content-type')).toBe('image/avif');
    });

    test.each([
      [
        'an SVG',
        '<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>',
        'image/png',
        '415',
        /SVG images can contain programs/,
      ],
      [
        'an SVG with its true type',
        '<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg"/>',
        'image/svg+xml',
        '415',
        /svg/,
      ],
      [
        'a page',
        '<!doctype html><script>alert(1)</script>',
        'image/png',
        '415',
        /The content is not an image/,
      ],
      [
        'an HTML page with its true type',
        '<!doctype html>',
        'text/html',
        '415',
        /mime type text\/html is not supported/,
      ],
      ['an empty file', '', 'image/png', '415', /The content is not an image/],
      ['a truncated image', '\x89PNG\r\n\x1a\n\0\0\0\rIHDR', 'image/png', '415', /damaged/],
    ])('%s is rejected with a clear message', async (_, content, type, statusCode, message) => {
      const { error } = await staff.upload('products/bad.png', Buffer.from(content, 'latin1'), {
        contentType: type,
      });
      expect(refusal(error)).toEqual({ statusCode, message: expect.stringMatching(message) });
      const form = await staff.upload(
        'products/bad.png',
        new Blob([Buffer.from(content, 'latin1')], { type }),
      );
      expect(refusal(form.error).statusCode).toBe(statusCode);
      expect((await staff.exists('products/bad.png')).data).toBe(false);
    });

    test('a small file that expands to very many pixels is rejected', async () => {
      const flood = await sharp({ create: { width: 12_000, height: 6000, channels: 3, background: 'red' } })
        .png({ compressionLevel: 9 })
        .toBuffer();
      expect(flood.length).toBeLessThan(1_000_000);
      const { error } = await staff.upload('products/flood.png', flood, { contentType: 'image/png' });
      expect(refusal(error)).toEqual({
        statusCode: '413',
        message: expect.stringMatching(/^The image is too large: 50 million pixels/),
      });
    });

    test('an image of 900 million pixels in 100 kB is rejected without decoding', async () => {
      const rowBytes = 1 + Math.ceil(30_000 / 8);
      const png = pngOf(30_000, 30_000, deflateSync(Buffer.alloc(30_000 * rowBytes)));
      expect(png.length).toBeLessThan(200_000);
      const begun = performance.now();
      const { error } = await staff.upload('products/huge.png', png, { contentType: 'image/png' });
      expect(refusal(error)).toEqual({
        statusCode: '413',
        message: expect.stringMatching(/^The image is too large: 50 million pixels/),
      });
      // Decoding would take longer.
      expect(performance.now() - begun).toBeLessThan(5_000);
      expect((await staff.exists('products/huge.png')).data).toBe(false);
    });

    test('a GIF of thousands of frames is rejected, and never rendered in a bucket without type limits', async () => {
      const gif = await gifOf(5_000);
      const { error } = await staff.upload('products/long.gif', gif, { contentType: 'image/gif' });
      expect(refusal(error)).toEqual({
        statusCode: '413',
        message: expect.stringMatching(/^The image is too large: .* 200 frames/),
      });
      expect(
        (await staff.upload('products/short.gif', await gifOf(150), { contentType: 'image/gif' })).error,
      ).toBe(null);
      await serviceClient.createBucket('anything', { public: false });
      const anything = serviceClient.from('anything');
      expect((await anything.upload('long.gif', gif, { contentType: 'image/gif' })).error).toBeNull();
      const rendered = await anything.download('long.gif', { transform: { width: 1, format: 'origin' } });
      expect(rendered.error).not.toBeNull();
    });

    test.each(['png', 'jpeg', 'webp', 'gif', 'avif'] as const)(
      'a truncated %s is rejected',
      async (format) => {
        const noise = Buffer.from(Array.from({ length: 96 * 96 * 3 }, (_, n) => (n * 2_654_435_761) >>> 24));
        const whole = await sharp(noise, { raw: { width: 96, height: 96, channels: 3 } })
          .toFormat(format)
          .toBuffer();
        const options = { contentType: `image/${format}` };
        const name = `products/whole.${format}`;
        expect((await staff.upload(name, whole, options)).error).toBeNull();
        const half = whole.subarray(0, whole.length / 2);
        const { error } = await staff.upload(`products/half.${format}`, half, options);
        expect(refusal(error)).toEqual({ statusCode: '415', message: expect.stringMatching(/damaged/) });
        expect((await staff.exists(`products/half.${format}`)).data).toBe(false);
      },
    );

    test('lose the location and the camera of a photo', async () => {
      const photo = await sharp({ create: { width: 40, height: 20, channels: 3, background: 'orange' } })
        .withExif({
          IFD0: { Make: 'SECRET-CAMERA' },
          IFD3: { GPSLatitudeRef: 'S', GPSLatitude: '1/1 17/1 0/1', GPSLongitude: '36/1 49/1 0/1' },
        })
        .withXmp('<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF>SECRET-OWNER</rdf:RDF></x:xmpmeta>')
        .withIccProfile('p3')
        .jpeg()
        .toBuffer();
      const before = await sharp(photo).metadata();
      expect([before.exif?.includes('SECRET-CAMERA'), before.xmp?.includes('SECRET-OWNER')]).toEqual([
        true,
        true,
      ]);
      for (const type of ['image/jpeg', 'image/png', 'image/webp'] as const) {
        const content =
          type === 'image/jpeg'
            ? photo
            : await sharp(photo)
                .keepMetadata()
                .toFormat(type.slice(6) as 'png')
                .toBuffer();
        const name = `products/place.${type.slice(6)}`;
        expect((await staff.upload(name, content, { contentType: type })).error).toBeNull();
        const { bytes } = await read(name);
        const after = await sharp(bytes).metadata();
        expect([after.exif, after.xmp, after.icc, after.iptc], type).toEqual(Array(4).fill(undefined));
        expect(bytes.includes('SECRET'), type).toBe(false);
      }
    });

    test.each([
      ['after white space', ' \n\t<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"/>'],
      ['after a comment', '<!-- GIF89a --><svg xmlns="http://www.w3.org/2000/svg"><script/></svg>'],
      ['in UTF-16', Buffer.from('\ufeff<svg xmlns="http://www.w3.org/2000/svg"/>', 'utf16le')],
      ['compressed', gzipSync('<svg xmlns="http://www.w3.org/2000/svg"><script/></svg>')],
      [
        'as a document that contains itself',
        '<!DOCTYPE svg [<!ENTITY a "&b;&b;"><!ENTITY b "x">]><svg>&a;</svg>',
      ],
      ['as a PDF', '%PDF-1.7 <svg/>'],
      [
        'as a bitmap of another kind',
        Buffer.from('424d3a0000000000000036000000280000000100000001000000010018', 'hex'),
      ],
    ])('an SVG declared as an image is rejected %s', async (_, content) => {
      for (const [name, contentType] of [
        ['products/drawing.png', 'image/png'],
        ['products/drawing.jpg', 'image/jpeg'],
        ['products/drawing.gif', 'image/gif'],
      ] as const) {
        const { error } = await staff.upload(name, Buffer.from(content as string), { contentType });
        expect(refusal(error).statusCode, name).toBe('415');
        expect((await staff.exists(name)).data, name).toBe(false);
      }
    });

    test('50 MB are rejected, with or without Content-Length, and leave no file', async () => {
      const body = Buffer.alloc(50 * 1024 * 1024);
      const tooLarge = { statusCode: '413', message: 'The object exceeded the maximum allowed size' };
      const raw = await staff.upload('products/large.png', body, { contentType: 'image/png' });
      expect(refusal(raw.error)).toEqual(tooLarge);
      const form = await staff.upload('products/large.png', new Blob([body], { type: 'image/png' }));
      expect(refusal(form.error)).toEqual(tooLarge);
      const stream = new Blob([body]).stream();
      const streamed = await staff.upload('products/large.png', stream, {
        contentType: 'image/png',
        duplex: 'half',
      });
      expect(refusal(streamed.error)).toEqual(tooLarge);
      expect(await workFiles()).toEqual([]);
    });

    test('cannot be copied from another bucket', async () => {
      await serviceClient.createBucket('unrestricted', { public: false });
      const unrestricted = serviceClient.from('unrestricted');
      await unrestricted.upload('evil.png', '<script>alert(1)</script>', { contentType: 'image/png' });
      await unrestricted.upload('good.png', await sampleImage('png'), { contentType: 'image/png' });
      await unrestricted.upload('page.html', '<p>', { contentType: 'text/html' });
      const there = { destinationBucket: 'product-images' };
      for (const way of ['copy', 'move'] as const) {
        expect(refusal((await unrestricted[way]('evil.png', 'products/evil.png', there)).error), way).toEqual(
          {
            statusCode: '415',
            message: expect.stringMatching(/not an image/),
          },
        );
        expect(
          refusal((await unrestricted[way]('page.html', 'products/page.html', there)).error).statusCode,
        ).toBe('415');
        expect((await unrestricted[way]('good.png', `products/good-${way}.png`, there)).error).toBeNull();
        expect((await read(`products/good-${way}.png`)).answer.status).toBe(200);
      }
      expect((await unrestricted.exists('evil.png')).data).toBe(true);
      expect((await unrestricted.exists('good.png')).data).toBe(false);
      expect(await workFiles()).toEqual([]);
    });
  });

  test('names with path traversal or disallowed characters are rejected, and touch no file', async () => {
    await serviceClient.createBucket('names', { public: false });
    for (const key of [
      '..%2f..%2fetc%2fpasswd',
      'a%2f..%2fb',
      '%2e%2e%2fx%2f.',
      'a%00b',
      'ünï.txt',
      '%E7%8C%AB.png',
      'a%5Cb',
      'a~b',
      '%ff',
      'x'.repeat(1025),
    ]) {
      const answer = await fetch(`${storage.url}/object/names/${key}`, {
        method: 'POST',
        headers: { authorization: `Bearer ${storage.keys.secret}` },
        body: 'x',
      });
      expect([answer.status, ((await answer.json()) as { code: string }).code], key).toEqual([
        400,
        'InvalidKey',
      ]);
    }
    expect((await serviceClient.from('names').list()).data).toEqual([]);
  });

  test('an interrupted form, or one without a file, is rejected and stores nothing', async () => {
    await serviceClient.createBucket('forms', { public: false });
    const post = async (body: string, type = 'multipart/form-data; boundary=edge') => {
      const answer = await fetch(`${storage.url}/object/forms/a.txt`, {
        method: 'POST',
        headers: { authorization: `Bearer ${storage.keys.secret}`, 'content-type': type },
        body,
      });
      return [answer.status, ((await answer.json()) as { code: string }).code];
    };
    const part =
      '--edge\r\ncontent-disposition: form-data; name=""; filename="a"\r\ncontent-type: text/plain\r\n\r\nhalf';
    const refused = [400, 'InvalidRequest'];
    expect(await post(part)).toEqual(refused);
    expect(await post(`${part}\r\n--ed`)).toEqual(refused);
    expect(await post('--edge\r\ncontent-disposition: form-data; name="a"\r\n\r\nb\r\n--edge--\r\n')).toEqual(
      refused,
    );
    expect(await post(part, 'multipart/form-data')).toEqual(refused);
    expect(
      await post(
        `${part}\r\n--edge\r\ncontent-disposition: form-data; name="metadata"\r\n\r\n{no\r\n--edge--\r\n`,
      ),
    ).toEqual(refused);
    expect((await serviceClient.from('forms').list()).data).toEqual([]);
    expect(await workFiles()).toEqual([]);
  });

  test('a client that disconnects in the middle leaves no file', async () => {
    await serviceClient.createBucket('gone', { public: false });
    await new Promise<void>((done) => {
      const request = httpRequest(`${storage.url}/object/gone/a.txt`, {
        method: 'POST',
        headers: { authorization: `Bearer ${storage.keys.secret}`, 'content-length': '1000000' },
      });
      request.on('error', () => done());
      request.write('x'.repeat(1000), () => setImmediate(() => request.destroy(new Error('gone'))));
    });
    await expect.poll(workFiles).toEqual([]);
    expect((await serviceClient.from('gone').list()).data).toEqual([]);
  });

  describe('a rendering', () => {
    const render = async (query: string, accept = '*/*') => {
      const url = staff
        .getPublicUrl('products/large.jpg')
        .data.publicUrl.replace('/object/', '/render/image/');
      const answer = await fetch(`${url}${query}`, { headers: { accept } });
      const bytes = Buffer.from(await answer.arrayBuffer());
      return { answer, bytes };
    };
    const sizeOf = async (query: string) => {
      const { width, height } = await sharp((await render(query)).bytes).metadata();
      return [width, height];
    };
    beforeAll(async () => {
      await staff.upload('products/large.jpg', await sampleImage('jpeg', 800, 600), {
        contentType: 'image/jpeg',
      });
    });

    test('has the requested size, but is never larger than the image', async () => {
      expect(await sizeOf('?width=400')).toEqual([400, 300]);
      expect(await sizeOf('?width=100&height=100')).toEqual([100, 100]);
      expect(await sizeOf('?width=100&height=100&resize=contain')).toEqual([100, 75]);
      expect(await sizeOf('?width=100&height=100&resize=fill')).toEqual([100, 100]);
      expect(await sizeOf('?width=2500')).toEqual([800, 600]);
      expect(await sizeOf('?width=99999')).toEqual([800, 600]);
      expect(await sizeOf('?width=0&height=300')).toEqual([400, 300]);
      expect(await sizeOf('')).toEqual([800, 600]);
    });

    test('has the best format that the client accepts, with Vary: Accept', async () => {
      const type = async (query: string, accept?: string) =>
        (await render(query, accept)).answer.headers.get('content-type');
      const browser = 'image/avif,image/webp,image/*,*/*;q=0.8';
      expect(await type('?width=80', browser)).toBe('image/avif');
      expect(await type('?width=80', 'image/webp,*/*')).toBe('image/webp');
      expect(await type('?width=80', 'image/avif;q=0,image/webp')).toBe('image/webp');
      expect(await type('?width=80')).toBe('image/jpeg');
      expect(await type('?width=80&format=origin', browser)).toBe('image/jpeg');
      expect(await type('?width=80&format=webp')).toBe('image/webp');
      expect(await type('?width=80&format=avif')).toBe('image/avif');
      expect((await render('?width=80')).answer.headers.get('vary')).toMatch(/accept/i);
    });

    test('is rendered once, with an ETag', async () => {
      const { answer } = await render('?width=90');
      const etag = answer.headers.get('etag') ?? '';
      const again = await fetch(answer.url, { headers: { 'if-none-match': etag } });
      expect(again.status).toBe(304);
      const count = async () => (await readdir(join(storage.folder, 'work/rendered'))).length;
      const before = await count();
      await Promise.all([render('?width=91'), render('?width=91'), render('?width=91')]);
      await render('?width=91');
      expect(await count()).toBe(before + 1);
    });

    test('of a private bucket needs a signed URL', async () => {
      await serviceClient.createBucket('private-images', { public: false });
      const bucket = serviceClient.from('private-images');
      await bucket.upload('a.png', await sampleImage('png', 300, 200), { contentType: 'image/png' });
      const { data } = await bucket.createSignedUrl('a.png', 60, { transform: { width: 30 } });
      const url = data?.signedUrl ?? '';
      const small = await fetch(`${url}&width=300`);
      expect((await sharp(Buffer.from(await small.arrayBuffer())).metadata()).width).toBe(30);
      expect((await fetch(url.replace('/render/image/', '/object/'))).status).toBe(400);
      const { data: blob } = await bucket.download('a.png', { transform: { width: 20, height: 10 } });
      expect(await sharp(await bytesOf(blob)).metadata()).toMatchObject({
        width: 20,
        height: 10,
      });
    });

    test('with invalid options, or of a file that is no image, is rejected', async () => {
      for (const [query, message] of [
        ['?width=-1', 'querystring/width must be >= 0'],
        ['?width=wide', 'querystring/width must be number'],
        ['?height=1.5', 'querystring/height must be integer'],
        ['?quality=10', 'querystring/quality must be >= 20'],
        ['?resize=zoom', 'querystring/resize must be equal to one of the allowed values'],
        ['?format=bmp', 'querystring/format must be equal to one of the allowed values'],
        ['?gravity=obj', 'querystring/gravity must be equal to one of the allowed values'],
        ['?gravity=fp&x_offset=0.5', "querystring must have required property 'y_offset'"],
        ['?gravity=fp&x_offset=0.5&y_offset=1.1', 'querystring/y_offset must be <= 1'],
      ]) {
        const { answer, bytes } = await render(query ?? '');
        expect([answer.status, JSON.parse(bytes.toString())], query).toEqual([
          400,
          { statusCode: '400', error: 'Error', message, code: 'InvalidRequest' },
        ]);
      }
      await serviceClient.from('unrestricted').upload('text.png', '<svg/>', { contentType: 'image/png' });
      await serviceClient.from('unrestricted').upload('text.svg', '<svg/>', { contentType: 'image/svg+xml' });
      for (const name of ['text.png', 'text.svg']) {
        const { error } = await serviceClient
          .from('unrestricted')
          .download(name, { transform: { width: 10 } });
        expect(refusal(error), name).toEqual({
          statusCode: '400',
          message: 'The source image is invalid or unsupported for rendering',
        });
      }
    });

    test('shows the requested side, corner or point', async () => {
      // Red, green, blue and white, a quarter each.
      const quarter = (background: string) =>
        sharp({ create: { width: 40, height: 40, channels: 3, background } })
          .png()
          .toBuffer();
      const four = await sharp({ create: { width: 80, height: 80, channels: 3, background: 'red' } })
        .composite([
          { input: await quarter('lime'), left: 40, top: 0 },
          { input: await quarter('blue'), left: 0, top: 40 },
          { input: await quarter('white'), left: 40, top: 40 },
        ])
        .png()
        .toBuffer();
      await staff.upload('products/four.png', four, { contentType: 'image/png' });
      const colours: Record<string, string> = {
        '255,0,0': 'red',
        '0,255,0': 'lime',
        '0,0,255': 'blue',
        '255,255,255': 'white',
      };
      const cornersOf = async (query: string) => {
        const answer = await fetch(
          `${storage.url}/render/image/public/product-images/products/four.png?${query}`,
        );
        const { data, info } = await sharp(Buffer.from(await answer.arrayBuffer()))
          .removeAlpha()
          .raw()
          .toBuffer({ resolveWithObject: true });
        const at = (x: number, y: number) =>
          colours[data.subarray((y * info.width + x) * 3, (y * info.width + x) * 3 + 3).join()];
        return [
          `${info.width}x${info.height}`,
          at(0, 0),
          at(info.width - 1, info.height - 1),
          answer.headers.get('x-transformations')?.split(',').at(-1),
        ];
      };
      expect(await cornersOf('width=80&height=40&gravity=no')).toEqual([
        '80x40',
        'red',
        'lime',
        'gravity:no',
      ]);
      expect(await cornersOf('width=80&height=40&gravity=so')).toEqual([
        '80x40',
        'blue',
        'white',
        'gravity:so',
      ]);
      expect(await cornersOf('width=40&height=80&gravity=ea')).toEqual([
        '40x80',
        'lime',
        'white',
        'gravity:ea',
      ]);
      expect(await cornersOf('width=40&height=80&gravity=we&x_offset=40')).toEqual([
        '40x80',
        'lime',
        'white',
        'gravity:we:40:0',
      ]);
      expect(await cornersOf('width=80&height=40&gravity=fp&x_offset=0&y_offset=1')).toEqual([
        '80x40',
        'blue',
        'white',
        'gravity:fp:0:1',
      ]);
      expect((await cornersOf('width=40&height=20&gravity=sm'))[0]).toBe('40x20');
      await serviceClient.createBucket('signed-gravity', { public: false });
      await serviceClient.from('signed-gravity').upload('four.png', four, { contentType: 'image/png' });
      const signed = await fetch(`${storage.url}/object/sign/signed-gravity/four.png`, {
        method: 'POST',
        headers: { authorization: `Bearer ${storage.keys.secret}`, 'content-type': 'application/json' },
        body: JSON.stringify({
          expiresIn: 60,
          transform: { width: 80, height: 40, format: 'webp', gravity: 'fp', x_offset: 0.5, y_offset: 0 },
        }),
      });
      const { signedURL } = (await signed.json()) as { signedURL: string };
      const shown = await fetch(`${storage.url}${signedURL}`);
      expect([shown.headers.get('content-type'), shown.headers.get('x-transformations')]).toEqual([
        'image/webp',
        'height:40,width:80,resizing_type:fill,format:webp,gravity:fp:0.5:0',
      ]);
    });
  });

  describe('a resumable upload', () => {
    const name = 'tapes';
    const endpoint = () => `${storage.url}/upload/resumable`;
    beforeAll(async () => {
      await serviceClient.createBucket(name, {
        public: false,
        fileSizeLimit: 5_000_000,
        allowedMimeTypes: ['text/*', 'video/*'],
      });
    });
    type Options = ConstructorParameters<typeof Upload>[1];
    const start = (content: Buffer, objectName: string, options: Options = {}, bucketName = name) =>
      new Promise<Upload>((done, fail) => {
        const upload = new Upload(content, {
          endpoint: endpoint(),
          headers: { authorization: `Bearer ${storage.keys.secret}` },
          metadata: {
            bucketName,
            objectName,
            contentType: 'text/plain',
            cacheControl: '60',
            metadata: '{"reel":1}',
          },
          chunkSize: 100_000,
          retryDelays: [],
          onSuccess: () => done(upload),
          onError: fail,
          ...options,
        });
        upload.start();
      });
    const problem = async (upload: Promise<unknown>) => {
      const error = (await upload.then(() => null).catch((thrown) => thrown)) as {
        originalResponse?: { getStatus(): number; getBody(): string };
      } | null;
      return { status: error?.originalResponse?.getStatus(), body: error?.originalResponse?.getBody() };
    };

    test('arrives in parts and becomes an ordinary object', async () => {
      const content = Buffer.from('tape '.repeat(60_000));
      await start(content, 'reels/1.txt');
      const { data } = await serviceClient.from(name).download('reels/1.txt');
      expect(await bytesOf(data)).toEqual(content);
      expect(await serviceClient.from(name).info('reels/1.txt')).toMatchObject({
        data: { contentType: 'text/plain', cacheControl: 'max-age=60', metadata: { reel: 1 } },
        error: null,
      });
      // The upload that its creation request completes, as the official guide configures the client.
      const whole = Buffer.from('one chunk');
      await start(whole, 'reels/2.txt', { uploadDataDuringCreation: true });
      expect(await bytesOf((await serviceClient.from(name).download('reels/2.txt')).data)).toEqual(whole);
      await start(content, 'reels/3.txt', { uploadDataDuringCreation: true });
      expect(await bytesOf((await serviceClient.from(name).download('reels/3.txt')).data)).toEqual(content);
      await start(Buffer.alloc(0), 'reels/blank.txt');
      expect((await serviceClient.from(name).info('reels/blank.txt')).data).toMatchObject({ size: 0 });
      expect(await workFiles()).toEqual([]);
    });

    test('continues where its connection broke', async () => {
      const content = Buffer.from('0123456789'.repeat(50_000));
      let url = '';
      // Half of a part arrives, then the connection is closed.
      const created = await fetch(endpoint(), {
        method: 'POST',
        headers: {
          authorization: `Bearer ${storage.keys.secret}`,
          'tus-resumable': '1.0.0',
          'upload-length': String(content.length),
          'upload-metadata': `bucketName ${btoa(name)},objectName ${btoa('cut.txt')},contentType ${btoa('text/plain')}`,
        },
      });
      expect(created.status).toBe(201);
      url = created.headers.get('location') ?? '';
      expect(Buffer.from(url.split('/').at(-1) ?? '', 'base64url').toString()).toMatch(
        /^tapes\/cut\.txt\/[0-9a-f-]{36}$/,
      );
      await new Promise<void>((done) => {
        const request = httpRequest(url, {
          method: 'PATCH',
          headers: {
            authorization: `Bearer ${storage.keys.secret}`,
            'tus-resumable': '1.0.0',
            'upload-offset': '0',
            'content-type': 'application/offset+octet-stream',
            'content-length': String(content.length),
          },
        });
        request.on('error', () => done());
        request.write(content.subarray(0, 200_000), () =>
          setTimeout(() => request.destroy(new Error('cut')), 50),
        );
      });
      const offsets: number[] = [];
      await start(content, 'cut.txt', {
        uploadUrl: url,
        onProgress: (sent) => offsets.push(sent),
      });
      expect(offsets[0]).toBeGreaterThan(0);
      const { data } = await serviceClient.from(name).download('cut.txt');
      expect(await data?.text()).toBe(content.toString());

      // A client that missed the last response can request it again.
      const end = await fetch(url, {
        method: 'HEAD',
        headers: { authorization: `Bearer ${storage.keys.secret}`, 'tus-resumable': '1.0.0' },
      });
      expect([end.status, end.headers.get('upload-offset')]).toEqual([200, String(content.length)]);
    });

    test('is rejected in plain text with its HTTP status', async () => {
      const encoded = { bucketName: name, objectName: 'packed.txt', contentEncoding: 'gzip' };
      expect(await problem(start(Buffer.from('x'), 'packed.txt', { metadata: encoded }))).toEqual({
        status: 400,
        body: 'contentEncoding is not supported',
      });
      const small = Buffer.from('small');
      expect(await problem(start(small, 'x', {}, 'nowhere'))).toEqual({
        status: 404,
        body: 'Bucket not found',
      });
      await start(small, 'taken.txt');
      expect(await problem(start(small, 'taken.txt'))).toEqual({
        status: 409,
        body: 'The resource already exists',
      });
      expect(await problem(start(Buffer.alloc(5_000_001), 'large.txt'))).toMatchObject({ status: 413 });
      const metadata = { bucketName: name, objectName: 'a.exe', contentType: 'application/x-exe' };
      expect(await problem(start(small, 'a.exe', { metadata }))).toEqual({
        status: 415,
        body: 'mime type application/x-exe is not supported',
      });
      expect(await problem(start(small, '../x'))).toEqual({ status: 400, body: 'Invalid key: ../x' });
      const { token } = await storage.person('customer');
      expect(
        await problem(start(small, 'mine.txt', { headers: { authorization: `Bearer ${token}` } })),
      ).toMatchObject({ status: 403 });
      expect(await problem(start(small, 'mine.txt', { headers: {} }))).toMatchObject({ status: 400 });
      const upsert = { authorization: `Bearer ${storage.keys.secret}`, 'x-upsert': 'true' };
      await start(Buffer.from('new'), 'taken.txt', { headers: upsert });
      expect(await (await serviceClient.from(name).download('taken.txt')).data?.text()).toBe('new');
    });

    test('belongs to its sender, who can delete it', async () => {
      const created = await fetch(endpoint(), {
        method: 'POST',
        headers: {
          authorization: `Bearer ${staffToken}`,
          'tus-resumable': '1.0.0',
          'upload-length': '10',
          'upload-metadata': `bucketName ${btoa('product-images')},objectName ${btoa('products/tus.png')},contentType ${btoa('image/png')}`,
        },
      });
      expect(created.status).toBe(201);
      const url = created.headers.get('location') ?? '';
      const ask = async (method: string, token: string) =>
        (
          await fetch(url, {
            method,
            headers: { authorization: `Bearer ${token}`, 'tus-resumable': '1.0.0' },
          })
        ).status;
      const { token: other } = await storage.person('staff');
      expect(await ask('HEAD', other)).toBe(403);
      expect(await ask('DELETE', other)).toBe(403);
      expect(await ask('DELETE', staffToken)).toBe(204);
      expect(await ask('HEAD', staffToken)).toBe(404);
    });

    test('of the secret key does not belong to visitors, although neither has a user id', async () => {
      const authorization = `Bearer ${storage.keys.secret}`;
      const created = await fetch(endpoint(), {
        method: 'POST',
        headers: {
          authorization,
          'tus-resumable': '1.0.0',
          'upload-length': '4',
          'upload-metadata': `bucketName ${btoa(name)},objectName ${btoa('ours.txt')},contentType ${btoa('text/plain')}`,
        },
      });
      const send = (sender: string) =>
        fetch(created.headers.get('location') ?? '', {
          method: 'PATCH',
          headers: {
            authorization: sender,
            'tus-resumable': '1.0.0',
            'upload-offset': '0',
            'content-type': 'application/offset+octet-stream',
          },
          body: 'ours',
        });
      expect((await send(`Bearer ${storage.keys.publishable}`)).status).toBe(403);
      expect((await send(authorization)).status).toBe(204);
    });

    test('of a file that is no image is rejected in an image bucket', async () => {
      const metadata = {
        bucketName: 'product-images',
        objectName: 'products/tus.png',
        contentType: 'image/png',
      };
      const headers = { authorization: `Bearer ${staffToken}` };
      const bad = await problem(start(Buffer.from('<svg><script/></svg>'), '', { metadata, headers }));
      expect(bad).toEqual({ status: 415, body: expect.stringMatching(/SVG/) });
      await start(await sampleImage('png'), '', { metadata, headers });
      expect((await read('products/tus.png')).answer.status).toBe(200);
      expect(
        await readdir(join(storage.folder, 'work/resumable')).then((names) =>
          names.filter((file) => !file.endsWith('.done')),
        ),
      ).toEqual([]);
    });

    test('can be sent by any client with a signed URL', async () => {
      const { data } = await serviceClient.from(name).createSignedUploadUrl('signed.txt');
      const signed = { endpoint: `${endpoint()}/sign`, headers: { 'x-signature': data?.token ?? '' } };
      expect((await problem(start(Buffer.from('x'), 'other.txt', signed))).status).toBe(400);
      await start(Buffer.from('by signature'), 'signed.txt', signed);
      expect(await (await serviceClient.from(name).download('signed.txt')).data?.text()).toBe('by signature');
      expect((await problem(start(Buffer.from('x'), 'signed.txt', { ...signed, headers: {} }))).status).toBe(
        400,
      );
    });

    test('reports the server capabilities', async () => {
      const answer = await fetch(endpoint(), { method: 'OPTIONS' });
      expect(answer.status).toBe(204);
      for (const extension of [
        'creation',
        'creation-with-upload',
        'creation-defer-length',
        'termination',
        'expiration',
      ]) {
        expect(answer.headers.get('tus-extension')).toContain(extension);
      }
      expect(answer.headers.get('tus-version')).toBe('1.0.0');
    });
  });

  test('a large file from disk is streamed', async () => {
    const path = join(storage.folder, 'large.bin');
    await writeFile(path, Buffer.alloc(8_000_000, 7));
    await serviceClient.createBucket('streams', { public: false });
    const { error } = await serviceClient
      .from('streams')
      .upload('large.bin', createReadStream(path), { duplex: 'half' });
    expect(error).toBeNull();
    expect((await serviceClient.from('streams').info('large.bin')).data?.size).toBe(8_000_000);
  });
});
