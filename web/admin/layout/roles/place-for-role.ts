// Where a link leads for a role that lacks its page.
import type { StaffRole } from '../../../../domain/people/staff-rights.ts';
import { mayOpen } from './screen-areas.ts';

/** An order opens above the list of orders, and above Today for a role without the list. */
export function placeForRole(role: StaffRole, pathname: string): string {
  const order = /^\/admin\/orders\/(?!new$)([^/]+)$/.exec(pathname)?.[1];
  return order && !mayOpen(role, pathname) ? `/admin/today/${order}` : pathname;
}
