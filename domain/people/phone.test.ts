import fc from 'fast-check';
import { expect, test } from 'vitest';
import { formatPhone, maskPhone, msisdn, normaliseAnyPhone, normalisePhone, tidyPhone } from './phone.ts';
import { spellingsOfOnePhone, textsWithoutOnePhone } from './phone-examples.ts';

test.each(spellingsOfOnePhone)('reads +254712345678 from %j', (written) =>
  expect(normalisePhone(written)).toBe('+254712345678'),
);

test.each(textsWithoutOnePhone)('reads no Kenyan mobile number from %j', (written) =>
  expect(normalisePhone(written)).toBeNull(),
);

test('normalises every spelling of a number; M-PESA receives it without the plus', () => {
  const local = fc
    .tuple(fc.constantFrom('7', '1'), fc.stringMatching(/^\d{8}$/))
    .map(([first, rest]) => first + rest);
  const spelling = fc.constantFrom('0', '', '254', '+254');
  fc.assert(
    fc.property(local, spelling, (number, prefix) => {
      const phone = normalisePhone(prefix + number);
      expect(phone).toBe(`+254${number}`);
      expect(msisdn(phone ?? '')).toBe(`254${number}`);
    }),
  );
});

test.each([
  ['Wanjiku (sister) +254 733-123 456', '0733123456'],
  ['tel:+254712345678', '0712345678'],
  ['https://wa.me/254112345678', '0112345678'],
  // Shown as it was typed.
  ['+254 712 345 678', '+254 712 345 678'],
  ['0712-345-678', '0712-345-678'],
  ['Wanjiku', 'Wanjiku'],
  ['0712345678 or 0733345678', '0712345678 or 0733345678'],
])('shows %j in its field as %j', (written, shown) => expect(tidyPhone(written)).toBe(shown));

const contact = (numbers: string) =>
  `BEGIN:VCARD\nVERSION:3.0\nFN:Wanjiku Kamau\nORG:Jani Juice;Sales\n${numbers}\nEMAIL:wanjiku@mail.example\nADR:;;Mpaka Road, Westlands;Nairobi\nEND:VCARD`;
const order = 'Habari, please bring two cold mango ones to the blue gate behind the church this evening. ';
test.each([
  [contact('TEL;TYPE=CELL:+254 712 345 678'), '0712345678'],
  [`${order}Call me on 0712 345 678.`, '0712345678'],
  [contact('TEL:+254712345678\nTEL:+254722000111'), contact('TEL:+254712345678\nTEL:+254722000111')],
  [`${order.repeat(30)}0712345678`, `${order.repeat(30)}0712345678`],
])('of a long text with one number, such as %j, its field keeps the number', (written, shown) => {
  expect(written.length).toBeGreaterThan(100);
  expect(tidyPhone(written)).toBe(shown);
});

test('formats a number in groups', () => expect(formatPhone('+254712345678')).toBe('0712 345 678'));

test('masks the end of a number', () => expect(maskPhone('+254712345678')).toBe('0712 ••• •••'));

test.each([
  ['0712 345 678', '+254712345678'],
  ['0112-345-678', '+254112345678'],
  ['+254 712 345 678', '+254712345678'],
  ['254712345678', '+254712345678'],
  ['020 2345678', '+254202345678'],
  ['+44 20 7946 0000', '+442079460000'],
  ['712345678', null],
  ['+0712345678', null],
  ['+1234', null],
])('normalises the international number %s to %s', (written, number) => {
  expect(normaliseAnyPhone(written)).toBe(number);
});

test('checks the length of a long text before its contents', () => {
  const text = ' '.repeat(10_000_000);
  for (let call = 0; call < 1000; call += 1) {
    expect([normalisePhone(text), normaliseAnyPhone(text), tidyPhone(text)]).toEqual([null, null, text]);
  }
});
