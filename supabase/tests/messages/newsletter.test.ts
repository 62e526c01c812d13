// The newsletter list: one link in an email subscribes an address, another unsubscribes it. Responses do not reveal subscribers.
import type { DatabaseError } from '@jani-juice/backend/database';
import { testDatabases } from '@jani-juice/backend/testing';
import { beforeEach, describe, expect, test } from 'vitest';
import { expectRefusal } from '../shop-database.ts';
import { setUpShop } from '../steps.ts';

describe.each(testDatabases())('on %s', (kind) => {
  const { database, asVisitor, asService, readRows, readColumn } = setUpShop(kind);
  beforeEach(() =>
    database.execute(
      'delete from public.newsletter_subscriptions; delete from private.newsletter_mailed; delete from private.rate_limits',
    ),
  );

  const subscribe = (email: string | null, address?: string) =>
    asVisitor('subscribe_to_newsletter', { email }, address);
  const subscriptions = () =>
    readRows<{ id: string; email: string; is_confirmed: boolean }>(
      `select id, email, confirmed_at is not null as is_confirmed
       from public.newsletter_subscriptions order by created_at, email`,
    );
  /** Recipients of queued emails. */
  const mails = () =>
    readColumn(
      `select m.recipient from public.outbox_messages as m
       join private.outbox_queue as q on q.message_id = m.id and q.channel = 'mail'
       where m.kind = 'newsletter_confirmation' and m.channel = 'mail' and m.status = 'waiting' order by m.recipient`,
    );
  const tokensFor = async (email: string) => {
    const found = (await subscriptions()).find((subscription) => subscription.email === email);
    return asService<{ confirm: string; unsubscribe: string }>('issue_newsletter_tokens', {
      subscription_id: found?.id,
    });
  };
  const use = (step: 'confirm_newsletter' | 'unsubscribe_from_newsletter', token: string | null) =>
    asVisitor<boolean>(step, { token }, '203.0.113.8');
  const letDaysPass = (days: number) =>
    database.query(`update private.newsletter_mailed set mailed_at = mailed_at - make_interval(days => $1)`, [
      String(days),
    ]);

  test('stores an address once, in any case, unconfirmed', async () => {
    await subscribe(' Amina@example.com ');
    await subscribe('amina@EXAMPLE.com');
    expect(await subscriptions()).toMatchObject([{ email: 'Amina@example.com', is_confirmed: false }]);
  });

  test('the answer is the same for a new address, a known one and one on the list', async () => {
    const answers = [await subscribe('amina@example.com'), await subscribe('amina@example.com')];
    await use('confirm_newsletter', (await tokensFor('amina@example.com')).confirm);
    answers.push(await subscribe('amina@example.com'));
    expect(answers).toEqual([null, null, null]);
  });

  test('sends one confirmation email per address in 30 days, and none to an address on the list', async () => {
    for (let count = 0; count < 5; count += 1) await subscribe('amina@example.com', `203.0.113.${count}`);
    expect(await mails()).toEqual(['amina@example.com']);
    await letDaysPass(29);
    await subscribe('amina@example.com');
    expect(await mails()).toHaveLength(1);
    await letDaysPass(1);
    await subscribe('AMINA@example.com');
    expect(await mails()).toEqual(['amina@example.com', 'amina@example.com']);
    await use('confirm_newsletter', (await tokensFor('amina@example.com')).confirm);
    await letDaysPass(31);
    await subscribe('amina@example.com');
    expect(await mails()).toHaveLength(2);
  });

  test('a stranger who unsubscribed, or whose subscription was deleted, gets no other email for 30 days', async () => {
    await subscribe('amina@example.com');
    await use('unsubscribe_from_newsletter', (await tokensFor('amina@example.com')).unsubscribe);
    await subscribe('amina@example.com');
    expect(await subscriptions()).toEqual([]);
    expect(await mails()).toEqual([]);
  });

  test.each([
    ['amina@example.com', 'amina+more@example.com'],
    ['amina.kamau@gmail.com', 'a.minakamau+x@googlemail.com'],
  ])('%s and %s are one mailbox', async (first, second) => {
    await subscribe(first);
    await subscribe(second);
    expect(await mails()).toEqual([first]);
  });

  test('from 60 networks that subscribe strangers, a twentieth of the day in mails leaves, five of each', async () => {
    let refused = 0;
    for (let n = 0; n < 60; n += 1) {
      for (let stranger = 0; stranger < 7; stranger += 1) {
        await subscribe(`stranger${n}-${stranger}@example.com`, `10.60.${n}.1`).catch(() => {
          refused += 1;
        });
      }
    }
    expect(await mails()).toHaveLength(50);
    expect(refused).toBe(60 * 7 - 50);
  });

  test('the token of an email confirms its address once; other tokens confirm nothing', async () => {
    await subscribe('amina@example.com');
    await subscribe('brian@example.com');
    const { confirm, unsubscribe } = await tokensFor('amina@example.com');
    const wrong = [null, '', 'x', unsubscribe, confirm.toUpperCase(), `${confirm} `, 'a'.repeat(1_000_000)];
    for (const token of wrong) expect(await use('confirm_newsletter', token)).not.toBe(true);
    expect((await subscriptions()).map(({ is_confirmed }) => is_confirmed)).toEqual([false, false]);
    expect(await use('confirm_newsletter', confirm)).toBe(true);
    expect(await subscriptions()).toMatchObject([
      { email: 'amina@example.com', is_confirmed: true },
      { email: 'brian@example.com', is_confirmed: false },
    ]);
    expect(await use('confirm_newsletter', confirm)).toBe(false);
  });

  test('the unsubscribe token of any email deletes the address and its emails immediately; a confirm token does not', async () => {
    await subscribe('amina@example.com');
    await subscribe('brian@example.com');
    const [first, second] = [await tokensFor('amina@example.com'), await tokensFor('amina@example.com')];
    expect(await use('unsubscribe_from_newsletter', first.confirm)).toBe(false);
    expect(await use('confirm_newsletter', second.confirm)).toBe(true);
    expect(await use('unsubscribe_from_newsletter', first.unsubscribe)).toBe(true);
    expect((await subscriptions()).map(({ email }) => email)).toEqual(['brian@example.com']);
    expect(await mails()).toEqual(['brian@example.com']);
    expect(await use('unsubscribe_from_newsletter', second.unsubscribe)).toBe(false);
  });

  test('the database stores hashes of tokens, not the tokens', async () => {
    await subscribe('amina@example.com');
    const { confirm } = await tokensFor('amina@example.com');
    const { rows } = await database.query<{ stored: string; hash: string }>(
      `select t.token_hash::text as stored, sha256(convert_to($1, 'UTF8'))::text as hash
       from private.newsletter_tokens as t where t.purpose = 'confirm'`,
      [confirm],
    );
    expect(rows.map(({ stored }) => stored)).toEqual([rows[0]?.hash]);
    expect(rows[0]?.stored).not.toContain(confirm);
  });

  test.each([null, '', 'amina', 'amina@', '@example.com', 'a b@example.com', `${'a'.repeat(250)}@b.ke`])(
    'an invalid address is refused: %s',
    async (email) => {
      await expectRefusal(subscribe(email), 400, 'email_invalid');
    },
  );

  test('rejects an address of a megabyte, and counts the call', async () => {
    await expectRefusal(subscribe('.'.repeat(1_000_000), '203.0.113.7'), 400, 'email_invalid');
    const { rows } = await database.query(
      `select hits from private.rate_limits where bucket = 'newsletter' and subject = '203.0.113.7'`,
    );
    expect(rows).toEqual([{ hits: 1 }]);
  });

  test('limits a network to five confirmation emails a day without affecting another', async () => {
    const refusals: { refused: number; code: unknown }[] = [];
    // Twice the limit plus one, because a window may end in between.
    for (let index = 0; index < 11; index++) {
      await subscribe(`reader${index}@crowd.example`, '203.0.113.9').catch((error: DatabaseError) =>
        refusals.push({ refused: index, code: [error.code, error.detail] }),
      );
    }
    expect(refusals[0]?.refused).toBeGreaterThanOrEqual(5);
    expect(refusals[0]?.code).toEqual(['PT429', 'too_many_subscriptions']);
    expect(await mails()).toHaveLength(11 - refusals.length);
    // An address on the list is rejected as well, so the error reveals nothing.
    await expectRefusal(subscribe('reader0@crowd.example', '203.0.113.9'), 429, 'too_many_subscriptions');
    await subscribe('elsewhere@example.com', '198.51.100.10');
    expect(await mails()).toContain('elsewhere@example.com');
  });

  test('a confirmation template needs both links and has no placeholders of orders', async () => {
    const save = (body: string) =>
      database.query(`update public.message_templates set body = $1 where kind = 'newsletter_confirmation'`, [
        body,
      ]);
    await save('{confirm_link} {unsubscribe_link}');
    await expectRefusal(save('{confirm_link}'), 400, 'placeholder_missing');
    await expectRefusal(save('{confirm_link} {unsubscribe_link} {order}'), 400, 'placeholder_unknown');
    await expectRefusal(
      database.query(
        `update public.message_templates set body = '{confirm_link}' where kind = 'order_paid' and channel = 'text'`,
      ),
      400,
      'placeholder_unknown',
    );
  });
});
