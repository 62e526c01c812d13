// The area of each page of the panel: a role without it gets a sentence instead of the page.
import { mayRole, type StaffArea, type StaffRole } from '../../../../domain/people/staff-rights.ts';

/** Paths below a listed one have its area, unless they are listed themselves. */
const areas: Readonly<Record<string, StaffArea>> = {
  '/admin': 'panel',
  '/admin/account': 'panel',
  '/admin/today': 'deliveries',
  '/admin/deliveries': 'deliveries',
  '/admin/riders': 'deliveries',
  '/admin/dashboard': 'figures',
  '/admin/day': 'figures',
  '/admin/reports': 'figures',
  '/admin/products': 'products',
  '/admin/orders': 'orders',
  '/admin/customers': 'orders',
  '/admin/inquiries': 'inquiries',
  '/admin/messages': 'messages',
  '/admin/reconciliation': 'reconciliation',
  '/admin/reconciliation/kept': 'refunds',
  '/admin/settings': 'settings',
  '/admin/settings/areas': 'settings',
  '/admin/settings/discounts': 'settings',
  '/admin/settings/quotes': 'settings',
  '/admin/settings/customer-data': 'personal_data',
  '/admin/settings/team': 'team',
};

/** The listed path that decides about a page. */
export function areaPathOf(path: string): string {
  const [pathname = ''] = path.split(/[?#]/, 1);
  const parts = pathname.replace(/\/$/, '').split('/');
  for (let length = parts.length; length > 1; length -= 1) {
    const parent = parts.slice(0, length).join('/');
    if (Object.hasOwn(areas, parent)) return parent;
  }
  return '/admin';
}

export const mayOpen = (role: StaffRole, path: string): boolean =>
  mayRole(role, areas[areaPathOf(path)] ?? 'panel');

/** The page after the sign-in. */
export const homeOf = (role: StaffRole): string =>
  mayOpen(role, '/admin/dashboard') ? '/admin/dashboard' : '/admin/today';
