// The auth client of staff and what is read through it. Loaded on demand (`staff.ts`): it is a tenth of the panel's first code.
import {
  AuthClient,
  type GoTrueClient,
  isAuthApiError,
  isAuthRetryableFetchError,
  isAuthSessionMissingError,
} from '@supabase/auth-js';
import type { PostgrestClient } from '@supabase/postgrest-js';
import type { Database } from '../../supabase/types.ts';
import type { DeviceStorage } from './browser/browser-storage.ts';
import { passwordResetPath, readProfile, type StaffStatus, staffFrom, storageKey } from './staff-status.ts';

export interface AuthOptions {
  origin: string;
  /** The publishable key. */
  key: string;
  storage: DeviceStorage;
  transport: typeof fetch;
}

export function createAuth({ origin, key, storage, transport }: AuthOptions): GoTrueClient {
  return new AuthClient({
    url: `${origin}/auth/v1`,
    headers: { apikey: key },
    storageKey,
    storage,
    // E-mail links are often opened on another device than the one that requested them.
    flowType: 'implicit',
    detectSessionInUrl: ({ pathname }, { access_token, error, error_code }) =>
      pathname === passwordResetPath && Boolean(access_token || error || error_code),
    experimental: { passkey: true },
    fetch: transport,
  });
}

/** Ends this session at the service. @returns whether it has ended there */
export async function endSession(auth: GoTrueClient): Promise<boolean> {
  const { data, error: refreshError } = await auth.getSession();
  if (refreshError) return !isAuthRetryableFetchError(refreshError);
  if (!data.session) return true;
  const { error } = await auth.admin.signOut(data.session.access_token, 'local');
  // A refusal of the token: the session has ended before.
  return !error || (isAuthApiError(error) && [401, 403, 404].includes(error.status));
}

export async function readStaffStatus(
  auth: GoTrueClient,
  tables: PostgrestClient<Database>,
): Promise<StaffStatus> {
  const { data } = await auth.getSession();
  const { session } = data;
  if (!session) return { is: 'signed out' };
  const [{ data: userData, error: userError }, profile, assurance] = await Promise.all([
    // From the service, not from storage: another device may have ended the session or added a factor.
    auth.getUser(),
    readProfile(tables, session.user.id),
    auth.mfa.getAuthenticatorAssuranceLevel(),
  ]);
  if (isAuthSessionMissingError(userError)) return { is: 'signed out' };
  const { user } = userData;
  const email = user?.email ?? session.user.email ?? '';
  if (userError || profile.error || !user) {
    console.warn('The admin check failed', userError ?? profile.error);
    const isUnanswered = isAuthRetryableFetchError(userError) || [0, 502, 503, 504].includes(profile.status);
    return { is: 'not staff', email, ...(isUnanswered && { isUnanswered }) };
  }
  if (!profile.data) {
    console.warn('This account is not admin, or not active');
    return { is: 'not staff', email };
  }
  const factors = (user.factors ?? []).filter(({ status }) => status === 'verified');
  if (factors.length > 0 && assurance.data?.currentLevel !== 'aal2')
    return { is: 'second step', email, factors };
  return staffFrom({ ...user, email }, profile.data, session.access_token);
}
