import { describe, expect, test } from 'vitest';
import { callbackSource, checkCallbackUrl } from './callback-url.ts';

const path = '/functions/v1/mobile-money/notice';
const sentences = (origin: string) => checkCallbackUrl(`${origin}${path}`).map(({ sentence }) => sentence);

test('a public https URL has no problems', () => {
  expect(sentences('https://shop.janijuice.co.ke')).toEqual([]);
});

test.each([
  ['http://shop.janijuice.co.ke', /http:\/\//],
  ['https://localhost:3000', /the machine that reads it/],
  ['https://127.0.0.1', /the machine that reads it/],
  ['https://[::1]', /the machine that reads it/],
  ['https://192.168.1.20', /private network/],
  ['https://172.20.0.3', /private network/],
  ['https://100.64.0.1', /private network/],
  ['https://shop.local', /private network/],
  ['https://41.90.1.1', /a number, not a name/],
  ['https://shop', /only your own network/],
  ['https://my-mpesa-shop.co.ke', /"mpesa"/],
  ['https://mysql.co.ke', /"sql"/],
  ['https://executive.co.ke', /"exec"/],
  ['https://abc.ngrok.io', /ngrok/],
  ['https://Shop.co.ke', /capital letters/],
  ['nothing', /not a valid address/],
])('explains why M-PESA cannot reach %s', (origin, sentence) => {
  const problems = checkCallbackUrl(`${origin}${path}`);
  expect(problems.some((problem) => problem.isFatal && sentence.test(problem.sentence))).toBe(true);
});

test('another port is a warning', () => {
  expect(checkCallbackUrl(`https://shop.co.ke:8443${path}`)).toMatchObject([{ isFatal: false }]);
});

describe('the source of a callback is', () => {
  test.each([
    ['196.201.212.69', 'mpesa'],
    ['::ffff:196.201.214.200', 'mpesa'],
    ['196.201.213.9', 'mpesa network'],
    ['127.0.0.1', 'this machine'],
    ['10.1.2.3', 'private network'],
    ['8.8.8.8', 'unknown source'],
    [null, 'unknown'],
  ] as const)('%s: %s', (address, kind) => {
    expect(callbackSource(address)).toBe(kind);
  });
});
