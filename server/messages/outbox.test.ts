import { randomUUID } from 'node:crypto';
import { createDataService } from '@jani-juice/backend/data';
import type { Database } from '@jani-juice/backend/database';
import { testDatabases } from '@jani-juice/backend/testing';
import pino from 'pino';
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { createStore } from '../../supabase/store.ts';
import {
  call,
  makeProduct,
  openShopDatabase,
  orderForm,
  type PlacedOrder,
} from '../../supabase/tests/shop-database.ts';
import { type OutgoingMail, type OutgoingMessages, type OutgoingText, SendError } from './messages.ts';
import { type OutboxOptions, sendDueMessages } from './outbox.ts';

const publicUrl = 'https://jani.example';

describe.each(testDatabases())('on %s', (kind) => {
  let database: Database;
  let closeService: () => Promise<void>;
  let options: OutboxOptions;
  let mails: OutgoingMail[];
  let texts: OutgoingText[];
  const missingProvider: OutgoingMessages['missingProvider'] = { mail: null, text: null };
  let logged: string;
  /** Replaces the senders; may throw a SendError. */
  let onSend: (message: OutgoingMail | OutgoingText) => unknown;

  beforeAll(async () => {
    database = await openShopDatabase(kind);
    const service = await createDataService({ database, schemas: ['public'] });
    closeService = () => service.close();
    const serviceFetch: typeof fetch = (input, init) =>
      service.fetch(new Request(input, init), { claims: { role: 'service_role' }, address: null });
    const messages: OutgoingMessages = {
      missingProvider,
      async sendMail(mail) {
        await onSend(mail);
        mails.push(mail);
      },
      async sendText(text) {
        await onSend(text);
        texts.push(text);
        return { messageId: 'ATXid_1' };
      },
    };
    const write = (line: string) => {
      logged += line;
    };
    options = {
      tables: createStore({ url: publicUrl, key: 'secret' }, { fetch: serviceFetch }).tables,
      messages,
      publicUrl,
      log: pino({}, { write }),
    };
  });
  afterAll(async () => {
    await closeService();
    await database.close();
  });
  beforeEach(async () => {
    [mails, texts, logged] = [[], [], ''];
    onSend = () => {};
    await database.query('delete from public.outbox_messages');
  });

  const placeOrder = async (form: Record<string, unknown> = {}): Promise<PlacedOrder> => {
    const product = await makeProduct(database, 10);
    return call<PlacedOrder>(database, 'visitor', 'place_order', { ...orderForm(product), ...form });
  };
  /** Places an order whose customer has been sent an M-PESA prompt. */
  const promptOrder = async (form: Record<string, unknown> = {}): Promise<PlacedOrder> => {
    const order = await placeOrder(form);
    await call(database, 'service', 'begin_payment', {
      order_id: order.id,
      tracking_number: order.tracking_number,
      phone: order.customer_phone,
      callback_secret: randomUUID(),
    });
    return order;
  };
  /** The same for a number of customers: one customer gets few messages about unpaid orders. */
  const promptCustomers = async (count: number): Promise<PlacedOrder[]> => {
    const orders: PlacedOrder[] = [];
    for (let index = 10; index < 10 + count; index += 1) {
      orders.push(
        await promptOrder({ customer_phone: `07123456${index}`, customer_email: `a${index}@example.com` }),
      );
    }
    return orders;
  };
  /** The messages of an order, the email first. */
  const messagesOf = async ({ id }: PlacedOrder) => {
    const { rows } = await database.query<Record<string, unknown>>(
      `select channel, status, attempts, problem, gateway_reference, subject, body,
         next_attempt_at - updated_at as again_in, sent_at is not null as has_left
       from public.outbox_messages where order_id = $1 order by channel, created_at`,
      [id],
    );
    return rows;
  };
  const later = (interval: string) =>
    database.execute(`
      update private.outbox_queue set due_at = due_at - interval '${interval}';
      update public.outbox_messages set give_up_at = give_up_at - interval '${interval}',
        sending_since = sending_since - interval '${interval}';
    `);

  test('sends the email and the text of an order once, with its link, number and total', async () => {
    const order = await promptOrder();
    await Promise.all([sendDueMessages(options), sendDueMessages(options), sendDueMessages(options)]);
    await sendDueMessages(options);
    expect(mails).toHaveLength(1);
    expect(texts).toHaveLength(1);
    const [mail, text] = [mails[0], texts[0]];
    expect(mail).toMatchObject({ to: 'amina@example.com', kind: 'order_received' });
    expect(mail?.messageId).toMatch(/^<[0-9a-f-]{36}@jani\.example>$/);
    const link = `${publicUrl}/track-order/${order.tracking_number}?key=${order.access_key}`;
    expect(mail?.text).toContain(link);
    expect(mail?.text).toContain('KSh 951.00');
    expect(mail?.html).toContain(`href="${link}"`);
    expect(text).toMatchObject({ to: '254712345678', channel: 'sms' });
    expect(text?.text).toMatch(/^Jani Juice: we have your order JJ-\d{8}-\d{4}, KSh 951\.00\./);
    expect(text?.text.length).toBeLessThanOrEqual(160);
    const sent = { status: 'sent', attempts: 1, problem: null, has_left: true };
    expect(await messagesOf(order)).toMatchObject([
      { ...sent, subject: mail?.subject, body: mail?.text },
      { ...sent, gateway_reference: 'ATXid_1', body: text?.text },
    ]);
    expect(logged).not.toMatch(/amina@|254712345678|key=/);
  });

  test('mails staff the cause of paused prompts, with the setting to check and the screen', async () => {
    const order = await promptOrder();
    await database.query(
      `update public.payments set status = 'failed', result_code = '404.001.03', result_description = 'Invalid Access Token',
         ended_by = 'owner' where order_id = $1`,
      [order.id],
    );
    await sendDueMessages(options);
    const mail = mails.find(({ kind }) => kind === 'prompts_paused');
    expect(mail).toMatchObject({
      to: expect.stringMatching(/@jani\.example$/),
      subject: 'Customers get no M-PESA prompts',
    });
    expect(mail?.text).toMatch(/MPESA_CONSUMER_KEY/);
    expect(mail?.text).toContain('404.001.03 Invalid Access Token');
    expect(mail?.html).toContain(`href="${publicUrl}/admin/settings/payments"`);
    await database.query(`delete from private.prompt_pause`);
  });

  test('every default text fits one SMS and names its order', async () => {
    const order = await promptOrder();
    await database.query(
      `insert into public.payments (order_id, phone, charge_cents, status, receipt, completed_at)
       values ($1, '+254712345678', 95100, 'completed', 'UKL3AB12CD', now())`,
      [order.id],
    );
    for (const change of [
      `payment_status = 'needs_review'`,
      `payment_status = 'paid'`,
      `status = 'shipped'`,
      `status = 'delivered'`,
      `payment_status = 'refunded'`,
    ]) {
      await database.query(`update public.orders set ${change} where id = $1`, [order.id]);
      // Messages about a status wait until the change can no longer be undone.
      await later('15 seconds');
      await sendDueMessages(options);
    }
    expect(texts.map(({ kind }) => kind).sort()).toEqual([
      'order_delivered',
      'order_on_its_way',
      'order_paid',
      'order_payment_held',
      'order_received',
      'order_refunded',
    ]);
    for (const { text } of texts) {
      expect(text.length, text).toBeLessThanOrEqual(160);
      expect(text).toContain(`${publicUrl}/t/${order.tracking_number.slice(3)}-`);
    }
    expect(texts.find((text) => text.kind === 'order_paid')?.text).toContain('M-PESA UKL3AB12CD');
    const paid = mails.find((mail) => mail.kind === 'order_paid');
    expect(paid?.text).toContain('The M-PESA receipt is UKL3AB12CD.');
    expect(paid?.text).toContain(`/track-order/${order.tracking_number}/receipt?key=${order.access_key}`);
    expect(new Set(mails.map((mail) => mail.messageId)).size).toBe(mails.length);
  });

  test('retries a temporary rejection with growing delays, and fails with its reason after a day', async () => {
    onSend = () => {
      throw new SendError('451 amina@example.com: try later', 'refused');
    };
    const order = await promptOrder();
    const waits: unknown[] = [];
    for (let attempt = 0; attempt < 4; attempt++) {
      await sendDueMessages(options);
      const [mail] = await messagesOf(order);
      expect(mail).toMatchObject({ status: 'waiting', attempts: attempt + 1 });
      expect(mail?.problem).toContain('451');
      const { rows } = await database.query<{ seconds: number }>(
        `select extract(epoch from next_attempt_at - updated_at)::integer as seconds
         from public.outbox_messages where order_id = $1 and channel = 'mail'`,
        [order.id],
      );
      waits.push(rows[0]?.seconds);
      await sendDueMessages(options);
      expect((await messagesOf(order))[0]).toMatchObject({ attempts: attempt + 1 });
      await later('10 minutes');
    }
    expect(waits).toEqual([30, 60, 120, 240]);
    await later('1 day');
    await sendDueMessages(options);
    const [mail, text] = await messagesOf(order);
    for (const message of [mail, text]) {
      expect(message).toMatchObject({ status: 'failed' });
      expect(message?.problem).toMatch(/^Given up after a day: 451/);
    }
    await later('1 day');
    await sendDueMessages(options);
    expect((await messagesOf(order))[0]?.attempts).toBe(mail?.attempts);
    expect(mails).toEqual([]);
    expect(logged).toContain('a•••@example.com');
    expect(logged).not.toContain('amina@');
  });

  test('does not retry a permanently rejected recipient', async () => {
    onSend = (message) => {
      if ('subject' in message) throw new SendError('550 no such person', 'failed');
    };
    const order = await promptOrder();
    await sendDueMessages(options);
    await later('1 hour');
    await sendDueMessages(options);
    expect(await messagesOf(order)).toMatchObject([
      { channel: 'mail', status: 'failed', attempts: 1, problem: '550 no such person' },
      { channel: 'text', status: 'sent' },
    ]);
  });

  test('a message with unknown outcome is sent again only by staff, with the same id', async () => {
    onSend = (message) => {
      if ('subject' in message) throw new SendError('Connection closed', 'unsure');
    };
    const order = await promptOrder();
    await sendDueMessages(options);
    await later('2 hours');
    await sendDueMessages(options);
    expect((await messagesOf(order))[0]).toMatchObject({ status: 'unsure', attempts: 1 });

    onSend = () => {};
    const { rows } = await database.query<{ id: string }>(
      `select id from public.outbox_messages where order_id = $1 and channel = 'mail'`,
      [order.id],
    );
    await call(database, 'staff', 'send_message_again', { message_id: rows[0]?.id });
    await sendDueMessages(options);
    expect((await messagesOf(order))[0]).toMatchObject({ status: 'sent', attempts: 2, problem: null });
    expect(mails.map(({ messageId }) => messageId)).toEqual([`<${rows[0]?.id}@jani.example>`]);
  });

  test('after a killed process, a message being sent becomes unsure and a leased one is sent', async () => {
    const order = await promptOrder();
    const { data: leased } = await options.tables.rpc('lease_messages', { at_most: 10 });
    const [died] = leased ?? [];
    expect(leased).toHaveLength(2);
    const begun = { message_id: died?.id ?? '', lease: died?.lease ?? '', body: 'Words', subject: 'Word' };
    const { data: attempt } = await options.tables.rpc('begin_message', begun);
    expect(attempt).toBe(1);
    // No process leases it again.
    expect((await options.tables.rpc('begin_message', begun)).data).toBeNull();
    await sendDueMessages(options);
    expect([...mails, ...texts]).toEqual([]);
    await later('2 minutes');
    await sendDueMessages(options);
    expect([...mails, ...texts]).toHaveLength(1);
    await later('4 minutes');
    await sendDueMessages(options);
    const lost = (await messagesOf(order)).find(({ channel }) => channel === died?.channel);
    expect(lost).toMatchObject({ status: 'unsure', attempts: 1, body: 'Words' });
    expect(lost?.problem).toContain('It may have arrived');
    expect([...mails, ...texts]).toHaveLength(1);
    // The process was only slow, and reports the outcome before staff have decided.
    const end = { message_id: died?.id ?? '', attempt: 1, outcome: 'sent' };
    expect((await options.tables.rpc('finish_message', end)).data).toBe('sent');
    expect((await options.tables.rpc('finish_message', { ...end, outcome: 'failed' })).data).toBeNull();
  });

  test('a disabled template is neither queued nor sent', async () => {
    const order = await promptOrder();
    const turn = (state: boolean) =>
      database.query(
        `update public.message_templates set is_on = $1 where kind = 'order_received' and channel = 'text'`,
        [state],
      );
    await turn(false);
    const other = await promptOrder();
    await sendDueMessages(options);
    expect(await messagesOf(order)).toMatchObject([
      { channel: 'mail', status: 'sent' },
      { channel: 'text', status: 'failed', problem: 'Messages of this kind are switched off' },
    ]);
    expect(await messagesOf(other)).toMatchObject([{ channel: 'mail', status: 'sent' }]);
    await turn(true);
  });

  test('a reply to an inquiry is sent as staff wrote it, without a template', async () => {
    const { rows } = await database.query<{ id: string }>(
      `insert into public.inquiries (name, email, phone, message)
       values ('Amina', 'amina@example.com', '0712345678', 'Hello') returning id`,
    );
    const body = `Karibu [Westlands]. Order: ${publicUrl}/shop`;
    for (const way of ['mail', 'text']) {
      const answers = await database.query<{ at: string }>(
        'select answered_at::text as at from public.inquiries where id = $1',
        [rows[0]?.id],
      );
      await call(database, 'staff', 'answer_inquiry', {
        inquiry_id: rows[0]?.id,
        way,
        body,
        subject: 'Re: Hello',
        seen_answered_at: answers.rows[0]?.at,
      });
    }
    await sendDueMessages(options);
    expect([...mails, ...texts], 'they can be undone').toEqual([]);
    await later('15 seconds');
    await sendDueMessages(options);
    expect(mails).toMatchObject([
      { to: 'amina@example.com', subject: 'Re: Hello', text: body, kind: 'inquiry_reply' },
    ]);
    expect(mails[0]?.html).toContain(`<a href="${publicUrl}/shop">`);
    expect(texts).toMatchObject([{ to: '254712345678', text: body }]);
  });

  test('a message that staff repeat is sent with the text and links of the first, whatever its template says now', async () => {
    const order = await promptOrder();
    await sendDueMessages(options);
    const [first] = mails;
    const { rows } = await database.query<{ id: string }>(
      `update public.message_templates set is_on = false where kind = 'order_received' returning id`,
    );
    const sent = await database.query<{ id: string }>(
      `select id from public.outbox_messages where order_id = $1 and channel = 'mail'`,
      [order.id],
    );
    await call(database, 'staff', 'repeat_message', { message_id: sent.rows[0]?.id });
    await sendDueMessages(options);
    expect(rows).toHaveLength(2);
    await database.query(`update public.message_templates set is_on = true where kind = 'order_received'`);
    expect(mails).toHaveLength(2);
    const { messageId, ...again } = mails[1] ?? {};
    expect(again).toEqual({ ...first, messageId: undefined });
    expect(messageId).not.toBe(first?.messageId);
  });

  test('a newsletter email has working links, which neither its record nor the log contains', async () => {
    await call(database, 'visitor', 'subscribe_to_newsletter', { email: 'reader@example.com' });
    await sendDueMessages(options);
    const [mail] = mails;
    expect(mail).toMatchObject({ to: 'reader@example.com', subject: 'Please confirm: news from Jani Juice' });
    const token = (step: string) =>
      new RegExp(`https://jani\\.example/newsletter/${step}\\?token=(\\w{32})`).exec(mail?.text ?? '')?.[1];
    const [confirm, unsubscribe] = [token('confirm'), token('unsubscribe')];
    expect(mail?.unsubscribeUrl).toBe(`${publicUrl}/newsletter/unsubscribe?token=${unsubscribe}`);
    expect(mail?.html).toContain(`<a href="${publicUrl}/newsletter/confirm?token=${confirm}" style=`);
    const { rows } = await database.query<{ status: string; body: string }>(
      'select status, body from public.outbox_messages',
    );
    expect(rows).toMatchObject([
      { status: 'sent', body: expect.stringContaining(`${publicUrl}/newsletter/confirm`) },
    ]);
    for (const secret of [confirm, unsubscribe, 'reader@']) {
      expect(secret).toBeTruthy();
      expect(rows[0]?.body).not.toContain(secret);
      expect(logged).not.toContain(secret);
    }
    expect(await call(database, 'visitor', 'confirm_newsletter', { token: confirm })).toBe(true);
    expect(await call(database, 'visitor', 'unsubscribe_from_newsletter', { token: unsubscribe })).toBe(true);
  });

  test('a message over the daily budget is sent only by staff once there is budget', async () => {
    const setBudget = (texts: number) =>
      database.query('update public.store_settings set texts_per_day = $1', [texts]);
    await database.query('delete from private.messages_sent');
    await setBudget(1);
    const orders = [await placeOrder(), await placeOrder()];
    for (const { id } of orders) {
      await database.query(`update public.orders set payment_status = 'paid' where id = $1`, [id]);
    }
    await sendDueMessages(options);
    await sendDueMessages(options);
    expect(mails).toHaveLength(2);
    expect(texts).toHaveLength(1);
    const { rows } = await database.query<{ id: string; attempts: number; problem: string }>(
      `select id, attempts, problem from public.outbox_messages where status = 'over_budget'`,
    );
    expect(rows).toMatchObject([{ attempts: 0, problem: "Not sent: today's budget of texts is used up" }]);
    await setBudget(300);
    await sendDueMessages(options);
    expect(texts, 'not by itself').toHaveLength(1);
    await call(database, 'staff', 'send_message_again', { message_id: rows[0]?.id });
    await sendDueMessages(options);
    expect(texts).toHaveLength(2);
  });

  test('an unresponsive mail server does not delay texts', async () => {
    await promptOrder();
    let answer = () => {};
    const hanging = new Promise<void>((resolve) => {
      answer = resolve;
    });
    onSend = (message) => ('subject' in message ? hanging : undefined);
    const turn = sendDueMessages(options);
    await vi.waitFor(() => expect(texts).toHaveLength(1), { timeout: 20_000 });
    // Texts queued in the meantime are sent in the next run.
    const next = await promptOrder();
    onSend = (message) => ('subject' in message ? hanging : undefined);
    const other = sendDueMessages(options);
    await vi.waitFor(() => expect(texts).toHaveLength(2), { timeout: 20_000 });
    expect(mails).toEqual([]);
    answer();
    await Promise.all([turn, other]);
    expect(await messagesOf(next)).toMatchObject([{ status: 'sent' }, { status: 'sent' }]);
  });

  test('a stop finishes messages being sent and leaves the others for the next process', async () => {
    await promptCustomers(20);
    const stop = new AbortController();
    onSend = () => stop.abort();
    await sendDueMessages({ ...options, signal: stop.signal });
    const { rows } = await database.query<{ status: string; count: number }>(
      `select status, count(*)::integer as count from public.outbox_messages group by status order by status`,
    );
    const count = (status: string) => rows.find((row) => row.status === status)?.count ?? 0;
    expect(count('sent')).toBeGreaterThan(0);
    // Eight emails and sixteen texts concurrently.
    expect(count('sent')).toBeLessThanOrEqual(24);
    expect(count('sent') + count('waiting')).toBe(40);
    onSend = () => {};
    await later('2 minutes');
    await sendDueMessages(options);
    expect(mails.length + texts.length).toBe(40);
  });

  test('empties a full outbox in one run, each message once, within the concurrency limit', async () => {
    const orders = await promptCustomers(50);
    const underWay = { mail: 0, text: 0 };
    const most = { mail: 0, text: 0 };
    onSend = async (message) => {
      const channel = 'subject' in message ? 'mail' : 'text';
      underWay[channel] += 1;
      most[channel] = Math.max(most[channel], underWay[channel]);
      // The first one waits for a second.
      await vi.waitFor(() => expect(most[channel]).toBeGreaterThan(1), { timeout: 20_000 });
      underWay[channel] -= 1;
    };
    await sendDueMessages(options);
    expect(mails).toHaveLength(orders.length);
    expect(new Set(texts.map(({ text }) => text)).size).toBe(orders.length);
    expect(most.mail).toBeLessThanOrEqual(8);
    expect(most.text).toBeLessThanOrEqual(16);
  });

  test('two processes empty the outbox together, each message once', async () => {
    const orders = await promptCustomers(12);
    await Promise.all([sendDueMessages(options), sendDueMessages(options)]);
    await sendDueMessages(options);
    expect(mails).toHaveLength(orders.length);
    expect(texts).toHaveLength(orders.length);
    expect(new Set(texts.map(({ text }) => text)).size).toBe(orders.length);
  });
});
