// The staff's form of the store's settings: validation with its messages, and the values for the database.
import type { DayOff, OpenSpan } from '../../../domain/deliveries/delivery-promise.ts';
import { isEmail } from '../../../domain/people/email.ts';
import { normaliseAnyPhone } from '../../../domain/people/phone.ts';
import { visibleLength } from '../../../domain/visible-text.ts';
import type { Json } from '../../../supabase/types.ts';
import { keysOf } from '../data/keys-of.ts';
import {
  checkDaysOff,
  checkHours,
  daysOffColumn,
  daysOffText,
  describeDaysOff,
  describeHours,
  hoursColumn,
  hoursText,
} from './hours/hours-values.ts';

/** Labels of the fields, in the order of the form. */
export const settingsLabels = {
  store_name: 'Store name',
  support_phone: 'Support phone',
  chat_phone: 'Chat phone',
  support_email: 'Support email',
  instagram_url: 'Instagram',
  facebook_url: 'Facebook',
  tiktok_url: 'TikTok',
  seller_address: 'Address',
  seller_registration: 'Business registration',
  kra_pin: 'KRA PIN',
  delivery_fee: 'Delivery fee',
  opening_hours: 'Opening hours',
  days_off: 'Days off',
  queue_minutes: 'Minutes of the queue',
  announces_delays: 'Messages about delays',
  reservation_minutes: 'Reservation',
  payment_limit: 'M-PESA limit',
  unpaid_orders_per_phone: 'Unpaid orders',
  reserved_share_percent: 'Held before payment',
  requires_terms_tick: 'Box for age and terms',
  till_number: 'Till number',
  paybill_number: 'Paybill number',
  takes_cash: 'Take cash',
  offers_cash: 'Offer cash',
  asks_delivery_code: 'Code at the door',
  refund_approval_above: 'Refund limit',
  payment_messages_months: 'Keep M-PESA messages',
  texts_per_day: 'SMS per day',
  mails_per_day: 'Mails per day',
  order_details_months: 'Keep details of orders',
  inquiries_months: 'Keep inquiries',
  offers_stock_alerts: 'Texts about stock',
} as const;
export type SettingsField = keyof typeof settingsLabels;
export const settingsFields = keysOf(settingsLabels);

const amounts = ['delivery_fee', 'refund_approval_above', 'payment_limit'] as const;
const phones = ['support_phone', 'chat_phone'] as const;
const links = ['instagram_url', 'facebook_url', 'tiktok_url'] as const;
/** Longest text of a line about the seller. */
const sellerLines = { seller_address: 200, seller_registration: 80 } as const;
/** Empty when customers cannot pay that way. */
const merchantNumbers = ['till_number', 'paybill_number'] as const;
/** The range of each whole number, both ends included. */
const wholeNumbers = {
  queue_minutes: { least: 0, most: 60, words: 'whole minutes from 0 to 60' },
  reservation_minutes: { least: 1, most: 1440, words: 'whole minutes from 1 to 1440 (a day)' },
  unpaid_orders_per_phone: { least: 1, most: 100, words: 'a whole number from 1 to 100' },
  reserved_share_percent: { least: 1, most: 100, words: 'a whole percentage from 1 to 100' },
  payment_messages_months: { least: 12, most: 240, words: 'whole months from 12 to 240 (20 years)' },
  texts_per_day: { least: 0, most: 100_000, words: 'a whole number from 0 to 100000' },
  mails_per_day: { least: 0, most: 100_000, words: 'a whole number from 0 to 100000' },
  order_details_months: { least: 1, most: 240, words: 'whole months from 1 to 240 (20 years)' },
  inquiries_months: { least: 1, most: 240, words: 'whole months from 1 to 240 (20 years)' },
} as const;
/** Either `yes` or `no` in the form. */
const flags = [
  'requires_terms_tick',
  'takes_cash',
  'offers_cash',
  'asks_delivery_code',
  'announces_delays',
  'offers_stock_alerts',
] as const;
/** The flag without which another one is off. */
export const neededFlags: Partial<Record<SettingsField, Flag>> = { offers_cash: 'takes_cash' };
export const isFlag = (field: SettingsField): field is Flag => flags.some((flag) => flag === field);
type Amount = (typeof amounts)[number];
type Flag = (typeof flags)[number];
type WholeNumber = keyof typeof wholeNumbers;

interface ListField {
  toText(column: unknown): string;
  toColumn(text: string): OpenSpan[] | DayOff[];
  check(text: string): string | null;
  describe(text: string): string;
}
/** Lists, which the form holds as JSON. */
const lists = {
  opening_hours: { toText: hoursText, toColumn: hoursColumn, check: checkHours, describe: describeHours },
  days_off: { toText: daysOffText, toColumn: daysOffColumn, check: checkDaysOff, describe: describeDaysOff },
} as const satisfies Partial<Record<SettingsField, ListField>>;
type List = keyof typeof lists;
const isList = (field: string): field is List => Object.hasOwn(lists, field);

/** The settings in the form, as typed. Amounts are in shillings. */
export type SettingsForm = Record<SettingsField, string>;

/** The columns that the form holds. Amounts are in cents. */
export type SettingsValues = {
  [Field in SettingsField]: Field extends Amount | WholeNumber
    ? number
    : Field extends Flag
      ? boolean
      : Field extends List
        ? Json
        : string;
};

export type SettingsProblems = Partial<Record<SettingsField, string>>;

const limits = { nameLength: 80, linkLength: 300, amount: 100_000_000 } as const;

/**
 * Returns the problems of the form by field.
 * @returns an empty object when it may be saved
 */
export function checkSettingsForm(form: SettingsForm): SettingsProblems {
  const problems: SettingsProblems = {};
  const name = form.store_name.trim();
  if (visibleLength(name.slice(0, 1000)) === 0) problems.store_name = 'Store name is required';
  else if ([...name].length > limits.nameLength) {
    problems.store_name = `Store name is longer than ${limits.nameLength} characters`;
  }
  for (const field of phones) {
    if (!form[field].trim()) problems[field] = `${settingsLabels[field]} is required`;
    else if (normaliseAnyPhone(form[field]) === null) {
      problems[field] = 'Please enter a phone number, such as 0712 345 678 or +254 712 345 678';
    }
  }
  const email = form.support_email.trim();
  if (!email) problems.support_email = 'Support email is required';
  else if (!isEmail(email)) {
    problems.support_email = 'Please enter a valid email address';
  }
  for (const field of links) {
    const link = form[field].trim();
    if (link.length > limits.linkLength) {
      problems[field] = `The address is longer than ${limits.linkLength} characters`;
    } else if (link && !isLink(link)) {
      problems[field] = 'Please enter a whole address that begins with https://';
    }
  }
  const fee = readAmount(form.delivery_fee);
  if (!form.delivery_fee.trim()) problems.delivery_fee = 'Delivery fee is required; 0 means free';
  else if (fee === null)
    problems.delivery_fee = 'Delivery fee must be an amount of at least 0 with at most two decimals';
  else if (fee > limits.amount) problems.delivery_fee = 'Delivery fee is more than KES 1,000,000';
  const limit = readAmount(form.refund_approval_above);
  if (limit === null || limit > limits.amount) {
    problems.refund_approval_above = 'Please enter an amount from 0 to 1,000,000 shillings';
  }
  const paymentLimit = readAmount(form.payment_limit);
  if (paymentLimit === null || paymentLimit < 100 || paymentLimit > limits.amount) {
    problems.payment_limit = 'Please enter an amount from 1 to 1,000,000 shillings';
  }
  for (const [field, { least, most, words }] of entriesOf(wholeNumbers)) {
    const number = readWhole(form[field]);
    if (number === null || number < least || number > most) problems[field] = `Please enter ${words}`;
  }
  for (const field of keysOf(lists)) {
    const problem = lists[field].check(form[field]);
    if (problem !== null) problems[field] = problem;
  }
  for (const [field, longest] of entriesOf(sellerLines)) {
    const line = form[field].trim();
    if ([...line].length > longest) problems[field] = `Please use at most ${longest} characters`;
    else if (/\p{Cc}/u.test(line)) problems[field] = 'Please write it in one line';
  }
  if (!/^([AP]\d{9}[A-Z])?$/.test(readPin(form.kra_pin))) {
    problems.kra_pin = 'Please enter the PIN, such as P051234567X, or leave it empty';
  }
  for (const field of merchantNumbers) {
    if (!/^(\d{4,10})?$/.test(readDigits(form[field]))) {
      problems[field] = 'Please enter the number in digits, such as 5123456, or leave it empty';
    }
  }
  return problems;
}

/**
 * A form as the columns it fills: trimmed, phones in international form, amounts in cents.
 * @throws RangeError when the form has a problem
 */
export function settingsValues(form: SettingsForm): SettingsValues {
  const read = <Value>(value: Value | null): Value => {
    if (value === null) throw new RangeError('The form was not checked');
    return value;
  };
  const trimmed = mapFields(settingsFields, (field) => form[field].trim());
  return {
    ...trimmed,
    ...mapFields(phones, (field) => read(normaliseAnyPhone(form[field]))),
    ...mapFields(merchantNumbers, (field) => readDigits(form[field])),
    kra_pin: readPin(form.kra_pin),
    ...mapFields(amounts, (field) => read(readAmount(form[field]))),
    ...mapFields(flags, (field) => form[field] === 'yes'),
    ...mapFields(keysOf(wholeNumbers), (field) => read(readWhole(form[field]))),
    ...mapFields(keysOf(lists), (field) => lists[field].toColumn(form[field]) as unknown as Json),
  };
}

/** Converts the columns to form fields. */
export function settingsFormOf(values: SettingsValues): SettingsForm {
  return {
    ...mapFields(settingsFields, (field) => String(values[field])),
    ...mapFields(amounts, (field) => inShillings(values[field])),
    ...mapFields(flags, (field) => (values[field] ? 'yes' : 'no')),
    ...mapFields(keysOf(lists), (field) => lists[field].toText(values[field])),
  };
}

/** A field's text for members who compare two versions. */
export const describeField = (field: SettingsField, text: string): string =>
  isList(field) ? lists[field].describe(text) : text;

/** A value that is no text, as the audit shows it. */
export const describeColumn = (column: string, value: unknown): string =>
  isList(column) ? lists[column].describe(lists[column].toText(value)) : JSON.stringify(value);

const mapFields = <Field extends string, Value>(fields: readonly Field[], read: (field: Field) => Value) =>
  Object.fromEntries(fields.map((field) => [field, read(field)])) as Record<Field, Value>;

const entriesOf = <Field extends string, Value>(record: Record<Field, Value>) =>
  Object.entries(record) as [Field, Value][];

const inShillings = (cents: number): string =>
  cents % 100 === 0 ? String(cents / 100) : (cents / 100).toFixed(2);

/** The fields in which two forms differ, in the order they are shown. Spaces at the ends are no difference. */
export function changedSettings(before: SettingsForm, after: SettingsForm): SettingsField[] {
  return settingsFields.filter((field) => before[field].trim() !== after[field].trim());
}

/**
 * Merges concurrent edits of the settings: this staff member's changed fields, and the other's version of all others.
 * @param before as both of them saw it
 */
export function mergedSettings(before: SettingsForm, mine: SettingsForm, theirs: SettingsForm): SettingsForm {
  const merged = { ...theirs };
  for (const field of changedSettings(before, mine)) merged[field] = mine[field];
  return withNeededFlags(merged);
}

/** The form without flags whose needed flag is off: the database refuses them. */
export function withNeededFlags(form: SettingsForm): SettingsForm {
  const orphans = settingsFields.filter((field) => {
    const needed = neededFlags[field];
    return needed && form[needed] !== 'yes';
  });
  return { ...form, ...Object.fromEntries(orphans.map((field) => [field, 'no'])) };
}

function isLink(text: string): boolean {
  if (!text.startsWith('https://') || /\s/.test(text) || !URL.canParse(text)) return false;
  return /[^.]\.[^.]/.test(new URL(text).hostname);
}

function readAmount(text: string): number | null {
  const [, whole, decimals = ''] = /^(\d{1,12})(?:\.(\d{0,2}))?$/.exec(text.trim()) ?? [];
  return whole === undefined ? null : Number(whole) * 100 + Number(decimals.padEnd(2, '0'));
}

const readPin = (text: string): string => text.replace(/\s/g, '').toUpperCase();

const readDigits = (text: string): string => text.replace(/\s/g, '');

function readWhole(text: string): number | null {
  return /^\d{1,6}$/.test(text.trim()) ? Number(text) : null;
}
