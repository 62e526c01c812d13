// The newsletter's list: anyone may join it, nobody learns from it.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Database, DatabaseError } from '../../backend/database/database.ts';
import { testDatabases } from '../../backend/database/throwaway.ts';
import { call, expectRefusal, openShopDatabase } from './shop-database.ts';

describe.each(testDatabases())('subscribe_to_newsletter on %s', (kind) => {
  let database: Database;
  beforeAll(async () => {
    database = await openShopDatabase(kind);
  });
  afterAll(() => database.close());

  const subscribe = (email: string | null, address?: string) =>
    call(database, 'visitor', 'subscribe_to_newsletter', { email }, address);
  const subscribed = async (pattern: string) =>
    (
      await database.query<{ email: string }>(
        'select email from public.newsletter_subscriptions where email ilike $1',
        [pattern],
      )
    ).rows.map(({ email }) => email);

  test('an address is kept once, however often and in whatever case it comes, with the same answer', async () => {
    const first = await subscribe(' Amina@example.com ');
    expect(await subscribe('amina@EXAMPLE.com')).toEqual(first);
    expect(await subscribed('amina@example.com')).toEqual(['Amina@example.com']);
  });

  test.each([null, '', 'amina', 'amina@', '@example.com', 'a b@example.com', `${'a'.repeat(250)}@b.ke`])(
    'what is no address is refused: %s',
    async (email) => {
      await expectRefusal(subscribe(email), 400, 'email_invalid');
    },
  );

  test('thirty in ten minutes from one network are enough, and others are not held up by it', async () => {
    const refusals: { refused: number; code: unknown }[] = [];
    // Two windows' worth and one more: however the clock's windows fall, one of them overflows.
    for (let index = 0; index < 61; index++) {
      await subscribe(`reader${index}@crowd.example`, '203.0.113.9').catch((error: DatabaseError) =>
        refusals.push({ refused: index, code: [error.code, error.detail] }),
      );
    }
    expect(refusals[0]?.refused).toBeGreaterThanOrEqual(30);
    expect(refusals[0]?.code).toEqual(['PT429', 'too_many_subscriptions']);
    expect(await subscribed('%@crowd.example')).toHaveLength(61 - refusals.length);
    await subscribe('elsewhere@example.com', '203.0.113.10');
    expect(await subscribed('elsewhere@example.com')).toHaveLength(1);
  });
});
