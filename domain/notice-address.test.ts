import { describe, expect, test } from 'vitest';
import { judgeNoticeAddress, senderKind } from './notice-address.ts';

const path = '/functions/v1/mobile-money/notice';
const sentences = (origin: string) => judgeNoticeAddress(`${origin}${path}`).map(({ sentence }) => sentence);

test('nothing can be said against a public https address', () => {
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
])('explains why M-PESA does not reach %s', (origin, sentence) => {
  const problems = judgeNoticeAddress(`${origin}${path}`);
  expect(problems.some((problem) => problem.isFatal && sentence.test(problem.sentence))).toBe(true);
});

test('another port is only worth knowing', () => {
  expect(judgeNoticeAddress(`https://shop.co.ke:8443${path}`)).toMatchObject([{ isFatal: false }]);
});

describe('a sender is', () => {
  test.each([
    ['196.201.212.69', 'mpesa'],
    ['::ffff:196.201.214.200', 'mpesa'],
    ['196.201.213.9', 'mpesa network'],
    ['127.0.0.1', 'this machine'],
    ['10.1.2.3', 'private network'],
    ['8.8.8.8', 'somebody else'],
    [null, 'unknown'],
  ] as const)('%s: %s', (address, kind) => {
    expect(senderKind(address)).toBe(kind);
  });
});
