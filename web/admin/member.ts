// The member of staff whose screens are shown, as the guard established it for every loader behind it.
import { createContext } from 'react-router';
import type { Staff } from '../lib/staff.ts';

export interface Member {
  staff: Staff;
  id: string;
  email: string;
  /** The session has ended under something that is not saved yet. */
  isSignedOut?: boolean;
}

export const memberContext = createContext<Member>();
