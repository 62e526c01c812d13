// Finds or creates the user for a profile from an external party (provider, company or wallet).
import { DatabaseError, type Session } from '../../database/database.ts';
import { audit } from '../audit.ts';
import { AuthError } from '../auth-error.ts';
import { type AuthContext, type AuthRequest, at } from '../context.ts';
import { enforceCooldown } from '../limits.ts';
import type { IdentityRow, Json, UserRow } from '../rows.ts';
import { makeConfirmation, sendConfirmation, sentTo, signupDisabled } from '../users/sign-up.ts';
import {
  createUser,
  findIdentity,
  findUser,
  isBanned,
  listProviders,
  putIdentity,
  updateUser,
} from '../users/users.ts';

/** A profile from an external party. */
export interface Profile {
  /** `google`, `web3`, `sso:<id>`. */
  provider: string;
  /** The provider's id of the user; it never changes. */
  subject: string;
  email: string | null;
  isEmailVerified: boolean;
  /** Whether users without an email address may sign in. */
  isEmailOptional: boolean;
  /** Stored in the identity and merged into the user's metadata. */
  data: Json;
}

/** Origin and target of a sign-in. */
export type Arriving = Pick<AuthRequest, 'ip' | 'redirectTo'>;

/** An error that is returned after a commit: the address must be confirmed first. */
export class LateRefusal {
  readonly error: AuthError;
  /** Work after the transaction. */
  readonly send: () => Promise<void>;
  constructor(error: AuthError, send: () => Promise<void>) {
    this.error = error;
    this.send = send;
  }
}

/**
 * Runs work in a transaction. Of two requests that create the same user concurrently, the second one runs again.
 * @throws errors of the work, or the error it returns, after the commit
 */
export async function inTransaction<T>(
  context: AuthContext,
  work: (tx: Session) => Promise<T | LateRefusal>,
): Promise<T> {
  const run = () => context.database.transaction(work);
  const result = await run().catch((error) => {
    if (error instanceof DatabaseError && error.code === '23505') return run();
    throw error;
  });
  if (!(result instanceof LateRefusal)) return result;
  await result.send();
  throw result.error;
}

/**
 * Finds or creates the user of a profile: by its identity, else by the same verified email address, else a new one
 * (GoTrue's automatic linking).
 * @returns the user, or an error to throw after the commit
 * @throws AuthError signup_disabled, user_banned
 */
export async function accountOf(
  tx: Session,
  context: AuthContext,
  profile: Profile,
  arriving: Arriving,
): Promise<UserRow | LateRefusal> {
  const existingIdentity = await findIdentity(tx, profile.provider, profile.subject);
  const linked = existingIdentity ? null : await sameAddress(tx, profile);
  const found = existingIdentity
    ? await findUser(tx, { id: existingIdentity.user_id }, { lock: true })
    : linked;
  const user = found ?? (await newcomer(tx, context, profile));
  if (isBanned(user, context)) throw new AuthError(403, 'user_banned', 'User is banned');
  const identity = await addIdentity(tx, context, user, profile, arriving);
  await audit(tx, context, found ? 'login' : 'user_signedup', user, arriving, { provider: profile.provider });

  const needsAddress = profile.provider !== 'web3' && !(profile.isEmailOptional && !profile.email);
  if (!needsAddress || user.email_confirmed_at !== null) {
    return updateUser(tx, context, user.id, {
      raw_user_meta_data: { ...user.raw_user_meta_data, ...profile.data },
    });
  }
  if (!profile.isEmailVerified && !context.settings.autoconfirmsEmail) {
    return askToConfirm(context, user, profile.provider, arriving, 'provider_email_needs_verification');
  }
  // The provider verified its own address, not another one that this account claims.
  const email = profile.isEmailVerified ? profile.email : user.email;
  const isAnother = email !== null && email !== user.email && !user.is_sso_user;
  if (isAnother && (await findUser(tx, { email }))) {
    return askToConfirm(context, user, profile.provider, arriving, 'provider_email_needs_verification');
  }
  if (found && user.email !== null) await dropUnconfirmed(tx, context, user, identity);
  return updateUser(tx, context, user.id, {
    email,
    email_confirmed_at: at(context),
    raw_user_meta_data: profile.data,
  });
}

/**
 * Adds a requested identity to a signed-in user.
 * @throws AuthError identity_already_exists
 */
export async function linkTo(
  tx: Session,
  context: AuthContext,
  userId: string,
  profile: Profile,
  arriving: Arriving,
): Promise<UserRow | LateRefusal> {
  const user = await findUser(tx, { id: userId }, { lock: true });
  if (!user) throw new AuthError(422, 'user_not_found', 'Linking target user not found');
  if (isBanned(user, context)) throw new AuthError(403, 'user_banned', 'User is banned');
  const existingIdentity = await findIdentity(tx, profile.provider, profile.subject);
  if (existingIdentity) throw alreadyLinked(existingIdentity.user_id === user.id);
  await addIdentity(tx, context, user, profile, arriving);
  if (user.email !== null || !profile.email) return user;

  const holder = await findUser(tx, { email: profile.email });
  if (holder) {
    throw new AuthError(422, 'email_exists', 'A user with this email address has already been registered');
  }
  const withAddress = await updateUser(tx, context, user.id, { email: profile.email.toLowerCase() });
  if (!profile.isEmailVerified) {
    return askToConfirm(context, withAddress, profile.provider, arriving, 'email_not_confirmed');
  }
  return updateUser(tx, context, user.id, {
    email_confirmed_at: at(context),
    is_anonymous: false,
    raw_user_meta_data: { ...user.raw_user_meta_data, ...profile.data },
  });
}

/**
 * Accepts an invitation through a provider that knows the invited address.
 * @throws AuthError invite_not_found, validation_failed
 */
export async function acceptInvite(
  tx: Session,
  context: AuthContext,
  inviteToken: string,
  profile: Profile,
  arriving: Arriving,
): Promise<UserRow> {
  const userId = await invitedBy(tx, inviteToken);
  const user = userId ? await findUser(tx, { id: userId }, { lock: true }) : null;
  if (!user) throw new AuthError(404, 'invite_not_found', 'Invite not found');
  if (!profile.email || user.email?.toLowerCase() !== profile.email.toLowerCase()) {
    throw new AuthError(
      400,
      'validation_failed',
      'Invited email does not match emails from external provider',
    );
  }
  const existingIdentity = await findIdentity(tx, profile.provider, profile.subject);
  if (existingIdentity && existingIdentity.user_id !== user.id) throw alreadyLinked(false);
  const identity = await addIdentity(tx, context, user, profile, arriving);
  await dropUnconfirmed(tx, context, user, identity);
  return updateUser(tx, context, user.id, {
    email_confirmed_at: at(context),
    raw_user_meta_data: { ...user.raw_user_meta_data, ...profile.data },
  });
}

/** The user that an invitation's token was sent to; null when it is unknown or used. */
export async function invitedBy(tx: Session, inviteToken: string): Promise<string | null> {
  const { rows } = await tx.query<{ user_id: string }>(
    `select user_id from auth.one_time_tokens
     where token_hash = $1 and token_type = 'confirmation_token'::auth.one_time_token_type`,
    [inviteToken],
  );
  return rows[0]?.user_id ?? null;
}

async function sameAddress(tx: Session, profile: Profile): Promise<UserRow | null> {
  // An unverified address proves nothing: its claimant would get another user's account.
  if (!profile.email || !profile.isEmailVerified) return null;
  const isCompany = profile.provider.startsWith('sso:');
  if (!isCompany) {
    const holder = await findUser(tx, { email: profile.email }, { lock: true });
    if (holder) return holder;
  }
  const { rows } = await tx.query<{ user_id: string }>(
    `select distinct user_id from auth.identities
     where email = lower($1) and identity_data -> 'email_verified' = 'true'::jsonb
       and case when $2::boolean then provider = $3 else provider not like 'sso:%' end`,
    [profile.email, isCompany, profile.provider],
  );
  if (rows.length > 1) {
    const domain = isCompany ? profile.provider : 'default';
    throw new AuthError(
      500,
      'unexpected_failure',
      `Multiple accounts with the same email address in the same linking domain detected: ${domain}`,
    );
  }
  const [only] = rows;
  return only ? findUser(tx, { id: only.user_id }, { lock: true }) : null;
}

async function newcomer(tx: Session, context: AuthContext, profile: Profile): Promise<UserRow> {
  if (!context.settings.isSignupOpen) throw signupDisabled();
  const isCompany = profile.provider.startsWith('sso:');
  const isTaken = !isCompany && profile.email !== null && (await findUser(tx, { email: profile.email }));
  return createUser(tx, context, {
    email: isTaken ? null : (profile.email?.toLowerCase() ?? null),
    is_sso_user: isCompany,
    raw_user_meta_data: profile.data,
  });
}

async function addIdentity(
  tx: Session,
  context: AuthContext,
  user: UserRow,
  profile: Profile,
  arriving: Arriving,
): Promise<IdentityRow> {
  const identity = await putIdentity(tx, context, {
    userId: user.id,
    provider: profile.provider,
    providerId: profile.subject,
    data: profile.data,
  });
  if (!identity) throw alreadyLinked(false);
  if (identity.created_at === identity.updated_at) {
    await audit(tx, context, 'identity_linked', user, arriving, {
      identity_id: identity.id,
      provider: identity.provider,
      provider_id: identity.provider_id,
    });
  }
  return identity;
}

/**
 * Removes every other credential of an account whose address was never confirmed: another person may have created it in advance
 * to share it with the address's owner later.
 */
async function dropUnconfirmed(
  tx: Session,
  context: AuthContext,
  user: UserRow,
  existing: IdentityRow,
): Promise<void> {
  await tx.query('delete from auth.identities where user_id = $1::uuid and id <> $2::uuid', [
    user.id,
    existing.id,
  ]);
  for (const table of ['sessions', 'mfa_factors', 'webauthn_credentials', 'one_time_tokens']) {
    await tx.query(`delete from auth.${table} where user_id = $1::uuid`, [user.id]);
  }
  await updateUser(tx, context, user.id, {
    encrypted_password: null,
    phone: null,
    phone_confirmed_at: null,
    email_change: null,
    phone_change: null,
  });
  await listProviders(tx, user.id);
}

function askToConfirm(
  context: AuthContext,
  user: UserRow,
  provider: string,
  { redirectTo, ip }: Arriving,
  code: 'provider_email_needs_verification' | 'email_not_confirmed',
): LateRefusal {
  const { email } = user;
  const message = email
    ? `Unverified email with ${provider}. A confirmation email has been sent to your ${provider} email`
    : `Unverified email with ${provider}. Verify the email with ${provider} in order to sign in`;
  return new LateRefusal(new AuthError(422, code, message), async () => {
    if (!email) return;
    await enforceCooldown(context, { ...sentTo({ email }), purpose: 'signup', ip });
    const token = await context.database.transaction((tx) =>
      makeConfirmation(tx, context, user, { email }, null),
    );
    await sendConfirmation(context, email, token, redirectTo);
  });
}

function alreadyLinked(isOwn: boolean): AuthError {
  return new AuthError(
    422,
    'identity_already_exists',
    isOwn ? 'Identity is already linked' : 'Identity is already linked to another user',
  );
}
