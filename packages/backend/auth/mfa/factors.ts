// Rows of second factors: find them, and delete them with their effects.
import type { Session } from '../../database/database.ts';
import { AuthError } from '../auth-error.ts';
import { type AuthContext, at, type UserRequest } from '../context.ts';
import type { Credential } from '../passkeys/ceremony.ts';
import { isUuid, uuidParameter } from '../requests/fields.ts';
import type { FactorRow, SessionRow } from '../rows.ts';
import { type AuthenticationMethod, methodsIn, sessionGone } from '../sessions/sessions.ts';

/** A factor with its secret, which never leaves the service. */
export interface FactorWithSecret extends FactorRow {
  /** Secret of an authenticator app, base32. */
  secret: string | null;
  /** Last accepted time step of an authenticator app. */
  last_used_step: number | null;
  /** Credential of a registered WebAuthn factor. */
  web_authn_credential: Credential | null;
}

export type FactorType = FactorRow['factor_type'];

/** The `amr` method of a verified factor. */
export const methodOf: Readonly<Record<FactorType, AuthenticationMethod>> = {
  totp: 'totp',
  phone: 'mfa/phone',
  webauthn: 'mfa/webauthn',
};

/** How messages name a kind of factor. */
export const titleOf: Readonly<Record<FactorType, string>> = {
  totp: 'TOTP',
  phone: 'Phone',
  webauthn: 'WebAuthn',
};

/**
 * Finds the factor of a path.
 * @param lock locks it until the transaction ends, so that concurrent attempts are checked one by one
 * @throws AuthError 404 validation_failed for an invalid UUID; 404 mfa_factor_not_found when the user has no such factor
 */
export async function factorInPath(
  session: Session,
  parameters: Readonly<Record<string, string>>,
  userId: string,
  options: { lock?: boolean } = {},
): Promise<FactorWithSecret> {
  const { rows } = await session.query<FactorWithSecret>(
    `select id, user_id, friendly_name, factor_type, status, phone, last_challenged_at, created_at, updated_at,
       secret, last_used_step, web_authn_credential
     from auth.mfa_factors where id = $1::uuid and user_id = $2::uuid ${options.lock ? 'for update' : ''}`,
    [uuidParameter(parameters, 'factor_id'), userId],
  );
  const [factor] = rows;
  if (!factor) throw new AuthError(404, 'mfa_factor_not_found', 'Factor not found');
  return factor;
}

/** A pending challenge. */
export interface ChallengeRow {
  id: string;
  /** Hash of the code that was sent to a phone factor. */
  otp_code: string | null;
  failed_attempts: number;
  /** WebAuthn factors only. */
  web_authn_session_data: { type: 'create' | 'request'; challenge: string } | null;
}

/**
 * Finds the challenge of an answer. The factor must be locked.
 * @throws AuthError 422: mfa_factor_not_found for an unknown challenge, mfa_ip_address_mismatch when it was answered already or
 *   requested from another IP address, mfa_challenge_expired
 */
export async function findChallenge(
  tx: Session,
  context: AuthContext,
  factor: Pick<FactorRow, 'id'>,
  challengeId: string,
  ip: string | null,
): Promise<ChallengeRow> {
  const { rows } = isUuid(challengeId)
    ? await tx.query<ChallengeRow & { is_elsewhere: boolean; is_over: boolean }>(
        `select id, otp_code, failed_attempts, web_authn_session_data,
           verified_at is not null or ip_address is distinct from $3::inet as is_elsewhere,
           created_at <= $4::timestamptz as is_over
         from auth.mfa_challenges where id = $1::uuid and factor_id = $2::uuid`,
        [challengeId, factor.id, ip, at(context, -context.settings.mfa.challengeLifetime)],
      )
    : { rows: [] };
  const [challenge] = rows;
  if (!challenge) {
    throw new AuthError(422, 'mfa_factor_not_found', 'MFA factor with the provided challenge ID not found');
  }
  if (challenge.is_elsewhere) {
    throw new AuthError(422, 'mfa_ip_address_mismatch', 'Challenge and verify IP addresses mismatch.');
  }
  if (challenge.is_over || challenge.failed_attempts >= context.settings.otpAttempts) {
    throw new AuthError(
      422,
      'mfa_challenge_expired',
      `MFA challenge ${challenge.id} has expired, verify against another challenge or create a new challenge.`,
    );
  }
  return challenge;
}

/**
 * Deletes a factor. Sessions that it raised return to `aal1`, from their next access token on.
 */
export async function deleteFactor(tx: Session, context: AuthContext, factor: FactorRow): Promise<void> {
  await tx.query('delete from auth.mfa_factors where id = $1::uuid', [factor.id]);
  await tx.query(
    `with lowered as (
       update auth.sessions set aal = 'aal1', factor_id = null, updated_at = $3::timestamptz
       where user_id = $1::uuid and factor_id = $2::uuid returning id
     )
     delete from auth.mfa_amr_claims
     where session_id in (select id from lowered) and authentication_method = $4`,
    [factor.user_id, factor.id, at(context), methodOf[factor.factor_type]],
  );
}

/**
 * Whether a session began with a message that only the owner of the address could read. Limits of second factors count the two
 * kinds separately, so that someone with only the password cannot exhaust them for the owner, who signs in with an email link.
 */
export function proofOf({ claims }: Pick<UserRequest, 'claims'>): 'message' | 'password' {
  return methodsIn(claims).some((method) => messageMethods.includes(method)) ? 'message' : 'password';
}

const messageMethods = ['otp', 'recovery', 'magiclink', 'invite', 'email/signup'];

/** The session of a request. @throws AuthError 403 session_not_found for a token without one */
export function sessionOf(request: UserRequest): SessionRow {
  if (!request.session) throw sessionGone();
  return request.session;
}
