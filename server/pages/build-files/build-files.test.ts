// Processes with different builds, which share their files as in a rolling update.
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { brotliCompressSync } from 'node:zlib';
import { afterEach, expect, onTestFinished, test, vi } from 'vitest';
import { packBuild, unpackBuild } from './archive.ts';
import { createBuildFiles, respondWithFile } from './build-files.ts';
import type { BuildStore } from './build-store.ts';

const day = 24 * 60 * 60 * 1000;
const script = 'export const juice = "mango";\n'.repeat(40);

async function pack(files: Record<string, string>) {
  const folder = await mkdtemp(join(tmpdir(), 'jani-build-files-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  for (const name of ['assets', 'fonts', 'art']) await mkdir(join(folder, name));
  for (const [path, text] of Object.entries(files)) {
    await writeFile(join(folder, path), text);
    await writeFile(join(folder, `${path}.gz`), 'compressed otherwise');
    if (text.length > 512) await writeFile(join(folder, `${path}.br`), brotliCompressSync(text));
  }
  return packBuild(folder);
}

function memoryStore() {
  const builds = new Map<string, { content: Buffer; seenAt: number }>();
  const calls = { list: 0, read: 0 };
  const store: BuildStore = {
    async list() {
      calls.list += 1;
      return [...builds].map(([id, { seenAt }]) => ({ id, seenAt }));
    },
    async read(id) {
      calls.read += 1;
      return builds.get(id)?.content ?? Buffer.alloc(0);
    },
    async write(id, content) {
      builds.set(id, { content, seenAt: Date.now() });
    },
    async remove(ids) {
      for (const id of ids) builds.delete(id);
    },
  };
  return { store, builds, calls };
}

afterEach(() => vi.useRealTimers());

test('a process has the files of builds before and after its own', async () => {
  const { store } = memoryStore();
  const [former, newer] = [
    await pack({ 'assets/old-1.js': script }),
    await pack({ 'assets/new-2.js': 'new' }),
  ];
  const [atFormer, atNewer] = [createBuildFiles(store, former), createBuildFiles(store, newer)];
  await atFormer.renew();
  await atNewer.renew();
  const [old, fresh] = [await atNewer.find('/assets/old-1.js'), await atFormer.find('/assets/new-2.js')];
  if (!old || !fresh) throw new Error('not found');
  expect(await (await respondWithFile('/assets/new-2.js', fresh, true)).text()).toBe('new');
  const plain = await respondWithFile('/assets/old-1.js', old, false);
  expect(await plain.text()).toBe(script);
  expect(Object.fromEntries(plain.headers)).toEqual({
    'cache-control': 'public, max-age=31536000, immutable',
    'content-type': 'text/javascript',
    vary: 'accept-encoding',
  });
  const compressed = await respondWithFile('/assets/old-1.js', old, true);
  expect(compressed.headers.get('content-encoding')).toBe('br');
  expect(Buffer.from(await compressed.arrayBuffer())).toEqual(old.body);
});

test('packs scripts, style sheets and fonts once each, and nothing else', async () => {
  const build = await pack({
    'assets/a.js': script,
    'fonts/figtree-1.woff2': 'font',
    'art/mango.svg': script,
  });
  expect([...unpackBuild(build).keys()]).toEqual(['/assets/a.js', '/fonts/figtree-1.woff2']);
  const damaged = Buffer.from(build.content);
  damaged[damaged.length - 1] = 0;
  expect(() => unpackBuild({ id: build.id, content: damaged })).toThrow(/damaged/);
});

test('unknown files cost one look into the store a second, which is never older than the request', async () => {
  vi.useFakeTimers();
  const { store, calls } = memoryStore();
  const own = createBuildFiles(store, await pack({ 'assets/a.js': 'a' }));
  const unknown = async (count: number) =>
    Promise.all(Array.from({ length: count }, (_, index) => own.find(`/assets/none-${index}.js`)));
  expect(await unknown(100)).toEqual(Array(100).fill(null));
  expect(calls.list).toBe(1);
  // Another process stores its files now: they are found, although the store was read a moment ago.
  const newer = await pack({ 'assets/new-2.js': 'new' });
  const found = own.find('/assets/new-2.js');
  const others = unknown(1000);
  await store.write(newer.id, newer.content);
  await vi.advanceTimersByTimeAsync(1000);
  expect(await found).not.toBeNull();
  await others;
  expect(calls).toEqual({ list: 2, read: 1 });
  // A known file costs nothing.
  await own.find('/assets/new-2.js');
  expect(calls.list).toBe(2);
});

test('serves only names of files', async () => {
  const own = createBuildFiles(memoryStore().store, await pack({}));
  expect(own.serves('/assets/product-page-BnkMaZpU.js')).toBe(true);
  expect(own.serves('/fonts/figtree-1.woff2')).toBe(true);
  for (const path of ['/assets/', '/assets/a/b.js', '/assets/%2e%2e/keys.json', '/shop', '/assets', '/sw.js'])
    expect(own.serves(path)).toBe(false);
});

test('deletes a build a week after a process has last run it, and never its own', async () => {
  vi.useFakeTimers();
  const { store, builds } = memoryStore();
  const [first, second] = [await pack({ 'assets/1.js': '1' }), await pack({ 'assets/2.js': '2' })];
  const [atFirst, atSecond] = [createBuildFiles(store, first), createBuildFiles(store, second)];
  await atFirst.renew();
  // It runs for a month, and says so.
  for (let days = 0; days < 30; days += 1) {
    vi.advanceTimersByTime(day);
    await atFirst.renew();
  }
  await atSecond.renew();
  vi.advanceTimersByTime(7 * day);
  await atSecond.renew();
  expect(builds.size).toBe(2);
  vi.advanceTimersByTime(day);
  await atSecond.renew();
  expect([...builds.keys()]).toEqual([second.id]);
});

test('does not answer that a file is missing when the store does not answer', async () => {
  const { store } = memoryStore();
  const own = createBuildFiles({ ...store, list: () => Promise.reject(new Error('down')) }, await pack({}), {
    pauseMs: 0,
  });
  await expect(own.find('/assets/a.js')).rejects.toThrow('down');
  await expect(own.find('/assets/a.js'), 'it looks again').rejects.toThrow('down');
});
