// POST /factors/{id}/verify: answers a challenge. A right answer raises the session to aal2; a wrong one counts.
import type { Session } from '../../database/database.ts';
import { audit } from '../audit.ts';
import { AuthError, invalid } from '../auth-error.ts';
import { type AuthContext, at, type UserRequest } from '../context.ts';
import { forgetGuesses, limitSubject } from '../limits.ts';
import { type Credential, verifiedAuthentication, verifiedRegistration } from '../passkeys/ceremony.ts';
import { relyingPartyOf } from '../passkeys/relying-party.ts';
import { object, text } from '../requests/fields.ts';
import {
  answerTokens,
  findSession,
  sessionGone,
  type TokenResponse,
  upgradeSession,
} from '../sessions/sessions.ts';
import {
  type ChallengeRow,
  type FactorType,
  type FactorWithSecret,
  factorInPath,
  findChallenge,
  methodOf,
  proofOf,
  sessionOf,
  titleOf,
} from './factors.ts';
import { isPhoneCode } from './phone-code.ts';
import { matchingTotpStep } from './totp.ts';

/** Columns of a factor to update after a right answer. */
interface Accepted {
  usedStep?: number;
  credential?: Credential;
}

/**
 * Checks an answer. A right one verifies the factor, raises the session to `aal2`, ends the user's lower sessions and deletes
 * unverified factors of the kind.
 * @returns 200 with tokens
 * @throws AuthError 400 validation_failed; 422 mfa_verification_failed, mfa_challenge_expired, mfa_ip_address_mismatch,
 *   mfa_factor_not_found (the challenge), mfa_…_verify_not_enabled; 404 mfa_factor_not_found; 429 over_request_rate_limit
 */
export async function verifyFactor(request: UserRequest, context: AuthContext): Promise<Response> {
  const { database, settings } = context;
  const session = sessionOf(request);
  const { id, factor_type: type } = await factorInPath(database, request.parameters, request.user.id);
  const answer = { challengeId: text(request.body, 'challenge_id'), ...answerOf(request, type) };
  if (!settings.mfa[type].canVerify) {
    throw new AuthError(
      422,
      `mfa_${type}_verify_not_enabled`,
      `MFA verification is disabled for ${titleOf[type]}`,
    );
  }
  // Counted before the answer is checked, so that concurrent guesses count one by one.
  await limitSubject(context, 'factorVerify', session.id, settings.limits.factorVerify);
  const guesses = `${id} ${proofOf(request)}`;
  // A security key's signature cannot be guessed.
  if (type !== 'webauthn') await limitSubject(context, 'factorGuess', guesses, settings.limits.factorGuess);

  // A wrong answer is thrown after the transaction, because a rollback would undo the count.
  const tokens = await database.transaction(async (tx): Promise<TokenResponse | null> => {
    const factor = await factorInPath(tx, request.parameters, request.user.id, { lock: true });
    const challenge = await findChallenge(tx, context, factor, answer.challengeId, request.ip);
    const accepted = await check(factor, challenge, answer, context);
    if (!accepted) {
      await tx.query(
        'update auth.mfa_challenges set failed_attempts = failed_attempts + 1 where id = $1::uuid',
        [challenge.id],
      );
      return null;
    }
    if (!(await findSession(tx, session.id, { lock: true }))) throw sessionGone();
    await storeAccepted(tx, context, factor, challenge, accepted);
    await forgetGuesses(tx, ['factorGuess'], guesses, request.ip);
    await audit(tx, context, 'verification_attempted', request.user, request, {
      factor_id: factor.id,
      challenge_id: challenge.id,
      factor_type: type,
    });
    return upgradeSession(tx, context, { session, method: methodOf[type], factorId: factor.id });
  });
  if (!tokens) {
    const credentialName = { totp: 'TOTP code', phone: 'MFA Phone code', webauthn: 'WebAuthn response' }[
      type
    ];
    throw new AuthError(422, 'mfa_verification_failed', `Invalid ${credentialName} entered`);
  }
  return answerTokens(tokens);
}

interface Answer {
  code: string;
  webauthn: { type: 'create' | 'request'; response: unknown } | null;
}

function answerOf(request: UserRequest, type: FactorType): Answer {
  const code = text(request.body, 'code');
  if (type !== 'webauthn') {
    if (!code) throw invalid('Code needs to be non-empty');
    return { code, webauthn: null };
  }
  const webauthn = object(request.body, 'webauthn');
  if (!webauthn) throw invalid('WebAuthn config required');
  if (webauthn.type !== 'create' && webauthn.type !== 'request') {
    throw invalid('WebAuthn type must be create or request');
  }
  if (!webauthn.credential_response) throw invalid('credential_response required');
  return { code, webauthn: { type: webauthn.type, response: webauthn.credential_response } };
}

async function check(
  factor: FactorWithSecret,
  challenge: ChallengeRow,
  answer: Answer,
  context: AuthContext,
): Promise<Accepted | null> {
  if (factor.factor_type === 'totp') {
    const step = matchingTotpStep(factor.secret ?? '', answer.code, context.now().getTime());
    const isNew = step !== null && step > (factor.last_used_step ?? -1);
    return isNew ? { usedStep: step } : null;
  }
  if (factor.factor_type === 'phone') {
    return isPhoneCode(challenge.id, answer.code, challenge.otp_code) ? {} : null;
  }
  const sessionData = challenge.web_authn_session_data;
  if (!sessionData || !answer.webauthn || sessionData.type !== answer.webauthn.type) return null;
  const relyingParty = relyingPartyOf(context.settings);
  const { response } = answer.webauthn;
  const registered = factor.web_authn_credential;
  if (sessionData.type === 'create') {
    // A registration challenge from before the factor had its credential must not replace it.
    if (registered) return null;
    const credential = await verifiedRegistration(relyingParty, response, sessionData.challenge, 'factor');
    return credential && { credential };
  }
  if (!registered) return null;
  const used = await verifiedAuthentication(
    relyingParty,
    response,
    sessionData.challenge,
    registered,
    'factor',
  );
  return used && { credential: { ...registered, ...used } };
}

async function storeAccepted(
  tx: Session,
  context: AuthContext,
  factor: FactorWithSecret,
  challenge: ChallengeRow,
  { usedStep, credential }: Accepted,
): Promise<void> {
  await tx.query('update auth.mfa_challenges set verified_at = $2::timestamptz where id = $1::uuid', [
    challenge.id,
    at(context),
  ]);
  await tx.query(
    `update auth.mfa_factors set status = 'verified', updated_at = $2::timestamptz,
       last_used_step = coalesce($3::bigint, last_used_step),
       web_authn_credential = coalesce($4::jsonb, web_authn_credential),
       web_authn_aaguid = coalesce($5::uuid, web_authn_aaguid)
     where id = $1::uuid`,
    [factor.id, at(context), usedStep ?? null, credential ?? null, credential?.aaguid ?? null],
  );
  await tx.query(
    `delete from auth.mfa_factors
     where user_id = $1::uuid and factor_type = $2::auth.factor_type and status = 'unverified'`,
    [factor.user_id, factor.factor_type],
  );
}
