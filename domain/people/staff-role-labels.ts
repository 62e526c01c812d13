// What screens call a role of staff.
import type { StaffRole } from './staff-rights.ts';

const labels: Record<StaffRole, string> = { owner: 'Owner', staff: 'Staff', counter: 'Counter' };

export const labelOfRole = (role: StaffRole): string => labels[role];
