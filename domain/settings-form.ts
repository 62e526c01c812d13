// The staff's form of the store's settings: what must hold, in the words it is told, and what becomes of it in the database.

/** The settings as they stand in the form: what was typed, not yet what it means. */
export interface SettingsForm {
  store_name: string;
  support_phone: string;
  chat_phone: string;
  support_email: string;
  instagram_url: string;
  facebook_url: string;
  tiktok_url: string;
  /** In shillings, such as `200` or `1.50`; 0 means free. */
  delivery_fee: string;
  reservation_minutes: string;
  unpaid_orders_per_phone: string;
  /** Digits; empty where customers cannot pay that way. */
  till_number: string;
  paybill_number: string;
  /** In shillings; a refund of more than this needs a second member. */
  refund_approval_above: string;
  payment_messages_months: string;
}
export type SettingsField = keyof SettingsForm;

/** The columns that the form holds. Fee in cents. */
export interface SettingsValues {
  store_name: string;
  support_phone: string;
  chat_phone: string;
  support_email: string;
  instagram_url: string;
  facebook_url: string;
  tiktok_url: string;
  delivery_fee: number;
  reservation_minutes: number;
  unpaid_orders_per_phone: number;
  till_number: string;
  paybill_number: string;
  /** In cents. */
  refund_approval_above: number;
  /** For how long M-PESA's messages are kept word for word. */
  payment_messages_months: number;
}

export type SettingsProblems = Partial<Record<SettingsField, string>>;

export const settingsFields: readonly SettingsField[] = [
  'store_name',
  'support_phone',
  'chat_phone',
  'support_email',
  'instagram_url',
  'facebook_url',
  'tiktok_url',
  'delivery_fee',
  'reservation_minutes',
  'unpaid_orders_per_phone',
  'till_number',
  'paybill_number',
  'refund_approval_above',
  'payment_messages_months',
];

/** What a field is called, in sentences as well as beside it. */
export const settingsLabels: Readonly<Record<SettingsField, string>> = {
  store_name: 'Store name',
  support_phone: 'Support phone',
  chat_phone: 'Chat phone',
  support_email: 'Support email',
  instagram_url: 'Instagram',
  facebook_url: 'Facebook',
  tiktok_url: 'TikTok',
  delivery_fee: 'Delivery fee',
  reservation_minutes: 'Reservation',
  unpaid_orders_per_phone: 'Unpaid orders',
  till_number: 'Till number',
  paybill_number: 'Paybill number',
  refund_approval_above: 'Refund limit',
  payment_messages_months: 'Keep M-PESA messages',
};

const limits = {
  nameLength: 80,
  emailLength: 254,
  linkLength: 300,
  fee: 100_000_000,
  minutes: 1440,
} as const;

/**
 * What is wrong with the form, per field.
 * @returns an empty object when it may be saved
 */
export function checkSettingsForm(form: SettingsForm): SettingsProblems {
  const problems: SettingsProblems = {};
  const name = form.store_name.trim();
  if (!name) problems.store_name = 'Store name is required';
  else if ([...name].length > limits.nameLength) {
    problems.store_name = `Store name is longer than ${limits.nameLength} characters`;
  }
  for (const field of ['support_phone', 'chat_phone'] as const) {
    if (!form[field].trim()) problems[field] = `${settingsLabels[field]} is required`;
    else if (readPhone(form[field]) === null) {
      problems[field] = 'Please enter a phone number, such as 0712 345 678 or +254 712 345 678';
    }
  }
  const email = form.support_email.trim();
  if (!email) problems.support_email = 'Support email is required';
  else if (!/^[^\s@]+@[^\s@]+\.[^\s@]+$/.test(email) || email.length > limits.emailLength) {
    problems.support_email = 'Please enter a valid email address';
  }
  for (const field of ['instagram_url', 'facebook_url', 'tiktok_url'] as const) {
    const link = form[field].trim();
    if (link && !isLink(link)) problems[field] = 'Please enter a whole address that begins with https://';
    else if (link.length > limits.linkLength) {
      problems[field] = `The address is longer than ${limits.linkLength} characters`;
    }
  }
  const fee = readFee(form.delivery_fee);
  if (!form.delivery_fee.trim()) problems.delivery_fee = 'Delivery fee is required; 0 means free';
  else if (fee === null)
    problems.delivery_fee = 'Delivery fee must be an amount of at least 0 with at most two decimals';
  else if (fee > limits.fee) problems.delivery_fee = 'Delivery fee is more than KES 1,000,000';
  const limit = readFee(form.refund_approval_above);
  if (limit === null || limit > limits.fee) {
    problems.refund_approval_above = 'Please enter an amount from 0 to 1,000,000 shillings';
  }
  const months = readWhole(form.payment_messages_months);
  if (months === null || months < 12 || months > 240) {
    problems.payment_messages_months = 'Please enter whole months from 12 to 240 (20 years)';
  }
  const minutes = readWhole(form.reservation_minutes);
  if (minutes === null || minutes < 1 || minutes > limits.minutes) {
    problems.reservation_minutes = 'Please enter whole minutes from 1 to 1440 (a day)';
  }
  const unpaid = readWhole(form.unpaid_orders_per_phone);
  if (unpaid === null || unpaid < 1 || unpaid > 100) {
    problems.unpaid_orders_per_phone = 'Please enter a whole number from 1 to 100';
  }
  for (const field of ['till_number', 'paybill_number'] as const) {
    if (!/^(\d{4,10})?$/.test(readDigits(form[field]))) {
      problems[field] = 'Please enter the number in digits, such as 5123456, or leave it empty';
    }
  }
  return problems;
}

/**
 * A form as the columns it fills: trimmed, phones in international form, the fee in cents.
 * @throws RangeError when the form has a problem
 */
export function settingsValues(form: SettingsForm): SettingsValues {
  const [support, chat] = [readPhone(form.support_phone), readPhone(form.chat_phone)];
  const [fee, minutes] = [readFee(form.delivery_fee), readWhole(form.reservation_minutes)];
  const limit = readFee(form.refund_approval_above);
  const months = readWhole(form.payment_messages_months);
  const unpaid = readWhole(form.unpaid_orders_per_phone);
  if (
    support === null ||
    chat === null ||
    fee === null ||
    minutes === null ||
    limit === null ||
    months === null ||
    unpaid === null
  ) {
    throw new RangeError('The form was not checked');
  }
  return {
    store_name: form.store_name.trim(),
    support_phone: support,
    chat_phone: chat,
    support_email: form.support_email.trim(),
    instagram_url: form.instagram_url.trim(),
    facebook_url: form.facebook_url.trim(),
    tiktok_url: form.tiktok_url.trim(),
    delivery_fee: fee,
    reservation_minutes: minutes,
    unpaid_orders_per_phone: unpaid,
    till_number: readDigits(form.till_number),
    paybill_number: readDigits(form.paybill_number),
    refund_approval_above: limit,
    payment_messages_months: months,
  };
}

/** The columns as they stand in the form. */
export function settingsFormOf(values: SettingsValues): SettingsForm {
  const {
    delivery_fee: fee,
    reservation_minutes: minutes,
    unpaid_orders_per_phone: unpaid,
    refund_approval_above: limit,
    payment_messages_months: months,
    ...texts
  } = values;
  return {
    ...pick(texts),
    delivery_fee: inShillings(fee),
    reservation_minutes: String(minutes),
    unpaid_orders_per_phone: String(unpaid),
    refund_approval_above: inShillings(limit),
    payment_messages_months: String(months),
  };
}

const inShillings = (cents: number): string =>
  cents % 100 === 0 ? String(cents / 100) : (cents / 100).toFixed(2);

function pick(
  texts: Omit<
    SettingsValues,
    | 'delivery_fee'
    | 'reservation_minutes'
    | 'unpaid_orders_per_phone'
    | 'refund_approval_above'
    | 'payment_messages_months'
  >,
) {
  const { store_name, support_phone, chat_phone, support_email, instagram_url, facebook_url, tiktok_url } =
    texts;
  const { till_number, paybill_number } = texts;
  return {
    store_name,
    support_phone,
    chat_phone,
    support_email,
    instagram_url,
    facebook_url,
    tiktok_url,
    till_number,
    paybill_number,
  };
}

/** The fields in which two forms differ, in the order they are shown. Spaces at the ends are no difference. */
export function changedSettings(before: SettingsForm, after: SettingsForm): SettingsField[] {
  return settingsFields.filter((field) => before[field].trim() !== after[field].trim());
}

/**
 * What is saved when two members have changed the settings: what this one changed, and the other's for all the rest.
 * @param before as both of them saw it
 */
export function mergedSettings(before: SettingsForm, mine: SettingsForm, theirs: SettingsForm): SettingsForm {
  const merged = { ...theirs };
  for (const field of changedSettings(before, mine)) merged[field] = mine[field];
  return merged;
}

/**
 * A telephone number in international form. One that begins with 0 is Kenyan, landlines included.
 * @returns `+` and 8 to 15 digits, or null when it is no number
 */
export function readPhone(text: string): string | null {
  const compact = text.trim().replace(/[\s().-]/g, '');
  const international = /^0[1-9]\d{7,8}$/.test(compact)
    ? `+254${compact.slice(1)}`
    : /^254\d{8,9}$/.test(compact)
      ? `+${compact}`
      : compact;
  return /^\+[1-9]\d{7,14}$/.test(international) ? international : null;
}

function isLink(text: string): boolean {
  return /^https:\/\/[^\s/]+\.[^\s]+$/.test(text) && URL.canParse(text);
}

function readFee(text: string): number | null {
  const [, whole, decimals = ''] = /^(\d{1,12})(?:\.(\d{0,2}))?$/.exec(text.trim()) ?? [];
  return whole === undefined ? null : Number(whole) * 100 + Number(decimals.padEnd(2, '0'));
}

const readDigits = (text: string): string => text.replace(/\s/g, '');

function readWhole(text: string): number | null {
  return /^\d{1,6}$/.test(text.trim()) ? Number(text) : null;
}
