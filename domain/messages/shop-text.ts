// Texts of the contact page that staff edit: their places, their placeholders and their limits.
import type { ShopTextSlug } from '../../supabase/types.ts';
import { formatCount } from '../count.ts';
import { formatKsh } from '../money.ts';
import { formatPhone } from '../people/phone.ts';

/** The texts, in the order in which the contact page shows them. The slug is the anchor there. */
export const shopTextSlugs = ['faq', 'privacy', 'terms'] as const satisfies readonly ShopTextSlug[];

/** Settings that the texts quote. The fee is in cents. */
export interface ShopTextFacts {
  store_name: string;
  support_phone: string;
  support_email: string;
  delivery_fee: number;
  /** Whether `delivery_fee` is the lowest of several. */
  has_other_fees?: boolean;
  order_details_months: number;
  inquiries_months: number;
  payment_messages_months: number;
}

/** The placeholders with their meanings. */
export const shopTextPlaceholders = {
  shop: 'the name of the shop',
  phone: 'the support phone, as a link',
  email: 'the support email, as a link',
  delivery_fee: 'the delivery fee',
  order_details_kept: 'how long orders keep personal details',
  inquiries_kept: 'how long inquiries are kept',
  payment_messages_kept: "how long M-PESA's messages are kept",
} as const;
type ShopTextPlaceholder = keyof typeof shopTextPlaceholders;
const isPlaceholder = (name: string): name is ShopTextPlaceholder =>
  Object.hasOwn(shopTextPlaceholders, name);

/** Characters of a title, and of a body in Markdown. */
export const shopTextLimits = { title: 80, body: 20_000 } as const;

/**
 * Fills the placeholders of a text.
 * @param body Markdown; unknown placeholders stay as they are
 * @returns Markdown in which the values themselves are plain text or links
 */
export function fillShopText(body: string, facts: ShopTextFacts): string {
  const { support_phone, support_email, delivery_fee, has_other_fees } = facts;
  const values: Record<ShopTextPlaceholder, string> = {
    shop: plain(facts.store_name),
    phone: `[${plain(formatPhone(support_phone))}](tel:${plain(support_phone)})`,
    email: `[${plain(support_email)}](mailto:${plain(support_email)})`,
    delivery_fee:
      delivery_fee > 0
        ? `${has_other_fees ? 'from ' : ''}${formatKsh(delivery_fee)}`
        : `free${has_other_fees ? ' in some areas' : ''}`,
    order_details_kept: describeMonths(facts.order_details_months),
    inquiries_kept: describeMonths(facts.inquiries_months),
    payment_messages_kept: describeMonths(facts.payment_messages_months),
  };
  return body.replace(/\{([a-z_]+)\}/g, (written, name: string) =>
    isPlaceholder(name) ? values[name] : written,
  );
}

/** Escapes a value for Markdown, where any ASCII punctuation may be escaped. */
const plain = (value: string): string => value.replace(/[!-/:-@[-`{-~]/g, '\\$&');

/** Formats months, such as `18 months` or `2 years`. */
export function describeMonths(months: number): string {
  const [count, unit] = months % 12 === 0 ? [months / 12, 'year'] : [months, 'month'];
  return `${count} ${unit}${count === 1 ? '' : 's'}`;
}

/**
 * Returns the problems of a text.
 * @returns a sentence for each invalid field; an empty object when it may be saved
 */
export function checkShopText({ title, body }: { title: string; body: string }): {
  title?: string;
  body?: string;
} {
  const problems: { title?: string; body?: string } = {};
  if (title.trim() === '') problems.title = 'A text needs a title';
  else if ([...title].length > shopTextLimits.title) {
    problems.title = `At most ${shopTextLimits.title} characters`;
  }
  const unknown = [...body.matchAll(/\{([a-z_]+)\}/g)].find(([, name = '']) => !isPlaceholder(name));
  if (body.trim() === '') problems.body = 'A text needs words';
  else if ([...body].length > shopTextLimits.body) {
    problems.body = `At most ${formatCount(shopTextLimits.body)} characters`;
  } else if (unknown) problems.body = `There is no placeholder ${unknown[0]}`;
  return problems;
}
