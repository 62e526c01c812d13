// Customers who order and pay, and M-PESA's callbacks at a given rate.
import { randomUUID } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import { type BenchShop, customerAddress, product } from '../shops/bench-shop.ts';
import { type OpenPrompt, reportPaid } from '../shops/stand-in-mpesa.ts';

interface Customer {
  shop: BenchShop;
  headers: Record<string, string>;
  phone: string;
}

interface Order {
  id: string;
  tracking_number: string;
  access_key: string;
  total_amount: number;
}

/** A customer of a network of their own. */
const newCustomer = (shop: BenchShop): Customer => ({
  shop,
  headers: { ...shop.asVisitor, 'x-forwarded-for': customerAddress() },
  phone: `07${String(Math.floor(Math.random() * 1e8)).padStart(8, '0')}`,
});

/** The parameters of `place_order`. */
export const orderForm = (total: number, key: string, phone: string) => ({
  idempotency_key: key,
  product_id: product.id,
  quantity: 1,
  customer_name: 'Amina Kamau',
  customer_email: `a${phone}@mail.example`,
  customer_phone: phone,
  delivery_location: 'Westlands',
  expected_total: total,
});

/** An order's total in cents, with the delivery fee. */
export async function totalOf(shop: BenchShop): Promise<number> {
  const [settings] = await shop.call('GET', '/rest/v1/store_settings?select=delivery_fee', shop.asOwner);
  return product.price + settings.delivery_fee;
}

/** Places an order. */
export function placeOrder(shop: BenchShop, total: number): Promise<Order> {
  return placeOrderOf(newCustomer(shop), total);
}

const placeOrderOf = ({ shop, headers, phone }: Customer, total: number): Promise<Order> =>
  shop.call('POST', '/rest/v1/rpc/place_order', headers, orderForm(total, randomUUID(), phone));

/** Orders and starts the prompt. Returns the payment's reference. */
async function orderAndPrompt(customer: Customer, total: number): Promise<string> {
  const order = await placeOrderOf(customer, total);
  const answer = await customer.shop.call('POST', '/functions/v1/mobile-money', customer.headers, {
    action: 'initiate',
    phoneNumber: customer.phone,
    amount: order.total_amount,
    trackingNumber: order.tracking_number,
    orderId: order.id,
  });
  if (!answer.success) throw new Error(`${customer.shop.build.name}: no prompt: ${JSON.stringify(answer)}`);
  return answer.checkoutRequestId;
}

/** Orders and prompts per second, 8 customers at once. */
export async function loadOrdersAndPrompts(shop: BenchShop, seconds: number): Promise<number> {
  const total = await totalOf(shop);
  const begun = performance.now();
  let prompts = 0;
  const work = async () => {
    for (; performance.now() - begun < seconds * 1000; prompts += 1)
      await orderAndPrompt(newCustomer(shop), total);
  };
  await Promise.all(Array.from({ length: 8 }, work));
  return (prompts * 1000) / (performance.now() - begun);
}

const longestSeconds = 10;

/**
 * Customers order and pay at the same moment, and poll their payment's status.
 * @param within seconds after which a payment that is not known counts as this long
 * @returns the seconds until all know that they have paid, and why requests and callbacks were refused
 */
export async function payAtOnce(
  shop: BenchShop,
  customers: number,
  within = longestSeconds,
): Promise<{ seconds: number; refused: string[] }> {
  const total = await totalOf(shop);
  const begun = performance.now();
  const elapsed = () => (performance.now() - begun) / 1000;
  const refused: string[] = [];
  const pay = async () => {
    const customer = newCustomer(shop);
    const checkoutRequestId = await orderAndPrompt(customer, total);
    const status = await reportPaid(takePrompt(shop, checkoutRequestId));
    if (status !== 200) refused.push(`a callback: ${status}`);
    const question = { action: 'check-status', checkoutRequestId };
    while (elapsed() < within) {
      const known = await shop.call('POST', '/functions/v1/mobile-money', customer.headers, question);
      if (known.payment.status === 'completed') return elapsed();
      await wait(250);
    }
    return within;
  };
  const known = await Promise.all(
    Array.from({ length: customers }, () =>
      pay().catch((error: Error) => {
        refused.push(error.message);
        return within;
      }),
    ),
  );
  return { seconds: Math.max(...known), refused };
}

function takePrompt(shop: BenchShop, reference: string): OpenPrompt {
  const prompt = shop.mpesa.prompts.get(reference);
  if (!prompt) throw new Error(`M-PESA knows no prompt ${reference}`);
  shop.mpesa.prompts.delete(reference);
  return prompt;
}

/** Callbacks per second that are tried one after the other, until one is refused or too many are late. The first only warms up. */
const rates = [20, 20, 40, 80, 100, 160, 320, 500];
/** Two seconds, and enough for a 95th percentile. */
const callbacksAt = (rate: number) => Math.max(2 * rate, 100);
/** Milliseconds within which 95 of 100 are to be answered. */
const answeredWithin = 50;

/**
 * Reports payments at growing rates.
 * @returns the highest rate at which every callback was accepted, and 95 of 100 within 50 ms (1 if there is none)
 */
export async function findCallbackRate(shop: BenchShop, highest: number): Promise<number> {
  const total = await totalOf(shop);
  let perSecond = 1;
  for (const [index, rate] of rates.filter((each) => each <= highest).entries()) {
    const count = callbacksAt(rate);
    while (shop.mpesa.prompts.size < count) {
      await Promise.all(Array.from({ length: 8 }, () => orderAndPrompt(newCustomer(shop), total)));
    }
    const prompts = [...shop.mpesa.prompts.keys()].slice(0, count).map((id) => takePrompt(shop, id));
    const before = await countPaid(shop);
    const callbacks = prompts.map(async (prompt, at) => {
      await wait((at * 1000) / rate);
      const sent = performance.now();
      const status = await reportPaid(prompt).catch(() => 0);
      return { isAccepted: status === 200, tookMs: performance.now() - sent };
    });
    const answers = await Promise.all(callbacks);
    if (!answers.every(({ isAccepted }) => isAccepted)) break;
    const p95Ms = percentile95(answers.map(({ tookMs }) => tookMs));
    console.warn(`${shop.build.name}: 95 of 100 callbacks at ${rate}/s in ${p95Ms.toFixed(0)} ms`);
    if (index > 0 && p95Ms > answeredWithin) break;
    perSecond = rate;
    // The next rate begins without what this one has left.
    while ((await countPaid(shop)) < before + count) await wait(100);
  }
  return perSecond;
}

const countPaid = (shop: BenchShop) => shop.count('/rest/v1/payments?status=eq.completed&select=id');

/** The time in which 95 of 100 are done. */
export const percentile95 = (times: number[]): number =>
  times.toSorted((a, b) => a - b)[Math.floor(times.length * 0.95)] ?? Number.NaN;
