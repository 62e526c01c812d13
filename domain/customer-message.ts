// Messages to customers: their placeholders, and how a template becomes the text of one order or newsletter e-mail.
import { chargeCents, formatKsh } from './money.ts';
import { newsletterLink } from './newsletter-link.ts';
import { orderLink, shortOrderLink } from './order-link.ts';
import { formatPhone } from './phone.ts';
import { plainText } from './text-message.ts';

export type MessageChannel = 'mail' | 'text';

/** The kinds of message in the order of an order's life, with their names for staff. */
export const messageKinds: Record<string, string> = {
  order_received: 'Order received',
  order_paid: 'Payment received',
  order_payment_held: 'Payment received, order on hold',
  order_on_its_way: 'On its way',
  order_delivered: 'Delivered',
  order_refunded: 'Money sent back',
  order_cancelled: 'Cancelled',
  order_expired: 'Not paid in time',
  newsletter_confirmation: 'Newsletter confirmation',
};

/** An order as `lease_messages` returns it. Money in cents. */
export interface MessageFacts {
  shop: { name: string; phone: string; email: string };
  tracking_number: string;
  access_key: string | null;
  customer_name: string;
  delivery_fee: number;
  total_amount: number;
  items: { name: string; quantity: number; unit_price: number }[];
  payment: { charge_cents: number; receipt: string | null; refund_receipt: string | null } | null;
}

/** Values for a newsletter mail. */
export interface NewsletterFacts {
  shop: MessageFacts['shop'];
  /** Null where the link must not work: in stored copies and examples. */
  tokens: { confirm: string; unsubscribe: string } | null;
}

export interface MessageTemplate {
  /** Null for texts. */
  subject: string | null;
  body: string;
}

const shopPlaceholders = {
  shop: 'the name of the shop',
  shop_phone: 'the phone of the shop',
  shop_email: 'the mail address of the shop',
} as const;
/** The placeholders of order messages with their meanings; `private.check_message_template` lists the same ones. */
export const placeholders = {
  ...shopPlaceholders,
  name: 'the name of the customer',
  order: 'the number that customers know, as {tracking}',
  tracking: 'the tracking number',
  items: 'what was ordered, in lines',
  delivery_fee: 'the delivery fee',
  total: 'the total',
  paid: 'what was paid',
  receipt: 'the M-PESA receipt, where there is one',
  due_back: 'what will be sent back, where money came',
  refunded: 'what was sent back',
  refund_receipt: 'the M-PESA receipt of the refund, where there is one',
  link: 'the link to the order',
  receipt_link: 'the link to the receipt',
} as const;
const newsletterPlaceholders = {
  ...shopPlaceholders,
  confirm_link: 'the link that confirms the address',
  unsubscribe_link: 'the link that removes the address',
} as const;
export type Placeholder = keyof typeof placeholders | keyof typeof newsletterPlaceholders;

/** Whether a message kind belongs to the newsletter instead of an order. */
export const isNewsletter = (kind: string): boolean => kind === 'newsletter_confirmation';

/** The placeholders of a kind of message, with their meanings. */
export const placeholdersOf = (kind: string): Readonly<Partial<Record<Placeholder, string>>> =>
  isNewsletter(kind) ? newsletterPlaceholders : placeholders;

/** An example order for the preview of templates. */
export const exampleFacts: MessageFacts = {
  shop: { name: 'Jani Juice', phone: '+254700000000', email: 'hello@jani.example' },
  tracking_number: 'JJ-20261121-1234',
  access_key: '0123456789abcdef0123456789abcdef',
  customer_name: 'Amina Kamau',
  delivery_fee: 100,
  total_amount: 190_100,
  items: [{ name: 'Mango Khat Juice', quantity: 2, unit_price: 95_000 }],
  payment: { charge_cents: 190_100, receipt: 'UKL3AB12CD', refund_receipt: 'UKM4EF56GH' },
};

/**
 * Writes a message.
 * @param publicUrl the shop's public URL
 * @returns the message, with a subject for emails, null for texts; texts use the GSM alphabet where possible
 */
export function writeMessage(
  template: MessageTemplate,
  channel: MessageChannel,
  facts: MessageFacts | NewsletterFacts,
  publicUrl: string,
): MessageTemplate {
  const values =
    'tokens' in facts ? newsletterValues(facts, publicUrl) : orderValues(facts, channel, publicUrl);
  if (channel === 'text') return { subject: null, body: plainText(filled(template.body, values).trim()) };
  return {
    subject: filled(template.subject ?? '', values)
      .replace(/\s+/g, ' ')
      .trim(),
    body: filled(template.body, values).trim(),
  };
}

const shopValues = ({ name, phone, email }: MessageFacts['shop']) => ({
  shop: name,
  shop_phone: formatPhone(phone),
  shop_email: email,
});

function newsletterValues(
  { shop, tokens }: NewsletterFacts,
  publicUrl: string,
): Record<keyof typeof newsletterPlaceholders, string> {
  return {
    ...shopValues(shop),
    confirm_link: newsletterLink(publicUrl, 'confirm', tokens?.confirm ?? null),
    unsubscribe_link: newsletterLink(publicUrl, 'unsubscribe', tokens?.unsubscribe ?? null),
  };
}

function orderValues(
  facts: MessageFacts,
  channel: MessageChannel,
  publicUrl: string,
): Record<keyof typeof placeholders, string> {
  const { shop, payment, tracking_number, access_key, items } = facts;
  const linkTo = channel === 'text' ? shortOrderLink : orderLink;
  // Before a payment: the amount that will be charged.
  const money = formatKsh(payment?.charge_cents ?? chargeCents(facts.total_amount));
  const lines = items.map(({ name, quantity, unit_price }) =>
    channel === 'text'
      ? `${quantity} x ${name}`
      : `${quantity} × ${name}: ${formatKsh(quantity * unit_price)}`,
  );
  return {
    ...shopValues(shop),
    name: harmless(facts.customer_name),
    // Staff's ORD number is none of the customer's: tracking takes the other one.
    order: tracking_number,
    tracking: tracking_number,
    items: lines.join(channel === 'text' ? ', ' : '\n'),
    delivery_fee: facts.delivery_fee === 0 ? 'free' : formatKsh(facts.delivery_fee),
    // After a payment: the charge, as in M-PESA's message.
    total: formatKsh(payment ? chargeCents(facts.total_amount) : facts.total_amount),
    paid: money,
    receipt: payment?.receipt ?? '',
    due_back: payment ? money : '',
    refunded: money,
    refund_receipt: payment?.refund_receipt ?? '',
    link: linkTo(publicUrl, tracking_number, access_key),
    receipt_link: linkTo(publicUrl, tracking_number, access_key, 'receipt'),
  };
}

/** Customer input as a single line in which email programs and phones detect no links. */
const harmless = (written: string): string =>
  written
    .replace(/[\p{Cc}\p{Zl}\p{Zp}]+/gu, ' ')
    .replace(/https?:\/\/|\bwww\./gi, '')
    .replace(/:\/\//g, ' ')
    .replace(/\.(?=\S)/g, '. ')
    .replace(/\s+/g, ' ')
    .trim();

/** Text in `[ ]` is omitted if one of its placeholders is empty. Inserted values are not parsed as templates. */
function filled(text: string, values: Record<string, string>): string {
  const fill = (part: string) => part.replace(/\{([a-z_]+)\}/g, (_, name: string) => values[name] ?? '');
  return text
    .split(/(\[[^[\]]*\])/)
    .map((part) => {
      if (!/^\[.*\]$/s.test(part)) return fill(part);
      const named = [...part.matchAll(/\{([a-z_]+)\}/g)].map(([, name = '']) => name);
      return named.some((name) => !values[name]) ? '' : fill(part.slice(1, -1));
    })
    .join('');
}

const longest: Record<MessageChannel, number> = { mail: 5000, text: 480 };

/**
 * Returns the problems of a template; the database rejects the same (docs/error-codes.md).
 * @returns a sentence for each invalid field
 */
export function checkTemplate(
  { subject, body }: MessageTemplate,
  channel: MessageChannel,
  kind: string,
): { subject?: string; body?: string } {
  const allowed = placeholdersOf(kind);
  const subjectProblem =
    channel === 'text' ? undefined : (problemOf(subject ?? '', 150, allowed) ?? lineProblem(subject ?? ''));
  const bodyProblem =
    problemOf(body, longest[channel], allowed) ?? (isNewsletter(kind) ? missingLink(body) : undefined);
  return {
    ...(subjectProblem ? { subject: subjectProblem } : {}),
    ...(bodyProblem ? { body: bodyProblem } : {}),
  };
}

const lineProblem = (subject: string) => (/[\n\r]/.test(subject) ? 'A subject is one line' : undefined);

/** Newsletter emails need both links, to confirm and to end the subscription. */
function missingLink(body: string): string | undefined {
  const missing = ['{confirm_link}', '{unsubscribe_link}'].find((link) => !body.includes(link));
  return missing && `This message needs ${missing}`;
}

function problemOf(text: string, most: number, known: object): string | undefined {
  if (text.trim() === '') return 'A message needs words';
  if ([...text].length > most) return `At most ${most.toLocaleString('en-KE')} characters`;
  const unknown = [...text.matchAll(/\{([^{}]*)\}/g)].find(([, name = '']) => !Object.hasOwn(known, name));
  if (unknown) return `There is no placeholder ${unknown[0]}`;
  const rest = text.replace(/\{[a-z_]+\}/g, '').replace(/\[[^[\]]*\]/g, '');
  return /[[\]{}]/.test(rest) ? 'A bracket is not closed, or stands within another' : undefined;
}
