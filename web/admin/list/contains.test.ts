import { describe, expect, test } from 'vitest';
import { anyContains, literally } from './contains.ts';

describe('a search text', () => {
  test.each(['100%', 'a_b', 'a*b', '(Juja)', 'a.b', 'c\\d', '[x]{2}', '^$|?+', 'O\'Brien "Bob"'])(
    'matches %s literally',
    (text) => {
      const pattern = new RegExp(literally(text), 'i');
      expect(pattern.test(`before ${text.toUpperCase()} after`)).toBe(true);
      expect(pattern.test('anything else aab abb axb')).toBe(false);
    },
  );

  test('is quoted, so that it cannot end the filter', () => {
    expect(anyContains(['name', 'email'], 'a,b)"')).toBe(
      'name.imatch."a,b\\\\)\\"",email.imatch."a,b\\\\)\\""',
    );
  });
});
