// One-time codes and links: sent to users, stored as hashes, used once.
import { createHmac, randomInt } from 'node:crypto';
import { isSameSecret } from '../../api-keys.ts';
import type { Session } from '../../database/database.ts';
import { type AuthContext, at } from '../context.ts';

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
  /** The PKCE flow that the link completes. */
  flow_state_id: string | null;
  created_at: string;
}

/** `email_change_confirm_status` after the address of a token of the type has confirmed. */
export const agreedStatus: Readonly<Partial<Record<TokenType, number>>> = {
  email_change_token_new: 1,
  email_change_token_current: 2,
};

/** A new token: the code to type, and the hash for a link. */
export interface SentToken {
  code: string;
  /** Prefixed with `pkce_` for a PKCE flow. */
  hash: string;
}

const columns = 'id, user_id, token_type, token_hash, relates_to, flow_state_id, created_at';
const pkcePrefix = 'pkce_';

/** Digits from a cryptographic source. */
export function newCode(length: number): string {
  return Array.from({ length }, () => randomInt(10)).join('');
}

/** The fixed code of a test phone; null for other phones. */
export function testCode(context: Pick<AuthContext, 'settings' | 'now'>, phone: string): string | null {
  const { testPhones, testPhonesUntil } = context.settings;
  if (testPhonesUntil !== null && testPhonesUntil <= context.now()) return null;
  return Object.hasOwn(testPhones, phone) ? (testPhones[phone] ?? null) : null;
}

/** Tokens of one type per user at a time. The cooldown keeps strangers below it. */
const maxTokens = 6;

/**
 * Creates a token. Earlier tokens of its type to the same address stay valid, because a stranger may have requested this one;
 * those to another address are void.
 * @param token `flowId` is the PKCE flow that its link completes
 */
export async function makeToken(
  tx: Session,
  context: AuthContext,
  token: { userId: string; type: TokenType; address: string; flowId?: string | null },
): Promise<SentToken> {
  const code = testCode(context, token.address) ?? newCode(context.settings.otpLength);
  const flowId = token.flowId ?? null;
  const hash = (flowId === null ? '' : pkcePrefix) + hashOf(context, token.address, code);
  await tx.query(
    `delete from auth.one_time_tokens
     where user_id = $1::uuid and token_type = $2::auth.one_time_token_type and (relates_to <> $3 or id not in (
       select id from auth.one_time_tokens
       where user_id = $1::uuid and token_type = $2::auth.one_time_token_type
       order by created_at desc limit $4::bigint))`,
    [token.userId, token.type, token.address, maxTokens - 1],
  );
  await tx.query(
    `insert into auth.one_time_tokens
       (user_id, token_type, token_hash, relates_to, flow_state_id, created_at, updated_at)
     values ($1::uuid, $2::auth.one_time_token_type, $3, $4, $5::uuid, $6::timestamptz, $6::timestamptz)`,
    [token.userId, token.type, hash, token.address, flowId, at(context)],
  );
  return { code, hash };
}

/** Finds a valid token by a link's hash, and locks its user until the transaction ends. */
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
 * Finds a token by a typed code. The caller limits how many are tried.
 * @param typed `address` is where the code was sent; `userId` restricts the search to one user
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
  const found = rows.find(
    (row) =>
      typed.types.includes(row.token_type) &&
      !isExpired(context, row) &&
      isSameHash(row.token_hash, expected),
  );
  return found ?? null;
}

/** Voids tokens of a user: these kinds, or all. */
export async function dropTokens(tx: Session, userId: string, types?: readonly TokenType[]): Promise<void> {
  await tx.query(
    `delete from auth.one_time_tokens
     where user_id = $1::uuid and ($2::text[] is null or token_type::text = any ($2::text[]))`,
    [userId, types ? `{${types.join(',')}}` : null],
  );
}

/** Whether a link belongs to a PKCE flow. */
export const isPkceHash = (hash: string) => hash.startsWith(pkcePrefix);

// Attempts on a user's tokens run one by one, so that none is used twice. Sending locks users before tokens, and so must
// verification.
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

// Keyed, so that someone who knows an address cannot try all codes as links.
function hashOf(context: AuthContext, address: string, code: string): string {
  return createHmac('sha224', context.secret).update(`${address}\0${code}`).digest('hex');
}

function isSameHash(stored: string, expected: string): boolean {
  const plain = isPkceHash(stored) ? stored.slice(pkcePrefix.length) : stored;
  return isSameSecret(plain, expected);
}
