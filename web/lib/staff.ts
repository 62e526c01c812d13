// Staff sign-in, staff status, and data access of staff. Loaded by /admin only.
import {
  type AuthChangeEvent,
  AuthClient,
  type Factor,
  type GoTrueClient,
  isAuthApiError,
  isAuthRetryableFetchError,
  isAuthSessionMissingError,
} from '@supabase/auth-js';
import { PostgrestClient } from '@supabase/postgrest-js';
import type { RealtimeClient } from '@supabase/realtime-js';
import type { StorageClient } from '@supabase/storage-js';
import type { StaffRole } from '../../domain/staff-rights.ts';
import { withTimeout as withinTime } from '../../domain/timeout.ts';
import { type StoreAddress, servicesOrigin } from '../../supabase/store.ts';
import type { Database } from '../../supabase/types.ts';
import { type DeviceStorage, deviceStorageOrMemory, onStoredElsewhere } from './browser/browser-storage.ts';
import { fetchUnlessSent, noteStaffSession } from './browser/early-requests.ts';
import { type SettledWrite, withLostAnswers } from './lost-answers.ts';
import { ShownError } from './shown-error.ts';

/** The current status of a user in the staff panel. */
export type StaffStatus =
  | { is: 'signed out' }
  /** `isUnanswered`: the check failed, for example without a connection. */
  | { is: 'not staff'; email: string; isUnanswered?: true }
  /** Staff with a second factor that this session has not verified. */
  | { is: 'second step'; email: string; factors: Factor[] }
  | { is: 'staff'; id: string; email: string; role: StaffRole; name: string };

export interface Staff {
  auth: GoTrueClient;
  /**
   * Queries with the session's access token. If the services refuse a call because the session has ended, the call waits
   * for the same user to sign in again and is then repeated; so do `storage` and `callPayments`.
   */
  tables: PostgrestClient<Database>;
  /**
   * Asks whether a write whose answer was lost was saved. If not, it never will be.
   * @param writeId from the details of an answer with `lostCode`
   * @throws Error without an answer
   */
  settleWrite(writeId: string): Promise<SettledWrite>;
  /** Checks the staff status on each call. A failed check is logged and counts as not staff (docs/product.md#sign-in). */
  status(): Promise<StaffStatus>;
  /** Signs this device out, in all its tabs, even if the services cannot be reached. */
  signOut(): Promise<void>;
  /** Whether the services could not be reached by the last sign-out, so that the session is still valid there. */
  isSignOutUnconfirmed(): boolean;
  /** Checks the session and notifies `onStaffStatusChange` if it has ended or the role is another one. */
  checkSession(): Promise<void>;
  /** Whether the auth service has passkeys enabled. */
  arePasskeysEnabled(): Promise<boolean>;
  /**
   * The storage client of this staff member, loaded on first use. `send` is a `fetch` for calls
   * that report their progress.
   */
  storage(send?: typeof fetch): Promise<StorageClient>;
  /**
   * Calls the payment function as this staff member.
   * @returns its answer
   * @throws ShownError with the function's message, or if there was no answer
   */
  callPayments<Answer>(body: { action: string } & Record<string, unknown>): Promise<Answer>;
  /** The realtime client of this staff member, loaded on first use. */
  live(): Promise<RealtimeClient>;
}

/** Deadline of a query. */
const timeoutMs = 30_000;
/** Deadline of a sign-out: the next user of a shared device waits for it. */
const signOutTimeoutMs = 5_000;
const storageKey = 'jani.staff';

export const passwordResetPath = '/admin/reset-password';

/** Events after which the staff status is checked again (docs/product.md#access-and-security). */
const statusEvents: AuthChangeEvent[] = [
  'SIGNED_IN',
  'SIGNED_OUT',
  'TOKEN_REFRESHED',
  'USER_UPDATED',
  'PASSWORD_RECOVERY',
  'MFA_CHALLENGE_VERIFIED',
];

let opened: Staff | null = null;

/** The only instance of this tab: two clients would compete to refresh one session. */
export function openStaff(address: StoreAddress): Staff {
  opened ??= createStaff(address);
  return opened;
}

/** Creates an instance. `transport` is for tests. */
export function createStaff(address: StoreAddress, transport: typeof fetch = fetchUnlessSent): Staff {
  const origin = servicesOrigin(address);
  const storage = deviceStorageOrMemory();
  const auth = new AuthClient({
    url: `${origin}/auth/v1`,
    headers: { apikey: address.key },
    storageKey,
    storage,
    // E-mail links are often opened on another device than the one that requested them.
    flowType: 'implicit',
    detectSessionInUrl: ({ pathname }, { access_token, error, error_code }) =>
      pathname === passwordResetPath && Boolean(access_token || error || error_code),
    experimental: { passkey: true },
    fetch: transport,
  });
  const accessToken = async (): Promise<string | null> =>
    (await auth.getSession()).data.session?.access_token ?? null;
  const withToken =
    (send: typeof fetch): typeof fetch =>
    async (input, init) => {
      const token = await accessToken();
      const headers = new Headers(init?.headers);
      if (token) headers.set('authorization', `Bearer ${token}`);
      return send(input, { ...init, headers });
    };
  const withTimeout: typeof fetch = (input, init) =>
    // A stalled request fails, so that typed text is not lost in a form that never answers.
    transport(input, { ...init, signal: init?.signal ?? AbortSignal.timeout(timeoutMs) });
  const openTables = (send: typeof fetch) =>
    new PostgrestClient<Database>(`${origin}/rest/v1`, { headers: { apikey: address.key }, fetch: send });
  let lastRole: string | undefined;
  const status = async () => {
    const now = await readStaffStatus(auth, openTables(withToken(withTimeout)));
    if (now.is === 'staff') lastRole = `${now.id} ${now.role}`;
    return now;
  };
  const { asMember, checkSession } = guardSession(auth, status, () => lastRole);
  const asMemberWithToken = (send: typeof fetch) => asMember(withToken(send));
  const plainTables = openTables(asMemberWithToken(withTimeout));
  const settleWrite = async (writeId: string): Promise<SettledWrite> => {
    const { data, error } = await plainTables.rpc('settle_write', { write_id: writeId }).single();
    if (error) throw new Error(error.message);
    return data;
  };
  let isUnconfirmed = false;
  auth.onAuthStateChange((event) => {
    if (event === 'SIGNED_IN') isUnconfirmed = false;
  });
  return {
    auth,
    async signOut() {
      isUnconfirmed = !(await withinTime(endSession(auth), signOutTimeoutMs).catch(() => false));
      await forgetSession(auth, storage);
    },
    isSignOutUnconfirmed: () => isUnconfirmed,
    tables: openTables(withLostAnswers(asMemberWithToken(withTimeout), settleWrite)),
    settleWrite,
    status,
    checkSession,
    async arePasskeysEnabled() {
      try {
        const answer = await transport(`${origin}/auth/v1/settings`, { headers: { apikey: address.key } });
        const settings: unknown = answer.ok ? await answer.json() : null;
        return (settings as { passkeys_enabled?: unknown } | null)?.passkeys_enabled === true;
      } catch {
        return false;
      }
    },
    async storage(send = transport) {
      const { StorageClient } = await import('@supabase/storage-js');
      return new StorageClient(`${origin}/storage/v1`, { apikey: address.key }, asMemberWithToken(send));
    },
    async callPayments<Answer>(body: { action: string } & Record<string, unknown>) {
      const answer = await asMemberWithToken(transport)(`${origin}/functions/v1/mobile-money`, {
        method: 'POST',
        headers: { apikey: address.key, 'content-type': 'application/json' },
        body: JSON.stringify(body),
      }).catch(() => null);
      const result = (await answer?.json().catch(() => null)) as (Answer & { error?: unknown }) | null;
      if (!answer?.ok || !result) {
        throw new ShownError(
          typeof result?.error === 'string'
            ? result.error
            : 'The payment service did not answer. Please try again.',
        );
      }
      return result;
    },
    async live() {
      const { RealtimeClient } = await import('@supabase/realtime-js');
      return new RealtimeClient(`${origin.replace(/^http/, 'ws')}/realtime/v1`, {
        params: { apikey: address.key },
        accessToken,
      });
    },
  };
}

/** Ends this session at the service. @returns whether it has ended there */
async function endSession(auth: GoTrueClient): Promise<boolean> {
  const { data, error: refreshError } = await auth.getSession();
  if (refreshError) return !isAuthRetryableFetchError(refreshError);
  if (!data.session) return true;
  const { error } = await auth.admin.signOut(data.session.access_token, 'local');
  // A refusal of the token: the session has ended before.
  return !error || (isAuthApiError(error) && [401, 403, 404].includes(error.status));
}

/**
 * Removes this session from the device. The client's own sign-out keeps it if the service does not answer, and without a stored
 * session it informs this and the other tabs without a request.
 */
async function forgetSession(auth: GoTrueClient, storage: DeviceStorage): Promise<void> {
  storage.removeItem(storageKey);
  const { error } = await auth.signOut({ scope: 'local' });
  if (error) throw error;
}

/** An unanswered check does not change the status. */
const isNoLongerStaff = (status: StaffStatus): boolean =>
  status.is !== 'staff' && !(status.is === 'not staff' && status.isUnanswered);

/** Listeners for what the auth client has no event for: an account that is no longer staff. */
const sessionListeners = new WeakMap<GoTrueClient, Set<() => void>>();

/** Holds calls that were refused because the session has ended, until the same user has signed in again. */
function guardSession(
  auth: GoTrueClient,
  status: () => Promise<StaffStatus>,
  lastRole: () => string | undefined,
) {
  const listeners = new Set<() => void>();
  sessionListeners.set(auth, listeners);
  let pendingCheck: Promise<StaffStatus> | null = null;
  /** Concurrent refused calls share one check. */
  const check = () => {
    pendingCheck ??= status().finally(() => {
      pendingCheck = null;
    });
    return pendingCheck;
  };
  const hasEnded = async (): Promise<boolean> => {
    const role = lastRole();
    const ended = isNoLongerStaff(await check());
    // Another role shows other screens.
    if (ended || role !== lastRole()) for (const listener of listeners) listener();
    return ended;
  };
  const waitForSignIn = (userId: string | undefined, signal: AbortSignal | null | undefined) =>
    new Promise<void>((resolve, reject) => {
      const end = (settle: () => void) => {
        stop();
        settle();
      };
      const checkAgain = async () => {
        const now = await check();
        if (now.is !== 'staff') return;
        end(now.id === userId ? resolve : () => reject(new Error('Another account signed in')));
      };
      // The auth client awaits its listeners and must not be called before they return.
      const stop = onStatusEvent(auth, () => setTimeout(() => void checkAgain()));
      signal?.addEventListener('abort', () => end(() => reject(signal.reason)));
    });
  return {
    async checkSession() {
      await hasEnded();
    },
    asMember:
      (send: typeof fetch): typeof fetch =>
      async (input, init) => {
        const userId = (await auth.getSession()).data.session?.user.id;
        let answer = await send(input, init);
        while ((await mayMeanSessionEnded(answer, init?.method)) && (await hasEnded())) {
          await waitForSignIn(userId, init?.signal);
          answer = await send(input, init);
        }
        return answer;
      },
  };
}

/** Whether an answer can mean that the session has ended: 401, 403, or a write that found no row. */
async function mayMeanSessionEnded(answer: Response, method = 'GET'): Promise<boolean> {
  const { status } = answer;
  if (status === 401 || status === 403) return true;
  // The storage service has the status in the body.
  if (status === 400) return /"statusCode":\s*"?40[13]"?/.test(await answer.clone().text());
  if (method !== 'PATCH' && method !== 'DELETE') return false;
  // A single row was requested, and policies hid it.
  return status === 406 || (status === 200 && (await answer.clone().text()) === '[]');
}

async function readStaffStatus(auth: GoTrueClient, tables: PostgrestClient<Database>): Promise<StaffStatus> {
  const { data } = await auth.getSession();
  const { session } = data;
  if (!session) return { is: 'signed out' };
  const [{ data: userData, error: userError }, profile, assurance] = await Promise.all([
    // From the service, not from storage: another device may have ended the session or added a factor.
    auth.getUser(),
    tables
      .from('admin_profiles')
      .select('is_active, role, name')
      .eq('user_id', session.user.id)
      .eq('is_active', true)
      .maybeSingle(),
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
  noteStaffSession(session.access_token);
  const { role, name } = profile.data;
  return { is: 'staff', id: user.id, email, role, name };
}

/**
 * Calls back after every event that can change the staff status, in this tab or others.
 * @returns a function that stops it
 */
export function onStaffStatusChange({ auth }: Staff, listener: () => void): () => void {
  const stop = onStatusEvent(auth, listener);
  const listeners = sessionListeners.get(auth);
  listeners?.add(listener);
  return () => {
    stop();
    listeners?.delete(listener);
  };
}

/** Events of the auth client, and of the stored session: an event of another tab can arrive before its session can be read here. */
function onStatusEvent(auth: GoTrueClient, listener: () => void): () => void {
  const { data } = auth.onAuthStateChange((event) => {
    if (statusEvents.includes(event)) listener();
  });
  const stop = onStoredElsewhere(storageKey, listener);
  return () => {
    data.subscription.unsubscribe();
    stop();
  };
}

/**
 * Calls back when the session has a new access token.
 * @returns a function that stops it
 */
export function onSessionRenewed({ auth }: Staff, listener: () => void): () => void {
  const { data } = auth.onAuthStateChange((event) => {
    if (event === 'TOKEN_REFRESHED') listener();
  });
  return () => data.subscription.unsubscribe();
}
