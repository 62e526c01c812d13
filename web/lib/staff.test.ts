import { AuthApiError } from '@supabase/auth-js';
import { SignJWT } from 'jose';
import { beforeEach, describe, expect, test, vi } from 'vitest';
import { createStaff, describeProblem, type Staff } from './staff.ts';

// What the services answer, by path; a number is a status without a body worth reading.
let answers: Record<string, unknown>;
let asked: Request[];
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
  const { error } = await staff.auth.signInWithPassword({ email: 'amina@jani.example', password: 'right' });
  expect(error).toBeNull();
}

beforeEach(() => {
  vi.spyOn(console, 'warn').mockImplementation(() => {});
  answers = { '/auth/v1/user': user(), '/rest/v1/admin_profiles': [{ is_active: true }] };
  asked = [];
  staff = createStaff({ url: 'http://services.example', key: 'sb_publishable_x' }, async (input, init) => {
    const request = new Request(input, init);
    asked.push(request);
    const answer = answers[new URL(request.url).pathname];
    if (answer instanceof Error) throw answer;
    return typeof answer === 'number'
      ? Response.json({ code: 'x', message: 'x' }, { status: answer })
      : Response.json(answer ?? {}, { status: answer === undefined ? 404 : 200 });
  });
  return () => vi.restoreAllMocks();
});

describe('who somebody is to the panel', () => {
  test('without a session nobody is asked', async () => {
    expect(await staff.standing()).toEqual({ is: 'signed out' });
    expect(asked).toEqual([]);
  });

  test('an active profile makes staff, asked for with the token of the session', async () => {
    await signIn('aal1');
    expect(await staff.standing()).toEqual({ is: 'staff', id: userId, email: 'amina@jani.example' });
    const profile = asked.find(({ url }) => url.includes('admin_profiles'));
    expect(new URL(profile?.url ?? '').search).toBe(
      `?select=is_active&user_id=eq.${userId}&is_active=eq.true`,
    );
    expect(profile?.headers.get('authorization')).toMatch(/^Bearer ey/);
    expect(profile?.headers.get('apikey')).toBe('sb_publishable_x');
  });

  test('without an active profile it is no staff, and the log says so', async () => {
    await signIn('aal1');
    answers['/rest/v1/admin_profiles'] = [];
    expect(await staff.standing()).toEqual({ is: 'not staff', email: 'amina@jani.example' });
    expect(console.warn).toHaveBeenCalledWith('This account is not admin, or not active');
  });

  test.each([
    ['the table service', '/rest/v1/admin_profiles', 500],
    ['the auth service', '/auth/v1/user', 403],
  ])('a check that fails in %s counts as not staff and is logged', async (_, path, status) => {
    await signIn('aal1');
    answers[path] = status;
    expect(await staff.standing()).toMatchObject({ is: 'not staff' });
    expect(console.warn).toHaveBeenCalledWith('The admin check failed', expect.anything());
  });

  test('a check that nobody answered is told apart from a refusal', async () => {
    await signIn('aal1');
    answers['/auth/v1/user'] = new TypeError('Failed to fetch');
    expect(await staff.standing()).toMatchObject({ is: 'not staff', isUnanswered: true });
    answers['/auth/v1/user'] = 403;
    expect(await staff.standing()).not.toHaveProperty('isUnanswered');
  });

  test('a verified factor must be passed, one that was only begun need not', async () => {
    await signIn('aal1');
    answers['/auth/v1/user'] = user([factor('unverified')]);
    expect(await staff.standing()).toMatchObject({ is: 'staff' });
    answers['/auth/v1/user'] = user([factor('verified')]);
    expect(await staff.standing()).toMatchObject({ is: 'second step', factors: [{ id: 'f' }] });
    await signIn('aal2');
    expect(await staff.standing()).toMatchObject({ is: 'staff' });
  });

  test('a session that was ended elsewhere is over here', async () => {
    await signIn('aal1');
    answers['/auth/v1/user'] = 403;
    staff = createStaff({ url: 'http://services.example', key: 'k' }, async (input) =>
      String(input).endsWith('/user')
        ? Response.json({ code: 403, error_code: 'session_not_found', msg: 'gone' }, { status: 403 })
        : Response.json(answers[new URL(String(input)).pathname] ?? []),
    );
    await signIn('aal1');
    expect(await staff.standing()).toEqual({ is: 'signed out' });
    expect((await staff.auth.getSession()).data.session).toBeNull();
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
  expect(await staff.takesPasskeys()).toBe(takes);
});

test('a problem is told in its own words, or in ours when it has none', () => {
  expect(describeProblem(new Error('Password is too short'), 'Failed')).toBe('Password is too short');
  expect(describeProblem(new Error(' '), 'Failed')).toBe('Failed');
  expect(describeProblem(null, 'Failed')).toBe('Failed');
  expect(describeProblem(new AuthApiError('Too often', 429, 'over_request_rate_limit'), 'Failed')).toBe(
    'Too often. Please wait a few minutes, then try again.',
  );
});
