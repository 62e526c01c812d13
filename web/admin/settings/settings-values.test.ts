import { describe, expect, test } from 'vitest';
import {
  changedSettings,
  checkSettingsForm,
  mergedSettings,
  type SettingsField,
  type SettingsForm,
  settingsFormOf,
  settingsValues,
  withNeededFlags,
} from './settings-values.ts';

const good: SettingsForm = {
  store_name: 'Jani Juice',
  support_phone: '+254700000000',
  chat_phone: '0700 000 000',
  support_email: 'hello@jani.example',
  instagram_url: 'https://instagram.example/janijuice',
  facebook_url: '',
  tiktok_url: 'https://tiktok.example/@janijuice',
  seller_address: 'Mpaka Road, Westlands, Nairobi',
  seller_registration: 'BN-ABC1234',
  kra_pin: 'p051 234 567x',
  delivery_fee: '1',
  opening_hours: '',
  days_off: '[]',
  queue_minutes: '5',
  announces_delays: 'yes',
  reservation_minutes: '15',
  payment_limit: '250000',
  unpaid_orders_per_phone: '5',
  reserved_share_percent: '50',
  requires_terms_tick: 'no',
  takes_cash: 'yes',
  offers_cash: 'no',
  asks_delivery_code: 'yes',
  till_number: '5123456',
  paybill_number: '',
  refund_approval_above: '1000',
  payment_messages_months: '72',
  texts_per_day: '300',
  mails_per_day: '0',
  order_details_months: '24',
  inquiries_months: '12',
  offers_stock_alerts: 'yes',
};

test('accepts a valid form and converts it to columns', () => {
  expect(checkSettingsForm(good)).toEqual({});
  expect(settingsValues({ ...good, store_name: '  Jani Juice ', delivery_fee: '200.5' })).toEqual({
    ...good,
    chat_phone: '+254700000000',
    kra_pin: 'P051234567X',
    delivery_fee: 20_050,
    opening_hours: [],
    days_off: [],
    queue_minutes: 5,
    announces_delays: true,
    reservation_minutes: 15,
    payment_limit: 25_000_000,
    unpaid_orders_per_phone: 5,
    reserved_share_percent: 50,
    requires_terms_tick: false,
    takes_cash: true,
    offers_cash: false,
    asks_delivery_code: true,
    refund_approval_above: 100_000,
    payment_messages_months: 72,
    texts_per_day: 300,
    mails_per_day: 0,
    order_details_months: 24,
    inquiries_months: 12,
    offers_stock_alerts: true,
  });
});

test.each<[SettingsField, string, RegExp]>([
  ['store_name', '   ', /is required/],
  ['store_name', '\u200b\u200b', /is required/],
  ['payment_limit', '0', /from 1 to/],
  ['payment_limit', '1000001', /from 1 to/],
  ['payment_limit', '', /from 1 to/],
  ['store_name', 'x'.repeat(81), /longer than 80/],
  ['support_phone', '', /Support phone is required/],
  ['chat_phone', 'call me', /phone number/],
  ['chat_phone', '0712', /phone number/],
  ['support_email', '', /is required/],
  ['support_email', 'amina@nowhere', /valid email/],
  ['instagram_url', 'instagram.example/x', /https/],
  ['facebook_url', 'http://facebook.example/x', /https/],
  ['facebook_url', 'javascript:alert(1)', /https/],
  ['tiktok_url', 'https://tiktok.example/a b', /https/],
  ['tiktok_url', `https://tiktok.example/${'x'.repeat(300)}`, /longer than 300/],
  ['seller_address', 'x'.repeat(201), /at most 200/],
  ['seller_registration', 'BN-1\nBN-2', /one line/],
  ['kra_pin', 'P05123456X', /P051234567X/],
  ['opening_hours', '[]', /choose Always/],
  ['days_off', '[{"day":"","reason":""}]', /date of each day off/],
  ['queue_minutes', '61', /from 0 to 60/],
  ['delivery_fee', '', /0 means free/],
  ['delivery_fee', '-1', /at least 0/],
  ['delivery_fee', '1.005', /two decimals/],
  ['delivery_fee', '1,000', /amount/],
  ['delivery_fee', '1000000.01', /more than/],
  ['reservation_minutes', '0', /1 to 1440/],
  ['reservation_minutes', '1441', /1 to 1440/],
  ['reservation_minutes', '7.5', /1 to 1440/],
  ['reservation_minutes', '', /1 to 1440/],
  ['unpaid_orders_per_phone', '0', /1 to 100/],
  ['unpaid_orders_per_phone', '101', /1 to 100/],
  ['reserved_share_percent', '0', /1 to 100/],
  ['reserved_share_percent', '101', /1 to 100/],
  ['till_number', '512', /digits/],
  ['till_number', 'our till', /digits/],
  ['paybill_number', '+254700000000', /digits/],
  ['refund_approval_above', '-1', /amount from 0/],
  ['refund_approval_above', '1000001', /amount from 0/],
  ['payment_messages_months', '11', /12 to 240/],
  ['payment_messages_months', '241', /12 to 240/],
  ['payment_messages_months', 'for ever', /12 to 240/],
  ['order_details_months', '0', /1 to 240/],
  ['order_details_months', '241', /1 to 240/],
  ['inquiries_months', '', /1 to 240/],
  ['texts_per_day', '', /0 to 100000/],
  ['texts_per_day', '-1', /0 to 100000/],
  ['mails_per_day', '100001', /0 to 100000/],
])('reports a problem only for %s with %j', (field, text, words) => {
  const problems = checkSettingsForm({ ...good, [field]: text });
  expect(Object.keys(problems)).toEqual([field]);
  expect(problems[field]).toMatch(words);
});

test('a till number is stored without spaces', () =>
  expect(settingsValues({ ...good, till_number: ' 512 34 56 ' }).till_number).toBe('5123456'));

test('accepts a fee of 0, which is free', () => {
  expect(checkSettingsForm({ ...good, delivery_fee: '0' })).toEqual({});
  expect(settingsValues({ ...good, delivery_fee: '0' }).delivery_fee).toBe(0);
});

describe('columns', () => {
  test.each([
    [0, '0'],
    [100, '1'],
    [20_000, '200'],
    [20_050, '200.50'],
    [5, '0.05'],
  ])('shows a fee of %d cents as %s in the form', (fee, text) => {
    const values = { ...settingsValues(good), delivery_fee: fee };
    expect(settingsFormOf(values).delivery_fee).toBe(text);
    expect(settingsValues(settingsFormOf(values))).toEqual(values);
  });

  test('without a form field are omitted', () => {
    const row = { ...settingsValues(good), id: true, updated_at: 'now' };
    expect(settingsFormOf(row)).not.toHaveProperty('id');
  });
});

test('merges concurrent edits of different fields', () => {
  const mine = { ...good, store_name: 'Mine ', delivery_fee: '5' };
  const theirs = { ...good, delivery_fee: '9', chat_phone: '0711111111' };
  expect(changedSettings(good, { ...good, store_name: ' Jani Juice' })).toEqual([]);
  expect(changedSettings(good, mine)).toEqual(['store_name', 'delivery_fee']);
  expect(mergedSettings(good, mine, theirs)).toEqual({
    ...good,
    store_name: 'Mine ',
    delivery_fee: '5',
    chat_phone: '0711111111',
  });
});

test('turns off cash on the storefront with cash for staff, also in a merge', () => {
  const offered = { ...good, offers_cash: 'yes' };
  expect(withNeededFlags(offered)).toEqual(offered);
  expect(withNeededFlags({ ...offered, takes_cash: 'no' }).offers_cash).toBe('no');
  expect(mergedSettings(good, offered, { ...good, takes_cash: 'no' })).toMatchObject({
    takes_cash: 'no',
    offers_cash: 'no',
  });
});
