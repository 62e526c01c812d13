// The signed-in staff member, for components behind the guard.
import { createContext, useContext } from 'react';
import { mayRole, type StaffArea } from '../../../../domain/people/staff-rights.ts';
import type { Member } from './member.ts';

export const MemberScope = createContext<Member | null>(null);

/** @throws if used outside the staff layout */
export function useMember(): Member {
  const member = useContext(MemberScope);
  if (!member) throw new Error('useMember is called outside of the staff layout');
  return member;
}

/** Whether the member's role has an area. The database decides; screens leave out what it would refuse. */
export function useMay(): (area: StaffArea) => boolean {
  const { role } = useMember();
  return (area) => mayRole(role, area);
}
