// Sign-up, passwords, codes and links, through the official client.
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { type OpenAuthService, openAuthService } from '../testing/open-auth-service.ts';
import { testDatabases } from '../testing/throwaway.ts';
import { adminOf, clientOf, newEmail, password, post, refusal } from './auth-client.ts';

describe.each(testDatabases())('sign-up and sign-in without confirmation on %s', (kind) => {
  let service: OpenAuthService;
  beforeAll(async () => {
    service = await openAuthService(kind, {
      shortestAnswer: 0,
      emailResendGap: 0,
      smsResendGap: 0,
      isAnonymousSignInEnabled: true,
      limits: generousLimits,
    });
  });
  afterAll(() => service.close());

  test('a user signs up, signs in and reads their profile', async () => {
    const client = clientOf(service);
    const email = newEmail();
    const { data, error } = await client.signUp({
      email: email.toUpperCase(),
      password,
      options: { data: { favourite: 'mango' } },
    });
    expect(error).toBeNull();
    expect(data.session?.token_type).toBe('bearer');
    expect(data.session?.expires_in).toBe(3600);
    expect(data.user).toMatchObject({
      email,
      aud: 'authenticated',
      role: 'authenticated',
      is_anonymous: false,
      app_metadata: { provider: 'email', providers: ['email'] },
      user_metadata: { favourite: 'mango', email_verified: true },
      identities: [{ provider: 'email', id: data.user?.id, identity_data: { email, sub: data.user?.id } }],
    });

    const again = clientOf(service);
    const signedIn = await again.signInWithPassword({ email, password });
    expect(signedIn.error).toBeNull();
    const { data: read } = await again.getUser();
    expect(read.user?.id).toBe(data.user?.id);
    const { data: claimed } = await again.getClaims();
    expect(claimed?.claims).toMatchObject({
      iss: service.url,
      aud: 'authenticated',
      role: 'authenticated',
      sub: data.user?.id,
      aal: 'aal1',
      amr: [{ method: 'password' }],
      is_anonymous: false,
    });
    expect(claimed?.header.alg).toBe('ES256');
  });

  test('a phone works in place of an e-mail address', async () => {
    const client = clientOf(service);
    const { data, error } = await client.signUp({ phone: '+254 700 000 001', password });
    expect(error).toBeNull();
    expect(data.user?.phone).toBe('254700000001');
    const { error: again } = await clientOf(service).signInWithPassword({ phone: '+254700000001', password });
    expect(again).toBeNull();
  });

  test('anonymous users have neither an e-mail address nor a phone', async () => {
    const client = clientOf(service);
    const { data, error } = await client.signInAnonymously();
    expect(error).toBeNull();
    expect(data.user).toMatchObject({ is_anonymous: true, email: '', phone: '', app_metadata: {} });
    const refused = await client.updateUser({ password });
    expect(refusal(refused.error)).toEqual([422, 'validation_failed']);
    const { data: named, error: naming } = await client.updateUser({ email: newEmail() });
    expect(naming).toBeNull();
    expect(named.user?.is_anonymous).toBe(false);
  });

  test('a wrong password and an unknown user have the same error', async () => {
    const email = newEmail();
    await clientOf(service).signUp({ email, password });
    const wrong = await clientOf(service).signInWithPassword({ email, password: 'not it' });
    const unknown = await clientOf(service).signInWithPassword({ email: newEmail(), password });
    expect(refusal(wrong.error)).toEqual([400, 'invalid_credentials']);
    expect(wrong.error?.message).toBe('Invalid login credentials');
    expect(refusal(unknown.error)).toEqual(refusal(wrong.error));
    expect(unknown.error?.message).toBe(wrong.error?.message);
  });

  test('a taken address, a short password and malformed input have their own error codes', async () => {
    const email = newEmail();
    const client = clientOf(service);
    await client.signUp({ email, password });
    expect(refusal((await client.signUp({ email, password })).error)).toEqual([422, 'user_already_exists']);
    const weak = await client.signUp({ email: newEmail(), password: 'short' });
    expect(refusal(weak.error)).toEqual([422, 'weak_password']);
    expect(weak.error).toMatchObject({ reasons: ['length'] });
    const cases: [unknown, string][] = [
      [
        { email, phone: '254700000002', password },
        'Only an email address or phone number should be provided on signup.',
      ],
      [{ email: 'no-domain', password }, 'Unable to validate email address: invalid format'],
      [{ phone: 'abc', password }, 'Invalid phone number format (E.164 required)'],
      [{ email: newEmail() }, 'Signup requires a valid password'],
      [{ email: newEmail(), password: 'x'.repeat(73) }, 'Password cannot be longer than 72 characters'],
      [
        { email: newEmail(), password, code_challenge: 'x' },
        'PKCE flow requires code_challenge_method and code_challenge',
      ],
    ];
    for (const [body, message] of cases) {
      const answer = await post(service, '/signup', body);
      expect([answer.status, await answer.json()]).toEqual([
        400,
        { code: 400, error_code: 'validation_failed', msg: message },
      ]);
    }
  });

  test('one of many concurrent sign-ups with an address succeeds', async () => {
    const email = newEmail();
    const answers = await Promise.all(
      Array.from({ length: 5 }, () => clientOf(service).signUp({ email, password })),
    );
    expect(answers.filter(({ error }) => error === null)).toHaveLength(1);
    expect(answers.filter(({ error }) => error?.code === 'user_already_exists')).toHaveLength(4);
  });

  test('errors have the format of the API version that the client requests', async () => {
    const old = await post(service, '/token?grant_type=nothing', {});
    expect(old.headers.get('x-sb-error-code')).toBe('invalid_credentials');
    expect(await old.json()).toEqual({
      code: 400,
      error_code: 'invalid_credentials',
      msg: 'unsupported_grant_type',
    });
    const now = await post(
      service,
      '/token?grant_type=nothing',
      {},
      { 'x-supabase-api-version': '2024-01-01' },
    );
    expect(now.headers.get('x-supabase-api-version')).toBe('2024-01-01');
    expect(await now.json()).toEqual({ code: 'invalid_credentials', message: 'unsupported_grant_type' });
  });

  test('malformed JSON, large bodies and unknown paths are rejected', async () => {
    expect((await (await post(service, '/signup', '{')).json()).error_code).toBe('bad_json');
    expect((await post(service, '/signup', { data: 'x'.repeat(1_100_000) })).status).toBe(413);
    // Values that PostgreSQL cannot store: invalid characters and very deep nesting.
    for (const data of [{ a: '\0' }, { a: '\ud83c' }, { '\udf4b': 1 }]) {
      const odd = await post(service, '/signup', { email: newEmail(), password, data });
      expect([odd.status, (await odd.json()).error_code]).toEqual([400, 'bad_json']);
    }
    expect((await post(service, '/recover', { email: '\ud83c@jani.example' })).status).toBe(400);
    const deep = await fetch(`${service.url}/signup`, {
      method: 'POST',
      body: `{"email":"${newEmail()}","password":"${password}","data":{"a":${'['.repeat(20_000)}${']'.repeat(20_000)}}}`,
    });
    expect([deep.status, (await deep.json()).error_code]).toEqual([400, 'bad_json']);
    expect((await post(service, '/nothing', {})).status).toBe(404);
    expect((await post(service, '/user', {})).status).toBe(405);
  });

  test('users change their metadata, password and address', async () => {
    const client = clientOf(service);
    const email = newEmail();
    await client.signUp({ email, password, options: { data: { a: 1, b: 2 } } });
    const elsewhere = clientOf(service);
    await elsewhere.signInWithPassword({ email, password });

    const { data } = await client.updateUser({ data: { b: null, c: 3 } });
    expect(data.user?.user_metadata).toMatchObject({ a: 1, c: 3 });
    expect(data.user?.user_metadata).not.toHaveProperty('b');

    expect(refusal((await client.updateUser({ password })).error)).toEqual([422, 'same_password']);
    expect((await client.updateUser({ password: 'a new password' })).error).toBeNull();
    expect((await client.getUser()).error).toBeNull();
    const { data: held } = await elsewhere.getSession();
    const gone = await fetch(`${service.url}/user`, {
      headers: { authorization: `Bearer ${held.session?.access_token}` },
    });
    expect([gone.status, (await gone.json()).error_code]).toEqual([403, 'session_not_found']);
    expect((await clientOf(service).signInWithPassword({ email, password })).error?.code).toBe(
      'invalid_credentials',
    );

    const other = newEmail();
    await clientOf(service).signUp({ email: other, password });
    expect(refusal((await client.updateUser({ email: other })).error)).toEqual([422, 'email_exists']);
    const next = newEmail();
    const moved = await client.updateUser({ email: next });
    expect(moved.data.user).toMatchObject({ email: next, identities: [{ identity_data: { email: next } }] });
  });

  test('sign-out ends this session, the others, or all', async () => {
    const email = newEmail();
    const [first, second, third] = [clientOf(service), clientOf(service), clientOf(service)];
    await first.signUp({ email, password });
    await second.signInWithPassword({ email, password });
    await third.signInWithPassword({ email, password });
    expect((await first.signOut({ scope: 'others' })).error).toBeNull();
    expect((await second.refreshSession()).error?.code).toBe('refresh_token_not_found');
    expect((await first.getUser()).error).toBeNull();
    await second.signInWithPassword({ email, password });
    const { data } = await second.getSession();
    expect((await second.signOut({ scope: 'local' })).error).toBeNull();
    const gone = await clientOf(service).getUser(data.session?.access_token);
    expect(gone.error?.name).toBe('AuthSessionMissingError');
    expect((await first.getUser()).error).toBeNull();
    await first.signOut();
    const odd = await post(
      service,
      '/logout?scope=everything',
      {},
      {
        authorization: `Bearer ${(await clientOf(service).signInWithPassword({ email, password })).data.session?.access_token}`,
      },
    );
    expect([odd.status, (await odd.json()).error_code]).toEqual([400, 'validation_failed']);
  });

  test('a banned user cannot sign in until the ban ends', async () => {
    const client = clientOf(service);
    const email = newEmail();
    const { data } = await client.signUp({ email, password });
    const id = data.user?.id ?? '';
    const { data: banned } = await adminOf(service).updateUserById(id, { ban_duration: '1h30m' });
    expect(banned.user?.banned_until).toBeDefined();
    expect(refusal((await client.getUser()).error)).toEqual([403, 'user_banned']);
    expect(refusal((await client.refreshSession()).error)).toEqual([400, 'user_banned']);
    expect(refusal((await client.signInWithPassword({ email, password })).error)).toEqual([
      400,
      'user_banned',
    ]);
    await adminOf(service).updateUserById(id, { ban_duration: 'none' });
    expect((await client.signInWithPassword({ email, password })).error).toBeNull();
  });

  test('public keys, settings and health are public', async () => {
    const keys = await (await fetch(`${service.url}/.well-known/jwks.json`)).json();
    expect(keys.keys).toHaveLength(1);
    expect(keys.keys[0]).toMatchObject({ kid: 'one', alg: 'ES256', kty: 'EC' });
    expect(keys.keys[0]).not.toHaveProperty('d');
    const settings = await (await fetch(`${service.url}/settings`)).json();
    expect(settings).toMatchObject({
      disable_signup: false,
      mailer_autoconfirm: true,
      external: { email: true, phone: true, anonymous_users: true, google: false },
    });
    expect(await (await fetch(`${service.url}/health`)).json()).toMatchObject({ name: 'GoTrue' });
  });
});

const often = { count: 100_000, window: 300 };
const generousLimits = {
  signIn: often,
  signUp: often,
  otp: often,
  verify: often,
  anonymous: often,
  tokenRefresh: often,
  wrongPassword: often,
};

describe.each(testDatabases())('codes and links on %s', (kind) => {
  let service: OpenAuthService;
  beforeAll(async () => {
    service = await openAuthService(kind, {
      shortestAnswer: 0,
      emailResendGap: 0,
      smsResendGap: 0,
      autoconfirmsEmail: false,
      autoconfirmsPhone: false,
      testPhones: { '254700000099': '123456' },
      redirectAllowList: ['https://app.example.com/**'],
      limits: generousLimits,
    });
  });
  afterAll(() => service.close());
  beforeEach(() => {
    service.mails.length = 0;
    service.texts.length = 0;
  });

  const lastMail = () => {
    const mail = service.mails.at(-1);
    if (!mail?.code) throw new Error('no mail with a code came');
    return { ...mail, code: mail.code, link: mail.link ?? '' };
  };
  const follow = async (link: string) => {
    const answer = await fetch(link, { redirect: 'manual' });
    const target = new URL(answer.headers.get('location') ?? 'none:');
    return { status: answer.status, target, fragment: new URLSearchParams(target.hash.slice(1)) };
  };
  const person = async () => {
    const email = newEmail();
    const { data } = await adminOf(service).createUser({ email, password, email_confirm: true });
    return { email, id: data.user?.id ?? '' };
  };

  test('a new address is confirmed by the code of its e-mail, once', async () => {
    const client = clientOf(service);
    const email = newEmail();
    const { data, error } = await client.signUp({ email, password });
    expect([error, data.session]).toEqual([null, null]);
    expect(data.user?.confirmation_sent_at).toBeDefined();
    expect(refusal((await client.signInWithPassword({ email, password })).error)).toEqual([
      400,
      'email_not_confirmed',
    ]);
    const { code } = lastMail();
    expect(code).toMatch(/^\d{6}$/);
    const wrong = await client.verifyOtp({
      email,
      token: code === '000000' ? '000001' : '000000',
      type: 'signup',
    });
    expect(refusal(wrong.error)).toEqual([403, 'otp_expired']);
    const verified = await client.verifyOtp({ email, token: code, type: 'signup' });
    expect(verified.error).toBeNull();
    expect(verified.data.user?.email_confirmed_at).toBeDefined();
    expect(refusal((await client.verifyOtp({ email, token: code, type: 'signup' })).error)).toEqual([
      403,
      'otp_expired',
    ]);
    expect((await client.signInWithPassword({ email, password })).error).toBeNull();
  });

  test('signing up again resends the e-mail before confirmation, and has the same response afterwards', async () => {
    const client = clientOf(service);
    const email = newEmail();
    const first = await client.signUp({ email, password });
    const { code: before } = lastMail();
    const second = await client.signUp({ email, password: 'another password' });
    expect(second.data.user?.id).toBe(first.data.user?.id);
    const stale = await client.verifyOtp({ email, token: before, type: 'email' });
    expect(stale.error?.code, 'a code sent before the last password confirms nothing').toBe('otp_expired');
    await client.verifyOtp({ email, token: lastMail().code, type: 'email' });
    expect((await client.signInWithPassword({ email, password: 'another password' })).error).toBeNull();
    service.mails.length = 0;
    const third = await client.signUp({ email, password });
    expect([third.error, third.data.session]).toEqual([null, null]);
    expect(third.data.user?.id).not.toBe(first.data.user?.id);
    expect(third.data.user).toMatchObject({ email, role: '', identities: [] });
    expect(service.mails).toEqual([]);
  });

  test('a link signs in and redirects only to allowed URLs', async () => {
    const email = newEmail();
    const allowed = 'https://app.example.com/welcome?from=mail';
    await clientOf(service).signUp({ email, password, options: { emailRedirectTo: allowed } });
    const opened = await follow(lastMail().link);
    expect(opened.status).toBe(303);
    expect(`${opened.target.origin}${opened.target.pathname}${opened.target.search}`).toBe(allowed);
    expect(opened.fragment.get('type')).toBe('signup');
    expect(opened.fragment.get('token_type')).toBe('bearer');
    const { error } = await clientOf(service).getUser(opened.fragment.get('access_token') ?? '');
    expect(error).toBeNull();

    const again = await follow(lastMail().link);
    expect(again.fragment.get('error')).toBe('access_denied');
    expect(again.fragment.get('error_code')).toBe('otp_expired');

    await clientOf(service).resetPasswordForEmail(email, { redirectTo: 'https://evil.example.net/' });
    const elsewhere = await follow(lastMail().link);
    expect(elsewhere.target.origin).toBe(new URL(service.url).origin);
  });

  test('with PKCE a link issues a code for the client that requested it', async () => {
    const client = clientOf(service, 'pkce');
    const { email } = await person();
    await client.resetPasswordForEmail(email);
    const { link } = lastMail();
    expect(new URL(link).searchParams.get('token')).toMatch(/^pkce_/);
    const { target, fragment } = await follow(link);
    expect([...fragment.keys()]).toEqual([]);
    const code = target.searchParams.get('code') ?? '';
    expect(code).not.toBe('');
    const { data, error } = await client.exchangeCodeForSession(code);
    expect(error).toBeNull();
    expect(data.user?.email).toBe(email);
  });

  test('a magic link signs in known and new users', async () => {
    for (const email of [(await person()).email, newEmail()]) {
      const client = clientOf(service);
      expect((await client.signInWithOtp({ email })).error).toBeNull();
      const { data, error } = await client.verifyOtp({ email, token: lastMail().code, type: 'email' });
      expect(error).toBeNull();
      expect(data.user?.email).toBe(email);
    }
  });

  test('confirming an address by a code removes a password that was never confirmed', async () => {
    const email = newEmail();
    await clientOf(service).signUp({ email, password: 'set by another person' });
    const owner = clientOf(service);
    await owner.signInWithOtp({ email });
    expect((await owner.verifyOtp({ email, token: lastMail().code, type: 'email' })).error).toBeNull();
    const other = await clientOf(service).signInWithPassword({ email, password: 'set by another person' });
    expect(other.error?.code).toBe('invalid_credentials');
  });

  test('a phone receives a code, and a test phone has a fixed one', async () => {
    const client = clientOf(service);
    const phone = '254700000010';
    expect((await client.signInWithOtp({ phone: `+${phone}` })).error).toBeNull();
    const sent = service.texts.at(-1);
    expect(sent).toMatchObject({ to: phone, kind: 'otp', channel: 'sms' });
    const { data, error } = await client.verifyOtp({ phone, token: sent?.code ?? '', type: 'sms' });
    expect(error).toBeNull();
    expect(data.user?.phone_confirmed_at).toBeDefined();

    service.texts.length = 0;
    await client.signInWithOtp({ phone: '254700000099' });
    expect(service.texts).toEqual([]);
    const fixed = await client.verifyOtp({ phone: '254700000099', token: '123456', type: 'sms' });
    expect(fixed.error).toBeNull();
  });

  test('both e-mail and phone, or neither, are rejected', async () => {
    for (const [path, body] of [
      ['/otp', {}],
      ['/otp', { email: 'a@example.com', phone: '254700000011' }],
      ['/otp', { email: 'a@example.com', channel: 'sms' }],
      ['/resend', { type: 'signup' }],
      ['/resend', { type: 'sms', email: 'a@example.com' }],
      ['/resend', { type: 'signup', email: 'a@example.com', phone: '254700000011' }],
      ['/resend', { email: 'a@example.com' }],
      ['/recover', {}],
      ['/verify', {}],
      ['/verify', { type: 'email' }],
      ['/verify', { type: 'email', token: '1' }],
      ['/verify', { type: 'email', token: '1', email: 'a@example.com', phone: '254700000011' }],
      ['/verify', { type: 'email', token_hash: 'x', email: 'a@example.com' }],
      ['/verify', { type: 'nothing', token: '1', email: 'a@example.com' }],
      ['/token?grant_type=password', { password }],
      ['/token?grant_type=password', { password, email: 'a@example.com', phone: '254700000011' }],
    ] as const) {
      const answer = await post(service, path, body);
      expect([path, body, answer.status, (await answer.json()).error_code]).toEqual([
        path,
        body,
        400,
        'validation_failed',
      ]);
    }
  });

  test('known and unknown addresses have the same answer', async () => {
    const { email } = await person();
    for (const [path, body] of [
      ['/recover', {}],
      ['/resend', { type: 'signup' }],
      ['/otp', {}],
    ] as const) {
      const known = await post(service, path, { ...body, email });
      const unknown = await post(service, path, { ...body, email: newEmail() });
      expect([known.status, await known.text()]).toEqual([200, '{}']);
      expect([unknown.status, await unknown.text()]).toEqual([200, '{}']);
    }
  });

  test('a code and its link are void after their lifetime', async () => {
    const { email } = await person();
    const client = clientOf(service);
    await client.resetPasswordForEmail(email);
    const { link, code } = lastMail();
    service.advance(3601);
    expect((await client.verifyOtp({ email, token: code, type: 'recovery' })).error?.code).toBe(
      'otp_expired',
    );
    expect((await follow(link)).fragment.get('error_code')).toBe('otp_expired');
  });

  test('one of many concurrent requests with a code signs in', async () => {
    const { email } = await person();
    await clientOf(service).resetPasswordForEmail(email);
    const { code } = lastMail();
    const verify = (token: string) => clientOf(service).verifyOtp({ email, token, type: 'recovery' });
    const answers = await Promise.all(Array.from({ length: 5 }, () => verify(code)));
    expect(answers.filter(({ error }) => error === null)).toHaveLength(1);
  });

  test('an address and a guessed code do not make a valid link', async () => {
    const { createHash } = await import('node:crypto');
    const { email } = await person();
    await clientOf(service).resetPasswordForEmail(email);
    const { code } = lastMail();
    const guessed = createHash('sha224').update(`${email}${code}`).digest('hex');
    const { error } = await clientOf(service).verifyOtp({ token_hash: guessed, type: 'recovery' });
    expect(error?.code).toBe('otp_expired');
  });

  test('a new e-mail address is confirmed by the old and the new one', async () => {
    const client = clientOf(service);
    const { email } = await person();
    await client.signInWithPassword({ email, password });
    const next = newEmail();
    const { data } = await client.updateUser({ email: next });
    expect(data.user).toMatchObject({ email, new_email: next });
    expect(service.mails.map(({ to }) => to).sort()).toEqual([email, next].sort());
    const [one, two] = service.mails;
    const half = await follow(one?.link ?? '');
    expect(half.fragment.get('message')).toMatch(/^Confirmation link accepted/);
    expect((await client.getUser()).data.user?.email).toBe(email);
    const { error } = await client.verifyOtp({
      email: two?.to ?? '',
      token: two?.code ?? '',
      type: 'email_change',
    });
    expect(error).toBeNull();
    expect((await client.getUser()).data.user).toMatchObject({ email: next });
    expect((await client.getUser()).data.user?.new_email).toBeUndefined();
  });

  test('a new phone is confirmed by its code', async () => {
    const client = clientOf(service);
    const { email } = await person();
    await client.signInWithPassword({ email, password });
    const { data } = await client.updateUser({ phone: '+254700000020' });
    expect(data.user?.new_phone).toBe('254700000020');
    const token = service.texts.at(-1)?.code ?? '';
    const { error } = await client.verifyOtp({ phone: '254700000020', token, type: 'phone_change' });
    expect(error).toBeNull();
    expect((await client.getUser()).data.user?.phone).toBe('254700000020');
  });

  test('changing the password requires the nonce from an e-mail', async () => {
    const client = clientOf(service);
    const { email } = await person();
    await client.signInWithPassword({ email, password });
    expect((await client.reauthenticate()).error).toBeNull();
    const nonce = lastMail().code;
    const wrong = nonce === '333333' ? '444444' : '333333';
    expect(
      refusal((await client.updateUser({ password: 'changed with nonce', nonce: wrong })).error),
    ).toEqual([422, 'reauthentication_not_valid']);
    expect((await client.updateUser({ password: 'changed with nonce', nonce })).error).toBeNull();
    expect((await client.updateUser({ password: 'changed again', nonce })).error?.code).toBe(
      'reauthentication_not_valid',
    );
  });

  test('only the secret key creates, finds, changes, invites and deletes users', async () => {
    const admin = adminOf(service);
    const email = newEmail();
    const made = await admin.createUser({
      email,
      phone: '254700000030',
      user_metadata: { a: 1 },
      app_metadata: { level: 3 },
    });
    expect(made.data.user).toMatchObject({
      email,
      user_metadata: { a: 1 },
      app_metadata: { level: 3, providers: ['email', 'phone'] },
    });
    const id = made.data.user?.id ?? '';
    expect(refusal((await admin.createUser({ email })).error)).toEqual([422, 'email_exists']);
    expect(refusal((await admin.createUser({ phone: '254700000030' })).error)).toEqual([422, 'phone_exists']);
    expect(refusal((await admin.createUser({})).error)).toEqual([400, 'validation_failed']);
    expect((await admin.getUserById(id)).data.user?.email).toBe(email);
    const changed = await admin.updateUserById(id, {
      email: newEmail(),
      email_confirm: true,
      role: 'authenticated',
    });
    expect(changed.data.user?.email_confirmed_at).toBeDefined();
    const { data: page } = await admin.listUsers({ page: 1, perPage: 1 });
    expect(page.users).toHaveLength(1);
    expect(page).toMatchObject({ nextPage: 2 });
    expect((page as { total: number }).total).toBeGreaterThan(1);
    const bad = await fetch(`${service.url}/admin/users?page=x`, {
      headers: { authorization: `Bearer ${service.keys.secret}` },
    });
    expect([bad.status, (await bad.json()).error_code]).toEqual([400, 'validation_failed']);
    expect((await admin.deleteUser(id, true)).error).toBeNull();
    expect((await admin.getUserById(id)).data.user).toMatchObject({ user_metadata: {} });
    expect((await admin.getUserById(id)).data.user?.email).not.toContain('@');
    expect((await admin.deleteUser(id)).error).toBeNull();
    expect(refusal((await admin.getUserById(id)).error)).toEqual([404, 'user_not_found']);

    const invited = await admin.inviteUserByEmail(newEmail(), { data: { by: 'us' } });
    expect(invited.data.user?.invited_at).toBeDefined();
    expect(service.mails.at(-1)?.kind).toBe('invite');
    const accepted = await follow(lastMail().link);
    expect(accepted.fragment.get('type')).toBe('invite');
    expect(refusal((await admin.inviteUserByEmail(invited.data.user?.email ?? '')).error)).toEqual([
      422,
      'email_exists',
    ]);

    for (const headers of [
      { authorization: `Bearer ${service.keys.publishable}` },
      { authorization: `Bearer ${accepted.fragment.get('access_token')}` },
    ]) {
      const refused = await fetch(`${service.url}/admin/users`, { headers });
      expect([refused.status, (await refused.json()).error_code]).toEqual([403, 'not_admin']);
    }
    expect((await fetch(`${service.url}/admin/users`)).status).toBe(401);
  });

  test('links generated with the secret key work like those of e-mails', async () => {
    const admin = adminOf(service);
    const { email } = await person();
    const recovery = await admin.generateLink({ type: 'recovery', email });
    expect(recovery.error).toBeNull();
    expect(recovery.data.properties).toMatchObject({ verification_type: 'recovery' });
    const { error } = await clientOf(service).verifyOtp({
      token_hash: recovery.data.properties?.hashed_token ?? '',
      type: 'recovery',
    });
    expect(error).toBeNull();
    expect(service.mails).toEqual([]);
    expect(refusal((await admin.generateLink({ type: 'recovery', email: newEmail() })).error)).toEqual([
      404,
      'user_not_found',
    ]);
    expect(refusal((await admin.generateLink({ type: 'signup', email, password })).error)).toEqual([
      422,
      'email_exists',
    ]);
    const wanted = {
      type: 'signup' as const,
      email: newEmail(),
      password,
      options: { data: { status: 'new' } },
    };
    expect((await admin.generateLink(wanted)).data.user?.user_metadata).toEqual({ status: 'new' });
    const fresh = await admin.generateLink({ type: 'magiclink', email: newEmail() });
    expect(fresh.data.properties?.verification_type).toBe('signup');
    expect(
      (await follow(fresh.data.properties?.action_link ?? '')).fragment.get('access_token'),
    ).not.toBeNull();
  });
});

describe.each(testDatabases())('with sign-up disabled on %s', (kind) => {
  let service: OpenAuthService;
  beforeAll(async () => {
    service = await openAuthService(kind, {
      shortestAnswer: 40,
      isSignupOpen: false,
      autoconfirmsEmail: false,
    });
  });
  afterAll(() => service.close());

  test('sign-up is rejected', async () => {
    const client = clientOf(service);
    expect(refusal((await client.signUp({ email: newEmail(), password })).error)).toEqual([
      422,
      'signup_disabled',
    ]);
    expect(refusal((await client.signInAnonymously()).error)).toEqual([422, 'anonymous_provider_disabled']);
    expect((await client.signInWithOtp({ email: newEmail() })).error).toBeNull();
    expect(service.mails).toEqual([]);
  });

  test('imported users with unsupported password hashes cannot sign in by password', async () => {
    const email = newEmail();
    await adminOf(service).createUser({ email, password, email_confirm: true });
    await service.database.query(`update auth.users set encrypted_password = '$2a$10$x' where email = $1`, [
      email,
    ]);
    const given = { email, password: 'not the password of any user' };
    expect((await post(service, '/token?grant_type=password', given)).status).toBe(400);
  });

  test('requesting a code takes as long for unknown as for known users', async () => {
    const { data } = await adminOf(service).createUser({ email: newEmail(), email_confirm: true });
    for (const email of [data.user?.email ?? '', newEmail()]) {
      const start = performance.now();
      await clientOf(service).signInWithOtp({ email });
      expect(performance.now() - start).toBeGreaterThanOrEqual(39);
    }
  });
});
