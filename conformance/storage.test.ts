// The storage service, through the official client over HTTP.
import { createHash } from 'node:crypto';
import { testDatabases } from '@jani-juice/backend/testing';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { type OpenServices, openServices } from '../scripts/tests/open-services.ts';

describe.each(testDatabases())('storage on %s', (kind) => {
  let storage: OpenServices;
  let serviceClient: ReturnType<OpenServices['client']>;

  beforeAll(async () => {
    storage = await openServices(kind);
    serviceClient = storage.client(storage.keys.secret);
  });
  afterEach(() => {
    expect(storage.errors.splice(0)).toEqual([]);
  });
  afterAll(() => storage.close());

  let count = 0;
  const newName = () => {
    count += 1;
    return `bucket-${count}`;
  };
  async function newBucket(options: Parameters<typeof serviceClient.createBucket>[1] = { public: false }) {
    const name = newName();
    const { data, error } = await serviceClient.createBucket(name, options);
    expect({ data, error }).toEqual({ data: { name }, error: null });
    return serviceClient.from(name);
  }
  const refusal = (error: unknown) => {
    const { status, statusCode, message } = error as Record<string, unknown>;
    return { status, statusCode, message };
  };
  const text = (blob: Blob | null) => blob?.text();

  describe('a bucket', () => {
    test('is created, read, listed, changed, emptied and deleted', async () => {
      const name = newName();
      expect(
        await serviceClient.createBucket(name, {
          public: true,
          fileSizeLimit: '20MB',
          allowedMimeTypes: ['text/*'],
        }),
      ).toEqual({ data: { name }, error: null });
      const { data: bucket } = await serviceClient.getBucket(name);
      expect(bucket).toMatchObject({
        id: name,
        name,
        owner: '',
        public: true,
        file_size_limit: 20_000_000,
        allowed_mime_types: ['text/*'],
      });
      expect(bucket?.created_at).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
      expect((await serviceClient.listBuckets({ search: name })).data?.map(({ id }) => id)).toEqual([name]);

      expect(
        await serviceClient.updateBucket(name, {
          public: false,
          fileSizeLimit: null,
          allowedMimeTypes: null,
        }),
      ).toEqual({ data: { message: 'Successfully updated' }, error: null });
      expect((await serviceClient.getBucket(name)).data).toMatchObject({
        public: false,
        file_size_limit: null,
        allowed_mime_types: null,
      });

      await serviceClient.from(name).upload('a.txt', 'a', { contentType: 'text/plain' });
      const { error: full } = await serviceClient.deleteBucket(name);
      expect(refusal(full)).toEqual({
        status: 400,
        statusCode: '409',
        message: 'The bucket you tried to delete is not empty',
      });
      expect((await serviceClient.emptyBucket(name)).error).toBeNull();
      expect((await serviceClient.from(name).list()).data).toEqual([]);
      expect(await serviceClient.deleteBucket(name)).toEqual({
        data: { message: 'Successfully deleted' },
        error: null,
      });
      expect(refusal((await serviceClient.getBucket(name)).error)).toEqual({
        status: 400,
        statusCode: '404',
        message: 'Bucket not found',
      });
    });

    test('rejects names with characters that PostgreSQL cannot store', async () => {
      const bucket = await newBucket();
      for (const odd of ['a\0b', '\ud83c']) {
        expect(refusal((await bucket.createSignedUrls([odd], 60)).error)).toMatchObject({
          statusCode: '400',
        });
        expect(refusal((await bucket.remove([odd])).error)).toMatchObject({ statusCode: '400' });
        expect(refusal((await bucket.list('', { search: odd })).error)).toMatchObject({ statusCode: '400' });
      }
      expect(refusal((await bucket.createSignedUrl('a\0b', 60)).error)).toMatchObject({ statusCode: '400' });
    });

    test('cannot have a taken or invalid name, or invalid limits', async () => {
      const taken = newName();
      await serviceClient.createBucket(taken, { public: false });
      const refused = async (name: string, options: Parameters<typeof serviceClient.createBucket>[1]) =>
        refusal((await serviceClient.createBucket(name, options)).error);
      expect(await refused(taken, { public: false })).toMatchObject({
        statusCode: '409',
        message: 'The resource already exists',
      });
      for (const name of [' led', 'a/b', 'x'.repeat(101), 'ice--iceberg', 'ünïcode']) {
        expect(await refused(name, { public: false }), name).toMatchObject({
          statusCode: '400',
          message: 'Bucket name invalid',
        });
      }
      expect(await refused('', { public: false })).toMatchObject({ statusCode: '400' });
      expect(await refused(newName(), { public: false, fileSizeLimit: 'large' })).toMatchObject({
        statusCode: '400',
      });
      expect(await refused(newName(), { public: false, fileSizeLimit: '2TB' })).toMatchObject({
        statusCode: '413',
      });
      expect(await refused(newName(), { public: false, allowedMimeTypes: ['image'] })).toMatchObject({
        statusCode: '415',
        message: 'mime type image is not supported',
      });
    });
  });

  test('unsupported bucket types are rejected with an error that the client recognises', async () => {
    const serviceClient = storage.client(storage.keys.secret);
    for (const { data, error } of [
      await serviceClient.analytics.listBuckets(),
      await serviceClient.analytics.createBucket('figures'),
      await serviceClient.vectors.listBuckets(),
      await serviceClient.vectors.createBucket('meanings'),
    ]) {
      expect(data).toBeNull();
      expect(error).toMatchObject({
        status: 404,
        message: expect.stringMatching(/^Route \w+:\/.* not found$/),
      });
    }
    const { error } = await serviceClient.createBucket('figures', {
      public: false,
      type: 'ANALYTICS',
    } as never);
    expect(error?.message).toBe('body/type must be STANDARD: other bucket types are not supported');
  });

  test('compressed content and old versions are refused, because they would be served as something else', async () => {
    const bucket = await newBucket({ public: true });
    const name = (bucket as unknown as { bucketId: string }).bucketId;
    await bucket.upload('a.txt', 'plain');
    const call = async (
      method: string,
      path: string,
      body?: unknown,
      headers: Record<string, string> = {},
    ) => {
      const answer = await fetch(`${storage.url}${path}`, {
        method,
        headers: { authorization: `Bearer ${storage.keys.secret}`, ...headers },
        ...(body === undefined ? {} : { body: body instanceof FormData ? body : JSON.stringify(body) }),
      });
      return [answer.status, ((await answer.json()) as { message?: string }).message];
    };
    const form = new FormData();
    form.set('contentEncoding', 'gzip');
    form.set('', new Blob(['compressed']));
    const encoded = [400, 'contentEncoding is not supported'];
    expect(await call('POST', `/object/${name}/b.txt`, 'x', { 'content-encoding': 'gzip' })).toEqual(encoded);
    expect(await call('POST', `/object/${name}/b.txt`, form)).toEqual(encoded);
    const copy = { bucketId: name, sourceKey: 'a.txt', destinationKey: 'b.txt' };
    expect(
      await call('POST', '/object/copy', {
        ...copy,
        copyMetadata: false,
        metadata: { contentEncoding: 'gzip' },
      }),
    ).toEqual(encoded);

    const versionId = crypto.randomUUID();
    const version = [400, 'querystring/versionId is not supported'];
    expect(await call('GET', `/object/public/${name}/a.txt?versionId=${versionId}`)).toEqual(version);
    expect(await call('GET', `/object/info/${name}/a.txt?versionId=${versionId}`)).toEqual(version);
    const source = [400, 'body/sourceVersionId is not supported'];
    expect(await call('POST', '/object/copy', { ...copy, sourceVersionId: versionId })).toEqual(source);
    expect(await call('POST', '/object/move', { ...copy, sourceVersionId: versionId })).toEqual(source);
    expect(await call('POST', `/object/sign/${name}/a.txt`, { expiresIn: 60, versionId })).toEqual([
      400,
      'body/versionId is not supported',
    ]);
    expect(await call('DELETE', `/object/${name}`, { prefixes: [{ path: 'a.txt', versionId }] })).toEqual([
      400,
      'body/prefixes/0 must be string',
    ]);
    const versioning = [400, 'body/versioning_status is not supported'];
    expect(await call('POST', '/bucket', { name: newName(), versioning_status: 'ENABLED' })).toEqual(
      versioning,
    );
    expect(await call('PUT', `/bucket/${name}`, { versioning_status: 'ENABLED' })).toEqual(versioning);
    expect((await bucket.list()).data?.map((object) => object.name)).toEqual(['a.txt']);
  });

  describe('an object', () => {
    test('is uploaded raw or as a form with its type, cache time and metadata, and downloaded', async () => {
      const bucket = await newBucket();
      const metadata = { shelf: 'B', units: 3 };
      const { data, error } = await bucket.upload('docs/raw.txt', 'mango', {
        contentType: 'text/plain',
        cacheControl: '60',
        metadata,
      });
      expect(error).toBeNull();
      expect(data).toMatchObject({ path: 'docs/raw.txt', id: expect.stringMatching(/^[0-9a-f-]{36}$/) });
      await bucket.upload('docs/form.txt', new Blob(['papaya'], { type: 'text/csv' }), {
        cacheControl: '60',
        metadata,
      });
      expect(await text((await bucket.download('docs/raw.txt')).data)).toBe('mango');
      expect(await text((await bucket.download('docs/form.txt')).data)).toBe('papaya');
      for (const [name, type, content] of [
        ['raw.txt', 'text/plain', 'mango'],
        ['form.txt', 'text/csv', 'papaya'],
      ] as const) {
        const { data: info } = await bucket.info(`docs/${name}`);
        expect(info).toMatchObject({
          name: `docs/${name}`,
          size: content.length,
          contentType: type,
          cacheControl: 'max-age=60',
          etag: `"${createHash('md5').update(content).digest('hex')}"`,
          metadata,
        });
      }
      expect((await bucket.exists('docs/raw.txt')).data).toBe(true);
      expect((await bucket.exists('docs/none.txt')).data).toBe(false);
    });

    test('can be empty, can be streamed, and can have a name with every allowed character', async () => {
      const bucket = await newBucket();
      expect((await bucket.upload('empty.bin', new Uint8Array())).error).toBeNull();
      expect((await (await bucket.download('empty.bin')).data?.arrayBuffer())?.byteLength).toBe(0);
      const stream = new Blob(['streamed']).stream();
      expect((await bucket.upload('stream.txt', stream, { duplex: 'half' })).error).toBeNull();
      expect(await text((await bucket.download('stream.txt')).data)).toBe('streamed');
      const name = "Az09_!-.*'() &$@=;:+,.txt";
      expect((await bucket.upload(name, 'odd')).error).toBeNull();
      expect(await text((await bucket.download(name)).data)).toBe('odd');
      expect((await bucket.list()).data?.map((entry) => entry.name)).toContain(name);
    });

    test('is replaced only with upsert, and a replacement leaves no old file', async () => {
      const bucket = await newBucket();
      await bucket.upload('a.txt', 'first');
      expect(refusal((await bucket.upload('a.txt', 'second')).error)).toEqual({
        status: 400,
        statusCode: '409',
        message: 'The resource already exists',
      });
      expect(await text((await bucket.download('a.txt')).data)).toBe('first');
      const { rows: before } = await storage.database.query<{ id: string }>(
        'select id from storage.installations',
      );
      expect((await bucket.upload('a.txt', 'second', { upsert: true })).error).toBeNull();
      expect((await bucket.update('a.txt', 'third')).error).toBeNull();
      expect((await bucket.update('new.txt', 'made')).error).toBeNull();
      expect(await text((await bucket.download('a.txt')).data)).toBe('third');
      const stored = [];
      for await (const name of storage.files.olderThan(before[0]?.id ?? '', new Date(Date.now() + 1000))) {
        stored.push(name.split('/')[1]);
      }
      const { rows } = await storage.database.query<{ version: string }>(
        'select version from storage.objects',
      );
      expect(stored.sort()).toEqual(rows.map(({ version }) => version).sort());
    });

    test('has different errors for an unknown object and an unknown bucket', async () => {
      const bucket = await newBucket();
      const info = async (name: string) => refusal((await serviceClient.from(name).info('x.txt')).error);
      expect(await info('nowhere')).toEqual({ status: 400, statusCode: '404', message: 'Bucket not found' });
      const { error } = await bucket.info('x.txt');
      expect(refusal(error)).toEqual({ status: 400, statusCode: '404', message: 'Object not found' });
      expect(refusal((await serviceClient.from('nowhere').upload('x', 'y')).error)).toEqual({
        status: 400,
        statusCode: '404',
        message: 'Bucket not found',
      });
    });

    test('is moved and copied, within a bucket and to another', async () => {
      const [from, to] = [await newBucket(), await newBucket()];
      await from.upload('a.txt', 'content', { metadata: { colour: 'red' } });
      const target = (to as unknown as { bucketId: string }).bucketId;
      expect(await from.move('a.txt', 'folder/b.txt')).toEqual({
        data: { message: 'Successfully moved' },
        error: null,
      });
      expect((await from.exists('a.txt')).data).toBe(false);
      expect((await from.copy('folder/b.txt', 'c.txt')).data?.path).toMatch(/\/c\.txt$/);
      expect((await from.copy('c.txt', 'd.txt', { destinationBucket: target })).error).toBeNull();
      expect((await from.move('c.txt', 'e.txt', { destinationBucket: target })).error).toBeNull();
      await from.remove(['folder/b.txt']);
      expect(await text((await to.download('d.txt')).data)).toBe('content');
      expect(await text((await to.download('e.txt')).data)).toBe('content');
      expect((await to.info('d.txt')).data?.metadata).toEqual({ colour: 'red' });

      expect(refusal((await to.move('none', 'x')).error)).toMatchObject({
        statusCode: '404',
        message: 'Object not found',
      });
      expect(refusal((await to.copy('none', 'x')).error)).toMatchObject({ statusCode: '404' });
      for (const way of ['move', 'copy'] as const) {
        expect(refusal((await to[way]('d.txt', 'e.txt')).error), way).toMatchObject({
          statusCode: '409',
          message: 'The resource already exists',
        });
        expect(refusal((await to[way]('d.txt', '../e')).error), way).toMatchObject({
          statusCode: '400',
          message: 'Invalid key: ../e',
        });
      }
    });

    test('is moved and copied to another bucket only within its limits, and within a bucket always', async () => {
      const [from, small] = [await newBucket(), await newBucket({ public: false, fileSizeLimit: 5 })];
      const nameOf = (bucket: unknown) => (bucket as { bucketId: string }).bucketId;
      await from.upload('a.txt', 'content');
      for (const way of ['move', 'copy'] as const) {
        const answer = await from[way]('a.txt', 'a.txt', { destinationBucket: nameOf(small) });
        expect(refusal(answer.error), way).toMatchObject({ statusCode: '413' });
      }
      await serviceClient.updateBucket(nameOf(from), { public: false, fileSizeLimit: 5 });
      expect((await from.copy('a.txt', 'b.txt')).error).toBeNull();
      expect((await from.move('a.txt', 'c.txt')).error).toBeNull();
    });

    test('is copied with new metadata or over an existing object on request', async () => {
      const bucket = await newBucket();
      const name = (bucket as unknown as { bucketId: string }).bucketId;
      await bucket.upload('a.txt', 'content', { metadata: { of: 'a' }, contentType: 'text/plain' });
      await bucket.upload('b.txt', 'other', { metadata: { of: 'b' } });
      const answer = await fetch(`${storage.url}/object/copy`, {
        method: 'POST',
        headers: {
          authorization: `Bearer ${storage.keys.secret}`,
          'content-type': 'application/json',
          'x-upsert': 'true',
          'x-metadata': Buffer.from('{"of": "the copy"}').toString('base64'),
        },
        body: JSON.stringify({
          bucketId: name,
          sourceKey: 'a.txt',
          destinationKey: 'b.txt',
          copyMetadata: false,
          metadata: { cacheControl: 'max-age=77', mimetype: 'text/markdown' },
        }),
      });
      expect(answer.status).toBe(200);
      expect((await bucket.info('b.txt')).data).toMatchObject({
        metadata: { of: 'the copy' },
        cacheControl: 'max-age=77',
        contentType: 'text/markdown',
      });
      expect((await bucket.download('b.txt')).data?.type).toBe('text/markdown');
    });

    test('is described by info() and by HEAD without its content', async () => {
      const bucket = await newBucket();
      const name = (bucket as unknown as { bucketId: string }).bucketId;
      await bucket.upload('a.txt', 'content', { contentType: 'text/plain', cacheControl: '60' });
      const { data } = await bucket.info('a.txt');
      const head = async (path: string) => {
        const { status, headers } = await fetch(`${storage.url}${path}`, {
          method: 'HEAD',
          headers: { authorization: `Bearer ${storage.keys.secret}` },
        });
        return [
          status,
          ...['etag', 'content-length', 'content-type', 'cache-control'].map((one) => headers.get(one)),
        ];
      };
      const expected = [200, data?.etag, '7', 'text/plain', 'max-age=60'];
      expect(await head(`/object/${name}/a.txt`)).toEqual(expected);
      expect(await head(`/object/info/${name}/a.txt`)).toEqual(expected);
      expect((await head(`/object/info/${name}/none.txt`))[0]).toBe(400);
    });

    test('is removed; unknown objects are left out of the response', async () => {
      const bucket = await newBucket();
      await bucket.upload('a.txt', 'a');
      await bucket.upload('b.txt', 'b');
      const { data } = await bucket.remove(['a.txt', 'none.txt', 'b.txt']);
      expect(data?.map(({ name }) => name).sort()).toEqual(['a.txt', 'b.txt']);
      expect(data?.[0]).toMatchObject({ version: expect.any(String), metadata: { size: 1 } });
      expect((await bucket.exists('a.txt')).data).toBe(false);
      expect(refusal((await bucket.remove([])).error)).toMatchObject({
        statusCode: '400',
        message: 'body/prefixes must NOT have fewer than 1 items',
      });
    });
  });

  describe('a listing', () => {
    test('shows one folder with its subfolders as names, sorted, paged and by prefix', async () => {
      const bucket = await newBucket();
      for (const name of [
        'b.txt',
        'a.txt',
        'Apple.txt',
        'deep/x/1.txt',
        'deep/2.txt',
        'a_b/1.txt',
        'aXb/1.txt',
      ]) {
        await bucket.upload(name, name);
      }
      const names = async (path?: string, options?: Parameters<typeof bucket.list>[1]) =>
        (await bucket.list(path, options)).data?.map(({ name }) => name);
      expect(await names()).toEqual(['a.txt', 'a_b', 'Apple.txt', 'aXb', 'b.txt', 'deep']);
      expect(await names('deep')).toEqual(['2.txt', 'x']);
      expect(await names('a_b')).toEqual(['1.txt']);
      expect(await names('', { search: 'AP' })).toEqual(['Apple.txt']);
      expect(await names('', { limit: 2, offset: 1 })).toEqual(['a_b', 'Apple.txt']);
      const { error } = await bucket.list('', { offset: Number.MAX_SAFE_INTEGER });
      expect(error?.message).toBe('body/offset must be <= 2147483647');
      expect(await names('', { sortBy: { column: 'name', order: 'desc' } })).toEqual(
        ['a.txt', 'a_b', 'Apple.txt', 'aXb', 'b.txt', 'deep'].reverse(),
      );
      expect(await names('', { sortBy: { column: 'created_at', order: 'asc' } })).toEqual([
        'a_b',
        'aXb',
        'deep',
        'b.txt',
        'a.txt',
        'Apple.txt',
      ]);
      const { data } = await bucket.list();
      expect(data?.find(({ name }) => name === 'deep')).toEqual({
        name: 'deep',
        id: null,
        updated_at: null,
        created_at: null,
        last_accessed_at: null,
        metadata: null,
      });
      expect(data?.find(({ name }) => name === 'b.txt')?.metadata).toMatchObject({
        size: 5,
        mimetype: 'text/plain;charset=UTF-8',
        cacheControl: 'max-age=3600',
        contentLength: 5,
        httpStatusCode: 200,
      });
      expect((await serviceClient.from('nowhere').list()).data).toEqual([]);
    });

    test('of version 2 is paged by cursor, with folders or flat, in any order', async () => {
      const bucket = await newBucket();
      const names = ['a/1.txt', 'a/2.txt', 'b.txt', 'c/d/3.txt', 'e.txt'];
      for (const name of names) await bucket.upload(name, name);
      const pages = async (options: Parameters<typeof bucket.listV2>[0]) => {
        const seen: string[][] = [];
        let cursor: string | undefined;
        do {
          const { data, error } = await bucket.listV2({
            limit: 2,
            ...options,
            ...(cursor ? { cursor } : {}),
          });
          expect(error).toBeNull();
          seen.push([...(data?.folders ?? []), ...(data?.objects ?? [])].map(({ name }) => name));
          cursor = data?.nextCursor;
          expect(data?.hasNext).toBe(cursor !== undefined);
        } while (cursor);
        return seen;
      };
      expect(await pages({})).toEqual([['a/1.txt', 'a/2.txt'], ['b.txt', 'c/d/3.txt'], ['e.txt']]);
      expect(await pages({ with_delimiter: true })).toEqual([
        ['a/', 'b.txt'],
        ['c/', 'e.txt'],
      ]);
      expect(await pages({ prefix: 'a/', with_delimiter: true })).toEqual([['a/1.txt', 'a/2.txt']]);
      for (const column of ['created_at', 'updated_at'] as const) {
        const down = await pages({ sortBy: { column, order: 'desc' } });
        expect(down.flat()).toEqual([...names].reverse());
        expect((await pages({ with_delimiter: true, sortBy: { column, order: 'asc' } })).flat()).toHaveLength(
          4,
        );
      }
      const { data } = await bucket.listV2({ with_delimiter: true, limit: 1 });
      expect(data?.folders).toEqual([
        {
          key: 'a',
          name: 'a/',
          id: null,
          updated_at: null,
          created_at: null,
          last_accessed_at: null,
          metadata: null,
        },
      ]);
    });
  });

  describe('downloading', () => {
    test('supports ranges, conditional requests and download names', async () => {
      const bucket = await newBucket({ public: true });
      await bucket.upload('digits.txt', '0123456789', { contentType: 'text/plain', cacheControl: '60' });
      const { publicUrl } = bucket.getPublicUrl('digits.txt').data;
      const get = (headers: Record<string, string> = {}, query = '', method = 'GET') =>
        fetch(`${publicUrl}${query}`, { headers, method });

      const whole = await get();
      expect(await whole.text()).toBe('0123456789');
      const headers = Object.fromEntries(whole.headers);
      expect(headers).toMatchObject({
        'content-type': 'text/plain',
        'content-length': '10',
        'cache-control': 'max-age=60',
        'accept-ranges': 'bytes',
        'x-robots-tag': 'none',
        'x-content-type-options': 'nosniff',
        etag: `"${createHash('md5').update('0123456789').digest('hex')}"`,
      });
      const head = await get({}, '', 'HEAD');
      expect(head.headers.get('content-length')).toBe('10');
      expect(head.status).toBe(200);

      for (const [range, content, part] of [
        ['bytes=2-4', '234', 'bytes 2-4/10'],
        ['bytes=7-', '789', 'bytes 7-9/10'],
        ['bytes=-2', '89', 'bytes 8-9/10'],
        ['bytes=8-99', '89', 'bytes 8-9/10'],
      ] as const) {
        const answer = await get({ range });
        expect([answer.status, await answer.text(), answer.headers.get('content-range')], range).toEqual([
          206,
          content,
          part,
        ]);
      }
      for (const range of ['bytes=1-2,4-5', 'bytes=4-2', 'lines=1-2', 'bytes=-']) {
        expect((await get({ range })).status, range).toBe(200);
      }
      const beyond = await get({ range: 'bytes=10-' });
      expect(beyond.status).toBe(416);
      expect(beyond.headers.get('content-range')).toBe('bytes */10');
      expect(await beyond.json()).toEqual({
        statusCode: '416',
        error: 'invalid_range',
        message: 'invalid range provided',
        code: 'InvalidRange',
      });
      expect((await get({ range: 'bytes=2-4', 'if-range': '"another"' })).status).toBe(200);

      expect((await get({ 'if-none-match': headers.etag ?? '' })).status).toBe(304);
      expect((await get({ 'if-none-match': '"another"' })).status).toBe(200);
      expect((await get({ 'if-modified-since': headers['last-modified'] ?? '' })).status).toBe(304);
      expect((await get({ 'if-modified-since': 'Mon, 01 Jan 2001 00:00:00 GMT' })).status).toBe(200);

      const disposition = async (query: string) => (await get({}, query)).headers.get('content-disposition');
      expect(await disposition('')).toBeNull();
      expect(await disposition('?download')).toBe('attachment');
      expect(await disposition('?download=')).toBe('attachment');
      expect(await disposition(`?download=${encodeURIComponent(`Menü "1".txt`)}`)).toBe(
        `attachment; filename=Men%C3%BC%20%221%22.txt; filename*=UTF-8''Men%C3%BC%20%221%22.txt`,
      );
    });

    test('a private bucket has no public URL', async () => {
      const bucket = await newBucket();
      await bucket.upload('a.txt', 'a');
      for (const path of ['object/public', 'object/info/public', 'render/image/public', 'object']) {
        const name = (bucket as unknown as { bucketId: string }).bucketId;
        const answer = await fetch(`${storage.url}/${path}/${name}/a.txt`);
        expect([answer.status, await answer.json()], path).toEqual([
          400,
          { statusCode: '404', error: 'Bucket not found', message: 'Bucket not found', code: 'NoSuchBucket' },
        ]);
      }
    });

    test('HTML and SVG are sandboxed', async () => {
      const bucket = await newBucket({ public: true });
      const policy = async (type: string) => {
        await bucket.upload('x', '<script>alert(1)</script>', { contentType: type, upsert: true });
        const answer = await fetch(bucket.getPublicUrl('x').data.publicUrl);
        expect(answer.headers.get('x-content-type-options')).toBe('nosniff');
        return answer.headers.get('content-security-policy');
      };
      for (const type of [
        'text/html',
        'image/svg+xml',
        'application/xhtml+xml',
        'text/xml',
        'text/javascript',
      ]) {
        expect(await policy(type), type).toContain('sandbox');
      }
      for (const type of ['image/png', 'video/mp4', 'application/pdf', 'text/plain']) {
        expect(await policy(type), type).toBeNull();
      }
    });
  });

  describe('a signed URL', () => {
    test('gives any client one object for a limited time', async () => {
      const bucket = await newBucket();
      await bucket.upload('my file.txt', 'signed');
      await bucket.upload('other.txt', 'other');
      const { data, error } = await bucket.createSignedUrl('my file.txt', 60, { download: 'its name.txt' });
      expect(error).toBeNull();
      const url = data?.signedUrl ?? '';
      const answer = await fetch(url);
      expect(await answer.text()).toBe('signed');
      expect(answer.headers.get('content-disposition')).toContain('its%20name.txt');
      const expires = Date.parse(answer.headers.get('expires') ?? '');
      expect(Math.abs(expires - Date.now() - 60_000)).toBeLessThan(5000);

      const problem = async (address: string) => {
        const refused = await fetch(address);
        const { code, statusCode, message } = (await refused.json()) as Record<string, string>;
        return { status: refused.status, code, statusCode, message };
      };
      expect(await problem(url.replace('my%20file.txt', 'other.txt'))).toEqual({
        status: 400,
        code: 'InvalidSignature',
        statusCode: '400',
        message: 'The URL/path does not match',
      });
      expect(await problem(url.replace(/token=[^&]+/, 'token=forged'))).toMatchObject({
        status: 400,
        code: 'InvalidJWT',
      });
      expect(await problem(url.replace(/token=[^&]+&?/, ''))).toMatchObject({
        code: 'InvalidRequest',
        message: `querystring must have required property 'token'`,
      });
      expect(refusal((await bucket.createSignedUrl('none.txt', 60)).error)).toEqual({
        status: 400,
        statusCode: '404',
        message: 'Object not found',
      });
      expect(refusal((await bucket.createSignedUrl('other.txt', 0)).error)).toMatchObject({
        statusCode: '400',
      });
    });

    test('is created for many objects at once, in their order', async () => {
      const bucket = await newBucket();
      await bucket.upload('a.txt', 'a');
      const { data } = await bucket.createSignedUrls(['none.txt', 'a.txt'], 60);
      expect(data?.map(({ path, error, signedUrl }) => [path, error, signedUrl !== null])).toEqual([
        ['none.txt', 'Either the object does not exist or you do not have access to it', false],
        ['a.txt', null, true],
      ]);
      expect(await (await fetch(data?.[1]?.signedUrl ?? '')).text()).toBe('a');
    });

    test('accepts an upload from any client, once unless it allows upsert', async () => {
      const bucket = await newBucket();
      const stranger = storage.client().from((bucket as unknown as { bucketId: string }).bucketId);
      const { data, error } = await bucket.createSignedUploadUrl('in/a.txt');
      expect(error).toBeNull();
      const token = data?.token ?? '';
      const { data: done, error: refused } = await stranger.uploadToSignedUrl('in/a.txt', token, 'first');
      expect(refused).toBeNull();
      expect(done?.path).toBe('in/a.txt');
      expect(refusal((await stranger.uploadToSignedUrl('in/a.txt', token, 'again')).error)).toMatchObject({
        statusCode: '409',
      });
      expect(refusal((await stranger.uploadToSignedUrl('in/b.txt', token, 'x')).error)).toMatchObject({
        statusCode: '400',
        message: 'The URL/path does not match',
      });
      expect(refusal((await bucket.createSignedUploadUrl('in/a.txt')).error)).toMatchObject({
        statusCode: '409',
      });
      const again = await bucket.createSignedUploadUrl('in/a.txt', { upsert: true });
      expect(
        (await stranger.uploadToSignedUrl('in/a.txt', again.data?.token ?? '', new Blob(['second']))).error,
      ).toBeNull();
      expect(await text((await bucket.download('in/a.txt')).data)).toBe('second');
      // A URL for downloading cannot upload.
      const download = await bucket.createSignedUrl('in/a.txt', 60);
      const wrong = new URL(download.data?.signedUrl ?? '').searchParams.get('token') ?? '';
      expect((await stranger.uploadToSignedUrl('in/a.txt', wrong, 'x')).error).not.toBeNull();
      // Nor can a URL for uploading download.
      const url = download.data?.signedUrl.replace(/token=[^&]+/, `token=${again.data?.token}`) ?? '';
      expect(await (await fetch(url)).json()).toMatchObject({ code: 'InvalidJWT' });
    });
  });

  describe('access', () => {
    test("is refused without a valid token, with the hosted service's errors", async () => {
      const refused = async (token?: string) => refusal((await storage.client(token).listBuckets()).error);
      const denied = (message: string) => ({ status: 400, statusCode: '403', message });
      expect(await refused()).toEqual(denied('Invalid Compact JWS'));
      const empty = await fetch(`${storage.url}/bucket`, { headers: { authorization: '' } });
      expect([empty.status, await empty.json()]).toEqual([
        400,
        {
          statusCode: '403',
          error: 'Unauthorized',
          message: 'Invalid Compact JWS',
          code: 'AccessDenied',
        },
      ]);
      expect(await refused('nonsense')).toEqual(denied('Invalid Compact JWS'));
      expect(await refused('a.b.c')).toEqual(denied('JWS Protected Header is invalid'));
      const old = await storage.token({ sub: crypto.randomUUID(), exp: 1_700_000_000, iat: 1_600_000_000 });
      expect(await refused(old)).toEqual(denied('"exp" claim timestamp check failed'));
      expect(await refused(`${old.slice(0, -8)}AAAAAAAA`)).toEqual(denied('signature verification failed'));
    });

    test('without policies requires the secret key', async () => {
      const bucket = await newBucket();
      await bucket.upload('secret.txt', 'secret');
      const name = (bucket as unknown as { bucketId: string }).bucketId;
      const people = [
        storage.keys.publishable,
        (await storage.person('customer')).token,
        (await storage.person('staff')).token,
      ];
      for (const token of people) {
        const client = storage.client(token);
        expect((await client.listBuckets()).data).toEqual([]);
        expect(refusal((await client.getBucket(name)).error)).toMatchObject({ statusCode: '404' });
        expect(refusal((await client.createBucket(newName(), { public: true })).error)).toEqual({
          status: 400,
          statusCode: '403',
          message: 'new row violates row-level security policy',
        });
        expect(refusal((await client.deleteBucket(name)).error)).toMatchObject({ statusCode: '404' });
        expect(refusal((await client.emptyBucket(name)).error)).toMatchObject({ statusCode: '404' });
        const files = client.from(name);
        expect((await files.list()).data).toEqual([]);
        expect((await files.listV2()).data).toMatchObject({ objects: [], folders: [] });
        expect(refusal((await files.upload('x.txt', 'x')).error)).toMatchObject({ statusCode: '403' });
        expect(refusal((await files.info('secret.txt')).error)).toMatchObject({ statusCode: '404' });
        expect(refusal((await files.createSignedUrl('secret.txt', 60)).error)).toMatchObject({
          statusCode: '404',
        });
        expect(refusal((await files.createSignedUploadUrl('x.txt')).error)).toMatchObject({
          statusCode: '403',
        });
        expect(refusal((await files.move('secret.txt', 'x.txt')).error)).toMatchObject({ statusCode: '404' });
        expect(refusal((await files.copy('secret.txt', 'x.txt')).error)).toMatchObject({ statusCode: '404' });
        expect((await files.remove(['secret.txt'])).data).toEqual([]);
        expect((await files.download('secret.txt')).error).not.toBeNull();
      }
      expect(await text((await bucket.download('secret.txt')).data)).toBe('secret');
    });

    test('by SQL cannot delete rows without their files', async () => {
      await expect(storage.database.query('delete from storage.objects')).rejects.toMatchObject({
        code: '42501',
      });
      await expect(storage.database.query('delete from storage.buckets')).rejects.toMatchObject({
        code: '42501',
      });
    });

    test('by a policy can depend on folder, owner and operation', async () => {
      const bucket = await newBucket();
      const name = (bucket as unknown as { bucketId: string }).bucketId;
      await storage.database.execute(`
        create policy "own folder in ${name}" on storage.objects for all to authenticated
          using (bucket_id = '${name}' and owner_id = (select auth.uid())::text)
          with check (
            bucket_id = '${name}' and (storage.foldername(name))[1] = (select auth.uid())::text
            and storage.extension(name) = 'txt' and not storage.allow_only_operation('object.copy')
          );
      `);
      const [asha, otieno] = [await storage.person('customer'), await storage.person('customer')];
      const [hers, his] = [storage.client(asha.token).from(name), storage.client(otieno.token).from(name)];
      expect((await hers.upload(`${asha.id}/a.txt`, 'hers')).error).toBeNull();
      expect((await hers.upload(`${asha.id}/a.txt`, 'hers', { upsert: true })).error).toBeNull();
      for (const path of [`${asha.id}/a.exe`, `${otieno.id}/a.txt`, 'a.txt']) {
        expect(refusal((await hers.upload(path, 'x')).error), path).toMatchObject({ statusCode: '403' });
      }
      expect(refusal((await hers.copy(`${asha.id}/a.txt`, `${asha.id}/b.txt`)).error)).toMatchObject({
        statusCode: '403',
      });
      expect((await his.list(asha.id)).data).toEqual([]);
      expect(refusal((await his.upload(`${asha.id}/a.txt`, 'x', { upsert: true })).error)).toMatchObject({
        statusCode: '403',
      });
      const { data } = await hers.remove([`${asha.id}/a.txt`]);
      expect(data).toMatchObject([{ owner: asha.id, owner_id: asha.id }]);
    });
  });
});
