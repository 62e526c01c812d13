import { expect, test } from 'vitest';
import { groupDescription, groupTitle, shortenText } from './page-texts.ts';
import { productDescription, productTitle } from './product-texts.ts';

const mango = { name: 'Mango', text: '', count: 3, lowestPrice: 68_000 };

test('the title of a flavor or brand names its lowest price and the place', () => {
  expect(groupTitle(mango)).toBe('Mango drinks from KSh 680.00, delivered in Nairobi');
  expect(groupTitle({ ...mango, lowestPrice: null })).toBe('Mango drinks, delivered in Nairobi');
});

test('its description is the text of staff, or else what there is', () => {
  expect(groupDescription({ ...mango, text: ' Sunny.\n\nSweet. ' })).toBe('Sunny. Sweet.');
  expect(groupDescription(mango)).toMatch(/^3 Mango drinks with khat from Meru from KSh 680\.00, delivered/);
  expect(groupDescription({ ...mango, count: 1, lowestPrice: null })).toMatch(/^1 Mango drink with khat/);
});

test('the title and description of a product name its price and the place', () => {
  const can = {
    name: 'Dusk Energy Mango',
    tagline: 'Ripe mango with bubbles.',
    size: '330 ml',
    price: 68_000,
  };
  expect(productTitle(can)).toBe('Dusk Energy Mango, 330 ml, for KSh 680.00 in Nairobi');
  expect(productTitle({ ...can, size: null })).toBe('Dusk Energy Mango for KSh 680.00 in Nairobi');
  expect(productDescription(can)).toMatch(
    /^Ripe mango with bubbles\. 330 ml for KSh 680\.00, delivered ice-cold in Nairobi/,
  );
  expect(productDescription({ ...can, tagline: null, size: null })).toMatch(/^Dusk Energy Mango\. KSh/);
});

test('a long text ends after a whole word', () => {
  const shortened = shortenText(`${'mango '.repeat(26)}, and juice`);
  expect(shortened).toMatch(/mango…$/);
  expect(shortened.length).toBeLessThanOrEqual(160);
  expect(shortenText('x'.repeat(400))).toHaveLength(160);
});
