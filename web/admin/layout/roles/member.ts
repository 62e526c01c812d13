// The staff member whose screens are shown. The guard sets it for all loaders behind it.
import { createContext } from 'react-router';
import type { StaffRole } from '../../../../domain/people/staff-rights.ts';
import type { Staff } from '../../../lib/staff.ts';
import type { StaffStatus } from '../../../lib/staff-status.ts';

interface EndedSession {
  status: StaffStatus;
  /** The screen has unsaved changes. */
  hasUnsaved: boolean;
}

export interface Member {
  staff: Staff;
  id: string;
  email: string;
  role: StaffRole;
  /** Empty: none was given. */
  name: string;
  /** The session has ended while the screen is open. */
  ended?: EndedSession;
}

export const memberContext = createContext<Member>();
