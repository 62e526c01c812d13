// The words of the audit: what was changed, from what to what.
import { messageKinds } from '../../../domain/messages/customer-message.ts';
import { formatKes } from '../../../domain/money.ts';
import type { StaffRole } from '../../../domain/people/staff-rights.ts';
import { labelOfRole } from '../../../domain/people/staff-role-labels.ts';
import { productFacts } from '../../../domain/products/product-facts.ts';
import type { AuditEventKind, Database, Json, OutboxMessageKind } from '../../../supabase/types.ts';
import { homeSections } from '../products/product-values.ts';
import { describeDecision } from '../reconciliation/differences/difference-texts.ts';
import { describeColumn, type SettingsField, settingsLabels } from '../settings/settings-values.ts';
import { formatDateTime } from '../ui/time/dates.ts';
import { nameDay } from '../ui/time/nairobi-day.ts';

export type AuditRow = Database['public']['CompositeTypes']['audit_row'] & { id: string; created_at: string };

export const auditAreas = {
  team: 'Team',
  settings: 'Settings',
  texts: 'Texts and templates',
  products: 'Products',
  prices: 'Prices',
  discounts: 'Discount codes',
  refunds: 'Refunds',
  reconciliation: 'Reconciliation',
  days: 'Closed days',
  riders: 'Riders',
  pauses: 'Pauses of orders',
  customers: 'Blocked phones',
  personal_data: 'Personal data and backups',
} as const;

const eventKinds: Readonly<Record<AuditEventKind, string>> = {
  member_invited: 'Added to the team',
  member_changed: 'Member changed',
  member_removed: 'Removed from the team',
  second_factor_reset: 'Second factor reset',
  recovery_codes_made: 'Recovery codes made',
  recovery_code_used: 'Second factor removed with a recovery code',
  authenticator_removed: 'Own authenticator app removed',
  settings_changed: 'Settings changed',
  shop_text_changed: 'Text of the shop changed',
  message_template_changed: 'Message changed',
  reply_template_added: 'Reply template added',
  reply_template_changed: 'Reply template changed',
  reply_template_removed: 'Reply template deleted',
  discount_code_added: 'Discount code added',
  discount_code_changed: 'Discount code changed',
  discount_code_removed: 'Discount code deleted',
  phone_blocked: 'Phone blocked',
  phone_unblocked: 'Phone unblocked',
  product_added: 'Product added',
  product_changed: 'Product changed',
  product_removed: 'Product deleted',
  category_added: 'Category added',
  category_changed: 'Category changed',
  quote_shown: 'Words of a customer shown on the home page',
  quote_hidden: 'Words of a customer hidden from the home page',
  rider_added: 'Rider added',
  rider_changed: 'Rider changed',
  rider_link_made: 'Link of a rider made',
  rider_link_revoked: 'Link of a rider ended',
};
const kinds: Readonly<Record<string, string>> = {
  ...eventKinds,
  price_changed: 'Price changed',
  refund_requested: 'Refund requested',
  refund_noted: 'Refund noted',
  refund_approved: 'Refund approved',
  orders_paused: 'Orders paused',
  orders_resumed: 'Orders resumed',
  day_closed: 'Day closed',
  backup_downloaded: 'Backup downloaded',
  person_export: 'Personal data exported',
  person_erasure: 'Personal data erased',
};

export function describeKind({ area, kind }: Pick<AuditRow, 'area' | 'kind'>): string {
  if (area === 'reconciliation') return describeDecision(kind as Parameters<typeof describeDecision>[0]);
  return (kind && kinds[kind]) || (kind ?? '');
}

/** What was changed: a member, a code, a text. Members by their email address. */
export function describeSubject({ kind, subject }: Pick<AuditRow, 'kind' | 'subject'>): string {
  if (kind === 'day_closed' && subject) return nameDay(subject);
  if (kind !== 'message_template_changed') return subject ?? '';
  const [message = '', channel = ''] = (subject ?? '').split(', ');
  const label = messageKinds[message as OutboxMessageKind]?.label ?? message;
  return `${label}, ${channel === 'mail' ? 'email' : channel}`;
}

const inCents = new Set([
  'price',
  'refund',
  'payment_limit',
  'refund_approval_above',
  'amount_cents',
  'minimum_cents',
  'fee_cents',
  'previous_price',
  'difference',
]);

const labels: Readonly<Record<string, string>> = {
  role: 'Role',
  name: 'Name',
  is_active: 'Access',
  price: 'Price',
  fee_cents: 'Delivery fee',
  refund: 'Amount',
  reason: 'Reason',
  note: 'Note',
  alone: 'By the only owner',
  codes_left: 'Codes left',
  title: 'Title',
  subject: 'Subject',
  body: 'Text',
  is_on: 'Is sent',
  code: 'Code',
  percent: 'Percent off',
  amount_cents: 'Amount off',
  minimum_cents: 'From',
  starts_at: 'Starts',
  ends_at: 'Ends',
  max_uses: 'Orders in all',
  max_uses_per_phone: 'Orders per phone',
  slug: 'Slug',
  tagline: 'Tagline',
  description: 'Description',
  previous_price: 'Before offer',
  low_stock_below: 'Low stock below',
  category: 'Category',
  brand: 'Brand',
  home_section: 'Home page',
  home_position: 'Place in section',
  image_url: 'Image',
  more_images: 'More images',
  sold_out_until: 'Sold out until',
  ...Object.fromEntries(productFacts.map(({ column, label }) => [column, label])),
  phone: 'Phone',
  vehicle: 'Vehicle',
  plate: 'Plate',
  until: 'Until',
  difference: 'Difference in cash',
};

const labelOfField = (field: string, kind: string | null): string =>
  (field === 'is_active' && kind && !kind.startsWith('member_') ? 'Active' : labels[field]) ??
  settingsLabels[field as SettingsField] ??
  field.replaceAll('_', ' ');

function shown(field: string, value: Json | undefined): string {
  if (value === undefined || value === null || isEmpty(value)) return 'none';
  if (typeof value === 'boolean') return value ? 'yes' : 'no';
  if (field === 'role') return labelOfRole(value as StaffRole);
  if (typeof value === 'number') return inCents.has(field) ? formatKes(value) : String(value);
  if (field === 'more_images') return (value as string[]).map(fileNameOf).join(', ') || 'none';
  if (typeof value !== 'string') return describeColumn(field, value);
  if (field === 'image_url') return fileNameOf(value);
  if (field === 'home_section')
    return homeSections.find((section) => section.value === value)?.label ?? value;
  return isTime.has(field) ? formatDateTime(value) : value;
}

const fileNameOf = (url: string): string => url.slice(url.lastIndexOf('/') + 1);

const isTime = new Set(['starts_at', 'ends_at', 'sold_out_until', 'until']);
const maxShown = 80;
const shorten = (text: string): string =>
  text.length > maxShown ? `${text.slice(0, maxShown - 1).trimEnd()}…` : text;

/** Of two long texts the parts that differ, with the word before. */
function differingParts(from: string, to: string): [string, string] {
  if (Math.max(from.length, to.length) <= maxShown) return [from, to];
  const shorter = Math.min(from.length, to.length);
  let start = 0;
  while (start < shorter && from[start] === to[start]) start += 1;
  let end = 0;
  while (end < shorter - start && from.at(-1 - end) === to.at(-1 - end)) end += 1;
  // Whole words.
  start = from.lastIndexOf(' ', Math.max(start - 2, 0)) + 1;
  while (end > 0 && !/\s/.test(from.at(-end) ?? '')) end -= 1;
  const part = (text: string) =>
    shorten(`${start > 0 ? '…' : ''}${text.slice(start, text.length - end).trim()}${end > 0 ? '…' : ''}`);
  return [part(from), part(to)];
}

const entriesOf = (values: Json | null): Record<string, Json | undefined> =>
  values !== null && typeof values === 'object' && !Array.isArray(values) ? values : {};

const isEmpty = (value: Json | undefined): boolean => value === undefined || value === null || value === '';
const isBlank = (value: Json | undefined): boolean =>
  isEmpty(value) || (Array.isArray(value) && value.length === 0);

/** Each changed value, such as "Role: Staff to Counter". */
export function describeValues({
  kind,
  before,
  after,
}: Pick<AuditRow, 'before' | 'after'> & { kind?: AuditRow['kind'] }): string[] {
  const [from, to] = [entriesOf(before), entriesOf(after)];
  return (
    [...new Set([...Object.keys(from), ...Object.keys(to)])]
      .filter((field) => (before !== null && after !== null) || !isBlank(from[field] ?? to[field]))
      // What is added is in use, unless it says otherwise.
      .filter((field) => before !== null || field !== 'is_active' || to[field] === false)
      .map((field) => {
        const label = labelOfField(field, kind ?? null);
        const [was, is] = [shown(field, from[field]), shown(field, to[field])];
        if (before === null) return `${label}: ${shorten(is)}`;
        if (after === null) return `${label}: ${shorten(was)}`;
        return `${label}: ${differingParts(was, is).join(' to ')}`;
      })
  );
}
