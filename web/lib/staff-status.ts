// What the panel knows of a user, with and without the auth client (`staff.ts`, `staff-auth.ts`).
import type { Factor } from '@supabase/auth-js';
import type { PostgrestClient } from '@supabase/postgrest-js';
import { mayRole, type StaffRole } from '../../domain/people/staff-rights.ts';
import type { Database } from '../../supabase/types.ts';
import { noteReaderOfOrders } from './browser/early-requests.ts';

export const storageKey = 'jani.staff';
export const passwordResetPath = '/admin/reset-password';

/** The current status of a user in the staff panel. */
export type StaffStatus =
  | { is: 'signed out' }
  /** `isUnanswered`: the check failed, for example without a connection. */
  | { is: 'not staff'; email: string; isUnanswered?: true }
  /** Staff with a second factor that this session has not verified. */
  | { is: 'second step'; email: string; factors: Factor[] }
  | { is: 'staff'; id: string; email: string; role: StaffRole; name: string };

export const readProfile = (tables: PostgrestClient<Database>, userId: string) =>
  tables
    .from('admin_profiles')
    .select('is_active, role, name')
    .eq('user_id', userId)
    .eq('is_active', true)
    .maybeSingle();

export function staffFrom(
  { id, email = '' }: { id: string; email?: string },
  { role, name }: { role: StaffRole; name: string },
  token: string,
): StaffStatus {
  noteReaderOfOrders(mayRole(role, 'orders') ? token : '');
  return { is: 'staff', id, email, role, name };
}
