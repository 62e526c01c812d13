// Messages to customers and staff: their placeholders, and how a template becomes the text of one message.
import type { DeliveryFailureReason, OutboxMessageChannel, OutboxMessageKind } from '../../supabase/types.ts';
import { formatCount } from '../count.ts';
import { deliveryFailures } from '../deliveries/delivery-failure.ts';
import { formatArrival } from '../deliveries/delivery-promise.ts';
import { chargeCents, formatKsh, shownAmount } from '../money.ts';
import { adviseOnResult } from '../mpesa/result-advice.ts';
import { orderLink, shortOrderLink } from '../orders/order-link.ts';
import { formatPhone } from '../people/phone.ts';
import { newsletterLink } from './newsletter-link.ts';
import { plainText } from './text-message.ts';

type Reader = 'customer' | 'subscriber' | 'waiting' | 'staff' | 'rider';

/** The kinds of message in the order of an order's life: their labels for staff, and who reads them. */
export const messageKinds: Record<OutboxMessageKind, { label: string; reader: Reader }> = {
  order_received: { label: 'Order received', reader: 'customer' },
  order_paid: { label: 'Payment received', reader: 'customer' },
  order_payment_held: { label: 'Payment received, order on hold', reader: 'customer' },
  order_payment_corrected: { label: 'Payment taken back', reader: 'customer' },
  order_on_its_way: { label: 'On its way', reader: 'customer' },
  order_delayed: { label: 'Late, with a new time', reader: 'customer' },
  delivery_failed: { label: 'Delivery failed', reader: 'customer' },
  order_delivered: { label: 'Delivered', reader: 'customer' },
  order_refunded: { label: 'Money sent back', reader: 'customer' },
  order_cancelled: { label: 'Cancelled', reader: 'customer' },
  order_expired: { label: 'Not paid in time', reader: 'customer' },
  job_for_rider: { label: 'To a rider: job', reader: 'rider' },
  back_in_stock: { label: 'Back in stock', reader: 'waiting' },
  newsletter_confirmation: { label: 'Newsletter confirmation', reader: 'subscriber' },
  inquiry_reply: { label: 'Reply to an inquiry', reader: 'customer' },
  prompts_paused: { label: 'To staff: no M-PESA prompts', reader: 'staff' },
  prompts_resumed: { label: 'To staff: prompts work again', reader: 'staff' },
  refund_to_approve: { label: 'To staff: refund to approve', reader: 'staff' },
  second_factor_removed: { label: 'To owners: second factor removed', reader: 'staff' },
  test_message: { label: 'Test', reader: 'staff' },
};

/** An order as `lease_messages` returns it. Money in cents. */
export interface MessageFacts {
  shop: { name: string; phone: string; email: string };
  tracking_number: string;
  access_key: string | null;
  customer_name: string;
  delivery_fee: number;
  /** What its code takes off. Missing in answers of earlier versions of the database. */
  discount_cents?: number;
  total_amount: number;
  items: { name: string; quantity: number; unit_price: number }[];
  payment: {
    charge_cents: number;
    receipt: string | null;
    refund_receipt: string | null;
    /** The order was paid from credit: nothing is sent back. Versions before credit do not say it. */
    is_credit?: boolean | null;
  } | null;
  /** To be paid in cash at the door. Earlier versions of the database do not say. */
  pays_cash?: boolean;
  /** What the customer says to the rider; null where it is not asked for. Earlier versions of the database do not say. */
  code?: string | null;
  /** Of a text to a rider. */
  job?: {
    order_number: string;
    phone: string;
    address: string;
    notes: string;
    /** To be collected at the door; null for a paid order. */
    cash_cents: number | null;
  };
  /** Why the delivery failed; null where it has not, or nobody said why. */
  failure: DeliveryFailureReason | null;
  /** When it arrives, as promised. Missing in answers of earlier versions of the database. */
  arrival?: string | null;
}

/** Values for a newsletter mail. */
export interface NewsletterFacts {
  shop: MessageFacts['shop'];
  /** Null where the link must not work: in stored copies and examples. */
  tokens: { confirm: string; unsubscribe: string } | null;
}

/** Values for a text about a drink that is in stock again. */
export interface StockFacts {
  shop: MessageFacts['shop'];
  /** Null where it was deleted. */
  product: { name: string; slug: string } | null;
}

/** Values for a message to staff: an incident of M-PESA's prompts, a refund, or a second factor that was removed. */
type StaffFacts = { shop: MessageFacts['shop'] } & (
  | {
      incident: {
        code: string;
        description: string | null;
        is_refused: boolean;
        /** ISO. */
        began_at: string;
        has_till: boolean;
      };
    }
  | {
      refund: {
        refund_cents: number;
        requested_by: string | null;
        reason: string;
        receipt: string | null;
        order_number: string | null;
      };
    }
  | {
      removal: {
        /** Names; email addresses of members without one. */
        member: string | null;
        removed_by: string | null;
        /** How many recovery codes are left; null where an owner reset the second factor. */
        codes_left: number | null;
        /** ISO. */
        happened_at: string;
      };
    }
);

/** The values of a message of any kind. */
export type AnyFacts = MessageFacts | NewsletterFacts | StockFacts | StaffFacts;

export interface MessageTemplate {
  /** Null for texts. */
  subject: string | null;
  body: string;
}

export const shopPlaceholders = {
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
  discount: 'what the discount code takes off, where there is one',
  total: 'the total',
  paid: 'what was paid',
  receipt: 'the M-PESA receipt, where there is one',
  due_back: 'what will be sent back, where money came',
  refunded: 'what was sent back',
  refund_receipt: 'the M-PESA receipt of the refund, where there is one',
  failure: 'why the delivery failed, where it was said',
  cash: 'the words “cash at the door”, where that is agreed and open',
  arrival: 'when it arrives, once it is paid',
  code: 'the code that the rider asks for, where it is needed',
  link: 'the link to the order',
  receipt_link: 'the link to the receipt',
} as const;
const jobPlaceholders = {
  ...shopPlaceholders,
  order: 'the number of the order, as on its slip',
  name: 'the name of the customer',
  customer_phone: 'the phone of the customer',
  address: 'the address',
  arrival: 'the promised time, if there is one',
  notes: 'the notes of the customer and for the delivery, where there are any',
  items: 'what was ordered',
  pay: 'PAID, or the cash to collect',
} as const;
const newsletterPlaceholders = {
  ...shopPlaceholders,
  confirm_link: 'the link that confirms the address',
  unsubscribe_link: 'the link that removes the address',
} as const;
const stockPlaceholders = {
  ...shopPlaceholders,
  product: 'the name of the drink',
  product_link: 'the link to the drink',
} as const;
const incidentPlaceholders = {
  ...shopPlaceholders,
  cause: 'why M-PESA refuses the prompts',
  advice: 'what to do, with the setting to check',
  code: "M-PESA's code and words",
  began: 'since when prompts do not work',
  till: 'how customers can pay in the meantime',
  staff_link: 'the link to the M-PESA check',
} as const;
const refundPlaceholders = {
  ...shopPlaceholders,
  refund: 'the amount to send back',
  order: 'the order number, where there is an order',
  receipt: 'the M-PESA receipt of the money, where there is no order',
  requested_by: 'who asks for the refund',
  reason: 'the reason',
  staff_link: 'the link to the orders',
} as const;
const removalPlaceholders = {
  ...shopPlaceholders,
  member: 'whose second factor it was',
  cause: 'who reset it, or that a recovery code was used',
  time: 'when it was removed',
  staff_link: 'the link to the team',
} as const;
const placeholdersForStaff: Partial<Record<OutboxMessageKind, object>> = {
  refund_to_approve: refundPlaceholders,
  second_factor_removed: removalPlaceholders,
};
export type Placeholder =
  | keyof typeof placeholders
  | keyof typeof newsletterPlaceholders
  | keyof typeof jobPlaceholders
  | keyof typeof stockPlaceholders
  | keyof typeof incidentPlaceholders
  | keyof typeof refundPlaceholders
  | keyof typeof removalPlaceholders;

/** Who reads a kind of message. Default for a kind that a later version added: the customer. */
export const readerOf = (kind: OutboxMessageKind): Reader => messageKinds[kind]?.reader ?? 'customer';

/** The placeholders of a kind of message, with their meanings. */
export function placeholdersOf(kind: OutboxMessageKind): Readonly<Partial<Record<Placeholder, string>>> {
  switch (readerOf(kind)) {
    case 'customer':
      return placeholders;
    case 'subscriber':
      return newsletterPlaceholders;
    case 'waiting':
      return stockPlaceholders;
    case 'rider':
      return jobPlaceholders;
    case 'staff':
      return placeholdersForStaff[kind] ?? incidentPlaceholders;
  }
}

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
  failure: 'nobody_there',
  code: '4821',
};

/**
 * Example values for the preview of a template.
 * @param shop of the shop
 */
export function exampleOf(kind: OutboxMessageKind, shop: MessageFacts['shop']): AnyFacts {
  if (readerOf(kind) === 'waiting')
    return { shop, product: { name: 'Mango Khat Juice', slug: 'mango-bottle' } };
  if (readerOf(kind) === 'subscriber') return { shop, tokens: null };
  if (kind === 'refund_to_approve') {
    const refund = { refund_cents: 190_100, requested_by: 'Njeri', receipt: null };
    return { shop, refund: { ...refund, order_number: 'ORD-1042', reason: 'Delivered to the wrong house' } };
  }
  if (kind === 'second_factor_removed') {
    const happened_at = '2026-11-21T09:00:00Z';
    return { shop, removal: { member: 'Brian', removed_by: 'Njeri', codes_left: null, happened_at } };
  }
  if (readerOf(kind) === 'staff') {
    const began_at = '2026-11-21T09:00:00Z';
    const description = 'Invalid Access Token';
    return {
      shop,
      incident: { code: '404.001.03', description, is_refused: true, began_at, has_till: true },
    };
  }
  const arrival = new Date(Date.now() + 45 * 60_000).toISOString();
  if (readerOf(kind) === 'rider') {
    const job = {
      order_number: 'ORD-1042',
      phone: '+254712345678',
      address: 'Westlands, Building: Delta',
      notes: '',
    };
    return { ...exampleFacts, shop, arrival, job: { ...job, cash_cents: 190_100 } };
  }
  return { ...exampleFacts, shop, arrival };
}

/**
 * Writes a message.
 * @param publicUrl the shop's public URL
 * @returns the message, with a subject for emails, null for texts; texts use the GSM alphabet where possible
 */
export function writeMessage(
  template: MessageTemplate,
  channel: OutboxMessageChannel,
  facts: AnyFacts,
  publicUrl: string,
): MessageTemplate {
  const values =
    'tokens' in facts
      ? newsletterValues(facts, publicUrl)
      : 'incident' in facts || 'refund' in facts || 'removal' in facts
        ? staffValues(facts, publicUrl)
        : 'product' in facts
          ? stockValues(facts, publicUrl)
          : facts.job
            ? jobValues(facts, facts.job)
            : orderValues(facts, channel, publicUrl);
  if (channel === 'text')
    return { subject: null, body: plainText(fillTemplate(template.body, values).trim()) };
  return {
    subject: fillTemplate(template.subject ?? '', values)
      .replace(/\s+/g, ' ')
      .trim(),
    body: fillTemplate(template.body, values).trim(),
  };
}

export const shopValues = ({ name, phone, email }: MessageFacts['shop']) => ({
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

function stockValues(
  { shop, product }: StockFacts,
  publicUrl: string,
): Record<keyof typeof stockPlaceholders, string> {
  const name = product?.name ?? '';
  return {
    ...shopValues(shop),
    // Of one text of 160 characters, the link and the sentences need the rest.
    product: name.length > longestProductName ? `${name.slice(0, longestProductName - 2).trim()}..` : name,
    product_link: product ? `${publicUrl.replace(/\/+$/, '')}/shop/${encodeURIComponent(product.slug)}` : '',
  };
}

const longestProductName = 30;

function staffValues(facts: StaffFacts, publicUrl: string): Record<string, string> {
  const { shop } = facts;
  const origin = publicUrl.replace(/\/+$/, '');
  if ('refund' in facts) {
    const { refund_cents, requested_by, reason, receipt, order_number } = facts.refund;
    return {
      ...shopValues(shop),
      refund: formatKsh(refund_cents),
      order: order_number ?? '',
      receipt: order_number ? '' : (receipt ?? ''),
      requested_by: requested_by ?? 'A former colleague',
      reason: harmless(reason),
      staff_link: `${origin}/admin/orders`,
    } satisfies Record<keyof typeof refundPlaceholders, string>;
  }
  if ('removal' in facts) {
    const { member, removed_by, codes_left, happened_at } = facts.removal;
    return {
      ...shopValues(shop),
      member: member ?? 'A former colleague',
      cause:
        codes_left === null
          ? `${removed_by ?? 'The shop'} reset it.`
          : `It was removed with a recovery code. Codes that are left: ${codes_left}.`,
      time: mailTime.format(new Date(happened_at)),
      staff_link: `${origin}/admin/settings/team`,
    } satisfies Record<keyof typeof removalPlaceholders, string>;
  }
  const { code, description, is_refused, began_at, has_till } = facts.incident;
  const { what, advice } = adviseOnResult(code, description, is_refused ? 'request' : 'result');
  return {
    ...shopValues(shop),
    cause: what,
    advice,
    code: `${/^[\w.]+$/.test(code) ? code : harmless(code)} ${harmless(description ?? '')}`.trim(),
    began: mailTime.format(new Date(began_at)),
    till: has_till
      ? 'In the meantime customers are shown how to pay to the till or paybill, and their money is matched as usual.'
      : 'Customers cannot pay in the meantime: set a till or paybill number under Settings, and they are shown how to pay to it.',
    staff_link: `${origin}/admin/settings/payments`,
  } satisfies Record<keyof typeof incidentPlaceholders, string>;
}

const mailTime = new Intl.DateTimeFormat('en-KE', {
  dateStyle: 'medium',
  timeStyle: 'short',
  timeZone: 'Africa/Nairobi',
});

function jobValues(
  { shop, customer_name, items, arrival }: MessageFacts,
  job: NonNullable<MessageFacts['job']>,
): Record<keyof typeof jobPlaceholders, string> {
  return {
    ...shopValues(shop),
    order: job.order_number,
    name: harmless(customer_name),
    customer_phone: formatPhone(job.phone),
    address: harmless(job.address),
    arrival: arrivalText(arrival),
    notes: harmless(job.notes),
    items: items.map(({ name, quantity }) => `${quantity} x ${name}`).join(', '),
    pay: job.cash_cents === null ? 'PAID' : `Collect ${formatKsh(job.cash_cents)} in cash`,
  };
}

const arrivalText = (arrival: MessageFacts['arrival']): string =>
  arrival ? formatArrival(arrival, Date.now()) : '';

function orderValues(
  facts: MessageFacts,
  channel: OutboxMessageChannel,
  publicUrl: string,
): Record<keyof typeof placeholders, string> {
  const { shop, payment, failure, tracking_number, access_key, items } = facts;
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
    discount: facts.discount_cents ? `-${formatKsh(facts.discount_cents)}` : '',
    total: formatKsh(shownAmount(facts.total_amount, payment ? 'paid' : 'unpaid')),
    paid: money,
    receipt: payment?.receipt ?? '',
    due_back: payment && !payment.is_credit ? money : '',
    refunded: money,
    refund_receipt: payment?.refund_receipt ?? '',
    failure: failure ? (deliveryFailures[failure]?.words ?? '') : '',
    cash: facts.pays_cash ? 'cash at the door' : '',
    arrival: arrivalText(facts.arrival),
    code: facts.code ?? '',
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
export function fillTemplate(text: string, values: Record<string, string>): string {
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

const longest: Record<OutboxMessageChannel, number> = { mail: 5000, text: 480 };

/**
 * Returns the problems of a template; the database rejects the same (docs/error-codes.md).
 * @returns a sentence for each invalid field
 */
export function checkTemplate(
  { subject, body }: MessageTemplate,
  channel: OutboxMessageChannel,
  kind: OutboxMessageKind,
): { subject?: string; body?: string } {
  const allowed = placeholdersOf(kind);
  const subjectProblem =
    channel === 'text'
      ? undefined
      : (problemOfTemplate(subject ?? '', 150, allowed) ?? lineProblem(subject ?? ''));
  const bodyProblem =
    problemOfTemplate(body, longest[channel], allowed) ??
    (readerOf(kind) === 'subscriber' ? missingLink(body) : undefined);
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

/** The problem of a template with at most so many characters and only known placeholders. */
export function problemOfTemplate(text: string, most: number, known: object): string | undefined {
  if (text.trim() === '') return 'A message needs words';
  if ([...text].length > most) return `At most ${formatCount(most)} characters`;
  const unknown = [...text.matchAll(/\{([^{}]*)\}/g)].find(([, name = '']) => !Object.hasOwn(known, name));
  if (unknown) return `There is no placeholder ${unknown[0]}`;
  const rest = text.replace(/\{[a-z_]+\}/g, '').replace(/\[[^[\]]*\]/g, '');
  return /[[\]{}]/.test(rest) ? 'A bracket is not closed, or stands within another' : undefined;
}
