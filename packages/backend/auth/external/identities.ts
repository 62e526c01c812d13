// DELETE /user/identities/{id}: removes one of several identities.
import type { Session } from '../../database/database.ts';
import { audit } from '../audit.ts';
import { AuthError } from '../auth-error.ts';
import { dropTokens } from '../codes/one-time-tokens.ts';
import type { AuthContext, UserRequest } from '../context.ts';
import { at } from '../context.ts';
import { uuidParameter } from '../requests/fields.ts';
import type { IdentityRow, UserRow } from '../rows.ts';
import { findUser, identitiesOf, listProviders, updateUser } from '../users/users.ts';
import { linkingDisabled } from './providers/sign-in-page.ts';

/**
 * Removes an identity of the signed-in user.
 * @throws AuthError manual_linking_disabled, validation_failed (404), single_identity_not_deletable,
 *   identity_not_found, email_conflict_identity_not_deletable (422)
 */
export async function unlinkIdentity(request: UserRequest, context: AuthContext): Promise<Response> {
  if (!context.settings.isManualLinkingEnabled) throw linkingDisabled();
  const id = uuidParameter(request.parameters, 'identity_id');
  await context.database.transaction(async (tx) => {
    const user = await findUser(tx, { id: request.user.id }, { lock: true });
    if (!user) throw new AuthError(403, 'user_not_found', 'User from sub claim in JWT does not exist');
    const identities = await identitiesOf(tx, user.id);
    if (identities.length <= 1) {
      const message = 'User must have at least 1 identity after unlinking';
      throw new AuthError(422, 'single_identity_not_deletable', message);
    }
    const removed = identities.find((identity) => identity.id === id);
    if (!removed) throw new AuthError(422, 'identity_not_found', "Identity doesn't exist");
    await audit(tx, context, 'identity_unlinked', user, request, {
      identity_id: removed.id,
      provider: removed.provider,
      provider_id: removed.provider_id,
    });
    await tx.query('delete from auth.identities where id = $1::uuid', [removed.id]);
    if (removed.provider === 'phone') {
      await updateUser(tx, context, user.id, { phone: null, phone_confirmed_at: null });
    } else {
      await retainAddress(
        tx,
        context,
        user,
        identities.filter((identity) => identity !== removed),
      );
    }
    await listProviders(tx, user.id);
  });
  return Response.json({});
}

/** The user's address must belong to a remaining identity: verified ones first, then the oldest. */
async function retainAddress(
  tx: Session,
  context: AuthContext,
  user: UserRow,
  left: IdentityRow[],
): Promise<void> {
  if (left.some(({ email }) => (email ?? '') === (user.email ?? ''))) return;
  const isVerified = ({ identity_data: data }: IdentityRow) => data.email_verified === true;
  const rank = (identity: IdentityRow) => (!identity.email ? 2 : isVerified(identity) ? 0 : 1);
  for (const identity of [...left].sort((a, b) => rank(a) - rank(b))) {
    const holder = identity.email ? await findUser(tx, { email: identity.email }) : null;
    if (holder && holder.id !== user.id) continue;
    const isConfirmed =
      identity.email !== null && (isVerified(identity) || context.settings.autoconfirmsEmail);
    // Tokens sent to the old address must not confirm the new one.
    await dropTokens(tx, user.id);
    await updateUser(tx, context, user.id, {
      email: identity.email,
      email_change: null,
      email_confirmed_at: isConfirmed ? (user.email_confirmed_at ?? at(context)) : null,
      ...(isConfirmed ? {} : { raw_user_meta_data: { ...user.raw_user_meta_data, email_verified: false } }),
    });
    return;
  }
  throw new AuthError(
    422,
    'email_conflict_identity_not_deletable',
    'Unable to unlink identity due to email conflict',
  );
}
