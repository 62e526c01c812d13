import { expect, test } from 'vitest';
import { chatText, whatsappLink } from './whatsapp-link.ts';

test.each([
  ['+254 712 345 678', '', 'https://wa.me/254712345678'],
  ['254712345678', 'Habari & karibu?', 'https://wa.me/254712345678?text=Habari%20%26%20karibu%3F'],
  [null, 'https://jani.example/shop', 'https://wa.me/?text=https%3A%2F%2Fjani.example%2Fshop'],
])('links to a chat with %s that starts with "%s"', (phone, text, link) =>
  expect(whatsappLink(phone, text)).toBe(link),
);

test('names the drink or the order', () => {
  const textOf = (link: string) => new URL(link).searchParams.get('text');
  expect(textOf(whatsappLink('254712345678', chatText('Mango & Mint 50%')))).toBe(
    "Habari! It's about Mango & Mint 50%.",
  );
  expect(textOf(whatsappLink('254712345678', chatText('order JJ-20261121-1234')))).toBe(
    "Habari! It's about order JJ-20261121-1234.",
  );
});
