// Staff answer inquiries: by mail or text through the outbox, or noted afterwards; only one of two who answer at once.
import { randomUUID } from 'node:crypto';
import { testDatabases } from '@jani-juice/backend/testing';
import { beforeEach, describe, expect, test } from 'vitest';
import { expectRefusal, type Person } from '../shop-database.ts';
import { settleAll, setUpShop } from '../steps.ts';

interface Change {
  change_id: string;
  undo_seconds: number;
  notifies_customer: boolean;
}

describe.each(testDatabases())('on %s', (kind) => {
  const { database, callAs, asStaff, asService, readRow, readRows, readValue, queryAs } = setUpShop(kind);
  beforeEach(() =>
    database.execute(
      `delete from public.outbox_messages; delete from public.inquiries; delete from private.messages_sent;
       update public.store_settings set texts_per_day = 300, mails_per_day = 1000`,
    ),
  );

  const makeInquiry = async (phone: string | null = '0712 345 678'): Promise<string> =>
    readValue(
      `insert into public.inquiries (name, email, phone, message)
       values ('Amina Kamau', 'amina@mail.example', $1, 'Where is JJ-20261121-1234?') returning id`,
      [phone],
    ) as Promise<string>;
  const answeredAt = (id: string) =>
    readValue<string | null>('select answered_at::text from public.inquiries where id = $1', [id]);
  const answer = async (id: string, given: Record<string, unknown> = {}, person: Person = 'staff') =>
    callAs<Change>(person, 'answer_inquiry', {
      inquiry_id: id,
      way: 'mail',
      body: 'Habari Amina, it is on its way.',
      subject: 'Re: Where is it?',
      seen_answered_at: null,
      ...given,
    });
  const messages = () =>
    readRows(
      `select m.kind, m.channel, m.recipient, m.subject, m.body, m.status, m.customer_name, m.has_priority,
         q.due_at > now() + interval '10 seconds' as waits_for_undo
       from public.outbox_messages as m left join private.outbox_queue as q on q.message_id = m.id order by m.created_at`,
    );
  const inquiryOf = (id: string) =>
    readRow(
      `select is_read, answered_by, answered_at is not null as is_answered from public.inquiries where id = $1`,
      [id],
    );

  test('a mail is queued as it was written, after the time to undo, and the inquiry is read and answered', async () => {
    const id = await makeInquiry();
    const change = await answer(id);
    expect(change).toMatchObject({ undo_seconds: 15, notifies_customer: true });
    expect(await messages()).toEqual([
      {
        kind: 'inquiry_reply',
        channel: 'mail',
        recipient: 'amina@mail.example',
        subject: 'Re: Where is it?',
        body: 'Habari Amina, it is on its way.',
        status: 'waiting',
        customer_name: 'Amina Kamau',
        has_priority: true,
        waits_for_undo: true,
      },
    ]);
    expect(await inquiryOf(id)).toEqual({
      is_read: true,
      answered_by: 'staff@jani.example',
      is_answered: true,
    });
    expect(
      await readRows('select id, way, body, answered_by from public.inquiry_answers where inquiry_id = $1', [
        id,
      ]),
    ).toEqual([
      {
        id: change.change_id,
        way: 'mail',
        body: 'Habari Amina, it is on its way.',
        answered_by: 'staff@jani.example',
      },
    ]);
  });

  test('a text goes to the mobile number, without a subject; without a number there is none', async () => {
    const [id, without] = [await makeInquiry(), await makeInquiry('office 020 123')];
    await answer(id, { way: 'text' });
    expect(await messages()).toMatchObject([{ channel: 'text', recipient: '+254712345678', subject: null }]);
    await expectRefusal(answer(without, { way: 'text' }), 409, 'recipient_missing');
  });

  test('a mail is sent as a text, too, and both are withdrawn at once', async () => {
    const id = await makeInquiry();
    const change = await answer(id, { text_body: 'It is on its way' });
    expect(change).toMatchObject({ undo_seconds: 15, notifies_customer: true });
    expect((await messages()).map(({ channel, body, subject }) => [channel, subject, body]).sort()).toEqual([
      ['mail', 'Re: Where is it?', 'Habari Amina, it is on its way.'],
      ['text', null, 'It is on its way'],
    ]);
    expect(
      await readRows(
        'select way, answered_at = (select answered_at from public.inquiries where id = $1) as is_one_answer from public.inquiry_answers where inquiry_id = $1 order by way',
        [id],
      ),
    ).toEqual([
      { way: 'mail', is_one_answer: true },
      { way: 'text', is_one_answer: true },
    ]);
    await asStaff('withdraw_answer', { answer_id: change.change_id });
    expect(await messages()).toEqual([]);
    expect(await inquiryOf(id)).toEqual({ is_read: true, answered_by: null, is_answered: false });
  });

  test('of a mail and its text both leave, or none', async () => {
    const [id, without] = [await makeInquiry(), await makeInquiry(null)];
    const text_body = 'It is on its way';
    await expectRefusal(answer(without, { text_body }), 409, 'recipient_missing');
    await expectRefusal(answer(id, { text_body: 'a'.repeat(481) }), 400, 'reply_too_long');
    await expectRefusal(answer(id, { text_body: '{name}' }), 400, 'placeholder_left');
    await expectRefusal(answer(id, { way: 'text', text_body }), 400, 'text_without_mail');
    await database.query('update public.store_settings set texts_per_day = 0');
    await expectRefusal(answer(id, { text_body }), 409, 'message_budget_used_up');
    expect(await messages()).toEqual([]);
    expect(await inquiryOf(id)).toMatchObject({ is_read: false, is_answered: false });

    await database.query('update public.store_settings set texts_per_day = 300');
    const { change_id: answer_id } = await answer(id, { text_body });
    await database.query(
      `update public.outbox_messages set status = 'sending', attempts = 1, sending_since = now(), next_attempt_at = null
       where channel = 'text'`,
    );
    await expectRefusal(asStaff('withdraw_answer', { answer_id }), 409, 'answer_sent');
    expect(await messages()).toHaveLength(2);
  });

  test('an answer elsewhere sends nothing, and its note is optional', async () => {
    const id = await makeInquiry();
    expect(await answer(id, { way: 'elsewhere', body: null })).toMatchObject({ notifies_customer: false });
    expect(await messages()).toEqual([]);
    expect(await inquiryOf(id)).toMatchObject({ is_read: true, is_answered: true });
  });

  test.each([
    [{ body: ' ' }, 400, 'reply_empty'],
    [{ body: 'a'.repeat(5001) }, 400, 'reply_too_long'],
    [{ way: 'text', body: 'a'.repeat(481) }, 400, 'reply_too_long'],
    [{ body: 'Habari {first_name}' }, 400, 'placeholder_left'],
    [{ subject: null }, 400, 'subject_invalid'],
    [{ subject: 'a'.repeat(301) }, 400, 'subject_invalid'],
  ])('%j is refused', async (given, status, code) => {
    const id = await makeInquiry();
    await expectRefusal(answer(id, given), status, code);
    expect(await inquiryOf(id)).toMatchObject({ is_read: false, is_answered: false });
  });

  test('of two members who answer at once, the second one is told, and can answer again', async () => {
    const id = await makeInquiry();
    const ends = await settleAll(2, () => answer(id));
    expect(ends.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected']);
    expect(await messages()).toHaveLength(1);
    await expectRefusal(answer(id), 409, 'inquiry_answered');
    await answer(id, { seen_answered_at: await answeredAt(id) });
    expect(await messages()).toHaveLength(2);
  });

  test('within the daily budget only', async () => {
    const id = await makeInquiry();
    await database.query('update public.store_settings set mails_per_day = 0');
    await expectRefusal(answer(id), 409, 'message_budget_used_up');
    await answer(id, { way: 'text' });
  });

  test('a withdrawn answer is never sent, and the one before counts again', async () => {
    const id = await makeInquiry();
    const first = await answer(id, { way: 'elsewhere', body: 'I called her' });
    const seen_answered_at = await answeredAt(id);
    const { change_id: answer_id } = await answer(id, { seen_answered_at });
    await asStaff('withdraw_answer', { answer_id });
    expect(await messages()).toEqual([]);
    expect(await answeredAt(id)).toBe(seen_answered_at);
    await expectRefusal(asStaff('withdraw_answer', { answer_id }), 404, 'answer_not_found');
    await asStaff('withdraw_answer', { answer_id: first.change_id });
    expect(await inquiryOf(id)).toEqual({ is_read: true, answered_by: null, is_answered: false });
  });

  test('cannot be withdrawn by a colleague, once it is being sent, or later', async () => {
    const id = await makeInquiry();
    const { change_id: answer_id } = await answer(id);
    await expectRefusal(callAs('service', 'withdraw_answer', { answer_id }), 403, 'answer_of_colleague');
    await database.query(
      `update public.outbox_messages set status = 'sending', attempts = 1, sending_since = now(), next_attempt_at = null
       where id = $1`,
      [answer_id],
    );
    await expectRefusal(asStaff('withdraw_answer', { answer_id }), 409, 'answer_sent');
    await database.query(
      `update public.inquiry_answers set answered_at = now() - interval '16 seconds' where id = $1`,
      [answer_id],
    );
    await expectRefusal(asStaff('withdraw_answer', { answer_id }), 409, 'answer_too_late');
  });

  test('a deleted inquiry takes its answers with it, and a reply that waits is not sent', async () => {
    const id = await makeInquiry();
    await answer(id);
    await asStaff('erase_person', { identifier: 'amina@mail.example' });
    expect(await readRows('select from public.inquiry_answers where inquiry_id = $1', [id])).toEqual([]);
    expect(await messages()).toMatchObject([{ status: 'failed', recipient: '', body: null }]);
    expect(await asService('lease_messages', { at_most: 10 })).toBeNull();
  });

  test('the copy of a person’s data contains what staff answered', async () => {
    const id = await makeInquiry();
    await answer(id);
    const copy = await asStaff<{ inquiries: unknown[]; newsletter_mails: unknown[] }>('export_person', {
      identifier: 'amina@mail.example',
    });
    expect(copy.inquiries).toMatchObject([
      { answers: [{ by: 'mail', body: 'Habari Amina, it is on its way.' }] },
    ]);
    expect(copy.newsletter_mails).toEqual([]);
  });

  test('is for staff only', async () => {
    const id = await makeInquiry();
    for (const person of ['customer', 'former staff', 'half-way staff'] as const) {
      await expectRefusal(answer(id, {}, person), 403, 'staff_only');
      await expectRefusal(callAs(person, 'withdraw_answer', { answer_id: id }), 403, 'staff_only');
    }
    await expectRefusal(answer(randomUUID()), 404, 'inquiry_not_found');
    await answer(id);
  });

  describe('a reply template', () => {
    const add = (title: string, body: string) =>
      queryAs<{ id: string }>(
        'staff',
        'insert into public.reply_templates (title, body) values ($1, $2) returning id',
        [title, body],
      );

    test('is added, edited and deleted, with all placeholders', async () => {
      const { rows } = await add('All', '{shop} {shop_phone} {shop_email} {first_name} {name}[ {tracking}]');
      const [made] = rows;
      const edited = await queryAs(
        'staff',
        `update public.reply_templates set title = 'More' where id = $1 returning updated_at > created_at as is_later`,
        [made?.id],
      );
      expect(edited.rows).toEqual([{ is_later: true }]);
      const deleted = await queryAs('staff', 'delete from public.reply_templates where id = $1', [made?.id]);
      expect(deleted.rowCount).toBe(1);
    });

    test.each([
      [' ', 'Habari', 'template_empty'],
      ['Hello', '\u200b', 'template_empty'],
      ['a'.repeat(81), 'Habari', 'template_too_long'],
      ['Hello', 'a'.repeat(2001), 'template_too_long'],
      ['Two\nlines', 'Habari', 'subject_has_lines'],
      ['Hello', 'Habari {nmae}', 'placeholder_unknown'],
      ['Hello', 'Habari [{name}', 'brackets_unbalanced'],
    ])('%j with %j is rejected: %s', async (title, body, code) => {
      await expectRefusal(add(title, body), 400, code);
    });
  });
});
