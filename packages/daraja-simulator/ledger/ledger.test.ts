// The ledger file survives restarts and kills.
import { spawn } from 'node:child_process';
import { pbkdf2 } from 'node:crypto';
import { once } from 'node:events';
import { appendFile, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { startDarajaSimulator } from '../simulator.ts';
import { anyPhone, call, openShop, phoneEndingIn, quick, type TestShop } from '../test-shop.ts';

let folder: string;
let ledgerFile: string;
let shop: TestShop | undefined;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'daraja-ledger-'));
  ledgerFile = join(folder, 'deep', 'ledger.jsonl');
});
afterEach(async () => {
  await shop?.close();
  shop = undefined;
  await rm(folder, { recursive: true, force: true });
});

test('restores pushes, refusals, decisions, deliveries and payments after a restart', async () => {
  shop = await openShop({ ...quick, ledgerFile });
  await shop.accepted();
  await shop.accepted({ PhoneNumber: phoneEndingIn('1032') });
  await shop.push({ PhoneNumber: phoneEndingIn('9007') });
  const { now: _, ...before } = await shop.settled();
  await shop.restart();
  const { now: __, ...after } = await shop.ledger();
  // The shop's next token is its own.
  expect(after).toEqual({ ...before, tokensMade: before.tokensMade + 1 });
  expect(after.moneyMoved).toBe(951);
  expect(shop.received).toHaveLength(2);
});

test('shows only what is on disk', async () => {
  shop = await openShop({ ...quick, ledgerFile });
  // Nothing can be written while every thread for files is busy.
  let busy = true;
  const hashes = Array.from({ length: 8 }, () => promisify(pbkdf2)('', '', 300_000, 64, 'sha512'));
  void Promise.any(hashes).then(() => {
    busy = false;
  });
  const accepted = shop.accepted();
  const { ledger } = shop;
  await vi.waitUntil(async () => (await ledger()).prompts.length > 0, { timeout: 20_000 });
  expect(busy).toBe(false);
  await Promise.all([accepted, ...hashes]);
  await shop.settled();
});

test('decides an open prompt after a restart', async () => {
  const options = { ...quick, ledgerFile, decisionDelayMs: 60_000 };
  shop = await openShop(options);
  const checkoutRequestId = await shop.accepted();
  options.decisionDelayMs = 20;
  await shop.restart();
  expect(await shop.settled()).toMatchObject({ moneyMoved: 951, prompts: [{ checkoutRequestId }] });
  expect(shop.received).toHaveLength(1);
});

test('sends a pending late success and callback once after a restart', async () => {
  const options = { ...quick, ledgerFile, lateSuccessDelayMs: 60_000 };
  shop = await openShop(options);
  await shop.control('faults', { callbacks: { next: 1, kind: 'delay', delayMs: 60_000 } });
  await shop.accepted({ PhoneNumber: phoneEndingIn('9006') });
  const { ledger, control } = shop;
  await vi.waitFor(async () => expect((await ledger()).prompts[0].resultCode).toBe(1037), {
    timeout: 20_000,
  });
  await shop.restart();
  expect(shop.received).toHaveLength(0);
  await control('clock', { advanceMs: 60_000 });
  await vi.waitFor(async () => expect((await ledger()).moneyMoved).toBe(951), { timeout: 20_000 });
  await shop.settled();
  expect(shop.received.map(({ callback }) => callback.ResultCode).sort()).toEqual([0, 1037]);
  await shop.restart();
  expect((await shop.settled()).moneyMoved).toBe(951);
  expect(shop.received).toHaveLength(2);
});

test('keeps the advanced clock over a restart', async () => {
  shop = await openShop({ ...quick, ledgerFile });
  await shop.control('clock', { advanceMs: 3_600_000 });
  await shop.restart();
  expect((await shop.ledger()).now - Date.now()).toBeGreaterThan(3_500_000);
});

test('removes an incomplete last line', async () => {
  shop = await openShop({ ...quick, ledgerFile });
  await shop.accepted();
  await shop.settled();
  await appendFile(ledgerFile, '{"kind":"push acc');
  await shop.restart();
  await shop.accepted();
  expect((await shop.settled()).moneyMoved).toBe(1902);
  await shop.restart();
  expect((await shop.ledger()).prompts).toHaveLength(2);
  expect((await readFile(ledgerFile, 'utf8')).endsWith('}\n')).toBe(true);
});

test('does not start with a damaged line in the middle', async () => {
  const damaged = join(folder, 'damaged.jsonl');
  await writeFile(damaged, 'not json\n{"kind":"clock advanced","byMs":1}\n');
  await expect(startDarajaSimulator({ ledgerFile: damaged })).rejects.toThrow(
    `Line 1 of the simulator's ledger ${damaged} cannot be read. Delete that line, or the file to begin with an empty ledger.`,
  );
});

test.each([
  ['half a line', '{"kind":"clock adv'],
  ['a line that is no JSON', 'half\n'],
  ['zeros', '\0'.repeat(600)],
  ['zeros and a line end', `${'\0'.repeat(600)}\n`],
  ['JSON that is no entry', '{"byMs":1}\n{"ki'],
  ['half a character', Buffer.from([0x7b, 0xc3])],
  ['empty lines', '\n\n'],
])('ignores the end of the file that a power cut leaves: %s', async (name, end) => {
  const file = join(folder, `${name}.jsonl`);
  const intact = '{"kind":"clock advanced","byMs":1000}\n';
  await writeFile(file, Buffer.concat([Buffer.from(intact), Buffer.from(end)]));
  const warn = vi
    .spyOn(console, 'warn')
    .mockClear()
    .mockImplementation(() => {});
  const simulator = await startDarajaSimulator({ ledgerFile: file });
  await simulator.close();
  expect(warn.mock.calls).toEqual([[expect.stringContaining(`the ledger ${file} from line 2`)]]);
  warn.mockRestore();
  expect(await readFile(file, 'utf8')).toBe(intact);
});

test('empties the ledger file on a reset', async () => {
  shop = await openShop({ ...quick, ledgerFile });
  await shop.accepted();
  await shop.settled();
  expect((await shop.control('reset')).status).toBe(200);
  expect(await shop.ledger()).toMatchObject({ moneyMoved: 0, prompts: [] });
  expect(await readFile(ledgerFile, 'utf8')).toBe('');
});

test('decides an accepted push after a kill and a restart of the standalone process', async () => {
  const env = { ...process.env, DARAJA_PORT: '0', DARAJA_LEDGER_FILE: ledgerFile };
  const run = async (decisionDelayMs: number) => {
    const child = spawn(process.execPath, ['--import', 'tsx', join(import.meta.dirname, '../main.ts')], {
      env: { ...env, DARAJA_DECISION_DELAY_MS: String(decisionDelayMs) },
    });
    const [line] = (await once(child.stdout, 'data')) as [Buffer];
    const url = /http:\/\/127\.0\.0\.1:\d+/.exec(line.toString())?.[0] ?? '';
    return { child, url };
  };
  shop = await openShop();
  const { receiverUrl, merchant } = shop;

  const first = await run(600_000);
  try {
    const token = await call(`${first.url}/oauth/v1/generate?grant_type=client_credentials`, {
      headers: { authorization: `Basic ${btoa('simulator-consumer-key:simulator-consumer-secret')}` },
    });
    const push = await call(`${first.url}/mpesa/stkpush/v1/processrequest`, {
      method: 'POST',
      headers: { authorization: `Bearer ${token.body.access_token}` },
      body: JSON.stringify({
        ...merchant(),
        TransactionType: 'CustomerPayBillOnline',
        Amount: 300,
        PartyA: anyPhone,
        PartyB: '174379',
        PhoneNumber: anyPhone,
        CallBackURL: `${receiverUrl}/notice/2`,
        AccountReference: 'JJ2611214321',
        TransactionDesc: 'Juice',
      }),
    });
    expect(push.body.ResponseCode).toBe('0');
  } finally {
    first.child.kill('SIGKILL');
    await once(first.child, 'exit');
  }

  const second = await run(10);
  try {
    await vi.waitFor(
      async () => {
        const { body } = await call(`${second.url}/simulator/ledger`);
        expect(body).toMatchObject({ moneyMoved: 300, prompts: [{ callbacksOutstanding: 0 }] });
      },
      { timeout: 20_000 },
    );
    expect(shop.received).toMatchObject([{ path: '/notice/2', callback: { ResultCode: 0 } }]);
  } finally {
    second.child.kill('SIGTERM');
    const [code] = await once(second.child, 'exit');
    expect(code).toBe(0);
  }
});
