// GET, PATCH and DELETE /passkeys: a user's own passkeys and, with the secret key, those of others.
import { audit } from '../audit.ts';
import { invalid } from '../auth-error.ts';
import type { AuthContext, AuthRequest, UserRequest } from '../context.ts';
import { userInPath } from '../mfa/admin.ts';
import { text } from '../requests/fields.ts';
import type { UserRow } from '../rows.ts';
import { deletePasskey, passkeyJson, passkeysOf, renamePasskey } from './credentials.ts';
import { checkMayManage } from './registration.ts';

const maxNameLength = 120;

/** Lists a user's own passkeys. @returns 200 with an array of {id, friendly_name?, created_at, last_used_at?} */
export async function listOwn(request: UserRequest, context: AuthContext): Promise<Response> {
  return Response.json((await passkeysOf(context.database, request.user.id)).map(passkeyJson));
}

/**
 * Renames a passkey.
 * @returns 200 with the passkey
 * @throws AuthError 400 validation_failed, 404 webauthn_credential_not_found
 */
export async function renameOwn(request: UserRequest, context: AuthContext): Promise<Response> {
  const name = text(request.body, 'friendly_name');
  if (!name) throw invalid('friendly_name is required');
  if ([...name].length > maxNameLength) {
    throw invalid(`friendly_name must be ${maxNameLength} characters or less`);
  }
  const { parameters, user } = request;
  const passkey = await context.database.transaction(async (tx) => {
    const renamed = await renamePasskey(tx, context, parameters, user.id, name);
    await audit(tx, context, 'passkey_updated', user, request, { passkey_id: renamed.id });
    return renamed;
  });
  return Response.json(passkeyJson(passkey));
}

/** Deletes a passkey. @returns 204 @throws AuthError 403 insufficient_aal, 404 webauthn_credential_not_found */
export async function deleteOwn(request: UserRequest, context: AuthContext): Promise<Response> {
  await checkMayManage(request, context);
  await remove(request, context, request.user.id, request.user);
  return new Response(null, { status: 204 });
}

/** Lists a user's passkeys. @throws AuthError 404 user_not_found */
export async function listOf(request: AuthRequest, context: AuthContext): Promise<Response> {
  const { id } = await userInPath(request, context);
  return Response.json((await passkeysOf(context.database, id)).map(passkeyJson));
}

/** Deletes a user's passkey. @returns 204 @throws AuthError 404 user_not_found, webauthn_credential_not_found */
export async function deleteOf(request: AuthRequest, context: AuthContext): Promise<Response> {
  const { id } = await userInPath(request, context);
  await remove(request, context, id, null);
  return new Response(null, { status: 204 });
}

async function remove(
  request: AuthRequest,
  context: AuthContext,
  userId: string,
  actor: UserRow | null,
): Promise<void> {
  await context.database.transaction(async (tx) => {
    await deletePasskey(tx, request.parameters, userId);
    await audit(tx, context, 'passkey_deleted', actor, request, {
      user_id: userId,
      passkey_id: request.parameters.passkey_id,
    });
  });
}
