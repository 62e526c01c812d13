import { describe, expect, test } from 'vitest';
import { linkWithoutPunctuation } from './pasted-link.ts';

const shop = 'https://jani.example';
const clean = (link: string) => linkWithoutPunctuation(new URL(shop + link));
const keys = ['AbCdEfGhIjKlMnOpQrStUv', 'AbCdEfGhIjKlMnOpQrStU_', 'AbCdEfGhIjKlMnOpQrStU-'];
const links = [
  ...keys.map((key) => `/t/20261121-1234-${key}`),
  `/t/20261121-1234-${keys[0]}/receipt`,
  ...keys.map((key) => `/ride/Zz${key}`),
  '/track-order/JJ-20261121-1234',
  '/track-order/JJ-20261121-1234/receipt',
  '/track-order/JJ-20261121-1234?key=0123456789abcdef0123456789abcdef',
  '/track-order?tracking=JJ-20261121-1234',
  '/shop/mango-bottle',
  '/contact',
];

describe.each(links)('%s', (link) => {
  test('stays as it is', () => expect(clean(link)).toBeNull());

  const ends = [
    '.',
    ',',
    ')',
    '!',
    '"',
    "'",
    '»',
    '…',
    '*',
    '_',
    '>',
    '%20',
    '%E2%80%8B',
    '.)',
    '!!!',
    '%C2%A0',
    '’',
    ';',
    ']',
  ];
  test.each(ends)('loses %s at its end', (end) => expect(clean(link + end)).toBe(link));

  test('loses a question mark at its end', () => {
    const url = clean(`${link}?`) ?? link;
    expect(url).toBe(link);
  });
});

test.each(['/shop?search=mango!', '/shop?search=what%3F', '/%', '/track-order/JJ-20261121-1234?fbclid=x.'])(
  'leaves %s alone',
  (link) => expect(clean(link)).toBeNull(),
);

test('never leads to another host', () => expect(clean('//evil.example/x.')).toBe('/evil.example/x'));
