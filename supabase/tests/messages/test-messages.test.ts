// Tests of the mail server and the gateway: tried once, limited, and their outcome is in the outbox.
import { testDatabases } from '@jani-juice/backend/testing';
import { beforeEach, describe, expect, test } from 'vitest';
import { expectRefusal } from '../shop-database.ts';
import { setUpShop } from '../steps.ts';

interface Message {
  id: string;
  recipient: string;
  subject: string | null;
  body: string;
  status: string;
  problem: string | null;
}

describe.each(testDatabases())('on %s', (kind) => {
  const { database, callAs, asStaff, asService, queryAs, readRow } = setUpShop(kind);
  beforeEach(() =>
    database.execute(
      `delete from private.rate_limits; delete from private.messages_sent; delete from public.outbox_messages;
       update public.store_settings set texts_per_day = 300`,
    ),
  );
  const send = (channel: string | null, recipient: string) =>
    asStaff<Message>('send_test_message', { channel, recipient });
  const leased = async () =>
    (await queryAs<Message & { lease: string }>('service', 'select * from public.lease_messages(10)'))
      .rows[0];
  const attempt = async (outcome: string, problem: string | null = null) => {
    const message = await leased();
    if (!message) throw new Error('No message is due');
    const { id, lease, subject, body } = message;
    const number = await asService<number>('begin_message', { message_id: id, lease, subject, body });
    await asService('finish_message', { message_id: id, attempt: number, outcome, problem });
    return message;
  };
  const stateOf = ({ id }: { id: string }) =>
    readRow('select status, problem, attempts from public.outbox_messages where id = $1', [id]);

  test('a mail goes to the typed address, word for word, and names who sent it', async () => {
    const sent = await send('mail', '  owner@shop.example ');
    expect(sent).toMatchObject({ recipient: 'owner@shop.example', subject: 'Test from Jani Juice' });
    expect(sent.body).toContain('by staff@jani.example');
    expect(await attempt('sent')).toMatchObject({ id: sent.id, subject: sent.subject, body: sent.body });
    expect(await stateOf(sent)).toMatchObject({ status: 'sent', problem: null });
  });

  test('a text goes to the phone in international form', async () => {
    expect(await send('text', '0712 345 678')).toMatchObject({ recipient: '+254712345678', subject: null });
    expect(await attempt('sent')).toMatchObject({ recipient: '+254712345678' });
  });

  test("a refusal is the result, in the provider's words, and is not tried again", async () => {
    const sent = await send('mail', 'owner@shop.example');
    await attempt('refused', 'Invalid login: 535 Authentication failed');
    expect(await stateOf(sent)).toEqual({
      status: 'failed',
      problem: 'Invalid login: 535 Authentication failed',
      attempts: 1,
    });
    expect(await leased()).toBeUndefined();
  });

  test('that no process sends in time has failed, and says so', async () => {
    const sent = await send('mail', 'owner@shop.example');
    await database.query(
      `update public.outbox_messages set give_up_at = now() - interval '1 second' where id = $1`,
      [sent.id],
    );
    const message = await leased();
    const { id, lease, subject, body } = message as Message & { lease: string };
    expect(await asService('begin_message', { message_id: id, lease, subject, body })).toBeNull();
    expect(await stateOf(sent)).toMatchObject({
      status: 'failed',
      problem: expect.stringContaining('No process'),
    });
  });

  test.each([
    ['mail', 'nobody', 'email_invalid'],
    ['mail', '', 'email_invalid'],
    ['text', '12', 'phone_invalid'],
    ['text', '', 'phone_invalid'],
    ['fax', '0712345678', 'channel_unknown'],
  ])('a test by %s to "%s" is refused', async (channel, recipient, code) => {
    await expectRefusal(send(channel, recipient), 400, code);
    expect(await leased()).toBeUndefined();
  });

  test('are ten an hour of each kind, and within the budget of the day', async () => {
    for (let sent = 0; sent < 10; sent += 1) await send('text', '0712345678');
    await expectRefusal(send('text', '0712345678'), 429, 'too_many_tests');
    await send('mail', 'owner@shop.example');
    await database.execute(
      'update public.store_settings set texts_per_day = 0; delete from private.rate_limits',
    );
    await expectRefusal(send('text', '0712345678'), 409, 'message_budget_used_up');
  });

  test('only staff send them', async () => {
    const given = { channel: 'mail', recipient: 'a@b.example' };
    for (const by of ['customer', 'former staff', 'half-way staff', 'service'] as const) {
      await expectRefusal(callAs(by, 'send_test_message', given), 403, 'staff_only').catch((error) => {
        if (!/permission denied/.test(String(error))) throw error;
      });
    }
    expect(await leased()).toBeUndefined();
  });
});
