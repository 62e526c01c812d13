// What each role of a staff member may do. The database decides (`private.areas_of` in supabase/schemas/1_catalogue/01_rules.sql);
// screens leave out what it would refuse.
import type { AdminProfileRole } from '../../supabase/types.ts';

export type StaffRole = AdminProfileRole;

const counter = ['panel', 'deliveries', 'cash'] as const;
const staff = [...counter, 'orders', 'products', 'inquiries', 'messages', 'refunds', 'figures'] as const;
const owner = [...staff, 'approvals', 'reconciliation', 'personal_data', 'settings', 'team'] as const;

/** What a role may read and write: `deliveries` is Today and deliveries, `refunds` those up to the limit, `approvals` those above it. */
export type StaffArea = (typeof owner)[number];

export const areasOf: Record<StaffRole, readonly StaffArea[]> = { owner, staff, counter };

export const mayRole = (role: StaffRole, area: StaffArea): boolean => areasOf[role].includes(area);
