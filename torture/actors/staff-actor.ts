// Two staff members who refund money that needs it, above a limit one requests and the other approves, and who do what customers ask.
import { randomBytes } from 'node:crypto';
import { type SeededRandom, seededRandom } from '../seeded-random.ts';

export interface ShopAccess {
  /** Ports of running processes. */
  ports(): number[];
  publishableKey: string;
  secretKey: string;
}

export interface StaffActor {
  /** Cancels a paid order, whose money is refunded next. Returns whether it was possible. */
  cancel(orderId: string): Promise<boolean>;
  /** Calls a procedure, sometimes twice at once by two members, as after a double tap. Returns an answer, or null. */
  call(procedure: string, given: Record<string, unknown>): Promise<Row | null>;
  /** Number of actions and refusals. */
  counts(): Record<string, number>;
  /** Stops requesting refunds; requested ones are still approved. */
  rest(): void;
  /** Requests refunds again. */
  work(): void;
  /** Resolves when nothing is left to refund, or after the time. */
  finish(withinMs: number): Promise<void>;
  close(): Promise<void>;
}

interface StaffMember {
  id: string;
  email: string;
  password: string;
  token: string;
}
// biome-ignore lint/suspicious/noExplicitAny: rows of many shapes.
type Row = any;

const POLL_INTERVAL_MS = 700;
const PAYMENTS_PER_POLL = 20;
const ended = ['failed', 'withdrawn'];

/** Creates the two accounts and starts polling for payments to refund. */
export async function startStaffActor(shop: ShopAccess, seed: number): Promise<StaffActor> {
  const random = seededRandom(seed, 'staff');
  const counts: Record<string, number> = {};
  const note = (word: string) => {
    counts[word] = (counts[word] ?? 0) + 1;
  };
  const [first, second] = [await createStaffMember(shop, 1), await createStaffMember(shop, 2)];
  let isResting = false;
  let left = Number.POSITIVE_INFINITY;
  let isClosed = false;

  /** Returns null when no process answered or the outcome is unknown. */
  async function as(member: StaffMember, method: string, path: string, body?: unknown): Promise<Row | null> {
    const answer = await ask(shop, member.token, method, path, body);
    if (answer?.status === 401) member.token = (await signIn(shop, member)) ?? member.token;
    if (answer === null || answer.status === 401 || answer.status >= 500) return null;
    if (answer.status >= 400) {
      note(`refused: ${answer.body?.details ?? answer.status}`);
      return null;
    }
    return answer.body;
  }

  async function look(random: SeededRandom): Promise<void> {
    const waiting = (await as(first, 'GET', '/rest/v1/refunds?status=eq.requested&limit=50')) ?? [];
    for (const refund of waiting as Row[]) {
      const other = refund.requested_by === first.id ? second : first;
      if (await as(other, 'POST', '/rest/v1/rpc/approve_refund', { refund_id: refund.id })) note('approved');
    }
    if (isResting) return;
    const payments = await paymentsToSendBack();
    left = payments?.length ?? left;
    const sendBack = async (payment: Row) => {
      const member = random.pick([first, second]);
      const refund = await as(member, 'POST', '/rest/v1/rpc/request_refund', {
        payment_id: payment.id,
        reason: 'Came for nothing',
      });
      if (refund) note('requested');
      // Some are withdrawn, perhaps while they are being sent.
      if (refund && random.is(0.05)) {
        if (await as(member, 'POST', '/rest/v1/rpc/withdraw_refund', { refund_id: refund.id }))
          note('withdrawn');
      }
    };
    await Promise.all((payments ?? []).slice(0, PAYMENTS_PER_POLL).map(sendBack));
    const unknown = await as(
      first,
      'GET',
      '/rest/v1/mpesa_transactions?payment_id=is.null&resolution=is.null&order_id=is.null&attempt_id=is.null&reference=eq.&limit=20',
    );
    for (const money of (unknown ?? []) as Row[]) {
      const decided = await as(first, 'POST', '/rest/v1/rpc/resolve_difference', {
        decision: 'refund',
        receipt: money.receipt,
      });
      if (decided) note('requested, without an order');
    }
  }

  /** Some of every kind; null when no process answered. */
  async function paymentsToSendBack(): Promise<Row[] | null> {
    const columns = 'id,receipt,refunds(status),change_notes(id)';
    const found = await Promise.all([
      as(
        first,
        'GET',
        `/rest/v1/payments?select=${columns}&status=eq.completed&needs_refund=is.true&refunded_at=is.null&receipt=not.is.null&limit=200`,
      ),
      as(
        first,
        'GET',
        `/rest/v1/payments?select=${columns},orders!inner(id)&status=eq.completed&refunded_at=is.null&receipt=not.is.null&orders.payment_status=eq.needs_review&limit=200`,
      ),
      as(
        first,
        'GET',
        `/rest/v1/payments?select=${columns},orders!inner(id)&status=eq.completed&refunded_at=is.null&receipt=not.is.null&orders.payment_status=eq.paid&orders.status=eq.cancelled&limit=200`,
      ),
    ]);
    if (found.includes(null)) return null;
    const kinds = (found as Row[][]).map((rows) =>
      // What is owed of a payment, or paid another order, is not M-PESA's to reverse.
      rows.filter(
        ({ refunds, change_notes }) =>
          change_notes.length === 0 && refunds.every(({ status }: Row) => ended.includes(status)),
      ),
    );
    const longest = Math.max(...kinds.map(({ length }) => length));
    return Array.from({ length: longest }, (_, place) => kinds.flatMap((rows) => rows[place] ?? [])).flat();
  }

  const looking = (async () => {
    while (!isClosed) {
      await look(random);
      await new Promise((done) => setTimeout(done, POLL_INTERVAL_MS));
    }
  })();

  return {
    async cancel(orderId) {
      const changed = await as(first, 'PATCH', `/rest/v1/orders?id=eq.${orderId}&payment_status=eq.paid`, {
        status: 'cancelled',
      });
      if (changed?.length !== 1) return false;
      note('orders cancelled');
      return true;
    },
    async call(procedure, given) {
      const path = `/rest/v1/rpc/${procedure}`;
      const members = random.is(0.3) ? [first, second] : [random.pick([first, second])];
      const answers = await Promise.all(members.map((member) => as(member, 'POST', path, given)));
      if (answers.some((answer) => answer !== null)) note(procedure);
      return answers.find((answer) => answer !== null) ?? null;
    },
    counts: () =>
      Object.fromEntries(Object.entries(counts).map(([word, count]) => [`staff: ${word}`, count])),
    rest() {
      isResting = true;
    },
    work() {
      isResting = false;
    },
    async finish(withinMs) {
      const until = Date.now() + withinMs;
      left = Number.POSITIVE_INFINITY;
      while (left > 0 && Date.now() < until) await new Promise((done) => setTimeout(done, 200));
    },
    async close() {
      isClosed = true;
      await looking;
    },
  };
}

async function createStaffMember(shop: ShopAccess, number: number): Promise<StaffMember> {
  const account = {
    email: `staff-${number}@jani.example`,
    password: `${randomBytes(12).toString('base64url')} ${number}`,
  };
  const made = await ask(shop, shop.secretKey, 'POST', '/auth/v1/admin/users', {
    ...account,
    email_confirm: true,
  });
  const id = made?.body?.id as string;
  await ask(shop, shop.secretKey, 'POST', '/rest/v1/admin_profiles', { user_id: id });
  const token = await signIn(shop, account);
  if (!token) throw new Error(`a staff member could not sign in: ${JSON.stringify(made?.body)}`);
  return { ...account, id, token };
}

async function signIn(
  shop: ShopAccess,
  { email, password }: Pick<StaffMember, 'email' | 'password'>,
): Promise<string | null> {
  const answer = await ask(shop, shop.publishableKey, 'POST', '/auth/v1/token?grant_type=password', {
    email,
    password,
  });
  return (answer?.body?.access_token as string | undefined) ?? null;
}

async function ask(
  { ports, publishableKey, secretKey }: ShopAccess,
  token: string,
  method: string,
  path: string,
  body?: unknown,
): Promise<{ status: number; body: Row } | null> {
  const [port] = ports();
  if (port === undefined) return null;
  try {
    const answer = await fetch(`http://127.0.0.1:${port}${path}`, {
      method,
      headers: {
        apikey: token === secretKey ? secretKey : publishableKey,
        authorization: `Bearer ${token}`,
        prefer: 'return=representation',
        'x-forwarded-for': '10.255.0.1',
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(30_000),
    });
    const text = await answer.text();
    return { status: answer.status, body: text === '' ? null : JSON.parse(text) };
  } catch {
    return null;
  }
}
