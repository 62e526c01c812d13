// The storefront's calls (docs/product.md#calls), made by the official clients over HTTP: against a shop opened for
// the test, or against the project of SUPABASE_URL and its two keys.
import { FunctionsClient } from '@supabase/functions-js';
import { PostgrestClient } from '@supabase/postgrest-js';
import { RealtimeClient } from '@supabase/realtime-js';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { WebSocket } from 'ws';
import { type OpenShop, openShop, until } from '../scripts/tests/open-shop.ts';

const { SUPABASE_URL, SUPABASE_PUBLISHABLE_KEY = '', SUPABASE_SECRET_KEY = '' } = process.env;
let shop: OpenShop | null = null;
let url = SUPABASE_URL ?? '';
let keys = { publishable: SUPABASE_PUBLISHABLE_KEY, secret: SUPABASE_SECRET_KEY };
let visitor: PostgrestClient;
let serviceClient: PostgrestClient;

beforeAll(async () => {
  if (!SUPABASE_URL) {
    shop = await openShop();
    url = shop.url;
    keys = await shop.keys();
  }
  visitor = new PostgrestClient(`${url}/rest/v1`, { headers: { apikey: keys.publishable } });
  const headers = { apikey: keys.secret, authorization: `Bearer ${keys.secret}` };
  serviceClient = new PostgrestClient(`${url}/rest/v1`, { headers });
});
afterAll(async () => {
  await shop?.close();
});

interface PlacedOrder {
  id: string;
  tracking_number: string;
  access_key: string;
  total_amount: number;
}

async function placeOrder(phone: string): Promise<PlacedOrder> {
  const { data: product } = await visitor
    .from('products')
    .select('id, price')
    .eq('slug', 'mango-bottle')
    .single();
  const { data: settings } = await visitor.from('store_settings').select('delivery_fee').single();
  const { data, error } = await visitor.rpc('place_order', {
    idempotency_key: crypto.randomUUID(),
    product_id: product?.id,
    quantity: 2,
    customer_name: 'Wanjiru Kamau',
    customer_email: 'wanjiru@example.com',
    customer_phone: phone,
    delivery_location: 'Kilimani',
    expected_total: (product?.price ?? 0) * 2 + (settings?.delivery_fee ?? 0),
  });
  expect(error).toBeNull();
  return data as PlacedOrder;
}

describe('a visitor', () => {
  test('reads the active products, newest first', async () => {
    const { data, error, status } = await visitor
      .from('products')
      .select('*')
      .eq('is_active', true)
      .order('created_at', { ascending: false });
    expect({ error, status }).toEqual({ error: null, status: 200 });
    expect(data?.length).toBeGreaterThanOrEqual(12);
    const dates = data?.map(({ created_at }) => created_at) ?? [];
    expect(dates).toEqual([...dates].sort().reverse());
  });

  test('counts exactly and reads a range', async () => {
    const { data, count } = await visitor.from('products').select('id', { count: 'exact' }).limit(3);
    expect(data).toHaveLength(3);
    expect(count).toBeGreaterThanOrEqual(12);
  });

  test('places an order and tracks it, masked without the access key', async () => {
    const order = await placeOrder('0712345678');
    expect(order.tracking_number).toMatch(/^JJ-\d{8}-\d{4,6}$/);
    const { data: masked } = await visitor.rpc('track_order', { tracking_number: order.tracking_number });
    expect(masked).toMatchObject({
      live_handle: expect.any(String),
      status: 'pending',
      is_masked: true,
      customer_name: 'W••• K•••',
    });
    expect(JSON.stringify(masked)).not.toContain(order.id);
    const { data: full } = await visitor.rpc('track_order', {
      tracking_number: order.tracking_number,
      access_key: order.access_key,
    });
    expect(full).toMatchObject({
      id: order.id,
      is_masked: false,
      customer_phone: '+254712345678',
      shipping_address: 'Kilimani',
    });
  });

  test('receives a refused order as an error with status, code, message and hint', async () => {
    const { data: product } = await visitor.from('products').select('id').eq('slug', 'mango-bottle').single();
    const { data, error, status } = await visitor.rpc('place_order', {
      idempotency_key: crypto.randomUUID(),
      product_id: product?.id,
      quantity: 1,
      customer_name: 'Wanjiru Kamau',
      customer_email: 'wanjiru@example.com',
      customer_phone: '0712345678',
      delivery_location: 'Kilimani',
      expected_total: 1,
    });
    expect({ data, status }).toEqual({ data: null, status: 409 });
    expect({ ...error }).toMatchObject({
      code: 'PT409',
      message: 'The price has changed since you opened this page. Please check the new total',
      details: 'total_changed',
      hint: expect.stringMatching(/^\d+$/),
    });
  });

  test('subscribes to the masked order by its live handle, which cannot be used to pay', async () => {
    const order = await placeOrder('0712345679');
    const { data: masked } = await visitor.rpc('track_order', { tracking_number: order.tracking_number });
    const realtime = new RealtimeClient(`${url.replace(/^http/, 'ws')}/realtime/v1`, {
      params: { apikey: keys.publishable },
      transport: WebSocket as never,
    });
    const received: { id: string; status: string }[] = [];
    await new Promise<void>((done, fail) => {
      realtime
        .channel(`order-${masked.live_handle}`)
        .on('broadcast', { event: 'UPDATE' }, ({ payload }) => received.push(payload as never))
        .subscribe((status, error) => {
          if (status === 'SUBSCRIBED') done();
          else if (status !== 'CLOSED') fail(error ?? new Error(status));
        });
    });
    const { error } = await serviceClient.from('orders').update({ status: 'processing' }).eq('id', order.id);
    expect(error).toBeNull();
    await until(async () => received.length > 0, 'the change is received');
    expect(received).toMatchObject([{ id: masked.live_handle, status: 'processing' }]);
    expect(JSON.stringify(received)).not.toContain(order.id);
    await realtime.disconnect();

    const functions = new FunctionsClient(`${url}/functions/v1`, { headers: { apikey: keys.publishable } });
    const { data: started } = await functions.invoke('mobile-money', {
      body: {
        action: 'initiate',
        phoneNumber: '0712345679',
        amount: order.total_amount,
        trackingNumber: order.tracking_number,
        orderId: masked.live_handle,
      },
    });
    expect(started).toMatchObject({ success: false, code: 'order_not_found' });
  });

  test('receives null for an unknown tracking number, and cannot read the tables of orders', async () => {
    const { data, error } = await visitor.rpc('track_order', { tracking_number: 'JJ-20200101-1000' });
    expect({ data, error }).toEqual({ data: null, error: null });
    const { error: refused } = await visitor.from('orders').select('*');
    expect(refused?.code).toBe('42501');
    const { data: seen } = await serviceClient.from('orders').select('id').limit(1);
    expect(seen).toHaveLength(1);
  });

  test('sends an inquiry and cannot read it', async () => {
    const inquiry = {
      name: 'Otieno Ouma',
      email: 'otieno@example.com',
      phone: null,
      subject: null,
      message: 'Mna ndizi?',
    };
    expect((await visitor.from('inquiries').insert(inquiry)).error).toBeNull();
    expect((await visitor.from('inquiries').select('*')).error?.code).toBe('42501');
    const { data } = await serviceClient.from('inquiries').select('message').eq('email', inquiry.email);
    expect(data).toContainEqual({ message: inquiry.message });
  });

  test('pays through the function and receives the result live', async () => {
    const order = await placeOrder('0722334455');
    const realtime = new RealtimeClient(`${url.replace(/^http/, 'ws')}/realtime/v1`, {
      params: { apikey: keys.publishable },
      transport: WebSocket as never,
    });
    const updates: { status: string; payment_status: string }[] = [];
    await new Promise<void>((done, fail) => {
      realtime
        .channel(`order-${order.id}`)
        .on('broadcast', { event: 'UPDATE' }, ({ payload }) =>
          updates.push(payload as (typeof updates)[number]),
        )
        .subscribe((status, error) => {
          if (status === 'SUBSCRIBED') done();
          else if (status !== 'CLOSED') fail(error ?? new Error(status));
        });
    });
    const functions = new FunctionsClient(`${url}/functions/v1`, { headers: { apikey: keys.publishable } });
    const { data: started, error } = await functions.invoke('mobile-money', {
      body: {
        action: 'initiate',
        phoneNumber: '0722334455',
        amount: order.total_amount,
        trackingNumber: order.tracking_number,
        orderId: order.id,
      },
    });
    expect(error).toBeNull();
    expect(started).toMatchObject({ success: true, checkoutRequestId: expect.any(String) });
    await until(
      async () => updates.some(({ payment_status }) => payment_status === 'paid'),
      'the payment is reported live',
    );
    const { data: checked } = await functions.invoke('mobile-money', {
      body: { action: 'check-status', checkoutRequestId: started.checkoutRequestId },
    });
    expect(checked).toEqual({ payment: { status: 'completed', result_code: '0' } });
    expect(updates.at(-1)).toMatchObject({ status: 'processing', payment_status: 'paid' });
    await realtime.disconnect();
  });
});

describe('the secret key', () => {
  test('reads and searches orders with their items and products, as the staff lists do', async () => {
    const { data, error, count } = await serviceClient
      .from('orders')
      .select('*, order_items(quantity, unit_price, products(name))', { count: 'exact' })
      .or('customer_name.ilike.%wanjiru%,customer_email.ilike.%wanjiru%,order_number.ilike.%wanjiru%')
      .order('created_at', { ascending: false });
    expect(error).toBeNull();
    expect(count).toBeGreaterThanOrEqual(1);
    expect(data?.[0]?.order_items).toEqual([
      { quantity: 2, unit_price: expect.any(Number), products: { name: 'Embu Fresh Mango' } },
    ]);
  });

  test('searches deliveries by their order', async () => {
    const { data, error } = await serviceClient
      .from('deliveries')
      .select(
        '*, orders!inner(order_number, customer_name, customer_phone, shipping_address, city, total_amount)',
      )
      .ilike('orders.customer_name', '%wanjiru%');
    expect(error).toBeNull();
    expect(data?.[0]).toMatchObject({ delivery_status: 'pending', orders: { city: 'Nairobi' } });
  });

  test('changes, upserts and deletes, and returns the selected columns', async () => {
    const name = `Demo ${crypto.randomUUID()}`;
    const { data: added } = await serviceClient.from('categories').insert({ name }).select().single();
    expect(added).toMatchObject({ name, is_active: true });
    const { data: upserted } = await serviceClient
      .from('categories')
      .upsert({ name, is_active: false }, { onConflict: 'name' })
      .select('id, is_active')
      .single();
    expect(upserted).toEqual({ id: added.id, is_active: false });
    const { count } = await serviceClient.from('categories').delete({ count: 'exact' }).eq('id', added.id);
    expect(count).toBe(1);
  });
});
