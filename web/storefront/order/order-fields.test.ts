import { createElement } from 'react';
import { renderToStaticMarkup } from 'react-dom/server';
import { expect, test } from 'vitest';
import { OrderFields } from './order-fields.tsx';

const render = (notes: string) =>
  renderToStaticMarkup(
    createElement(OrderFields, {
      field: (name) => ({ name, value: name === 'notes' ? notes : '', onChange: () => {} }),
    }),
  );

test('counts long delivery notes and never truncates them', () => {
  expect(render('Blue gate')).not.toContain('characters');
  expect(render('x'.repeat(450))).toContain('450 of 500 characters');
  const pasted = 'x'.repeat(501);
  expect(render(pasted)).toContain('501 of 500 characters');
  expect(render(pasted)).toContain(pasted);
  expect(/<textarea[^>]*>/.exec(render(pasted))?.[0]).not.toContain('maxLength');
});
