// POST /passkeys/registration/options and /verify: a signed-in user registers a passkey.
import { DatabaseError } from '../../database/database.ts';
import { audit } from '../audit.ts';
import { AuthError } from '../auth-error.ts';
import type { AuthContext, UserRequest } from '../context.ts';
import { object, text } from '../requests/fields.ts';
import type { UserRow } from '../rows.ts';
import { factorsOf, findUser } from '../users/users.ts';
import { registrationOptions, verifiedRegistration } from './ceremony.ts';
import {
  addPasskey,
  credentialsOf,
  passkeyJson,
  storeChallenge,
  takeChallenge,
  verificationFailed,
} from './credentials.ts';
import { relyingPartyOf } from './relying-party.ts';

/**
 * Returns the browser's options for registration.
 * @returns 200 {challenge_id, options, expires_at (seconds since 1970)}
 * @throws AuthError insufficient_aal (403), too_many_passkeys, validation_failed for users of single sign-on (422)
 */
export async function offerRegistration(request: UserRequest, context: AuthContext): Promise<Response> {
  const { database, settings } = context;
  const { user } = request;
  checkOwnAccount(user);
  await checkMayManage(request, context);
  const existing = await credentialsOf(database, user.id);
  checkRoom(existing.length, context);
  const name = user.email || user.phone || user.id;
  const options = await registrationOptions(
    relyingPartyOf(settings),
    { id: user.id, name, displayName: nameIn(user.raw_user_meta_data) ?? name },
    existing,
    'passkey',
  );
  const { id, expiresAt } = await storeChallenge(
    database,
    context,
    'registration',
    user.id,
    options.challenge,
  );
  return Response.json(
    { challenge_id: id, options, expires_at: expiresAt },
    { headers: { 'cache-control': 'no-store' } },
  );
}

/**
 * Stores the new passkey.
 * @returns 200 {id, friendly_name?, created_at}
 * @throws AuthError as takeChallenge and offerRegistration; webauthn_verification_failed (400), webauthn_credential_exists
 *   (422)
 */
export async function verifyRegistration(request: UserRequest, context: AuthContext): Promise<Response> {
  const { database, settings } = context;
  const { user } = request;
  checkOwnAccount(user);
  await checkMayManage(request, context);
  const response = credentialIn(request);
  const challengeId = text(request.body, 'challenge_id');
  const challenge = await takeChallenge(database, context, 'registration', user.id, challengeId);
  const credential = await verifiedRegistration(relyingPartyOf(settings), response, challenge, 'passkey');
  if (!credential) throw verificationFailed();
  try {
    const passkey = await database.transaction(async (tx) => {
      // Registrations of a user run one by one, or two concurrent ones could exceed the maximum.
      await findUser(tx, { id: user.id }, { lock: true });
      checkRoom((await credentialsOf(tx, user.id)).length, context);
      const added = await addPasskey(tx, context, user.id, credential);
      await audit(tx, context, 'passkey_created', user, request, { passkey_id: added.id });
      return added;
    });
    return Response.json(passkeyJson(passkey));
  } catch (error) {
    if (!(error instanceof DatabaseError) || error.code !== '23505') throw error;
    throw new AuthError(422, 'webauthn_credential_exists', 'This credential is already registered');
  }
}

/** The browser's answer. @throws AuthError 400 validation_failed */
export function credentialIn(request: Pick<UserRequest, 'body'>): unknown {
  const credential = object(request.body, 'credential');
  if (!credential) throw new AuthError(400, 'validation_failed', 'credential is required');
  return credential;
}

/**
 * A passkey opens the account, so adding or deleting one requires the full sign-in.
 * @throws AuthError 403 insufficient_aal when the user has a second factor and has not passed it
 */
export async function checkMayManage(request: UserRequest, context: AuthContext): Promise<void> {
  const { user, session } = request;
  if (session?.aal === 'aal2') return;
  const factors = await factorsOf(context.database, user.id);
  if (factors.some(({ status }) => status === 'verified')) {
    throw new AuthError(
      403,
      'insufficient_aal',
      'AAL2 session is required to manage passkeys when MFA is enabled',
    );
  }
}

function checkOwnAccount(user: Pick<UserRow, 'is_sso_user'>): void {
  if (user.is_sso_user) {
    throw new AuthError(422, 'validation_failed', 'SSO users cannot register passkeys');
  }
}

function checkRoom(count: number, { settings }: AuthContext): void {
  if (count >= settings.passkeys.maximum) {
    throw new AuthError(422, 'too_many_passkeys', 'Maximum number of passkeys reached');
  }
}

function nameIn(metadata: Readonly<Record<string, unknown>>): string | null {
  const name = metadata.full_name ?? metadata.name;
  return typeof name === 'string' && name ? name.slice(0, 64) : null;
}
