import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { certificate } from '@jani-juice/daraja-simulator';
import { expect, test } from 'vitest';
import { readConfig } from './config.ts';

test('has a default for every setting', () => {
  expect(readConfig({}, '/shop')).toMatchObject({
    port: 3000,
    host: '127.0.0.1',
    publicUrl: 'http://localhost:3000',
    dataDir: '/shop/data',
    databaseUrl: null,
    supabase: null,
    seed: 'demo',
    mpesa: { environment: 'simulator', port: 3001 },
    mpesaQueriesPerMinute: 5,
    firstAdmin: { email: 'admin@jani.example', password: null },
    messages: {
      smtpUrl: null,
      mailFrom: 'Jani Juice <no-reply@localhost>',
      sms: null,
      outbox: '/shop/data/outbox',
      outboxDays: 30,
    },
  });
});

test('docs/operating.md lists exactly these settings', async () => {
  const read = (path: string) => readFile(new URL(path, import.meta.url), 'utf8');
  const code = (await Promise.all(['config.ts', 'backend-config.ts', '../../main.ts'].map(read))).join();
  const settings = [...code.matchAll(/(?:text\('|required\('|process\.env\.)([A-Z\d_]+)/g)].map(
    ([, name]) => name,
  );
  const [, section = ''] = /\n## Settings\n(.+?)\n## /s.exec(await read('../../../docs/operating.md')) ?? [];
  const firstCells = [...section.matchAll(/^\| (`[^|]+) \|/gm)].map(([, cell = '']) => cell).join();
  const documented = [...firstCells.matchAll(/`([A-Z\d_]+)`/g)].map(([, name]) => name);
  expect(documented.sort()).toEqual([...new Set(settings)].sort());
});

test('ignores blank settings and a slash at the end of a URL', () => {
  expect(readConfig({ PORT: ' ', PUBLIC_URL: 'https://jani.example/' }, '/').publicUrl).toBe(
    'https://jani.example',
  );
});

test('rejects a PUBLIC_URL with a path', () => {
  expect(() => readConfig({ PUBLIC_URL: 'https://jani.example/shop' }, '/')).toThrow(
    'PUBLIC_URL has a path (/shop), but the shop is at the root of its host: https://jani.example.',
  );
});

test('converts a host name to lower case', () => {
  expect(readConfig({ PUBLIC_URL: 'HTTPS://Jani.Example' }, '/').publicUrl).toBe('https://jani.example');
});

const account = {
  MPESA_ENV: 'production',
  MPESA_CONSUMER_KEY: 'k',
  MPESA_CONSUMER_SECRET: 's',
  MPESA_SHORTCODE: '600000',
  MPESA_PASSKEY: 'p',
  MPESA_TRANSACTION_TYPE: 'CustomerPayBillOnline',
};

test('requires a public https PUBLIC_URL for real money', () => {
  expect(() => readConfig({ ...account, PUBLIC_URL: 'http://jani.example' }, '/')).toThrow(
    'With MPESA_ENV=production, PUBLIC_URL must be the https:// address at which M-PESA reaches the shop.',
  );
  expect(readConfig({ ...account, PUBLIC_URL: 'https://jani.example' }, '/').mpesa.environment).toBe(
    'production',
  );
});

test.each([
  [{ PUBLIC_URL: 'https://localhost:3000' }, 'PUBLIC_URL must be the https:// address'],
  [{ PUBLIC_URL: 'https://192.168.1.5' }, 'PUBLIC_URL must be the https:// address'],
  [{ PUBLIC_URL: 'https://lipa-mpesa.example' }, 'PUBLIC_URL contains "mpesa", and M-PESA refuses'],
  [{ MPESA_CONSUMER_KEY: 'a b' }, 'MPESA_CONSUMER_KEY has a space or a line break in it.'],
  [{ MPESA_SHORTCODE: '60 0000' }, 'MPESA_SHORTCODE has a space or a line break in it.'],
  [{ MPESA_SHORTCODE: '1234' }, 'MPESA_SHORTCODE is "1234", but it takes 5 to 7 digits.'],
  [{ MPESA_SHORTCODE: '174379' }, "MPESA_SHORTCODE is the sandbox's, but MPESA_ENV is production."],
  [
    { MPESA_TRANSACTION_TYPE: 'Till' },
    'MPESA_TRANSACTION_TYPE is "Till", but it takes CustomerPayBillOnline',
  ],
  [{ MPESA_TILL: '123456' }, 'MPESA_TILL goes with MPESA_TRANSACTION_TYPE=CustomerBuyGoodsOnline'],
  [
    { MPESA_TRANSACTION_TYPE: 'CustomerBuyGoodsOnline' },
    "MPESA_TILL must be the till's number; MPESA_SHORTCODE is its store number.",
  ],
  [
    { MPESA_TRANSACTION_TYPE: 'CustomerBuyGoodsOnline', MPESA_TILL: '12' },
    'MPESA_TILL is "12", but it takes 5 to 10 digits.',
  ],
  [
    { MPESA_INITIATOR_NAME: 'api' },
    'MPESA_INITIATOR_NAME, MPESA_INITIATOR_PASSWORD and MPESA_CERTIFICATE must be set together.',
  ],
  [
    { MPESA_INITIATOR_NAME: 'api', MPESA_INITIATOR_PASSWORD: 'p', MPESA_CERTIFICATE: 'package.json' },
    'MPESA_CERTIFICATE is "package.json", but no certificate can be read there.',
  ],
  [{ MPESA_NOMINATED_NUMBER: '12' }, 'MPESA_NOMINATED_NUMBER is "12", but it takes a Kenyan mobile number.'],
])('with real money, %j stops the start with one sentence', (changes, sentence) => {
  const environment = { ...account, PUBLIC_URL: 'https://jani.example', ...changes };
  expect(() => readConfig(environment, process.cwd())).toThrow(sentence);
});

test('reads no M-PESA account with a hosted project, whose function has it in its secrets', () => {
  const project = {
    SUPABASE_URL: 'https://abc.supabase.co',
    SUPABASE_PUBLISHABLE_KEY: 'sb_publishable_1',
    SUPABASE_SECRET_KEY: 'sb_secret_1',
  };
  const { mpesa } = readConfig({ ...project, MPESA_ENV: 'production' }, '/');
  expect(mpesa).toEqual({ environment: 'production', isHosted: true });
  // A project on this machine can reach the simulator.
  const local = { ...project, SUPABASE_URL: 'http://127.0.0.1:54321' };
  expect(readConfig({ ...local, MPESA_ENV: 'simulator' }, '/').mpesa).toMatchObject({ port: 3001 });
  expect(() => readConfig({ ...project, MPESA_ENV: 'simulator' }, '/')).toThrow(
    'MPESA_ENV=simulator does not work with a hosted project',
  );
  // Processes on one database share a simulator.
  for (const PORT of ['3000', '3001']) {
    const shared = readConfig({ DATABASE_URL: 'postgres://127.0.0.1/jani', PORT }, '/');
    expect(shared.mpesa).toMatchObject({ port: 4010 });
  }
});

test('reads a till, an initiator with a certificate file, and the registered phone', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'config-'));
  await writeFile(join(folder, 'portal.cer'), certificate);
  const { mpesa } = readConfig(
    {
      ...account,
      PUBLIC_URL: 'https://jani.example',
      MPESA_TRANSACTION_TYPE: 'CustomerBuyGoodsOnline',
      MPESA_TILL: '5550174',
      MPESA_INITIATOR_NAME: 'api',
      MPESA_INITIATOR_PASSWORD: 'a password',
      MPESA_CERTIFICATE: 'portal.cer',
      MPESA_NOMINATED_NUMBER: '0712 345 678',
    },
    folder,
  );
  await rm(folder, { recursive: true });
  expect(mpesa).toMatchObject({
    transactionType: 'CustomerBuyGoodsOnline',
    till: '5550174',
    initiator: { name: 'api', password: 'a password', certificate },
    nominatedNumber: '254712345678',
  });
});

test.each([
  [{ PORT: 'eighty' }, 'PORT is "eighty", but it takes a whole number from 0 to 65535.'],
  [{ SEED: 'full' }, 'SEED is "full", but it takes demo or none.'],
  [{ MPESA_ENV: 'live' }, 'MPESA_ENV is "live", but it takes simulator or sandbox or production.'],
  [{ MPESA_ENV: 'sandbox' }, 'With MPESA_ENV=sandbox, MPESA_CONSUMER_KEY must be set.'],
  [
    { SUPABASE_URL: 'https://x.example' },
    'With SUPABASE_URL, SUPABASE_PUBLISHABLE_KEY and SUPABASE_SECRET_KEY must be set too.',
  ],
  [
    { SUPABASE_URL: 'https://x.example', SUPABASE_PUBLISHABLE_KEY: 'p', SUPABASE_SECRET_KEY: 's' },
    'With SUPABASE_URL, MPESA_ENV must be set',
  ],
  [{ ADMIN_EMAIL: 'admin' }, 'ADMIN_EMAIL is "admin", but must be an email address.'],
  [{ ADMIN_PASSWORD: 'secret' }, 'ADMIN_PASSWORD takes 8 to 72 characters.'],
  // 8 bytes, and 74 bytes.
  [{ ADMIN_PASSWORD: 'éééé' }, 'ADMIN_PASSWORD takes 8 to 72 characters.'],
  [{ ADMIN_PASSWORD: 'é'.repeat(37) }, 'ADMIN_PASSWORD takes 8 to 72 characters.'],
  [{ SMTP_URL: 'mail.example' }, 'SMTP_URL is not a URL that begins with smtp:// or smtps://.'],
  [{ OUTBOX_DAYS: '0' }, 'OUTBOX_DAYS is "0", but it takes a whole number from 1 to 3650.'],
  [{ SMS_API_KEY: 'key' }, 'SMS_USERNAME and SMS_API_KEY must be set together.'],
  [
    { DATABASE_URL: 'mysql://u:secret@h/d' },
    'DATABASE_URL is not a URL that begins with postgres:// or postgresql://.',
  ],
])('%j stops the start with one sentence', (environment, sentence) => {
  expect(() => readConfig(environment, '/')).toThrow(sentence);
});

test.each([
  [{ AUTH_SETTINGS: '{' }, 'AUTH_SETTINGS is not JSON.'],
  [{ AUTH_SETTINGS: '[]' }, 'AUTH_SETTINGS is not a JSON object.'],
  [{ JWT_SECRET: 'short' }, 'JWT_SECRET is shorter than 32 characters: it could be guessed.'],
  [{ JWT_KEYS: '[{"kid":"a","alg":"none","d":"x"}]' }, 'JWT_KEYS is not a JSON array of private JWKs'],
])('%j stops the start with one sentence, too', (environment, sentence) => {
  expect(() => readConfig(environment, '/')).toThrow(sentence);
});

test('counts page views in the shop unless ANALYTICS_URL is set', () => {
  expect(readConfig({ PUBLIC_URL: 'https://jani.example' }, '/').analytics).toEqual({
    url: null,
    domain: 'jani.example',
  });
  const chosen = { ANALYTICS_URL: 'https://plausible.example/', ANALYTICS_DOMAIN: 'juice' };
  expect(readConfig(chosen, '/').analytics).toEqual({ url: 'https://plausible.example', domain: 'juice' });
});
