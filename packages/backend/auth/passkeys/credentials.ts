// Rows of passkeys and their challenges.
import type { Session } from '../../database/database.ts';
import { AuthError, invalid } from '../auth-error.ts';
import { type AuthContext, at } from '../context.ts';
import { isUuid, uuidParameter } from '../requests/fields.ts';
import { type Json, rfc3339 } from '../rows.ts';
import type { Credential } from './ceremony.ts';

export interface PasskeyRow {
  id: string;
  user_id: string;
  friendly_name: string;
  created_at: string;
  last_used_at: string | null;
}

const columns = 'id, user_id, friendly_name, created_at, last_used_at';

/** A passkey as clients see it. */
export function passkeyJson(passkey: PasskeyRow): Json {
  return {
    id: passkey.id,
    ...(passkey.friendly_name ? { friendly_name: passkey.friendly_name } : {}),
    created_at: rfc3339(passkey.created_at),
    ...(passkey.last_used_at ? { last_used_at: rfc3339(passkey.last_used_at) } : {}),
  };
}

/** A user's passkeys, oldest first. */
export async function passkeysOf(session: Session, userId: string): Promise<PasskeyRow[]> {
  const { rows } = await session.query<PasskeyRow>(
    `select ${columns} from auth.webauthn_credentials where user_id = $1::uuid order by created_at, id`,
    [userId],
  );
  return rows;
}

/** A user's passkeys as exclusions for authenticators, so that none creates a second one. */
export async function credentialsOf(
  session: Session,
  userId: string,
): Promise<Pick<Credential, 'id' | 'transports'>[]> {
  const { rows } = await session.query<Pick<Credential, 'id' | 'transports'>>(
    'select credential_id as id, transports from auth.webauthn_credentials where user_id = $1::uuid',
    [userId],
  );
  return rows;
}

/** Stores a passkey. @throws DatabaseError 23505 when the credential is registered already */
export async function addPasskey(
  tx: Session,
  context: AuthContext,
  userId: string,
  credential: Credential,
): Promise<PasskeyRow> {
  const { rows } = await tx.query<PasskeyRow>(
    `insert into auth.webauthn_credentials (user_id, credential_id, public_key, attestation_type, aaguid, sign_count,
       transports, backup_eligible, backed_up, created_at, updated_at)
     values ($1::uuid, $2, $3, 'none', $4::uuid, $5::bigint, $6::jsonb, $7::boolean, $8::boolean, $9::timestamptz,
       $9::timestamptz)
     returning ${columns}`,
    [
      userId,
      credential.id,
      credential.publicKey,
      credential.aaguid,
      credential.counter,
      JSON.stringify(credential.transports),
      credential.isBackupEligible,
      credential.isBackedUp,
      at(context),
    ],
  );
  const [row] = rows;
  if (!row) throw new Error('the passkey was not created');
  return row;
}

/** A locked passkey with its key, so that one sign-in at a time checks and raises its counter. */
export async function lockCredential(
  tx: Session,
  credentialId: string,
): Promise<(Pick<Credential, 'id' | 'publicKey' | 'counter'> & { userId: string }) | null> {
  const { rows } = await tx.query<Pick<Credential, 'id' | 'publicKey' | 'counter'> & { userId: string }>(
    `select credential_id as id, public_key as "publicKey", sign_count as counter, user_id as "userId"
     from auth.webauthn_credentials where credential_id = $1 for update`,
    [credentialId],
  );
  return rows[0] ?? null;
}

/** Records the use of a passkey. */
export async function noteUse(
  tx: Session,
  context: AuthContext,
  credentialId: string,
  used: Pick<Credential, 'counter' | 'isBackedUp'>,
): Promise<void> {
  await tx.query(
    `update auth.webauthn_credentials
     set sign_count = $2::bigint, backed_up = $3::boolean, last_used_at = $4::timestamptz, updated_at = $4::timestamptz
     where credential_id = $1`,
    [credentialId, used.counter, used.isBackedUp, at(context)],
  );
}

const notFound = () => new AuthError(404, 'webauthn_credential_not_found', 'Passkey not found');

/**
 * Renames the passkey of a path.
 * @throws AuthError 404: validation_failed for an invalid UUID, webauthn_credential_not_found, also for another user's
 */
export async function renamePasskey(
  session: Session,
  context: AuthContext,
  parameters: Readonly<Record<string, string>>,
  userId: string,
  name: string,
): Promise<PasskeyRow> {
  const { rows } = await session.query<PasskeyRow>(
    `update auth.webauthn_credentials set friendly_name = $3, updated_at = $4::timestamptz
     where id = $1::uuid and user_id = $2::uuid returning ${columns}`,
    [uuidParameter(parameters, 'passkey_id'), userId, name, at(context)],
  );
  const [row] = rows;
  if (!row) throw notFound();
  return row;
}

/** Deletes the passkey of a path. @throws as renamePasskey */
export async function deletePasskey(
  session: Session,
  parameters: Readonly<Record<string, string>>,
  userId: string,
): Promise<void> {
  const { rowCount } = await session.query(
    'delete from auth.webauthn_credentials where id = $1::uuid and user_id = $2::uuid',
    [uuidParameter(parameters, 'passkey_id'), userId],
  );
  if (rowCount === 0) throw notFound();
}

type ChallengeType = 'registration' | 'authentication';

/**
 * Stores a challenge until it is answered.
 * @param userId who may answer; null for any user
 * @returns its id and expiry (seconds since 1970)
 */
export async function storeChallenge(
  session: Session,
  context: AuthContext,
  type: ChallengeType,
  userId: string | null,
  challenge: string,
): Promise<{ id: string; expiresAt: number }> {
  const { challengeLifetime } = context.settings.passkeys;
  const { rows } = await session.query<{ id: string }>(
    `insert into auth.webauthn_challenges (user_id, challenge_type, session_data, created_at, expires_at)
     values ($1::uuid, $2, $3::jsonb, $4::timestamptz, $5::timestamptz) returning id`,
    [userId, type, { challenge }, at(context), at(context, challengeLifetime)],
  );
  const [row] = rows;
  if (!row) throw new Error('the challenge was not created');
  return { id: row.id, expiresAt: Math.floor(context.now().getTime() / 1000) + challengeLifetime };
}

/**
 * Takes a challenge: it can be answered once.
 * @returns the challenge, base64url
 * @throws AuthError 400: validation_failed, webauthn_challenge_not_found (also when it is another user's, was answered, or is
 *   of the other kind), webauthn_challenge_expired
 */
export async function takeChallenge(
  session: Session,
  context: AuthContext,
  type: ChallengeType,
  userId: string | null,
  id: string,
): Promise<string> {
  if (!id) throw invalid('challenge_id is required');
  if (!isUuid(id)) throw invalid('challenge_id must be a valid UUID');
  const { rows } = await session.query<{ session_data: { challenge: string }; is_over: boolean }>(
    `delete from auth.webauthn_challenges
     where id = $1::uuid and challenge_type = $2 and user_id is not distinct from $3::uuid
     returning session_data, expires_at <= $4::timestamptz as is_over`,
    [id, type, userId, at(context)],
  );
  const [row] = rows;
  if (!row) {
    throw new AuthError(400, 'webauthn_challenge_not_found', 'Challenge not found or already used');
  }
  if (row.is_over) throw new AuthError(400, 'webauthn_challenge_expired', 'Challenge has expired');
  return row.session_data.challenge;
}

/** 400 webauthn_verification_failed. */
export const verificationFailed = () =>
  new AuthError(400, 'webauthn_verification_failed', 'Credential verification failed');
