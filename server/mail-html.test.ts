import { expect, test } from 'vitest';
import { mailHtml } from './mail-html.ts';

test('an address of its own line becomes a button, one within a line a link, and signs of HTML stay signs', () => {
  const html = mailHtml(
    'Habari <b>Amina</b> & "co",\n\nyour order:\nhttps://jani.example/track-order/JJ-1?key=a&b=1\n\nsee https://jani.example/shop.',
    'Jani & Juice',
  );
  expect(html).toContain('Habari &lt;b&gt;Amina&lt;/b&gt; &amp; &quot;co&quot;,');
  expect(html).toMatch(
    /<a href="https:\/\/jani\.example\/track-order\/JJ-1\?key=a&amp;b=1" style="[^"]+">Open your order<\/a>/,
  );
  expect(html).toContain('see <a href="https://jani.example/shop.">');
  expect(html).toContain('Jani &amp; Juice</title>');
  expect(mailHtml('https://jani.example/track-order/JJ-1/receipt?key=a', 'x')).toContain(
    '>Open the receipt<',
  );
});
