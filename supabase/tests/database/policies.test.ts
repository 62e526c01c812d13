// Permissions: the matrix of people, tables and verbs, and every procedure. A table or procedure that is missing
// here fails the tests.
import { randomUUID } from 'node:crypto';
import { type Database, DatabaseError } from '@jani-juice/backend/database';
import { asRole, testDatabases } from '@jani-juice/backend/testing';
import { beforeAll, describe, expect, test } from 'vitest';
import { areasOf } from '../../../domain/people/staff-rights.ts';
import {
  everyCaller as everyone,
  makeProduct,
  type Person,
  people,
  personIds,
  secondStepPassed,
} from '../shop-database.ts';
import { newPhone, setUpShop } from '../steps.ts';

const all: Person[] = everyone;
const signedIn: Person[] = [
  'customer',
  'former staff',
  'half-way staff',
  'staff',
  'assistant',
  'counter',
  'service',
];
const owners: Person[] = ['staff', 'service'];
const staff: Person[] = ['staff', 'assistant', 'service'];
const allRoles: Person[] = ['staff', 'assistant', 'counter', 'service'];
const service: Person[] = ['service'];

const id = (digit: number) => `f0000000-0000-4000-8000-00000000000${digit}`;
const verbs = ['select', 'insert', 'update', 'delete'] as const;
type Verb = (typeof verbs)[number];

// Each line is an existing row. `where` finds it, `set` is a harmless change, `insert` adds another such row. Every person
// not listed under a verb must fail, and at least one person must succeed.
interface MatrixRow {
  table: string;
  row: string;
  where: string;
  set: string;
  insert: string;
  select: Person[];
  /** 'no one' when only the database itself does it. */
  inserts: Person[] | 'no one';
  updates: Person[] | 'no one';
  deletes: Person[] | 'no one';
}
const matrix: MatrixRow[] = [
  {
    table: 'admin_profiles',
    row: 'of staff',
    where: `user_id = '${personIds.staff}'`,
    set: 'is_active = true',
    insert: `(user_id) values ('${id(9)}')`,
    select: owners,
    inserts: service,
    updates: service,
    deletes: service,
  },
  {
    table: 'admin_profiles',
    row: 'of former staff',
    where: `user_id = '${personIds['former staff']}'`,
    set: 'is_active = true',
    insert: `(user_id, is_active) values ('${id(9)}', true)`,
    select: ['former staff', 'service'],
    inserts: service,
    updates: service,
    deletes: service,
  },
  {
    table: 'store_settings',
    row: 'the one',
    where: 'id',
    set: 'delivery_fee = 200',
    insert: 'default values',
    select: all,
    inserts: service,
    updates: owners,
    deletes: service,
  },
  {
    table: 'categories',
    row: 'active',
    where: `id = '${id(1)}'`,
    set: 'is_active = true',
    insert: `(name) values ('New')`,
    select: all,
    inserts: staff,
    updates: staff,
    deletes: service,
  },
  {
    table: 'categories',
    row: 'inactive',
    where: `id = '${id(2)}'`,
    set: 'is_active = false',
    insert: `(name, is_active) values ('New', false)`,
    select: staff,
    inserts: staff,
    updates: staff,
    deletes: service,
  },
  {
    table: 'brands',
    row: 'of an active product',
    where: `name = 'Sold'`,
    set: `page_text = 'Fresh'`,
    insert: `(name) values ('New')`,
    select: all,
    inserts: service,
    updates: staff,
    deletes: service,
  },
  {
    table: 'brands',
    row: 'of an inactive product',
    where: `name = 'Secret'`,
    set: `page_text = 'Fresh'`,
    insert: `(name) values ('New')`,
    select: staff,
    inserts: service,
    updates: staff,
    deletes: service,
  },
  {
    table: 'products',
    row: 'active',
    where: `id = '${id(1)}'`,
    set: 'stock_quantity = 5',
    insert: `(name, slug, price) values ('New', 'new', 100)`,
    select: all,
    inserts: staff,
    updates: staff,
    deletes: staff,
  },
  {
    table: 'products',
    row: 'inactive',
    where: `id = '${id(2)}'`,
    set: 'is_active = true',
    insert: `(name, slug, price, is_active) values ('New', 'new', 100, false)`,
    select: staff,
    inserts: staff,
    updates: staff,
    deletes: staff,
  },
  {
    table: 'search_synonyms',
    row: 'any',
    where: `word = 'embe'`,
    set: `means = 'mango'`,
    insert: `(word, means) values ('new word', 'mango')`,
    select: staff,
    inserts: staff,
    updates: staff,
    deletes: staff,
  },
  {
    table: 'stock_alerts',
    row: 'any',
    where: `phone = '+254712345678'`,
    set: `phone = '+254712345679'`,
    insert: `(product_id, phone) values ('${id(1)}', '+254712345670')`,
    select: staff,
    inserts: 'no one',
    updates: 'no one',
    deletes: 'no one',
  },
  {
    table: 'discount_codes',
    row: 'any',
    where: `code = 'JANI10'`,
    set: 'is_active = false',
    insert: `(code, percent) values ('NEW10', 10)`,
    select: staff,
    inserts: owners,
    updates: owners,
    deletes: owners,
  },
  {
    table: 'delivery_areas',
    row: 'active',
    where: `name = 'Westlands'`,
    set: 'fee_cents = 20000',
    insert: `(name) values ('New area')`,
    select: all,
    inserts: owners,
    updates: owners,
    deletes: service,
  },
  {
    table: 'delivery_areas',
    row: 'inactive',
    where: `name = 'Closed area'`,
    set: 'is_active = true',
    insert: `(name, is_active) values ('Another', false)`,
    select: allRoles,
    inserts: owners,
    updates: owners,
    deletes: service,
  },
  {
    table: 'orders',
    row: 'unpaid',
    where: `id = '${id(1)}'`,
    set: `status = 'processing'`,
    insert: `(order_number, tracking_number, customer_name, customer_email, customer_phone, shipping_address, delivery_fee, total_amount)
      values ('ORD-9', 'JJ-20261121-9999', 'A', 'a@b.example', '+254712345678', 'Karen', 100, 100)`,
    select: allRoles,
    inserts: service,
    updates: staff,
    deletes: service,
  },
  {
    table: 'orders',
    row: 'delivered long ago',
    where: `id = '${id(4)}'`,
    set: `status = 'cancelled'`,
    insert: `(order_number, tracking_number, customer_name, customer_email, customer_phone, shipping_address, delivery_fee, total_amount)
      values ('ORD-9', 'JJ-20261121-9999', 'A', 'a@b.example', '+254712345678', 'Karen', 100, 100)`,
    select: staff,
    inserts: service,
    updates: staff,
    deletes: service,
  },
  {
    table: 'order_events',
    row: 'of an order delivered long ago',
    where: `order_id = '${id(4)}'`,
    set: `actor = 'shop'`,
    insert: `(order_id, kind, actor) values ('${id(4)}', 'order_placed', 'customer')`,
    select: staff,
    inserts: 'no one',
    updates: 'no one',
    deletes: 'no one',
  },
  {
    table: 'order_items',
    row: 'of an order delivered long ago',
    where: `id = '${id(4)}'`,
    set: 'quantity = 1',
    insert: `(order_id, product_name, quantity, unit_price) values ('${id(4)}', 'New', 1, 100)`,
    select: staff,
    inserts: service,
    updates: service,
    deletes: service,
  },
  {
    table: 'payments',
    row: 'of an order delivered long ago',
    where: `id = '${id(5)}'`,
    set: `phone = '+254712345679'`,
    insert: `(order_id, phone, charge_cents, status) values ('${id(4)}', '+254712345678', 100, 'failed')`,
    select: staff,
    inserts: service,
    updates: service,
    deletes: service,
  },
  {
    table: 'deliveries',
    row: 'of an order delivered long ago',
    where: `id = '${id(4)}'`,
    set: `delivery_notes = 'Gate 2'`,
    insert: `(order_id, delivery_status) values ('${id(5)}', 'assigned')`,
    select: staff,
    inserts: staff,
    updates: staff,
    deletes: service,
  },
  {
    table: 'order_events',
    row: 'of an order',
    where: `order_id = '${id(1)}'`,
    set: `actor = 'shop'`,
    insert: `(order_id, kind, actor) values ('${id(1)}', 'order_placed', 'customer')`,
    select: allRoles,
    inserts: 'no one',
    updates: 'no one',
    deletes: 'no one',
  },
  {
    table: 'order_items',
    row: 'of an order',
    where: `id = '${id(1)}'`,
    set: 'quantity = 1',
    insert: `(order_id, product_name, quantity, unit_price) values ('${id(1)}', 'New', 1, 100)`,
    select: allRoles,
    inserts: service,
    updates: service,
    deletes: service,
  },
  {
    table: 'payments',
    row: 'processing',
    where: `id = '${id(1)}'`,
    set: `status = 'completed'`,
    insert: `(order_id, phone, charge_cents, status) values ('${id(1)}', '+254712345678', 100, 'failed')`,
    select: allRoles,
    inserts: service,
    updates: service,
    deletes: service,
  },
  {
    table: 'payment_messages',
    row: 'of a payment',
    where: `payment_id = '${id(1)}'`,
    set: `outcome = 'paid'`,
    insert: `(payment_id, source, body) values ('${id(1)}', 'query', '{}')`,
    select: owners,
    inserts: service,
    updates: service,
    deletes: service,
  },
  {
    table: 'messages_to_check',
    row: 'that waits',
    where: `digest = 'any'`,
    set: `reference = ''`,
    insert: `(source, problem, body, digest) values ('statement', 'unreadable', '{}', 'another')`,
    select: owners,
    inserts: service,
    updates: service,
    deletes: service,
  },
  {
    table: 'mpesa_transactions',
    row: 'with an unknown receipt',
    where: `receipt = 'UKL1234567'`,
    set: `resolution = 'accepted'`,
    insert: `(receipt, received_cents, transacted_at) values ('UKL7654321', 100, now())`,
    select: staff,
    inserts: service,
    updates: service,
    deletes: service,
  },
  {
    table: 'statement_pulls',
    row: 'that ended',
    where: `payments = 7`,
    set: 'payments = 7',
    insert: `(window_from, window_to, leased_until, outcome, finished_at) values (now() - interval '1 day', now(), now(), 'failed', now())`,
    select: owners,
    inserts: service,
    updates: service,
    deletes: service,
  },
  {
    table: 'order_pauses',
    row: 'any',
    where: `reason = 'rain'`,
    set: `reason = 'sun'`,
    insert: `(reason) values ('rain')`,
    select: staff,
    inserts: 'no one',
    updates: 'no one',
    deletes: 'no one',
  },
  {
    table: 'price_changes',
    row: 'any',
    where: `from_cents = 4711`,
    set: `to_cents = 1`,
    insert: `(from_cents, to_cents) values (4711, 1)`,
    select: staff,
    inserts: 'no one',
    updates: 'no one',
    deletes: 'no one',
  },
  {
    table: 'stock_changes',
    row: 'any',
    where: `from_units = 4711`,
    set: `to_units = 1`,
    insert: `(product_id, from_units, to_units, cause) values ('${id(1)}', 4711, 1, 'edited')`,
    select: staff,
    inserts: 'no one',
    updates: 'no one',
    deletes: 'no one',
  },
  {
    table: 'reconciliation_events',
    row: 'any',
    where: `receipt = 'UKL1234567'`,
    set: `note = 'x'`,
    insert: `(receipt, kind) values ('UKL1234567', 'accepted')`,
    select: owners,
    inserts: 'no one',
    updates: 'no one',
    deletes: 'no one',
  },
  {
    table: 'change_notes',
    row: 'of an order',
    where: `id = '${id(1)}'`,
    set: `note = 'x'`,
    insert: `(payment_id, kind, amount_cents) values ('${id(1)}', 'credit', 100)`,
    select: allRoles,
    inserts: 'no one',
    updates: 'no one',
    deletes: 'no one',
  },
  {
    table: 'change_notes',
    row: 'of an order delivered long ago',
    where: `id = '${id(4)}'`,
    set: `note = 'x'`,
    insert: `(payment_id, kind, amount_cents) values ('${id(5)}', 'credit', 100)`,
    select: staff,
    inserts: 'no one',
    updates: 'no one',
    deletes: 'no one',
  },
  {
    table: 'day_closes',
    row: 'any',
    where: `day = '2026-11-21'`,
    set: `note = 'x'`,
    insert: `(day, totals, closed_by) values ('2026-11-22', '{}', '${id(1)}')`,
    select: staff,
    inserts: 'no one',
    updates: 'no one',
    deletes: 'no one',
  },
  {
    table: 'customer_notes',
    row: 'any',
    where: `phone = '+254712000001'`,
    set: `notes = 'x'`,
    insert: `(phone, notes) values ('+254712000002', 'Another')`,
    select: staff,
    inserts: 'no one',
    updates: 'no one',
    deletes: 'no one',
  },
  {
    table: 'cash_counts',
    row: 'any',
    where: `day = '2026-11-21'`,
    set: 'counted_cents = 1',
    insert: `(day, member, taken_cents, given_back_cents, counted_cents) values ('2026-11-21', '${id(2)}', 0, 0, 0)`,
    select: staff,
    inserts: 'no one',
    updates: 'no one',
    deletes: 'no one',
  },
  {
    table: 'blocked_phones',
    row: 'any',
    where: `person_hash = 'hash'`,
    set: `reason = 'another'`,
    insert: `(person_hash, phone, reason) values ('other', '+254712000002', 'Another')`,
    select: staff,
    inserts: 'no one',
    updates: 'no one',
    deletes: 'no one',
  },
  {
    table: 'refunds',
    row: 'that waits for approval',
    where: `id = '${id(1)}'`,
    set: `reason = 'another'`,
    insert: `(payment_id, receipt, refund_cents, reason, method, status) values ('${id(1)}', 'UKL2222222', 200, 'again', 'reversal', 'failed')`,
    select: staff,
    inserts: service,
    updates: service,
    deletes: service,
  },
  {
    table: 'deliveries',
    row: 'pending',
    where: `id = '${id(1)}'`,
    set: `delivery_status = 'assigned'`,
    insert: `(order_id, delivery_status) values ('${id(1)}', 'assigned')`,
    select: allRoles,
    inserts: allRoles,
    updates: allRoles,
    deletes: service,
  },
  {
    table: 'inquiries',
    row: 'unread',
    where: `id = '${id(1)}'`,
    set: 'is_read = true',
    insert: `(name, email, message) values ('A', 'a@b.example', 'Hello')`,
    select: staff,
    inserts: all,
    updates: service,
    deletes: service,
  },
  {
    table: 'notices',
    row: 'of an inquiry',
    where: `event_key = 'any'`,
    set: `event_key = 'other'`,
    insert: `(kind, event_key) values ('inquiry', 'new')`,
    select: allRoles,
    inserts: service,
    updates: service,
    deletes: service,
  },
  {
    table: 'inquiry_answers',
    row: 'of an inquiry',
    where: `inquiry_id = '${id(1)}'`,
    set: `body = 'Changed'`,
    insert: `(inquiry_id, way, answered_by) values ('${id(1)}', 'elsewhere', 'staff@jani.example')`,
    select: staff,
    inserts: service,
    updates: service,
    deletes: service,
  },
  {
    table: 'push_subscriptions',
    row: 'of staff',
    where: `endpoint = 'https://push.example/staff'`,
    set: `device = 'Phone'`,
    insert: `(user_id, endpoint, p256dh, auth_secret, device, kinds)
      values ('${personIds.staff}', 'https://push.example/new', 'B' || repeat('a', 86), repeat('b', 22), 'Tablet', '{}')`,
    select: owners,
    inserts: service,
    updates: service,
    deletes: owners,
  },
  {
    table: 'push_subscriptions',
    row: 'of former staff',
    where: `endpoint = 'https://push.example/former'`,
    set: `device = 'Phone'`,
    insert: `(user_id, endpoint, p256dh, auth_secret, device, kinds)
      values ('${personIds['former staff']}', 'https://push.example/new', 'B' || repeat('a', 86), repeat('b', 22), 'Tablet', '{}')`,
    select: service,
    inserts: service,
    updates: service,
    deletes: service,
  },
  {
    table: 'reply_templates',
    row: 'any',
    where: `title = 'It is on its way'`,
    set: `title = 'On its way'`,
    insert: `(title, body) values ('New', 'Habari {first_name}')`,
    select: staff,
    inserts: staff,
    updates: staff,
    deletes: staff,
  },
  {
    table: 'newsletter_subscriptions',
    row: 'any',
    where: `id = '${id(1)}'`,
    set: `email = 'b@b.example'`,
    insert: `(email) values ('new@b.example')`,
    select: owners,
    inserts: service,
    updates: service,
    deletes: service,
  },
  {
    table: 'outbox_messages',
    row: 'that waits',
    where: `event_key = 'any'`,
    set: `problem = 'none'`,
    insert: `(order_id, kind, event_key, channel, recipient, order_number, tracking_number, customer_name)
      values ('${id(1)}', 'order_paid', 'new', 'mail', 'a@b.example', 'ORD-1', 'JJ-20261121-1001', 'Amina')`,
    select: staff,
    inserts: service,
    updates: service,
    deletes: service,
  },
  {
    table: 'message_templates',
    row: 'of a kind',
    where: `kind = 'order_paid' and channel = 'text'`,
    set: `body = 'Paid'`,
    insert: `(kind, channel, body, default_body) values ('order_paid', 'text', 'Paid', 'Paid')`,
    select: staff,
    inserts: service,
    updates: staff,
    deletes: service,
  },
  {
    table: 'personal_data_requests',
    row: 'any',
    where: `person_hash = 'hash'`,
    set: `person_hash = 'other'`,
    insert: `(kind, person_hash, counts) values ('export', 'hash', '{}')`,
    select: owners,
    inserts: 'no one',
    updates: 'no one',
    deletes: 'no one',
  },
  {
    table: 'shop_texts',
    row: 'any',
    where: `slug = 'terms'`,
    set: `title = 'Terms'`,
    insert: `(slug, title, body, default_title, default_body) values ('terms', 'Terms', 'Be kind', 'Terms', 'Be kind')`,
    select: all,
    inserts: service,
    updates: owners,
    deletes: service,
  },
  {
    table: 'page_views',
    row: 'of a day',
    where: `day = '2026-11-21'`,
    set: 'views = 3',
    insert: `values ('2026-11-22', '/', 1)`,
    select: staff,
    inserts: service,
    updates: service,
    deletes: service,
  },
  {
    table: 'ratings',
    row: 'of an order',
    where: `order_id = '${id(1)}'`,
    set: 'stars = 4',
    insert: `(order_id, stars) values ('${id(2)}', 5)`,
    select: allRoles,
    inserts: service,
    updates: service,
    deletes: service,
  },
  {
    table: 'ratings',
    row: 'of an order delivered long ago',
    where: `order_id = '${id(4)}'`,
    set: 'stars = 4',
    insert: `(order_id, stars) values ('${id(3)}', 5)`,
    select: staff,
    inserts: service,
    updates: service,
    deletes: service,
  },
  {
    table: 'riders',
    row: 'any',
    where: `id = '${id(1)}'`,
    set: `name = 'Brian'`,
    insert: `(name, phone, vehicle) values ('New', '+254711000009', 'Van')`,
    select: allRoles,
    inserts: service,
    updates: service,
    deletes: service,
  },
  {
    table: 'rider_links',
    row: 'any',
    where: `id = '${id(1)}'`,
    set: 'revoked_at = now()',
    insert: `(rider_id, secret_hash, expires_at) values ('${id(1)}', repeat('b', 64), now())`,
    select: allRoles,
    inserts: service,
    updates: service,
    deletes: service,
  },
  {
    table: 'audit_events',
    row: 'any',
    where: `subject = 'any'`,
    set: `subject = 'other'`,
    insert: `(kind, subject) values ('member_changed', 'new')`,
    select: owners,
    inserts: 'no one',
    updates: 'no one',
    deletes: 'no one',
  },
  {
    table: 'backups',
    row: 'that failed',
    where: `problem = 'full'`,
    set: `problem = 'full'`,
    insert: `(started_at, outcome, problem) values (now(), 'failed', 'full')`,
    select: owners,
    inserts: service,
    updates: service,
    deletes: service,
  },
  {
    table: 'backup_downloads',
    row: 'of a colleague',
    where: `file_name = 'jani-a.tar.gz'`,
    set: `file_name = 'jani-a.tar.gz'`,
    insert: `(backup_id, file_name, downloaded_by_email, token_hash) values (2, 'b', '', 'b')`,
    select: owners,
    inserts: 'no one',
    updates: 'no one',
    deletes: 'no one',
  },
];

// The storage service accesses these tables with the caller's rights.
const storageMatrix: MatrixRow[] = [
  {
    table: 'storage.objects',
    row: 'an image of a product',
    where: `id = '${id(1)}'`,
    set: `user_metadata = '{"seen": true}'`,
    insert: `(bucket_id, name) values ('product-images', 'products/new.png')`,
    select: all,
    inserts: staff,
    updates: staff,
    deletes: staff,
  },
  {
    table: 'storage.objects',
    row: 'an image outside the folder of products',
    where: `id = '${id(2)}'`,
    set: `user_metadata = '{"seen": true}'`,
    insert: `(bucket_id, name) values ('product-images', 'products.png')`,
    select: all,
    inserts: service,
    updates: service,
    deletes: service,
  },
  {
    table: 'storage.objects',
    row: 'in a folder that only contains another one called products',
    where: `id = '${id(3)}'`,
    set: `user_metadata = '{"seen": true}'`,
    insert: `(bucket_id, name) values ('product-images', 'other/products/new.png')`,
    select: all,
    inserts: service,
    updates: service,
    deletes: service,
  },
  {
    table: 'storage.objects',
    row: 'in another bucket',
    where: `id = '${id(4)}'`,
    set: `user_metadata = '{"seen": true}'`,
    insert: `(bucket_id, name) values ('other', 'products/new.png')`,
    select: service,
    inserts: service,
    updates: service,
    deletes: service,
  },
  {
    table: 'storage.buckets',
    row: 'of product images',
    where: `id = 'product-images'`,
    set: 'file_size_limit = 1000',
    insert: `(id, name, public) values ('mine', 'mine', true)`,
    select: service,
    inserts: service,
    updates: service,
    deletes: service,
  },
];

const procedures: Record<string, Person[]> = {
  home_products: all,
  product_and_related: all,
  search_products: all,
  shop_page: all,
  correct_search: all,
  place_order: all,
  change_order_items: all,
  same_again: all,
  order_again: all,
  cancel_own_order: all,
  keep_own_order: all,
  grant_cancel_request: signedIn,
  decline_cancel_request: signedIn,
  delivery_report: signedIn,
  check_discount_code: all,
  list_discount_codes: signedIn,
  sort_delivery_areas: signedIn,
  agree_delivery: signedIn,
  delivery_estimates: signedIn,
  track_order: all,
  orders_by_access_key: all,
  order_receipt: all,
  is_admin: signedIn,
  may: signedIn,
  is_recent_order: signedIn,
  list_own_sessions: signedIn,
  count_product_orders: signedIn,
  assign_delivery: signedIn,
  set_order_status: signedIn,
  set_delivery_status: signedIn,
  undo_status_change: signedIn,
  show_pay_link: signedIn,
  ended_pay_links: signedIn,
  dismiss_ended_pay_link: signedIn,
  customer_by_phone: signedIn,
  list_customers: signedIn,
  customer_page: signedIn,
  note_customer: signedIn,
  block_phone: signedIn,
  unblock_phone: signedIn,
  nth_order: signedIn,
  drinks_to_order: signedIn,
  search_deliveries: signedIn,
  count_deliveries: signedIn,
  count_work: signedIn,
  work_queue: signedIn,
  move_on: signedIn,
  recent_riders: signedIn,
  list_riders: signedIn,
  save_rider: signedIn,
  open_rider_link: signedIn,
  revoke_rider_link: signedIn,
  practice_rider: service,
  rider_page: all,
  rate_order: all,
  customer_quotes: all,
  quote_rating: signedIn,
  is_on_home_page: signedIn,
  rider_press: all,
  finish_without_code: signedIn,
  find_products: signedIn,
  list_pages: signedIn,
  units_for_sale: all,
  serving: all,
  set_sold_out: signedIn,
  pause_orders: signedIn,
  resume_orders: signedIn,
  list_categories: signedIn,
  search_inquiries: signedIn,
  mark_inquiry_read: signedIn,
  mark_all_inquiries_read: signedIn,
  answer_inquiry: signedIn,
  withdraw_answer: signedIn,
  begin_payment: service,
  record_push: service,
  settle_payment: service,
  find_payment: service,
  lease_payment_queries: service,
  lease_daraja_token: service,
  store_daraja_token: service,
  applied_migrations: service,
  claim_due_jobs: service,
  claim_payment_job: service,
  register_storefront: service,
  shop_metrics: service,
  expire_reservations: service,
  forget_old_rows: service,
  search_orders: signedIn,
  count_orders: signedIn,
  resolve_paid_order: signedIn,
  confirm_till_payment: signedIn,
  agree_cash: signedIn,
  receive_cash: signedIn,
  take_back_cash: signedIn,
  refund_part: signedIn,
  credit_for_order: signedIn,
  use_credit: signedIn,
  counted_cents: signedIn,
  is_unconfirmed: signedIn,
  has_refunded_source: signedIn,
  take_back_credit: signedIn,
  kept_for_customers: signedIn,
  kept_totals: signedIn,
  give_back_cash: signedIn,
  choose_cash: all,
  correct_till_payment: signedIn,
  store_confirmation: service,
  store_callback: service,
  list_unsettled_callbacks: service,
  list_unprocessed_confirmations: service,
  receive_mpesa_transaction: service,
  validate_till_payment: service,
  read_till_secret: service,
  begin_till_registration: service,
  record_mpesa_registration: service,
  lease_statement_pull: service,
  extend_statement_pull: service,
  finish_statement_pull: service,
  receipts_not_in_statement: service,
  reconciliation_day: signedIn,
  reconciliation_days: signedIn,
  suggest_orders: signedIn,
  take_back_payment: signedIn,
  resolve_review: signedIn,
  note_change: signedIn,
  check_typed_receipt: signedIn,
  resolve_difference: signedIn,
  enter_message_to_check: signedIn,
  dismiss_message_to_check: signedIn,
  statement_status: signedIn,
  search_messages: signedIn,
  send_message_again: signedIn,
  check_repeat: signedIn,
  repeat_message: signedIn,
  send_withheld_messages: signedIn,
  send_test_message: signedIn,
  message_budgets: signedIn,
  lease_messages: service,
  begin_message: service,
  finish_message: service,
  request_refund: signedIn,
  approve_refund: signedIn,
  withdraw_refund: signedIn,
  note_refund_by_hand: signedIn,
  close_unknown_refund: signedIn,
  acknowledge_sent_twice: signedIn,
  staff_settings: signedIn,
  lease_refunds: service,
  record_reversal_push: service,
  settle_reversal: service,
  settle_write: signedIn,
  find_refund_by_secret: service,
  begin_payment_test: service,
  payment_health: signedIn,
  resume_prompts: signedIn,
  refund_approvers: signedIn,
  are_prompts_paused: all,
  delivery_promise: all,
  learn_delivery_times: service,
  note_mpesa_settings: service,
  till_registration: service,
  request_stock_alert: all,
  waiting_for_stock: signedIn,
  subscribe_to_newsletter: all,
  confirm_newsletter: all,
  unsubscribe_from_newsletter: all,
  issue_newsletter_tokens: service,
  export_person: signedIn,
  erase_person: signedIn,
  record_page_views: service,
  dashboard_figures: signedIn,
  count_payments_since: signedIn,
  day_totals: signedIn,
  money_entries: signedIn,
  cash_of_day: signedIn,
  cash_due_of_day: signedIn,
  close_day: signedIn,
  report: signedIn,
  typical_price: signedIn,
  list_brands: signedIn,
  product_history: signedIn,
  change_stock: signedIn,
  daily_figures: signedIn,
  system_status: signedIn,
  record_backup: service,
  request_backup: signedIn,
  request_backup_check: signedIn,
  record_backup_check: service,
  allow_backup_download: signedIn,
  open_backup_download: service,
  waiting_notices: signedIn,
  push_public_key: signedIn,
  save_push_subscription: signedIn,
  read_push_keys: service,
  store_push_keys: service,
  lease_pushes: service,
  finish_push: service,
  team: signedIn,
  change_member: signedIn,
  reset_second_factor: signedIn,
  count_recovery_codes: signedIn,
  make_recovery_codes: signedIn,
  use_recovery_code: signedIn,
  check_invitation: signedIn,
  record_invitation: service,
  withdraw_invitation: signedIn,
  staff_names: signedIn,
  search_audit: signedIn,
};

// Columns that requests of signed-in users may write; row level security additionally requires staff.
const writableColumns: Record<string, { insert?: string; update?: string }> = {
  store_settings: {
    update:
      'announces_delays asks_delivery_code chat_phone days_off delivery_fee facebook_url inquiries_months instagram_url kra_pin mails_per_day offers_cash offers_stock_alerts opening_hours order_details_months paybill_number payment_limit payment_messages_months queue_minutes refund_approval_above refuses_unknown_payments requires_terms_tick reservation_minutes reserved_share_percent seller_address seller_registration store_name support_email support_phone takes_cash texts_per_day tiktok_url till_number unpaid_orders_per_phone updated_at',
  },
  categories: { insert: 'is_active name', update: 'is_active name page_text' },
  brands: { update: 'page_text' },
  products: {
    insert:
      'allergens brand caffeine category description home_position home_section image_url is_active keeps khat_strength low_stock_below more_images name previous_price price serving_note size slug stock_quantity sweetened_with tagline',
    update:
      'allergens brand caffeine category description home_position home_section image_url is_active keeps khat_strength low_stock_below more_images name previous_price price reason_of_change serving_note size slug stock_quantity sweetened_with tagline updated_at',
  },
  search_synonyms: { insert: 'means word', update: 'means word' },
  discount_codes: {
    insert: 'amount_cents code ends_at is_active max_uses max_uses_per_phone minimum_cents percent starts_at',
    update:
      'amount_cents code ends_at is_active max_uses max_uses_per_phone minimum_cents percent starts_at updated_at',
  },
  delivery_areas: {
    insert: 'fee_cents is_active name needs_agreement promise_from_minutes promise_to_minutes spellings',
    update:
      'fee_cents is_active name needs_agreement promise_from_minutes promise_to_minutes spellings updated_at',
  },
  orders: { update: 'status updated_at' },
  deliveries: {
    insert: 'delivery_notes delivery_person delivery_phone delivery_status delivery_vehicle order_id',
    update:
      'delivery_notes delivery_person delivery_phone delivery_status delivery_time delivery_vehicle pickup_time updated_at',
  },
  inquiries: { insert: 'email message name phone subject' },
  message_templates: { update: 'body is_on subject updated_at' },
  reply_templates: { insert: 'body title', update: 'body title updated_at' },
  shop_texts: { update: 'body title updated_at' },
};

const allowed = ({ select, inserts, updates, deletes }: MatrixRow): Record<Verb, Person[] | 'no one'> => ({
  select,
  insert: inserts,
  update: updates,
  delete: deletes,
});
const statementFor = ({ table, where, set, insert }: MatrixRow): Record<Verb, string> => {
  const name = table.includes('.') ? table : `public.${table}`;
  return {
    select: `select from ${name} where ${where}`,
    insert: `insert into ${name} ${insert}`,
    update: `update ${name} set ${set} where ${where}`,
    delete: `delete from ${name} where ${where}`,
  };
};

class Undo extends Error {}

/** Whether a statement succeeds for a person. Rolled back. */
async function succeeds(database: Database, person: Person, statement: string): Promise<boolean> {
  let touched = 0;
  try {
    await asRole(database, people[person], async (session) => {
      // The storage service sets this before it deletes; without it no statement may.
      await session.query(`select set_config('storage.allow_delete_query', 'true', true)`);
      touched = (await session.query(statement)).rowCount;
      throw new Undo();
    });
  } catch (thrown) {
    if (thrown instanceof Undo) return touched > 0;
    if (thrown instanceof DatabaseError && thrown.code === '42501') return false;
    // Permissions are checked before uniqueness: a violated key shows that the person may insert the single row of settings. They are
    // checked before references, too: a person who may delete a bucket must first empty it.
    if (thrown instanceof DatabaseError && ['23505', '23503'].includes(thrown.code)) return true;
    throw thrown;
  }
  return false;
}

describe.each(testDatabases())('on %s', (kind) => {
  const { database, queryAs, readRows, readRow, readValue, place, pay, asStaff, callAs } = setUpShop(kind);
  beforeAll(async () => {
    await database.execute(`
      insert into auth.users (id, email) values ('${id(9)}', 'new@jani.example');
      insert into public.categories (id, name, is_active) values ('${id(1)}', 'Active', true), ('${id(2)}', 'Inactive', false);
      insert into public.discount_codes (code, percent) values ('JANI10', 10);
      insert into public.delivery_areas (name, is_active) values ('Closed area', false);
      insert into private.delivery_estimates (deliveries, median_minutes, p90_minutes) values (20, 30, 45);
      insert into public.riders (id, name, phone, vehicle) values ('${id(1)}', 'Brian', '+254711000001', 'Motorbike');
      insert into public.rider_links (id, rider_id, secret_hash, expires_at) values ('${id(1)}', '${id(1)}', repeat('a', 64), now());
      insert into private.rider_presses (press_key, link_id, delivery_id, request_hash) values ('${id(1)}', '${id(1)}', '${id(1)}', 'a');
      insert into public.products (id, name, slug, price, stock_quantity, is_active, brand)
        values ('${id(1)}', 'Active', 'active', 100, 5, true, 'Sold'), ('${id(2)}', 'Inactive', 'inactive', 100, 5, false, 'Secret');
      insert into public.stock_alerts (product_id, phone) values ('${id(1)}', '+254712345678');
      insert into public.orders
        (id, tracking_number, customer_name, customer_email, customer_phone, shipping_address, delivery_fee, total_amount)
        select ('f0000000-0000-4000-8000-00000000000' || n)::uuid, 'JJ-20261121-100' || n, 'Amina', 'a@b.example', '+254712345678', 'Karen', 100, 200
        from generate_series(1, 3) as n;
      insert into public.order_items (id, order_id, product_name, quantity, unit_price) values ('${id(1)}', '${id(2)}', 'Drink', 1, 100);
      insert into public.payments (id, order_id, phone, charge_cents, status) values ('${id(1)}', '${id(2)}', '+254712345678', 200, 'processing');
      insert into private.payment_secrets (payment_id, callback_secret) values ('${id(1)}', 'secret');
      insert into private.order_networks (order_id, network) values ('${id(1)}', '192.0.2.1');
      insert into private.unpaid_holds (order_id, product_id, share_of_units, is_prompted, held_until) values ('${id(1)}', '${id(1)}', 1, false, now());
      insert into private.newsletter_mailed (mailbox_hash) values ('\\x00');
      insert into private.hold_time (subject, product_id, counts_until, held) values ('placed', '${id(1)}', now(), '1 minute');
      insert into private.held_units (product_id, quantity) values ('${id(1)}', 1);
      insert into public.payment_messages (payment_id, source, body) values ('${id(1)}', 'push', '{}');
      insert into private.storefront_tokens (token_hash) values (repeat('a', 64));
      insert into private.till_secret default values;
      insert into public.notices (id, kind, event_key) values ('${id(1)}', 'inquiry', 'any');
      insert into public.push_subscriptions (id, user_id, endpoint, p256dh, auth_secret, device, kinds)
        select case name when 'staff' then '${id(1)}'::uuid else '${id(2)}' end, user_id, 'https://push.example/' || name,
          'B' || repeat('a', 86), repeat('b', 22), 'Tablet', '{}'
        from (values ('staff', '${personIds.staff}'::uuid), ('former', '${personIds['former staff']}')) as device (name, user_id);
      insert into private.push_keys (public_key, private_key) values ('public', 'private');
      insert into private.push_queue (notice_id, subscription_id, due_at) values ('${id(1)}', '${id(1)}', now());
      insert into private.mpesa_registrations (kind) values ('till');
      insert into public.statement_pulls (window_from, window_to, leased_until, outcome, finished_at, payments)
        values (now() - interval '1 day', now(), now(), 'complete', now(), 7);
      insert into public.reconciliation_events (receipt, kind) values ('UKL1234567', 'accepted');
      insert into public.price_changes (from_cents, to_cents) values (4711, 4712);
      insert into public.order_pauses (reason) values ('rain');
      insert into public.stock_changes (product_id, from_units, to_units, cause) values ('${id(1)}', 4711, 4712, 'edited');
      insert into public.mpesa_transactions (receipt, received_cents, transacted_at) values ('UKL1234567', 100, now());
      insert into public.messages_to_check (source, problem, body, digest) values ('statement', 'unreadable', '{}', 'any');
      insert into public.payments (id, purpose, phone, charge_cents, requested_by)
        values ('${id(4)}', 'test', '+254712345678', 100, '${personIds.staff}');
      insert into public.refunds (id, payment_id, receipt, refund_cents, reason, method, status)
        values ('${id(1)}', '${id(1)}', 'UKL1111111', 200, 'a reason', 'reversal', 'requested');
      insert into public.customer_notes (phone, notes) values ('+254712000001', 'Rings twice');
      insert into public.blocked_phones (person_hash, phone, reason) values ('hash', '+254712000001', 'Never there');
      insert into public.change_notes (id, payment_id, kind, amount_cents) values ('${id(1)}', '${id(1)}', 'credit', 100);
      insert into public.day_closes (day, totals, closed_by) values ('2026-11-21', '{}', '${personIds.staff}');
      insert into public.cash_counts (day, member, taken_cents, given_back_cents, counted_cents) values ('2026-11-21', '${id(1)}', 0, 0, 0);
      insert into private.refund_secrets (refund_id, result_secret) values ('${id(1)}', 'secret');
      insert into private.refund_limit_raises (raised_by, raised_from, raised_to) values ('${personIds.staff}', 1, 2);
      insert into private.staff_writes (id) values ('${id(1)}');
      insert into private.recovery_codes (user_id, code_hash) values ('${personIds.staff}', 'hash');
      insert into private.failed_prompts (phone, at) values ('+254712345678', now());
      insert into private.prompt_pause (code, caused_by, until) values ('2028', '', now());
      insert into private.prompt_incidents (code, is_refused) values ('2028', false);
      insert into private.mpesa_settings (digest) values ('digest');
      insert into public.deliveries (id, order_id) values ('${id(1)}', '${id(3)}');
      insert into public.orders
        (id, tracking_number, customer_name, customer_email, customer_phone, shipping_address, delivery_fee, total_amount, created_at, status)
        select ('f0000000-0000-4000-8000-00000000000' || n)::uuid, 'JJ-20261021-100' || n, 'Amina', 'a@b.example', '+254712345678', 'Karen', 100, 200,
          now() - interval '30 days', 'delivered'
        from generate_series(4, 5) as n;
      insert into public.order_items (id, order_id, product_name, quantity, unit_price) values ('${id(4)}', '${id(4)}', 'Drink', 1, 100);
      insert into public.ratings (order_id, stars) values ('${id(1)}', 5), ('${id(4)}', 3);
      insert into public.payments (id, order_id, phone, charge_cents, status) values ('${id(5)}', '${id(4)}', '+254712345678', 200, 'failed');
      insert into public.change_notes (id, payment_id, kind, amount_cents) values ('${id(4)}', '${id(5)}', 'credit', 100);
      insert into public.deliveries (id, order_id, created_at) values ('${id(4)}', '${id(4)}', now() - interval '30 days');
      insert into public.inquiries (id, name, email, message) values ('${id(1)}', 'Amina', 'a@b.example', 'Hello');
      insert into public.inquiry_answers (inquiry_id, way, answered_by) values ('${id(1)}', 'elsewhere', 'staff@jani.example');
      insert into public.newsletter_subscriptions (id, email) values ('${id(1)}', 'a@b.example');
      insert into private.newsletter_tokens (token_hash, subscription_id, purpose) values ('a', '${id(1)}', 'confirm');
      insert into private.order_keys (idempotency_key, request_hash, order_id) values ('${id(1)}', 'hash', '${id(1)}');
      insert into public.outbox_messages (order_id, kind, event_key, channel, recipient, order_number, tracking_number, customer_name)
        values ('${id(1)}', 'order_paid', 'any', 'mail', 'a@b.example', 'ORD-1', 'JJ-20261121-1001', 'Amina');
      insert into private.outbox_queue (message_id, channel, due_at) select id, channel, now() from public.outbox_messages;
      insert into private.status_changes (order_id, undo_until, state_before, state_after)
        values ('${id(1)}', now(), '{}', '{}');
      insert into private.messages_sent (day, channel, part) values ('2026-11-21', 'mail', 0);
      insert into public.personal_data_requests (kind, person_hash, counts) values ('export', 'hash', '{}');
      insert into public.page_views values ('2026-11-21', '/', 2);
      insert into public.audit_events (kind, subject) values ('member_changed', 'any');
      insert into public.backups (started_at, outcome, problem) values (now(), 'failed', 'full');
      insert into public.backup_downloads (backup_id, file_name, downloaded_by_email, token_hash)
        values (1, 'jani-a.tar.gz', 'a@b.example', 'a');
      insert into private.ended_pay_links (order_id) values ('${id(1)}');
      insert into private.rate_limits values ('bucket', 'subject', now(), 1);
      insert into private.network_paid_orders (network, within, window_start, window_end, orders)
        values ('192.0.2.1', '1 day', now(), now(), 1);
      insert into private.limits values ('any', 1, '1 minute');
      insert into private.daraja_tokens (account) values ('a');
      insert into storage.buckets (id, name, public) values ('other', 'other', true);
      insert into storage.objects (id, bucket_id, name) values
        ('${id(1)}', 'product-images', 'products/a.png'), ('${id(2)}', 'product-images', 'a.png'),
        ('${id(3)}', 'product-images', 'other/products/a.png'), ('${id(4)}', 'other', 'products/a.png');
    `);
  });

  describe.each([...matrix, ...storageMatrix])('$table, a row $row', (row) => {
    test.each(verbs)('%s', async (verb) => {
      const allowedTo = allowed(row)[verb];
      const can = allowedTo === 'no one' ? [] : allowedTo;
      if (allowedTo === 'no one') {
        // The statement is valid: it fails because of the person.
        expect(await readRows(`explain ${statementFor(row)[verb]}`)).not.toEqual([]);
      } else {
        expect(can.length, 'at least one person can (positive control)').toBeGreaterThan(0);
      }
      const found: Record<string, boolean> = {};
      for (const person of everyone) {
        found[person] = await succeeds(database, person, statementFor(row)[verb]);
      }
      expect(found).toEqual(Object.fromEntries(everyone.map((person) => [person, can.includes(person)])));
    });
  });

  test('staff cannot move an image out of the folder of products, or from another bucket into it', async () => {
    const move = (person: Person, which: number, bucket: string, name: string) =>
      succeeds(
        database,
        person,
        `update storage.objects set bucket_id = '${bucket}', name = '${name}' where id = '${id(which)}'`,
      );
    expect(await move('staff', 1, 'product-images', 'products/b.png')).toBe(true);
    expect(await move('staff', 1, 'product-images', 'b.png')).toBe(false);
    expect(await move('staff', 1, 'other', 'products/b.png')).toBe(false);
    expect(await move('staff', 4, 'product-images', 'products/b.png')).toBe(false);
    expect(await move('service', 4, 'product-images', 'products/b.png')).toBe(true);
  });

  test('no statement deletes a row with a file, not even with the service role', async () => {
    const attempt = queryAs('service', `delete from storage.objects where id = '${id(1)}'`);
    await expect(attempt).rejects.toMatchObject({
      code: '42501',
      message: expect.stringMatching(/Use the Storage API/),
    });
  });

  test('private topics are open to the shop only, and staff can send to public ones', async () => {
    const send = (extension: string, isPrivate: boolean) =>
      `insert into realtime.messages (topic, extension, private) values ('back-office', '${extension}', ${isPrivate})`;
    await database.execute(send('broadcast', true));
    for (const person of everyone) {
      const found = [
        await succeeds(database, person, `select from realtime.messages where topic = 'back-office'`),
        await succeeds(database, person, send('broadcast', true)),
        await succeeds(database, person, send('presence', true)),
        await succeeds(database, person, send('presence', false)),
      ];
      expect(found, person).toEqual(Array(4).fill(person === 'service'));
      expect(await succeeds(database, person, send('broadcast', false)), person).toBe(
        allRoles.includes(person),
      );
    }
    const { rows } = await database.query(
      `select polname from pg_policy where polrelid = 'realtime.messages'::regclass`,
    );
    expect(rows).toEqual([{ polname: 'Staff send broadcasts to public topics' }]);
  });

  test('no API role reads or writes the log of live changes', async () => {
    expect((await database.query('select from realtime.changes limit 1')).rowCount).toBe(1);
    for (const person of everyone) {
      const found = [
        await succeeds(database, person, 'select from realtime.changes limit 1'),
        await succeeds(
          database,
          person,
          `insert into realtime.changes (relation, table_schema, table_name, type) values (1, 'a', 'b', 'DELETE')`,
        ),
        await succeeds(database, person, 'delete from realtime.changes'),
      ];
      expect(found, person).toEqual([false, false, false]);
    }
  });

  test('the matrix contains every table and view', async () => {
    const { rows } = await database.query<{ name: string }>(
      `select relname as name from pg_class
       where relnamespace = 'public'::regnamespace and relkind in ('r', 'p', 'v', 'm', 'f') order by 1`,
    );
    expect([...new Set(matrix.map(({ table }) => table))].sort()).toEqual(rows.map(({ name }) => name));
  });

  test('every table of the shop has row level security', async () => {
    const { rows } = await database.query(
      `select oid::regclass::text as name from pg_class
       where relnamespace in ('public'::regnamespace, 'private'::regnamespace)
         and relkind in ('r', 'p') and not relrowsecurity`,
    );
    expect(rows).toEqual([]);
  });

  test('exactly the listed columns can be written', async () => {
    const { rows } = await database.query<{ role: string; table: string; verb: string; columns: string }>(
      `select role, c.relname as table, verb, string_agg(a.attname, ' ' order by a.attname) as columns
       from pg_class c
       join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
       cross join unnest(array['anon', 'authenticated']) as role
       cross join unnest(array['insert', 'update']) as verb
       where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p', 'v')
         and has_column_privilege(role, c.oid, a.attnum, verb)
       group by role, c.relname, verb`,
    );
    const expected = Object.entries(writableColumns).flatMap(([table, columns]) =>
      Object.entries(columns).map(([verb, names]) => ({
        role: 'authenticated',
        table,
        verb,
        columns: names,
      })),
    );
    const inquiries = { role: 'anon', table: 'inquiries', verb: 'insert' };
    expected.push({ ...inquiries, columns: writableColumns.inquiries?.insert ?? '' });
    const inOrder = (grants: typeof expected) =>
      grants.map((grant) => `${grant.role} ${grant.verb} ${grant.table}: ${grant.columns}`).sort();
    expect(inOrder(rows)).toEqual(inOrder(expected));
  });

  test("staff set an order's status but not its total, its payment status or its customer", async () => {
    const update = (set: string) =>
      succeeds(database, 'staff', `update public.orders set ${set} where id = '${id(1)}'`);
    expect(await update(`status = 'processing'`)).toBe(true);
    expect(await update('total_amount = 1')).toBe(false);
    expect(await update(`payment_status = 'paid'`)).toBe(false);
    expect(await update(`customer_phone = '+254712345670'`)).toBe(false);
  });

  test("no visitor reads an order's id, which paying needs, in any column granted to them", async () => {
    const { rows: readable } = await database.query<{ table: string; columns: string }>(
      `select format('%I.%I', c.relnamespace::regnamespace, c.relname) as table,
              string_agg(quote_ident(a.attname), ', ' order by a.attnum) as columns
       from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
       where c.relnamespace in ('public'::regnamespace, 'realtime'::regnamespace, 'storage'::regnamespace)
         and c.relkind in ('r', 'p', 'v', 'm')
         and has_schema_privilege('anon', c.relnamespace, 'usage')
         and has_column_privilege('anon', c.oid, a.attnum, 'select')
       group by c.oid order by 1`,
    );
    // The realtime service needs this grant; policies show visitors no row.
    expect(readable).toContainEqual({ table: 'public.orders', columns: 'id' });
    const seenBy = async (person: Person) => {
      const seen: string[] = [];
      for (const { table, columns } of readable) {
        const { rows } = await queryAs<{ row: string }>(
          person,
          `select to_jsonb(shown)::text as row from (select ${columns} from ${table}) as shown`,
        );
        seen.push(...rows.map(({ row }) => row));
      }
      return seen.join('\n');
    };
    const order = randomUUID();
    await database.query(
      `insert into public.orders (id, tracking_number, customer_name, customer_email, customer_phone, shipping_address, delivery_fee, total_amount)
       values ($1, 'JJ-20261121-7777', 'A', 'a@b.example', '+254712345678', 'Karen', 100, 200)`,
      [order],
    );
    // Subscribers and staff are notified of it.
    await database.query(`update public.orders set status = 'processing' where id = $1`, [order]);
    for (const person of ['visitor', 'customer', 'former staff', 'half-way staff'] as const) {
      expect(await seenBy(person), person).not.toContain(order);
    }
    expect(await seenBy('staff')).toContain(order);
    await database.query('delete from public.orders where id = $1', [order]);
  });

  test('a visitor cannot insert a read inquiry or read inquiries', async () => {
    const send = (columns: string, values: string, returning = '') =>
      succeeds(
        database,
        'visitor',
        `insert into public.inquiries (name, email, message${columns}) values ('A', 'a@b.example', 'Hi'${values}) ${returning}`,
      );
    expect(await send('', '')).toBe(true);
    expect(await send(', is_read', ', true')).toBe(false);
    expect(await send('', '', 'returning id')).toBe(false);
  });

  test('only staff read settings that pages do not show', async () => {
    for (const person of ['visitor', 'customer', 'former staff', 'half-way staff', 'staff'] as const) {
      const read = (columns: string) =>
        succeeds(database, person, `select ${columns} from public.store_settings`);
      expect(
        await read(
          `id, store_name, support_phone, chat_phone, support_email, instagram_url, facebook_url, tiktok_url,
           delivery_fee, reservation_minutes, till_number, paybill_number, order_details_months, inquiries_months,
           payment_messages_months, requires_terms_tick, payment_limit, seller_address, seller_registration, kra_pin, updated_at`,
        ),
        person,
      ).toBe(true);
      // Staff and other users have the same role, so staff read the rest with a procedure.
      for (const columns of [
        'refund_approval_above',
        'refuses_unknown_payments',
        'unpaid_orders_per_phone',
        'reserved_share_percent',
        '*',
      ]) {
        expect(await read(columns), `${person} ${columns}`).toBe(false);
      }
      if (person === 'staff') continue;
      await expect(queryAs(person, 'select public.staff_settings()'), `${person} asks`).rejects.toThrow(
        person === 'visitor' ? /permission denied/ : /Only staff/,
      );
    }
    const { rows } = await queryAs('staff', 'select (public.staff_settings()).*');
    expect(rows).toEqual(await readRows('select * from public.store_settings'));
  });

  test('no API role reads the private tables', async () => {
    const { rows } = await database.query<{ name: string }>(
      `select relname as name from pg_class where relnamespace = 'private'::regnamespace and relkind in ('r', 'p', 'S')`,
    );
    expect(rows.length).toBeGreaterThan(0);
    for (const { name } of rows) {
      expect((await database.query(`select from private.${name} limit 1`)).rowCount).toBe(1);
      for (const person of everyone) {
        expect(await succeeds(database, person, `select from private.${name}`), `${person} ${name}`).toBe(
          false,
        );
      }
    }
  });

  test('no API role calls the private functions, except for one through indexes', async () => {
    const { rows } = await database.query<{ name: string; callers: string[] }>(
      `select p.oid::regprocedure::text as name, array_agg(role) as callers
       from pg_proc p cross join unnest(array['anon', 'authenticated', 'service_role']) as role
       where p.pronamespace = 'private'::regnamespace
         and (has_function_privilege(role, p.oid, 'execute') or has_schema_privilege(role, 'private', 'usage'))
       group by 1`,
    );
    expect(rows).toEqual([
      // Their own changes of orders and deliveries write the indexes by words.
      { name: 'private.without_accents(text)', callers: ['authenticated', 'service_role'] },
    ]);
    const call = 'select private.without_accents($1)';
    expect((await database.query(call, ['É'])).rows).toEqual([{ without_accents: 'e' }]);
    for (const person of everyone) {
      await expect(queryAs(person, call, ['É'])).rejects.toMatchObject({ code: '42501' });
    }
  });

  test('each procedure is open to exactly the listed people', async () => {
    const { rows } = await database.query<{ name: string; roles: string[] }>(
      `select p.proname as name,
              array(select role from unnest(array['anon', 'authenticated', 'service_role']) as role
                    where has_function_privilege(role, p.oid, 'execute')) as roles
       from pg_proc p where p.pronamespace = 'public'::regnamespace order by 1`,
    );
    const rolesOf = (callers: Person[]) => [...new Set(callers.map((person) => people[person].role))].sort();
    expect(Object.fromEntries(rows.map(({ name, roles }) => [name, [...roles].sort()]))).toEqual(
      Object.fromEntries(Object.entries(procedures).map(([name, callers]) => [name, rolesOf(callers)])),
    );
  });

  test('a procedure without a grant rejects the call', async () => {
    const expire = 'select public.expire_reservations()';
    const found = await Promise.all(everyone.map((person) => succeeds(database, person, expire)));
    expect(found).toEqual(everyone.map((person) => person === 'service'));
  });

  /** What the source of a procedure says of its area. */
  const areasOfProcedures = async () => {
    const { rows } = await database.query<{
      name: string;
      area: string | null;
      is_for_visitors: boolean;
      call: string;
    }>(
      `select p.proname as name, substring(p.prosrc from 'private\\.expect_staff(?:_member)?\\(''([a-z_]+)''\\)') as area,
              has_function_privilege('anon', p.oid, 'execute') as is_for_visitors,
              format('public.%I(%s)', p.proname, (
                select string_agg(format('null::%s', a.type::regtype), ', ' order by a.place)
                from unnest(p.proargtypes) with ordinality as a (type, place)
              )) as call
       from pg_proc as p
       where p.pronamespace = 'public'::regnamespace and has_function_privilege('authenticated', p.oid, 'execute') order by 1`,
    );
    return rows;
  };

  test('a procedure for staff names its area, and every area belongs to a role', async () => {
    const found = await areasOfProcedures();
    const nameless = found.filter(({ area, is_for_visitors }) => area === null && !is_for_visitors);
    // What signed-in users may ask about themselves, and what runs with their own rights.
    expect(nameless.map(({ name }) => name)).toEqual([
      'count_product_orders',
      'count_recovery_codes',
      'counted_cents',
      'is_admin',
      'is_recent_order',
      'list_own_sessions',
      'may',
      'nth_order',
      // Without the second factor a member has no area yet.
      'use_recovery_code',
    ]);
    const { rows } = await database.query<{ name: string }>(
      `select proname as name from pg_proc
       where pronamespace = 'public'::regnamespace and proname in ('count_product_orders', 'counted_cents', 'nth_order')
         and not prosecdef`,
    );
    expect(rows).toHaveLength(3);
    const named = new Set(found.flatMap(({ area }) => area ?? []));
    expect([...named].filter((area) => !areasOf.owner.some((known) => known === area))).toEqual([]);
  });

  test('screens and database agree on the areas of each role', async () => {
    const { rows } = await database.query<{ role: string; areas: string[] }>(
      `select role, to_jsonb(private.areas_of(role)) as areas from unnest(array['owner', 'staff', 'counter']) as role`,
    );
    expect(Object.fromEntries(rows.map(({ role, areas }) => [role, areas]))).toEqual(areasOf);
    const may = async (person: Person) => {
      const { rows } = await queryAs<{ area: string }>(
        person,
        `select area from unnest('{${[...areasOf.owner, 'unknown'].join()}}'::text[]) with ordinality as a (area, place)
         where public.may(area) order by place`,
      );
      return rows.map(({ area }) => area);
    };
    const found: Record<string, string[]> = {};
    for (const person of signedIn) found[person] = await may(person);
    expect(found).toEqual({
      customer: [],
      'former staff': [],
      'half-way staff': [],
      staff: areasOf.owner,
      assistant: areasOf.staff,
      counter: areasOf.counter,
      service: [],
    });
  });

  test('each role calls the procedures of its areas and no other', async () => {
    const procedures = (await areasOfProcedures()).filter(({ area }) => area !== null);
    expect(procedures.length).toBeGreaterThan(60);
    const isRefused = (person: Person, call: string) =>
      asRole(database, people[person], async (session) => {
        await session.query(`select ${call}`);
        throw new Undo();
      }).catch((thrown: unknown) => {
        if (thrown instanceof DatabaseError) return thrown.detail === 'not_in_role';
        if (thrown instanceof Undo) return false;
        throw thrown;
      });
    const roles = { staff: areasOf.owner, assistant: areasOf.staff, counter: areasOf.counter } as const;
    for (const [person, areas] of Object.entries(roles) as [keyof typeof roles, readonly string[]][]) {
      const refused: string[] = [];
      for (const { name, call } of procedures) if (await isRefused(person, call)) refused.push(name);
      expect(refused, person).toEqual(
        procedures.filter(({ area }) => area && !areas.includes(area)).map(({ name }) => name),
      );
    }
  });

  test('the counter reads no order that was closed more than seven days ago, wherever it asks', async () => {
    const seenBy = async (person: Person) => {
      const { rows } = await queryAs<{ id: string; order_id: string }>(
        person,
        'select id, order_id from public.search_deliveries()',
      );
      return rows.map(({ id }) => id);
    };
    expect(await seenBy('counter')).toEqual([id(1)]);
    expect((await seenBy('assistant')).sort()).toEqual([id(1), id(4)]);
    const count = async (person: Person) =>
      (await queryAs<{ count: number }>(person, 'select public.count_deliveries() as count')).rows[0]?.count;
    expect([await count('counter'), await count('assistant')]).toEqual([1, 2]);
    // Still open, it is work to do.
    await database.query(`update public.orders set status = 'processing' where id = $1`, [id(4)]);
    const { rows } = await queryAs('counter', `select id from public.orders where id = '${id(4)}'`);
    expect(rows).toHaveLength(1);
  });

  describe('the secret of a rider', () => {
    interface Job {
      id: string;
      phone?: string;
    }
    const delivery = () => ({ phone: newPhone(), order: '', key: '', id: '' });
    const [own, other, unassigned] = [delivery(), delivery(), delivery()];
    /** A secret of each kind, by what became of its link. */
    const secrets: Record<string, string | null> = {};
    const valid = { secret: '' };
    const opening = ['valid'];
    const closed = [
      'replaced by a newer one',
      'ended by staff',
      'after its shift',
      'of an inactive rider',
      'of a deleted rider',
      'that is the stored hash of a valid one',
      'that is the id of a valid link',
      'that is the access key of the order',
      'with the same beginning as a valid one',
      'in other letters than a valid one',
      'that is empty',
      'that is missing',
      'of 10,000 characters',
    ];
    const addRider = (name: string) =>
      asStaff<{ id: string; phone: string; updated_at: string }>('save_rider', {
        name,
        phone: newPhone(),
        vehicle: 'Motorbike',
      });
    const openLink = async (rider_id: string) =>
      (await asStaff<{ secret: string }>('open_rider_link', { rider_id })).secret;
    const press = (
      person: Person,
      secret: string | null,
      delivery_id: string,
      step = 'picked_up',
      address?: string,
    ) =>
      callAs<{ jobs: Job[]; press?: { outcome: string } }>(
        person,
        'rider_press',
        { secret, press_key: randomUUID(), delivery_id, step },
        address,
      );
    const statusOf = (delivery: { id: string }) =>
      readValue('select delivery_status from public.deliveries where id = $1', [delivery.id]);
    const refusalOf = (attempt: Promise<unknown>) =>
      attempt.then(
        () => null,
        (thrown: DatabaseError) => thrown.detail,
      );

    beforeAll(async () => {
      const product = await makeProduct(database, 100);
      const [brian, colleague] = [await addRider('Brian Otieno'), await addRider('Kamau Maina')];
      for (const delivery of [own, other, unassigned]) {
        const order = await place(product, { customer_phone: delivery.phone });
        await pay(order);
        Object.assign(delivery, {
          order: order.tracking_number,
          key: order.access_key,
          id: await readValue('select id from public.deliveries where order_id = $1', [order.id]),
        });
      }
      for (const [delivery, rider] of [
        [own, brian],
        [other, colleague],
      ] as const)
        await database.query(
          `update public.deliveries set delivery_status = 'assigned', delivery_person = 'Rider', delivery_phone = $2,
             delivery_vehicle = 'Motorbike' where id = $1`,
          [delivery.id, rider.phone],
        );
      secrets['replaced by a newer one'] = await openLink(brian.id);
      const secret = await openLink(brian.id);
      valid.secret = secret;
      secrets.valid = secret;
      const link = await readRow<{ id: string; secret_hash: string }>(
        'select id, secret_hash from public.rider_links where rider_id = $1 and revoked_at is null',
        [brian.id],
      );
      for (const [kind, end] of [
        ['ended by staff', 'update public.rider_links set revoked_at = now() where rider_id = $1'],
        ['after its shift', 'update public.rider_links set expires_at = now() where rider_id = $1'],
        ['of an inactive rider', 'update public.riders set is_active = false where id = $1'],
        ['of a deleted rider', 'delete from public.riders where id = $1'],
      ] as const) {
        const { id } = await addRider(kind);
        const ended = await openLink(id);
        // Positive control: it was valid.
        expect(await callAs('visitor', 'rider_page', { secret: ended })).toMatchObject({ jobs: [] });
        await database.query(end, [id]);
        secrets[kind] = ended;
      }
      Object.assign(secrets, {
        'that is the stored hash of a valid one': link?.secret_hash,
        'that is the id of a valid link': link?.id,
        'that is the access key of the order': own.key,
        'with the same beginning as a valid one': `${secret.slice(0, -1)}${secret.endsWith('A') ? 'B' : 'A'}`,
        'in other letters than a valid one': secret.replace(/[a-z]/gi, (letter) =>
          letter === letter.toLowerCase() ? letter.toUpperCase() : letter.toLowerCase(),
        ),
        'that is empty': '',
        'that is missing': null,
        'of 10,000 characters': secret.repeat(417),
      });
    });

    test.each([...opening, ...closed])('%s', async (name) => {
      const secret = secrets[name] ?? null;
      const isOpen = opening.includes(name);
      // The secret alone is the right: staff have no more with a wrong one, strangers no less with a valid one.
      for (const person of everyone) {
        const read = () => callAs<{ jobs: Job[] }>(person, 'rider_page', { secret });
        if (isOpen) {
          const jobs = (await read()).jobs;
          expect(
            jobs.map(({ id, phone }) => [id, phone]),
            person,
          ).toEqual([[own.id, own.phone.replace(/^0/, '+254')]]);
        } else {
          expect(await refusalOf(read()), person).toBe('rider_link_ended');
          expect(await refusalOf(press(person, secret, own.id)), person).toBe('rider_link_ended');
        }
        for (const delivery of [other, unassigned]) {
          const pressed = press(person, secret, delivery.id);
          if (isOpen) expect((await pressed).press?.outcome, person).toBe('not_yours');
          else expect(await refusalOf(pressed), person).toBe('rider_link_ended');
        }
      }
      expect([await statusOf(own), await statusOf(other), await statusOf(unassigned)]).toEqual([
        'assigned',
        'assigned',
        'pending',
      ]);
    });

    test('opens no order, and neither does anything that its page shows', async () => {
      const textsIn = (value: unknown): string[] =>
        typeof value === 'string'
          ? [value]
          : value && typeof value === 'object'
            ? Object.values(value).flatMap(textsIn)
            : [];
      const page = await callAs('visitor', 'rider_page', { secret: valid.secret });
      const known = [...new Set([valid.secret, ...textsIn(page)])];
      expect(known.length).toBeGreaterThan(10);
      const keysThatOpen = async (keys: (string | undefined)[]) => {
        const found: string[] = [];
        for (const access_key of keys) {
          const given = { tracking_number: own.order, access_key };
          const shown = [
            (await callAs<{ is_masked: boolean }>('visitor', 'track_order', given)).is_masked,
            (await callAs<unknown[]>('visitor', 'orders_by_access_key', { access_keys: [access_key] }))
              .length === 0,
          ];
          if (shown.includes(false)) found.push(access_key ?? '');
        }
        return found;
      };
      expect(await keysThatOpen(known)).toEqual([]);
      expect(await keysThatOpen([own.key])).toEqual([own.key]);
    });

    test('is guessed within the limit of a network alone, and beyond it nothing is read or stored', async () => {
      const [guesser, elsewhere] = ['203.0.113.41', '198.51.100.41'];
      const read = (secret: string | null, address: string) =>
        refusalOf(callAs('visitor', 'rider_page', { secret }, address));
      await database.query(
        `update private.limits set allowed = 5 where name in ('rider_pages', 'rider_presses')`,
      );
      const guesses: (string | null)[] = [];
      for (let guess = 0; guess < 8; guess += 1) guesses.push(await read(`guess-${guess}`, guesser));
      expect(guesses).toEqual([
        ...Array(5).fill('rider_link_ended'),
        ...Array(3).fill('too_many_rider_calls'),
      ]);
      // A secret that exists gets the same answer there, so that a guess beyond the limit tells nothing.
      expect(await read(valid.secret, guesser)).toBe('too_many_rider_calls');
      expect(await read(valid.secret, elsewhere)).toBeNull();
      const presses = () => readValue<number>('select count(*)::int from private.rider_presses');
      for (let guess = 0; guess < 5; guess += 1)
        expect(await refusalOf(press('visitor', `guess-${guess}`, own.id, 'picked_up', guesser))).toBe(
          'rider_link_ended',
        );
      const before = await presses();
      expect(await refusalOf(press('visitor', valid.secret, own.id, 'picked_up', guesser))).toBe(
        'too_many_rider_calls',
      );
      expect([await presses(), await statusOf(own)]).toEqual([before, 'assigned']);
      const pressed = await press('visitor', valid.secret, own.id, 'picked_up', elsewhere);
      expect([pressed.press?.outcome, await statusOf(own)]).toEqual(['done', 'picked_up']);
    });
  });

  test('security definer functions have an empty search path', async () => {
    const { rows } = await database.query(
      `select oid::regprocedure::text as name from pg_proc
       where pronamespace in ('public'::regnamespace, 'private'::regnamespace)
         and prosecdef and not coalesce('search_path=""' = any (proconfig), false)`,
    );
    expect(rows).toEqual([]);
  });

  test('only active staff count as staff', async () => {
    const found: Record<string, unknown> = {};
    for (const person of signedIn) {
      const { rows } = await queryAs<{ is_admin: boolean }>(person, 'select public.is_admin()');
      found[person] = rows[0]?.is_admin;
    }
    expect(found).toEqual({
      customer: false,
      'former staff': false,
      'half-way staff': false,
      staff: true,
      assistant: true,
      counter: true,
      service: false,
    });
  });

  test('staff with a second factor count only once they have passed it', async () => {
    const { rows } = await queryAs(
      secondStepPassed,
      'select public.is_admin(), exists (select from public.orders) as sees_orders',
    );
    expect(rows).toEqual([{ is_admin: true, sees_orders: true }]);
  });

  test('staff with an ended session no longer count, although their token is still valid', async () => {
    const from = (session: string) => ({ ...people.staff, session_id: session });
    const counts = async (session: string) => {
      const { rows } = await asRole(database, from(session), (reader) =>
        reader.query<{ is_admin: boolean }>('select public.is_admin()'),
      );
      return rows[0]?.is_admin;
    };
    await database.query(
      `insert into auth.sessions (id, user_id, refresh_token_hmac_key) values ($1, $2, ''), ($3, $4, '')`,
      [id(5), personIds.staff, id(6), personIds.customer],
    );
    expect(await counts(id(5))).toBe(true);
    expect(await counts(id(6)), 'the session of another user').toBe(false);
    // A session with a stolen refresh token: its row remains.
    await database.query('update auth.sessions set not_after = now() where id = $1', [id(5)]);
    expect(await counts(id(5)), 'a session that has come to its end').toBe(false);
    await database.query(`update auth.sessions set not_after = now() + interval '1 hour' where id = $1`, [
      id(5),
    ]);
    expect(await counts(id(5)), 'a session that will').toBe(true);
    await database.query('delete from auth.sessions where id in ($1, $2)', [id(5), id(6)]);
    expect(await counts(id(5))).toBe(false);
  });

  test('banned or deleted staff have no access, even with a valid token', async () => {
    const counts = async () => {
      const { rows } = await asRole(database, people.staff, (reader) =>
        reader.query<{ is_admin: boolean }>('select public.is_admin()'),
      );
      return rows[0]?.is_admin;
    };
    const set = (change: string) =>
      database.query(`update auth.users set ${change} where id = $1`, [personIds.staff]);
    await set(`banned_until = now() + interval '1 hour'`);
    expect(await counts(), 'banned').toBe(false);
    await set(`banned_until = now() - interval '1 hour'`);
    expect(await counts(), 'banned until an hour ago').toBe(true);
    await set('deleted_at = now()');
    expect(await counts(), 'deleted').toBe(false);
    await set('banned_until = null, deleted_at = null');
    expect(await counts()).toBe(true);
  });

  test('users see only their own sessions, the current one first', async () => {
    const session = (n: number, person: 'staff' | 'customer', notAfter: string) =>
      `('${id(n)}', '${personIds[person]}', now() - interval '${n} hours', 'Browser ${n}', '10.0.0.${n}', ${notAfter}, '')`;
    await database.execute(`
      insert into auth.sessions (id, user_id, created_at, user_agent, ip, not_after, refresh_token_hmac_key) values
        ${session(1, 'staff', 'null')}, ${session(2, 'staff', 'null')},
        ${session(3, 'staff', `now() - interval '1 hour'`)}, ${session(4, 'customer', 'null')};
    `);
    const seenBy = async (person: Person, from: number) => {
      const claims = { ...people[person], session_id: id(from) };
      const { rows } = await asRole(database, claims, (reader) =>
        reader.query('select user_agent, address, is_current from public.list_own_sessions()'),
      );
      return rows;
    };
    expect(await seenBy('staff', 2)).toEqual([
      { user_agent: 'Browser 2', address: '10.0.0.2', is_current: true },
      { user_agent: 'Browser 1', address: '10.0.0.1', is_current: false },
    ]);
    expect(await seenBy('customer', 4)).toEqual([
      { user_agent: 'Browser 4', address: '10.0.0.4', is_current: true },
    ]);
  });

  test('no request can use a role that is not allowed', () => {
    expect(() => asRole(database, { role: 'postgres', sub: randomUUID() }, async () => {})).toThrow();
  });
});
