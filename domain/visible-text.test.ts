import { expect, test } from 'vitest';
import { visibleLength, wordLength } from './visible-text.ts';

test.each([
  ['Amina', 5, 5],
  ['  A  ', 1, 1],
  ['\u200b\u200b', 0, 0],
  ['\u2060\ufeff', 0, 0],
  ['\u0301\u0301\u0301', 0, 0],
  ['\u3164\u3164', 0, 0],
  ['\u2800', 0, 0],
  ['\u00a0\u202f\u3000', 0, 0],
  ['\ufe0f\u{e0061}', 0, 0],
  ['\u064b\u064e', 0, 0],
  ['e\u0301', 1, 1],
  ['...', 3, 0],
  ['- - -', 3, 0],
  ['？！。', 3, 0],
  ['🌸🌸', 2, 0],
  ['B4', 2, 2],
  ['Kîambu', 6, 6],
  ['ቦሌ ናይሮቢ', 6, 6],
  ['نيروبي', 6, 6],
  ['内罗毕', 3, 3],
])('%j has %i visible characters and %i letters and digits', (text, visible, letters) =>
  expect([visibleLength(text), wordLength(text)]).toEqual([visible, letters]),
);

test('no character that Unicode calls ignorable, format, separator or control is visible', () => {
  const seen: string[] = [];
  for (let code = 1; code <= 0x10ffff; code += 1) {
    // Surrogates are no characters.
    if (code >= 0xd800 && code <= 0xdfff) continue;
    const character = String.fromCodePoint(code);
    if (
      /[\p{Default_Ignorable_Code_Point}\p{Cf}\p{Z}\p{Cc}]/u.test(character) &&
      visibleLength(character) > 0
    ) {
      seen.push(code.toString(16));
    }
  }
  expect(seen).toEqual([]);
});
