// POST /factors/{id}/challenge: starts a challenge, valid for five minutes.
import { randomUUID } from 'node:crypto';
import { audit } from '../audit.ts';
import { AuthError } from '../auth-error.ts';
import { newCode, testCode } from '../codes/one-time-tokens.ts';
import { type AuthContext, at, type UserRequest } from '../context.ts';
import { enforceCooldown } from '../limits.ts';
import { authenticationOptions, type Credential, registrationOptions } from '../passkeys/ceremony.ts';
import { relyingPartyOf } from '../passkeys/relying-party.ts';
import { text } from '../requests/fields.ts';
import type { Json } from '../rows.ts';
import { textChannel } from '../users/addresses.ts';
import { type FactorWithSecret, factorInPath, proofOf, titleOf } from './factors.ts';
import { hashPhoneCode } from './phone-code.ts';

/** Additions of a kind of factor to a challenge: columns to store, fields to return. */
interface ChallengeData {
  code?: string;
  stored?: Json;
  response?: Json;
}

/**
 * Creates a challenge: sends a code for a phone factor, returns the browser's options for a WebAuthn factor.
 * @returns 200 {id, type, expires_at (seconds since 1970), webauthn? {type create|request, credential_options}}
 * @throws AuthError mfa_…_verify_not_enabled (422), mfa_factor_not_found (404), over_sms_send_rate_limit (429)
 */
export async function challengeFactor(request: UserRequest, context: AuthContext): Promise<Response> {
  const { database, settings } = context;
  const factor = await factorInPath(database, request.parameters, request.user.id);
  const type = factor.factor_type;
  if (!settings.mfa[type].canVerify) {
    throw new AuthError(
      422,
      `mfa_${type}_verify_not_enabled`,
      `MFA verification is disabled for ${titleOf[type]}`,
    );
  }
  const id = randomUUID();
  const createChallenge = { totp: challengeTotp, phone: challengePhone, webauthn: challengeWebauthn }[type];
  const { code, stored, response } = await createChallenge(factor, request, context);
  await database.transaction(async (tx) => {
    await tx.query(
      `insert into auth.mfa_challenges (id, factor_id, created_at, ip_address, otp_code, web_authn_session_data)
       values ($1::uuid, $2::uuid, $3::timestamptz, $4::inet, $5, $6::jsonb)`,
      [id, factor.id, at(context), request.ip, code ? hashPhoneCode(id, code) : null, stored ?? null],
    );
    await tx.query('update auth.mfa_factors set last_challenged_at = $2::timestamptz where id = $1::uuid', [
      factor.id,
      at(context),
    ]);
    await audit(tx, context, 'challenge_created', request.user, request, {
      factor_id: factor.id,
      factor_status: factor.status,
    });
  });
  const expiresAt = Math.floor(context.now().getTime() / 1000) + settings.mfa.challengeLifetime;
  return Response.json(
    { id, type, expires_at: expiresAt, ...response },
    { headers: { 'cache-control': 'no-store' } },
  );
}

async function challengeTotp(): Promise<ChallengeData> {
  return {};
}

async function challengePhone(
  factor: FactorWithSecret,
  request: UserRequest,
  context: AuthContext,
): Promise<ChallengeData> {
  const channel = textChannel(text(request.body, 'channel'));
  const phone = factor.phone ?? '';
  const address = `${factor.id} ${proofOf(request)}`;
  await enforceCooldown(context, { channel: 'sms', purpose: 'mfa', address, ip: request.ip });
  const fixed = testCode(context, phone);
  if (fixed !== null) return { code: fixed };
  const code = newCode(context.settings.mfa.otpLength);
  await context.messages.sendText({
    to: phone,
    text: `Your code is ${code}`,
    kind: 'mfa',
    code,
    channel,
  });
  return { code };
}

async function challengeWebauthn(
  factor: FactorWithSecret,
  request: UserRequest,
  context: AuthContext,
): Promise<ChallengeData> {
  const relyingParty = relyingPartyOf(context.settings);
  const { user } = request;
  const name = user.email || user.phone || user.id;
  const [type, options] =
    factor.web_authn_credential === null
      ? ([
          'create',
          await registrationOptions(
            relyingParty,
            { id: user.id, name, displayName: name },
            await registeredCredentials(context, user.id),
            'factor',
          ),
        ] as const)
      : ([
          'request',
          await authenticationOptions(relyingParty, [factor.web_authn_credential], 'factor'),
        ] as const);
  return {
    stored: { type, challenge: options.challenge },
    response: { webauthn: { type, credential_options: { publicKey: options } } },
  };
}

async function registeredCredentials(context: AuthContext, userId: string): Promise<Credential[]> {
  const { rows } = await context.database.query<{ credential: Credential }>(
    `select web_authn_credential as credential from auth.mfa_factors
     where user_id = $1::uuid and web_authn_credential is not null`,
    [userId],
  );
  return rows.map(({ credential }) => credential);
}
