import { createElement } from 'react';
import { renderToStaticMarkup } from 'react-dom/server';
import { expect, test } from 'vitest';
import { OrderFields } from './order-fields.tsx';

const render = (form: Record<string, string>) =>
  renderToStaticMarkup(
    createElement(OrderFields, {
      area: null,
      chosen: null,
      discount: null,
      hasDiscount: false,
      field: (name) => ({ name, value: form[name] ?? '', onChange: () => {} }),
    }),
  );

test('counts a long address, name and notes and never truncates what is pasted', () => {
  expect(render({ notes: 'Blue gate', location: 'Westlands' })).not.toContain('characters');
  expect(render({ notes: 'x'.repeat(450) })).toContain('450 of 500 characters');
  const pasted = 'x'.repeat(501);
  expect(render({ notes: pasted })).toContain('501 of 500 characters');
  expect(render({ notes: pasted })).toContain(pasted);
  expect(render({ location: 'x'.repeat(201) })).toContain('201 of 200 characters');
  expect(render({})).not.toMatch(/maxlength/i);
});
