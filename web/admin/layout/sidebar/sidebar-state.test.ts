import { expect, test } from 'vitest';
import { isSidebarExpanded, sidebarCookie } from './sidebar-state.ts';

test('reads the state from the cookie, also among other cookies', () => {
  for (const isExpanded of [true, false]) {
    const pair = sidebarCookie(isExpanded).split(';')[0] ?? '';
    expect(isSidebarExpanded(`a=1; ${pair}; b=2`)).toBe(isExpanded);
  }
});

test('without a cookie the sidebar is expanded if the screen has room for it', () => {
  expect(isSidebarExpanded('')).toBe(true);
  expect(isSidebarExpanded('', false)).toBe(false);
  expect(isSidebarExpanded('sidebar_state=expanded', false)).toBe(true);
  expect(isSidebarExpanded('other_sidebar_state=collapsed')).toBe(true);
});

test('the cookie lives for 7 days and only in the staff area', () => {
  expect(sidebarCookie(true)).toMatch(/; path=\/admin; max-age=604800;/);
});
