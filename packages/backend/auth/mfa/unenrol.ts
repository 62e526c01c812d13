// DELETE /factors/{id}: deletes a factor.
import { audit } from '../audit.ts';
import { AuthError } from '../auth-error.ts';
import type { AuthContext, UserRequest } from '../context.ts';
import { deleteFactor, factorInPath, sessionOf } from './factors.ts';

/**
 * Deletes a factor of the signed-in user.
 * @returns 200 {id}
 * @throws AuthError insufficient_aal (422) for a verified factor in a session that has passed none, mfa_factor_not_found (404)
 */
export async function unenrolFactor(request: UserRequest, context: AuthContext): Promise<Response> {
  const session = sessionOf(request);
  const id = await context.database.transaction(async (tx) => {
    const factor = await factorInPath(tx, request.parameters, request.user.id, { lock: true });
    if (factor.status === 'verified' && session.aal !== 'aal2') {
      throw new AuthError(422, 'insufficient_aal', 'AAL2 required to unenroll verified factor');
    }
    await deleteFactor(tx, context, factor);
    await audit(tx, context, 'factor_unenrolled', request.user, request, {
      factor_id: factor.id,
      factor_status: factor.status,
      session_id: session.id,
    });
    return factor.id;
  });
  return Response.json({ id });
}
