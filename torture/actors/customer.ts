// HTTP client of a customer: places an order, pays it and checks its status at any process that answers.
import { randomUUID } from 'node:crypto';

export interface Shopping {
  /** Ports of running processes, the preferred one first. */
  ports(): number[];
  publishableKey: string;
  /** Retries end after this time. */
  timeoutMs: number;
}

export interface Purchase {
  /** One unit of each is ordered. */
  productIds: readonly string[];
  discountCode?: string;
  /** In cents, including the delivery fee, less the discount. */
  total: number;
  /** `07…` or `01…`. */
  phone: string;
  /** The customer's IP address. */
  address: string;
}

export interface PlacedOrder {
  id: string;
  tracking_number: string;
  access_key: string;
  total_amount: number;
}

export type Paid =
  | { kind: 'prompted'; reference: string }
  | { kind: 'refused'; code: string }
  /** No answer within the timeout. */
  | { kind: 'gave up'; last: string };

interface Answer {
  status: number;
  // biome-ignore lint/suspicious/noExplicitAny: answers of several shapes.
  body: any;
}

/** Error codes that ask the customer to try again. */
const retryCodes = new Set([
  'store_unavailable',
  'mpesa_unreachable',
  'http_429',
  '500.003.02',
  '500.003.03',
]);

/** One drink in the form of earlier versions, several as a list. */
function drinksOf({ productIds }: Purchase) {
  const [productId] = productIds;
  return productIds.length === 1 ? { product_id: productId, quantity: 1 } : { items: itemsOf(productIds) };
}
const itemsOf = (productIds: readonly string[]) =>
  productIds.map((product_id) => ({ product_id, quantity: 1 }));

/** Places an order; retries with the same key until the timeout. */
export async function placeOrder(shopping: Shopping, purchase: Purchase): Promise<PlacedOrder | Paid> {
  const form = {
    idempotency_key: randomUUID(),
    ...drinksOf(purchase),
    customer_name: 'Amina Kamau',
    customer_email: 'amina@example.com',
    customer_phone: purchase.phone,
    delivery_location: 'Westlands',
    expected_total: purchase.total,
    ...(purchase.discountCode === undefined ? {} : { discount_code: purchase.discountCode }),
  };
  const answer = await askWithRetries(
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

/** Replaces the drinks of an order before its payment by those of the purchase; retries until the timeout. */
export async function changeOrder(
  shopping: Shopping,
  purchase: Purchase,
  { id, access_key }: PlacedOrder,
): Promise<PlacedOrder | Paid> {
  const answer = await askWithRetries(
    shopping,
    purchase,
    '/rest/v1/rpc/change_order_items',
    { order_id: id, access_key, items: itemsOf(purchase.productIds), expected_total: purchase.total },
    ({ status }) => status < 500,
  );
  if ('kind' in answer) return answer;
  if (answer.status === 200) return answer.body as PlacedOrder;
  return { kind: 'refused', code: String(answer.body?.details ?? answer.status) };
}

/** Requests a prompt; retries while the error code says so. */
export async function payOrder(shopping: Shopping, purchase: Purchase, order: PlacedOrder): Promise<Paid> {
  const answer = await askWithRetries(
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
    ({ status, body }) => status === 200 && (body?.success || !retryCodes.has(body?.code)),
  );
  if ('kind' in answer) return answer;
  return answer.body.success
    ? { kind: 'prompted', reference: answer.body.checkoutRequestId }
    : { kind: 'refused', code: answer.body.code };
}

/** Status of a payment; null without an answer. */
export async function checkStatus(
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

/** Calls a procedure; retries until the timeout. Null: no answer within it. */
export async function callShop(
  shopping: Shopping,
  purchase: Purchase,
  procedure: string,
  given: Record<string, unknown>,
): Promise<Answer | null> {
  const path = `/rest/v1/rpc/${procedure}`;
  const answer = await askWithRetries(shopping, purchase, path, given, ({ status }) => status < 500);
  return 'kind' in answer ? null : answer;
}

async function askWithRetries(
  shopping: Shopping,
  purchase: Purchase,
  path: string,
  body: unknown,
  isAnswer: (answer: Answer) => boolean,
): Promise<Answer | Paid> {
  const until = Date.now() + shopping.timeoutMs;
  let last = 'no process is up';
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
