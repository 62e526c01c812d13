import { expect, test } from 'vitest';
import { renderMarkdown } from './render-markdown.ts';

test('headings start below those of the page', () => {
  expect(renderMarkdown('# One\n## Two\n### Three\n###### Six')).toBe(
    '<h3>One</h3>\n<h3>Two</h3>\n<h4>Three</h4>\n<h6>Six</h6>\n',
  );
});

test('renders lists, emphasis and line breaks', () => {
  expect(renderMarkdown('- **Name**\n- *phone*')).toBe(
    '<ul>\n<li><strong>Name</strong></li>\n<li><em>phone</em></li>\n</ul>\n',
  );
});

test.each([
  ['[a](https://www.odpc.go.ke)', '<a href="https://www.odpc.go.ke" rel="noreferrer">a</a>'],
  ['[a](/delivery)', '<a href="/delivery">a</a>'],
  ['[a](#terms)', '<a href="#terms">a</a>'],
  ['[a](mailto:hello@jani.example)', '<a href="mailto:hello@jani.example">a</a>'],
  ['[a](tel:+254700000000)', '<a href="tel:+254700000000">a</a>'],
  ['<https://jani.example>', '<a href="https://jani.example" rel="noreferrer">https://jani.example</a>'],
])('%s is a link', (text, html) => expect(renderMarkdown(text)).toBe(`<p>${html}</p>\n`));

test.each([
  '[a](javascript:alert(1))',
  '[a](JaVaScRiPt:alert(1))',
  '[a](&#106;avascript:alert(1))',
  '[a](<java\tscript:alert(1)>)',
  '[a](data:text/html,x)',
  '[a](vbscript:x)',
  '[a](file:///etc/passwd)',
  '[a](//evil.example)',
  '[a](evil.example)',
  '<javascript:alert(1)>',
])('%s is no link', (text) => expect(renderMarkdown(text)).not.toContain('<a'));

test.each([
  '<script>alert(1)</script>',
  '<img src=x onerror=alert(1)>',
  'a <b onmouseover="alert(1)">b</b>',
  '[a](/delivery "x\\" onmouseover=alert(1)")',
  '![a](https://evil.example/pixel.png)',
  '`<script>`',
])('%s brings no element or attribute of its own', (text) => {
  const html = renderMarkdown(text);
  const tags = html.match(/<[^>]*>/g) ?? [];
  expect(
    tags.filter(
      (tag) =>
        !/^<\/?(p|code|strong|em)>$|^<a href="[^"]*"( title="[^"]*")?( rel="noreferrer")?>$|^<\/a>$/.test(
          tag,
        ),
    ),
  ).toEqual([]);
});
