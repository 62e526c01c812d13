import { SignJWT } from 'jose';
import { beforeEach, describe, expect, test, vi } from 'vitest';
import { createStaff, onStaffStatusChange, type Staff } from './staff.ts';

// Answers of the services by path; a number is a status without a body.
let answers: Record<string, unknown>;
let requests: Request[];
let staff: Staff;

const userId = '5a000000-0000-4000-8000-000000000001';
const user = (factors: unknown[] = []) => ({ id: userId, email: 'amina@jani.example', factors });
const factor = (status: string) => ({ id: 'f', factor_type: 'totp', status });

async function signIn(aal: string): Promise<void> {
  const token = await new SignJWT({ sub: userId, aal, amr: [] })
    .setProtectedHeader({ alg: 'HS256' })
    .setExpirationTime('1h')
    .sign(new Uint8Array(32));
  answers['/auth/v1/token'] = {
    access_token: token,
    token_type: 'bearer',
    expires_in: 3600,
    refresh_token: 'refresh',
    user: user(),
  };
  const { error } = await (await staff.auth()).signInWithPassword({
    email: 'amina@jani.example',
    password: 'right',
  });
  expect(error).toBeNull();
}

function deferred<Value>() {
  let resolve: (value: Value) => void = () => {};
  const promise = new Promise<Value>((done) => {
    resolve = done;
  });
  return { promise, resolve };
}

/** The auth service cannot be reached. Its client library prints the error. */
function failUserRequest(): void {
  answers['/auth/v1/user'] = new TypeError('Failed to fetch');
  vi.spyOn(console, 'error').mockImplementation(() => {});
}

beforeEach(() => {
  vi.spyOn(console, 'warn').mockImplementation(() => {});
  answers = {
    '/auth/v1/user': user(),
    '/rest/v1/admin_profiles': [{ is_active: true, role: 'staff', name: 'Amina' }],
  };
  requests = [];
  staff = createStaff({ url: 'http://services.example', key: 'sb_publishable_x' }, async (input, init) => {
    const request = new Request(input, init);
    requests.push(request);
    const answer = answers[new URL(request.url).pathname];
    if (answer instanceof Error) throw answer;
    return typeof answer === 'number'
      ? Response.json({ code: 'x', message: 'x' }, { status: answer })
      : Response.json(answer ?? {}, { status: answer === undefined ? 404 : 200 });
  });
  return () => vi.restoreAllMocks();
});

describe('the staff status', () => {
  test('makes no request without a session', async () => {
    expect(await staff.status()).toEqual({ is: 'signed out' });
    expect(requests).toEqual([]);
  });

  test('is staff with an active profile, queried with the session token', async () => {
    await signIn('aal1');
    expect(await staff.status()).toEqual({
      is: 'staff',
      id: userId,
      email: 'amina@jani.example',
      role: 'staff',
      name: 'Amina',
    });
    const profile = requests.find(({ url }) => url.includes('admin_profiles'));
    expect(new URL(profile?.url ?? '').search).toBe(
      `?select=is_active%2Crole%2Cname&user_id=eq.${userId}&is_active=eq.true`,
    );
    expect(profile?.headers.get('authorization')).toMatch(/^Bearer ey/);
    expect(profile?.headers.get('apikey')).toBe('sb_publishable_x');
  });

  test('is not staff without an active profile, which is logged', async () => {
    await signIn('aal1');
    answers['/rest/v1/admin_profiles'] = [];
    expect(await staff.status()).toEqual({ is: 'not staff', email: 'amina@jani.example' });
    expect(console.warn).toHaveBeenCalledWith('This account is not admin, or not active');
  });

  test.each([
    ['the table service', '/rest/v1/admin_profiles', 500],
    ['the auth service', '/auth/v1/user', 403],
  ])('a check that fails in %s counts as not staff and is logged', async (_, path, status) => {
    await signIn('aal1');
    answers[path] = status;
    expect(await staff.status()).toMatchObject({ is: 'not staff' });
    expect(console.warn).toHaveBeenCalledWith('The admin check failed', expect.anything());
  });

  test('distinguishes an unanswered check from a refusal', async () => {
    await signIn('aal1');
    failUserRequest();
    expect(await staff.status()).toMatchObject({ is: 'not staff', isUnanswered: true });
    answers['/auth/v1/user'] = 403;
    expect(await staff.status()).not.toHaveProperty('isUnanswered');
  });

  test('requires a verified factor, but not an unverified one', async () => {
    await signIn('aal1');
    answers['/auth/v1/user'] = user([factor('unverified')]);
    expect(await staff.status()).toMatchObject({ is: 'staff' });
    answers['/auth/v1/user'] = user([factor('verified')]);
    expect(await staff.status()).toMatchObject({ is: 'second step', factors: [{ id: 'f' }] });
    await signIn('aal2');
    expect(await staff.status()).toMatchObject({ is: 'staff' });
  });

  test('ends with a session that was ended elsewhere', async () => {
    await signIn('aal1');
    answers['/auth/v1/user'] = 403;
    staff = createStaff({ url: 'http://services.example', key: 'k' }, async (input) =>
      String(input).endsWith('/user')
        ? Response.json({ code: 403, error_code: 'session_not_found', msg: 'gone' }, { status: 403 })
        : Response.json(answers[new URL(String(input)).pathname] ?? []),
    );
    await signIn('aal1');
    expect(await staff.status()).toEqual({ is: 'signed out' });
    expect((await (await staff.auth()).getSession()).data.session).toBeNull();
  });
});

describe('signing out', () => {
  const events: string[] = [];
  beforeEach(async () => {
    events.length = 0;
    (await staff.auth()).onAuthStateChange((event) => void events.push(event));
    await signIn('aal1');
    requests.length = 0;
    vi.spyOn(console, 'error').mockImplementation(() => {});
  });
  const expectSignedOut = async () => {
    expect((await (await staff.auth()).getSession()).data.session).toBeNull();
    expect(events.at(-1)).toBe('SIGNED_OUT');
    expect(await staff.status()).toEqual({ is: 'signed out' });
  };

  test.each([
    ['answers', {}, false],
    ['has ended the session before', 403, false],
    ['cannot be reached', new TypeError('Failed to fetch'), true],
    ['fails', 500, true],
  ])('forgets the session when the auth service %s', async (_, answer, isUnconfirmed) => {
    answers['/auth/v1/logout'] = answer;
    await staff.signOut();
    expect(requests.map(({ url }) => url)).toEqual(['http://services.example/auth/v1/logout?scope=local']);
    await expectSignedOut();
    expect(staff.isSignOutUnconfirmed()).toBe(isUnconfirmed);
    await signIn('aal1');
    expect(staff.isSignOutUnconfirmed()).toBe(false);
  });

  test('ends after a few seconds when the service never answers, and a late new token is discarded', async () => {
    vi.useFakeTimers();
    const { promise, resolve } = deferred<Response>();
    const late = createStaff({ url: 'http://services.example', key: 'k' }, (input) =>
      String(input).includes('refresh_token')
        ? promise
        : Promise.resolve(Response.json(answers[new URL(String(input)).pathname])),
    );
    await (await late.auth()).signInWithPassword({ email: 'amina@jani.example', password: 'right' });
    vi.setSystemTime(Date.now() + 3_600_000);
    const signingOut = late.signOut();
    await vi.advanceTimersByTimeAsync(5_000);
    await signingOut;
    expect(late.isSignOutUnconfirmed()).toBe(true);
    resolve(Response.json(answers['/auth/v1/token']));
    await vi.advanceTimersByTimeAsync(60_000);
    expect((await (await late.auth()).getSession()).data.session).toBeNull();
    vi.useRealTimers();
  });
});

test.each([
  [{ passkeys_enabled: true }, true],
  [{ passkeys_enabled: false }, false],
  [{}, false],
  [500, false],
  [new TypeError('offline'), false],
])('when the settings are %j, passkeys are taken: %s', async (settings, takes) => {
  answers['/auth/v1/settings'] = settings;
  expect(await staff.arePasskeysEnabled()).toBe(takes);
});

describe('a refused call', () => {
  const setStatus = () =>
    staff.tables.from('products').update({ is_active: false }).eq('id', userId).select('id');
  const callsOf = (path: string) => requests.filter(({ url }) => new URL(url).pathname === path).length;

  test('returns its answer if the session is valid, after one check', async () => {
    await signIn('aal1');
    answers['/rest/v1/products'] = 403;
    const [one, other] = await Promise.all([setStatus(), setStatus()]);
    expect([one.status, other.status]).toEqual([403, 403]);
    expect(callsOf('/auth/v1/user')).toBe(1);
  });

  test('reports another role of the member, once', async () => {
    await signIn('aal1');
    let reports = 0;
    onStaffStatusChange(staff, () => {
      reports += 1;
    });
    await staff.status();
    await staff.checkSession();
    expect(reports).toBe(0);
    answers['/rest/v1/admin_profiles'] = [{ is_active: true, role: 'counter', name: 'Amina' }];
    await staff.checkSession();
    await staff.checkSession();
    expect(reports).toBe(1);
    expect(await staff.status()).toMatchObject({ role: 'counter' });
  });

  test.each([
    ['a refusal', 401],
    ['a write that found no row', []],
  ])('waits for a new session of the same person: %s', async (_, refusal) => {
    await signIn('aal1');
    let reports = 0;
    onStaffStatusChange(staff, () => {
      reports += 1;
    });
    answers['/rest/v1/products'] = refusal;
    answers['/rest/v1/admin_profiles'] = [];
    let isAnswered = false;
    const write = setStatus().then((answer) => {
      isAnswered = true;
      return answer;
    });
    await vi.waitFor(() => expect(reports).toBeGreaterThan(0), { timeout: 20_000 });
    expect(isAnswered).toBe(false);
    answers['/rest/v1/products'] = [{ id: userId }];
    answers['/rest/v1/admin_profiles'] = [{ is_active: true, role: 'staff', name: 'Amina' }];
    await signIn('aal1');
    expect((await write).data).toEqual([{ id: userId }]);
    expect(callsOf('/rest/v1/products')).toBe(2);
  });

  test('is not repeated for another account', async () => {
    await signIn('aal1');
    answers['/rest/v1/products'] = 401;
    answers['/rest/v1/admin_profiles'] = [];
    // Awaited at once: the client sends a query only then.
    const write = setStatus().then((answer) => answer);
    await vi.waitFor(() => expect(callsOf('/rest/v1/admin_profiles')).toBe(1), { timeout: 20_000 });
    answers['/rest/v1/admin_profiles'] = [{ is_active: true, role: 'staff', name: 'Amina' }];
    answers['/auth/v1/user'] = { ...user(), id: '5a000000-0000-4000-8000-000000000002' };
    await signIn('aal1');
    expect((await write).error).not.toBeNull();
    expect(callsOf('/rest/v1/products')).toBe(1);
  });

  test('does not end the session if the services do not answer', async () => {
    await signIn('aal1');
    answers['/rest/v1/products'] = 403;
    failUserRequest();
    expect((await setStatus()).status).toBe(403);
  });
});
