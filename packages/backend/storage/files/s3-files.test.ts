// The S3 file store, against a small server with the checks of real ones.
import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { FileMissing, type FileStore } from './file-store.ts';
import { createS3Files } from './s3-files.ts';

const installation = crypto.randomUUID();
const objects = new Map<string, { body: Buffer; written: string }>();
let failures: number[] = [];
let stalls: 'before the answer' | 'within the content' | null = null;
let server: Server;
let files: FileStore;
let folder: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'jani-s3-'));
  server = createServer(async (request, response) => {
    const refuse = (status: number, code: string) =>
      response.writeHead(status).end(`<Error><Code>${code}</Code></Error>`);
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    const failure = failures.shift();
    if (failure) return refuse(failure, 'InternalError');
    const { authorization = '', 'x-amz-copy-source': source } = request.headers;
    if (
      !/^AWS4-HMAC-SHA256 Credential=key\/\d{8}\/somewhere\/s3\/aws4_request, .*Signature=/.test(
        authorization,
      )
    )
      return refuse(403, 'SignatureDoesNotMatch');
    const url = new URL(request.url ?? '', 'http://store');
    const key = url.pathname.replace('/uploads/', '');
    const object = objects.get(key);
    const written = new Date().toISOString();
    if (request.method === 'PUT' && source) {
      const from = objects.get(String(source).replace('/uploads/', ''));
      if (!from) return refuse(404, 'NoSuchKey');
      objects.set(key, { ...from, written });
      return response.end('<CopyObjectResult/>');
    }
    if (request.method === 'PUT') {
      if (request.headers['content-length'] === undefined) return refuse(411, 'MissingContentLength');
      objects.set(key, { body: Buffer.concat(chunks), written });
      return response.end();
    }
    if (request.method === 'DELETE') {
      objects.delete(key);
      return response.writeHead(204).end();
    }
    if (url.searchParams.get('list-type') === '2') {
      const prefix = url.searchParams.get('prefix') ?? '';
      const after = url.searchParams.get('continuation-token') ?? '';
      const keys = [...objects.keys()].filter((name) => name.startsWith(prefix) && name > after).sort();
      const page = keys.slice(0, 2);
      const entries = page.map(
        (name) =>
          `<Contents><Key>${name}</Key><LastModified>${objects.get(name)?.written}</LastModified></Contents>`,
      );
      const next = keys.length > 2 ? `<NextContinuationToken>${page.at(-1)}</NextContinuationToken>` : '';
      return response.end(`<ListBucketResult>${entries.join('')}${next}</ListBucketResult>`);
    }
    if (!object) return refuse(404, 'NoSuchKey');
    if (stalls === 'before the answer') return;
    if (stalls) return response.write(object.body.subarray(0, 1));
    const [, first, last] = /bytes=(\d+)-(\d+)/.exec(request.headers.range ?? '') ?? [];
    if (first === undefined) return response.end(object.body);
    return response.writeHead(206).end(object.body.subarray(Number(first), Number(last) + 1));
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  const address = server.address();
  const settings = {
    endpoint: `http://127.0.0.1:${address && typeof address === 'object' ? address.port : 0}/`,
    bucket: 'uploads',
    accessKey: 'key',
    secretKey: 'secret',
    region: 'somewhere',
  };
  files = createS3Files(settings, folder);
});
beforeEach(() => {
  objects.clear();
  failures = [];
  stalls = null;
});
afterAll(async () => {
  server.closeAllConnections();
  await new Promise((done) => server.close(done));
  await rm(folder, { recursive: true });
});

const newFile = async (content: string | Buffer): Promise<string> => {
  const path = join(folder, crypto.randomUUID());
  await writeFile(path, content);
  return path;
};
const newName = () => `${installation}/${crypto.randomUUID()}`;

test.each(['before the answer', 'within the content'] as const)(
  'a signal ends the reading of a store that stalls %s',
  async (moment) => {
    const name = newName();
    await files.put(name, await newFile('0123456789'));
    stalls = moment;
    const reading = files.read(name, undefined, AbortSignal.timeout(200)).then(text);
    await expect(reading).rejects.toThrow('timeout');
  },
);

test('stores a file, reads it whole and in part, copies and removes it', async () => {
  const [name, copy] = [newName(), newName()];
  const path = await newFile('0123456789');
  await files.put(name, path);
  await expect(stat(path)).rejects.toThrow('ENOENT');
  expect(await text(await files.read(name))).toBe('0123456789');
  expect(await text(await files.read(name, { first: 2, last: 4 }))).toBe('234');
  await files.copy(name, copy);
  await files.remove([name, newName()]);
  await expect(files.read(name)).rejects.toBeInstanceOf(FileMissing);
  await expect(files.copy(name, newName())).rejects.toBeInstanceOf(FileMissing);
  expect(await text(await files.read(copy))).toBe('0123456789');
});

test('stores an empty file and one of several megabytes', async () => {
  for (const content of [Buffer.alloc(0), Buffer.alloc(3_000_000, 'jani')]) {
    const name = newName();
    await files.put(name, await newFile(content));
    expect(objects.get(`objects/${name}`)?.body.equals(content)).toBe(true);
  }
});

test('retries a temporary failure; a permanent one is an error, and the work file remains', async () => {
  failures = [503, 500];
  const name = newName();
  await files.put(name, await newFile('twice'));
  expect(await text(await files.read(name))).toBe('twice');
  failures = [500, 500, 500];
  const path = await newFile('content');
  await expect(files.put(newName(), path)).rejects.toThrow('the file store answered 500');
  expect(await readFile(path, 'utf8')).toBe('content');
  failures = [403];
  await expect(files.read(name)).rejects.toThrow('refused to give a file: 403');
});

test('lists files older than a moment, over several pages, without those of another database', async () => {
  const names = [newName(), newName(), newName(), newName(), newName()].sort();
  for (const name of names) await files.put(name, await newFile('x'));
  await files.put(`${crypto.randomUUID()}/${crypto.randomUUID()}`, await newFile('x'));
  const listed = async (moment: Date) => {
    const found: string[] = [];
    for await (const name of files.olderThan(installation, moment)) found.push(name);
    return found.sort();
  };
  expect(await listed(new Date(Date.now() + 60_000))).toEqual(names);
  expect(await listed(new Date(Date.now() - 60_000))).toEqual([]);
});
