// The staff's side: signing in, who counts as staff, and the tables as staff may see them. Loaded by /admin alone.
import {
  type AuthChangeEvent,
  AuthClient,
  type Factor,
  type GoTrueClient,
  isAuthRetryableFetchError,
  isAuthSessionMissingError,
} from '@supabase/auth-js';
import { PostgrestClient } from '@supabase/postgrest-js';
import type { RealtimeClient } from '@supabase/realtime-js';
import type { StorageClient } from '@supabase/storage-js';
import type { Database } from '../../supabase/types.ts';
import { ShownError } from './shown-error.ts';
import { type StoreAddress, servicesOrigin } from './store.ts';

/** What somebody is to the staff panel, as far as the services say so now. */
export type Standing =
  | { is: 'signed out' }
  /** `isUnanswered`: nobody was there to say so, such as on a line that is down. */
  | { is: 'not staff'; email: string; isUnanswered?: true }
  /** Staff, but with a second factor that this session has not passed yet. */
  | { is: 'second step'; email: string; factors: Factor[] }
  | { is: 'staff'; id: string; email: string };

export interface Staff {
  auth: GoTrueClient;
  /**
   * Asks with the session's access token. When the services refuse a call because the session has ended, the call waits
   * for the same person to sign in again and is then sent a second time; `storage` and `askPayments` do the same.
   */
  tables: PostgrestClient<Database>;
  /** Asks the services anew each time. A check that fails is logged and counts as not staff (specification §8). */
  standing(): Promise<Standing>;
  /** Asks whether the session still stands and reports it to `onStandingMayHaveChanged` when it does not. */
  checkSession(): Promise<void>;
  /** Whether the auth service takes passkeys. */
  takesPasskeys(): Promise<boolean>;
  /**
   * The files, as this member may see and change them. Its code is loaded when it is first asked for. `send` is for calls
   * that are watched on their way.
   */
  storage(send?: typeof fetch): Promise<StorageClient>;
  /**
   * Asks the payment function in the member's name.
   * @returns its answer
   * @throws ShownError with its sentence when it refused, or when nothing was answered
   */
  askPayments<Answer>(question: { action: string } & Record<string, unknown>): Promise<Answer>;
  /** A connection of its own to what happens, as this member may hear it. Its code is loaded when it is first asked for. */
  live(): Promise<RealtimeClient>;
}

/** Deadline of an answer of a table. */
const timeoutMs = 30_000;

export const passwordResetPath = '/admin/reset-password';

/** After these, who counts as staff is asked again (specification §4, Admin access). */
const standingEvents: AuthChangeEvent[] = [
  'SIGNED_IN',
  'SIGNED_OUT',
  'TOKEN_REFRESHED',
  'USER_UPDATED',
  'PASSWORD_RECOVERY',
  'MFA_CHALLENGE_VERIFIED',
];

let opened: Staff | null = null;

/** The one staff area of this tab: two clients would refresh one session against each other. */
export function openStaff(address: StoreAddress): Staff {
  opened ??= createStaff(address);
  return opened;
}

/** Makes a staff area of its own. `transport` is for tests. */
export function createStaff(
  address: StoreAddress,
  transport: typeof fetch = (...call) => fetch(...call),
): Staff {
  const origin = servicesOrigin(address);
  const auth = new AuthClient({
    url: `${origin}/auth/v1`,
    headers: { apikey: address.key },
    storageKey: 'jani.staff',
    // A link in a mail is often opened on another device than the one that asked for it.
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
  const inTime: typeof fetch = (input, init) =>
    // A connection that hangs is reported, and what was typed is still there.
    transport(input, { ...init, signal: init?.signal ?? AbortSignal.timeout(timeoutMs) });
  const openTables = (send: typeof fetch) =>
    new PostgrestClient<Database>(`${origin}/rest/v1`, { headers: { apikey: address.key }, fetch: send });
  const standing = () => readStanding(auth, openTables(withToken(inTime)));
  const { asMember, checkSession } = guardSession(auth, standing);
  const asMemberWithToken = (send: typeof fetch) => asMember(withToken(send));
  return {
    auth,
    tables: openTables(asMemberWithToken(inTime)),
    standing,
    checkSession,
    async takesPasskeys() {
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
    async askPayments<Answer>(question: { action: string } & Record<string, unknown>) {
      const answer = await asMemberWithToken(transport)(`${origin}/functions/v1/mobile-money`, {
        method: 'POST',
        headers: { apikey: address.key, 'content-type': 'application/json' },
        body: JSON.stringify(question),
      }).catch(() => null);
      const said = (await answer?.json().catch(() => null)) as (Answer & { error?: unknown }) | null;
      if (!answer?.ok || !said) {
        throw new ShownError(
          typeof said?.error === 'string'
            ? said.error
            : 'The payment service did not answer. Please try again.',
        );
      }
      return said;
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

/** What an unanswered check says nothing about stays as it was. */
const isOver = (standing: Standing): boolean =>
  standing.is !== 'staff' && !(standing.is === 'not staff' && standing.isUnanswered);

/** Listeners per client, for what no event of the auth client reports: an account that is no longer staff. */
const sessionListeners = new WeakMap<GoTrueClient, Set<() => void>>();

/** Holds calls that were refused because the session has ended, until the same person has signed in again. */
function guardSession(auth: GoTrueClient, standing: () => Promise<Standing>) {
  const listeners = new Set<() => void>();
  sessionListeners.set(auth, listeners);
  let asked: Promise<Standing> | null = null;
  /** However many calls are refused at once, the services are asked once. */
  const ask = () => {
    asked ??= standing().finally(() => {
      asked = null;
    });
    return asked;
  };
  const hasEnded = async (): Promise<boolean> => {
    const now = await ask();
    if (!isOver(now)) return false;
    for (const listener of listeners) listener();
    return true;
  };
  const untilSignedInAgain = (userId: string | undefined, signal: AbortSignal | null | undefined) =>
    new Promise<void>((resolve, reject) => {
      const end = (settle: () => void) => {
        data.subscription.unsubscribe();
        settle();
      };
      const lookAgain = async () => {
        const now = await ask();
        if (now.is !== 'staff') return;
        end(now.id === userId ? resolve : () => reject(new Error('Another account signed in')));
      };
      const { data } = auth.onAuthStateChange((event) => {
        // The auth client waits for its listeners and must not be asked before they return.
        if (event !== 'SIGNED_OUT' && standingEvents.includes(event)) setTimeout(() => void lookAgain());
      });
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
          await untilSignedInAgain(userId, init?.signal);
          answer = await send(input, init);
        }
        return answer;
      },
  };
}

/** Whether an answer looks as it does after a session has ended: 401, 403, or a write that found no row. */
async function mayMeanSessionEnded(answer: Response, method = 'GET'): Promise<boolean> {
  const { status } = answer;
  if (status === 401 || status === 403) return true;
  // The storage service names the status in the body.
  if (status === 400) return /"statusCode":\s*"?40[13]"?/.test(await answer.clone().text());
  if (method !== 'PATCH' && method !== 'DELETE') return false;
  // A single row was asked for, and policies hid it.
  return status === 406 || (status === 200 && (await answer.clone().text()) === '[]');
}

async function readStanding(auth: GoTrueClient, tables: PostgrestClient<Database>): Promise<Standing> {
  const { data } = await auth.getSession();
  const { session } = data;
  if (!session) return { is: 'signed out' };
  const [{ data: asked, error: userError }, profile, assurance] = await Promise.all([
    // From the service, not from storage: a session may have been ended and a factor added elsewhere.
    auth.getUser(),
    tables
      .from('admin_profiles')
      .select('is_active')
      .eq('user_id', session.user.id)
      .eq('is_active', true)
      .maybeSingle(),
    auth.mfa.getAuthenticatorAssuranceLevel(),
  ]);
  if (isAuthSessionMissingError(userError)) return { is: 'signed out' };
  const { user } = asked;
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
  return factors.length > 0 && assurance.data?.currentLevel !== 'aal2'
    ? { is: 'second step', email, factors }
    : { is: 'staff', id: user.id, email };
}

/**
 * Tells of every event after which the standing may be another one, in this tab or in others.
 * @returns a function that stops it
 */
export function onStandingMayHaveChanged({ auth }: Staff, listener: () => void): () => void {
  const { data } = auth.onAuthStateChange((event) => {
    if (standingEvents.includes(event)) listener();
  });
  const listeners = sessionListeners.get(auth);
  listeners?.add(listener);
  return () => {
    data.subscription.unsubscribe();
    listeners?.delete(listener);
  };
}

/**
 * Tells when the session has a new access token.
 * @returns a function that stops it
 */
export function onSessionRenewed({ auth }: Staff, listener: () => void): () => void {
  const { data } = auth.onAuthStateChange((event) => {
    if (event === 'TOKEN_REFRESHED') listener();
  });
  return () => data.subscription.unsubscribe();
}
