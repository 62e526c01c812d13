// Staff mark inquiries as read: once, and only listed ones.
import { randomUUID } from 'node:crypto';
import { testDatabases } from '@jani-juice/backend/testing';
import { beforeEach, describe, expect, test } from 'vitest';
import { expectRefusal, type Person } from '../shop-database.ts';
import { setUpShop } from '../steps.ts';

describe.each(testDatabases())('on %s', (kind) => {
  const { database, callAs, asStaff, readColumn } = setUpShop(kind);
  beforeEach(() => database.execute('delete from public.inquiries'));

  /** An inquiry from some minutes ago. */
  async function makeInquiry(minutesAgo = 1): Promise<{ id: string; created_at: string }> {
    const { rows } = await database.query<{ id: string; created_at: string }>(
      `insert into public.inquiries (name, email, message, created_at)
       values ('Amina', 'amina@mail.example', 'Hello', now() - make_interval(mins => $1)) returning id, created_at`,
      [minutesAgo],
    );
    const [made] = rows;
    if (!made) throw new Error('No inquiry was made');
    return made;
  }
  const unread = () => readColumn('select id from public.inquiries where not is_read order by created_at');
  const mark = (id: string, person: Person = 'staff') =>
    callAs<string>(person, 'mark_inquiry_read', { inquiry_id: id });

  test('the first call marks an inquiry, the next one fails because it is read', async () => {
    const [{ id }, other] = [await makeInquiry(), await makeInquiry()];
    expect(await mark(id)).toBe('marked');
    expect(await mark(id)).toBe('already_read');
    expect(await unread()).toEqual([other.id]);
  });

  test('an unknown inquiry has its own error', async () => {
    expect(await mark(randomUUID())).toBe('not_found');
  });

  test('marking all returns their number', async () => {
    for (const minutes of [1, 2, 3]) await makeInquiry(minutes);
    expect(await asStaff('mark_all_inquiries_read')).toBe(3);
    expect(await asStaff('mark_all_inquiries_read')).toBe(0);
    expect(await unread()).toEqual([]);
  });

  test('one that arrived after the list was loaded stays unread', async () => {
    await makeInquiry(3);
    const newestSeen = await makeInquiry(2);
    const later = await makeInquiry(1);
    expect(await asStaff('mark_all_inquiries_read', { seen_until: newestSeen.created_at })).toBe(2);
    expect(await unread()).toEqual([later.id]);
  });

  test('is for staff only', async () => {
    const { id } = await makeInquiry();
    for (const person of ['customer', 'former staff', 'half-way staff'] as const) {
      await expectRefusal(mark(id, person), 403, 'staff_only');
      await expectRefusal(callAs(person, 'mark_all_inquiries_read'), 403, 'staff_only');
    }
    await expect(mark(id, 'visitor')).rejects.toMatchObject({ code: '42501' });
    expect(await unread()).toEqual([id]);
    expect(await mark(id, 'service')).toBe('marked');
  });
});
