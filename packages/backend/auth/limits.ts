// Limits of calls and guesses, counted in the database across processes. No stranger may exhaust a limit for an account's owner:
// guessable values count per account and network, and others are never refused because of someone's guesses
// (packages/backend/decisions/auth-limits.md).
import type { Session } from '../database/database.ts';
import { networksOf } from '../limits/network.ts';
import { AuthError } from './auth-error.ts';
import { type AuthContext, at } from './context.ts';
import type { AuthSettings, Limit } from './settings.ts';

type LimitName = keyof AuthSettings['limits'];

/**
 * Counts a call of each of the caller's networks, over all accounts.
 * @param ip null for calls without an address, which are not limited
 * @throws AuthError 429 over_request_rate_limit
 */
export async function limitNetwork(context: AuthContext, name: LimitName, ip: string | null): Promise<void> {
  if (ip === null) return;
  const limit = context.settings.limits[name];
  refuseUntil(await countCall(context.database, context, name, perNetwork(ip, '', limit), limit.window));
}

/**
 * Counts a guess at a value of an account or address, known or not, per network of the caller. Call it before the check, so
 * that concurrent guesses count one by one.
 * @throws AuthError 429 over_request_rate_limit
 */
export async function limitGuesses(
  context: AuthContext,
  name: LimitName,
  subject: string,
  ip: string | null,
): Promise<void> {
  const limit = context.settings.limits[name];
  const counters = perNetwork(ip ?? 'none', subject, limit);
  refuseUntil(await countCall(context.database, context, name, counters, limit.window));
}

/**
 * Counts a call for a subject alone, from any network. Only for subjects that a stranger cannot name or reach, such as a
 * session, and for totals whose owner can still sign in another way.
 * @throws AuthError 429 over_request_rate_limit
 */
export async function limitSubject(
  context: AuthContext,
  name: string,
  subject: string,
  limit: Limit,
): Promise<void> {
  const counters = [{ subject, allowed: limit.count }];
  refuseUntil(await countCall(context.database, context, name, counters, limit.window));
}

/** Resets the guesses of the caller's networks and of the subject after a success. */
export async function forgetGuesses(
  tx: Session,
  names: readonly string[],
  subject: string,
  ip: string | null,
): Promise<void> {
  const subjects = [
    subject,
    ...perNetwork(ip ?? 'none', subject, { count: 0, window: 0 }).map((counter) => counter.subject),
  ];
  await tx.query(
    `delete from auth.rate_limits
     where name in (select jsonb_array_elements_text($1::jsonb))
       and subject in (select left(value, 300) from jsonb_array_elements_text($2::jsonb) as given (value))`,
    [JSON.stringify(names), JSON.stringify(subjects)],
  );
}

interface RequestedMessage {
  channel: 'email' | 'sms';
  /** The cooldown is per purpose. */
  purpose:
    | 'signup'
    | 'otp'
    | 'recovery'
    | 'email_change'
    | 'phone_change'
    | 'resend'
    | 'reauthentication'
    | 'mfa';
  /** Recipient; with a prefix for messages that only a signed-in user can request. */
  address: string;
  ip: string | null;
}

/** Purposes of sign-in emails. Their cooldowns are the counters `cooldown:<purpose>`. */
const signInPurposes = ['signup', 'otp', 'recovery'];

/**
 * Enforces the cooldown between two messages to an address, with or without an account. Strangers may request them too, so
 * neither may they be unlimited nor may the owner be left without one: after `limits.emailsSent` a day, the next email waits
 * for half the lifetime of a link. Whenever one is refused, the last one is in the mailbox and still valid.
 * @throws AuthError 429 over_email_send_rate_limit, over_sms_send_rate_limit
 */
export async function enforceCooldown(
  context: AuthContext,
  { channel, purpose, address, ip }: RequestedMessage,
): Promise<void> {
  const { settings } = context;
  const cooldown =
    purpose === 'mfa'
      ? settings.mfa.phoneResendGap
      : channel === 'email'
        ? settings.emailResendGap
        : settings.smsResendGap;
  if (cooldown <= 0) return;
  const count = (name: string, counters: readonly Counter[], window: number) =>
    countCall(context.database, context, name, counters, window);
  const once = [{ subject: address, allowed: 1 }];
  const isSignIn = signInPurposes.includes(purpose);
  let wait = await count(`cooldown:${purpose}`, once, cooldown);
  if (wait === null && channel === 'sms') {
    const { textsSent } = settings.limits;
    wait = await count('textsSent', perNetwork(ip ?? 'none', address, textsSent), textsSent.window);
  }
  if (wait === null && channel === 'email') {
    const { emailsSent } = settings.limits;
    const group = isSignIn ? 'sign-in' : purpose;
    const isOften = await count(
      `emailsSent:${group}`,
      [{ subject: address, allowed: emailsSent.count }],
      emailsSent.window,
    );
    if (isOften !== null) wait = await count(`cooldown:${group}`, once, settings.emailOtpLifetime / 2);
  }
  if (wait === null) return;
  throw new AuthError(
    429,
    `over_${channel}_send_rate_limit`,
    `For security purposes, you can only request this after ${wait} seconds.`,
    { headers: { 'retry-after': String(wait) } },
  );
}

/** Ends the cooldown of sign-ins by email: the link was used, so the owner may need another one. */
export async function endSignInCooldown(tx: Session, address: string): Promise<void> {
  const names = [...signInPurposes, 'sign-in'].map((purpose) => `cooldown:${purpose}`);
  await tx.query(
    `delete from auth.rate_limits
     where subject = $2 and name in (select jsonb_array_elements_text($1::jsonb))`,
    [JSON.stringify(names), address.slice(0, 300)],
  );
}

interface Counter {
  subject: string;
  allowed: number;
}

/** Many customers of one provider share a wider network. */
const allowanceFactors: Readonly<Record<string, number>> = { '56': 2, '48': 8, '24': 8 };

function perNetwork(ip: string, subject: string, limit: Limit): Counter[] {
  return networksOf(ip).map((network) => ({
    subject: subject ? `${network} ${subject}` : network,
    allowed: limit.count * (allowanceFactors[network.split('/')[1] ?? ''] ?? 1),
  }));
}

/**
 * Counts a call in the counters of one limit. A call above the limit of one counter counts in none, so one IP address cannot
 * exhaust its wider networks.
 * @param window seconds
 * @returns seconds to wait; null when all counters are within their limits
 */
async function countCall(
  database: Session,
  context: Pick<AuthContext, 'now'>,
  name: string,
  counters: readonly Counter[],
  window: number,
): Promise<number | null> {
  const { rows } = await database.query<{ wait: number | null }>(
    `with requested as materialized (
       select left(given.value ->> 'subject', 300) as subject, (given.value ->> 'allowed')::integer as allowed, given.level
       from jsonb_array_elements($2::jsonb) with ordinality as given (value, level)
     ), used_up as materialized (
       select known.window_end from requested join auth.rate_limits as known on known.name = $1 and known.subject = requested.subject
       where known.window_end > $3::timestamptz and known.used >= requested.allowed
     ), counted as (
       insert into auth.rate_limits as known (name, subject, window_start, window_end, used)
       select $1, subject, $3::timestamptz, $4::timestamptz, 1 from requested
       where not exists (select from used_up)
       -- Concurrent calls lock their common counters in the same order.
       order by level
       on conflict (name, subject) do update set
         used = case when known.window_end <= $3::timestamptz then 1 else known.used + 1 end,
         window_start = case when known.window_end <= $3::timestamptz then $3::timestamptz else known.window_start end,
         window_end = case when known.window_end <= $3::timestamptz then $4::timestamptz else known.window_end end
       returning subject, used, window_end
     ), refused as (
       select window_end from used_up
       union all
       select counted.window_end from counted join requested using (subject) where counted.used > requested.allowed
     )
     select ceil(extract(epoch from max(window_end) - $3::timestamptz))::integer as wait from refused`,
    [name, JSON.stringify(counters), at(context), at(context, window)],
  );
  const wait = rows[0]?.wait ?? null;
  return wait === null ? null : Math.max(1, wait);
}

function refuseUntil(wait: number | null): void {
  if (wait === null) return;
  throw new AuthError(429, 'over_request_rate_limit', 'Request rate limit reached', {
    headers: { 'retry-after': String(wait) },
  });
}
