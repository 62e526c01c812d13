// The sections of the settings: their cards with fields, the screens they lead to, and the search over all of them.
import { keysOf } from '../data/keys-of.ts';
import { type SettingsField, settingsLabels } from './settings-values.ts';

export type SectionId = 'shop' | 'delivery' | 'payments' | 'messages' | 'pages' | 'team' | 'data' | 'backups';

interface FieldInput {
  /** Default: its label in `settingsLabels`. */
  label?: string;
  hint?: string;
  isOptional?: boolean;
  type?: 'tel' | 'email' | 'url';
  inputMode?: 'decimal' | 'numeric';
  maxLength?: number;
  /** Other words for it, for the search. */
  alsoCalled?: string;
  /** Of a flag in `neededFlags`, while the other one is off. */
  hintWithoutNeeded?: string;
}

/** The fields as they are shown. */
export const fieldInputs: Record<SettingsField, FieldInput> = {
  store_name: { maxLength: 200, alsoCalled: 'shop brand' },
  support_phone: { type: 'tel', hint: 'Customers call this number', alsoCalled: 'contact telephone' },
  chat_phone: { type: 'tel', hint: 'The WhatsApp number behind the chat links' },
  support_email: { type: 'email', alsoCalled: 'contact mail' },
  instagram_url: { type: 'url', isOptional: true, hint: 'Empty: not shown', alsoCalled: 'social links' },
  facebook_url: { type: 'url', isOptional: true, hint: 'Empty: not shown', alsoCalled: 'social links' },
  tiktok_url: { type: 'url', isOptional: true, hint: 'Empty: not shown', alsoCalled: 'social links' },
  seller_address: {
    isOptional: true,
    maxLength: 200,
    hint: 'Street, building and town. On the contact page and receipts. Empty: not shown',
    alsoCalled: 'seller location office premises',
  },
  seller_registration: {
    isOptional: true,
    maxLength: 80,
    hint: 'Such as BN-ABC1234. Empty: not shown',
    alsoCalled: 'seller company number certificate',
  },
  kra_pin: {
    isOptional: true,
    maxLength: 20,
    hint: 'Also the number for VAT. Empty: not shown',
    alsoCalled: 'tax VAT seller',
  },
  delivery_fee: {
    label: 'Delivery fee (KES)',
    inputMode: 'decimal',
    hint: '0 means free. For orders placed from now on, in areas without a fee of their own',
    alsoCalled: 'price shipping',
  },
  opening_hours: {
    hint: 'Orders are taken at any time. Those that come while you are closed are promised for after the next opening',
    isOptional: true,
    alsoCalled: 'business closing times weekday schedule',
  },
  days_off: {
    hint: 'Nothing is delivered on these days, and what is ordered is promised for the next open day',
    isOptional: true,
    alsoCalled: 'holidays closed vacation',
  },
  queue_minutes: {
    label: 'Minutes for every ten orders in the queue',
    inputMode: 'numeric',
    hint: 'Added to the time that customers are promised, up to an hour. 0 adds none',
    alsoCalled: 'promise load busy',
  },
  announces_delays: {
    label: 'Customers of late orders get a message with a new time',
    hint: 'Once, by SMS and mail, as soon as the promised time has passed.',
    isOptional: true,
    alsoCalled: 'late delay notify',
  },
  reservation_minutes: {
    label: 'Reservation (minutes)',
    inputMode: 'numeric',
    hint: 'How long an unpaid order waits. One M-PESA prompt can extend this, to twice as long at most. It holds its drinks for five minutes longer at most',
    alsoCalled: 'stock hold cancel',
  },
  payment_limit: {
    label: 'M-PESA limit (KES)',
    inputMode: 'decimal',
    hint: 'The most that M-PESA takes in one payment. Larger orders are sent to your chat and phone',
  },
  unpaid_orders_per_phone: {
    label: 'Unpaid orders of one phone',
    inputMode: 'numeric',
    hint: 'How many of one customer may wait for payment at a time',
  },
  reserved_share_percent: {
    label: 'Held before payment (%)',
    inputMode: 'numeric',
    hint: 'Share of a product that unpaid orders can hold. Orders beyond it get their units with the M-PESA prompt',
    alsoCalled: 'stock',
  },
  requires_terms_tick: {
    label: 'Customers tick a box that they are 18 or older and accept our terms and privacy notice',
    hint: 'Without it, a line above Place Order says that ordering confirms both.',
    isOptional: true,
    alsoCalled: 'age checkbox',
  },
  till_number: {
    inputMode: 'numeric',
    isOptional: true,
    hint: 'Buy Goods. Empty: not offered',
    alsoCalled: 'M-PESA Lipa na',
  },
  paybill_number: {
    inputMode: 'numeric',
    isOptional: true,
    hint: 'Pay Bill, with the tracking number as account. Empty: not offered',
    alsoCalled: 'M-PESA Lipa na',
  },
  takes_cash: {
    label: 'Staff may agree on cash at the door, and note cash',
    hint: 'It counts as money received, and stays out of the reconciliation with M-PESA.',
    isOptional: true,
    alsoCalled: 'money notes coins',
  },
  offers_cash: {
    label: 'Customers may choose cash at the door themselves',
    hint: 'Shown below the M-PESA prompt. A phone that never paid can have one such order at a time.',
    isOptional: true,
    alsoCalled: 'money notes coins storefront',
    hintWithoutNeeded: 'Only where staff may agree on cash, too: tick that first.',
  },
  asks_delivery_code: {
    label: 'Riders ask for the code of the customer',
    hint: 'Four digits, on the page of the order and in the text that it is on its way. Asked from riders of your list.',
    isOptional: true,
    alsoCalled: 'proof of delivery pin',
  },
  refund_approval_above: {
    label: 'Refund limit (KES)',
    inputMode: 'decimal',
    hint: 'Up to this amount no approval is needed',
    alsoCalled: 'money back',
  },
  payment_messages_months: {
    label: "Keep M-PESA's messages (months)",
    inputMode: 'numeric',
    hint: 'In full, with the payer. Kenya requires records to be kept for five years after their year',
    alsoCalled: 'retention delete',
  },
  texts_per_day: {
    inputMode: 'numeric',
    hint: 'Each SMS costs money. 0 sends none',
    alsoCalled: 'text messages budget',
  },
  offers_stock_alerts: {
    label: 'Visitors may ask for one text when a drink is in stock again',
    hint: 'At most a fifth of the SMS per day, from 8:00 to 21:00, two for each unit in stock in an hour.',
    isOptional: true,
    alsoCalled: 'back in stock sold out alert waiting',
  },
  mails_per_day: { inputMode: 'numeric', hint: '0 sends none', alsoCalled: 'email budget' },
  order_details_months: {
    label: 'Keep details of orders (months)',
    inputMode: 'numeric',
    hint: 'Name, phone, email, address and notes. The order itself stays in the books',
    alsoCalled: 'retention privacy delete',
  },
  inquiries_months: {
    label: 'Keep inquiries (months)',
    inputMode: 'numeric',
    hint: 'Older messages of visitors are deleted',
    alsoCalled: 'retention privacy delete',
  },
};

export const labelOfField = (field: SettingsField): string =>
  fieldInputs[field].label ?? settingsLabels[field];

export interface SettingsCard {
  title: string;
  description?: string;
  fields: readonly SettingsField[];
}

/** A screen, or a part of a section that is no field. */
export interface SettingsPlace {
  label: string;
  words: string;
  /** Default: its section. */
  to?: string;
}

interface Section {
  title: string;
  /** What it contains, in the index. */
  summary: string;
  cards: readonly SettingsCard[];
  places: readonly SettingsPlace[];
}

export const settingsSections: Record<SectionId, Section> = {
  shop: {
    title: 'Shop',
    summary: 'Name, contacts, social links, seller and tax PIN, age and terms',
    cards: [
      { title: 'Store', fields: ['store_name'] },
      {
        title: 'Contacts',
        description: 'Shown in the header, the footer and on the contact page.',
        fields: ['support_phone', 'chat_phone', 'support_email'],
      },
      { title: 'Social links', fields: ['instagram_url', 'facebook_url', 'tiktok_url'] },
      {
        title: 'Seller',
        description: 'Who customers buy from: shown on the contact page and on receipts.',
        fields: ['seller_address', 'seller_registration', 'kra_pin'],
      },
      { title: 'Age and terms', fields: ['requires_terms_tick'] },
    ],
    places: [],
  },
  delivery: {
    title: 'Delivery',
    summary: 'Fee, opening hours, areas and their times, riders, code at the door',
    cards: [
      { title: 'Fee', fields: ['delivery_fee'] },
      { title: 'Opening hours', fields: ['opening_hours', 'days_off'] },
      {
        title: 'Time of arrival',
        description: 'Each area has its own minutes. What deliveries really took is shown beside them.',
        fields: ['queue_minutes', 'announces_delays'],
      },
      { title: 'Proof', fields: ['asks_delivery_code'] },
    ],
    places: [
      {
        label: 'Delivery areas',
        words:
          'Fee and time of each neighbourhood or zone, their order, and places outside Nairobi whose fee is agreed',
        to: '/admin/settings/areas',
      },
      { label: 'Riders', words: 'Names, phones, vehicles, and links to their pages', to: '/admin/riders' },
      { label: 'Former delivery fees', words: 'Who changed the fee, and when' },
    ],
  },
  payments: {
    title: 'Payments',
    summary: 'M-PESA, till, cash, unpaid orders, refunds, discount codes',
    cards: [
      {
        title: 'Unpaid orders',
        fields: ['reservation_minutes', 'payment_limit', 'unpaid_orders_per_phone', 'reserved_share_percent'],
      },
      {
        title: 'Payment by hand',
        description:
          'Offered to customers whose phone the prompt does not reach. You confirm the money in the order, by its receipt.',
        fields: ['till_number', 'paybill_number'],
      },
      { title: 'Cash', fields: ['takes_cash', 'offers_cash'] },
      {
        title: 'Refunds',
        description:
          'M-PESA refunds are sent from the order itself. Above the limit a colleague must approve them. A raised limit applies after a day.',
        fields: ['refund_approval_above'],
      },
    ],
    places: [
      {
        label: 'Discount codes',
        words:
          'A percentage or an amount off, with dates and limits. Also called coupons, vouchers or promo codes',
        to: '/admin/settings/discounts',
      },
      {
        label: 'M-PESA check',
        words: 'Whether prompts, callbacks and refunds work, with a prompt for KSh 1',
        to: '/admin/settings/payments',
      },
      {
        label: "Register the till's addresses at M-PESA",
        words: 'So that payments by hand are reported to the shop (C2B RegisterURL)',
      },
    ],
  },
  messages: {
    title: 'Messages',
    summary: 'SMS and mails per day, drinks that are back, tests, templates',
    cards: [
      {
        title: 'Messages to customers',
        description: 'The most we send in one day. Half of it is reserved for paid orders.',
        fields: ['texts_per_day', 'mails_per_day'],
      },
      { title: 'Drinks that are back', fields: ['offers_stock_alerts'] },
    ],
    places: [
      { label: 'Send a test mail', words: 'Whether the mail server (SMTP) accepts the emails of the shop' },
      { label: 'Send a test text', words: 'Whether the gateway accepts SMS of the shop' },
      {
        label: 'Message templates',
        words: 'What customers and staff read at each step of an order',
        to: '/admin/messages/templates',
      },
      {
        label: 'Replies to inquiries',
        words: 'Templates with which staff begin a reply',
        to: '/admin/messages/templates#replies',
      },
      {
        label: 'All messages',
        words: 'Sent, waiting and withheld, and the newsletter list',
        to: '/admin/messages',
      },
    ],
  },
  pages: {
    title: 'Pages',
    summary: 'Privacy notice, terms and FAQ, words of customers',
    cards: [],
    places: [
      {
        label: 'Privacy notice, terms and FAQ',
        words: 'Texts at the foot of the contact page',
        to: '/admin/settings/texts',
      },
      {
        label: 'Words of customers',
        words:
          'What customers wrote with a rating and may be shown on the home page. Also called reviews, quotes or testimonials',
        to: '/admin/settings/quotes',
      },
    ],
  },
  team: {
    title: 'Team',
    summary: 'Your account, colleagues and their roles',
    cards: [],
    places: [
      {
        label: 'Your account',
        words: 'Password, authenticator app, passkeys and other devices',
        to: '/admin/account',
      },
      {
        label: 'Team',
        words: 'Invite colleagues, roles, access, second factors',
        to: '/admin/settings/team',
      },
      {
        label: 'Audit',
        words: 'Who changed team, settings, prices and refunds, and when',
        to: '/admin/settings/team/audit',
      },
    ],
  },
  data: {
    title: 'Data',
    summary: 'How long data is kept, copies, erasure, files',
    cards: [
      {
        title: 'Personal data',
        description: "How long the shop stores customers' data. The privacy notice quotes these times.",
        fields: ['order_details_months', 'inquiries_months', 'payment_messages_months'],
      },
    ],
    places: [
      {
        label: 'Customer data',
        words: 'Give a customer a copy of their data, or erase it',
        to: '/admin/settings/customer-data',
      },
      { label: 'Export orders', words: 'CSV file for a spreadsheet, under Export CSV', to: '/admin/orders' },
      {
        label: 'Export the books',
        words: 'Payments per day, as CSV files',
        to: '/admin/reconciliation/days',
      },
      {
        label: 'Export the newsletter list',
        words: 'Confirmed addresses, under Filters and Newsletter list',
        to: '/admin/messages',
      },
    ],
  },
  backups: {
    title: 'Backups',
    summary: 'Download, check, restore, version and updates',
    cards: [],
    places: [
      { label: 'Back up now', words: 'State and age of the last backup' },
      { label: 'Download a backup', words: 'A file with everything, and who downloaded it' },
      { label: 'Check a backup', words: 'Verify that it can be restored' },
      { label: 'Version and updates', words: 'Which version runs, since when, and how to update' },
      { label: 'Restore a backup', words: 'Command for the terminal' },
      { label: 'Move to another database', words: 'Command for the terminal' },
    ],
  },
};

export const sectionIds = keysOf(settingsSections);

/** The section that a URL names; null for an unknown one. */
export const readSection = (text: string | null): SectionId | null =>
  sectionIds.find((id) => id === text) ?? null;

export const sectionUrl = (section: SectionId, field?: SettingsField): string =>
  `/admin/settings?section=${section}${field ? `&field=${field}` : ''}`;

const sectionOfFields = new Map(
  sectionIds.flatMap((id) =>
    settingsSections[id].cards.flatMap(({ fields }) => fields.map((field) => [field, id] as const)),
  ),
);

/** The section that shows a field. */
export function sectionOf(field: SettingsField): SectionId {
  const section = sectionOfFields.get(field);
  if (!section) throw new Error(`No section shows ${field}`);
  return section;
}

export interface SettingsResult {
  label: string;
  /** The section, and its help text. */
  words: string;
  to: string;
}

interface Searched extends SettingsResult {
  searched: string;
}

const searched: readonly Searched[] = sectionIds.flatMap((id) => {
  const { title, summary, cards, places } = settingsSections[id];
  const found = (result: SettingsResult, more: string): Searched => ({
    ...result,
    searched: [result.label, result.words, more].join('\n').toLowerCase(),
  });
  return [
    found({ label: title, words: summary, to: sectionUrl(id) }, ''),
    ...cards.flatMap((card) =>
      card.fields.map((field) => {
        const { hint = '', alsoCalled = '' } = fieldInputs[field];
        return found(
          { label: labelOfField(field), words: `${title}: ${hint || card.title}`, to: sectionUrl(id, field) },
          `${settingsLabels[field]} ${alsoCalled} ${card.title}`,
        );
      }),
    ),
    ...places.map(({ label, words, to }) =>
      found({ label, words: `${title}: ${words}`, to: to ?? sectionUrl(id) }, ''),
    ),
  ];
});

/** The settings whose name or help text contains all words of a search; those that it names first come first. */
export function searchSettings(text: string): SettingsResult[] {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return [];
  const isNamed = ({ label }: Searched) => words.every((word) => label.toLowerCase().includes(word));
  const found = searched.filter((each) => words.every((word) => each.searched.includes(word)));
  return [...found.filter(isNamed), ...found.filter((each) => !isNamed(each))].map(
    ({ label, words, to }) => ({
      label,
      words,
      to,
    }),
  );
}
