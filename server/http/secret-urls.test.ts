import { expect, test } from 'vitest';
import { createCallbackSecret } from '../../supabase/functions/mobile-money/secrets.ts';
import { createSecretUrls } from './secret-urls.ts';

const key = 'sb_secret_test';
const base = '/functions/v1/mobile-money';
const tillSecret = (n: number) => String(n).padStart(64, '0');

test('knows the callback URLs that the payment function creates', () => {
  const urls = createSecretUrls(key);
  const secret = createCallbackSecret(key);
  expect(urls.isKnown(`${base}/notice/${secret}`)).toBe(true);
  expect(urls.isKnown(`${base}/notice/${createCallbackSecret('another key')}`)).toBe(false);
  for (const path of [`${base}`, `${base}/notice/`, `${base}/other/${secret}`, `/rest/v1/${secret}`]) {
    expect(urls.isKnown(path)).toBe(false);
  }
});

test('knows other secret URLs once they were right, the latest hundred', () => {
  const urls = createSecretUrls(key);
  const url = (n: number) => `${base}/till/${tillSecret(n)}/confirmation`;
  expect(urls.isKnown(url(0))).toBe(false);
  urls.remember(url(0));
  expect(urls.isKnown(url(0))).toBe(true);
  expect(urls.isKnown(`${base}/till/${tillSecret(0)}/validation`)).toBe(true);
  for (let n = 1; n <= 100; n += 1) urls.remember(url(n));
  expect(urls.isKnown(url(0))).toBe(false);
  expect(urls.isKnown(url(100))).toBe(true);
});
