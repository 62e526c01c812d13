// Customers: they place an order, pay it from their phone and look how it stands, through whatever process answers.
import { randomUUID } from 'node:crypto';

export interface Shopping {
  /** The processes a customer may reach, the preferred one first. */
  ports(): number[];
  publishableKey: string;
  /** After this much trouble a customer gives up. */
  patienceMs: number;
}

export interface Purchase {
  productId: string;
  /** Cents, the delivery fee included. */
  total: number;
  /** `07…` or `01…`. */
  phone: string;
  /** Where the customer is. */
  address: string;
}

export interface PlacedOrder {
  id: string;
  tracking_number: string;
  total_amount: number;
}

export type Paid =
  | { kind: 'asked'; reference: string }
  | { kind: 'refused'; code: string }
  /** Nobody answered for as long as the customer was patient. */
  | { kind: 'gave up'; last: string };

interface Answer {
  status: number;
  // biome-ignore lint/suspicious/noExplicitAny: answers of several shapes.
  body: any;
}

/** A sentence of the shop that asks the customer to come again. */
const comeAgainCodes = new Set([
  'store_unavailable',
  'mpesa_unreachable',
  'http_429',
  '500.003.02',
  '500.003.03',
]);

/** Places an order; tries again with the same key for as long as the customer is patient. */
export async function placeOrder(shopping: Shopping, purchase: Purchase): Promise<PlacedOrder | Paid> {
  const form = {
    idempotency_key: randomUUID(),
    product_id: purchase.productId,
    quantity: 1,
    customer_name: 'Amina Kamau',
    customer_email: 'amina@example.com',
    customer_phone: purchase.phone,
    delivery_location: 'Westlands',
    expected_total: purchase.total,
  };
  const answer = await insist(
    shopping,
    purchase,
    '/rest/v1/rpc/place_order',
    form,
    ({ status }) => status < 500,
  );
  if ('kind' in answer) return answer;
  if (answer.status === 200) return answer.body as PlacedOrder;
  return { kind: 'refused', code: String(answer.body?.details ?? answer.status) };
}

/** Asks for the prompt; tries again while the shop says to come again. */
export async function payOrder(shopping: Shopping, purchase: Purchase, order: PlacedOrder): Promise<Paid> {
  const answer = await insist(
    shopping,
    purchase,
    '/functions/v1/mobile-money',
    {
      action: 'initiate',
      phoneNumber: purchase.phone,
      amount: order.total_amount,
      trackingNumber: order.tracking_number,
      orderId: order.id,
    },
    ({ status, body }) => status === 200 && (body?.success || !comeAgainCodes.has(body?.code)),
  );
  if ('kind' in answer) return answer;
  return answer.body.success
    ? { kind: 'asked', reference: answer.body.checkoutRequestId }
    : { kind: 'refused', code: answer.body.code };
}

/** How a payment stands; null when nobody could tell. */
export async function lookAt(
  shopping: Shopping,
  purchase: Purchase,
  reference: string,
): Promise<string | null> {
  for (const port of shopping.ports()) {
    const answer = await ask(port, shopping, purchase, '/functions/v1/mobile-money', {
      action: 'check-status',
      checkoutRequestId: reference,
    });
    if (typeof answer !== 'string' && answer.status === 200) return answer.body.payment.status as string;
  }
  return null;
}

async function insist(
  shopping: Shopping,
  purchase: Purchase,
  path: string,
  body: unknown,
  isAnswer: (answer: Answer) => boolean,
): Promise<Answer | Paid> {
  const until = Date.now() + shopping.patienceMs;
  let last = 'nobody is there';
  while (Date.now() < until) {
    for (const port of shopping.ports()) {
      const answer = await ask(port, shopping, purchase, path, body);
      if (typeof answer !== 'string' && isAnswer(answer)) return answer;
      last = typeof answer === 'string' ? answer : `${answer.status} ${JSON.stringify(answer.body)}`;
    }
    await new Promise((done) => setTimeout(done, 200));
  }
  return { kind: 'gave up', last };
}

async function ask(
  port: number,
  { publishableKey }: Shopping,
  { address }: Purchase,
  path: string,
  body: unknown,
): Promise<Answer | string> {
  try {
    const answer = await fetch(`http://127.0.0.1:${port}${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', apikey: publishableKey, 'x-forwarded-for': address },
      body: JSON.stringify(body),
      signal: AbortSignal.timeout(30_000),
    });
    const text = await answer.text();
    return { status: answer.status, body: text === '' ? null : JSON.parse(text) };
  } catch (problem) {
    return String((problem as Error).cause ?? problem);
  }
}
