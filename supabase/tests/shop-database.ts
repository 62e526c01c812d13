// The shop's database for tests: migrated, seeded, with an account of each kind, and functions to call its procedures.
import { randomUUID } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { type Database, DatabaseError, type Session } from '@jani-juice/backend/database';
import { asRole, type Claims, throwawayDatabase } from '@jani-juice/backend/testing';
import { expect } from 'vitest';
import { shopMigrations } from '../../scripts/databases/shop-migrations.ts';

const staffId = '5a000000-0000-4000-8000-000000000001';
const formerStaffId = '5a000000-0000-4000-8000-000000000002';
const customerId = '5a000000-0000-4000-8000-000000000003';
const carefulStaffId = '5a000000-0000-4000-8000-000000000004';
const assistantId = '5a000000-0000-4000-8000-000000000005';
const counterId = '5a000000-0000-4000-8000-000000000006';

/** The kinds of caller, by their names in the tests. `staff` are owners; `assistant` and `counter` have the two other roles. */
export const people = {
  visitor: { role: 'anon' },
  customer: { role: 'authenticated', sub: customerId },
  'former staff': { role: 'authenticated', sub: formerStaffId },
  staff: { role: 'authenticated', sub: staffId, aal: 'aal1' },
  // Has a second factor, but has entered only the password.
  'half-way staff': { role: 'authenticated', sub: carefulStaffId, aal: 'aal1' },
  assistant: { role: 'authenticated', sub: assistantId, aal: 'aal1' },
  counter: { role: 'authenticated', sub: counterId, aal: 'aal1' },
  service: { role: 'service_role' },
} as const satisfies Record<string, Claims>;
export type Person = keyof typeof people;
export type Caller = Person | Claims;
export const everyCaller = Object.keys(people) as Person[];
/** Without the staff who have fewer rights than owners. */
export const everyone = everyCaller.filter((person) => person !== 'assistant' && person !== 'counter');
/** The same person after the second factor. */
export const secondStepPassed: Claims = { ...people['half-way staff'], aal: 'aal2' };
export const personIds = {
  staff: staffId,
  'former staff': formerStaffId,
  customer: customerId,
  assistant: assistantId,
  counter: counterId,
};

/** A fresh database of the shop with its demo catalogue and one account of each kind. */
export async function openShopDatabase(kind: Database['kind']): Promise<Database> {
  const database = await throwawayDatabase(kind, shopMigrations);
  await database.execute(await readFile(new URL('../seed.sql', import.meta.url), 'utf8'));
  await database.query(
    `insert into auth.users (id, email) values
       ($1, 'staff@jani.example'), ($2, 'former@jani.example'), ($3, 'customer@jani.example'),
       ($4, 'careful@jani.example'), ($5, 'assistant@jani.example'), ($6, 'counter@jani.example')`,
    [staffId, formerStaffId, customerId, carefulStaffId, assistantId, counterId],
  );
  // A factor that was never verified has no effect.
  await database.query(
    `insert into auth.mfa_factors (user_id, factor_type, status) values ($1, 'totp', 'unverified'), ($2, 'totp', 'verified')`,
    [staffId, carefulStaffId],
  );
  await database.query(
    `insert into public.admin_profiles (user_id, is_active) values ($1, true), ($2, false), ($3, true)`,
    [staffId, formerStaffId, carefulStaffId],
  );
  await database.query(
    `insert into public.admin_profiles (user_id, role) values ($1, 'staff'), ($2, 'counter')`,
    [assistantId, counterId],
  );
  return database;
}

/** The claims of a caller's token. */
export const claimsOf = (caller: Caller): Claims => (typeof caller === 'string' ? people[caller] : caller);

/** The call of a procedure with its arguments by name, such as `public.count_orders(search => $1)`. */
export function procedureCall(procedure: string, given: Record<string, unknown>): string {
  const named = Object.keys(given).map((name, index) => `${name} => $${index + 1}`);
  return `public.${procedure}(${named.join(', ')})`;
}

/**
 * Calls a procedure of the public schema.
 * @param procedure name of the procedure, written by the test
 * @param given arguments by name, written by the test
 * @param address IP address of the request; calls without one are the shop's own
 * @throws DatabaseError also where the procedure commits and returns its refusal (`private.refusal_answer`)
 */
export async function call<Answer>(
  database: Database,
  caller: Caller,
  procedure: string,
  given: Record<string, unknown> = {},
  address?: string,
): Promise<Answer> {
  const { answer, status } = await asRole(
    database,
    claimsOf(caller),
    async (session) => {
      const answer = await callProcedure<Answer>(session, procedure, given);
      const setting = await session.query<{ status: string | null }>(
        `select nullif(current_setting('response.status', true), '') as status`,
      );
      return { answer, status: setting.rows[0]?.status ?? null };
    },
    address
      ? {
          request: { headers: { [caller === 'service' ? 'x-visitor-address' : 'x-forwarded-for']: address } },
        }
      : {},
  );
  if (status !== null) throw refusalError(answer as RefusalAnswer);
  return answer;
}

/** Whether procedures return rows: drivers return a row as text, so it is selected as JSON. */
const returnsRow = new Map<string, boolean>();

/** Calls a procedure of the public schema in a session that has its identity. */
async function callProcedure<Answer>(
  session: Session,
  procedure: string,
  given: Record<string, unknown>,
): Promise<Answer> {
  if (!returnsRow.has(procedure)) {
    const { rows } = await session.query<{ is_row: boolean }>(
      `select t.typtype = 'c' or t.typname = 'record' as is_row from pg_proc as p join pg_type as t on t.oid = p.prorettype
       where p.pronamespace = 'public'::regnamespace and p.proname = $1`,
      [procedure],
    );
    returnsRow.set(procedure, rows[0]?.is_row ?? false);
  }
  const called = procedureCall(procedure, given);
  const { rows } = await session.query<{ answer: Answer }>(
    `select ${returnsRow.get(procedure) ? `to_jsonb(${called})` : called} as answer`,
    Object.values(given).map(asParameter),
  );
  return (rows[0]?.answer ?? null) as Answer;
}

/** Arrays as PostgreSQL writes them: one of the two drivers would send JSON. */
const asParameter = (value: unknown): unknown =>
  Array.isArray(value) ? `{${value.map((entry) => JSON.stringify(entry)).join(',')}}` : value;

interface RefusalAnswer {
  code: string;
  message: string;
  details: string;
  hint: string;
}

/** The error that clients see when a procedure returns its refusal. */
function refusalError({ code, message, details, hint }: RefusalAnswer): DatabaseError {
  return new DatabaseError(message, { code, detail: details, hint });
}

/** Expects an error with this HTTP status and code, and returns it. */
export async function expectRefusal(
  attempt: Promise<unknown>,
  status: number,
  code: string,
): Promise<DatabaseError> {
  const error = await attempt.then(
    () => null,
    (thrown: unknown) => thrown,
  );
  expect(error, `expected to be refused with ${code}`).toBeInstanceOf(DatabaseError);
  expect(error).toMatchObject({ code: `PT${status}`, detail: code });
  return error as DatabaseError;
}

/** The error code of a refused call, or null on success. */
export async function refusalOf(attempt: Promise<unknown>): Promise<string | null> {
  try {
    await attempt;
    return null;
  } catch (error) {
    if (error instanceof DatabaseError && error.code.startsWith('PT4')) return error.detail ?? '';
    throw error;
  }
}

export interface PlacedOrder {
  id: string;
  tracking_number: string;
  access_key: string;
  status: string;
  payment_status: string;
  delivery_fee: number;
  total_amount: number;
  charge_cents: number;
  customer_phone: string;
  /** Null: no stock is reserved. */
  reserved_until: string | null;
  expires_at: string;
  created_at: string;
}

const initialUnits = new WeakMap<Database, Map<string, number>>();

/** Units of each product of `makeProduct` before its first order. A test that changes the stock itself changes these, too. */
export function initialStock(database: Database): Map<string, number> {
  const units = initialUnits.get(database) ?? new Map<string, number>();
  initialUnits.set(database, units);
  return units;
}

/** A new product for a test, so that no other test changes its stock. Default price: 95,000 cents. */
export async function makeProduct(
  database: Database,
  stock: number,
  price = 95_000,
  name = 'Test drink',
): Promise<string> {
  const id = randomUUID();
  initialStock(database).set(id, stock);
  await database.query(
    `insert into public.products (id, name, slug, price, category, brand, stock_quantity)
     values ($1, $5, $4, $2, 'Mango', 'Test', $3)`,
    [id, price, stock, `test-${id}`, name],
  );
  return id;
}

/** The data of a valid order form for a product that costs 950 shillings. */
export function orderForm(productId: string, quantity = 1): Record<string, unknown> {
  return {
    idempotency_key: randomUUID(),
    product_id: productId,
    quantity,
    customer_name: 'Amina Kamau',
    customer_email: 'amina@example.com',
    customer_phone: '0712345678',
    delivery_location: 'Westlands',
    expected_total: 95_000 * quantity + 100,
  };
}

/** The data of a valid order form for several drinks. */
export function itemsForm(items: unknown, expected_total: number): Record<string, unknown> {
  const { product_id, quantity, ...form } = orderForm('');
  return { ...form, items: JSON.stringify(items), expected_total };
}

export async function stockOf(database: Database, productId: string): Promise<number> {
  const { rows } = await database.query<{ stock_quantity: number }>(
    'select stock_quantity from public.products where id = $1',
    [productId],
  );
  return rows[0]?.stock_quantity ?? Number.NaN;
}

/** Lets minutes pass for the unpaid orders of a product, and for the time that counts as held. Ends nothing by itself. */
export async function letMinutesPass(database: Database, product: string, minutes: number): Promise<void> {
  await database.query(
    `with aged as (
       update public.orders as o
       set reserved_until = o.reserved_until - t.span, expires_at = o.expires_at - t.span, expiry_limit = o.expiry_limit - t.span,
           created_at = o.created_at - t.span
       from (select make_interval(mins => $2) as span) as t
       where o.payment_status = 'unpaid' and o.status <> 'cancelled'
         and o.id in (select i.order_id from public.order_items as i where i.product_id = $1)
     ), held as (
       update private.unpaid_holds as h
       set held_since = h.held_since - make_interval(mins => $2), held_until = h.held_until - make_interval(mins => $2)
       where h.product_id = $1
     ), counted as (
       delete from private.hold_time as t where t.product_id = $1 returning *
     )
     insert into private.hold_time (subject, product_id, counts_until, held)
     select c.subject, c.product_id, c.counts_until - make_interval(mins => $2), sum(c.held) from counted as c group by 1, 2, 3`,
    [product, String(minutes)],
  );
}

/** Waits until one query of this database waits for a lock. */
export async function untilOneQueryWaits(database: Database): Promise<void> {
  await expect
    .poll(async () => {
      const { rows } = await database.query(
        `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
      );
      return rows.length;
    })
    .toBe(1);
}
