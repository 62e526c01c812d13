// Administration of users' second factors with the secret key, for example after a lost phone.
import { audit } from '../audit.ts';
import { AuthError, invalid } from '../auth-error.ts';
import { type AuthContext, type AuthRequest, at } from '../context.ts';
import { optionalText, uuidParameter } from '../requests/fields.ts';
import type { FactorRow, UserRow } from '../rows.ts';
import { phoneNumber } from '../users/addresses.ts';
import { factorJson } from '../users/user-json.ts';
import { factorsOf, findUser } from '../users/users.ts';
import { deleteFactor, factorInPath } from './factors.ts';

/**
 * The user of a path.
 * @throws AuthError 404 validation_failed, user_not_found
 */
export async function userInPath(request: AuthRequest, context: AuthContext): Promise<UserRow> {
  const user = await findUser(context.database, { id: uuidParameter(request.parameters, 'user_id') });
  if (!user) throw new AuthError(404, 'user_not_found', 'User not found');
  return user;
}

/** Lists a person's factors. @returns 200 with an array */
export async function listFactors(request: AuthRequest, context: AuthContext): Promise<Response> {
  const user = await userInPath(request, context);
  return Response.json((await factorsOf(context.database, user.id)).map(factorJson));
}

/** Deletes a factor of a person. @returns 200 with the factor */
export async function deleteFactorOf(request: AuthRequest, context: AuthContext): Promise<Response> {
  const user = await userInPath(request, context);
  const factor = await context.database.transaction(async (tx) => {
    const found = await factorInPath(tx, request.parameters, user.id, { lock: true });
    await deleteFactor(tx, context, found);
    await audit(tx, context, 'factor_deleted', null, request, { user_id: user.id, factor_id: found.id });
    return found;
  });
  return Response.json(factorJson(factor));
}

/**
 * Changes a factor of a person: its name, and the number of a phone factor.
 * @returns 200 with the factor
 */
export async function changeFactorOf(request: AuthRequest, context: AuthContext): Promise<Response> {
  const user = await userInPath(request, context);
  const name = optionalText(request.body, 'friendly_name', 255);
  const phone = optionalText(request.body, 'phone');
  const changed = await context.database.transaction(async (tx) => {
    const factor = await factorInPath(tx, request.parameters, user.id, { lock: true });
    if (phone && factor.factor_type !== 'phone') throw invalid('Only a phone factor has a phone');
    const others = (await factorsOf(tx, user.id)).filter(({ id }) => id !== factor.id);
    if (name && others.some(({ friendly_name: taken }) => taken === name)) {
      throw new AuthError(
        422,
        'mfa_factor_name_conflict',
        `A factor with the friendly name ${JSON.stringify(name)} for this user already exists`,
      );
    }
    const number = phone ? phoneNumber(phone) : null;
    if (number && others.some(({ phone: taken }) => taken === number)) {
      throw new AuthError(422, 'mfa_verified_factor_exists', 'Another factor has this phone');
    }
    const { rows } = await tx.query<FactorRow>(
      `update auth.mfa_factors set friendly_name = coalesce($2, friendly_name), phone = coalesce($3, phone),
         updated_at = $4::timestamptz
       where id = $1::uuid
       returning id, user_id, friendly_name, factor_type, status, phone, last_challenged_at, created_at, updated_at`,
      [factor.id, name || null, number, at(context)],
    );
    await audit(tx, context, 'factor_updated', null, request, { user_id: user.id, factor_id: factor.id });
    return rows[0] ?? factor;
  });
  return Response.json(factorJson(changed));
}
