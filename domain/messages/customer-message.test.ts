import { describe, expect, test } from 'vitest';
import {
  checkTemplate,
  exampleFacts,
  exampleOf,
  type MessageFacts,
  placeholders,
  placeholdersOf,
  writeMessage,
} from './customer-message.ts';

const shop = 'https://jani.example';
const write = (body: string, facts: Partial<MessageFacts> = {}) =>
  writeMessage({ subject: null, body }, 'text', { ...exampleFacts, ...facts }, shop).body;

test('placeholders are replaced by their values, with formatted amounts', () => {
  expect(write('{shop}: {order}, {items}, {total}, {paid} {receipt}')).toBe(
    'Jani Juice: JJ-20261121-1234, 2 x Mango Khat Juice, KSh 1,901.00, KSh 1,901.00 UKL3AB12CD',
  );
  expect(write('{delivery_fee} {shop_phone}', { delivery_fee: 0 })).toBe('free 0700 000 000');
});

test('after payment the total is the charge in whole shillings, before payment the exact total', () => {
  const total_amount = 130_050;
  const payment = { charge_cents: 130_100, receipt: 'UKL3AB12CD', refund_receipt: null };
  expect(write('{total} {paid}', { total_amount, payment })).toBe('KSh 1,301.00 KSh 1,301.00');
  expect(write('{total} {paid}', { total_amount, payment: null })).toBe('KSh 1,300.50 KSh 1,301.00');
});

test('a part in brackets is left out where one of its placeholders is empty', () => {
  const body = 'Paid[, M-PESA {receipt}][ by {name}].';
  expect(write(body)).toBe('Paid, M-PESA UKL3AB12CD by Amina Kamau.');
  expect(write(body, { payment: null })).toBe('Paid by Amina Kamau.');
});

test('a job names the promised time, if there is one', () => {
  const job = { order_number: 'ORD-1042', phone: '+254712345678', address: 'Westlands', notes: '' };
  const textOf = (arrival: string | null) =>
    write('{order}[ by {arrival}]', { job: { ...job, cash_cents: null }, arrival });
  expect(textOf('2030-01-01T14:20:00+03:00')).toBe('ORD-1042 by 14:20 on Tue 1 Jan');
  expect(textOf(null)).toBe('ORD-1042');
});

test('the discount is a line of its own where there is one', () => {
  const body = '[Discount: {discount}\n]Total: {total}';
  expect(write(body, { discount_cents: 9500 })).toBe('Discount: -KSh 95.00\nTotal: KSh 1,901.00');
  for (const facts of [{ discount_cents: 0 }, {}]) expect(write(body, facts)).toBe('Total: KSh 1,901.00');
});

test('a failed delivery is told with its reason, if there is one to tell', () => {
  const body = 'We could not deliver {order}[: {failure}].';
  expect(write(body, { failure: 'no_answer' })).toBe(
    'We could not deliver JJ-20261121-1234: we could not reach you by phone.',
  );
  for (const failure of ['other', null] as const)
    expect(write(body, { failure })).toBe('We could not deliver JJ-20261121-1234.');
});

test('only money that came is due back', () => {
  const body = 'Cancelled.[ {due_back} goes back.]';
  expect(write(body)).toBe('Cancelled. KSh 1,901.00 goes back.');
  expect(write(body, { payment: null })).toBe('Cancelled.');
});

test("a customer's text is not a template", () => {
  expect(write('{name}!', { customer_name: '{total} [x] $& {link}' })).toBe('{total} [x] $& {link}!');
});

test.each([
  [
    'friend,\n\nYour order won:\nhttp://evil.example/pin\n\nJani',
    'friend, Your order won: evil. example/pin Jani',
  ],
  ['WWW.evil.example', 'evil. example'],
  ['hhttp://ttps://evil.example', 'https evil. example'],
  ['a\u2028b\u0000c', 'a b c'],
  ['A.M. Kamau', 'A. M. Kamau'],
])('writes a name in one line without links: %j', (customer_name, expected) => {
  expect(write('{name}', { customer_name })).toBe(expected);
});

test('a text message has the short link and plain characters, an e-mail the full link and its lines', () => {
  expect(write('{name} {link}', { customer_name: 'Wanjirũ' })).toMatch(
    /^Wanjiru https:\/\/jani\.example\/t\/20261121-1234-[\w-]{22}$/,
  );
  const mail = writeMessage(
    { subject: 'Order\n{order}', body: '{items}\n{receipt_link}' },
    'mail',
    { ...exampleFacts, items: [...exampleFacts.items, { name: 'Pawpaw', quantity: 1, unit_price: 100 }] },
    shop,
  );
  expect(mail.subject).toBe('Order JJ-20261121-1234');
  expect(mail.body).toBe(
    `2 × Mango Khat Juice: KSh 1,900.00\n1 × Pawpaw: KSh 1.00\n${shop}/track-order/JJ-20261121-1234/receipt?key=${exampleFacts.access_key}`,
  );
});

describe('a template', () => {
  test('may use every placeholder', () => {
    const body = Object.keys(placeholders)
      .map((name) => `{${name}}`)
      .join(' ');
    expect(
      checkTemplate({ subject: body.slice(0, 100).replace(/\{\w*$/, ''), body }, 'mail', 'order_paid'),
    ).toEqual({});
  });

  test.each([
    ['', 'A message needs words'],
    ['  \n', 'A message needs words'],
    ['Hello {nmae}', 'There is no placeholder {nmae}'],
    ['Hello {}', 'There is no placeholder {}'],
    ['Hello {toString}', 'There is no placeholder {toString}'],
    ['Hello {name', 'A bracket is not closed, or stands within another'],
    ['Hello [there [{name}]]', 'A bracket is not closed, or stands within another'],
    ['a'.repeat(481), 'At most 480 characters'],
  ])('rejects %j: %s', (body, problem) => {
    expect(checkTemplate({ subject: null, body }, 'text', 'order_paid')).toEqual({ body: problem });
  });

  test('of an email has a subject of one line', () => {
    expect(checkTemplate({ subject: '', body: 'x' }, 'mail', 'order_paid')).toEqual({
      subject: 'A message needs words',
    });
    expect(checkTemplate({ subject: 'a\nb', body: 'x' }, 'mail', 'order_paid')).toEqual({
      subject: 'A subject is one line',
    });
  });

  test('of the newsletter has its own placeholders and needs both links', () => {
    const check = (body: string) =>
      checkTemplate({ subject: 'News', body }, 'mail', 'newsletter_confirmation');
    expect(check('{shop} {confirm_link} {unsubscribe_link}')).toEqual({});
    expect(check('{order} {confirm_link} {unsubscribe_link}')).toEqual({
      body: 'There is no placeholder {order}',
    });
    expect(check('{confirm_link}')).toEqual({ body: 'This message needs {unsubscribe_link}' });
    expect(check('{unsubscribe_link}')).toEqual({ body: 'This message needs {confirm_link}' });
    expect(checkTemplate({ subject: null, body: '{confirm_link}' }, 'text', 'order_paid')).toEqual({
      body: 'There is no placeholder {confirm_link}',
    });
  });
});

describe('a message to staff', () => {
  const { shop: facts } = exampleFacts;
  const body = '{cause} {advice} ({code}) {till} {staff_link}';
  const incident = { is_refused: true, began_at: '2026-11-21T09:00:00Z', has_till: true };
  const write = (code: string, description: string, change = {}) =>
    writeMessage(
      { subject: '{shop}', body },
      'mail',
      { shop: facts, incident: { ...incident, code, description, ...change } },
      shop,
    ).body;

  test.each([
    ['404.001.03', 'Invalid Access Token', /MPESA_CONSUMER_KEY/],
    ['400.002.02', 'Bad Request - Invalid CallBackURL', /PUBLIC_URL/],
    ['500.001.1001', 'Wrong credentials', /MPESA_PASSKEY/],
    ['500.001.1001', 'Merchant does not exist', /MPESA_SHORTCODE/],
    ['2001', 'The initiator information is invalid.', /MPESA_PASSKEY/],
  ])('names the setting to check after %s, %s', (code, description, setting) => {
    const text = write(code, description);
    expect(text).toMatch(setting);
    expect(text).toContain(`(${code} ${description})`);
    expect(text).toContain(`${shop}/admin/settings/payments`);
  });

  test('says whether customers can pay without a prompt', () => {
    expect(write('404.001.03', '')).toMatch(/shown how to pay to the till/);
    expect(write('404.001.03', '', { has_till: false })).toMatch(/set a till or paybill number/);
  });

  test.each(['prompts_paused', 'prompts_resumed', 'refund_to_approve', 'second_factor_removed'] as const)(
    '%s may use every placeholder',
    (kind) => {
      const all = Object.keys(placeholdersOf(kind))
        .map((name) => `{${name}}`)
        .join(' ');
      expect(checkTemplate({ subject: 'A', body: all }, 'mail', kind)).toEqual({});
      const { body: written } = writeMessage(
        { subject: 'A', body: all },
        'mail',
        exampleOf(kind, facts),
        shop,
      );
      expect(written).not.toMatch(/[{}]|undefined|null/);
    },
  );
});

test('a newsletter e-mail has links with tokens, its stored copy has none', () => {
  const template = { subject: 'News from {shop}', body: '{confirm_link}\n{unsubscribe_link}' };
  const facts = { shop: exampleFacts.shop, tokens: { confirm: 'a1', unsubscribe: 'b2' } };
  expect(writeMessage(template, 'mail', facts, shop)).toEqual({
    subject: 'News from Jani Juice',
    body: `${shop}/newsletter/confirm?token=a1\n${shop}/newsletter/unsubscribe?token=b2`,
  });
  expect(writeMessage(template, 'mail', { ...facts, tokens: null }, shop).body).toBe(
    `${shop}/newsletter/confirm\n${shop}/newsletter/unsubscribe`,
  );
});
