import { expect, test } from 'vitest';
import { textAbout } from './chat-link.ts';

test.each([
  ['a drink', { product: { name: 'Mango Can' } }, "Habari! It's about Mango Can."],
  ['an order', { trackingNumber: 'JJ-20261121-1234' }, "Habari! It's about order JJ-20261121-1234."],
  ['a drink that does not exist', { product: null }, 'Habari!'],
  ['another page', undefined, 'Habari!'],
])('starts the chat of a page about %s', (_, page, text) => expect(textAbout(page)).toBe(text));
