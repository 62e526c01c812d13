import { expect, test } from 'vitest';
import { flattenLayers } from './flatten-layers.mjs';

test.each([
  ['@layer a,b;@layer a{p{color:red}}i{color:blue}', 'p{color:red}i{color:blue}'],
  ['@layer a{@media print{p{color:red}}}@layer b;', '@media print{p{color:red}}'],
  ['@layer a{@layer b{p{color:red}}i{margin:0}}', 'p{color:red}i{margin:0}'],
  // Braces in names and strings.
  ['@layer a{.x\\{y{content:"}"}}p{margin:0}', '.x\\{y{content:"}"}p{margin:0}'],
  ['p{height:100dvh;min-height:min(25rem,54dvh)}', 'p{height:100vh;min-height:min(25rem,54vh)}'],
  ['p{translate:0 100%}', 'p{translate:0 100%;transform:translate(0,100%)}'],
  [
    'p{translate:var(--tw-translate-x) var(--tw-translate-y)}',
    'p{translate:var(--tw-translate-x) var(--tw-translate-y);transform:translate(var(--tw-translate-x),var(--tw-translate-y))}',
  ],
  [
    '.a{aspect-ratio:3/2}',
    '.a{aspect-ratio:3/2}@supports not (aspect-ratio:1){.a::before{content:"";display:block;padding-top:66.66666666666667%}}',
  ],
  ['p{--translate:1px;transition:translate 1s}', 'p{--translate:1px;transition:translate 1s}'],
])('%s', (css, flat) => expect(flattenLayers(css)).toBe(flat));
