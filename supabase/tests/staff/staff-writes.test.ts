// Writes of staff whose answer was lost: settle_write knows whether they were saved.
import { randomUUID } from 'node:crypto';
import { asRole, type Claims, testDatabases } from '@jani-juice/backend/testing';
import { beforeAll, describe, expect, test } from 'vitest';
import { expectRefusal, makeProduct, type Person, people, untilOneQueryWaits } from '../shop-database.ts';
import { setUpShop } from '../steps.ts';

describe.each(testDatabases())('on %s', (kind) => {
  const { database, queryAs, readRows, readValue } = setUpShop(kind);
  let product: string;
  beforeAll(async () => {
    product = await makeProduct(database, 10);
  });

  const write = (id: string, sql: string, person: Person = 'staff') =>
    asRole(database, people[person] as Claims, (session) => session.query(sql, [product]), {
      request: { headers: { 'x-write-id': id } },
    });
  const setTagline = (id: string, person?: Person) =>
    write(id, `update public.products set tagline = '${id}' where id = $1`, person);
  const tagline = () => readValue('select tagline from public.products where id = $1', [product]);
  const settle = async (id: string, person: Person = 'staff') =>
    (
      await queryAs<{ is_saved: boolean; answer: unknown }>(person, 'select * from public.settle_write($1)', [
        id,
      ])
    ).rows[0];

  test('a write that was saved stays saved, however often it is asked about', async () => {
    const id = randomUUID();
    await setTagline(id);
    for (const _ of [1, 2]) expect(await settle(id)).toEqual({ is_saved: true, answer: null });
    expect(await tagline()).toBe(id);
  });

  test('a write that was not saved never will be', async () => {
    const id = randomUUID();
    for (const _ of [1, 2]) expect(await settle(id)).toMatchObject({ is_saved: false });
    await expectRefusal(setTagline(id), 409, 'write_withdrawn');
    expect(await settle(id)).toMatchObject({ is_saved: false });
    expect(await tagline()).not.toBe(id);
  });

  test('a write that failed was not saved', async () => {
    const id = randomUUID();
    await expect(write(id, `update public.products set price = -1 where id = $1`)).rejects.toThrow();
    expect(await settle(id)).toMatchObject({ is_saved: false });
  });

  test('one request may write several times', async () => {
    const id = randomUUID();
    await asRole(
      database,
      people.staff,
      async (session) => {
        for (const text of ['first', 'second']) {
          await session.query('update public.products set tagline = $2 where id = $1', [product, text]);
        }
      },
      { request: { headers: { 'x-write-id': id } } },
    );
    expect(await settle(id)).toMatchObject({ is_saved: true });
    expect(await tagline()).toBe('second');
  });

  test('a change of a status keeps what is needed to undo it', async () => {
    const { rows } = await database.query<{ id: string; status: string; payment_status: string }>(
      `insert into public.orders (order_number, tracking_number, customer_name, customer_email, customer_phone, shipping_address,
         delivery_fee, total_amount, status, payment_status)
       values ('W-1', 'JJ-20261122-8001', 'Amina', 'a@mail.example', '+254712345678', 'Karen', 100, 1100, 'processing', 'paid')
       returning id, status, payment_status`,
    );
    const id = randomUUID();
    await write(
      id,
      `select public.set_order_status('${rows[0]?.id}', 'shipped', 'processing', 'paid') from public.products where id = $1`,
    );
    const settled = await settle(id);
    expect(settled).toMatchObject({
      is_saved: true,
      answer: { change_id: expect.any(String), undo_seconds: 15, notifies_customer: expect.any(Boolean) },
    });
  });

  test('ids of visitors, and texts that are no ids, are ignored', async () => {
    for (const id of ['', 'x', `${randomUUID()}0`]) await setTagline(id);
    expect(await readRows(`select from private.staff_writes where id::text = ''`)).toEqual([]);
    const id = randomUUID();
    await write(id, `select public.place_order('{}'::jsonb) where $1::uuid is null`, 'visitor').catch(
      () => {},
    );
    expect(await settle(id)).toMatchObject({ is_saved: false });
  });

  test('is for staff only', async () => {
    await expectRefusal(settle(randomUUID(), 'customer'), 403, 'staff_only');
    await expect(settle(randomUUID(), 'visitor')).rejects.toMatchObject({ code: '42501' });
  });

  test('every table that staff may write records its writes', async () => {
    const { rows } = await database.query<{ name: string; records: boolean }>(
      `select c.relname as name, exists (
         select from pg_trigger as t where t.tgrelid = c.oid and t.tgfoid = 'private.record_staff_write()'::regprocedure
       ) as records
       from pg_class as c
       where c.relnamespace = 'public'::regnamespace and c.relkind = 'r' and (
         has_any_column_privilege('authenticated', c.oid, 'insert, update') or has_table_privilege('authenticated', c.oid, 'delete')
       )
       order by 1`,
    );
    expect(rows.length).toBeGreaterThan(5);
    expect(rows.filter(({ records }) => !records).map(({ name }) => name)).toEqual([]);
  });

  // The embedded database runs one transaction after another.
  test.runIf(kind === 'postgresql')('the question waits for a write that is still running', async () => {
    const id = randomUUID();
    let asked: ReturnType<typeof settle> | undefined;
    await asRole(
      database,
      people.staff,
      async (session) => {
        await session.query(`update public.products set tagline = 'running' where id = $1`, [product]);
        asked = settle(id);
        await untilOneQueryWaits(database);
      },
      { request: { headers: { 'x-write-id': id } } },
    );
    expect(await asked).toMatchObject({ is_saved: true });
  });

  test('forgets writes after an hour', async () => {
    const old = randomUUID();
    await setTagline(old);
    await database.query(
      `update private.staff_writes set written_at = now() - interval '61 minutes' where id = $1`,
      [old],
    );
    await setTagline(randomUUID());
    expect(await readRows('select from private.staff_writes where id = $1', [old])).toEqual([]);
  });
});
