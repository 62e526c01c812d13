import { expect, test } from 'vitest';
import { readConfig } from './config.ts';

test('nothing needs to be set', () => {
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
    },
  });
});

test('a blank setting counts as not set, and a slash at the end of a URL does not matter', () => {
  expect(readConfig({ PORT: ' ', PUBLIC_URL: 'https://jani.example/' }, '/').publicUrl).toBe(
    'https://jani.example',
  );
});

test('an address in mixed case is taken in lower case', () => {
  expect(readConfig({ PUBLIC_URL: 'HTTPS://Jani.Example' }, '/').publicUrl).toBe('https://jani.example');
});

const account = {
  MPESA_ENV: 'production',
  MPESA_CONSUMER_KEY: 'k',
  MPESA_CONSUMER_SECRET: 's',
  MPESA_SHORTCODE: '1',
  MPESA_PASSKEY: 'p',
  MPESA_TRANSACTION_TYPE: 'CustomerPayBillOnline',
};

test('real money takes an address that M-PESA can reach', () => {
  expect(() => readConfig({ ...account, PUBLIC_URL: 'http://jani.example' }, '/')).toThrow(
    'With MPESA_ENV=production, PUBLIC_URL must be the https:// address at which M-PESA reaches the shop.',
  );
  expect(readConfig({ ...account, PUBLIC_URL: 'https://jani.example' }, '/').mpesa.environment).toBe(
    'production',
  );
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
  [{ ADMIN_EMAIL: 'admin' }, 'ADMIN_EMAIL is "admin", but it takes a mail address.'],
  [{ ADMIN_PASSWORD: 'secret' }, 'ADMIN_PASSWORD takes 8 to 72 characters.'],
  [{ SMTP_URL: 'mail.example' }, 'SMTP_URL is not a URL that begins with smtp:// or smtps://.'],
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

test('the shop counts page views itself unless somebody names a Plausible', () => {
  expect(readConfig({ PUBLIC_URL: 'https://jani.example' }, '/').analytics).toEqual({
    url: null,
    domain: 'jani.example',
  });
  const chosen = { ANALYTICS_URL: 'https://plausible.example/', ANALYTICS_DOMAIN: 'juice' };
  expect(readConfig(chosen, '/').analytics).toEqual({ url: 'https://plausible.example', domain: 'juice' });
});
