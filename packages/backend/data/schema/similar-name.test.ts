import { expect, test } from 'vitest';
import { mostSimilar } from './similar-name.ts';

const tables = ['books', 'book_tags', 'portraits', 'authors'];

test('finds the name for a misspelt one', () => {
  expect(mostSimilar('book', tables, 0.75)).toBe('books');
  expect(mostSimilar('potraits', tables, 0.75)).toBe('portraits');
  expect(mostSimilar('Authors', tables, 0.75)).toBe('authors');
});

test('a name with the same beginning alone is not similar', () => {
  expect(mostSimilar('book_tags_of_last_year', tables, 0.75)).toBeNull();
  expect(mostSimilar('book_tags_of_last_year', tables, 0.33)).toBe('book_tags');
});

test('no candidate is similar to a name without common letters', () => {
  expect(mostSimilar('xyz', tables, 0.33)).toBeNull();
  expect(mostSimilar('books', [], 0.33)).toBeNull();
});
