// Staff sign-in, staff status, and data access of staff. Loaded by /admin only.
import type { AuthChangeEvent, Factor, GoTrueClient } from '@supabase/auth-js';
import { PostgrestClient } from '@supabase/postgrest-js';
import type { RealtimeClient } from '@supabase/realtime-js';
import type { StorageClient } from '@supabase/storage-js';
import { withTimeout as withinTime } from '../../domain/timeout.ts';
import { type StoreAddress, servicesOrigin } from '../../supabase/services-origin.ts';
import type { Database } from '../../supabase/types.ts';
import { deviceStorageOrMemory, onStoredElsewhere } from './browser/browser-storage.ts';
import { fetchUnlessSent } from './browser/early-requests.ts';
import { type SettledWrite, withLostAnswers } from './lost-answers.ts';
import { ShownError } from './shown-error.ts';
import type { AuthOptions } from './staff-auth.ts';
import { readProfile, type StaffStatus, staffFrom, storageKey } from './staff-status.ts';

export interface Staff {
  /**
   * The auth client, loaded on first use: the first screen of a valid session is shown without it.
   * @throws when its code cannot be loaded
   */
  auth(): Promise<GoTrueClient>;
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
/** The auth client renews a session 90 s before its end. */
const minValidMs = 120_000;

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
  const session = createSession({ origin, key: address.key, storage, transport });
  const accessToken = async () => (await session.read())?.access_token ?? null;
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
    const now = await readStatus(session, openTables(withToken(withTimeout)), () =>
      withToken(withTimeout)(`${origin}/auth/v1/user`, { headers: { apikey: address.key } }),
    );
    if (now.is === 'staff') lastRole = `${now.id} ${now.role}`;
    return now;
  };
  const { asMember, checkSession } = guardSession(session, status, () => lastRole);
  const asMemberWithToken = (send: typeof fetch) => asMember(withToken(send));
  const plainTables = openTables(asMemberWithToken(withTimeout));
  const settleWrite = async (writeId: string): Promise<SettledWrite> => {
    const { data, error } = await plainTables.rpc('settle_write', { write_id: writeId }).single();
    if (error) throw new Error(error.message);
    return data;
  };
  let isUnconfirmed = false;
  session.follow((event) => {
    if (event === 'SIGNED_IN') isUnconfirmed = false;
  });
  const staff: Staff = {
    auth: async () => (await session.load()).auth,
    async signOut() {
      const ended = session.load().then(({ auth, endSession }) => endSession(auth));
      isUnconfirmed = !(await withinTime(ended, signOutTimeoutMs).catch(() => false));
      await session.forget();
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
  sessions.set(staff, session);
  return staff;
}

/** What is read of the stored session. */
interface StoredSession {
  access_token: string;
  expires_at?: number;
  user: { id: string; email?: string };
}

/** Of an instance, for the functions below it. */
const sessions = new WeakMap<Staff, Session>();

interface Session {
  /** Loads the auth client and what is read through it, once. */
  load(): Promise<LoadedAuth>;
  /** Loaded already, or null. */
  loaded(): LoadedAuth | null;
  /** As stored. Without the auth client only a session that it need not renew yet. */
  stored(): StoredSession | null;
  /** Whether nothing is stored. */
  isMissing(): boolean;
  /** Renewed if it is about to end. */
  read(): Promise<StoredSession | null>;
  /** Removes it from this device. */
  forget(): Promise<void>;
  /** Calls back after every event of the auth client. @returns a function that stops it */
  follow(listener: (event: AuthChangeEvent) => void): () => void;
  /** Calls back when the account is no longer staff or has another role, for which the auth client has no event. */
  roleListeners: Set<() => void>;
}

type LoadedAuth = { auth: GoTrueClient } & Pick<
  typeof import('./staff-auth.ts'),
  'endSession' | 'readStaffStatus'
>;

function createSession(options: AuthOptions): Session {
  const { storage } = options;
  const listeners = new Set<(event: AuthChangeEvent) => void>();
  const emit = (event: AuthChangeEvent) => {
    for (const listener of [...listeners]) listener(event);
  };
  let loaded: LoadedAuth | null = null;
  let loading: Promise<LoadedAuth> | null = null;
  async function start(): Promise<LoadedAuth> {
    const { createAuth, endSession, readStaffStatus } = await import('./staff-auth.ts');
    const auth = createAuth(options);
    let isStarting = true;
    auth.onAuthStateChange((event) => {
      // Its start reports the stored session as a sign-in.
      if (!isStarting || event !== 'SIGNED_IN') emit(event);
    });
    await auth.initialize();
    isStarting = false;
    loaded = { auth, endSession, readStaffStatus };
    return loaded;
  }
  const load = () => {
    loading ??= start().catch((error) => {
      loading = null;
      throw error;
    });
    return loading;
  };
  const stored = (): StoredSession | null => {
    try {
      const session: StoredSession | null = JSON.parse(storage.getItem(storageKey) ?? 'null');
      const endsAt = (session?.expires_at ?? 0) * 1000;
      return endsAt - Date.now() < minValidMs ? null : session;
    } catch {
      return null;
    }
  };
  const isMissing = () => storage.getItem(storageKey) === null;
  return {
    load,
    loaded: () => loaded,
    stored,
    isMissing,
    async read() {
      if (!loaded) {
        const session = stored();
        if (session || isMissing()) return session;
      }
      return (await (await load()).auth.getSession()).data.session;
    },
    // The client's own sign-out keeps the session if the service does not answer, and without a stored session it informs this and
    // the other tabs without a request.
    async forget() {
      storage.removeItem(storageKey);
      if (!loaded) return emit('SIGNED_OUT');
      const { error } = await loaded.auth.signOut({ scope: 'local' });
      if (error) throw error;
    },
    follow(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    roleListeners: new Set(),
  };
}

/** @param askUser requests the account of the session */
async function readStatus(
  session: Session,
  tables: PostgrestClient<Database>,
  askUser: () => Promise<Response>,
): Promise<StaffStatus> {
  const stored = session.stored();
  if (!session.loaded()) {
    if (session.isMissing()) return { is: 'signed out' };
    const status = stored && (await readStoredStatus(stored, tables, askUser).catch(() => null));
    if (status) return status;
  }
  const loaded = await session.load().catch((error: unknown) => {
    console.warn('The admin check failed', error);
    return null;
  });
  if (!loaded) return { is: 'not staff', email: stored?.user.email ?? '', isUnanswered: true };
  return loaded.readStaffStatus(loaded.auth, tables);
}

/** A member with a valid session, without the auth client. @returns null for every other status, which that client reads */
async function readStoredStatus(
  { access_token, user: { id } }: StoredSession,
  tables: PostgrestClient<Database>,
  askUser: () => Promise<Response>,
): Promise<StaffStatus | null> {
  const [answer, profile] = await Promise.all([askUser(), readProfile(tables, id)]);
  if (!answer.ok || !profile.data) return null;
  const user = (await answer.json()) as { id: string; email?: string; factors?: Pick<Factor, 'status'>[] };
  const hasFactor = user.factors?.some(({ status }) => status === 'verified');
  if (user.id !== id || (hasFactor && !isVerifiedTwice(access_token))) return null;
  return staffFrom(user, profile.data, access_token);
}

/** Whether the session of a token has passed the second factor. */
function isVerifiedTwice(token: string): boolean {
  const [, payload = ''] = token.split('.');
  return JSON.parse(atob(payload.replaceAll('-', '+').replaceAll('_', '/'))).aal === 'aal2';
}

/** An unanswered check does not change the status. */
const isNoLongerStaff = (status: StaffStatus): boolean =>
  status.is !== 'staff' && !(status.is === 'not staff' && status.isUnanswered);

/** Holds calls that were refused because the session has ended, until the same user has signed in again. */
function guardSession(
  session: Session,
  status: () => Promise<StaffStatus>,
  lastRole: () => string | undefined,
) {
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
    if (ended || role !== lastRole()) for (const listener of session.roleListeners) listener();
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
      const stop = onStatusEvent(session, () => setTimeout(() => void checkAgain()));
      signal?.addEventListener('abort', () => end(() => reject(signal.reason)));
    });
  return {
    async checkSession() {
      await hasEnded();
    },
    asMember:
      (send: typeof fetch): typeof fetch =>
      async (input, init) => {
        const userId = (await session.read())?.user.id;
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

/**
 * Calls back after every event that can change the staff status, in this tab or others.
 * @returns a function that stops it
 */
export function onStaffStatusChange(staff: Staff, listener: () => void): () => void {
  const session = sessionOf(staff);
  const stop = onStatusEvent(session, listener);
  session.roleListeners.add(listener);
  return () => {
    stop();
    session.roleListeners.delete(listener);
  };
}

function sessionOf(staff: Staff): Session {
  const session = sessions.get(staff);
  if (!session) throw new TypeError('Not created by createStaff');
  return session;
}

/** Events of the auth client, and of the stored session: an event of another tab can arrive before its session can be read here. */
function onStatusEvent(session: Session, listener: () => void): () => void {
  const stops = [
    session.follow((event) => {
      if (statusEvents.includes(event)) listener();
    }),
    onStoredElsewhere(storageKey, listener),
  ];
  return () => {
    for (const stop of stops) stop();
  };
}

/**
 * Calls back when the session has a new access token.
 * @returns a function that stops it
 */
export const onSessionRenewed = (staff: Staff, listener: () => void): (() => void) =>
  sessionOf(staff).follow((event) => {
    if (event === 'TOKEN_REFRESHED') listener();
  });
