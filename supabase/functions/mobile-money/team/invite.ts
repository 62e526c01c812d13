// `invite-member`: an owner invites a member of the team, by email or by a link that the owner sends. It is here, because no other code
// of a hosted project has the secret key.
import type { StaffRole } from '../../../../domain/people/staff-rights.ts';
import type { MobileMoneyContext } from '../context.ts';
import { ProcedureError } from '../database/client.ts';
import { bearerTokenOf } from '../secrets.ts';

/** `tokenHash`: of the link, only for `way: 'link'`. `code`: of a refusal (docs/error-codes.md). */
export type InviteAnswer = { invited: true; tokenHash?: string } | { problem: string; code?: string };

/**
 * Invites, or sends an invitation again.
 * @param fields `email`, `name`, `role`; `way`: `mail` sends the link, `link` returns its token; `returnTo`: where the email's link leads
 * @param invitedBy user id of the owner
 */
export async function inviteMember(
  context: MobileMoneyContext,
  request: Request,
  fields: Record<string, unknown>,
  invitedBy: string,
): Promise<InviteAnswer> {
  const text = (name: string) => (typeof fields[name] === 'string' ? fields[name].trim().slice(0, 400) : '');
  const [email, name, role] = [text('email'), text('name'), text('role')];
  const way = fields.way === 'link' ? 'link' : 'mail';
  try {
    await context.database.callAs(bearerTokenOf(request.headers) ?? '', 'check_invitation', {
      email,
      role,
      name,
    });
    const made = await context.accounts.invite({ email, way, returnTo: text('returnTo') });
    if ('problem' in made) {
      context.log({ level: 'warn', event: 'invitation refused', detail: `${made.status} ${made.problem}` });
      return { problem: describeProblem(made) };
    }
    await context.database.call('record_invitation', {
      member_id: made.userId,
      role: role as StaffRole,
      name,
      invited_by: invitedBy,
    });
    return { invited: true, ...(way === 'link' ? { tokenHash: made.tokenHash } : {}) };
  } catch (error) {
    if (!(error instanceof ProcedureError)) throw error;
    return { problem: error.message, code: error.code };
  }
}

function describeProblem({ status, problem }: { status: number; problem: string }): string {
  if (status === 429) return 'Too many invitations in a short time. Please wait a minute and try again';
  if (problem === 'email_exists') return 'This address has an account already';
  if (problem === 'email_address_invalid') return 'Please enter a valid email address';
  return 'The invitation could not be sent. Please try again';
}
