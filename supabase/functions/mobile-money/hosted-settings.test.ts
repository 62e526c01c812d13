import { expect, test } from 'vitest';
import { readHostedSettings } from './hosted-settings.ts';

const secrets = {
  SUPABASE_URL: 'https://abc.supabase.co/',
  SUPABASE_SECRET_KEYS: '{"other":"sb_secret_2","default":"sb_secret_1"}',
  SUPABASE_SERVICE_ROLE_KEY: 'legacy',
  PUBLIC_URL: 'https://shop.example/',
  MPESA_ENV: 'sandbox',
  MPESA_CONSUMER_KEY: 'k',
  MPESA_CONSUMER_SECRET: 's',
  MPESA_SHORTCODE: '174379',
  MPESA_PASSKEY: 'p',
  MPESA_TRANSACTION_TYPE: 'CustomerPayBillOnline',
};
const read = (changes: Record<string, string> = {}) => {
  const environment: Record<string, string> = { ...secrets, ...changes };
  return readHostedSettings((name) => environment[name]);
};

test('uses the default secret key and accepts the others of the project', () => {
  const { settings, storefrontOrigin } = read();
  expect(settings.database).toEqual({
    url: 'https://abc.supabase.co',
    secretKey: 'sb_secret_1',
    otherSecretKeys: ['sb_secret_2', 'legacy'],
  });
  expect(settings.callbackBaseUrl).toBe('https://abc.supabase.co/functions/v1/mobile-money/notice');
  expect(settings.daraja.baseUrl).toBe('https://sandbox.safaricom.co.ke');
  expect(storefrontOrigin).toBe('https://shop.example');
  expect(read({ SHOP_SECRET_KEY: 'mine' }).settings.database.secretKey).toBe('mine');
  expect(read({ SUPABASE_SECRET_KEYS: '' }).settings.database.secretKey).toBe('legacy');
});

test.each([
  [{ MPESA_PASSKEY: ' ' }, 'MPESA_PASSKEY is not set'],
  [{ MPESA_ENV: 'live' }, 'MPESA_ENV is neither sandbox nor production'],
  [{ MPESA_ENV: 'constructor' }, 'MPESA_ENV is neither sandbox nor production'],
  [{ SUPABASE_SECRET_KEYS: '{' }, 'SUPABASE_SECRET_KEYS is not a JSON object'],
  [{ PUBLIC_URL: 'shop' }, 'PUBLIC_URL is not a URL'],
  [{ MPESA_INITIATOR_NAME: 'api' }, 'MPESA_INITIATOR_PASSWORD is not set'],
  [{ MPESA_QUERIES_PER_MINUTE: 'many' }, 'MPESA_QUERIES_PER_MINUTE is not a whole number from 1 to 6000'],
])('reports the invalid %j', (changes, sentence) => {
  expect(() => read(changes)).toThrow(sentence);
});
