// The team: roles, access, invitations, the second factor with its recovery codes.
import { randomUUID } from 'node:crypto';
import { type Claims, testDatabases } from '@jani-juice/backend/testing';
import { beforeEach, describe, expect, test } from 'vitest';
import { type Caller, expectRefusal, makeProduct, personIds } from '../shop-database.ts';
import { type Refund, setUpShop } from '../steps.ts';

interface Member {
  user_id: string;
  email: string;
  name: string;
  role: string;
  is_active: boolean;
  is_invited: boolean;
  last_seen_at: string | null;
  second_factors: number;
}
interface AuditRow {
  id: string;
  happened_at: string;
  area: string;
  kind: string;
  actor_email: string | null;
  subject: string | null;
  before: Record<string, unknown> | null;
  after: Record<string, unknown> | null;
}

describe.each(testDatabases())('on %s', (kind) => {
  const shop = setUpShop(kind);
  const { database, callAs, asStaff, asService, queryAs, readRow, readValue, place, pay, setStatus } = shop;
  const { requestRefund, approveRefund } = shop;
  beforeEach(() => database.execute('delete from private.rate_limits'));

  /** A new member, with an account that can sign in. */
  const addMember = async (role: string, name = '') => {
    const id = randomUUID();
    await database.query('insert into auth.users (id, email, email_confirmed_at) values ($1, $2, now())', [
      id,
      `${id.slice(0, 8)}@jani.example`,
    ]);
    await database.query('insert into public.admin_profiles (user_id, role, name) values ($1, $2, $3)', [
      id,
      role,
      name,
    ]);
    return {
      id,
      email: `${id.slice(0, 8)}@jani.example`,
      claims: { role: 'authenticated', sub: id } as Claims,
    };
  };
  const invite = async (role = 'staff', name = 'Njeri') => {
    const id = randomUUID();
    const email = `${id.slice(0, 8)}@jani.example`;
    await database.query('insert into auth.users (id, email) values ($1, $2)', [id, email]);
    await asService('record_invitation', { member_id: id, role, name, invited_by: personIds.staff });
    return { id, email, claims: { role: 'authenticated', sub: id } as Claims };
  };
  const change = (member_id: string, given: Record<string, unknown>, by: Caller = 'staff') =>
    callAs(by, 'change_member', { member_id, ...given });
  const listed = async (id: string) =>
    (await queryAs<Member>('staff', 'select * from public.team()')).rows.find(
      ({ user_id }) => user_id === id,
    );
  const isStaff = async (claims: Claims) =>
    (await queryAs<{ is_admin: boolean }>(claims, 'select public.is_admin()')).rows[0]?.is_admin;
  const auditOf = async (given = '') =>
    (
      await queryAs<AuditRow>(
        'staff',
        `select id, created_at::text as happened_at, area, kind, actor_email, subject, before, after from public.search_audit(${given})`,
      )
    ).rows;

  describe('a member', () => {
    test('gets another role and name, which takes effect at once and is in the audit', async () => {
      const { id, email, claims } = await addMember('staff');
      await change(id, { role: 'counter', name: ' Njeri Kamau ' });
      expect(await listed(id)).toMatchObject({
        email,
        role: 'counter',
        name: 'Njeri Kamau',
        is_active: true,
      });
      await expectRefusal(callAs(claims, 'search_orders'), 403, 'not_in_role');
      const [latest] = await auditOf();
      expect(latest).toMatchObject({
        area: 'team',
        kind: 'member_changed',
        actor_email: 'staff@jani.example',
        subject: email,
        before: { role: 'staff', name: '' },
        after: { role: 'counter', name: 'Njeri Kamau' },
      });
      // Nothing changed, nothing to read about.
      await change(id, { role: 'counter' });
      expect((await auditOf())[0]?.id).toBe(latest?.id);
      await expectRefusal(change(id, { role: 'boss' }), 400, 'role_unknown');
      await expectRefusal(change(id, { name: 'x'.repeat(61) }), 400, 'member_name_invalid');
      await expectRefusal(change(randomUUID(), { role: 'staff' }), 404, 'member_not_found');
    });

    test('without access is out at once, sessions included, and can be readmitted', async () => {
      const { id, claims } = await addMember('staff');
      const session = randomUUID();
      await database.query(
        `insert into auth.sessions (id, user_id, refresh_token_hmac_key) values ($1, $2, '')`,
        [session, id],
      );
      const inSession = { ...claims, session_id: session };
      expect(await isStaff(inSession)).toBe(true);
      expect((await listed(id))?.last_seen_at).not.toBeNull();
      await change(id, { is_active: false });
      expect(await isStaff(inSession)).toBe(false);
      expect(await readRow('select from auth.sessions where user_id = $1', [id])).toBeUndefined();
      expect(
        await readValue(`select count(*)::integer from realtime.messages where topic = $1`, [`staff-${id}`]),
      ).toBeGreaterThan(0);
      await change(id, { is_active: true });
      // The old session stays ended.
      expect(await isStaff(inSession)).toBe(false);
      expect(await isStaff(claims)).toBe(true);
    });

    test('changes the own name, and neither the own role nor access', async () => {
      const { id, claims } = await addMember('owner');
      await change(id, { name: 'Amina' }, claims);
      expect(await listed(id)).toMatchObject({ name: 'Amina', role: 'owner' });
      await expectRefusal(change(id, { role: 'staff' }, claims), 409, 'own_access');
      await expectRefusal(change(id, { is_active: false }, claims), 409, 'own_access');
    });

    test('who lost the second factor gets it reset by an owner, and signs in again', async () => {
      await database.execute(`delete from public.outbox_messages where kind = 'second_factor_removed'`);
      const { id, email } = await addMember('staff', 'Otieno');
      await addMember('owner');
      await expectRefusal(asStaff('reset_second_factor', { member_id: id }), 409, 'no_second_factor');
      expect(await removalMails()).toEqual([]);
      await database.query(
        `insert into auth.mfa_factors (user_id, factor_type, status) values ($1, 'totp', 'verified')`,
        [id],
      );
      await database.query(
        `insert into auth.sessions (id, user_id, refresh_token_hmac_key) values ($1, $2, '')`,
        [randomUUID(), id],
      );
      expect((await listed(id))?.second_factors).toBe(1);
      await asStaff('reset_second_factor', { member_id: id });
      expect((await listed(id))?.second_factors).toBe(0);
      expect(await readRow('select from auth.sessions where user_id = $1', [id])).toBeUndefined();
      expect((await auditOf())[0]).toMatchObject({ kind: 'second_factor_reset', subject: email });
      const mails = await removalMails();
      expect(mails.map(({ recipient }) => recipient)).toEqual(await ownersOfShop());
      expect(mails[0]?.facts.removal).toMatchObject({ member: 'Otieno', codes_left: null });
      await expectRefusal(asStaff('reset_second_factor', { member_id: personIds.staff }), 409, 'own_access');
    });
  });

  /** The mails about a second factor, each with the values of its placeholders. */
  const removalMails = async () =>
    (
      await database.query<{ recipient: string; facts: { removal: Record<string, unknown> } }>(
        `select recipient, private.message_facts(null, kind, event_key) as facts
         from public.outbox_messages where kind = 'second_factor_removed' order by recipient`,
      )
    ).rows;
  const ownersOfShop = async () =>
    (
      await database.query<{ email: string }>(`select email from private.staff_emails('team') order by email`)
    ).rows.map(({ email }) => email);

  describe('a recovery code', () => {
    /** A member with an authenticator app, before the second factor and after it. */
    const addCareful = async () => {
      const { id, email } = await addMember('staff');
      await database.query(
        `insert into auth.mfa_factors (user_id, factor_type, status) values ($1, 'totp', 'verified')`,
        [id],
      );
      const [session, other] = [randomUUID(), randomUUID()];
      for (const each of [session, other]) {
        await database.query(
          `insert into auth.sessions (id, user_id, refresh_token_hmac_key) values ($1, $2, '')`,
          [each, id],
        );
      }
      const claims: Claims = { role: 'authenticated', sub: id, session_id: session };
      return { id, email, session, halfWay: { ...claims, aal: 'aal1' }, passed: { ...claims, aal: 'aal2' } };
    };
    const make = async (claims: Claims) =>
      (
        await queryAs<{ code: string }>(claims, 'select code from public.make_recovery_codes() as code')
      ).rows.map(({ code }) => code);
    /** What use_recovery_code answers: a refusal that is counted is no error of the database. */
    const use = async (claims: Claims, code: string) =>
      (
        await queryAs<{ answer: Record<string, unknown> }>(
          claims,
          'select public.use_recovery_code($1) as answer',
          [code],
        )
      ).rows[0]?.answer;
    const left = async (claims: Claims) =>
      (await queryAs<{ left: number }>(claims, 'select public.count_recovery_codes() as left')).rows[0]?.left;
    const refused = { code: 'PT400', details: 'recovery_code_wrong' };

    test('removes the second factor once, however it is typed, and ends the other sessions', async () => {
      await database.execute(`delete from public.outbox_messages where kind = 'second_factor_removed'`);
      const { id, email, session, halfWay, passed } = await addCareful();
      const codes = await make(passed);
      expect(new Set(codes).size).toBe(10);
      for (const code of codes) expect(code).toMatch(/^([0-9A-HJKMNP-TV-Z]{4}-){2}[0-9A-HJKMNP-TV-Z]{4}$/);
      expect(await left(passed)).toBe(10);
      expect(await isStaff(halfWay)).toBe(false);
      const [code = ''] = codes;
      const typed = ` ${code.toLowerCase().replaceAll('-', ' ').replaceAll('0', 'o').replaceAll('1', 'l')}`;
      expect(await use(halfWay, typed)).toEqual({ codes_left: 9 });
      expect(await isStaff(halfWay)).toBe(true);
      const mails = await removalMails();
      expect(mails.map(({ recipient }) => recipient)).toEqual(await ownersOfShop());
      // A member without a name.
      expect(mails[0]?.facts.removal).toMatchObject({ member: email, removed_by: email, codes_left: 9 });
      expect((await database.query('select id from auth.sessions where user_id = $1', [id])).rows).toEqual([
        { id: session },
      ]);
      expect((await listed(id))?.second_factors).toBe(0);
      expect((await auditOf()).slice(0, 2)).toMatchObject([
        {
          area: 'team',
          kind: 'recovery_code_used',
          actor_email: email,
          subject: email,
          after: { codes_left: 9 },
        },
        { kind: 'recovery_codes_made', actor_email: email, subject: email },
      ]);
      await expectRefusal(use(halfWay, code), 409, 'no_second_factor');
      // With a new app the used code stays used, and the others work.
      await database.query(
        `insert into auth.mfa_factors (user_id, factor_type, status) values ($1, 'totp', 'verified')`,
        [id],
      );
      expect(await use(halfWay, code)).toMatchObject(refused);
      expect(await isStaff(halfWay)).toBe(false);
      expect(await use(halfWay, codes[1] ?? '')).toEqual({ codes_left: 8 });
    });

    test('ends with a new set, with a reset by an owner, and is of no use to anyone else', async () => {
      const { id, halfWay, passed } = await addCareful();
      const [old = ''] = await make(passed);
      const [code = ''] = await make(passed);
      expect(await left(passed)).toBe(10);
      expect(await use(halfWay, old)).toMatchObject(refused);
      const other = await addCareful();
      expect(await use(other.halfWay, code)).toMatchObject(refused);
      await expectRefusal(use({ ...halfWay, session_id: randomUUID() }, code), 403, 'staff_only');
      await database.query('update public.admin_profiles set is_active = false where user_id = $1', [id]);
      await expectRefusal(use(halfWay, code), 403, 'staff_only');
      await database.query('update public.admin_profiles set is_active = true where user_id = $1', [id]);
      await asStaff('reset_second_factor', { member_id: id });
      expect(
        await readValue('select count(*)::integer from private.recovery_codes where user_id = $1', [id]),
      ).toBe(0);
    });

    test('is stored as a hash, and made after the second factor only', async () => {
      const { id, halfWay, passed } = await addCareful();
      await expectRefusal(make(halfWay), 403, 'staff_only');
      const codes = await make(passed);
      const stored = await database.query<{ row: string }>(
        `select known::text || encode(known.code_hash, 'escape') as row from private.recovery_codes as known where user_id = $1`,
        [id],
      );
      expect(stored.rows).toHaveLength(10);
      for (const { row } of stored.rows) {
        for (const code of codes) expect(row).not.toContain(code.replaceAll('-', ''));
      }
      const { claims } = await addMember('owner');
      await expectRefusal(make(claims), 409, 'no_second_factor');
    });

    test('is guessed ten times an hour at most', async () => {
      const { halfWay, passed } = await addCareful();
      const [code = ''] = await make(passed);
      for (let tries = 0; tries < 10; tries += 1) {
        expect(await use(halfWay, 'AAAA-AAAA-AAAA')).toMatchObject(refused);
      }
      await expectRefusal(use(halfWay, code), 429, 'too_many_tries');
      await database.execute('delete from private.rate_limits');
      expect(await use(halfWay, code)).toEqual({ codes_left: 9 });
    });
  });

  describe('an invitation', () => {
    test('gives no access before it is accepted, can be sent again with another role, and withdrawn', async () => {
      const { id, email } = await invite('staff');
      expect(await listed(id)).toMatchObject({ email, is_invited: true, role: 'staff', name: 'Njeri' });
      expect((await auditOf())[0]).toMatchObject({
        kind: 'member_invited',
        subject: email,
        actor_email: 'staff@jani.example',
      });
      await asService('record_invitation', {
        member_id: id,
        role: 'counter',
        name: 'Njeri',
        invited_by: personIds.staff,
      });
      expect((await listed(id))?.role).toBe('counter');
      await asStaff('withdraw_invitation', { member_id: id });
      expect(await listed(id)).toBeUndefined();
      expect(await readRow('select from auth.users where id = $1', [id])).toBeUndefined();
      expect((await auditOf())[0]).toMatchObject({ kind: 'member_removed', subject: email });
    });

    test('that was accepted is not withdrawn, and sends no second one', async () => {
      const { id, email } = await invite();
      const check = (address: string) =>
        asStaff('check_invitation', { email: address, role: 'staff', name: 'Njeri' });
      await check(email);
      await database.query('update auth.users set email_confirmed_at = now() where id = $1', [id]);
      expect((await listed(id))?.is_invited).toBe(false);
      await expectRefusal(asStaff('withdraw_invitation', { member_id: id }), 409, 'invitation_accepted');
      await expectRefusal(check(email.toUpperCase()), 409, 'email_has_account');
      await expectRefusal(check('staff@jani.example'), 409, 'email_has_account');
      await expectRefusal(check('not an address'), 400, 'email_invalid');
    });
  });

  describe('an active owner', () => {
    /** Two owners, and no others. */
    const onlyTwoOwners = async () => {
      await database.query(`update public.admin_profiles set role = 'staff' where role = 'owner'`);
      return [await addMember('owner'), await addMember('owner')] as const;
    };
    const restore = () =>
      database.query(
        `update public.admin_profiles as p set role = 'owner' from auth.users as u
         where u.id = p.user_id and u.email in ('staff@jani.example', 'careful@jani.example', 'former@jani.example')`,
      );

    test.each([
      ['take the access of each other away', { is_active: false }],
      ['take the role of each other away', { role: 'staff' }],
    ] as const)('remains when two owners %s at once', async (_, given) => {
      const [one, other] = await onlyTwoOwners();
      const outcomes = await Promise.allSettled([
        change(one.id, given, other.claims),
        change(other.id, given, one.claims),
      ]);
      // On one connection the second owner has no rights any more.
      expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
      const [refused] = outcomes.flatMap((outcome) =>
        outcome.status === 'rejected' ? [outcome.reason] : [],
      );
      expect(refused.detail).toMatch(/^(last_owner|staff_only|not_in_role)$/);
      expect(await readValue('select count(*)::integer from private.active_owners()')).toBe(1);
      await restore();
    });

    test('is no owner who was invited and has not accepted', async () => {
      const [one, other] = await onlyTwoOwners();
      await invite('owner');
      await change(one.id, { is_active: false }, other.claims);
      expect(await readValue('select count(*)::integer from private.active_owners()')).toBe(1);
      await restore();
    });

    test('approves an own large refund alone, after a second factor and ten minutes', async () => {
      const [one, other] = await onlyTwoOwners();
      const product = await makeProduct(database, 10);
      const order = await place(product, { quantity: 2 });
      const { payment } = await pay(order);
      await setStatus(order, 'cancelled', 'assistant');
      const refund = await requestRefund(payment, { by: one.claims });
      expect(refund.status).toBe('requested');
      const secondStep = { ...one.claims, aal: 'aal2' };
      const later = () =>
        database.query(
          `update public.refunds set created_at = created_at - interval '10 minutes' where id = $1`,
          [refund.id],
        );
      await expectRefusal(approveRefund(refund, secondStep), 403, 'second_member_needed');
      await change(other.id, { role: 'staff' }, one.claims);
      await expectRefusal(approveRefund(refund, one.claims), 403, 'second_factor_needed');
      await expectRefusal(approveRefund(refund, secondStep), 409, 'approval_too_early');
      await later();
      await expectRefusal(approveRefund(refund, one.claims), 403, 'second_factor_needed');
      expect(await approveRefund(refund, secondStep)).toMatchObject({
        status: 'approved',
        approved_by: one.id,
        approved_alone: true,
      } satisfies Partial<Refund> & Record<string, unknown>);
      await restore();
    });
  });

  test('names of members are for all staff, by the addresses that histories store', async () => {
    const { email } = await addMember('staff', 'Wanjiku');
    const { rows } = await queryAs<{ email: string; name: string }>(
      'counter',
      'select * from public.staff_names()',
    );
    expect(rows).toContainEqual({ email, name: 'Wanjiku' });
  });
});
