import { describe, expect, test } from 'vitest';
import { formatAge, formatClock, formatForFile } from './dates.ts';

const now = Date.parse('2026-11-22T11:00:00Z');
const ago = (minutes: number) => new Date(now - minutes * 60_000).toISOString();

describe('an age', () => {
  test.each([
    [-5, 'now'],
    [0.9, 'now'],
    [1, '1 min'],
    [59.9, '59 min'],
    [60, '1 h'],
    [23 * 60 + 59, '23 h'],
  ])('of %d minutes is %s', (minutes, words) => {
    expect(formatAge(ago(minutes), now)).toBe(words);
  });

  test('of more than a day is the date, with its year when that is long ago', () => {
    expect(formatAge(ago(24 * 60), now)).toMatch(/21/);
    expect(formatAge(ago(24 * 60), now)).not.toMatch(/2026/);
    expect(formatAge('2025-10-01T06:00:00Z', now)).toMatch(/2025/);
  });
});

test('files have date and time in Nairobi, also if that is another day than in UTC', () => {
  expect(formatForFile('2026-11-21T22:30:00Z')).toBe('2026-11-22 01:30');
  expect(formatForFile(null)).toBeNull();
});

test('omits the date of today', () => {
  expect(formatClock(ago(60), now)).not.toMatch(/22/);
  expect(formatClock(ago(24 * 60), now)).toMatch(/21/);
});
