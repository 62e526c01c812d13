import { expect, test } from 'vitest';
import { mailHtml } from './mail-html.ts';

const origin = 'https://jani.example';
const receipt = `${origin}/track-order/JJ-1/receipt?key=a`;
const buttons = new Map([
  [`${origin}/track-order/JJ-1?key=a&b=1`, 'Open your order'],
  [receipt, 'Open the receipt'],
]);

test('converts an order URL on its own line to a button and other shop URLs to links, and escapes HTML', () => {
  const html = mailHtml(
    'Habari <b>Amina</b> & "co",\n\nyour order:\nhttps://jani.example/track-order/JJ-1?key=a&b=1\n\nsee https://jani.example/shop.',
    'Jani & Juice',
    origin,
    buttons,
  );
  expect(html).toContain('Habari &lt;b&gt;Amina&lt;/b&gt; &amp; &quot;co&quot;,');
  expect(html).toMatch(
    /<a href="https:\/\/jani\.example\/track-order\/JJ-1\?key=a&amp;b=1" style="[^"]+">Open your order<\/a>/,
  );
  expect(html).toContain('see <a href="https://jani.example/shop.">');
  expect(html).toContain('Jani &amp; Juice</title>');
  expect(mailHtml(receipt, 'x', origin, buttons)).toContain('>Open the receipt<');
});

test.each([
  'http://evil.example/pin',
  'https://jani.example.evil.example/track-order/JJ-1?key=a&b=1',
  'https://jani.example@evil.example/',
  'Confirm your PIN at https://evil.example/pin now',
])('does not link other hosts: %s', (text) => {
  expect(mailHtml(text, 'x', origin, buttons)).not.toContain('<a ');
});
