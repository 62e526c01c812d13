// The team as owners see it, and what they change.
import { useQuery } from '@tanstack/react-query';
import type { StaffRole } from '../../../domain/people/staff-rights.ts';
import type { Database } from '../../../supabase/types.ts';
import { ShownError } from '../../lib/shown-error.ts';
import { dataOf } from '../data/table-answer.ts';
import { useSave } from '../data/use-save.ts';
import { useMember } from '../layout/roles/use-member.tsx';
import { useShop } from '../messages/use-shop.ts';

export type TeamMember = Omit<Database['public']['Functions']['team']['Returns'][number], 'role'> & {
  role: StaffRole;
};

export function useTeam() {
  const { tables } = useMember().staff;
  return useQuery({
    queryKey: ['team', 'members'],
    queryFn: async ({ signal }) => dataOf(await tables.rpc('team').abortSignal(signal)) as TeamMember[],
  });
}

const week = 7 * 24 * 3600_000;

/** Second factors that others removed within a week, newest first. */
export function useRemovedFactors() {
  const { staff, email } = useMember();
  return useQuery({
    queryKey: ['team', 'removed-factors'],
    queryFn: async ({ signal }) =>
      dataOf(
        await staff.tables
          .from('audit_events')
          .select('id, kind, actor_email, subject, happened_at')
          .in('kind', ['second_factor_reset', 'recovery_code_used'])
          .neq('actor_email', email)
          .gte('happened_at', new Date(Date.now() - week).toISOString())
          .order('happened_at', { ascending: false })
          .limit(5)
          .abortSignal(signal),
      ),
  }).data;
}

/** What a member is called: the name, or the email address. */
export const nameOf = ({ name, email }: Pick<TeamMember, 'name' | 'email'>): string => name || email;

const refresh = ['team', 'staff-names'];

export interface InvitationForm {
  email: string;
  name: string;
  role: StaffRole;
  way: 'mail' | 'link';
}

/** @param onInvited receives the link that the owner sends; null if it was emailed */
export function useInvite(onInvited: (form: InvitationForm, link: string | null) => void) {
  const { staff } = useMember();
  const { publicUrl } = useShop();
  return useSave<InvitationForm, string | null>({
    write: async (form) => {
      const answer = await staff.callPayments<{ problem?: string; tokenHash?: string }>({
        action: 'invite-member',
        ...form,
        returnTo: `${publicUrl}/admin/reset-password`,
      });
      if (answer.problem) throw new ShownError(answer.problem);
      if (form.way === 'mail') return null;
      const query = new URLSearchParams({ token_hash: answer.tokenHash ?? '', type: 'invite' });
      return `${publicUrl}/admin/confirm?${query}`;
    },
    failure: 'The invitation could not be sent',
    refresh,
    isShownElsewhere: () => true,
    onSuccess: (link, form) => onInvited(form, link ?? null),
  });
}

export interface MemberChange {
  member: TeamMember;
  role?: StaffRole;
  name?: string;
  is_active?: boolean;
}

export function useChangeMember(onSuccess?: () => void) {
  const { tables } = useMember().staff;
  return useSave<MemberChange, unknown>({
    write: async ({ member, ...change }) =>
      dataOf(await tables.rpc('change_member', { member_id: member.user_id, ...change })),
    success: (_, { member, is_active }) =>
      is_active === false
        ? `${nameOf(member)} has no access any more`
        : is_active
          ? `${nameOf(member)} has access again`
          : 'Saved',
    failure: 'Failed to save the change',
    refresh,
    ...(onSuccess ? { onSuccess } : {}),
  });
}

export function useWithdrawInvitation(onSuccess: () => void) {
  const { tables } = useMember().staff;
  return useSave<TeamMember, unknown>({
    write: async ({ user_id }) => dataOf(await tables.rpc('withdraw_invitation', { member_id: user_id })),
    success: 'The invitation is withdrawn',
    failure: 'Failed to withdraw the invitation',
    refresh,
    onSuccess,
  });
}

export function useResetSecondFactor(onSuccess: () => void) {
  const { tables } = useMember().staff;
  return useSave<TeamMember, unknown>({
    write: async ({ user_id }) => dataOf(await tables.rpc('reset_second_factor', { member_id: user_id })),
    success: (_, member) => `${nameOf(member)} signs in with the password alone now`,
    failure: 'Failed to reset the second factor',
    refresh,
    onSuccess,
  });
}
