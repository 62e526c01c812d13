// The member of staff whose screens are shown, as the guard established it for every loader behind it.
import { createContext } from 'react-router';
import type { Staff, StaffStatus } from '../lib/staff.ts';

interface EndedSession {
  status: StaffStatus;
  /** Something on the screen is not saved. */
  hasUnsaved: boolean;
}

export interface Member {
  staff: Staff;
  id: string;
  email: string;
  /** The session has ended under the open screen. */
  ended?: EndedSession;
}

export const memberContext = createContext<Member>();
