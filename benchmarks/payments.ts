// Customers who order and pay, and M-PESA's callbacks at a given rate.
import { randomUUID } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import { type BenchShop, customerAddress, product } from './bench-shop.ts';
import { type OpenPrompt, reportPaid } from './stand-in-mpesa.ts';

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

/** Callbacks per second that are tried one after the other, each for two seconds, until some are refused or late. */
const rates = [10, 20, 40, 80, 100, 160, 320, 500];

/**
 * Reports payments at growing rates.
 * @returns the highest rate at which every callback was accepted and every payment was known five seconds later (1 if there is
 *   none), and the time in which 95 of 100 callbacks were answered at 20 per second
 */
export async function findCallbackRate(
  shop: BenchShop,
  highest: number,
): Promise<{ perSecond: number; p95Ms: number }> {
  const total = await totalOf(shop);
  let perSecond = 1;
  let p95Ms = Number.NaN;
  for (const rate of rates.filter((each) => each <= highest)) {
    while (shop.mpesa.prompts.size < 2 * rate) {
      await Promise.all(Array.from({ length: 8 }, () => orderAndPrompt(newCustomer(shop), total)));
    }
    const prompts = [...shop.mpesa.prompts.keys()].slice(0, 2 * rate).map((id) => takePrompt(shop, id));
    const before = await countPaid(shop);
    const begun = performance.now();
    const callbacks = prompts.map(async (prompt, index) => {
      await wait((index * 1000) / rate);
      const sent = performance.now();
      const status = await reportPaid(prompt).catch(() => 0);
      return { isAccepted: status === 200, tookMs: performance.now() - sent };
    });
    const answers = await Promise.all(callbacks);
    if (rate === 20) p95Ms = percentile95(answers.map(({ tookMs }) => tookMs));
    if (!answers.every(({ isAccepted }) => isAccepted)) break;
    while ((await countPaid(shop)) < before + prompts.length && performance.now() - begun < 7000)
      await wait(100);
    if ((await countPaid(shop)) < before + prompts.length) break;
    perSecond = rate;
  }
  return { perSecond, p95Ms };
}

const countPaid = (shop: BenchShop) => shop.count('/rest/v1/payments?status=eq.completed&select=id');

/** The time in which 95 of 100 are done. */
export const percentile95 = (times: number[]): number =>
  times.toSorted((a, b) => a - b)[Math.floor(times.length * 0.95)] ?? Number.NaN;
