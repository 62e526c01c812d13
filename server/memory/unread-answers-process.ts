// A process with services and long answers, for `unread-answers.test.ts`: the measured memory is that of nothing else.
// Arguments: the kind of database, the path of the socket to listen at, and a folder.
import { join } from 'node:path';
import { createBackend } from '@jani-juice/backend';
import type { Database } from '@jani-juice/backend/database';
import { createFairShare } from '@jani-juice/backend/limits';
import { createDiskFiles } from '@jani-juice/backend/storage';
import { platform, throwawayDatabase } from '@jani-juice/backend/testing';
import { createHttpServer } from '../http/http-server.ts';
import { visitorLimits } from '../http/visitor-limits.ts';
import { openLog } from '../monitoring/log.ts';
import { createMetrics } from '../monitoring/metrics.ts';
import { finishPage, PageCache } from '../pages/page-cache.ts';

const [kind, socketPath, folder = ''] = process.argv.slice(2);
const database = await throwawayDatabase(kind as Database['kind'], [platform]);
// As long as an answer may be.
await database.execute(`
  create table public.long_texts (id int primary key, body text);
  insert into public.long_texts select id, repeat('x', 1900) from generate_series(1, 1000) as id;
  grant select on public.long_texts to anon;`);
const keys = { publishable: 'sb_publishable_test', secret: 'sb_secret_test', signingKeys: [] };
const fairShare = createFairShare(database.kind);
const backend = await createBackend({
  database,
  keys,
  functions: {},
  files: createDiskFiles(join(folder, 'files')),
  fairShare,
  visitorLimits,
});
const server = createHttpServer({
  backend,
  pages: new PageCache(),
  renderPage: async () => finishPage(200, { 'content-type': 'text/html' }, Buffer.alloc(300_000, 'x')),
  assets: folder,
  pageViews: { fetch: async () => new Response(null, { status: 202 }) },
  fairShare,
  isReady: async () => true,
  unavailableServices: async () => [],
  metrics: createMetrics(),
  secretKey: keys.secret,
  trustedProxies: 1,
  publicUrl: 'http://localhost',
  log: openLog('silent'),
});
const owner = { authorization: `Bearer ${keys.secret}` };
await backend.fetch(
  new Request('http://localhost/storage/v1/bucket', {
    method: 'POST',
    headers: { ...owner, 'content-type': 'application/json' },
    body: JSON.stringify({ id: 'files', name: 'files', public: true }),
  }),
);
await backend.fetch(
  new Request('http://localhost/storage/v1/object/files/large.bin', {
    method: 'POST',
    headers: { ...owner, 'content-type': 'application/octet-stream' },
    body: Buffer.alloc(8_000_000),
  }),
);
server.listen(socketPath, () => process.send?.('ready'));
process.once('disconnect', () => process.exit());
