import { expect, test } from 'vitest';
import { checkReplyTemplate, hasPlaceholder, writeReply } from './reply-template.ts';

const shop = { name: 'Jani Juice', phone: '+254700000000', email: 'hello@jani.example' };
const inquiry = { name: ' Amina  Kamau ', subject: null, message: 'Where is jj-20261121-1234 ?' };

test('fills in the customer and the tracking number of the message', () => {
  expect(writeReply('Habari {first_name}, order {tracking}. {shop} {shop_phone}', { shop, ...inquiry })).toBe(
    'Habari Amina, order JJ-20261121-1234. Jani Juice 0700 000 000',
  );
});

test('leaves out a part whose placeholder is empty, and parses no text of the customer', () => {
  const asked = { ...inquiry, name: '{shop} [x]', message: 'Hello' };
  expect(writeReply('{name}: your order[ {tracking}] is here', { shop, ...asked })).toBe(
    '{shop} [x]: your order is here',
  );
});

test('knows a text with a placeholder that nobody filled in', () => {
  expect(hasPlaceholder('Habari {name}')).toBe(true);
  expect(hasPlaceholder('Habari {}')).toBe(true);
  expect(hasPlaceholder('Habari (you) {You}')).toBe(false);
});

test.each([
  [{ title: '', body: 'Habari' }, { title: 'Please enter a title' }],
  [{ title: 'a'.repeat(81), body: 'Habari' }, { title: 'At most 80 characters' }],
  [{ title: 'Hello', body: ' ' }, { body: 'A message needs words' }],
  [{ title: 'Hello', body: 'a'.repeat(2001) }, { body: 'At most 2,000 characters' }],
  [{ title: 'Hello', body: 'Habari {nmae}' }, { body: 'There is no placeholder {nmae}' }],
  [{ title: 'Hello', body: 'Habari {first_name}[, {tracking}]' }, {}],
])('%j has the problems %j', (template, problems) => {
  expect(checkReplyTemplate(template)).toEqual(problems);
});
