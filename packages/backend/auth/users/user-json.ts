// The user object that clients receive, with GoTrue's fields.
import type { Session } from '../../database/database.ts';
import { type FactorRow, type IdentityRow, type Json, rfc3339, type UserRow } from '../rows.ts';
import { factorsOf, findUser, identitiesOf } from './users.ts';

/** A user object; absent fields are left out. */
export type UserJson = Json & { id: string };

/** Reads a user again and returns the user object. */
export async function readUserJson(session: Session, userId: string): Promise<UserJson> {
  const user = await findUser(session, { id: userId });
  if (!user) throw new Error('a user was deleted during a transaction');
  return userJson(user, await identitiesOf(session, userId), await factorsOf(session, userId));
}

/** The user object of a row, its identities and its second factors. */
export function userJson(user: UserRow, identities: IdentityRow[], factors: FactorRow[] = []): UserJson {
  return withoutEmpty({
    id: user.id,
    aud: user.aud,
    role: user.role,
    email: user.email ?? '',
    email_confirmed_at: rfc3339(user.email_confirmed_at),
    invited_at: rfc3339(user.invited_at),
    phone: user.phone ?? '',
    phone_confirmed_at: rfc3339(user.phone_confirmed_at),
    confirmation_sent_at: rfc3339(user.confirmation_sent_at),
    confirmed_at: rfc3339(user.confirmed_at),
    recovery_sent_at: rfc3339(user.recovery_sent_at),
    new_email: user.email_change || undefined,
    email_change_sent_at: rfc3339(user.email_change_sent_at),
    new_phone: user.phone_change || undefined,
    phone_change_sent_at: rfc3339(user.phone_change_sent_at),
    reauthentication_sent_at: rfc3339(user.reauthentication_sent_at),
    last_sign_in_at: rfc3339(user.last_sign_in_at),
    app_metadata: user.raw_app_meta_data,
    user_metadata: user.raw_user_meta_data,
    factors: factors.length > 0 ? factors.map(factorJson) : undefined,
    identities: identities.map(identityJson),
    created_at: rfc3339(user.created_at),
    updated_at: rfc3339(user.updated_at),
    banned_until: rfc3339(user.banned_until),
    deleted_at: rfc3339(user.deleted_at),
    is_anonymous: user.is_anonymous,
  }) as UserJson;
}

function identityJson(identity: IdentityRow): Json {
  return withoutEmpty({
    identity_id: identity.id,
    id: identity.provider_id,
    user_id: identity.user_id,
    identity_data: identity.identity_data,
    provider: identity.provider,
    last_sign_in_at: rfc3339(identity.last_sign_in_at),
    created_at: rfc3339(identity.created_at),
    updated_at: rfc3339(identity.updated_at),
    email: identity.email ?? undefined,
  });
}

/** A second factor as clients see it, without its secret. */
export function factorJson(factor: FactorRow): Json {
  return withoutEmpty({
    id: factor.id,
    created_at: rfc3339(factor.created_at),
    updated_at: rfc3339(factor.updated_at),
    status: factor.status,
    friendly_name: factor.friendly_name || undefined,
    factor_type: factor.factor_type,
    phone: factor.phone ?? undefined,
    last_challenged_at: rfc3339(factor.last_challenged_at),
  });
}

function withoutEmpty(fields: Json): Json {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
}
