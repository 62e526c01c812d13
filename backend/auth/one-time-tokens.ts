// Codes that are sent to people, and the links made of them: made, kept as hashes, taken back once.
import { createHmac, randomInt, timingSafeEqual } from 'node:crypto';
import type { Session } from '../database/database.ts';
import { type AuthContext, at } from './context.ts';

export type TokenType =
  | 'confirmation_token'
  | 'reauthentication_token'
  | 'recovery_token'
  | 'email_change_token_new'
  | 'email_change_token_current'
  | 'phone_change_token';

export interface OneTimeTokenRow {
  id: string;
  user_id: string;
  token_type: TokenType;
  token_hash: string;
  relates_to: string;
  failed_attempts: number;
  created_at: string;
}

/** What was made: the code a person types, and the hash a link carries. */
export interface SentToken {
  code: string;
  /** With `pkce_` before it when a PKCE flow waits. */
  hash: string;
}

const columns = 'id, user_id, token_type, token_hash, relates_to, failed_attempts, created_at';
const pkcePrefix = 'pkce_';

/** Digits from a cryptographic source. */
export function newCode(length: number): string {
  return Array.from({ length }, () => randomInt(10)).join('');
}

/** The code a phone always has; null for phones that get real ones. */
export function testCode(context: Pick<AuthContext, 'settings' | 'now'>, phone: string): string | null {
  const { testPhones, testPhonesUntil } = context.settings;
  if (testPhonesUntil !== null && testPhonesUntil <= context.now()) return null;
  return Object.hasOwn(testPhones, phone) ? (testPhones[phone] ?? null) : null;
}

/** Makes a token of a kind for a person; one of the same kind sent before is void. */
export async function makeToken(
  tx: Session,
  context: AuthContext,
  token: { userId: string; type: TokenType; address: string; isPkce?: boolean },
): Promise<SentToken> {
  const code = testCode(context, token.address) ?? newCode(context.settings.otpLength);
  const hash = (token.isPkce ? pkcePrefix : '') + hashOf(context, token.address, code);
  await tx.query(
    `insert into auth.one_time_tokens (user_id, token_type, token_hash, relates_to, created_at, updated_at)
     values ($1::uuid, $2::auth.one_time_token_type, $3, $4, $5::timestamptz, $5::timestamptz)
     on conflict (user_id, token_type) do update set token_hash = excluded.token_hash, failed_attempts = 0,
       relates_to = excluded.relates_to, created_at = excluded.created_at, updated_at = excluded.updated_at`,
    [token.userId, token.type, hash, token.address, at(context)],
  );
  return { code, hash };
}

/** Finds a token by what a link carries, its person locked until the transaction ends; expired ones are not found. */
export async function findTokenByHash(
  tx: Session,
  context: AuthContext,
  hash: string,
  types: readonly TokenType[],
): Promise<OneTimeTokenRow | null> {
  await lockPeople(tx, 'token_hash', hash);
  const { rows } = await tx.query<OneTimeTokenRow>(
    `select ${columns} from auth.one_time_tokens where token_hash = $1`,
    [hash],
  );
  return rows.find((row) => types.includes(row.token_type) && !isExpired(context, row)) ?? null;
}

/**
 * Finds a token by the code somebody typed. A wrong code counts; after too many the token is void.
 * @param address where the code was sent to
 * @param userId only this person's, when known
 */
export async function findTokenByCode(
  tx: Session,
  context: AuthContext,
  typed: { address: string; code: string; types: readonly TokenType[]; userId?: string },
): Promise<OneTimeTokenRow | null> {
  await lockPeople(tx, 'relates_to', typed.address);
  const { rows } = await tx.query<OneTimeTokenRow>(
    `select ${columns} from auth.one_time_tokens
     where relates_to = $1 and ($2::uuid is null or user_id = $2::uuid)
     order by created_at desc`,
    [typed.address, typed.userId ?? null],
  );
  const expected = hashOf(context, typed.address, typed.code);
  const candidates = rows.filter(
    (row) =>
      typed.types.includes(row.token_type) &&
      !isExpired(context, row) &&
      row.failed_attempts < context.settings.otpAttempts,
  );
  const found = candidates.find((row) => isSameHash(row.token_hash, expected));
  if (found) return found;
  for (const row of candidates) {
    await tx.query(
      'update auth.one_time_tokens set failed_attempts = failed_attempts + 1 where id = $1::uuid',
      [row.id],
    );
  }
  return null;
}

/** Voids tokens of a person: these kinds, or all. */
export async function dropTokens(tx: Session, userId: string, types?: readonly TokenType[]): Promise<void> {
  await tx.query(
    `delete from auth.one_time_tokens
     where user_id = $1::uuid and ($2::text[] is null or token_type::text = any ($2::text[]))`,
    [userId, types ? `{${types.join(',')}}` : null],
  );
}

/** Whether a link belongs to a PKCE flow. */
export const isPkceHash = (hash: string) => hash.startsWith(pkcePrefix);

// Attempts on a person's tokens come one after another, so that none is used twice and every wrong code counts. Sending
// locks people before tokens, and so must taking back.
async function lockPeople(tx: Session, column: 'token_hash' | 'relates_to', value: string): Promise<void> {
  await tx.query(
    `select from auth.users where id in (select user_id from auth.one_time_tokens where ${column} = $1)
     order by id for update`,
    [value],
  );
}

function isExpired(context: AuthContext, { relates_to, created_at }: OneTimeTokenRow): boolean {
  const { emailOtpLifetime, smsOtpLifetime } = context.settings;
  const lifetime = relates_to.includes('@') ? emailOtpLifetime : smsOtpLifetime;
  return context.now().getTime() - new Date(created_at).getTime() > lifetime * 1000;
}

// Keyed: whoever knows an address must not be able to try all codes as links.
function hashOf(context: AuthContext, address: string, code: string): string {
  return createHmac('sha224', context.secret).update(`${address}\0${code}`).digest('hex');
}

function isSameHash(kept: string, expected: string): boolean {
  const plain = isPkceHash(kept) ? kept.slice(pkcePrefix.length) : kept;
  const [a, b] = [Buffer.from(plain), Buffer.from(expected)];
  return a.length === b.length && timingSafeEqual(a, b);
}
