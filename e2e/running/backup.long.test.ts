// Backup with one command while the shop runs, and restore with another command on an empty disk.
import { execFile } from 'node:child_process';
import { readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { type OpenShop, openShop } from '../../scripts/tests/open-shop.ts';
import { placeOrder } from '../placed-orders.ts';
import { asOwner } from '../staff-member.ts';

let shop: OpenShop;
let dataDir: string;
beforeEach(async () => {
  shop = await openShop();
  dataDir = dirname(shop.outbox);
});
afterEach(() => shop.close());

/** Runs a project command. Returns its output and whether it succeeded. */
async function run(script: string, ...given: string[]): Promise<{ output: string; isDone: boolean }> {
  const environment = { ...process.env, DATA_DIR: dataDir, PORT: new URL(shop.url).port };
  return promisify(execFile)(process.execPath, [`scripts/${script}.mjs`, ...given], {
    env: environment,
  }).then(
    ({ stdout }) => ({ output: stdout, isDone: true }),
    ({ stdout, stderr }: { stdout: string; stderr: string }) => ({ output: stdout + stderr, isDone: false }),
  );
}
const ordersNow = async () => (await asOwner(shop, '/rest/v1/orders?select=*&order=id', 'GET')).json();
const picture = '/storage/v1/object/public/product-images/products/picture.png';

test('restores orders, images and keys from a backup after the disk is lost', async () => {
  await placeOrder(shop, 'Amina Kamau');
  await placeOrder(shop, 'Brian Otieno');
  const { secret } = await shop.keys();
  const form = new FormData();
  const png = await readFile('web/public/apple-touch-icon.png');
  form.append('', new Blob([png], { type: 'image/png' }), 'picture.png');
  const upload = await fetch(`${shop.url}${picture.replace('public/', '')}`, {
    method: 'POST',
    headers: { apikey: secret },
    body: form,
  });
  expect(upload.status).toBe(200);
  const before = await ordersNow();
  const seen = Buffer.from(await (await fetch(`${shop.url}${picture}`)).arrayBuffer());

  const made = await run('backup');
  expect(made.output).toContain('Checked: it restores completely.');
  const [archive = ''] = (await readdir(join(dataDir, 'backups'))).filter((name) => name.endsWith('.tar.gz'));
  const path = join(dataDir, 'backups', archive);
  expect((await run('restore', path, '--replace')).output, 'a running shop is left alone').toContain(
    'in use',
  );
  await placeOrder(shop, 'Too late');

  await shop.kill();
  await rm(join(dataDir, 'database'), { recursive: true });
  await rm(join(dataDir, 'storage'), { recursive: true });
  await rm(join(dataDir, 'keys.json'));
  await writeFile(join(dataDir, 'keys.json'), '{}');
  const refused = await run('restore', path);
  expect([refused.isDone, refused.output]).toEqual([false, expect.stringContaining('--replace')]);
  const restored = await run('restore', path, '--replace');
  expect(restored.output).toContain('The shop is as it was on');
  await shop.restart();
  expect(await shop.keys()).toMatchObject({ secret });
  expect(await ordersNow()).toEqual(before);
  const found = Buffer.from(await (await fetch(`${shop.url}${picture}`)).arrayBuffer());
  expect(found.equals(seen), 'the picture').toBe(true);
  expect((await run('backup')).isDone, 'and is backed up again').toBe(true);
  expect(shop.problems()).toEqual([]);
  // Three shops and three backups, each restored for comparison: a busy machine needs minutes.
}, 600_000);
