import { expect, test } from 'vitest';
import { areasOf } from '../domain/people/staff-rights.ts';
import { placeForRole } from './admin/layout/roles/place-for-role.ts';
import { areaPathOf, homeOf, mayOpen } from './admin/layout/roles/screen-areas.ts';
import routes from './routes.ts';

const pages = routes
  .filter(({ path, children }) => path === 'admin' && children)
  .flatMap(({ children = [] }) =>
    children.flatMap(({ path }) => (path ? [`/admin/${path.replace('/:', '/x:')}`] : [])),
  );

test('every page of the panel has an area of its own or that of the page above it', () => {
  expect(pages.length).toBeGreaterThan(14);
  expect(pages.filter((page) => areaPathOf(page) === '/admin')).toEqual([]);
});

test('an owner opens every page, the counter Today, deliveries, riders and the own account', () => {
  expect(pages.filter((page) => !mayOpen('owner', page))).toEqual([]);
  expect([...new Set(pages.filter((page) => mayOpen('counter', page)).map(areaPathOf))].sort()).toEqual([
    '/admin/account',
    '/admin/deliveries',
    '/admin/riders',
    '/admin/today',
  ]);
  const closed = pages.filter((page) => !mayOpen('staff', page)).map((page) => page.split('/')[2]);
  expect([...new Set(closed)].sort()).toEqual(['reconciliation', 'settings']);
  expect(areasOf.owner.length).toBeGreaterThan(areasOf.staff.length);
});

test('the counter begins with Today, all others with the dashboard', () => {
  expect([homeOf('owner'), homeOf('staff'), homeOf('counter')]).toEqual([
    '/admin/dashboard',
    '/admin/dashboard',
    '/admin/today',
  ]);
});

test('an order opens above Today for a role without the list of orders', () => {
  expect(placeForRole('counter', '/admin/orders/JJ-20261121-1001')).toBe('/admin/today/JJ-20261121-1001');
  expect(placeForRole('staff', '/admin/orders/JJ-20261121-1001')).toBe('/admin/orders/JJ-20261121-1001');
  expect(placeForRole('counter', '/admin/orders/new')).toBe('/admin/orders/new');
  expect(placeForRole('counter', '/admin/orders')).toBe('/admin/orders');
});
