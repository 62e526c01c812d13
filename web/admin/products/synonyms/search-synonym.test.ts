import { expect, test } from 'vitest';
import { checkSynonym, foldWords, synonymProblemsOf } from './search-synonym.ts';

test('normalises words as the database does', () => {
  expect(foldWords('  Sunset-Cups! ')).toBe('sunset cups');
  expect(foldWords("Mũthoni's")).toBe('muthonis');
});

test('accepts a synonym of one to three words and a meaning of at most ten', () => {
  expect(checkSynonym({ word: 'Tikiti Maji', means: 'watermelon' }, ['embe'])).toEqual({});
  expect(checkSynonym({ word: 'kinywaji', means: '' }, [])).toEqual({});
});

test.each([
  [{ word: ' !! ', means: '' }, { word: 'Search word is required' }],
  [{ word: 'one two three four', means: '' }, { word: expect.stringContaining('1 to 3 words') }],
  [{ word: 'x'.repeat(61), means: '' }, { word: expect.stringContaining('60 characters') }],
  [{ word: 'EMBE', means: '' }, { word: expect.stringContaining('listed already') }],
  [{ word: 'x', means: 'a b c d e f g h i j k' }, { means: expect.stringContaining('10 words') }],
])('reports the problem of %j by field', (form, problems) => {
  expect(checkSynonym(form, ['embe'])).toEqual(problems);
});

test('maps database errors to their fields', () => {
  expect(synonymProblemsOf({ code: '23505', message: '' })).toHaveProperty('word');
  expect(synonymProblemsOf({ code: '23514', message: '"a meaning is at most ten words"' })).toHaveProperty(
    'means',
  );
  expect(synonymProblemsOf({ code: '23514', message: 'there are at most 500 search words' })?.word).toContain(
    '500',
  );
  expect(synonymProblemsOf({ code: '42501', message: 'permission denied' })).toBeNull();
});
