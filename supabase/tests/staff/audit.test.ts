// The audit: who changed what, with which values, and what it leaves out.
import { randomUUID } from 'node:crypto';
import { testDatabases } from '@jani-juice/backend/testing';
import { beforeEach, describe, expect, test } from 'vitest';
import { expectRefusal, makeProduct, personIds } from '../shop-database.ts';
import { newPhone, setUpShop } from '../steps.ts';

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
const staff = 'staff@jani.example';

describe.each(testDatabases())('on %s', (kind) => {
  const shop = setUpShop(kind);
  const { database, callAs, asStaff, asService, asVisitor, queryAs, readRow, readValue } = shop;
  const { place, pay, expire, setStatus, requestRefund, approveRefund } = shop;
  beforeEach(() => database.execute('delete from private.rate_limits'));

  const auditOf = async (given = '') =>
    (
      await queryAs<AuditRow>(
        'staff',
        `select id, created_at::text as happened_at, area, kind, actor_email, subject, before, after from public.search_audit(${given})`,
      )
    ).rows;
  /** The audit since a number of events, the oldest first. */
  const countEvents = async () =>
    (await readValue<number>('select count(*)::integer from public.audit_events')) ?? 0;
  const since = async (events: number) =>
    (
      await database.query<Omit<AuditRow, 'area' | 'happened_at'>>(
        'select kind, actor_email, subject, before, after from public.audit_events order by id offset $1',
        [events],
      )
    ).rows;

  test('has team, settings, prices, refunds and decisions, in pages, by person and by day', async () => {
    const product = await makeProduct(database, 10, 95_000, 'Audited drink');
    await queryAs('staff', `update public.products set price = 99000 where id = '${product}'`);
    await queryAs('staff', 'update public.store_settings set payment_limit = payment_limit + 100 where id');
    const order = await place(product, { quantity: 2, expected_total: 198_100 });
    const { payment } = await pay(order);
    await setStatus(order, 'cancelled');
    const refund = await requestRefund(payment, { by: 'assistant' });
    await approveRefund(refund, 'staff');

    const all = await auditOf('page_size => 1000');
    expect(new Set(all.map(({ area }) => area))).toEqual(new Set(['team', 'settings', 'prices', 'refunds']));
    expect(all.find(({ kind }) => kind === 'refund_approved')).toMatchObject({
      actor_email: 'staff@jani.example',
      subject: refund.receipt,
    });
    expect(all.find(({ kind }) => kind === 'settings_changed')).toMatchObject({
      before: { payment_limit: expect.any(Number) },
      after: { payment_limit: expect.any(Number) },
    });
    expect((await auditOf(`area => 'prices'`))[0]).toMatchObject({
      subject: 'Audited drink',
      before: { price: 95_000 },
      after: { price: 99_000 },
    });
    expect((await auditOf(`person => 'assistant@jani.example'`)).map(({ kind }) => kind)).toEqual([
      'refund_requested',
    ]);
    const yesterday = `(now() at time zone 'Africa/Nairobi')::date - 1`;
    expect(await auditOf(`until_day => ${yesterday}`)).toEqual([]);

    const pages: AuditRow[] = [];
    for (let last: AuditRow | undefined; ; ) {
      const page = await auditOf(
        `page_size => 3${last ? `, before_created_at => '${last.happened_at}', before_id => '${last.id}'` : ''}`,
      );
      if (page.length === 0) break;
      pages.push(...page);
      last = page.at(-1);
    }
    expect(new Set(pages.map(({ id }) => id))).toEqual(new Set(all.map(({ id }) => id)));
  });

  test('has texts, templates and discount codes with what changed, and blocked phones without the number', async () => {
    const phone = '+254712000678';
    await queryAs('staff', `update public.shop_texts set title = 'Questions' where slug = 'faq'`);
    await queryAs(
      'staff',
      `update public.message_templates set body = body || ' Asante.' where kind = 'order_paid' and channel = 'text'`,
    );
    await queryAs(
      'staff',
      `insert into public.reply_templates (title, body) values ('Audited reply', 'Yes')`,
    );
    await queryAs('staff', `update public.reply_templates set body = 'No' where title = 'Audited reply'`);
    await queryAs('staff', `delete from public.reply_templates where title = 'Audited reply'`);
    await queryAs('staff', `insert into public.discount_codes (code, percent) values ('AUDIT10', 10)`);
    await queryAs('staff', `update public.discount_codes set percent = 15 where code = 'AUDIT10'`);
    // Saved as it was.
    await queryAs('staff', `update public.discount_codes set percent = 15 where code = 'AUDIT10'`);
    await queryAs('staff', `delete from public.discount_codes where code = 'AUDIT10'`);
    await callAs('assistant', 'block_phone', { phone, reason: 'Never there' });
    await callAs('assistant', 'block_phone', { phone, reason: 'Never at home' });
    await callAs('assistant', 'unblock_phone', { phone });

    expect(await auditOf(`area => 'texts'`)).toMatchObject([
      { kind: 'reply_template_removed', subject: 'Audited reply', before: { body: 'No' }, after: null },
      { kind: 'reply_template_changed', before: { body: 'Yes' }, after: { body: 'No' } },
      { kind: 'reply_template_added', before: null, after: { title: 'Audited reply', body: 'Yes' } },
      {
        kind: 'message_template_changed',
        subject: 'order_paid, text',
        before: { body: expect.any(String) },
        after: { body: expect.stringMatching(/ Asante\.$/) },
      },
      { kind: 'shop_text_changed', subject: 'Questions', after: { title: 'Questions' } },
    ]);
    const codes = await auditOf(`area => 'discounts'`);
    expect(codes).toMatchObject([
      { kind: 'discount_code_removed', subject: 'AUDIT10', before: { percent: 15 }, after: null },
      { kind: 'discount_code_changed', before: { percent: 10 }, after: { percent: 15 } },
      { kind: 'discount_code_added', before: null, after: { percent: 10, is_active: true } },
    ]);
    expect(codes[1]?.after).toEqual({ percent: 15 });
    expect(await auditOf(`area => 'customers'`)).toMatchObject([
      { kind: 'phone_unblocked', subject: '07•• ••• 678', actor_email: 'assistant@jani.example' },
      { kind: 'phone_blocked', subject: '07•• ••• 678', before: null, after: null },
    ]);
  });

  test('has downloads of backups, and exports of personal data without the person', async () => {
    await database.execute(
      `insert into public.backups (started_at, finished_at, outcome, file_name) values (now(), now(), 'verified', 'jani-audit.tar.gz')`,
    );
    const id = await readValue<number>(`select id from public.backups where file_name = 'jani-audit.tar.gz'`);
    await asStaff('allow_backup_download', { backup_id: id });
    await asStaff('export_person', { identifier: 'audited@jani.example' });
    const found = await auditOf(`area => 'personal_data'`);
    expect(found).toMatchObject([
      { kind: 'person_export', subject: 'A customer', actor_email: 'staff@jani.example' },
      { kind: 'backup_downloaded', subject: 'jani-audit.tar.gz', actor_email: 'staff@jani.example' },
    ]);
    expect(JSON.stringify(found)).not.toContain('audited@');
  });

  test('is only added to', async () => {
    for (const statement of [
      'delete from public.audit_events where id = 1',
      `update public.audit_events set subject = 'x' where id = 1`,
      'truncate public.audit_events',
    ]) {
      await expect(database.query(statement)).rejects.toMatchObject({ code: '42501' });
    }
  });

  describe('a product', () => {
    const image = 'https://images.example/mango.webp';
    const write = (sql: string, values: unknown[] = []) => queryAs('staff', sql, values);

    test('has an entry for each edit, with the changed values, and its price in the history of prices', async () => {
      const events = await countEvents();
      const slug = `audited-${randomUUID()}`;
      const [added] = (
        await queryAs<{ id: string }>(
          'staff',
          `insert into public.products (name, slug, price, stock_quantity) values ('Audited mango', $1, 95000, 7) returning id`,
          [slug],
        )
      ).rows;
      const id = added?.id ?? expect.fail('no product');
      await write(`update public.products set name = 'Audited mango 500', price = 99000 where id = $1`, [id]);
      await write('update public.products set image_url = $2, more_images = array[$2::text] where id = $1', [
        id,
        image,
      ]);
      await write('update public.products set is_active = false where id = $1', [id]);
      // Saved as it was, another price, and other units.
      await write('update public.products set is_active = false, tagline = null where id = $1', [id]);
      await write('update public.products set price = 98000, stock_quantity = 9 where id = $1', [id]);
      await callAs('assistant', 'change_stock', { product_id: id, by: 3 });
      await callAs('assistant', 'set_sold_out', { product_id: id, span: 'hour' });
      await callAs('assistant', 'set_sold_out', { product_id: id });
      await write('delete from public.products where id = $1', [id]);

      const found = await since(events);
      expect(found).toMatchObject([
        {
          kind: 'product_added',
          actor_email: staff,
          subject: 'Audited mango',
          before: null,
          after: { slug, price: 95_000 },
        },
        { kind: 'product_changed', before: { name: 'Audited mango' }, after: { name: 'Audited mango 500' } },
        {
          kind: 'product_changed',
          before: { image_url: null, more_images: [] },
          after: { image_url: image, more_images: [image] },
        },
        { kind: 'product_changed', before: { is_active: true }, after: { is_active: false } },
        {
          kind: 'product_changed',
          actor_email: 'assistant@jani.example',
          before: { sold_out_until: null },
          after: { sold_out_until: expect.any(String) },
        },
        {
          kind: 'product_changed',
          before: { sold_out_until: expect.any(String) },
          after: { sold_out_until: null },
        },
        {
          kind: 'product_removed',
          actor_email: staff,
          subject: 'Audited mango 500',
          before: { price: 98_000 },
          after: null,
        },
      ]);
      expect(found.map(({ after }) => Object.keys(after ?? {}).length).slice(1, 6)).toEqual([1, 2, 1, 1, 1]);
      for (const unaudited of ['stock_quantity', 'updated_at', 'is_low_on_stock']) {
        expect(JSON.stringify(found)).not.toContain(unaudited);
      }
      expect((await auditOf(`area => 'products'`))[0]).toMatchObject({ kind: 'product_removed' });
      expect((await auditOf(`area => 'prices'`)).slice(0, 2)).toMatchObject([
        { subject: 'Audited mango 500', before: { price: 99_000 }, after: { price: 98_000 } },
        { subject: 'Audited mango 500', before: { price: 95_000 }, after: { price: 99_000 } },
      ]);
    });

    test('has no entry of its own when its category is renamed, which has one', async () => {
      const events = await countEvents();
      const name = `Audited ${randomUUID().slice(0, 8)}`;
      await write('insert into public.categories (name) values ($1)', [name]);
      await write(
        `insert into public.products (name, slug, price, category) select 'In a category', $1 || n, 100, $2 from generate_series(1, 2) as n`,
        [`in-a-category-${randomUUID()}-`, name],
      );
      await write('update public.categories set name = $2 where name = $1', [name, `${name} mint`]);
      await write('update public.categories set is_active = false where name = $1', [`${name} mint`]);
      expect(
        await readValue('select count(*)::integer from public.products where category = $1', [
          `${name} mint`,
        ]),
      ).toBe(2);
      expect(await since(events)).toMatchObject([
        { kind: 'category_added', subject: name, before: null, after: { name, is_active: true } },
        { kind: 'product_added' },
        { kind: 'product_added' },
        { kind: 'category_changed', before: { name }, after: { name: `${name} mint` } },
        { kind: 'category_changed', before: { is_active: true }, after: { is_active: false } },
      ]);
    });

    test('has no entry of orders, and several in one statement have one each', async () => {
      const [one, other] = [await makeProduct(database, 10), await makeProduct(database, 10)];
      const events = await countEvents();
      const paid = await place(one, { quantity: 2 });
      await pay(paid);
      await expire(await place(other));
      await setStatus(paid, 'cancelled');
      expect(await since(events)).toEqual([]);
      await write('update public.products set is_active = false where id in ($1, $2)', [one, other]);
      expect(await since(events)).toMatchObject([{ kind: 'product_changed' }, { kind: 'product_changed' }]);
      // Without a token: what a new shop starts with.
      await database.query('update public.products set is_active = true where id = $1', [one]);
      expect(await since(events)).toHaveLength(2);
    });
  });

  test('has pauses of orders and their ends, from their own history', async () => {
    const events = await countEvents();
    await callAs('assistant', 'pause_orders', { reason: 'Heavy rain', minutes: 30 });
    await asStaff('resume_orders');
    expect(await auditOf(`area => 'pauses'`)).toMatchObject([
      { kind: 'orders_resumed', actor_email: staff, before: null, after: null },
      {
        kind: 'orders_paused',
        actor_email: 'assistant@jani.example',
        after: { reason: 'Heavy rain', until: expect.any(String) },
      },
    ]);
    expect(await since(events)).toEqual([]);
  });

  describe('a rider', () => {
    const save = (change: Record<string, unknown> = {}) =>
      asStaff<{ id: string; updated_at: string; phone: string }>('save_rider', {
        name: 'Audited Otieno',
        phone: '0712000341',
        vehicle: 'Motorbike',
        ...change,
      });
    const savedNow = async (id: string) =>
      readValue<string>('select updated_at::text from public.riders where id = $1', [id]);

    test('has an entry for each edit and each link, without secrets and phones', async () => {
      const events = await countEvents();
      const rider = await save();
      const { secret } = await asStaff<{ secret: string }>('open_rider_link', { rider_id: rider.id });
      await callAs('counter', 'open_rider_link', { rider_id: rider.id });
      // As a press of the rider.
      await database.query('update public.riders set last_seen_at = now() where id = $1', [rider.id]);
      await save({
        rider_id: rider.id,
        seen_updated_at: await savedNow(rider.id),
        phone: '0712999341',
        plate: 'KMEH 123A',
      });
      await save({
        rider_id: rider.id,
        seen_updated_at: await savedNow(rider.id),
        phone: '0712999341',
        plate: 'KMEH 123A',
        is_active: false,
      });
      await asStaff('revoke_rider_link', { rider_id: rider.id });

      const found = await since(events);
      expect(found).toMatchObject([
        {
          kind: 'rider_added',
          actor_email: staff,
          subject: 'Audited Otieno',
          after: { vehicle: 'Motorbike', phone: '07•• ••• 341' },
        },
        { kind: 'rider_link_made', actor_email: staff, subject: 'Audited Otieno', before: null, after: null },
        { kind: 'rider_link_revoked', actor_email: 'counter@jani.example' },
        { kind: 'rider_link_made', actor_email: 'counter@jani.example' },
        // The digits in the middle differ.
        {
          kind: 'rider_changed',
          before: { phone: '07•• ••• 341', plate: '' },
          after: { phone: '07•• ••• 341', plate: 'KMEH 123A' },
        },
        { kind: 'rider_changed', before: { is_active: true }, after: { is_active: false } },
        { kind: 'rider_link_revoked', actor_email: staff },
      ]);
      const hash = await readValue<string>(
        'select string_agg(secret_hash, $2) from public.rider_links where rider_id = $1',
        [rider.id, '|'],
      );
      expect(JSON.stringify(found)).not.toMatch(new RegExp(`${secret}|${hash}|712000341|712999341`));
      expect((await auditOf(`area => 'riders'`)).length).toBeGreaterThanOrEqual(7);
    });

    test('has no entry for the practice rider, and none for a link that had ended', async () => {
      const rider = await save({ phone: newPhone() });
      await asStaff('open_rider_link', { rider_id: rider.id });
      await database.query('update public.rider_links set expires_at = now() where rider_id = $1', [
        rider.id,
      ]);
      const events = await countEvents();
      await asStaff('open_rider_link', { rider_id: rider.id });
      await asService('practice_rider', { is_practice: true });
      await asService('practice_rider', { is_practice: false });
      expect(await since(events)).toMatchObject([{ kind: 'rider_link_made' }]);
    });
  });

  test('has closes of days with the difference of the cash', async () => {
    const product = await makeProduct(database, 10);
    const day = '2026-02-03';
    const moved = async () => {
      const { id } = await place(product);
      const { id: payment } = await asStaff<{ id: string }>('receive_cash', {
        order_id: id,
        received_cents: 95_100,
      });
      await database.query(`update public.payments set completed_at = '2026-02-03 09:00+03' where id = $1`, [
        payment,
      ]);
    };
    await moved();
    const events = await countEvents();
    const count = { member: personIds.staff, expected_cents: 95_100, counted_cents: 94_000, reason: 'Lost' };
    await asStaff('close_day', { day, counts: JSON.stringify([count]), note: 'Rainy' });
    await callAs('assistant', 'close_day', { day: '2026-02-04', counts: '[]' });
    expect(await auditOf(`area => 'days'`)).toMatchObject([
      {
        kind: 'day_closed',
        actor_email: 'assistant@jani.example',
        subject: '2026-02-04',
        after: { difference: 0, note: null },
      },
      { kind: 'day_closed', actor_email: staff, subject: day, after: { difference: -1_100, note: 'Rainy' } },
    ]);
    expect(await since(events)).toEqual([]);
  });

  test('has quotes that staff show and hide, by the number of the order', async () => {
    const product = await makeProduct(database, 10);
    const order = await place(product);
    await pay(order);
    await setStatus(order, 'delivered');
    const rate = (words: string) =>
      asVisitor('rate_order', {
        order_id: order.id,
        access_key: order.access_key,
        stars: 5,
        words,
        may_quote: true,
      });
    const choose = async (is_quoted: boolean) =>
      asStaff('quote_rating', {
        order_id: order.id,
        is_quoted,
        seen_updated_at: await readValue('select updated_at::text from public.ratings where order_id = $1', [
          order.id,
        ]),
      });
    const events = await countEvents();
    await rate('Audited words');
    await choose(true);
    await choose(true);
    await choose(false);
    await choose(true);
    // The customer hides them, no one of the team.
    await rate('Other words');
    const found = await since(events);
    const number = await readValue('select order_number from public.orders where id = $1', [order.id]);
    expect(found).toEqual(
      ['quote_shown', 'quote_hidden', 'quote_shown'].map((kind) => ({
        kind,
        actor_email: staff,
        subject: number,
        before: null,
        after: null,
      })),
    );
    expect((await auditOf(`area => 'texts'`)).slice(0, 3).map(({ kind }) => kind)).toContain('quote_shown');
  });

  test('has the authenticator app that a member removed, and not that of a deleted account', async () => {
    const addApp = (user: string, status = 'verified') =>
      database.query(`insert into auth.mfa_factors (user_id, factor_type, status) values ($1, 'totp', $2)`, [
        user,
        status,
      ]);
    const remove = (user: string) =>
      database.query('delete from auth.mfa_factors where user_id = $1', [user]);
    const [member, customer] = [randomUUID(), randomUUID()];
    for (const id of [member, customer]) {
      await database.query('insert into auth.users (id, email, email_confirmed_at) values ($1, $2, now())', [
        id,
        `${id}@jani.example`,
      ]);
    }
    await database.query(`insert into public.admin_profiles (user_id, role) values ($1, 'staff')`, [member]);
    const events = await countEvents();
    await addApp(member, 'unverified');
    await remove(member);
    await addApp(customer);
    await remove(customer);
    await addApp(member);
    await remove(member);
    await addApp(member);
    await database.query('delete from auth.users where id = $1', [member]);
    const found = (await since(events)).filter(({ kind }) => !kind.startsWith('member_'));
    expect(found).toEqual([
      {
        kind: 'authenticator_removed',
        actor_email: `${member}@jani.example`,
        subject: `${member}@jani.example`,
        before: null,
        after: null,
      },
    ]);
    // Owners are mailed about resets and recovery codes only.
    expect(
      await readRow(
        `select from public.outbox_messages where kind = 'second_factor_removed'
         and event_key = (select max(id)::text from public.audit_events where kind = 'authenticator_removed')`,
      ),
    ).toBeUndefined();
  });

  test('is for owners alone', async () => {
    await expectRefusal(callAs('assistant', 'search_audit'), 403, 'not_in_role');
    await expectRefusal(callAs('counter', 'search_audit'), 403, 'not_in_role');
    await expectRefusal(callAs('customer', 'search_audit'), 403, 'staff_only');
    expect((await queryAs('assistant', 'select * from public.audit_events')).rows).toEqual([]);
    expect((await auditOf()).length, 'of owners').toBeGreaterThan(0);
  });
});
