import { expect, test } from 'vitest';
import { dispositionOf } from './download.ts';

test.each([
  ['', 'attachment'],
  [' ', 'attachment'],
  ['\u0000\r\n', 'attachment'],
  ['\u202e\u200b', 'attachment'],
  ['price list.pdf', 'price%20list.pdf'],
  ['a;b.txt;', 'a%3Bb.txt%3B'],
  ['"quoted".txt', '%22quoted%22.txt'],
  ["it's (new)*.txt", 'it%27s%20%28new%29%2A.txt'],
  ['Menü.txt', 'Men%C3%BC.txt'],
  ['Menu\u0308.txt', 'Men%C3%BC.txt'],
  ['🥭.png', '%F0%9F%A5%AD.png'],
  ['../../etc/passwd', '.._.._etc_passwd'],
  ['C:\\Windows\\x.exe', 'C%3A_Windows_x.exe'],
  ['a\r\nSet-Cookie: b=1', 'aSet-Cookie%3A%20b%3D1'],
  ['photo\u202egpj.exe', 'photogpj.exe'],
  ['100%.txt', '100%25.txt'],
  ['\ud83c.txt', '.txt'],
])('names a download %j in a header that every client can read', (name, encoded) => {
  expect(dispositionOf(name)).toBe(
    encoded === 'attachment' ? encoded : `attachment; filename=${encoded}; filename*=UTF-8''${encoded}`,
  );
});

test('shortens a long name and keeps its extension', () => {
  const header = dispositionOf(`${'ü'.repeat(5000)}.pdf`);
  expect(decodeURIComponent(header.split("''")[1] ?? '')).toBe(`${'ü'.repeat(196)}.pdf`);
  expect(header.length).toBeLessThan(4096);
  // Every character of the header is one of RFC 8187's attr-char, or escaped.
  expect(header).toMatch(/^attachment; filename=[\w!#$&+.^`|~%-]+; filename\*=UTF-8''[\w!#$&+.^`|~%-]+$/);
});
