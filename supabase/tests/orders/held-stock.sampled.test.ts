// Strangers try all day to hold a drink without paying. An honest buyer who comes at any time fails at most once, for minutes.
import type { Database } from '@jani-juice/backend/database';
import { testDatabases } from '@jani-juice/backend/testing';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { isExhaustive } from '../../../scripts/tests/test-depth.ts';
import { expectBalancedBooks } from '../payments/books/balanced-books.ts';
import { letMinutesPass, makeProduct, openShopDatabase } from '../shop-database.ts';

/** A minute of the simulation within the database: a call per order would take most of the time. */
const simulation = `
  create schema simulation;
  create table simulation.attacks (order_id uuid primary key, began integer not null);
  create table simulation.buyers (
    n integer primary key, address text not null, quantity integer not null, next_try integer not null, failures integer not null default 0,
    outcome text
  );

  create function simulation.place(address text, product_id uuid, quantity integer) returns jsonb language plpgsql as $$
  declare
    phone text := '07' || lpad(floor(random() * 1e8)::text, 8, '0');
  begin
    perform set_config('request.headers', jsonb_build_object('x-forwarded-for', address)::text, true);
    return public.place_order(
      gen_random_uuid(), place.product_id, place.quantity, 'Amina Kamau', phone || '@example.com', phone, 'Westlands',
      95000 * place.quantity + 100
    );
  end $$;

  create function simulation.prompt(ordered uuid) returns jsonb language plpgsql as $$
  begin
    return (
      select public.begin_payment(o.id, o.tracking_number, o.customer_phone, gen_random_uuid()::text)
      from public.orders as o where o.id = ordered
    );
  exception when others then
    return jsonb_build_object('details', sqlerrm);
  end $$;

  create function simulation.attack(minute integer, address text, product_id uuid, prompt_after integer, is_declined boolean) returns void
  language plpgsql as $$
  declare
    known simulation.attacks;
    answer jsonb;
    tried integer;
  begin
    perform set_config('request.headers', jsonb_build_object('x-forwarded-for', address)::text, true);
    if is_declined then
      perform public.settle_payment(p.id, 'query', '{}', 'failed', '1032')
      from public.payments as p join simulation.attacks as a on a.order_id = p.order_id
      where p.status in ('initiating', 'processing');
    end if;
    for known in
      select a.* from simulation.attacks as a
      where a.began <= minute - prompt_after
        and not exists (select from public.payments as p where p.order_id = a.order_id and p.status in ('initiating', 'processing'))
      order by a.began desc limit 5
    loop
      perform simulation.prompt(known.order_id);
    end loop;
    delete from simulation.attacks as a using public.orders as o where o.id = a.order_id and o.status = 'cancelled';
    -- More waiting orders of one network would be refused.
    if (select count(*) from simulation.attacks) > 60 then
      return;
    end if;
    foreach tried in array array[40, 20, 5, 1] loop
      continue when tried > (select p.stock_quantity from public.products as p where p.id = attack.product_id);
      answer := simulation.place(address, attack.product_id, tried);
      continue when answer ? 'details';
      insert into simulation.attacks values ((answer ->> 'id')::uuid, minute);
      if prompt_after = 0 then
        perform simulation.prompt((answer ->> 'id')::uuid);
      end if;
    end loop;
  end $$;

  create function simulation.buy(minute integer, buyer simulation.buyers, product_id uuid, retry_after integer) returns void
  language plpgsql as $$
  declare
    answer jsonb := simulation.place(buyer.address, buy.product_id, buyer.quantity);
    begun jsonb;
  begin
    if not answer ? 'details' then
      begun := simulation.prompt((answer ->> 'id')::uuid);
    end if;
    if begun ? 'payment' then
      perform public.settle_payment((begun -> 'payment' ->> 'id')::uuid, 'query', '{}', 'succeeded', '0');
      update public.products as p set stock_quantity = p.stock_quantity + buyer.quantity where p.id = buy.product_id;
      update simulation.buyers as b
      set outcome = (select o.payment_status from public.orders as o where o.id = (answer ->> 'id')::uuid)
      where b.n = buyer.n;
    else
      update simulation.buyers as b set failures = b.failures + 1, next_try = minute + retry_after where b.n = buyer.n;
    end if;
  end $$;`;

const attacks: [string, (minute: number) => string][] = [
  ['one address', () => '102.0.0.1'],
  ['a /24', (minute) => `102.0.1.${1 + (minute % 250)}`],
  ['two /24s', (minute) => `102.0.${2 + (minute % 2)}.${1 + (minute % 250)}`],
  ['a /64 each of one /48', (minute) => `2c0f:fe38:1:${minute.toString(16)}::1`],
  ['many addresses', (minute) => `10.${minute >> 8}.${minute & 255}.1`],
];
const ways = [
  { way: 'leave prompts unanswered', promptAfter: 0, isDeclined: false },
  { way: 'decline prompts and ask for others', promptAfter: 0, isDeclined: true },
  { way: 'ask for late prompts', promptAfter: 12, isDeclined: false },
];
const cases = attacks.flatMap(([place, addressAt]) =>
  ways.flatMap((way) => [40, 2, 1].map((stock) => ({ place, addressAt, ...way, stock }))),
);
// Each way and each stock with some of the places: all combinations would take three times as long.
const chosen = isExhaustive
  ? cases.filter(
      ({ place, promptAfter, isDeclined, stock }) =>
        (stock === 40 && !promptAfter && !isDeclined) ||
        (stock === 40 && ['one address', 'many addresses'].includes(place)) ||
        (stock < 40 && !promptAfter && !isDeclined && ['two /24s', 'many addresses'].includes(place)),
    )
  : cases.filter(
      ({ place, promptAfter, isDeclined, stock }) =>
        ['one address', 'many addresses'].includes(place) && stock === 40 && !promptAfter && !isDeclined,
    );
const minutesOf = (place: string) => {
  if (!isExhaustive) return 75;
  return place === 'a /24' ? 24 * 60 : 4 * 60;
};

// Each case its own: a simulated day leaves many dead rows. PostgreSQL where there is one, which removes them by itself.
let database: Database;
beforeEach(async () => {
  database = await openShopDatabase(testDatabases().at(-1) as Database['kind']);
  await database.execute(simulation);
});
afterEach(() => database.close());

test.each(chosen)(
  'with $stock units, when $place tries to $way, a buyer fails at most once',
  async ({ place, addressAt, promptAfter, isDeclined, stock }) => {
    const minutes = minutesOf(place);
    const product = await makeProduct(database, stock);
    // One hold of the last unit lasts 15 minutes, and one more prompt 5.
    const retryAfter = stock === 1 ? 21 : 6;
    const sold: boolean[] = [];
    for (let minute = 0; minute < minutes; minute += 1) {
      await letMinutesPass(database, product, 1);
      // Limits of calls must not be what stops the attack.
      await database.query('delete from private.rate_limits');
      await database.query('select public.expire_reservations()');
      await database.query(
        'select simulation.attack($1::integer, $2, $3::uuid, $4::integer, $5::boolean)',
        [minute, addressAt(minute), product, promptAfter, isDeclined].map(String),
      );
      const { rows } = await database.query<{ stock_quantity: number }>(
        'select stock_quantity from public.products where id = $1',
        [product],
      );
      sold.push(rows[0]?.stock_quantity === 0);
      // A buyer comes every four minutes, some from the attacker's own network.
      if (minute % 4 === 0) {
        const address = minute % 12 === 0 ? addressAt(minute) : `172.16.${minute >> 8}.${minute & 255}`;
        await database.query(
          'insert into simulation.buyers (n, address, quantity, next_try) values ($1::integer, $2, $3::integer, $1::integer)',
          [minute, address, stock > 2 && minute % 8 === 0 ? 2 : 1].map(String),
        );
      }
      await database.query(
        `select simulation.buy($1::integer, b, $2::uuid, $3::integer) from simulation.buyers as b
         where b.outcome is null and b.next_try <= $1::integer`,
        [minute, product, retryAfter].map(String),
      );
    }
    const { rows } = await database.query(
      `select b.failures, b.outcome, count(*)::integer as buyers from simulation.buyers as b
       where b.n < $1::integer group by 1, 2 order by 1, 2`,
      [String(minutes - retryAfter)],
    );
    for (const { failures, outcome } of rows) {
      expect({ failures, outcome }, JSON.stringify(rows)).toEqual({
        failures: expect.toBeOneOf([0, 1]),
        outcome: 'paid',
      });
    }
    const worstHour = Math.max(
      ...sold.map((_, start) => sold.slice(start, start + 60).filter(Boolean).length),
    );
    expect(worstHour).toBeLessThanOrEqual(retryAfter);
    const { rows: restocked } = await database.query<{ units: number }>(
      'select sum(b.quantity)::integer as units from simulation.buyers as b where b.outcome is not null',
    );
    await expectBalancedBooks(database, {
      stock: new Map([[product, stock + (restocked[0]?.units ?? 0)]]),
    });
  },
  600_000,
);
