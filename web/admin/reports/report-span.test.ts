import { expect, test } from 'vitest';
import { daysBetween, readSpan, type SpanFilter } from './report-span.ts';

const filter = (span: SpanFilter['span'], from = '', until = '') => ({ span, from, until });

test.each([
  [filter('today'), '2026-11-28', '2026-11-28', '2026-11-28'],
  // A Saturday, a Monday and a Sunday.
  [filter(''), '2026-11-28', '2026-11-23', '2026-11-28'],
  [filter(''), '2026-11-23', '2026-11-23', '2026-11-23'],
  [filter(''), '2026-11-29', '2026-11-23', '2026-11-29'],
  [filter('month'), '2026-11-28', '2026-11-01', '2026-11-28'],
  [filter('last-month'), '2026-03-31', '2026-02-01', '2026-02-28'],
  [filter('last-month'), '2027-01-01', '2026-12-01', '2026-12-31'],
  [filter('range', '2026-01-05', '2026-02-04'), '2026-11-28', '2026-01-05', '2026-02-04'],
  // Of a later version.
  [filter('quarter' as never), '2026-11-28', '2026-11-23', '2026-11-28'],
])('%j on %s is from %s until %s', (given, today, since, until) => {
  expect(readSpan(given, today)).toEqual({ since, until });
});

test.each([
  ['', '2026-02-04', 'Please choose the first and the last day.'],
  ['2026-02-30', '2026-03-01', 'Please choose the first and the last day.'],
  ['2026-02-04', '2026-02-03', 'The last day is before the first one.'],
  ['2024-02-04', '2026-02-03', 'Please choose up to one year.'],
])('from %j until %j is no span', (from, until, problem) => {
  expect(readSpan(filter('range', from, until), '2026-11-28')).toEqual({ problem });
});

test('counts both ends', () => {
  expect(daysBetween({ since: '2026-02-04', until: '2026-02-04' })).toBe(1);
  expect(daysBetween({ since: '2025-11-28', until: '2026-11-28' })).toBe(366);
});
