// Resumable uploads through two processes that share a database and a folder, without sticky sessions.
import { mkdtemp, readdir, readFile, rm, utimes, writeFile } from 'node:fs/promises';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createAdaptorServer } from '@hono/node-server';
import { Upload } from 'tus-js-client';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Database } from '../database/database.ts';
import { platform, testDatabases, throwawayDatabase } from '../testing/throwaway.ts';
import { createDiskFiles } from './files/disk-files.ts';
import { createStorageService } from './service.ts';
import { createUploadLocks } from './uploads/upload-locks.ts';

const caller = { claims: { role: 'service_role' }, address: null };
const content = Buffer.alloc(300_000, 'jani');

describe.runIf(testDatabases().includes('postgresql'))('two processes', () => {
  let database: Database;
  let folder: string;
  let server: Server;
  let url: string;
  const services: Awaited<ReturnType<typeof createStorageService>>[] = [];
  const seen: string[] = [];

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'jani-uploads-'));
    database = await throwawayDatabase('postgresql', [platform]);
    await database.query(`insert into storage.buckets (id, name, public) values ('box', 'box', true)`);
    for (let count = 0; count < 2; count += 1) {
      services.push(
        await createStorageService({ database, files: createDiskFiles(folder), signingSecret: 'secret' }),
      );
    }
    // Consecutive requests reach different processes.
    server = createAdaptorServer({
      fetch: (request) => {
        const turn = seen.push(request.method) % services.length;
        return services[turn]?.fetch(request, caller) ?? new Response(null, { status: 500 });
      },
      overrideGlobalObjects: false,
    }) as Server;
    await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/storage/v1`;
  });
  afterAll(async () => {
    server.closeAllConnections();
    await new Promise((done) => server.close(done));
    for (const service of services) await service.close?.();
    await database.close();
    await rm(folder, { recursive: true });
  });

  const upload = (name: string, onChunk: (upload: Upload, bytes: number) => void = () => {}) =>
    new Promise<Upload>((done, fail) => {
      const sent = new Upload(content, {
        endpoint: `${url}/upload/resumable`,
        chunkSize: 100_000,
        retryDelays: [0, 100, 500],
        metadata: { bucketName: 'box', objectName: name, contentType: 'text/plain' },
        onChunkComplete: (_size, bytes) => onChunk(sent, bytes),
        onSuccess: () => done(sent),
        onError: fail,
      });
      sent.start();
    });
  const stored = async (name: string) =>
    Buffer.from(await (await fetch(`${url}/object/public/box/${name}`)).arrayBuffer());

  test('store an upload whose parts reach both', async () => {
    seen.length = 0;
    await upload('parts.txt');
    expect(seen).toEqual(['POST', 'PATCH', 'PATCH', 'PATCH']);
    expect((await stored('parts.txt')).equals(content)).toBe(true);
    expect((await readdir(folder, { recursive: true })).filter((name) => name.endsWith('.lock'))).toEqual([]);
  });

  test('continue an upload that was interrupted', async () => {
    let isInterrupted = false;
    await upload('interrupted.txt', (sent) => {
      if (isInterrupted) return;
      isInterrupted = true;
      void sent.abort().then(() => sent.start());
    });
    expect(seen).toContain('HEAD');
    expect((await stored('interrupted.txt')).equals(content)).toBe(true);
  });

  test('finish an upload once when both receive the last part', async () => {
    const begun = await fetch(`${url}/upload/resumable`, {
      method: 'POST',
      headers: {
        'tus-resumable': '1.0.0',
        'upload-length': '4',
        'upload-metadata': `bucketName ${btoa('box')},objectName ${btoa('both.txt')},contentType ${btoa('text/plain')}`,
      },
    });
    const location = new URL(begun.headers.get('location') ?? '');
    const path = new URL(location.pathname, url).href;
    const patch = fetch(path, {
      method: 'PATCH',
      headers: {
        'tus-resumable': '1.0.0',
        'upload-offset': '0',
        'content-type': 'application/offset+octet-stream',
      },
      body: 'jani',
    });
    const heads = [0, 1, 2, 3].map(() =>
      fetch(path, { method: 'HEAD', headers: { 'tus-resumable': '1.0.0' } }),
    );
    expect((await patch).status).toBe(204);
    for (const head of await Promise.all(heads)) expect(head.status).toBe(200);
    expect((await stored('both.txt')).toString()).toBe('jani');
  });

  test('wait for each other, ask the holder to stop, and take over the lock of a killed process', async () => {
    const locks = join(folder, 'locks-');
    const shared = await mkdtemp(locks);
    const options = { heartbeatMs: 20, staleMs: 2000, timeoutMs: 20_000 };
    const [first, second] = [createUploadLocks(shared, options), createUploadLocks(shared, options)];
    const never = new AbortController().signal;
    const [held, waiting] = [first.newLock('one'), second.newLock('one')];
    const events: string[] = [];
    await held.lock(never, () => {
      events.push('asked to stop');
      return held.unlock();
    });
    await waiting.lock(never, () => {});
    events.push('second has it');
    // Each heartbeat asks the lock's holder to stop, until it does.
    expect([...new Set(events)]).toEqual(['asked to stop', 'second has it']);
    await waiting.unlock();
    expect(await readdir(shared)).toEqual([]);

    // The lock of a killed process is no longer renewed.
    const left = join(shared, 'two.lock');
    await writeFile(left, 'of a killed process');
    const longAgo = new Date(Date.now() - 60_000);
    await utimes(left, longAgo, longAgo);
    const next = second.newLock('two');
    await next.lock(never, () => {});
    expect(await readFile(left, 'utf8')).not.toBe('of a killed process');
    await next.unlock();
    expect(await readdir(shared)).toEqual([]);
  });
});
