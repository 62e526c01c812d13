// How often something may be asked for. Counted in the database, so that it holds across processes.
import type { Session } from '../database/database.ts';
import { networkOf } from '../network.ts';
import { type AuthContext, at } from './context.ts';
import { AuthFault } from './fault.ts';
import type { Limit } from './settings.ts';

/**
 * Counts one use within a window.
 * @returns seconds to wait when there were too many; null when it is fine
 */
export async function secondsToWait(
  database: Session,
  context: Pick<AuthContext, 'now'>,
  name: string,
  subject: string,
  limit: Limit,
): Promise<number | null> {
  const { rows } = await database.query<{ used: number; wait: number }>(
    `insert into auth.rate_limits as known (name, subject, window_start, window_end, used)
     values ($1, $2, $3::timestamptz, $4::timestamptz, 1)
     on conflict (name, subject) do update set
       used = case when known.window_end <= $3::timestamptz then 1 else least(known.used + 1, 1000000) end,
       window_start = case when known.window_end <= $3::timestamptz then $3::timestamptz else known.window_start end,
       window_end = case when known.window_end <= $3::timestamptz then $4::timestamptz else known.window_end end
     returning used, ceil(extract(epoch from window_end - $3::timestamptz))::integer as wait`,
    [name, subject.slice(0, 300), at(context), at(context, limit.window)],
  );
  const [row] = rows;
  return row && row.used > limit.count ? Math.max(1, row.wait) : null;
}

/** Counts a request of a network address. @throws AuthFault 429 over_request_rate_limit */
export async function limitAddress(
  context: AuthContext,
  name: keyof AuthContext['settings']['limits'],
  ip: string | null,
): Promise<void> {
  const limit = context.settings.limits[name];
  if (!limit || !ip) return;
  const wait = await secondsToWait(context.database, context, name, networkOf(ip), limit);
  if (wait !== null) throw tooManyRequests(wait);
}

/** Counts an attempt on an account, known or not. @throws AuthFault 429 over_request_rate_limit */
export async function limitSubject(
  context: AuthContext,
  name: string,
  subject: string,
  limit: Limit,
): Promise<void> {
  const wait = await secondsToWait(context.database, context, name, subject, limit);
  if (wait !== null) throw tooManyRequests(wait);
}

/**
 * Counts an attempt at the password of an account, known or not. One network alone has half of the attempts, so that it
 * keeps nobody out; from where the account is signed in, others' attempts count for nothing.
 * @throws AuthFault 429 over_request_rate_limit
 */
export async function limitPasswords(
  context: AuthContext,
  account: { subject: string; userId: string | null },
  ip: string | null,
): Promise<void> {
  const limit = context.settings.limits.wrongPassword;
  const network = ip === null ? '' : networkOf(ip);
  const share = { ...limit, count: Math.ceil(limit.count / 2) };
  await limitSubject(context, 'wrongPasswordFrom', `${network} ${account.subject}`, share);
  const { rows } = await context.database.query<{ ip: string }>(
    'select distinct host(ip) as ip from auth.sessions where user_id = $1::uuid and ip is not null',
    [account.userId],
  );
  if (rows.some((session) => networkOf(session.ip) === network)) return;
  await limitSubject(context, 'wrongPassword', account.subject, limit);
}

/** Forgets the attempts at an account: somebody knew its password. */
export async function forgetAttempts(
  tx: Session,
  name: 'wrongPassword' | 'wrongCode',
  subject: string,
  ip: string | null,
): Promise<void> {
  const from = `${ip === null ? '' : networkOf(ip)} ${subject}`;
  await tx.query(
    'delete from auth.rate_limits where (name = $1 and subject = $2) or (name = $3 and subject = $4)',
    [name, subject.slice(0, 300), `${name}From`, from.slice(0, 300)],
  );
}

/**
 * Keeps the gap between two messages to an address, whether anybody has it or not.
 * @throws AuthFault 429 over_email_send_rate_limit or over_sms_send_rate_limit
 */
export async function keepGap(
  context: AuthContext,
  channel: 'email' | 'sms',
  purpose: string,
  address: string,
  gap: number,
): Promise<void> {
  if (gap > 0) {
    const wait = await secondsToWait(context.database, context, `gap:${purpose}`, address, {
      count: 1,
      window: gap,
    });
    if (wait !== null) {
      throw new AuthFault(
        429,
        `over_${channel}_send_rate_limit`,
        `For security purposes, you can only request this after ${wait} seconds.`,
        { headers: { 'retry-after': String(wait) } },
      );
    }
  }
  const total = channel === 'email' ? context.settings.limits.emailsSent : context.settings.limits.textsSent;
  if (!total) return;
  const wait = await secondsToWait(context.database, context, `${channel}_sent`, 'all', total);
  if (wait !== null) {
    throw new AuthFault(429, `over_${channel}_send_rate_limit`, `${channel} rate limit exceeded`, {
      headers: { 'retry-after': String(wait) },
    });
  }
}

function tooManyRequests(wait: number): AuthFault {
  return new AuthFault(429, 'over_request_rate_limit', 'Request rate limit reached', {
    headers: { 'retry-after': String(wait) },
  });
}
