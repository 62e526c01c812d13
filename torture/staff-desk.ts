// Staff who send back what came for nothing: two members, since above a limit one asks and the other agrees.
import { randomBytes } from 'node:crypto';
import { type Chance, chanceOf } from './chance.ts';

export interface DeskTown {
  /** The processes that live. */
  ports(): number[];
  publishableKey: string;
  secretKey: string;
}

export interface Desk {
  /** A customer wants the money back: the order is cancelled, and its money sent back next. Gives whether that was possible. */
  cancel(orderId: string): Promise<boolean>;
  /** How often each thing was done, and what was refused. */
  counts(): Record<string, number>;
  /** Nobody asks for anything any more; what was asked for is still agreed on. */
  rest(): void;
  /** Asked for again, after a rest. */
  work(): void;
  /** Resolves when nothing is left to ask for, or after so long. */
  finish(withinMs: number): Promise<void>;
  close(): Promise<void>;
}

interface Member {
  id: string;
  email: string;
  password: string;
  token: string;
}
// biome-ignore lint/suspicious/noExplicitAny: rows of many shapes.
type Row = any;

const LOOKS_EVERY_MS = 700;
const AT_A_LOOK = 20;
const ended = ['failed', 'withdrawn'];

/** Opens the desk: makes the two accounts, and begins to look at what is to be sent back. */
export async function openDesk(town: DeskTown, seed: number): Promise<Desk> {
  const chance = chanceOf(seed, 'staff');
  const counts: Record<string, number> = {};
  const note = (word: string) => {
    counts[word] = (counts[word] ?? 0) + 1;
  };
  const [first, second] = [await makeMember(town, 1), await makeMember(town, 2)];
  let isResting = false;
  let left = Number.POSITIVE_INFINITY;
  let isClosed = false;

  /** Answers null where nobody could be reached, or nobody knows what became of it. */
  async function as(member: Member, method: string, path: string, body?: unknown): Promise<Row | null> {
    const answer = await ask(town, member.token, method, path, body);
    if (answer?.status === 401) member.token = (await signIn(town, member)) ?? member.token;
    if (answer === null || answer.status === 401 || answer.status >= 500) return null;
    if (answer.status >= 400) {
      note(`refused: ${answer.body?.details ?? answer.status}`);
      return null;
    }
    return answer.body;
  }

  async function look(chance: Chance): Promise<void> {
    const waiting = (await as(first, 'GET', '/rest/v1/refunds?status=eq.requested&limit=50')) ?? [];
    for (const refund of waiting as Row[]) {
      const other = refund.requested_by === first.id ? second : first;
      if (await as(other, 'POST', '/rest/v1/rpc/approve_refund', { refund_id: refund.id })) note('approved');
    }
    if (isResting) return;
    const payments = await paymentsToSendBack();
    left = payments?.length ?? left;
    const sendBack = async (payment: Row) => {
      const member = chance.pick([first, second]);
      const refund = await as(member, 'POST', '/rest/v1/rpc/request_refund', {
        payment_id: payment.id,
        reason: 'Came for nothing',
      });
      if (refund) note('asked for');
      // Some think better of it, while it may be leaving already.
      if (refund && chance.is(0.05)) {
        if (await as(member, 'POST', '/rest/v1/rpc/withdraw_refund', { refund_id: refund.id }))
          note('withdrawn');
      }
    };
    await Promise.all((payments ?? []).slice(0, AT_A_LOOK).map(sendBack));
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
      if (decided) note('asked for, without an order');
    }
  }

  /** Of every kind some; null when nobody could be reached. */
  async function paymentsToSendBack(): Promise<Row[] | null> {
    const columns = 'id,receipt,refunds(status)';
    const found = await Promise.all([
      as(
        first,
        'GET',
        `/rest/v1/payments?select=${columns}&status=eq.completed&needs_refund=is.true&refunded_at=is.null&receipt=not.is.null&limit=200`,
      ),
      as(
        first,
        'GET',
        `/rest/v1/payments?select=${columns},orders!inner(id)&status=eq.completed&refunded_at=is.null&receipt=not.is.null&orders.payment_status=eq.needs_decision&limit=200`,
      ),
      as(
        first,
        'GET',
        `/rest/v1/payments?select=${columns},orders!inner(id)&status=eq.completed&refunded_at=is.null&receipt=not.is.null&orders.payment_status=eq.paid&orders.status=eq.cancelled&limit=200`,
      ),
    ]);
    if (found.includes(null)) return null;
    const kinds = (found as Row[][]).map((rows) =>
      rows.filter(({ refunds }) => refunds.every(({ status }: Row) => ended.includes(status))),
    );
    const longest = Math.max(...kinds.map(({ length }) => length));
    return Array.from({ length: longest }, (_, place) => kinds.flatMap((rows) => rows[place] ?? [])).flat();
  }

  const looking = (async () => {
    while (!isClosed) {
      await look(chance);
      await new Promise((done) => setTimeout(done, LOOKS_EVERY_MS));
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

async function makeMember(town: DeskTown, number: number): Promise<Member> {
  const account = {
    email: `staff-${number}@jani.example`,
    password: `${randomBytes(12).toString('base64url')} ${number}`,
  };
  const made = await ask(town, town.secretKey, 'POST', '/auth/v1/admin/users', {
    ...account,
    email_confirm: true,
  });
  const id = made?.body?.id as string;
  await ask(town, town.secretKey, 'POST', '/rest/v1/admin_profiles', { user_id: id });
  const token = await signIn(town, account);
  if (!token) throw new Error(`a member of staff was not let in: ${JSON.stringify(made?.body)}`);
  return { ...account, id, token };
}

async function signIn(
  town: DeskTown,
  { email, password }: Pick<Member, 'email' | 'password'>,
): Promise<string | null> {
  const answer = await ask(town, town.publishableKey, 'POST', '/auth/v1/token?grant_type=password', {
    email,
    password,
  });
  return (answer?.body?.access_token as string | undefined) ?? null;
}

async function ask(
  { ports, publishableKey, secretKey }: DeskTown,
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
