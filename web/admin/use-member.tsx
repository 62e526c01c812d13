// The member of staff in front of the screens, for whatever is shown behind the guard.
import { createContext, useContext } from 'react';
import type { Member } from './member.ts';

export const MemberScope = createContext<Member | null>(null);

/** @throws if used outside the staff layout */
export function useMember(): Member {
  const member = useContext(MemberScope);
  if (!member) throw new Error('There is no member of staff here');
  return member;
}
