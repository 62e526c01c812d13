// POST /factors: enrols an unverified factor; its first code verifies it.
import type { Session } from '../../database/database.ts';
import { DatabaseError } from '../../database/database.ts';
import { audit } from '../audit.ts';
import { AuthError, invalid } from '../auth-error.ts';
import { type AuthContext, at, type UserRequest } from '../context.ts';
import { text } from '../requests/fields.ts';
import type { FactorRow, SessionRow, UserRow } from '../rows.ts';
import { phoneNumber } from '../users/addresses.ts';
import { factorsOf, findUser } from '../users/users.ts';
import { type FactorType, sessionOf, titleOf } from './factors.ts';
import { newTotp } from './totp.ts';

const isFactorType = (value: string): value is FactorType => Object.hasOwn(titleOf, value);

/**
 * Creates an unverified factor.
 * @returns 200 {id, type, friendly_name, and totp {qr_code, secret, uri} or phone}
 * @throws AuthError validation_failed (400), mfa_…_enroll_not_enabled, mfa_factor_name_conflict, mfa_verified_factor_exists,
 *   too_many_enrolled_mfa_factors (422), insufficient_aal (403)
 */
export async function enrolFactor(request: UserRequest, context: AuthContext): Promise<Response> {
  const type = text(request.body, 'factor_type');
  const friendlyName = text(request.body, 'friendly_name', 255);
  if (!isFactorType(type)) throw invalid('factor_type needs to be totp, phone, or webauthn');
  if (!context.settings.mfa[type].canEnroll) {
    throw new AuthError(422, `mfa_${type}_enroll_not_enabled`, `MFA enroll is disabled for ${titleOf[type]}`);
  }
  const session = sessionOf(request);
  const enrol = { totp: enrolTotp, phone: enrolPhone, webauthn: enrolWebauthn }[type];
  const response = await enrol({ request, context, session, friendlyName });
  return Response.json(response, { headers: { 'cache-control': 'no-store' } });
}

interface Enrolment {
  request: UserRequest;
  context: AuthContext;
  session: SessionRow;
  friendlyName: string;
}

async function enrolTotp(enrolment: Enrolment) {
  const { request, context } = enrolment;
  const issuer = text(request.body, 'issuer') || new URL(context.settings.siteUrl).host;
  const account = request.user.email || request.user.phone || request.user.id;
  const { secret, uri, qrCode } = await newTotp(issuer, account).catch(() => {
    throw invalid('issuer is too long to be drawn as a code');
  });
  const id = await addFactor(enrolment, { type: 'totp', secret });
  return { id, type: 'totp', friendly_name: enrolment.friendlyName, totp: { qr_code: qrCode, secret, uri } };
}

async function enrolPhone(enrolment: Enrolment) {
  const phone = text(enrolment.request.body, 'phone');
  if (!phone) throw invalid('Phone number required to enroll Phone factor');
  const id = await addFactor(enrolment, { type: 'phone', phone: phoneNumber(phone) });
  return { id, type: 'phone', friendly_name: enrolment.friendlyName, phone };
}

async function enrolWebauthn(enrolment: Enrolment) {
  const id = await addFactor(enrolment, { type: 'webauthn' });
  return { id, type: 'webauthn', friendly_name: enrolment.friendlyName };
}

async function addFactor(
  { request, context, session, friendlyName }: Enrolment,
  factor: { type: FactorType; secret?: string; phone?: string },
): Promise<string> {
  const { user } = request;
  try {
    return await context.database.transaction(async (tx) => {
      // Enrolments of a user run one by one, or two concurrent ones could exceed the maximum.
      await findUser(tx, { id: user.id }, { lock: true });
      await dropStaleFactors(tx, context, user, factor.phone);
      checkRoom(await factorsOf(tx, user.id), { context, session, friendlyName, phone: factor.phone });
      const { rows } = await tx.query<{ id: string }>(
        `insert into auth.mfa_factors (user_id, friendly_name, factor_type, secret, phone, created_at, updated_at)
         values ($1::uuid, $2, $3::auth.factor_type, $4, $5, $6::timestamptz, $6::timestamptz) returning id`,
        [user.id, friendlyName, factor.type, factor.secret ?? null, factor.phone ?? null, at(context)],
      );
      const [row] = rows;
      if (!row) throw new Error('the factor was not created');
      await audit(tx, context, 'factor_in_progress', user, request, {
        factor_id: row.id,
        factor_type: factor.type,
      });
      return row.id;
    });
  } catch (error) {
    // The unique index treats names that differ in surrounding blanks as different.
    const isTaken =
      error instanceof DatabaseError && error.constraint === 'mfa_factors_user_friendly_name_unique';
    throw isTaken ? nameConflict(friendlyName) : error;
  }
}

// Unfinished enrolments are replaced: after a challenge's lifetime without a pending one; for a phone immediately, because it
// restarts.
async function dropStaleFactors(
  tx: Session,
  context: AuthContext,
  user: Pick<UserRow, 'id'>,
  phone: string | undefined,
): Promise<void> {
  await tx.query(
    `delete from auth.mfa_factors as factor
     where user_id = $1::uuid and status = 'unverified' and (phone = $3 or (
       created_at < $2::timestamptz and not exists (
         select from auth.mfa_challenges where factor_id = factor.id and created_at >= $2::timestamptz)))`,
    [user.id, at(context, -context.settings.mfa.challengeLifetime), phone ?? null],
  );
}

function checkRoom(
  factors: readonly FactorRow[],
  wanted: { context: AuthContext; session: SessionRow; friendlyName: string; phone: string | undefined },
): void {
  const verified = factors.filter(({ status }) => status === 'verified');
  if (wanted.phone !== undefined && verified.some(({ phone }) => phone === wanted.phone)) {
    throw new AuthError(
      422,
      'mfa_verified_factor_exists',
      'A verified phone factor already exists, unenroll the existing factor to continue',
    );
  }
  if (factors.some(({ friendly_name: name }) => (name ?? '') === wanted.friendlyName)) {
    throw nameConflict(wanted.friendlyName);
  }
  if (factors.length >= wanted.context.settings.mfa.maximumFactors) {
    throw new AuthError(
      422,
      'too_many_enrolled_mfa_factors',
      'Maximum number of verified factors reached, unenroll to continue',
    );
  }
  // Otherwise a stolen password alone could add a factor and pass with it.
  if (verified.length > 0 && wanted.session.aal !== 'aal2') {
    throw new AuthError(403, 'insufficient_aal', 'AAL2 required to enroll a new factor');
  }
}

const nameConflict = (name: string) =>
  new AuthError(
    422,
    'mfa_factor_name_conflict',
    `A factor with the friendly name ${JSON.stringify(name)} for this user already exists`,
  );
