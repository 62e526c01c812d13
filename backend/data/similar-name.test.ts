import { expect, test } from 'vitest';
import { mostSimilar } from './similar-name.ts';

const tables = ['books', 'book_tags', 'portraits', 'authors'];

test('a misspelt name is known again', () => {
  expect(mostSimilar('book', tables, 0.75)).toBe('books');
  expect(mostSimilar('potraits', tables, 0.75)).toBe('portraits');
  expect(mostSimilar('Authors', tables, 0.75)).toBe('authors');
});

test('a name that only begins alike is another name', () => {
  expect(mostSimilar('book_tags_of_last_year', tables, 0.75)).toBeNull();
  expect(mostSimilar('book_tags_of_last_year', tables, 0.33)).toBe('book_tags');
});

test('nothing is like a name that shares no letters', () => {
  expect(mostSimilar('xyz', tables, 0.33)).toBeNull();
  expect(mostSimilar('books', [], 0.33)).toBeNull();
});
