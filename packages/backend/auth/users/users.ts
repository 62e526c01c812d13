// Rows of users and identities: find, create and update.
import { randomUUID } from 'node:crypto';
import type { Session } from '../../database/database.ts';
import { type AuthContext, at } from '../context.ts';
import type { FactorRow, IdentityRow, Json, UserRow } from '../rows.ts';

const userColumns = `id, aud, role, email, encrypted_password, email_confirmed_at, invited_at, confirmation_sent_at,
  recovery_sent_at, email_change, email_change_sent_at, email_change_confirm_status, last_sign_in_at,
  raw_app_meta_data, raw_user_meta_data, created_at, updated_at, phone, phone_confirmed_at, phone_change,
  phone_change_sent_at, confirmed_at, banned_until, reauthentication_sent_at, is_sso_user, deleted_at, is_anonymous`;

/** Finds a user; `lock` locks the row until the transaction ends. */
export async function findUser(
  session: Session,
  by: { id: string } | { email: string } | { phone: string },
  options: { lock?: boolean } = {},
): Promise<UserRow | null> {
  const [condition, value] =
    'id' in by
      ? ['id = $1::uuid', by.id]
      : 'email' in by
        ? ['lower(email) = lower($1) and not is_sso_user', by.email]
        : ['phone = $1', by.phone];
  const { rows } = await session.query<UserRow>(
    `select ${userColumns} from auth.users where ${condition} ${options.lock ? 'for update' : ''}`,
    [value],
  );
  return rows[0] ?? null;
}

/** Fields of a new user, with normalised addresses. */
export interface NewUser {
  id?: string;
  aud?: string;
  role?: string;
  email?: string | null;
  phone?: string | null;
  /** Hashed. */
  encrypted_password?: string | null;
  email_confirmed_at?: string | null;
  phone_confirmed_at?: string | null;
  invited_at?: string | null;
  banned_until?: string | null;
  raw_app_meta_data?: Json;
  raw_user_meta_data?: Json;
  is_anonymous?: boolean;
  is_sso_user?: boolean;
}

/** Creates a user without an identity. @throws DatabaseError 23505 when the address or id is taken */
export async function createUser(session: Session, context: AuthContext, user: NewUser): Promise<UserRow> {
  const { rows } = await session.query<UserRow>(
    `insert into auth.users (id, aud, role, email, phone, encrypted_password, email_confirmed_at, phone_confirmed_at,
       invited_at, banned_until, raw_app_meta_data, raw_user_meta_data, is_anonymous, is_sso_user, created_at, updated_at)
     values ($1::uuid, $2, $3, $4, $5, $6, $7::timestamptz, $8::timestamptz, $9::timestamptz, $10::timestamptz,
       $11::jsonb, $12::jsonb, $13::boolean, $14::boolean, $15::timestamptz, $15::timestamptz)
     returning ${userColumns}`,
    [
      user.id ?? randomUUID(),
      user.aud ?? context.settings.audience,
      user.role ?? 'authenticated',
      user.email || null,
      user.phone || null,
      user.encrypted_password ?? null,
      user.email_confirmed_at ?? null,
      user.phone_confirmed_at ?? null,
      user.invited_at ?? null,
      user.banned_until ?? null,
      user.raw_app_meta_data ?? {},
      user.raw_user_meta_data ?? {},
      user.is_anonymous ?? false,
      user.is_sso_user ?? false,
      at(context),
    ],
  );
  return only(rows);
}

const changeable = {
  email: 'varchar',
  phone: 'text',
  role: 'varchar',
  aud: 'varchar',
  encrypted_password: 'varchar',
  email_confirmed_at: 'timestamptz',
  phone_confirmed_at: 'timestamptz',
  invited_at: 'timestamptz',
  confirmation_sent_at: 'timestamptz',
  recovery_sent_at: 'timestamptz',
  reauthentication_sent_at: 'timestamptz',
  email_change: 'varchar',
  email_change_sent_at: 'timestamptz',
  email_change_confirm_status: 'smallint',
  phone_change: 'text',
  phone_change_sent_at: 'timestamptz',
  last_sign_in_at: 'timestamptz',
  banned_until: 'timestamptz',
  deleted_at: 'timestamptz',
  raw_app_meta_data: 'jsonb',
  raw_user_meta_data: 'jsonb',
  is_anonymous: 'boolean',
} as const;

export type UserChange = Partial<Pick<UserRow, keyof typeof changeable>>;

/** Updates a user and returns the row. */
export async function updateUser(
  session: Session,
  context: AuthContext,
  id: string,
  change: UserChange,
): Promise<UserRow> {
  const names = (Object.keys(changeable) as (keyof typeof changeable)[]).filter(
    (name) => change[name] !== undefined,
  );
  const assignments = names.map((name, index) => `${name} = $${index + 3}::${changeable[name]}`);
  const { rows } = await session.query<UserRow>(
    `update auth.users set ${['updated_at = $2::timestamptz', ...assignments].join(', ')}
     where id = $1::uuid returning ${userColumns}`,
    [id, at(context), ...names.map((name) => change[name])],
  );
  return only(rows);
}

/** A user's identities, oldest first. */
export async function identitiesOf(session: Session, userId: string): Promise<IdentityRow[]> {
  const { rows } = await session.query<IdentityRow>(
    `select id, provider_id, user_id, identity_data, provider, last_sign_in_at, created_at, updated_at, email
     from auth.identities where user_id = $1::uuid order by created_at, provider, id`,
    [userId],
  );
  return rows;
}

/** The identity with this id at a provider, of any user. */
export async function findIdentity(
  session: Session,
  provider: string,
  providerId: string,
): Promise<IdentityRow | null> {
  const { rows } = await session.query<IdentityRow>(
    `select id, provider_id, user_id, identity_data, provider, last_sign_in_at, created_at, updated_at, email
     from auth.identities where provider = $1 and provider_id = $2`,
    [provider, providerId],
  );
  return rows[0] ?? null;
}

/**
 * Adds or updates an identity, and lists the user's providers in app_metadata.
 * @throws DatabaseError never 23505: for another user's identity it returns null and changes nothing
 */
export async function putIdentity(
  session: Session,
  context: AuthContext,
  identity: { userId: string; provider: string; providerId: string; data: Json; isSignIn?: boolean },
): Promise<IdentityRow | null> {
  const { rows } = await session.query<IdentityRow>(
    `insert into auth.identities as known
       (user_id, provider, provider_id, identity_data, last_sign_in_at, created_at, updated_at)
     values ($1::uuid, $2, $3, $4::jsonb, case when $5::boolean then $6::timestamptz end, $6::timestamptz, $6::timestamptz)
     on conflict (provider_id, provider) do update
       set identity_data = known.identity_data || excluded.identity_data,
           last_sign_in_at = coalesce(excluded.last_sign_in_at, known.last_sign_in_at),
           updated_at = excluded.updated_at
       where known.user_id = excluded.user_id
     returning id, provider_id, user_id, identity_data, provider, last_sign_in_at, created_at, updated_at, email`,
    [
      identity.userId,
      identity.provider,
      identity.providerId,
      identity.data,
      identity.isSignIn ?? true,
      at(context),
    ],
  );
  await listProviders(session, identity.userId);
  return rows[0] ?? null;
}

/** Writes a user's providers into app_metadata: the first identity's as `provider`, all as `providers`. */
export async function listProviders(session: Session, userId: string): Promise<void> {
  await session.query(
    `update auth.users set raw_app_meta_data = raw_app_meta_data || (
       select jsonb_build_object('provider', (array_agg(provider order by created_at, provider))[1],
         'providers', jsonb_agg(provider order by created_at, provider))
       from (select distinct on (provider) provider, created_at from auth.identities
             where user_id = $1::uuid order by provider, created_at) as first_of_each
       having count(*) > 0)
     where id = $1::uuid and exists (select from auth.identities where user_id = $1::uuid)`,
    [userId],
  );
}

/** A user's second factors, oldest first. */
export async function factorsOf(session: Session, userId: string): Promise<FactorRow[]> {
  const { rows } = await session.query<FactorRow>(
    `select id, user_id, friendly_name, factor_type, status, phone, last_challenged_at, created_at, updated_at
     from auth.mfa_factors where user_id = $1::uuid order by created_at, id`,
    [userId],
  );
  return rows;
}

/** Whether a user is currently banned. */
export function isBanned(user: Pick<UserRow, 'banned_until'>, context: Pick<AuthContext, 'now'>): boolean {
  return user.banned_until !== null && new Date(user.banned_until) > context.now();
}

function only<Row>(rows: Row[]): Row {
  const [row] = rows;
  if (!row) throw new Error('a statement that returns one row returned none');
  return row;
}
