// Administration of users with the secret key: list, create, change, delete.
import { createHash, randomBytes } from 'node:crypto';
import { DatabaseError } from '../../database/database.ts';
import { audit } from '../audit.ts';
import { AuthError, invalid } from '../auth-error.ts';
import { dropTokens } from '../codes/one-time-tokens.ts';
import { emailExists, phoneExists } from '../codes/verify.ts';
import { type AuthContext, type AuthRequest, at, type Fields, type Route } from '../context.ts';
import { flag, isUuid, object, optionalText, text, uuidParameter } from '../requests/fields.ts';
import type { Json, UserRow } from '../rows.ts';
import { endSessions } from '../sessions/sessions.ts';
import { mailAddress, phoneNumber } from '../users/addresses.ts';
import { confirmAddress } from '../users/sign-up.ts';
import { merged } from '../users/user.ts';
import { readUserJson, userJson } from '../users/user-json.ts';
import {
  createUser,
  factorsOf,
  findUser,
  identitiesOf,
  putIdentity,
  type UserChange,
  updateUser,
} from '../users/users.ts';

/** Fields that an administrator may set. Absent fields do not change. */
interface UserChanges {
  email: string | undefined;
  phone: string | undefined;
  hashed: string | undefined;
  role: string | undefined;
  aud: string | undefined;
  confirmsEmail: boolean;
  confirmsPhone: boolean;
  userMetadata: Json | null;
  appMetadata: Json | null;
  /** A time; null ends a ban. */
  bannedUntil: string | null | undefined;
}

async function readChanges(
  body: Fields,
  context: AuthContext,
  before: Pick<UserRow, 'email' | 'phone'> | null = null,
): Promise<UserChanges> {
  const [email, phone] = [text(body, 'email'), text(body, 'phone')];
  const password = optionalText(body, 'password') || undefined;
  const passwordHash = optionalText(body, 'password_hash') || undefined;
  if (password && passwordHash) throw invalid('Only a password or a password hash should be provided');
  if (passwordHash && !/^\$argon2(?:id|i|d)\$/.test(passwordHash)) {
    throw invalid('Provided password hash is not supported: argon2 is expected');
  }
  if (password) {
    await context.passwords.check(password, [email, phone, before?.email ?? '', before?.phone ?? '']);
  }
  return {
    email: email ? mailAddress(email) : undefined,
    phone: phone ? phoneNumber(phone) : undefined,
    hashed: password ? await context.passwords.hash(password) : passwordHash,
    role: text(body, 'role') || undefined,
    aud: text(body, 'aud') || undefined,
    confirmsEmail: flag(body, 'email_confirm'),
    confirmsPhone: flag(body, 'phone_confirm'),
    userMetadata: object(body, 'user_metadata'),
    appMetadata: object(body, 'app_metadata'),
    bannedUntil: banEnd(optionalText(body, 'ban_duration', 100), context),
  };
}

const unitSeconds: Record<string, number> = {
  ns: 1e-9,
  us: 1e-6,
  µs: 1e-6,
  μs: 1e-6,
  ms: 1e-3,
  s: 1,
  m: 60,
  h: 3600,
};

/** End of a ban: a duration as Go writes it (`24h`, `1h30m`), or `none`. */
function banEnd(duration: string | undefined, context: AuthContext): string | null | undefined {
  if (duration === undefined || duration === '') return undefined;
  if (duration === 'none') return null;
  const isDuration =
    duration.length <= 100 && /^\+?(?:(?:\d+(?:\.\d*)?|\.\d+)(?:ns|us|µs|μs|ms|s|m|h))+$/.test(duration);
  const parts = isDuration ? [...duration.matchAll(/([\d.]+)([nuµμm]?s|[mh])/g)] : [];
  const seconds = parts.reduce(
    (sum, [, count, unit]) => sum + Number(count) * (unitSeconds[unit ?? ''] ?? 0),
    0,
  );
  // Go's longest duration is 292 years.
  if (!isDuration || seconds > 292 * 365 * 86_400) {
    throw invalid(`invalid format for ban duration: time: invalid duration "${duration}"`);
  }
  return at(context, seconds);
}

async function list(request: AuthRequest, { database }: AuthContext): Promise<Response> {
  const query = request.url.searchParams;
  const [page, perPage] = [readNumber(query, 'page', 1), readNumber(query, 'per_page', 50)];
  const filter = query.get('filter') ?? '';
  const pattern = `%${filter.replace(/[\\%_]/g, '\\$&')}%`;
  const order = /^created_at\s+asc$/i.test(query.get('sort') ?? '') ? 'asc' : 'desc';
  const condition = `(email ilike $1 or phone ilike $1 or raw_user_meta_data ->> 'full_name' ilike $1 or $2 = '')`;
  const { rows: counts } = await database.query<{ total: number }>(
    `select count(*) as total from auth.users where ${condition}`,
    [pattern, filter],
  );
  const { rows } = await database.query<{ id: string }>(
    `select id from auth.users where ${condition} order by created_at ${order}, id limit $3::bigint offset $4::bigint`,
    [pattern, filter, perPage, (page - 1) * perPage],
  );
  const users = await Promise.all(rows.map(({ id }) => readUserJson(database, id)));
  const total = counts[0]?.total ?? 0;
  const lastPage = Math.max(1, Math.ceil(total / perPage));
  const rest = new URLSearchParams(query);
  rest.delete('page');
  rest.set('per_page', String(perPage));
  // Clients look for the page at the beginning of the link header.
  const link = (to: number, rel: string) => `<${request.url.pathname}?page=${to}&${rest}>; rel="${rel}"`;
  const links = [...(page < lastPage ? [link(page + 1, 'next')] : []), link(lastPage, 'last')];
  return Response.json(
    { users, aud: 'authenticated' },
    { headers: { 'x-total-count': String(total), link: links.join(', '), 'cache-control': 'no-store' } },
  );
}

function readNumber(query: URLSearchParams, name: string, fallback: number): number {
  const value = query.get(name);
  if (value === null || value === '') return fallback;
  const number = Number(value);
  if (!/^\d+$/.test(value) || number > 1_000_000) {
    throw invalid(`Bad Pagination Parameters: ${name} is "${value}"`);
  }
  if (name === 'per_page') return Math.min(Math.max(number, 1), 1000);
  return Math.max(number, 1);
}

async function create(request: AuthRequest, context: AuthContext): Promise<Response> {
  const id = text(request.body, 'id') || undefined;
  if (id !== undefined && !isUuid(id)) throw invalid('ID must conform to the uuid v4 format');
  const changes = await readChanges(request.body, context);
  const { email, phone } = changes;
  if (!email && !phone) throw invalid('Cannot create a user without either an email or phone');
  const hashed = changes.hashed ?? (await context.passwords.hash(randomBytes(24).toString('base64url')));
  const providers = [...(email ? ['email'] : []), ...(phone ? ['phone'] : [])];
  const user = await inTransaction(context, async (tx) => {
    await refuseTaken(tx, changes);
    const user = await createUser(tx, context, {
      ...(id ? { id } : {}),
      email: email ?? null,
      phone: phone ?? null,
      encrypted_password: hashed,
      ...(changes.role ? { role: changes.role } : {}),
      ...(changes.aud ? { aud: changes.aud } : {}),
      banned_until: changes.bannedUntil ?? null,
      raw_user_meta_data: changes.userMetadata ?? {},
      raw_app_meta_data: { provider: providers[0], providers, ...changes.appMetadata },
    });
    for (const address of [...(email ? [{ email }] : []), ...(phone ? [{ phone }] : [])]) {
      await putIdentity(tx, context, {
        userId: user.id,
        provider: 'email' in address ? 'email' : 'phone',
        providerId: user.id,
        data: { sub: user.id, ...address, email_verified: false, phone_verified: false },
        isSignIn: false,
      });
    }
    await confirmChanges(tx, context, user.id, changes);
    await audit(tx, context, 'user_signedup', null, request, { user_id: user.id });
    return readUserJson(tx, user.id);
  });
  return Response.json(user);
}

async function get(request: AuthRequest, { database }: AuthContext): Promise<Response> {
  const user = await existing(database, request);
  return Response.json(
    userJson(user, await identitiesOf(database, user.id), await factorsOf(database, user.id)),
  );
}

async function update(request: AuthRequest, context: AuthContext): Promise<Response> {
  const existingUser = await existing(context.database, request);
  const changes = await readChanges(request.body, context, existingUser);
  const user = await inTransaction(context, async (tx) => {
    const before = await existing(tx, request, true);
    await refuseTaken(tx, changes, before.id);
    const change: UserChange = {
      ...(changes.role ? { role: changes.role } : {}),
      ...(changes.aud ? { aud: changes.aud } : {}),
      ...(changes.hashed ? { encrypted_password: changes.hashed } : {}),
      ...(changes.bannedUntil !== undefined ? { banned_until: changes.bannedUntil } : {}),
      ...(changes.email ? { email: changes.email, email_change: '' } : {}),
      ...(changes.phone ? { phone: changes.phone, phone_change: '' } : {}),
      ...(changes.userMetadata
        ? { raw_user_meta_data: merged(before.raw_user_meta_data, changes.userMetadata) }
        : {}),
      ...(changes.appMetadata
        ? { raw_app_meta_data: merged(before.raw_app_meta_data, changes.appMetadata) }
        : {}),
    };
    await updateUser(tx, context, before.id, change);
    for (const address of [
      ...(changes.email ? [{ email: changes.email }] : []),
      ...(changes.phone ? [{ phone: changes.phone }] : []),
    ]) {
      await putIdentity(tx, context, {
        userId: before.id,
        provider: 'email' in address ? 'email' : 'phone',
        providerId: before.id,
        data: { sub: before.id, ...address },
        isSignIn: false,
      });
    }
    // Codes sent to a previous address must not sign anyone in.
    if (changes.email || changes.phone || changes.hashed) await dropTokens(tx, before.id);
    if (changes.hashed) await endSessions(tx, before.id);
    await confirmChanges(tx, context, before.id, changes);
    await audit(tx, context, 'user_modified', null, request, { user_id: before.id });
    return readUserJson(tx, before.id);
  });
  return Response.json(user);
}

async function confirmChanges(
  tx: Parameters<typeof findUser>[0],
  context: AuthContext,
  id: string,
  { confirmsEmail, confirmsPhone }: UserChanges,
): Promise<void> {
  const read = async () => (await findUser(tx, { id })) ?? missing();
  const user = await read();
  if (confirmsEmail && user.email) await confirmAddress(tx, context, user, { email: user.email });
  const after = await read();
  if (confirmsPhone && after.phone) await confirmAddress(tx, context, after, { phone: after.phone });
}

async function remove(request: AuthRequest, context: AuthContext): Promise<Response> {
  const isSoft = flag(request.body, 'should_soft_delete');
  await inTransaction(context, async (tx) => {
    const user = await existing(tx, request, true);
    await audit(tx, context, 'user_deleted', null, request, { user_id: user.id });
    if (isSoft) await softDelete(tx, context, user);
    else await tx.query('delete from auth.users where id = $1::uuid', [user.id]);
  });
  return Response.json({});
}

/** Anonymises the row, which other rows may refer to. */
async function softDelete(tx: Parameters<typeof findUser>[0], context: AuthContext, user: UserRow) {
  const hidden = (value: string | null) =>
    value ? createHash('sha256').update(`${user.id}${value}`).digest('base64url') : null;
  await endSessions(tx, user.id);
  await dropTokens(tx, user.id);
  await tx.query('delete from auth.mfa_factors where user_id = $1::uuid', [user.id]);
  await tx.query('delete from auth.webauthn_credentials where user_id = $1::uuid', [user.id]);
  for (const identity of await identitiesOf(tx, user.id)) {
    await tx.query(
      `update auth.identities set provider_id = $2, identity_data = '{}', updated_at = $3::timestamptz where id = $1::uuid`,
      [identity.id, hidden(identity.provider_id), at(context)],
    );
  }
  await updateUser(tx, context, user.id, {
    ...(user.email ? { email: hidden(user.email) } : {}),
    ...(user.phone ? { phone: hidden(user.phone)?.slice(0, 15) ?? '' } : {}),
    email_change: '',
    phone_change: '',
    raw_user_meta_data: {},
    raw_app_meta_data: {},
    encrypted_password: null,
    deleted_at: user.deleted_at ?? at(context),
  });
}

async function refuseTaken(
  tx: Parameters<typeof findUser>[0],
  { email, phone }: UserChanges,
  exceptId?: string,
): Promise<void> {
  const byEmail = email ? await findUser(tx, { email }) : null;
  if (byEmail && byEmail.id !== exceptId) throw emailExists();
  const byPhone = phone ? await findUser(tx, { phone }) : null;
  if (byPhone && byPhone.id !== exceptId) throw phoneExists();
}

async function existing(
  session: Parameters<typeof findUser>[0],
  request: AuthRequest,
  lock = false,
): Promise<UserRow> {
  const id = uuidParameter(request.parameters, 'user_id');
  return (await findUser(session, { id }, { lock })) ?? missing();
}

function missing(): never {
  throw new AuthError(404, 'user_not_found', 'User not found');
}

/** A transaction that reports an address as taken when a concurrent request took it. */
async function inTransaction<T>(
  context: AuthContext,
  work: (tx: Parameters<typeof findUser>[0]) => Promise<T>,
): Promise<T> {
  return context.database.transaction(work).catch((error) => {
    if (!(error instanceof DatabaseError) || error.code !== '23505') throw error;
    throw error.constraint === 'users_phone_key' ? phoneExists() : emailExists();
  });
}

export const adminUserRoutes: readonly Route[] = [
  { method: 'GET', pattern: '/admin/users', needs: 'admin', handle: list },
  { method: 'POST', pattern: '/admin/users', needs: 'admin', handle: create },
  { method: 'GET', pattern: '/admin/users/:user_id', needs: 'admin', handle: get },
  { method: 'PUT', pattern: '/admin/users/:user_id', needs: 'admin', handle: update },
  { method: 'DELETE', pattern: '/admin/users/:user_id', needs: 'admin', handle: remove },
];
