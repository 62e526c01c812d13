// What counts as text in a required field. `private.visible_length` and `private.word_length` count the same characters.

/**
 * White space, control and format characters, blank letters, and marks that show only on another character. Ranges instead of
 * Unicode properties, because PostgreSQL's regular expressions have none.
 */
const invisible =
  '\\u0001-\\u0020\\u007f-\\u00a0\\u00ad\\u0300-\\u036f\\u0483-\\u0489\\u0591-\\u05bd\\u0600-\\u0605\\u0610-\\u061c' +
  '\\u064b-\\u065f\\u0670\\u06d6-\\u06dd\\u070f\\u0890\\u0891\\u08e2\\u0900-\\u0903\\u093a-\\u093c\\u093e-\\u094f\\u0e31\\u0e34-\\u0e3a' +
  '\\u0e47-\\u0e4e\\u115f\\u1160\\u135d-\\u135f\\u1680\\u17b4\\u17b5\\u180b-\\u180f\\u1ab0-\\u1aff\\u1dc0-\\u1dff' +
  '\\u2000-\\u200f\\u2028-\\u202f\\u205f-\\u206f\\u20d0-\\u20f0\\u2800\\u3000\\u302a-\\u302f\\u3099\\u309a\\u3164' +
  '\\ufe00-\\ufe0f\\ufe20-\\ufe2f\\ufeff\\uffa0\\ufff0-\\ufffb\\ufffe\\uffff\\u{110bd}\\u{110cd}\\u{13430}-\\u{1343f}' +
  '\\u{1bca0}-\\u{1bca3}\\u{1d159}\\u{1d173}-\\u{1d17a}\\u{e0000}-\\u{e0fff}';

/** Punctuation, symbols and emoji. */
const symbols =
  '\\u0021-\\u002f\\u003a-\\u0040\\u005b-\\u0060\\u007b-\\u007e\\u00a1-\\u00a9\\u00ab-\\u00b4\\u00b6-\\u00b9' +
  '\\u00bb-\\u00bf\\u00d7\\u00f7\\u02c2-\\u02df\\u2010-\\u2bff\\u2e00-\\u2e7f\\u3001-\\u3004\\u3008-\\u3020\\u3030' +
  '\\ufe10-\\ufe1f\\ufe30-\\ufe6f\\uff01-\\uff0f\\uff1a-\\uff20\\uff3b-\\uff40\\uff5b-\\uff65\\ufffc\\ufffd' +
  '\\u{1f000}-\\u{1faff}';

const invisibleCharacters = new RegExp(`[${invisible}]`, 'gu');
const otherThanLetters = new RegExp(`[${invisible}${symbols}]`, 'gu');

/**
 * Counts the characters of a text that a reader sees: without white space, control and format characters, and combining marks.
 * @param text of bounded length
 */
export const visibleLength = (text: string): number => [...text.replace(invisibleCharacters, '')].length;

/**
 * Counts the letters and digits of a text, of any script.
 * @param text of bounded length
 */
export const wordLength = (text: string): number => [...text.replace(otherThanLetters, '')].length;
