-- Earlier versions keep working. They call place_order, begin_payment, note_change and answer_inquiry by the names of their arguments, all
-- of which these still have. They neither agree on cash nor use credit, and show a payment by either as one without a receipt; what they
-- note about change counts as before. They see an order with a discount by its total. They send the new kind of message as every other
-- verbatim one, and leave out a part of a template whose placeholder they do not know. Everyone who is staff becomes an owner, who may do
-- what staff could do before, and rows of admin_profiles without a role are owners, too.

alter table public.order_items add column position smallint not null default 1;
comment on column public.order_items.position is 'Place in the order, as the customer chose the drinks. Counted from 1.';
comment on column public.stock_changes.cause is
  'edited: by staff, or by the shop itself. ordered: an order took the units. All others returned the units of an order: its reservation ended, its customer changed its drinks, it was cancelled, its money was sent back, or its payment needs review.';

create type private.order_line as (product_id uuid, quantity integer, position smallint);

create type private.offered_line as (
  product_id uuid, quantity integer, position smallint, name text, price integer, stock_quantity integer, units_for_sale integer
);
comment on type private.offered_line is 'A line of an order with its product as it is now. name: null if it is not for sale.';

alter table public.payments add column received_from text, add column note text;
comment on column public.payments.received_from is 'Who handed over the cash: the rider. Null: the customer, and for other methods.';

alter table public.store_settings
  add column takes_cash boolean not null default true,
  add column offers_cash boolean not null default false;
comment on column public.store_settings.takes_cash is 'Whether staff may agree on cash at the door and note cash.';
comment on column public.store_settings.offers_cash is
  'Whether customers may choose cash at the door themselves (choose_cash).';
grant update (takes_cash, offers_cash) on public.store_settings to authenticated;
grant select (offers_cash) on public.store_settings to anon, authenticated;

insert into private.limits (name, allowed, within, per_paid_order) values ('cash_orders', 10, '1 day', 0.5);

alter table public.orders
  add column source text not null default 'storefront',
  add column is_collected boolean not null default false;
comment on column public.orders.customer_email is 'Empty for orders that staff entered without one: they cause no mails.';
comment on column public.orders.source is
  'How the order came: placed by the customer (storefront), or entered by staff for a caller, a chat or a customer in the shop.';
comment on column public.orders.is_collected is 'The customer takes it along at the shop: no delivery fee and no rider.';
comment on column public.orders.terms_accepted_at is
  'When the customer confirmed being 18 or older and accepted terms and privacy notice. Null: the form did not show them, or staff entered the order.';
comment on column public.payments.requested_by is 'The staff member who sent the prompt. Null: the customer did.';

create type public.pay_link as (tracking_number text, access_key text);
comment on type public.pay_link is 'What the link of an order consists of (domain/order-link.ts).';

create type public.known_address as (address text, notes text);

create type public.past_item as (product_id uuid, product_name text, quantity integer, unit_price integer);

create type public.past_order as (
  id uuid, order_number text, created_at timestamptz, status text, payment_status text, total_amount integer, items public.past_item[]
);

create type public.known_customer as (
  phone text, name text, email text, orders integer, received_cents bigint,
  addresses public.known_address[], last_orders public.past_order[]
);
comment on type public.known_customer is
  'A customer as staff need them for another order. email: empty if none is known. orders: without cancelled ones. received_cents: what was paid for all orders and not sent back. addresses: the last three different ones, with the notes of the last order there. last_orders: the last five. Newest first.';

create type private.money_row as (
  id uuid, happened_at timestamptz, kind text, payment_id uuid, order_id uuid, receipt text,
  received_cents integer, refunded_cents integer, kept_cents bigint, member uuid, received_from text, note text
);

create type public.money_entry as (
  id uuid, happened_at timestamptz, kind text, order_id uuid, order_number text, tracking_number text, customer_name text,
  customer_phone text, receipt text, received_cents integer, refunded_cents integer, kept_cents bigint, delivery_fee integer,
  items text, member_email text, received_from text, note text
);

create type public.handed_over as (person text, payments bigint, cents bigint);
comment on type public.handed_over is 'Cash that a rider handed over. person: null for customers.';

create type private.cash_count as (member uuid, expected_cents bigint, counted_cents bigint, reason text);

create type public.report_day as (
  day date, orders bigint, sold bigint, sold_cents bigint, received_cents bigint, refunded_cents bigint, net_cents bigint
);

create type public.report_drink as (name text, brand text, orders bigint, units bigint, cents bigint);

create type public.report_hour as (hour integer, orders bigint, cents bigint);

create type public.report_area as (area text, orders bigint, cents bigint);

create type public.report_rider as (rider text, orders bigint, delivered bigint, failures bigint, cash_cents bigint);

create type public.report_refund as (kind text, reason text, refunds bigint, cents bigint);

create type public.report_prompt as (status text, result_code text, prompts bigint);

create type public.report as (
  days public.report_day[], drinks public.report_drink[], hours public.report_hour[], areas public.report_area[],
  riders public.report_rider[], refunds public.report_refund[], prompts public.report_prompt[]
);
comment on type public.report is
  'What was sold and received in a span of days in Nairobi, in cents. Orders, drinks, hours, areas, riders and prompts count by the day on which the order was placed. Sold orders are those that are paid. Received and refunded money counts by the day on which it moved, as in day_totals.';

alter table public.orders
  add column discount_cents integer not null default 0,
  add column discount_code text;
comment on column public.orders.discount_cents is 'What the discount code takes off the price of the drinks; total_amount is what remains to pay.';
comment on column public.orders.discount_code is 'The discount code that the order uses. Null: none.';

insert into private.limits (name, allowed, within, per_paid_order) values ('discount_codes', 60, '1 hour', 0);

alter table public.change_notes
  add column way text,
  add column is_part_refund boolean not null default false,
  add column used_for uuid;

create type public.kept_money as (
  id uuid, order_id uuid, order_number text, customer_name text, customer_phone text, created_at timestamptz,
  kept_cents bigint, used_cents bigint, returned_cents bigint, owed_cents bigint, used_orders text
);
comment on type public.kept_money is
  'What was kept of one payment (id) for its customer since created_at, in cents: kept_cents = used_cents + returned_cents + owed_cents. returned_cents: also what went back with a refund of the whole payment. used_orders: numbers of the orders that it paid.';

create type public.listed_customer as (
  id uuid, created_at timestamptz, phone text, name text, orders integer, spent_cents bigint, credit_cents bigint, is_blocked boolean
);
comment on type public.listed_customer is
  'A customer in the list. id, created_at: of the last order. orders: without cancelled ones. spent_cents: what came for the orders, less what went back and what is owed. credit_cents: what is owed.';

create type public.owed_credit as (payment_id uuid, order_id uuid, order_number text, owed_cents integer, noted_at timestamptz);
comment on type public.owed_credit is 'What is owed of one payment, in cents, and the order that it came for.';

create type public.shown_customer as (
  phone text, name text, email text, orders integer, cancelled integer, spent_cents bigint, credit_cents bigint, first_order_at timestamptz,
  notes text, notes_by text, notes_at timestamptz, is_blocked boolean, block_reason text, blocked_by text, blocked_at timestamptz
);
comment on type public.shown_customer is
  'A customer as staff see them: sums as in listed_customer. name: of the last order; null: no order has the phone. block_reason: null although is_blocked: an erasure removed it.';
comment on column public.orders.payment_method is
  'How the order was paid; credit: by credit alone. cash while it is unpaid: staff agreed with the customer on cash at the door. pending: not known yet.';
comment on column public.outbox_messages.event_key is
  'Event key: distinguishes messages of one kind and order. Empty, the id of the refund or of the note of change (change_notes), or the number of payments that were taken back or of failed deliveries; of newsletter mails the subscription''s id; of replies the inquiry''s id; of messages to staff the id of the incident or the refund; of a repeated message of an order its own id.';
comment on column public.payments.method is
  'prompt: a prompt for charge_cents was sent. till: money without a prompt, reported by staff or M-PESA; its phone is unknown (''''). cash: a staff member (confirmed_by) took it. credit: a staff member used what the shop owed to the customer (change_notes.used_for); no money came. cash and credit that failed were taken back.';
comment on column public.payments.note is 'Why cash differs from the charge of its order, or why cash or credit was taken back.';
comment on column public.outbox_messages.order_id is 'Null for newsletter mails, replies to inquiries, messages to staff and tests.';

alter table public.backups
  add column check_requested_at timestamptz,
  add column checked_at timestamptz,
  add column check_problem text;
comment on column public.backups.check_requested_at is 'When staff last asked to restore it once more, as a check.';
comment on column public.backups.checked_at is 'When that check last ended. Null: never since it was made.';
comment on column public.backups.check_problem is 'What the last check found. Null: nothing.';

alter table public.admin_profiles
  add column role text not null default 'owner',
  add column name text not null default '',
  add column invited_at timestamptz,
  add column invited_by uuid;
comment on column public.admin_profiles.role is
  'What a member may do (private.areas_of). Default: owner, because rows without a role come from the command for the first owner.';
comment on column public.admin_profiles.invited_at is 'When the last invitation was sent. Null: the account was not invited from the panel.';
comment on column public.admin_profiles.name is 'Shown to colleagues instead of the email address. Empty: none was given.';

alter table public.refunds
  add column approved_at timestamptz,
  add column approved_alone boolean not null default false;
comment on column public.refunds.approved_alone is
  'The requester approved it, as the only owner, after a second factor and ten minutes.';
comment on type public.payment_health is
  'pause: null while prompts work; after its until the next prompt is sent as a probe. refunds_to_approve_by_me: those that other staff requested; 0 for a role that may not approve. limit_raise: the last one of the past week, amounts in cents; current_limit applies now.';

create type public.audit_row as (
  id text, created_at timestamptz, area text, kind text, actor_id uuid, actor_email text, subject text, before jsonb, after jsonb
);

-- Write the statements for what differs here:
-- column change_notes.is_part_refund
--   before: 11 | boolean | t | | | false
--   after:  11 | boolean | t | | | false | Part of the price went back, for example for a missing drink: not what was owed as change.
-- column change_notes.used_for
--   before: 12 | uuid | f | | 
--   after:  12 | uuid | f | | | The payment of method credit on the order that the credit paid. Without a foreign key, as payments embed their notes by the only one.
-- column change_notes.way
--   before: 10 | text | f | | 
--   after:  10 | text | f | | | How returned change went back: by M-PESA, with its receipt, or in cash. Null: for other kinds, and where earlier versions noted it.
-- published supabase_realtime public.day_closes
--   before: (none)
--   after:  
-- published supabase_realtime public.discount_codes
--   before: (none)
--   after:  

drop trigger profiles_after_change on public.admin_profiles;

drop trigger shop_texts_after_change on public.shop_texts;

alter table public.change_notes drop constraint "change is credit, to return, or returned";

alter table public.order_events drop constraint "a kind of event is known";

alter table public.outbox_messages drop constraint "a kind of message is known";

alter table public.outbox_messages drop constraint "a message is about an order, a reader, an inquiry or the shop";

alter table public.payments drop constraint "a payment method is known";

alter table private.unpaid_holds drop constraint unpaid_holds_pkey;

alter table public.reconciliation_events drop constraint "a decision is known";

alter table public.refunds drop constraint "a refund by M-PESA has a receipt";

alter table public.refunds drop constraint "a refund goes by M-PESA or by hand";

alter table public.refunds drop constraint "a second staff member approves above the limit";

alter table public.stock_changes drop constraint "a cause of a stock change is known";

drop function public.answer_inquiry(uuid,text,text,timestamp with time zone,text);

drop function public.begin_payment(uuid,text,text,text,integer,integer);

drop function public.count_work();

drop function public.day_totals(date);

drop function public.note_change(uuid,text,integer,text,text);

drop function public.place_order(uuid,uuid,integer,text,text,text,text,integer,text,text,text,boolean);

drop function private.add_change_note(payments,text,integer,text,text,uuid);

drop function private.begin_counted_hold(text[],uuid,uuid,integer,bigint,timestamp with time zone,boolean);

drop function private.change_of(uuid);

drop function private.expect_staff();

drop function private.expect_staff_member();

drop function private.read_order_details(text,text,text,text,text,text,text);

drop function private.record_order_event(uuid,text,text,jsonb);

drop function private.staff_emails(uuid);

drop function private.total_of_offer(products,integer,store_settings,integer);

drop function private.units_to_hold(text[],products,integer,store_settings);

drop function private.work_step(text,text,deliveries);

drop policy "staff read every backup" on public.backups;

drop policy "staff read and edit every category" on public.categories;

drop policy "staff read every note of change" on public.change_notes;

drop policy "staff read and edit every delivery" on public.deliveries;

drop policy "staff read every inquiry" on public.inquiries;

drop policy "staff read every answer" on public.inquiry_answers;

drop policy "staff read and edit the templates" on public.message_templates;

drop policy "staff read every message to check" on public.messages_to_check;

drop policy "staff read every transaction" on public.mpesa_transactions;

drop policy "staff read every subscription" on public.newsletter_subscriptions;

drop policy "staff read every notice" on public.notices;

drop policy "staff read every order's timeline" on public.order_events;

drop policy "staff read every order item" on public.order_items;

drop policy "staff read every pause" on public.order_pauses;

drop policy "staff read and edit every order" on public.orders;

drop policy "staff read every message" on public.outbox_messages;

drop policy "staff read the page views" on public.page_views;

drop policy "staff read every payment message" on public.payment_messages;

drop policy "staff read every payment" on public.payments;

drop policy "staff read the requests" on public.personal_data_requests;

drop policy "staff read every price change" on public.price_changes;

drop policy "staff read and edit every product" on public.products;

drop policy "staff read every decision" on public.reconciliation_events;

drop policy "staff read every refund" on public.refunds;

drop policy "staff read and edit the reply templates" on public.reply_templates;

drop policy "staff read and edit the synonyms" on public.search_synonyms;

drop policy "staff edit the texts of the shop" on public.shop_texts;

drop policy "staff read every pull" on public.statement_pulls;

drop policy "staff read every stock change" on public.stock_changes;

drop policy "staff edit the settings" on public.store_settings;

drop policy "staff edit product images" on storage.objects;

revoke all on public.change_notes from anon, authenticated;

revoke all on public.inquiry_answers from anon, authenticated;

revoke all on public.reconciliation_events from anon, authenticated;

revoke all on public.refunds from anon, authenticated;

alter table public.order_events add constraint "a kind of event is known" CHECK ((kind = ANY (ARRAY['order_placed'::text, 'pay_link_shown'::text, 'items_changed'::text, 'status_changed'::text, 'payment_status_changed'::text, 'units_taken'::text, 'units_returned'::text, 'cash_agreed'::text, 'change_noted'::text, 'payment_prompted'::text, 'payment_completed'::text, 'payment_failed'::text, 'payment_in_review'::text, 'payment_unresolved'::text, 'payment_receipt_known'::text, 'payment_corrected'::text, 'payment_taken_back'::text, 'delivery_made'::text, 'delivery_assigned'::text, 'delivery_status_changed'::text, 'delivery_taken'::text, 'delivery_ready'::text, 'delivery_unpacked'::text, 'refund_requested'::text, 'refund_approved'::text, 'refund_withdrawn'::text, 'refund_sent'::text, 'refund_unknown'::text, 'refund_failed'::text, 'refund_completed'::text, 'refund_sent_twice'::text, 'refund_sent_twice_seen'::text])));

alter table public.outbox_messages add constraint "a kind of message is known" CHECK ((kind = ANY (ARRAY['order_received'::text, 'order_paid'::text, 'order_payment_held'::text, 'order_payment_corrected'::text, 'order_on_its_way'::text, 'delivery_failed'::text, 'order_delivered'::text, 'order_refunded'::text, 'order_cancelled'::text, 'order_expired'::text, 'newsletter_confirmation'::text, 'inquiry_reply'::text, 'prompts_paused'::text, 'prompts_resumed'::text, 'refund_to_approve'::text, 'test_message'::text])));

alter table public.outbox_messages add constraint "a message is about an order, a reader, an inquiry or the shop" CHECK (((order_id IS NULL) = (kind = ANY (ARRAY['newsletter_confirmation'::text, 'inquiry_reply'::text, 'prompts_paused'::text, 'prompts_resumed'::text, 'refund_to_approve'::text, 'test_message'::text]))));

alter table public.payments add constraint "a payment method is known" CHECK ((method = ANY (ARRAY['prompt'::text, 'till'::text, 'cash'::text, 'credit'::text])));

alter table private.unpaid_holds add constraint unpaid_holds_pkey PRIMARY KEY (order_id, product_id);

alter table public.reconciliation_events add constraint "a decision is known" CHECK ((kind = ANY (ARRAY['given'::text, 'not_an_order'::text, 'refund'::text, 'accepted'::text, 'reopened'::text, 'taken_back'::text, 'delivered'::text, 'change_credit'::text, 'change_to_return'::text, 'change_returned'::text, 'change_used'::text, 'change_use_taken_back'::text])));

alter table public.refunds add constraint "a refund by M-PESA has a receipt" CHECK (((method <> 'reversal'::text) OR (receipt IS NOT NULL)));

alter table public.refunds add constraint "a second staff member approves above the limit" CHECK (((method <> 'reversal'::text) OR (NOT needs_approval) OR (status = ANY (ARRAY['requested'::text, 'withdrawn'::text])) OR ((approved_by IS NOT NULL) AND (requested_by IS NOT NULL) AND ((approved_by <> requested_by) OR approved_alone))));

alter table public.stock_changes add constraint "a cause of a stock change is known" CHECK ((cause = ANY (ARRAY['edited'::text, 'ordered'::text, 'reservation_ended'::text, 'order_changed'::text, 'cancelled'::text, 'refunded'::text, 'under_review'::text])));

alter table public.admin_profiles add constraint "a name is one line of up to 60 characters" CHECK ((name ~ '^[^\u0001-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069]{0,60}$'::text));

alter table public.admin_profiles add constraint "a role is known" CHECK ((role = ANY (ARRAY['owner'::text, 'staff'::text, 'counter'::text])));

alter table public.change_notes add constraint "a kind of change is known" CHECK ((kind = ANY (ARRAY['credit'::text, 'to_return'::text, 'returned'::text, 'used'::text, 'use_taken_back'::text])));

alter table public.change_notes add constraint "a part refund is returned" CHECK (((NOT is_part_refund) OR ((kind = 'returned'::text) AND (way IS NOT NULL) AND (note IS NOT NULL))));

alter table public.change_notes add constraint "change goes back by M-PESA or in cash" CHECK ((way = ANY (ARRAY['mpesa'::text, 'cash'::text])));

alter table public.change_notes add constraint "change sent by M-PESA has a receipt, cash has none" CHECK (((way = 'mpesa'::text) = (receipt IS NOT NULL)));

alter table public.change_notes add constraint "only returned change has a way" CHECK (((way IS NULL) OR (kind = 'returned'::text)));

alter table public.change_notes add constraint "used credit pays an order" CHECK (((kind = ANY (ARRAY['used'::text, 'use_taken_back'::text])) = (used_for IS NOT NULL)));

alter table public.orders add constraint "a collected order has no delivery fee" CHECK (((NOT is_collected) OR (delivery_fee = 0)));

alter table public.orders add constraint "a discount has a code" CHECK (((discount_cents = 0) OR ((discount_cents > 0) AND (discount_code IS NOT NULL))));

alter table public.orders add constraint "a payment method of an order is known" CHECK ((payment_method = ANY (ARRAY['pending'::text, 'mpesa'::text, 'cash'::text, 'credit'::text])));

alter table public.orders add constraint "a source of an order is known" CHECK ((source = ANY (ARRAY['storefront'::text, 'call'::text, 'whatsapp'::text, 'walk_in'::text])));

alter table public.payments add constraint "cash and credit have no receipt, and a staff member noted them" CHECK (((method <> ALL (ARRAY['cash'::text, 'credit'::text])) OR ((receipt IS NULL) AND (phone = ''::text) AND (purpose = 'order'::text) AND (confirmed_by IS NOT NULL) AND (status = ANY (ARRAY['completed'::text, 'failed'::text])))));

alter table public.payments add constraint "only cash is received from somebody" CHECK (((method = 'cash'::text) OR (received_from IS NULL)));

alter table public.refunds add constraint "a refund goes by M-PESA, by hand, in cash or as credit" CHECK ((method = ANY (ARRAY['reversal'::text, 'by_hand'::text, 'cash'::text, 'credit'::text])));

alter table public.store_settings add constraint "cash is offered only where it is taken" CHECK ((takes_cash OR (NOT offers_cash)));

-- PL/pgSQL caches its plans for the session; an SQL function would be planned at each call.
create or replace function private.has_staff_session() returns boolean
language plpgsql stable security definer set search_path = '' as $$
begin
  return exists (
    select from public.admin_profiles as profile
    join auth.users as account on account.id = profile.user_id
    where profile.user_id = (select auth.uid()) and profile.is_active
      and account.deleted_at is null and (account.banned_until is null or account.banned_until <= now())
  ) and (
    -- A token outlives its session by up to an hour; staff rights end with the session. A session whose refresh token was
    -- stolen keeps its row but has ended.
    (select auth.jwt() ->> 'session_id') is null
    or exists (
      select from auth.sessions as session
      where session.id = (select (auth.jwt() ->> 'session_id')::uuid) and session.user_id = (select auth.uid())
        and (session.not_after is null or session.not_after > now())
    )
  );
end
$$;

comment on function private.has_staff_session is
  'Whether the caller is active staff, not banned or deleted, in a session that has not ended. The second factor may still be missing.';

create or replace function public.is_admin() returns boolean
language plpgsql stable security definer set search_path = '' as $$
begin
  -- Visitors call functions that check this, too.
  if auth.uid() is null then
    return false;
  end if;
  return private.has_staff_session() and (
    (select auth.jwt() ->> 'aal') is not distinct from 'aal2'
    or not exists (
      select from auth.mfa_factors where user_id = (select auth.uid()) and status = 'verified'
    )
  );
end
$$;

comment on function public.is_admin is
  'Whether the caller is active staff: not banned or deleted, in a session that has not ended, with the second factor verified if there is one. Every staff policy checks this.';

-- The rights of the roles: the only place in the database that states them (docs/decisions/roles.md).
create or replace function private.areas_of(role text) returns text[]
language sql immutable
return case role
  when 'counter' then array['panel', 'deliveries', 'cash']
  when 'staff' then array['panel', 'deliveries', 'cash', 'orders', 'products', 'inquiries', 'messages', 'refunds', 'figures']
  when 'owner' then array[
    'panel', 'deliveries', 'cash', 'orders', 'products', 'inquiries', 'messages', 'refunds', 'figures',
    'approvals', 'reconciliation', 'personal_data', 'settings', 'team'
  ]
end;

comment on function private.areas_of is
  'The areas in which a role may read and write. panel: what every screen needs. deliveries: Today and deliveries. refunds: up to the limit; approvals: above it. domain/staff-rights.ts repeats it for screens.';

create or replace function public.may(area text) returns boolean
language plpgsql stable security definer set search_path = '' as $$
begin
  return public.is_admin() and exists (
    select from public.admin_profiles as profile
    where profile.user_id = (select auth.uid()) and may.area = any (private.areas_of(profile.role))
  );
end
$$;

comment on function public.may is
  'Whether the caller is active staff (is_admin) with a role that has the area. Staff policies and procedures check this.';

create or replace function private.counter_days() returns integer
language sql immutable
return 7;

comment on function private.counter_days is 'For how many days, today included, the role counter sees closed orders.';

-- Only the counter's policies call it: all other staff see every order before this is asked.
create or replace function public.is_recent_order(order_id uuid) returns boolean
language plpgsql stable security definer cost 1 set search_path = '' as $$
declare
  since constant timestamptz := (private.nairobi_day(now()) - private.counter_days() + 1)::timestamp at time zone 'Africa/Nairobi';
begin
  return exists (
    select from public.orders as o
    where o.id = is_recent_order.order_id and (
      private.is_open_order(o.status) or o.created_at >= since
      or exists (select from public.deliveries as d where d.order_id = o.id and d.created_at >= since)
    )
  );
end
$$;

comment on function public.is_recent_order is
  'Whether an order is open, or was placed or paid in the last seven days: what the role counter sees (docs/decisions/roles.md).';

-- For security definer functions that act for staff.
create or replace function private.refuse_staff() returns void
language plpgsql stable set search_path = '' as $$
begin
  if public.is_admin() then
    perform private.refuse(403, 'not_in_role', 'Your role does not include this. Please ask an owner');
  end if;
  perform private.refuse(403, 'staff_only', 'Only staff may do this');
end
$$;

create or replace function private.expect_staff(area text) returns void
language plpgsql stable set search_path = '' as $$
begin
  if not (public.may(expect_staff.area) or (select auth.role()) is not distinct from 'service_role') then
    perform private.refuse_staff();
  end if;
end
$$;

comment on function private.expect_staff is 'Refuses callers other than staff whose role has the area, and the shop itself.';

create or replace function private.expect_staff_member(area text) returns uuid
language plpgsql stable set search_path = '' as $$
begin
  if not public.may(expect_staff_member.area) or (select auth.uid()) is null then
    perform private.refuse_staff();
  end if;
  return (select auth.uid());
end
$$;

comment on function private.expect_staff_member is
  'The calling staff member, whose role has the area; refuses all other callers, the shop itself included.';

-- Execution rights
grant execute on function public.is_admin, public.may, public.is_recent_order to authenticated, service_role;

create policy "staff edit the settings" on public.store_settings
  for update to authenticated using ((select public.may('settings'))) with check ((select public.may('settings')));

create policy "staff edit the texts of the shop" on public.shop_texts
  for update to authenticated using ((select public.may('settings'))) with check ((select public.may('settings')));

create or replace function public.staff_settings() returns public.store_settings
language plpgsql stable security definer set search_path = '' as $$
begin
  perform private.expect_staff('panel');
  return (select s from public.store_settings as s);
end
$$;

comment on function public.staff_settings is 'For staff: all settings, also those that visitors may not read.';

create policy "staff read and edit every category" on public.categories
  for all to authenticated using ((select public.may('products'))) with check ((select public.may('products')));

create policy "staff read and edit every product" on public.products
  for all to authenticated using ((select public.may('products'))) with check ((select public.may('products')));

create policy "staff edit product images" on storage.objects for all to authenticated
  using (bucket_id = 'product-images' and (storage.foldername(name))[1] = 'products' and (select public.may('products')))
  with check (bucket_id = 'product-images' and (storage.foldername(name))[1] = 'products' and (select public.may('products')));

grant execute on function public.staff_settings to authenticated, service_role;

create policy "staff read every pause" on public.order_pauses for select to authenticated using ((select public.may('orders')));

create or replace function public.pause_orders(reason text, minutes integer default null) returns void
language plpgsql volatile security definer set search_path = '' as $$
declare
  shown text;
begin
  perform private.expect_staff('orders');
  shown := rtrim(private.read_reason(pause_orders.reason, is_required => true), ' .');
  if char_length(shown) not between 1 and 80 or private.has_control_characters(shown) then
    perform private.refuse(400, 'reason_invalid', 'Customers read this: please write one line of at most 80 characters');
  elsif pause_orders.minutes not between 1 and 1440 then
    perform private.refuse(400, 'pause_invalid', 'A pause lasts up to 24 hours, or until you resume');
  end if;
  update public.store_settings as s
  set orders_pause_reason = shown, orders_paused_until = now() + make_interval(mins => pause_orders.minutes)
  where s.id;
end
$$;

comment on function public.pause_orders is
  'For staff: place_order refuses orders for some minutes (null: until resume_orders). Orders that exist are paid and delivered as usual.';

create or replace function public.resume_orders() returns void
language plpgsql volatile security definer set search_path = '' as $$
begin
  perform private.expect_staff('orders');
  update public.store_settings as s
  set orders_pause_reason = null, orders_paused_until = null
  where private.are_orders_paused(s);
end
$$;

comment on function public.resume_orders is 'For staff: ends a pause of orders.';

create or replace function private.refuse_while_paused(settings public.store_settings) returns void
language plpgsql stable set search_path = '' as $$
begin
  if private.are_orders_paused(settings) then
    perform private.refuse(409, 'orders_paused', format(
      'Orders are paused %s: %s.', private.end_of_pause(settings.orders_paused_until), settings.orders_pause_reason
    ));
  end if;
end
$$;

create or replace function public.set_sold_out(product_id uuid, span text default null) returns timestamptz
language plpgsql volatile security definer set search_path = '' as $$
declare
  ends_at timestamptz := case set_sold_out.span
    when 'hour' then now() + interval '1 hour'
    when 'tomorrow' then (private.nairobi_day(now()) + 1 + time '06:00') at time zone 'Africa/Nairobi'
  end;
begin
  perform private.expect_staff('products');
  if set_sold_out.span is not null and ends_at is null then
    perform private.refuse(400, 'span_unknown', 'A product is sold out for an hour or until tomorrow');
  end if;
  update public.products as p set sold_out_until = ends_at where p.id = set_sold_out.product_id;
  if not found then
    perform private.refuse(404, 'product_not_found', 'This product does not exist');
  end if;
  return ends_at;
end
$$;

comment on function public.set_sold_out is
  'For staff: nobody can order a product for an hour (span: hour) or until 6:00 of the next day in Nairobi (tomorrow), or its stock decides again (null). Its stock does not change. Returns the end.';

grant execute on function public.pause_orders, public.resume_orders, public.set_sold_out to authenticated, service_role;

create policy "staff read every price change" on public.price_changes
  for select to authenticated using ((select public.may('products')));

create policy "staff read every stock change" on public.stock_changes
  for select to authenticated using ((select public.may('products')));

create or replace function public.product_history(
  product_id uuid, before_stock_change bigint default null, before_price_change bigint default null, page_size integer default 50
) returns table (
  kind text, id bigint, from_value integer, to_value integer, cause text, order_id uuid, order_number text, changed_by_email text,
  changed_at timestamptz
)
language plpgsql stable security definer rows 50 set search_path = '' as $$
#variable_conflict use_column
declare
  most constant integer := least(greatest(coalesce(page_size, 50), 1), 200);
begin
  perform private.expect_staff('products');
  -- Of one edit, the trigger records the price before the stock.
  return query
    with changes as (
      (
        select 'stock' as kind, s.id, s.from_units, s.to_units, s.cause, s.order_id, s.changed_by_email, s.changed_at
        from public.stock_changes as s
        where s.product_id = product_history.product_id and s.id < coalesce(before_stock_change, 9223372036854775807)
        order by s.id desc limit most
      )
      union all
      (
        select 'price', c.id, c.from_cents, c.to_cents, 'edited', null, c.changed_by_email, c.changed_at
        from public.price_changes as c
        where c.product_id = product_history.product_id and c.id < coalesce(before_price_change, 9223372036854775807)
        order by c.id desc limit most
      )
    )
    select c.kind, c.id, c.from_units, c.to_units, c.cause, c.order_id, o.order_number, c.changed_by_email, c.changed_at
    from (select * from changes order by changes.changed_at desc, changes.kind desc, changes.id desc limit most) as c
    left join lateral (select own.order_number from public.orders as own where own.id = c.order_id offset 0) as o on true
    order by c.changed_at desc, c.kind desc, c.id desc;
end
$$;

comment on function public.product_history is
  'For staff: a page of the changes of a product''s stock (units) and price (cents), newest first. The next page is before the smallest id of each kind so far.';

-- Stock, brands, lists

create or replace function public.change_stock(product_id uuid, by integer) returns integer
language plpgsql security definer set search_path = '' as $$
declare
  units integer;
begin
  perform private.expect_staff('products');
  update public.products as p set stock_quantity = p.stock_quantity + change_stock.by
  where p.id = change_stock.product_id and p.stock_quantity::bigint + change_stock.by between 0 and 2147483647
  returning p.stock_quantity into units;
  if not found then
    select p.stock_quantity into units from public.products as p where p.id = change_stock.product_id;
    if not found then
      perform private.refuse(404, 'product_unavailable', 'This product is not available');
    end if;
    perform private.refuse(409, 'not_enough_stock', format('Only %s left in stock', units), units::text);
  end if;
  perform private.note_answer(to_jsonb(units));
  return units;
end
$$;

comment on function public.change_stock is
  'For staff: adds units to the stock of a product, or takes some away (by < 0), whatever was sold in the meantime. Returns the units now.';

create or replace function public.list_brands() returns setof text
language plpgsql stable security definer set search_path = '' as $$
begin
  perform private.expect_staff('products');
  return query select distinct c.brand from private.catalogue_counts as c where c.brand <> '' order by c.brand;
end
$$;

comment on function public.list_brands is 'For staff: the brands of active products, by name.';

create or replace function public.typical_price() returns integer
language plpgsql stable security definer set search_path = '' as $$
begin
  perform private.expect_staff('products');
  return (
    select percentile_disc(0.5) within group (order by p.price)
    from (select n.price from public.products as n where n.is_active order by n.created_at desc, n.id limit 200) as p
  );
end
$$;

comment on function public.typical_price is 'For staff: the median price of the newest 200 active products in cents. Null without products.';

create or replace function public.find_products(
  search text default '', category text default null,
  before_created_at timestamptz default null, before_id uuid default null, page_size integer default 50,
  sort text default '', low_on_stock boolean default false
) returns setof public.products
language plpgsql stable security definer rows 50 set search_path = '' as $$
declare
  condition constant text := case when find_products.low_on_stock then 't.is_active and t.is_low_on_stock' else 'true' end
    || coalesce(' and t.category = ' || quote_literal(find_products.category), '');
  sorted_by constant text := case ltrim(find_products.sort, '-')
    when 'name' then 'lower(t.name)' when 'price' then 't.price' when 'stock' then 't.stock_quantity'
  end;
  direction constant text := case when find_products.sort like '-%' then 'desc' else 'asc' end;
  found_ids uuid[];
begin
  perform private.expect_staff('products');
  if sorted_by is null then
    found_ids := private.find_by_text(
      'products', 'lower(t.name)', condition,
      find_products.search, find_products.before_created_at, find_products.before_id, find_products.page_size
    );
    return query
      select p.* from public.products as p where p.id = any (found_ids) order by p.created_at desc, p.id desc;
    return;
  end if;
  -- Reads the whole catalogue: an index by stock would be updated by every order.
  return query execute format(
    'select t.* from public.products as t
     where %1$s and (trim(coalesce($1, '''')) = '''' or position(lower(trim($1)) in lower(t.name)) > 0)
       and ($2 is null or (%2$s, t.id) %4$s (select %2$s, t.id from public.products as t where t.id = $2))
     order by %2$s %3$s, t.id %3$s
     limit least(greatest(coalesce($3, 50), 1), 1000)',
    condition, sorted_by, direction, case direction when 'asc' then '>' else '<' end
  ) using find_products.search, find_products.before_id, find_products.page_size;
end
$$;

comment on function public.find_products is
  'For staff: a page of products, hidden ones included, whose name contains a text, ignoring case; after the one named by before_created_at and before_id. sort: name, price or stock, with - before it for descending; otherwise newest first. low_on_stock: only active ones with a low stock.';

create or replace function public.list_categories() returns table (id uuid, name text, is_active boolean, products integer)
language plpgsql stable security definer set search_path = '' as $$
#variable_conflict use_column
begin
  perform private.expect_staff('products');
  return query
    select c.id, c.name, c.is_active, (
      select count(*)::integer
      from (select from public.products as p where p.category = c.name limit 101) as bounded
    )
    from public.categories as c
    order by c.name;
end
$$;

comment on function public.list_categories is
  'For staff: every category by name, hidden ones included, with the number of its products; 101 means more than 100.';

-- Execution rights
grant execute on function public.find_products, public.list_categories, public.list_brands, public.product_history, public.change_stock,
  public.typical_price to authenticated, service_role;

create policy "staff read and edit the synonyms" on public.search_synonyms
  for all to authenticated using ((select public.may('products'))) with check ((select public.may('products')));

create policy "staff read every order, the counter recent ones" on public.orders
  for select to authenticated using ((select public.may('orders')) or ((select public.may('deliveries')) and public.is_recent_order(id)));

create policy "staff edit every order" on public.orders
  for update to authenticated using ((select public.may('orders'))) with check ((select public.may('orders')));

create index orders_by_phone on public.orders (customer_phone, created_at desc, id desc) where customer_phone <> '';

-- Of few orders, so that the others do not write it.
create index orders_by_discount_code on public.orders (discount_code, customer_phone) where discount_code is not null;

create or replace function private.is_to_deliver(payment_status text, payment_method text) returns boolean
language sql immutable
return payment_status = 'paid' or (payment_status = 'unpaid' and payment_method = 'cash');

comment on function private.is_to_deliver is 'The order is paid, or is paid in cash at the door: staff prepare and deliver it.';

create policy "staff read every item, the counter those of recent orders" on public.order_items
  for select to authenticated using ((select public.may('orders')) or ((select public.may('deliveries')) and public.is_recent_order(order_id)));

create or replace function private.placed_order(placed public.orders, access_key text) returns jsonb
language plpgsql immutable set search_path = '' as $$
begin
  return jsonb_build_object(
    'id', placed.id,
    'tracking_number', placed.tracking_number,
    'access_key', placed_order.access_key,
    'status', placed.status,
    'payment_status', placed.payment_status,
    'delivery_fee', placed.delivery_fee,
    'total_amount', placed.total_amount,
    'charge_cents', placed.charge_cents,
    'customer_phone', placed.customer_phone,
    'reserved_until', placed.reserved_until,
    'expires_at', placed.expires_at,
    'created_at', placed.created_at
  ) || case
    when placed.discount_code is null then '{}'
    else jsonb_build_object('discount_code', placed.discount_code, 'discount_cents', placed.discount_cents)
  end;
end
$$;

comment on function private.placed_order is 'The response of place_order.';

create or replace function private.read_order_details(
  customer_name text, customer_email text, customer_phone text, delivery_location text, building text, unit text,
  delivery_notes text, is_email_optional boolean default false
) returns private.order_details
language plpgsql immutable set search_path = '' as $$
declare
  name text;
  email text;
  phone text;
  location text;
  building_name text;
  unit_name text;
  notes text;
begin
  -- octet_length is cheap: longer texts are refused before they are trimmed, matched or counted.
  if octet_length(customer_name) > 4000 then
    perform private.refuse(400, 'name_too_long', 'The name is longer than 120 characters');
  elsif octet_length(customer_email) > 4000 then
    perform private.refuse(400, 'email_too_long', 'The email address is longer than 254 characters');
  elsif greatest(octet_length(delivery_location), octet_length(building), octet_length(unit)) > 4000 then
    perform private.refuse(400, 'address_too_long', 'The delivery address is too long');
  elsif octet_length(delivery_notes) > 4000 then
    perform private.refuse(400, 'notes_too_long', 'The delivery notes are longer than 500 characters');
  end if;
  name := trim(customer_name);
  email := case when is_email_optional then private.visible_text(customer_email) else trim(customer_email) end;
  phone := private.normalised_phone(customer_phone);
  location := trim(delivery_location);
  building_name := private.visible_text(building);
  unit_name := private.visible_text(unit);
  -- Line feeds stay; other control characters become spaces.
  notes := private.visible_text(regexp_replace(delivery_notes, '[\u0001-\u0009\u000b-\u001f\u007f-\u009f]', ' ', 'g'));

  -- Names and addresses appear in messages to customers: single lines without control or bidirectional characters.
  if name is null or private.visible_length(name) < 2 or private.has_control_characters(name) then
    perform private.refuse(400, 'name_invalid', 'Please enter a valid name (at least 2 characters)');
  elsif char_length(name) > 120 then
    perform private.refuse(400, 'name_too_long', 'The name is longer than 120 characters');
  elsif char_length(email) > 254 then
    perform private.refuse(400, 'email_too_long', 'The email address is longer than 254 characters');
  elsif not (is_email_optional and email is null) and (not private.is_email(email) or private.has_control_characters(email)) then
    perform private.refuse(400, 'email_invalid', 'Please enter a valid email address');
  elsif phone is null then
    perform private.refuse(400, 'phone_invalid', 'Please enter a valid Kenyan phone number (e.g., 0712345678 or +254712345678)');
  elsif location is null or private.word_length(location) < 3
    or private.has_control_characters(location || coalesce(building_name, '') || coalesce(unit_name, ''))
  then
    perform private.refuse(400, 'location_invalid', 'Please enter a valid delivery location');
  elsif char_length(location) > 200 or char_length(building_name) > 120 or char_length(unit_name) > 60 then
    perform private.refuse(400, 'address_too_long', 'The delivery address is too long');
  elsif char_length(notes) > 500 then
    perform private.refuse(400, 'notes_too_long', 'The delivery notes are longer than 500 characters');
  end if;
  return (
    name, coalesce(email, ''), phone, location || coalesce(', Building: ' || building_name, '') || coalesce(', Unit: ' || unit_name, ''), notes
  )::private.order_details;
end
$$;

comment on function private.read_order_details is 'Checks and trims what a customer or staff typed; refuses what is missing, invalid or too long. Without an email address: an empty text.';

-- Discount codes: what they take off the price of an order's drinks, and who may use them (docs/decisions/discount-codes.md).
-- Amounts are in cents.

create table public.discount_codes (
  id uuid primary key default gen_random_uuid(),
  code text not null,
  percent smallint,
  amount_cents integer,
  minimum_cents integer not null default 0,
  starts_at timestamptz,
  ends_at timestamptz,
  max_uses integer,
  max_uses_per_phone integer,
  is_active boolean not null default true,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  constraint "discount codes are unique" unique (code),
  constraint "a discount code has 3 to 20 capitals, digits and hyphens" check (code ~ '^[A-Z0-9][A-Z0-9-]{1,18}[A-Z0-9]$'),
  constraint "a discount is a percentage or an amount" check (num_nonnulls(percent, amount_cents) = 1),
  constraint "a percentage is 1 to 100" check (percent between 1 and 100),
  constraint "a discount is whole shillings" check (amount_cents between 100 and 100000000 and amount_cents % 100 = 0),
  constraint "a minimum is whole shillings" check (minimum_cents between 0 and 100000000 and minimum_cents % 100 = 0),
  constraint "a discount code ends after it starts" check (ends_at > starts_at),
  constraint "a discount code can be used at least once" check (max_uses >= 1 and max_uses_per_phone >= 1)
);

comment on table public.discount_codes is
  'Codes with which customers pay less for the drinks of an order. Once an order has one, its discount never changes, and it cannot be deleted.';

comment on column public.discount_codes.percent is 'Percentage of the price of the drinks. Null: amount_cents is taken off.';

comment on column public.discount_codes.minimum_cents is 'The price of an order''s drinks from which the code applies.';

comment on column public.discount_codes.starts_at is 'Null: from its creation.';

comment on column public.discount_codes.ends_at is 'The first moment at which it applies no more. Null: it has no end.';

comment on column public.discount_codes.max_uses is 'Maximum orders with the code, cancelled unpaid ones not counted. Null: no limit.';

comment on column public.discount_codes.max_uses_per_phone is 'The same of one phone.';

comment on column public.discount_codes.is_active is 'Inactive: no order can use it, whatever its dates.';

comment on column public.discount_codes.updated_at is
  'Changes with every edit. A save sends the value that it read, and changes nothing if the row has changed since.';

alter table public.discount_codes enable row level security;

grant
  select,
  insert (code, percent, amount_cents, minimum_cents, starts_at, ends_at, max_uses, max_uses_per_phone, is_active),
  update (
    code, percent, amount_cents, minimum_cents, starts_at, ends_at, max_uses, max_uses_per_phone, is_active, updated_at
  ),
  delete on public.discount_codes to authenticated;

create policy "staff read the discount codes" on public.discount_codes for select to authenticated using ((select public.may('orders')));

create policy "owners add discount codes" on public.discount_codes for insert to authenticated with check ((select public.may('settings')));

create policy "owners edit the discount codes" on public.discount_codes
  for update to authenticated using ((select public.may('settings'))) with check ((select public.may('settings')));

create policy "owners delete discount codes" on public.discount_codes for delete to authenticated using ((select public.may('settings')));

create or replace function private.read_discount_code(written text) returns text
language plpgsql immutable set search_path = '' as $$
begin
  -- left is cheap: a longer text is none of the codes, whatever it is.
  return nullif(upper(regexp_replace(left(written, 100), '\s', '', 'g')), '');
end
$$;

comment on function private.read_discount_code is 'A code as it was typed, in capitals and without white space. Null for none.';

create or replace function private.before_discount_code_change() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  if tg_op <> 'DELETE' then
    new.code := coalesce(private.read_discount_code(new.code), '');
  end if;
  -- The row is locked by now, and orders with the code lock it, too.
  if (tg_op = 'DELETE' or (
      tg_op = 'UPDATE' and (old.code, old.percent, old.amount_cents, old.minimum_cents)
        is distinct from (new.code, new.percent, new.amount_cents, new.minimum_cents)
    )) and exists (select from public.orders as o where o.discount_code = old.code)
  then
    perform private.refuse(409, 'discount_in_use',
      'Orders have this code, so it can be neither deleted nor given another discount. End it, and create another one');
  elsif tg_op = 'DELETE' then
    return old;
  elsif tg_op = 'UPDATE' then
    new.updated_at := private.time_of_edit(to_jsonb(old), to_jsonb(new));
  end if;
  return new;
end
$$;

create trigger discount_codes_before_change before insert or update or delete on public.discount_codes
  for each row execute function private.before_discount_code_change();

-- The one rounding rule of discounts; domain/discount.ts shows what it will be.
create or replace function private.discount_on(discount public.discount_codes, drinks_cents bigint, delivery_fee integer) returns integer
language sql immutable
return case when drinks_cents >= discount.minimum_cents then greatest(0, least(
  coalesce(discount.amount_cents, (drinks_cents * discount.percent + 9999) / 10000 * 100),
  drinks_cents,
  drinks_cents + delivery_fee - 100
)) else 0 end;

comment on function private.discount_on is
  'What a code takes off the price of drinks, in cents. A percentage is rounded up to whole shillings, so that the customer gets at least what was promised. Never more than the drinks cost, and one shilling is left to pay, the least that M-PESA takes. 0 below the minimum.';

create or replace function private.counts_as_use(status text, payment_status text) returns boolean
language sql immutable
return not (status = 'cancelled' and payment_status = 'unpaid');

comment on function private.counts_as_use is
  'Whether an order with a code is one of its uses. An order that expired or was cancelled unpaid gives its use back.';

create or replace function private.has_uses_left(discount public.discount_codes, phone text default null, own_order uuid default null) returns boolean
language plpgsql volatile set search_path = '' as $$
begin
  -- Two queries, so that each reads only its part of the index.
  if has_uses_left.phone is not null then
    return discount.max_uses_per_phone is null or discount.max_uses_per_phone > (
      select count(*) from public.orders as o
      where o.discount_code = discount.code and o.customer_phone = has_uses_left.phone
        and private.counts_as_use(o.status, o.payment_status) and o.id is distinct from has_uses_left.own_order
    );
  end if;
  return discount.max_uses is null or discount.max_uses > (
    select count(*) from (
      select from public.orders as o
      where o.discount_code = discount.code
        and private.counts_as_use(o.status, o.payment_status) and o.id is distinct from has_uses_left.own_order
      limit discount.max_uses
    ) as used
  );
end
$$;

comment on function private.has_uses_left is
  'Whether fewer orders than allowed have the code: of a phone, or of all customers if phone is null. Without own_order. Volatile: it must see what was committed until now.';

create or replace function private.is_discount_open(discount public.discount_codes) returns boolean
language plpgsql volatile set search_path = '' as $$
begin
  return discount.id is not null and discount.is_active
    and (discount.starts_at is null or discount.starts_at <= now()) and (discount.ends_at is null or discount.ends_at > now());
end
$$;

comment on function private.is_discount_open is 'Whether the code exists, is active, has started and has not ended.';

create or replace function private.find_discount(code text, phone text, own_order uuid default null) returns public.discount_codes
language plpgsql volatile set search_path = '' as $$
declare
  discount public.discount_codes;
begin
  if own_order is null then
    select * into discount from public.discount_codes as d where d.code = find_discount.code;
  else
    -- Orders with the same code wait for each other from here to their end: the last use is given once.
    select * into discount from public.discount_codes as d where d.code = find_discount.code for no key update;
  end if;
  -- One answer to a code that never existed and to one that is over.
  if not private.is_discount_open(discount) or not private.has_uses_left(discount, own_order => find_discount.own_order) then
    perform private.refuse(409, 'discount_invalid', 'This discount code is not valid, or it has ended');
  elsif not private.has_uses_left(discount, find_discount.phone, find_discount.own_order) then
    perform private.refuse(409, 'discount_used', 'This discount code was used with this phone number already');
  end if;
  return discount;
end
$$;

comment on function private.find_discount is
  'The code that an order of this phone may use; refuses any other. own_order: the order that uses it, which must exist; the code is locked then.';

create or replace function public.check_discount_code(code text) returns jsonb
language plpgsql volatile security definer set search_path = '' as $$
#variable_conflict use_column
declare
  networks text[] := case when public.may('orders') then '{}' else private.caller_networks() end;
  discount public.discount_codes;
begin
  if cardinality(networks) > 0 then
    -- Guesses are serialised, so that each is counted before the next is compared. The widest network contains the others.
    perform pg_advisory_xact_lock(hashtext('discount_codes ' || networks[cardinality(networks)]));
    if not private.is_within_limit('discount_codes') then
      return private.refusal_answer('PT429', format(
        'Too many wrong discount codes from your network. Please try again in %s, or order without one', private.time_left('discount_codes')
      ), 'too_many_discount_codes', '');
    end if;
  end if;
  select * into discount from public.discount_codes as d where d.code = private.read_discount_code(check_discount_code.code);
  if not private.is_discount_open(discount) or not private.has_uses_left(discount) then
    perform private.count_call_from(networks, 'discount_codes');
    return private.refusal_answer('PT409', 'This discount code is not valid, or it has ended', 'discount_invalid', '');
  end if;
  return private.discount_terms(discount);
end
$$;

comment on function public.check_discount_code is
  'The discount of a code that can be used now, so that the order form can show it: code, percent or amount_cents, minimum_cents. place_order decides. Wrong codes are counted (discount_codes in private.limits), those of staff are not.';

create or replace function private.discount_terms(discount public.discount_codes) returns jsonb
language sql immutable
return jsonb_build_object(
  'code', discount.code, 'percent', discount.percent, 'amount_cents', discount.amount_cents, 'minimum_cents', discount.minimum_cents
);

create or replace function public.list_discount_codes() returns table (
  id uuid, code text, percent smallint, amount_cents integer, minimum_cents integer, starts_at timestamptz, ends_at timestamptz,
  max_uses integer, max_uses_per_phone integer, is_active boolean, created_at timestamptz, updated_at timestamptz,
  uses bigint, waiting bigint, cost_cents bigint, sold_cents bigint, has_orders boolean
)
language plpgsql stable security definer set search_path = '' as $$
#variable_conflict use_column
begin
  perform private.expect_staff('settings');
  return query
  select d.id, d.code, d.percent, d.amount_cents, d.minimum_cents, d.starts_at, d.ends_at,
    d.max_uses, d.max_uses_per_phone, d.is_active, d.created_at, d.updated_at,
    used.uses, used.waiting, used.cost_cents, used.sold_cents, used.has_orders
  from (select * from public.discount_codes as d order by d.created_at desc, d.id limit 500) as d
  cross join lateral (
    select count(*) filter (where private.counts_as_use(o.status, o.payment_status)) as uses,
      count(*) filter (where o.payment_status = 'unpaid' and o.status <> 'cancelled') as waiting,
      coalesce(sum(o.discount_cents) filter (where o.payment_status = 'paid'), 0)::bigint as cost_cents,
      coalesce(sum(o.total_amount) filter (where o.payment_status = 'paid'), 0)::bigint as sold_cents,
      count(*) > 0 as has_orders
    from public.orders as o where o.discount_code = d.code
  ) as used
  order by d.created_at desc, d.id;
end
$$;

comment on function public.list_discount_codes is
  'For staff: the 500 newest discount codes. uses: orders with the code, cancelled unpaid ones not counted; waiting: those of them that wait for their payment. cost_cents and sold_cents: the discounts and the totals of paid orders. has_orders: it was used at least once, so it can be neither changed nor deleted.';

-- Execution rights
grant execute on function public.check_discount_code to anon, authenticated, service_role;

grant execute on function public.list_discount_codes to authenticated;

create or replace function private.pay_link_time() returns interval
language sql immutable
return interval '24 hours';

comment on function private.pay_link_time is
  'How long an order waits for its payment once staff have given its customer the link: people answer a chat when they see it.';

create or replace function private.limit_of_pay_link(expires_at timestamptz) returns timestamptz
language sql immutable
return expires_at + interval '10 minutes';

comment on function private.limit_of_pay_link is 'orders.expiry_limit of an order with a pay link: an open prompt at its end is waited for.';

create or replace function private.due_end(ended public.orders) returns text
language plpgsql stable set search_path = '' as $$
declare
  is_prompted boolean;
begin
  -- Cash is paid at the door, whatever status staff set until then.
  if ended.payment_status <> 'unpaid' or not private.is_before_work(ended.status)
    or (ended.payment_method = 'cash' and ended.status <> 'cancelled')
  then
    return null;
  end if;
  if exists (select from public.payments as p where p.order_id = ended.id and p.status = 'review') then
    return null;
  end if;
  is_prompted := coalesce(ended.expiry_limit > now(), true) and exists (
    select from public.payments as p where p.order_id = ended.id and private.is_open_attempt(p.status)
  );
  return case
    when not is_prompted and (ended.expires_at <= now() or (ended.status = 'cancelled' and ended.reserved_until is not null)) then 'order'
    when ended.reserved_until <= now() then 'units'
  end;
end
$$;

comment on function private.due_end is
  'What ends now. order: the unpaid order, at expires_at; an open prompt delays that until expiry_limit. units: its hold, at reserved_until, also while a prompt is open. Null: nothing. A payment under review delays both.';

create or replace function public.expire_reservations(at_most integer default 200) returns integer
language plpgsql security definer set search_path = '' as $$
declare
  due uuid[];
  product_ids uuid[];
  ended public.orders;
  is_over boolean;
begin
  perform pg_advisory_xact_lock(hashtext('expire_reservations'));
  perform private.end_reviews();
  due := private.due_orders(expire_reservations.at_most);
  if due = '{}' then
    return 0;
  end if;
  select array_agg(o.id) into due from (
    select o.id from public.orders as o where o.id = any (due) for no key update skip locked
  ) as o;
  -- Checked again under the lock: a payment may have begun or arrived in the meantime.
  select coalesce(array_agg(o.id order by o.id), '{}') into due
  from public.orders as o
  where o.id = any (due) and private.due_end(o) is not null;
  product_ids := array(select i.product_id from public.order_items as i where i.order_id = any (due));
  -- Lock all products before the first changes, as renaming a category does.
  perform from public.products as p where p.id = any (product_ids) order by p.id for no key update;
  -- A payment locks the counters of its products, and not the products.
  perform from private.held_units as h where h.product_id = any (product_ids) order by h.product_id for no key update;
  for ended in select * from public.orders as o where o.id = any (due) order by o.id loop
    -- A hold may end before its order does.
    is_over := ended.status = 'cancelled' or private.due_end(ended) = 'order';
    if ended.reserved_until is not null then
      perform private.return_units(ended.id, case when ended.status = 'cancelled' then 'cancelled' else 'reservation_ended' end);
    end if;
    update public.orders as o
    set reserved_until = null, status = case when is_over then 'cancelled' else o.status end,
        expires_at = case when not is_over then o.expires_at end,
        cancel_reason = case when ended.status = 'cancelled' then o.cancel_reason when is_over then 'not_paid_in_time' end,
        updated_at = now()
    where o.id = ended.id;
    if is_over and ended.status <> 'cancelled' and private.had_pay_link(ended) then
      insert into private.ended_pay_links (order_id) values (ended.id) on conflict do nothing;
    end if;
  end loop;
  return cardinality(due);
end
$$;

comment on function public.expire_reservations is
  'Ends what private.due_end names: cancels unpaid orders, and returns the units that they hold, of at_most orders. Returns the number of orders.';

create or replace function private.subtract_units(order_id uuid) returns void
language plpgsql set search_path = '' as $$
begin
  perform private.state_cause_of_units('ordered', subtract_units.order_id);
  update public.products as p set stock_quantity = p.stock_quantity - i.quantity
  from public.order_items as i
  where i.order_id = subtract_units.order_id and p.id = i.product_id;
  perform private.state_cause_of_units();
end
$$;

comment on function private.subtract_units is 'Takes an order''s units out of stock. The caller has locked the products and knows that there are enough.';

create or replace function private.take_units(order_id uuid) returns boolean
language plpgsql set search_path = '' as $$
declare
  product_ids uuid[] := array(select i.product_id from public.order_items as i where i.order_id = take_units.order_id);
begin
  -- Lock products by id, so that two orders of the same products cannot deadlock.
  perform from public.products as p where p.id = any (product_ids) order by p.id for update;
  if exists (
    select from public.products as p
    where p.id = any (product_ids) and p.stock_quantity
      < (select sum(i.quantity) from public.order_items as i where i.order_id = take_units.order_id and i.product_id = p.id)
  ) then
    return false;
  end if;
  perform private.subtract_units(take_units.order_id);
  return true;
end
$$;

comment on function private.take_units is
  'Takes an order''s units out of stock again. False: there are not enough, and none was taken. The caller has locked the order.';

create or replace function private.refuse_missing_units(product_name text, units integer, quantity integer) returns void
language plpgsql set search_path = '' as $$
begin
  if units is null then
    perform private.refuse(404, 'product_unavailable', format('%s is not available', coalesce(product_name, 'This product')));
  elsif units = 0 then
    perform private.refuse(409, 'out_of_stock', format('%s is out of stock', coalesce(product_name, 'This product')));
  elsif units < quantity then
    perform private.refuse(
      409, 'not_enough_stock', format('Only %s left in stock%s', units, coalesce(' of ' || product_name, '')), units::text
    );
  end if;
end
$$;

comment on function private.refuse_missing_units is
  'Refuses a line of an order of which there are too few units. units: null if the product is not for sale. product_name: null for an order of one drink.';

create or replace function private.hold_units(order_id uuid, networks text[], held_until timestamptz, is_prompted boolean) returns void
language plpgsql set search_path = '' as $$
begin
  perform private.subtract_units(hold_units.order_id);
  perform private.begin_counted_hold(networks, hold_units.order_id, held_until, is_prompted);
end
$$;

comment on function private.hold_units is
  'Takes an order''s units out of stock until its payment, and counts the hold. The caller has locked the products and set reserved_until.';

create or replace function private.reserve_for_prompt(order_id uuid) returns void
language plpgsql set search_path = '' as $$
declare
  product_ids uuid[];
  waiting public.orders;
  extended_until timestamptz;
  item record;
  networks text[];
  settings public.store_settings;
  held_until timestamptz;
  may_hold boolean := true;
begin
  select * into waiting from public.orders as o where o.id = reserve_for_prompt.order_id for no key update;
  -- An unpaid order that was handed over, or is paid at the door, has already taken its units.
  if not found or waiting.payment_status <> 'unpaid' or waiting.status <> 'pending' or waiting.payment_method = 'cash' then
    return;
  end if;
  extended_until := least(now() + private.prompt_hold(), waiting.expiry_limit);
  if waiting.extended_at is null and waiting.expires_at < extended_until then
    if waiting.reserved_until is not null and private.extend_counted_hold(waiting.id, extended_until) then
      waiting.reserved_until := extended_until;
    end if;
    update public.orders as o
    set expires_at = extended_until, reserved_until = waiting.reserved_until, extended_at = now()
    where o.id = waiting.id
    returning * into waiting;
  end if;
  if waiting.expires_at <= now() then
    perform private.refuse(409, 'order_cancelled', 'This order was cancelled. Please place a new one');
  elsif waiting.reserved_until is not null then
    return;
  end if;

  held_until := least(now() + private.prompt_hold(), waiting.expires_at);
  select coalesce(array_agg(k.network), '{}') into networks from private.order_networks as k where k.order_id = waiting.id;
  product_ids := array(select i.product_id from public.order_items as i where i.order_id = waiting.id);
  select * into strict settings from public.store_settings;
  perform from public.products as p where p.id = any (product_ids) order by p.id for no key update;
  for item in
    select p.id as product_id, i.product_name, p.stock_quantity as units_left, i.quantity,
      p.stock_quantity + private.units_held(p.id) as units
    from public.order_items as i
    left join lateral (select * from public.products as p where p.id = i.product_id and p.is_active offset 0) as p on true
    where i.order_id = waiting.id
  loop
    perform private.refuse_missing_units(case when cardinality(product_ids) > 1 then item.product_name end, item.units_left, item.quantity);
    may_hold := may_hold and (
      cardinality(networks) = 0
      or private.is_within_hold_time(networks, item.product_id, item.quantity, item.units, held_until - now(), true, settings)
    );
  end loop;
  -- Beyond that the prompt is sent without a hold, so that others in the same network cannot block a payment. If the units are sold
  -- before the money arrives, the order needs review as with late money.
  if may_hold then
    update public.orders as o set reserved_until = held_until where o.id = waiting.id;
    perform private.hold_units(waiting.id, networks, held_until, true);
  end if;
end
$$;

comment on function private.reserve_for_prompt is
  'Before a prompt for an unpaid order: holds its units for five minutes if it holds none, and moves its expiry once to five minutes from now. Refuses (product_unavailable, out_of_stock, not_enough_stock, order_cancelled) if it cannot be paid any more.';

-- Execution rights
grant execute on function public.expire_reservations to service_role;

create or replace function private.begin_counted_hold(networks text[], order_id uuid, held_until timestamptz, is_prompted boolean) returns void
language plpgsql set search_path = '' as $$
#variable_conflict use_column
begin
  -- Orders of staff and of the shop itself are not limited.
  if cardinality(networks) = 0 then
    return;
  end if;
  with begun as (
    insert into private.unpaid_holds (order_id, product_id, share_of_units, is_prompted, held_until)
    select i.order_id, i.product_id, i.quantity / (p.stock_quantity + private.units_held(p.id))::double precision,
      begin_counted_hold.is_prompted, begin_counted_hold.held_until
    from public.order_items as i
    -- One step in the primary key for each item: the planner would rather read all products.
    cross join lateral (select * from public.products as p where p.id = i.product_id offset 0) as p
    where i.order_id = begin_counted_hold.order_id
    returning *
  )
  insert into private.hold_time as known (subject, product_id, counts_until, held)
  select
    counting.subject, begun.product_id, private.hold_counts_until(begun.held_until),
    date_trunc('milliseconds', (begun.held_until - now()) * begun.share_of_units)
  from begun
  cross join unnest(networks || case when begin_counted_hold.is_prompted then 'prompts' else 'placed' end) as counting (subject)
  on conflict (subject, product_id, counts_until) do update set held = known.held + excluded.held;
end
$$;

comment on function private.begin_counted_hold is
  'Counts the hold of an order on its units until its planned end, for its networks and all networks together. The order has taken the units.';

create or replace function private.extend_counted_hold(order_id uuid, held_until timestamptz) returns boolean
language plpgsql set search_path = '' as $$
#variable_conflict use_column
declare
  held private.unpaid_holds[];
  extended private.unpaid_holds;
  networks text[];
  settings public.store_settings;
begin
  perform from private.held_units as h
  where h.product_id = any (array(select u.product_id from private.unpaid_holds as u where u.order_id = extend_counted_hold.order_id))
  order by h.product_id
  for no key update;
  held := array(select h from private.unpaid_holds as h where h.order_id = extend_counted_hold.order_id order by h.product_id);
  select array_agg(k.network) into networks from private.order_networks as k where k.order_id = extend_counted_hold.order_id;
  select * into strict settings from public.store_settings;
  foreach extended in array held loop
    if not private.is_within_hold_time(
      networks, extended.product_id,
      (select i.quantity from public.order_items as i where i.order_id = extended.order_id and i.product_id = extended.product_id),
      (select p.stock_quantity + private.units_held(p.id) from public.products as p where p.id = extended.product_id),
      extend_counted_hold.held_until - extended.held_until, extended.is_prompted, settings
    ) then
      return false;
    end if;
  end loop;
  foreach extended in array held loop
    perform private.add_hold_time(extended, extended.held_since - extended.held_until);
    extended.held_until := extend_counted_hold.held_until;
    update private.unpaid_holds as h set held_until = extended.held_until
    where h.order_id = extended.order_id and h.product_id = extended.product_id;
    perform private.add_hold_time(extended, extended.held_until - extended.held_since);
  end loop;
  return true;
end
$$;

comment on function private.extend_counted_hold is
  'Moves the planned end of an order''s hold, if its networks may hold all of its units for longer. Returns whether they may; true for holds that are not counted.';

create or replace function private.end_counted_hold(order_id uuid, is_sold boolean) returns void
language plpgsql set search_path = '' as $$
#variable_conflict use_column
declare
  ended private.unpaid_holds;
begin
  for ended in delete from private.unpaid_holds as h where h.order_id = end_counted_hold.order_id returning * loop
    perform private.add_hold_time(
      ended, case when end_counted_hold.is_sold then ended.held_since - ended.held_until else now() - ended.held_until end
    );
  end loop;
end
$$;

comment on function private.end_counted_hold is
  'Ends the hold of an order: counts the time that it took. A hold that ended in a sale does not count. The caller has locked the rows of private.held_units.';

create or replace function private.read_order_lines(product_id uuid, quantity integer, items jsonb) returns private.order_line[]
language plpgsql immutable set search_path = '' as $$
declare
  lines private.order_line[];
begin
  if items is null then
    if quantity is null or quantity < 1 then
      perform private.refuse(400, 'quantity_invalid', 'The quantity must be at least 1');
    end if;
    return array[(product_id, quantity, 1)::private.order_line];
  elsif product_id is not null or quantity is not null or pg_column_size(items) > 4000 or jsonb_typeof(items) <> 'array' then
    perform private.refuse(400, 'items_invalid', 'The drinks of an order are one list of product_id and quantity');
  elsif jsonb_array_length(items) not between 1 and 10 then
    perform private.refuse(400, 'items_invalid', 'An order has one to ten different drinks');
  elsif exists (
    select from jsonb_array_elements(items) as item
    where jsonb_typeof(item) <> 'object' or coalesce(item ->> 'product_id', '') !~* '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'
  ) then
    perform private.refuse(400, 'items_invalid', 'Each drink of an order has a product_id and a quantity');
  elsif exists (
    select from jsonb_array_elements(items) as item
    where coalesce(item ->> 'quantity', '') !~ '^[1-9][0-9]{0,9}$' or (item ->> 'quantity')::bigint > 2147483647
  ) then
    perform private.refuse(400, 'quantity_invalid', 'The quantity must be at least 1');
  end if;
  select array_agg((chosen.product_id, chosen.quantity, chosen.position)::private.order_line order by chosen.product_id) into lines
  from (
    select (e.item ->> 'product_id')::uuid as product_id, least(sum((e.item ->> 'quantity')::bigint), 2147483647)::integer as quantity,
      (row_number() over (order by min(e.place)))::smallint as position
    from jsonb_array_elements(items) with ordinality as e (item, place)
    group by (e.item ->> 'product_id')::uuid
  ) as chosen;
  return lines;
end
$$;

comment on function private.read_order_lines is
  'The drinks of an order by product_id, in which order they are locked: of one product and quantity, or of items, a list of {product_id, quantity}. The same product twice is one line. Refuses (quantity_invalid, items_invalid) anything else.';

create or replace function private.offer_of(lines private.order_line[]) returns private.offered_line[]
language plpgsql stable set search_path = '' as $$
begin
  return (
    select array_agg((
        l.product_id, l.quantity, l.position, p.name, p.price, p.stock_quantity, public.units_for_sale(p)
      )::private.offered_line order by l.product_id)
    from unnest(lines) as l
    -- One step in the primary key for each line: the planner would rather read all products.
    left join lateral (select * from public.products as p where p.id = l.product_id and p.is_active offset 0) as p on true
  );
end
$$;

create or replace function private.price_of(offer private.offered_line[]) returns bigint
language sql immutable
return (select coalesce(sum(line.price::bigint * line.quantity), 0) from unnest(offer) as line);

comment on function private.price_of is 'Price of the units, without the delivery fee, in cents.';

create or replace function private.total_of_offer(
  offer private.offered_line[], settings public.store_settings, expected_total integer, discount public.discount_codes default null
) returns integer
language plpgsql stable set search_path = '' as $$
declare
  line private.offered_line;
  total bigint := settings.delivery_fee;
begin
  foreach line in array offer loop
    perform private.refuse_missing_units(
      case when cardinality(offer) > 1 then coalesce(line.name, 'One of the drinks') end,
      case when line.name is not null then line.units_for_sale end, line.quantity
    );
    total := total + line.price::bigint * line.quantity;
  end loop;
  if discount.id is not null then
    if total - settings.delivery_fee < discount.minimum_cents then
      perform private.refuse(409, 'discount_minimum', format(
        'This discount code is for drinks of at least KSh %s', to_char(discount.minimum_cents / 100, 'FM999,999,999')
      ), discount.minimum_cents::text);
    end if;
    total := total - private.discount_on(discount, total - settings.delivery_fee, settings.delivery_fee);
  end if;
  -- M-PESA charges whole shillings.
  if (total + 99) / 100 * 100 > settings.payment_limit then
    perform private.refuse_above_payment_limit(settings.payment_limit);
  elsif total_of_offer.expected_total is distinct from total then
    perform private.refuse(409, 'total_changed',
      'The price has changed since you opened this page. Please check the new total', total::text);
  end if;
  return total;
end
$$;

comment on function private.total_of_offer is
  'Price of the units and the delivery fee without the discount, in cents. Refuses an order of which a product, the stock or the total is not what its customer saw, and one below the minimum of its discount code.';

create or replace function private.may_hold_from_placing(networks text[], offer private.offered_line[], settings public.store_settings) returns boolean
language plpgsql stable set search_path = '' as $$
declare
  line private.offered_line;
  held bigint;
  units bigint;
begin
  if cardinality(networks) = 0 then
    return true;
  end if;
  foreach line in array offer loop
    held := private.units_held(line.product_id);
    units := line.stock_quantity + held;
    if held + line.quantity > ceil(units * settings.reserved_share_percent / 100.0)
      or not private.is_within_hold_time(
        networks, line.product_id, line.quantity, units, make_interval(mins => settings.reservation_minutes), false, settings
      )
    then
      return false;
    end if;
  end loop;
  return true;
end
$$;

comment on function private.may_hold_from_placing is
  'Whether an order may hold its units from placing: for each of its products all unpaid orders together stay within the share of the unsold units, and within private.is_within_hold_time. Without networks it always may.';

create or replace function private.with_quote(
  refusal jsonb, offer private.offered_line[], settings public.store_settings, discount public.discount_codes default null
) returns jsonb
language plpgsql stable set search_path = '' as $$
#variable_conflict use_column
declare
  quote jsonb;
  refused_id uuid;
  discount_cents integer := case
    when discount.id is not null then private.discount_on(discount, private.price_of(offer), settings.delivery_fee)
    else 0
  end;
begin
  select jsonb_build_object(
      'delivery_fee', settings.delivery_fee,
      'total', sum(line.price::bigint * line.quantity) + settings.delivery_fee - discount_cents,
      'items', jsonb_agg(
        jsonb_build_object('product_id', line.product_id, 'price', line.price, 'units_left', line.units_for_sale) order by line.position
      )
    ) || case
      when count(*) = 1 then jsonb_build_object('price', min(line.price), 'units_left', min(line.units_for_sale))
      else '{}'
    end || case when discount.id is not null then jsonb_build_object('discount', discount_cents) else '{}' end,
    (array_agg(line.product_id order by line.product_id) filter (where line.name is null or line.units_for_sale < line.quantity))[1]
  into quote, refused_id
  from unnest(offer) as line;
  refusal := refusal || jsonb_build_object('quote', quote);
  return case
    when refusal ->> 'details' in ('product_unavailable', 'out_of_stock', 'not_enough_stock')
      then refusal || jsonb_build_object('product_id', refused_id)
    else refusal
  end;
end
$$;

comment on function private.with_quote is
  'A refused order with the current amounts, so that its form can show them: quote has delivery_fee, total and the price and units_left of each item; of an order for one product these two beside them, too; of an order with a discount code that it may use, discount. product_id: the product that cannot be had.';

create or replace function private.add_order_items(order_id uuid, offer private.offered_line[]) returns void
language plpgsql set search_path = '' as $$
begin
  -- By product, as counters of held units are locked.
  insert into public.order_items (order_id, product_id, product_name, quantity, unit_price, position)
  select add_order_items.order_id, line.product_id, line.name, line.quantity, line.price, line.position
  from unnest(offer) as line;
end
$$;

create or replace function public.place_order(
  idempotency_key uuid,
  product_id uuid default null,
  quantity integer default null,
  customer_name text default null,
  customer_email text default null,
  customer_phone text default null,
  delivery_location text default null,
  expected_total integer default null,
  building text default null,
  unit text default null,
  delivery_notes text default null,
  accepts_terms boolean default null,
  items jsonb default null,
  source text default 'storefront',
  is_collected boolean default false,
  discount_code text default null
) returns jsonb
language plpgsql security definer
set search_path = ''
-- A cached plan made for few orders must not scan many.
-- The functions it calls inherit this: one with an array as parameter would be planned again at each call.
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  callers text[] := private.caller_networks();
  -- Staff and the shop itself: their orders are not limited, may be of any source, and need neither an email address nor a tick.
  is_by_shop boolean := coalesce(auth.role(), '') = 'service_role' or public.may('orders');
  -- Counted before the subtransaction of the block below, so that a refusal does not roll it back.
  is_within_limit boolean := case when is_by_shop then true else private.count_call_from(callers, 'place_order') end;
  customer private.order_details;
  fingerprint text;
  earlier private.order_keys;
  settings public.store_settings;
  lines private.order_line[];
  offer private.offered_line[];
  total integer;
  code text := case when place_order.discount_code is not null then private.read_discount_code(place_order.discount_code) end;
  discount public.discount_codes;
  discount_cents integer := 0;
  refusal jsonb;
  new_order public.orders;
  number text;
  new_id uuid := gen_random_uuid();
  access_key text;
  networks text[] := case when is_by_shop then '{}' else callers end;
  holds_units boolean;
  held_until timestamptz;
  expires_at timestamptz;
  expiry_limit timestamptz;
  refusal_details text;
  refusal_hint text;
begin
  -- A repeated call returns its order even over the limit: its client may have lost the first response. Customers who paid before are
  -- served even while a stranger uses up the limit of their common network.
  if not is_within_limit
    and not exists (select from private.order_keys as k where k.idempotency_key = place_order.idempotency_key)
    and not private.has_paid(private.normalised_phone(left(place_order.customer_phone, 40)))
  then
    perform private.refuse(429, 'too_many_orders', format(
      'Too many orders from your network. Please try again in %s, or call or WhatsApp us on %s', private.time_left('place_order'), private.contact_numbers()
    ));
  elsif place_order.idempotency_key is null then
    perform private.refuse(400, 'idempotency_key_missing', 'The order has no idempotency key');
  elsif not is_by_shop and (place_order.source, place_order.is_collected) is distinct from ('storefront', false) then
    perform private.refuse(403, 'staff_only', 'Only staff may do this');
  elsif place_order.is_collected is null or place_order.source is null
    or place_order.source not in ('storefront', 'call', 'whatsapp', 'walk_in')
  then
    perform private.refuse(400, 'source_unknown', 'An order comes from the storefront, a call, a chat on WhatsApp or a customer in the shop');
  end if;

  customer := private.read_order_details(
    place_order.customer_name, place_order.customer_email, place_order.customer_phone,
    case
      when place_order.is_collected and coalesce(private.visible_length(left(place_order.delivery_location, 1000)), 0) = 0
        then 'Collected at the shop'
      else place_order.delivery_location
    end,
    place_order.building, place_order.unit, place_order.delivery_notes, is_email_optional => is_by_shop
  );
  lines := private.read_order_lines(place_order.product_id, place_order.quantity, place_order.items);
  fingerprint := encode(sha256(convert_to(
    jsonb_build_array(place_order.product_id, coalesce(to_jsonb(place_order.quantity), place_order.items), customer.name, customer.email,
      customer.phone, customer.address, customer.notes, place_order.expected_total)::text
      || case when place_order.source <> 'storefront' or place_order.is_collected
        then concat_ws(' ', place_order.source, place_order.is_collected) else '' end
      || coalesce(' ' || code, ''),
    'UTF8'
  )), 'hex');

  -- The first request with a key places the order; concurrent ones with the same key wait here.
  insert into private.order_keys as k (idempotency_key, request_hash, order_id)
  values (place_order.idempotency_key, fingerprint, new_id)
  on conflict do nothing
  returning k.access_key into access_key;
  if not found then
    select * into strict earlier from private.order_keys as k where k.idempotency_key = place_order.idempotency_key;
    if earlier.request_hash <> fingerprint then
      perform private.refuse(409, 'idempotency_key_reused', 'This idempotency key belongs to another order');
    end if;
    select * into new_order from public.orders as o where o.id = earlier.order_id;
    return private.placed_order(new_order, earlier.access_key);
  end if;

  select * into strict settings from public.store_settings;
  perform private.refuse_while_paused(settings);
  if settings.requires_terms_tick and place_order.accepts_terms is not true and not is_by_shop then
    perform private.refuse(400, 'terms_not_accepted', 'Please confirm that you are 18 or older and accept our terms and privacy notice');
  elsif not is_by_shop then
    perform private.refuse_blocked_phone(customer.phone);
  end if;
  perform private.refuse_too_many_unpaid_orders(networks, customer.phone, settings);

  if place_order.is_collected then
    settings.delivery_fee := 0;
  end if;
  offer := private.offer_of(lines);
  if code is not null then
    if not is_by_shop and not private.is_within_limit('discount_codes') then
      perform private.refuse(429, 'too_many_discount_codes', format(
        'Too many wrong discount codes from your network. Please try again in %s, or order without one', private.time_left('discount_codes')
      ));
    end if;
    discount := private.find_discount(code, customer.phone);
  end if;
  total := private.total_of_offer(offer, settings, place_order.expected_total, discount);
  if code is not null then
    discount_cents := private.price_of(offer) + settings.delivery_fee - total;
  end if;
  holds_units := private.may_hold_from_placing(networks, offer, settings);
  held_until := now() + make_interval(mins => settings.reservation_minutes);
  expires_at := held_until;
  expiry_limit := now() + private.longest_reservation(make_interval(mins => settings.reservation_minutes));
  -- These customers get the link from staff, and pay when they read it.
  if place_order.source in ('call', 'whatsapp') then
    held_until := expiry_limit;
    expires_at := greatest(held_until, now() + private.pay_link_time());
    expiry_limit := private.limit_of_pay_link(expires_at);
  end if;
  for attempt in 1 .. 10 loop
    number := coalesce(number, private.draw_tracking_number());
    insert into public.orders (
      id, tracking_number, customer_name, customer_email, customer_phone, shipping_address, delivery_notes,
      delivery_fee, total_amount, reserved_until, expires_at, expiry_limit, terms_accepted_at, accepted_terms,
      source, is_collected, discount_cents, discount_code
    ) values (
      new_id, number, customer.name, customer.email, customer.phone, customer.address, customer.notes,
      settings.delivery_fee, total, case when holds_units then held_until end, expires_at, expiry_limit,
      case when place_order.accepts_terms then now() end,
      case when place_order.accepts_terms then (
        select coalesce(jsonb_object_agg(t.slug, t.updated_at), '{}') || jsonb_build_object('is_ticked', settings.requires_terms_tick)
        from public.shop_texts as t
        where t.slug in ('terms', 'privacy')
      ) end,
      place_order.source, place_order.is_collected, discount_cents, discount.code
    )
    on conflict (tracking_number) do nothing
    returning * into new_order;
    if not found then
      number := null;
      continue;
    end if;
    -- Orders of one product wait for each other from here to their end, so that the costly part comes before. Another order may have
    -- changed what is left. Products are locked by id, so that two orders of the same products cannot deadlock.
    perform from public.products as p
    where p.id = any (array(select line.product_id from unnest(lines) as line)) order by p.id for no key update;
    offer := private.offer_of(lines);
    if code is not null then
      -- Last of the locks.
      discount := private.find_discount(code, customer.phone, new_order.id);
    end if;
    total := private.total_of_offer(offer, settings, place_order.expected_total, discount);
    exit when not holds_units;
    holds_units := private.may_hold_from_placing(networks, offer, settings);
    exit when holds_units;
    -- Placed again without a hold, under another id: the key would be deleted with its order. It keeps its number: a
    -- new one could wait for an order that waits for this product.
    new_id := gen_random_uuid();
    update private.order_keys as k set order_id = new_id where k.idempotency_key = place_order.idempotency_key;
    delete from public.orders as o where o.id = new_order.id;
    new_order := null;
  end loop;
  if new_order.id is null then
    perform private.refuse(503, 'no_tracking_number', 'No tracking number could be drawn. Please try again');
  end if;

  perform private.add_order_items(new_order.id, offer);
  if code is not null and discount_cents <> private.price_of(offer) + settings.delivery_fee - total then
    -- A price and the code have changed by the same amount since the order was inserted.
    update public.orders as o set discount_cents = private.price_of(offer) + settings.delivery_fee - total
    where o.id = new_order.id
    returning * into new_order;
  end if;
  if cardinality(networks) > 0 then
    insert into private.order_networks (order_id, network, phone)
    select new_order.id, caller.network, customer.phone
    from unnest(networks) as caller (network);
  end if;
  if holds_units then
    perform private.hold_units(new_order.id, networks, held_until, false);
  end if;
  return private.placed_order(new_order, access_key);
exception when sqlstate 'PT000' then
  get stacked diagnostics refusal_details = pg_exception_detail, refusal_hint = pg_exception_hint;
  if refusal_details in ('discount_invalid', 'discount_used') and not is_by_shop then
    perform private.count_call_from(callers, 'discount_codes');
  end if;
  refusal := private.refusal_answer(sqlstate, sqlerrm, refusal_details, refusal_hint);
  return case when offer is null then refusal else private.with_quote(refusal, offer, settings, discount) end;
end
$$;

comment on function public.place_order is
  'Places an order of up to ten drinks in one transaction: of product_id and quantity, or of items (private.read_order_lines). Prices and fee come from the database; the order gets a new tracking number, and holds its units (reserved_until) unless unpaid orders hold too many. The same key again returns the same order. A refusal includes the current amounts (private.with_quote). discount_code: the order uses it, and expected_total is what remains to pay after its discount. Staff also say where it came from (source) and whether it is collected; their orders need no email address and no terms.';

create or replace function public.change_order_items(
  order_id uuid, access_key text, items jsonb, expected_total integer
) returns jsonb
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  callers text[] := private.caller_networks();
  -- Counted before the subtransaction of the block below, so that a refusal does not roll it back.
  is_within_limit boolean := private.count_call_from(callers, 'place_order');
  lines private.order_line[];
  changed public.orders;
  settings public.store_settings;
  offer private.offered_line[];
  total integer;
  discount public.discount_codes;
  networks text[];
  product_ids uuid[];
  refusal jsonb;
  refusal_details text;
  refusal_hint text;
begin
  lines := private.read_order_lines(null, null, change_order_items.items);
  -- The lock on the order's row serialises this with its payments and its expiry.
  select o.* into changed from public.orders as o
  where o.id = change_order_items.order_id
    and exists (select from private.order_keys as k where k.order_id = o.id and k.access_key = change_order_items.access_key)
  for no key update of o;
  if not found then
    perform private.refuse(404, 'order_not_found', 'This order does not exist');
  elsif not is_within_limit and not private.has_paid(changed.customer_phone) then
    perform private.refuse(429, 'too_many_orders', format(
      'Too many orders from your network. Please try again in %s, or call or WhatsApp us on %s', private.time_left('place_order'), private.contact_numbers()
    ));
  elsif changed.payment_status <> 'unpaid' then
    perform private.refuse(409, 'order_already_paid', 'This order is already paid');
  elsif changed.status = 'cancelled' or changed.expires_at <= now() then
    perform private.refuse(409, 'order_cancelled', 'This order was cancelled. Please place a new one');
  elsif changed.status <> 'pending' then
    perform private.refuse(409, 'order_in_work', 'This order is being prepared already. Please place a new one');
  -- Also one that failed: its money can still come, in the amount of the drinks of then.
  elsif exists (select from public.payments as p where p.order_id = changed.id)
    or exists (select from public.mpesa_transactions as t where t.order_id = changed.id)
  then
    perform private.refuse(409, 'payment_begun', 'A payment for this order has begun, so its drinks cannot change. Please place a new order for more');
  end if;
  select * into strict settings from public.store_settings;
  perform private.refuse_while_paused(settings);
  -- The fee that the customer saw when placing the order.
  settings.delivery_fee := changed.delivery_fee;

  product_ids := array(
    select i.product_id from public.order_items as i where i.order_id = changed.id
    union select line.product_id from unnest(lines) as line
  );
  perform from public.products as p where p.id = any (product_ids) order by p.id for no key update;
  if changed.reserved_until is not null then
    perform private.return_units(changed.id, 'order_changed');
    update public.orders as o set reserved_until = null where o.id = changed.id;
  end if;
  offer := private.offer_of(lines);
  if changed.discount_code is not null then
    -- The discount that the customer agreed on, also after the code has ended. Below its minimum the order gives it back.
    select * into discount from public.discount_codes as d
    where d.code = changed.discount_code and d.minimum_cents <= private.price_of(offer);
  end if;
  total := private.total_of_offer(offer, settings, change_order_items.expected_total, discount);
  select coalesce(array_agg(k.network), '{}') into networks from private.order_networks as k where k.order_id = changed.id;
  delete from public.order_items as i where i.order_id = changed.id;
  perform private.add_order_items(changed.id, offer);
  perform private.record_order_event(
    changed.id, 'items_changed', 'customer', jsonb_build_object('from_cents', changed.total_amount, 'to_cents', total)
  );
  update public.orders as o
  set total_amount = total, updated_at = now(), discount_code = discount.code,
      discount_cents = case when discount.id is null then 0 else private.price_of(offer) + settings.delivery_fee - total end,
      reserved_until = case when private.may_hold_from_placing(networks, offer, settings) then changed.expires_at end
  where o.id = changed.id
  returning * into changed;
  if changed.reserved_until is not null then
    perform private.hold_units(changed.id, networks, changed.reserved_until, false);
  end if;
  perform private.notify_order_followers(changed.id);
  return private.placed_order(changed, change_order_items.access_key);
exception when sqlstate 'PT000' then
  get stacked diagnostics refusal_details = pg_exception_detail, refusal_hint = pg_exception_hint;
  refusal := private.refusal_answer(sqlstate, sqlerrm, refusal_details, refusal_hint);
  return case when offer is null then refusal else private.with_quote(refusal, offer, settings, discount) end;
end
$$;

comment on function public.change_order_items is
  'Replaces the drinks of an order that waits for its payment, in one transaction: prices from the database, fee and discount as they were agreed, the units held as by a new order. Proof: the order''s access key. Refuses once a payment has begun. Answers and refuses as place_order does.';

-- Execution rights
grant execute on function public.place_order, public.change_order_items to anon, authenticated, service_role;

create or replace function public.order_receipt(tracking_number text, access_key text default null, phone_last_four text default null)
returns jsonb
language plpgsql volatile security definer set search_path = '' as $$
declare
  opened record;
  receipt_of public.orders;
begin
  select * into opened
  from private.open_order(order_receipt.tracking_number, order_receipt.access_key, order_receipt.phone_last_four);
  receipt_of := opened.found_order;
  if opened.refusal is not null then
    return opened.refusal;
  end if;
  if receipt_of.id is null then
    return null;
  end if;
  if opened.is_by_order_number and not opened.is_open then
    return private.describe_by_order_number(receipt_of);
  elsif not opened.is_open then
    return jsonb_build_object('tracking_number', receipt_of.tracking_number, 'is_masked', true);
  end if;
  return private.describe_order(receipt_of, true) - 'delivery_notes' || jsonb_build_object(
    'order_number', receipt_of.order_number,
    'order_items', coalesce((
      select jsonb_agg(
        jsonb_build_object('id', i.id, 'name', i.product_name, 'quantity', i.quantity, 'unit_price', i.unit_price)
        order by i.position
      )
      from public.order_items as i where i.order_id = receipt_of.id
    ), '[]'::jsonb),
    'payments', coalesce((
      select jsonb_agg(
        jsonb_build_object(
          'id', p.id, 'charge_cents', p.charge_cents, 'receipt', p.receipt, 'completed_at', p.completed_at,
          'method', p.method, 'is_surplus', p.needs_refund, 'refunded_at', p.refunded_at, 'refund_receipt', p.refund_receipt,
          'parts_back', array(
            select jsonb_build_object('amount_cents', c.amount_cents, 'receipt', c.receipt, 'way', c.way, 'noted_at', c.noted_at)
            from public.change_notes as c where c.payment_id = p.id and c.kind = 'returned' order by c.noted_at, c.id
          ),
          'credit_cents', case when p.refunded_at is null then (select change.owed_cents from private.change_of(p.id) as change) end
        )
        order by p.completed_at, p.id
      )
      from public.payments as p where p.order_id = receipt_of.id and p.status = 'completed'
    ), '[]'::jsonb)
  );
end
$$;

comment on function public.order_receipt is
  'With proof: what track_order shows, and every completed payment. Without proof: only that the order exists. Null: no such order.';

create or replace function private.describe_order(described public.orders, is_open boolean) returns jsonb
language plpgsql stable set search_path = '' as $$
#variable_conflict use_column
declare
  answer jsonb := private.order_facts(described, is_open) || jsonb_build_object('is_masked', not is_open);
begin
  if not is_open and described.created_at < now() - interval '30 days' then
    return answer;
  end if;

  answer := answer || jsonb_build_object(
    'delivery_fee', described.delivery_fee,
    'created_at', described.created_at,
    'customer_name', case when is_open then described.customer_name else private.masked_name(described.customer_name) end,
    'customer_phone', case when is_open then described.customer_phone else private.masked_phone(described.customer_phone) end,
    'order_items', coalesce((
      select jsonb_agg(jsonb_build_object(
        'id', i.id,
        'quantity', i.quantity,
        'unit_price', i.unit_price,
        'product', jsonb_build_object(
          'name', coalesce(p.name, i.product_name), 'image_url', p.image_url, 'category', p.category,
          'slug', case when p.is_active then p.slug end
        )
      ) order by i.position)
      from public.order_items as i
      left join public.products as p on p.id = i.product_id
      where i.order_id = described.id
    ), '[]'::jsonb)
  ) || case
    when described.discount_cents = 0 then '{}' else jsonb_build_object('discount_cents', described.discount_cents)
  end;
  if not is_open then
    return answer;
  end if;
  return answer || jsonb_build_object(
    'id', described.id,
    'access_key', (select k.access_key from private.order_keys as k where k.order_id = described.id),
    'shipping_address', described.shipping_address, 'delivery_notes', described.delivery_notes,
    'are_prompts_paused', described.payment_status = 'unpaid' and public.are_prompts_paused()
  ) || case when described.discount_code is null then '{}' else jsonb_build_object('discount', (
    select private.discount_terms(d) from public.discount_codes as d where d.code = described.discount_code
  )) end;
end
$$;

comment on function private.describe_order is
  'The order as its caller may see it: everything with proof, also the terms of its discount code (discount); else status, items and total, with name and phone masked; after 30 days only the status.';

create or replace function private.order_facts(described public.orders, is_open boolean) returns jsonb
language plpgsql stable set search_path = '' as $$
#variable_conflict use_column
declare
  answer jsonb;
  doubt text;
begin
  answer := jsonb_build_object(
    'tracking_number', described.tracking_number, 'live_handle', described.live_handle,
    'status', private.shown_status(described.status), 'payment_status', described.payment_status,
    'updated_at', described.updated_at
  );
  -- Public: whether the order is paid and whether staff check a payment. Not public: the amount.
  if described.payment_status = 'unpaid' then
    select case
      when bool_or(p.status = 'review') then 'review'
      -- The money of an unpaid order was being refunded already when it was matched to the order.
      when bool_or(p.status = 'completed' and p.refunded_at is null) then 'goes_back'
      when bool_or(private.is_open_attempt(p.status)) then 'prompted'
      when (array_agg(p.status order by p.created_at desc))[1] = 'unresolved' then 'unresolved'
    end into doubt
    from public.payments as p
    where p.order_id = described.id;
    if doubt is not null then
      answer := answer || jsonb_build_object('payment_check', doubt);
    end if;
  elsif private.has_money(described.payment_status) and exists (
    select from public.payments as p
    join public.refunds as r on r.payment_id = p.id
    where p.order_id = described.id and not p.needs_refund and private.is_open_refund(r.status) and r.status <> 'requested'
  ) then
    answer := answer || '{"is_refunding": true}';
  end if;
  if described.payment_method = 'cash' then
    answer := answer || '{"pays_cash": true}';
  elsif described.payment_method = 'credit' then
    answer := answer || '{"pays_credit": true}';
  end if;
  if described.status = 'cancelled' then
    answer := answer || jsonb_strip_nulls(jsonb_build_object('cancelled_because', nullif(described.cancel_reason, 'refunded')));
  end if;
  if is_open or described.created_at >= now() - interval '30 days' then
    answer := answer || jsonb_build_object('total_amount', described.total_amount);
  end if;
  if not is_open then
    return answer;
  end if;

  if described.payment_status = 'unpaid' and described.status = 'pending' then
    answer := answer || jsonb_build_object('reserved_until', described.reserved_until, 'expires_at', described.expires_at);
  elsif described.payment_status <> 'unpaid' then
    select answer || jsonb_strip_nulls(jsonb_build_object(
      'paid_cents', sum(p.charge_cents) filter (where not p.needs_refund),
      'refunded_cents', sum(p.charge_cents) filter (where not p.needs_refund and p.refunded_at is not null),
      -- A second payment that is kept goes nowhere.
      'surplus_cents', nullif(sum(p.charge_cents - change.owed_cents - change.returned_cents - change.used_cents)
        filter (where p.needs_refund and p.refunded_at is null), 0),
      'part_refunded_cents', nullif(sum(change.returned_cents) filter (where p.refunded_at is null), 0),
      'credit_cents', nullif(sum(change.owed_cents) filter (where p.refunded_at is null), 0)
    )) into answer
    from public.payments as p
    cross join lateral private.change_of(p.id) as change
    where p.order_id = described.id and p.status = 'completed';
  end if;
  -- Partial payments under the order's number: shown only with proof, because anyone can send one.
  return answer || jsonb_strip_nulls(jsonb_build_object('part_paid_cents', (
    select sum(t.received_cents) from public.mpesa_transactions as t
    where t.order_id = described.id and t.payment_id is null and t.resolution is null
  )));
end
$$;

comment on function private.order_facts is
  'Facts about an order''s state that web/lib/orders/order-meaning.ts reads. With proof (is_open) also reserved_until, expires_at, paid_cents, refunded_cents (the part of it that was sent back), surplus_cents (paid beyond the charge, to be refunded), part_refunded_cents (what went back in part), credit_cents (what is owed for another order) and part_paid_cents.';

-- Execution rights
grant execute on function public.track_order, public.order_receipt, public.orders_by_access_key
  to anon, authenticated, service_role;

create policy "staff read every payment, the counter those of recent orders" on public.payments
  for select to authenticated using ((select public.may('orders')) or ((select public.may('deliveries')) and public.is_recent_order(order_id)));

create or replace function public.begin_payment(
  order_id uuid, tracking_number text, phone text, callback_secret text, expected_cents integer default null,
  same_amount_seconds integer default 0, requested_by uuid default null
) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  payer text := private.normalised_phone(begin_payment.phone);
  ordered public.orders;
  current_attempt public.payments;
  detail text;
  hint text;
begin
  if payer is null then
    perform private.refuse(400, 'phone_invalid', 'Please enter a valid phone number');
  end if;
  -- The lock on the order's row serialises its attempts, settlements and expiry.
  select * into ordered from public.orders as o
  where o.id = begin_payment.order_id and o.tracking_number = begin_payment.tracking_number
  for no key update;
  if not found then
    perform private.refuse(404, 'order_not_found', 'This order does not exist');
  end if;
  select * into current_attempt from public.payments as p
  where p.order_id = ordered.id and (
    private.is_unsettled_attempt(p.status)
    -- Money that does not pay the order allows another attempt.
    or (p.status = 'completed' and not p.needs_refund and (
      private.was_paid(ordered.payment_status)
      or (ordered.payment_status = 'needs_review' and p.charge_cents = ordered.charge_cents)
    ))
  )
  order by (p.status = 'completed') desc, p.created_at desc
  limit 1;
  if found then
    return jsonb_build_object('is_new', false, 'payment', to_jsonb(current_attempt));
  end if;
  if ordered.payment_status = 'needs_review' then
    perform private.refuse(409, 'payment_needs_review',
      'Money for this order has reached us in another amount. We will call you about it: please do not pay again');
  elsif ordered.payment_status <> 'unpaid' then
    perform private.refuse(409, 'order_already_paid', 'This order is already paid');
  elsif ordered.status = 'cancelled' then
    perform private.refuse(409, 'order_cancelled', 'This order was cancelled. Please place a new one');
  end if;
  if ordered.charge_cents < 100 then
    perform private.refuse(409, 'nothing_to_pay', 'There is nothing to pay for this order');
  elsif begin_payment.expected_cents not in (ordered.total_amount, ordered.charge_cents) then
    perform private.refuse(409, 'amount_changed', 'The amount does not match the order');
  elsif ordered.charge_cents > (select s.payment_limit from public.store_settings as s) then
    perform private.refuse_above_payment_limit((select s.payment_limit from public.store_settings as s));
  end if;

  -- Without limits, one order could send prompts to many phones. Staff send them to all who call, from the network of the shop.
  if begin_payment.requested_by is not null then
    null;
  elsif not private.may_prompt_from_network(payer) then
    return private.refusal_answer('PT429', format(
      'Too many payments from your network. Please try again in %s, or call or WhatsApp us on %s', private.time_left('payment_prompts'), private.contact_numbers()
    ), 'too_many_payments', '');
  elsif not private.may_prompt_new_phone(payer) then
    return private.refusal_answer('PT429', format(
      'Too many payment prompts to new phones from your network today. Please try again in %s, or call or WhatsApp us on %s', private.time_left('prompted_phones'), private.contact_numbers()
    ), 'too_many_payments', '');
  end if;
  if not private.count_call('payment_prompts_of_order', ordered.id::text) then
    return private.refusal_answer('PT429', format(
      'Too many payment attempts for this order. Please try again in %s, or call or WhatsApp us on %s', private.time_left('payment_prompts_of_order'), private.contact_numbers()
    ), 'too_many_attempts', '');
  end if;
  if not private.count_call('payment_prompts_to_phone', payer) then
    return private.refusal_answer('PT429', format(
      'Too many payment prompts to this phone. Please try again in %s, or call or WhatsApp us on %s', private.time_left('payment_prompts_to_phone'), private.contact_numbers()
    ), 'too_many_prompts', '');
  end if;
  if not private.may_prompt_phone(payer, ordered) then
    return private.refusal_answer('PT429', format(
      'This phone had many unpaid payment prompts today. Please pay from another phone, or call or WhatsApp us on %s',
      private.contact_numbers()
    ), 'too_many_unanswered_prompts', '');
  end if;

  -- Refusals from here on return, so that the calls stay counted.
  begin
    perform private.refuse_same_amount(
      payer, ordered.charge_cents, interval '1 second' * least(greatest(begin_payment.same_amount_seconds, 0), 600)
    );
    insert into public.payments (order_id, phone, charge_cents, next_query_at, requested_by, requested_by_email)
    values (
      ordered.id, payer, ordered.charge_cents, null, begin_payment.requested_by, private.email_of(begin_payment.requested_by)
    )
    returning * into current_attempt;
    insert into private.payment_secrets (payment_id, callback_secret)
    values (current_attempt.id, begin_payment.callback_secret);
    -- Products are locked last, as everywhere.
    perform private.reserve_for_prompt(ordered.id);
  exception when sqlstate 'PT000' then
    get stacked diagnostics detail = pg_exception_detail, hint = pg_exception_hint;
    return private.refusal_answer(sqlstate, sqlerrm, detail, hint);
  end;
  return jsonb_build_object(
    'is_new', true, 'payment', to_jsonb(current_attempt), 'tracking_number', ordered.tracking_number
  );
end
$$;

comment on function public.begin_payment is
  'Opens a payment attempt for an order, or returns the open or successful one. id and tracking number must belong to one order. A prompt may be sent only if is_new. same_amount_seconds: how long M-PESA refuses the same amount from one phone; 0: it does not. requested_by: the staff member who sends the prompt, whose network is not limited; null: the customer.';

-- Execution rights
grant execute on function public.begin_payment, public.begin_payment_test, public.record_push, public.find_payment,
  public.lease_payment_queries to service_role;

create or replace function private.set_order_paid(paid_order public.orders, payment_method text) returns void
language plpgsql set search_path = '' as $$
#variable_conflict use_variable
begin
  update public.orders as o
  set payment_status = 'paid', payment_method = set_order_paid.payment_method,
      status = case when private.is_before_work(o.status) then 'processing' else o.status end,
      reserved_until = null, updated_at = now()
  where o.id = paid_order.id;
  -- The promise of the delivery time counts from the payment, also where staff assigned a rider before it; with cash at the door, from
  -- the agreement on it.
  insert into public.deliveries (order_id) values (paid_order.id)
  on conflict on constraint "an order is delivered once" do update set created_at = excluded.created_at
  where paid_order.payment_method <> 'cash';
  perform private.note_paid_order(paid_order.id);
end
$$;

comment on function private.set_order_paid is
  'Marks an order as paid, as it was before, and creates its delivery. The caller has locked the order, which has its units.';

create or replace function private.mark_order_paid(order_id uuid) returns text
language plpgsql set search_path = '' as $$
declare
  paid_order public.orders;
  needs_review boolean := false;
begin
  select * into strict paid_order from public.orders as o where o.id = mark_order_paid.order_id;
  -- Another amount than the charge needs review; such an order holds no units.
  if paid_order.payment_status = 'unpaid' and exists (
    select from public.payments as p
    where p.order_id = paid_order.id and p.status = 'completed' and not p.needs_refund
      and p.charge_cents <> paid_order.charge_cents
  ) then
    if paid_order.reserved_until is not null then
      perform private.return_units(paid_order.id, 'under_review');
    end if;
    -- Of an order that was to be paid in cash.
    delete from public.deliveries as d where d.order_id = paid_order.id;
    needs_review := true;
  elsif paid_order.reserved_until is null then
    -- Late money: the units were returned. They are taken again, unless too few are left or a product was deleted.
    needs_review := not exists (
      select from public.order_items as i where i.order_id = paid_order.id having bool_and(i.product_id is not null)
    ) or not private.take_units(paid_order.id);
  end if;
  if needs_review then
    update public.orders as o
    set payment_status = 'needs_review', payment_method = 'mpesa', reserved_until = null, updated_at = now()
    where o.id = paid_order.id;
    return 'paid_needs_review';
  end if;
  perform private.set_order_paid(paid_order, 'mpesa');
  return 'paid';
end
$$;

comment on function private.mark_order_paid is
  'Marks an order as paid and creates its delivery, or puts it under review: another amount than the charge, or too few units left. Returns the outcome: paid or paid_needs_review. The caller has locked the order.';

create or replace function private.complete_attempt(attempt public.payments, report private.payment_report) returns text
language plpgsql set search_path = '' as $$
declare
  paid_order public.orders;
  purpose text;
begin
  if attempt.purpose = 'test' then
    perform private.mark_attempt_completed(attempt.id, report);
    return 'completed';
  end if;
  select * into strict paid_order from public.orders as o where o.id = attempt.order_id;
  purpose := case
    -- Money that is being refunded, or was refunded, pays nothing.
    when report.receipt is not null and not private.withdraw_unsent_transaction_refunds(report.receipt) then 'goes_back'
    when paid_order.payment_status = 'unpaid' then 'pays'
    when paid_order.payment_status = 'needs_review' then private.purpose_for_reviewed_order(attempt, report.source, paid_order)
    else 'paid_twice'
  end;
  perform private.mark_attempt_completed(attempt.id, report, needs_refund => purpose in ('paid_twice', 'goes_back'));
  case purpose
    when 'pays' then
      return private.mark_order_paid(paid_order.id);
    when 'part' then
      return 'paid_needs_review';
    when 'goes_back' then
      return 'goes_back';
    else
      if attempt.method = 'till' then
        -- M-PESA refunds only money with a receipt, and this may be the receipt of an earlier prompt. Cash and credit have none.
        update public.payments as p
        set needs_refund = true, updated_at = now()
        where p.order_id = attempt.order_id and p.id <> attempt.id and p.status = 'completed' and p.receipt is null
          and not p.needs_refund and p.charge_cents = attempt.charge_cents and p.method = 'prompt' and not private.is_being_refunded(p.id);
        if found then
          update public.payments as p set needs_refund = false where p.id = attempt.id;
        end if;
      end if;
      return 'paid_twice';
  end case;
end
$$;

comment on function private.complete_attempt is
  'Completes an open attempt and pays its order, or marks the money as too much, too little or being refunded. Returns the outcome: paid, paid_needs_review, paid_twice or goes_back; completed for a test. The caller has locked the order.';

create policy "staff read every transaction" on public.mpesa_transactions
  for select to authenticated using ((select public.may('orders')));

create or replace function private.separate_receipt(payment_id uuid, failed boolean default false) returns uuid
language plpgsql set search_path = '' as $$
declare
  attempt public.payments;
  own_id uuid;
  confirmed_by_staff uuid;
begin
  select * into strict attempt from public.payments as p where p.id = separate_receipt.payment_id;
  select (m.body::jsonb ->> 'confirmed_by')::uuid into confirmed_by_staff
  from public.payment_messages as m
  where m.payment_id = attempt.id and m.source = 'till' and m.receipt = attempt.receipt
  order by m.id limit 1;
  update public.payments as p
  set receipt = null, confirmed_by = case when confirmed_by_staff is null then p.confirmed_by end,
      status = case
        when p.presumption is distinct from 'attempt' then p.status
        when separate_receipt.failed then 'failed'
        when p.checkout_request_id is null or p.created_at < now() - interval '1 day' or exists (
          select from public.payments as other
          where other.order_id = p.order_id and other.id <> p.id and private.is_open_attempt(other.status)
        ) then 'unresolved'
        else 'processing'
      end,
      next_query_at = case
        when p.presumption = 'attempt' and not separate_receipt.failed and p.checkout_request_id is not null then now()
      end,
      needs_refund = p.needs_refund and p.presumption is distinct from 'attempt',
      completed_at = case when p.presumption is distinct from 'attempt' then p.completed_at end, presumption = null,
      updated_at = now()
  where p.id = attempt.id;
  update public.payments as p set next_query_at = null
  where p.id = attempt.id and p.status <> 'processing' and p.next_query_at is not null;
  own_id := (private.add_till_payment(attempt.order_id, attempt.charge_cents, confirmed_by_staff)).id;
  update public.payment_messages as m set payment_id = own_id
  where m.payment_id = attempt.id and m.receipt = attempt.receipt and m.source in ('confirmation', 'statement', 'till');
  update public.payments as p
  set status = 'completed', result_code = '0', receipt = attempt.receipt,
      -- An attempt that stays completed still pays the order.
      needs_refund = attempt.needs_refund or attempt.presumption is distinct from 'attempt',
      completed_at = attempt.completed_at, updated_at = now()
  where p.id = own_id;
  -- What is owed of the money moves with it.
  if attempt.presumption = 'attempt' then
    update public.change_notes as c set payment_id = own_id where c.payment_id = attempt.id;
  end if;
  perform private.correct_message_outcomes(attempt.id);
  perform private.correct_message_outcomes(own_id);
  return own_id;
end
$$;

comment on function private.separate_receipt is
  'Makes a wrongly presumed receipt a separate payment; the attempt becomes what it was before, or failed. The caller has locked the order. Returns the id of the separate payment.';

comment on table public.refunds is
  'Refunds of a payment, or of money without an order (transaction_receipt). receipt: M-PESA''s receipt of the incoming money; refund_receipt: of the refund. unknown: M-PESA may have sent it; M-PESA is queried and nothing is sent again. method credit: what an order was paid from is credit again; no money moved.';

comment on column public.refunds.sent_twice_at is
  'When M-PESA reported this reversal after the money had been refunded in another way. refund_receipt is the receipt of the second refund.';

comment on column public.refunds.needs_approval is 'Whether refund_cents was above the limit when the refund was requested.';

comment on column public.refunds.approved_alone is
  'The requester approved it, as the only owner, after a second factor and ten minutes.';

comment on column public.refunds.sent_twice_note is
  'How staff resolved the double refund: the customer repaid one, or it is written off.';

alter table public.refunds enable row level security;

grant select on public.refunds to authenticated;

-- Otherwise realtime would announce changes to visitors, without their rows.
grant select (id) on public.refunds to anon;

create policy "staff read every refund" on public.refunds for select to authenticated using ((select public.may('orders')));

create index refunds_newest_first on public.refunds (created_at desc);

create index refunds_by_approval on public.refunds (approved_at desc) where approved_at is not null;

create or replace function private.check_refund_right(cents bigint, payment_id uuid) returns void
language plpgsql stable set search_path = '' as $$
begin
  if cents + (select c.returned_cents from private.change_of(check_refund_right.payment_id) as c) > private.refund_limit() and (select auth.uid()) is not null and not public.may('approvals') then
    perform private.refuse(403, 'above_refund_limit', format(
      'Only an owner may note money that went back above KES %s', to_char(private.refund_limit() / 100, 'FM999,999,999')
    ));
  end if;
end
$$;

comment on function private.check_refund_right is
  'Refuses staff who may not approve refunds to give back more than the limit by hand or in cash, which no one approves. cents: with what went back in part already.';

-- Records refunds by hand of an order's payments when staff mark the order as refunded.
create or replace function private.record_refund_of_order(new public.orders) returns void
language plpgsql set search_path = '' as $$
declare
  member uuid := (select auth.uid());
begin
  with sent_back as (
    update public.payments as p
    set refunded_at = now(), updated_at = now()
    where p.order_id = new.id and p.status = 'completed' and not p.needs_refund and p.refunded_at is null
    returning p.id, private.left_to_refund(p) as left_cents, p.receipt
  )
  insert into public.refunds (
    payment_id, receipt, refund_cents, reason, method, status, requested_by, requested_by_email, completed_at
  )
  select s.id, s.receipt, s.left_cents, 'Noted with the order', 'by_hand', 'completed', member, private.email_of(member), now()
  from sent_back as s;
end
$$;

-- Updates the order of a refunded payment, as resolve_paid_order does.
create or replace function private.refund_order_of_payment(new public.payments) returns void
language plpgsql set search_path = '' as $$
declare
  refunded_order public.orders;
  refund_id uuid := (select r.id from public.refunds as r where r.payment_id = new.id and r.status = 'completed');
begin
  select * into strict refunded_order from public.orders as o where o.id = new.order_id for no key update;
  if new.needs_refund or not private.has_money(refunded_order.payment_status) then
    if new.needs_refund and new.method <> 'credit' then
      perform private.queue_order_messages(new.order_id, 'order_refunded', refund_id::text);
    end if;
    return;
  end if;
  if exists (
    select from public.payments as p
    where p.order_id = new.order_id and p.status = 'completed' and not p.needs_refund and p.refunded_at is null
  ) then
    -- Paid in parts: the order is refunded with the last part.
    if new.method <> 'credit' then
      perform private.queue_order_messages(new.order_id, 'order_refunded', refund_id::text);
    end if;
    return;
  end if;
  -- M-PESA reversed the payment after refusing to, and the order was not sent: its units return to stock.
  if refunded_order.payment_status = 'paid' and private.is_in_shop(refunded_order.status) then
    perform private.return_units(refunded_order.id, 'refunded');
  end if;
  update public.orders as o
  set payment_status = 'refunded',
      status = case
        when refunded_order.payment_status = 'needs_review' or private.is_in_shop(refunded_order.status) then 'cancelled'
        else o.status
      end,
      cancel_reason = case
        when refunded_order.payment_status = 'needs_review' or private.is_in_shop(refunded_order.status) then 'refunded'
        else o.cancel_reason
      end,
      units_returned_at = case
        when refunded_order.payment_status = 'needs_review' or private.is_in_shop(refunded_order.status) then now()
        else o.units_returned_at
      end,
      updated_at = now()
  where o.id = refunded_order.id;
end
$$;

-- Refuses payments that cannot be refunded. Locks the order first.
create or replace function private.lock_refundable_payment(payment_id uuid) returns public.payments
language plpgsql set search_path = '' as $$
declare
  paid_order public.orders;
  paid public.payments;
begin
  select o.* into paid_order from public.orders as o
  where o.id = (select p.order_id from public.payments as p where p.id = lock_refundable_payment.payment_id)
  for no key update;
  -- Credit of this money is not used while its refund begins.
  if exists (select from public.change_notes as c where lock_refundable_payment.payment_id in (c.payment_id, c.used_for)) then
    perform private.lock_credit(paid_order.customer_phone);
  end if;
  select * into paid from public.payments as p where p.id = lock_refundable_payment.payment_id for update;
  if not found then
    perform private.refuse(404, 'payment_not_found', 'This payment does not exist');
  elsif paid.refunded_at is not null or private.is_being_refunded(paid.id, paid.receipt) then
    perform private.refuse(409, 'refund_exists', 'This money is being sent back already');
  elsif paid.status <> 'completed' or not (
    paid.needs_refund
    or paid.purpose = 'test'
    or paid_order.payment_status = 'needs_review'
    or (paid_order.payment_status = 'paid' and paid_order.status = 'cancelled')
  ) then
    perform private.refuse(409, 'nothing_to_send_back', 'There is nothing to send back. Cancel a paid order first to send its money back');
  end if;
  if private.left_to_refund(paid) < 100 then
    perform private.refuse(409, 'nothing_to_send_back', 'All of this money went back already, or paid another order');
  end if;
  return paid;
end
$$;

create or replace function private.open_refund(
  payment_id uuid, transaction_receipt text, receipt text, refund_cents integer, reason text, member uuid,
  sent_by_hand text default null
) returns public.refunds
language plpgsql set search_path = '' as $$
#variable_conflict use_column
declare
  opened public.refunds;
  needs_approval boolean := sent_by_hand is null and refund_cents > private.refund_limit();
begin
  reason := private.read_reason(reason, is_required => true);
  if sent_by_hand is not null then
    perform private.check_refund_right(refund_cents, payment_id);
  end if;
  insert into public.refunds (
    payment_id, transaction_receipt, receipt, refund_cents, reason, method, status, needs_approval, requested_by, requested_by_email,
    refund_receipt, completed_at
  ) values (
    payment_id, transaction_receipt, receipt, refund_cents, reason,
    case when sent_by_hand is null then 'reversal' else 'by_hand' end,
    case when sent_by_hand is not null then 'completed' when needs_approval then 'requested' else 'approved' end, needs_approval,
    member, private.email_of(member),
    case when sent_by_hand is not null then private.check_refund_receipt(sent_by_hand) end,
    case when sent_by_hand is not null then now() end
  )
  returning * into opened;
  if opened.status = 'requested' then
    perform private.queue_staff_message('refund_to_approve', opened.id::text, except_member => member);
    perform private.add_notice('refund_to_approve', opened.id::text, caused_by => member);
  end if;
  return opened;
end
$$;

comment on function private.open_refund is
  'Requests a refund by M-PESA, or records a refund by hand when sent_by_hand (its receipt) is given.';

create or replace function public.request_refund(
  reason text, payment_id uuid default null, receipt text default null, is_sure boolean default false
) returns public.refunds
language plpgsql security definer set search_path = '' as $$
declare
  member uuid := private.expect_staff_member('refunds');
  paid public.payments;
  reported public.mpesa_transactions;
begin
  if request_refund.payment_id is null then
    reported := private.lock_refundable_transaction(request_refund.receipt, request_refund.is_sure);
    return private.open_refund(
      null, reported.receipt, reported.receipt, reported.received_cents, request_refund.reason, member
    );
  end if;
  paid := private.lock_refundable_payment(request_refund.payment_id);
  if paid.method = 'credit' then
    return private.return_to_credit(paid, private.read_reason(request_refund.reason, is_required => true), member);
  elsif paid.method = 'cash' then
    perform private.refuse(409, 'cash_goes_back_in_cash', 'This was paid in cash, which M-PESA cannot send back. Give it back, and note it');
  elsif paid.receipt is null then
    perform private.refuse(409, 'receipt_unknown',
      'M-PESA has not reported the receipt of this payment yet. Without it the money can only be sent back by hand');
  end if;
  if private.left_to_refund(paid) < paid.charge_cents then
    perform private.refuse(409, 'partly_returned',
      'Part of this money went back outside the shop, or paid another order as credit, and M-PESA reverses whole payments only. Send the rest back by hand and note it');
  end if;
  -- Staff may have typed the amount: at most the amount that M-PESA reported for the receipt is refunded.
  select * into reported from public.mpesa_transactions as t where t.receipt = paid.receipt;
  if reported.received_cents < paid.charge_cents then
    perform private.refuse(409, 'amount_differs',
      'M-PESA reported less money under this receipt than was entered. Please look at it in Reconciliation');
  end if;
  return private.open_refund(paid.id, null, paid.receipt, paid.charge_cents, request_refund.reason, member);
end
$$;

comment on function public.request_refund is
  'Requests the full refund by M-PESA of a payment, or of unassigned money by its receipt. Above the refund limit it waits for a second staff member. Money that may be an order''s, whose prompt lacks a receipt, is refunded only when is_sure. What was paid from credit is credit again at once.';

create or replace function public.approve_refund(refund_id uuid) returns public.refunds
language plpgsql security definer set search_path = '' as $$
declare
  member uuid := private.expect_staff_member('approvals');
  approved public.refunds := private.lock_refund(approve_refund.refund_id);
begin
  if approved.status <> 'requested' then
    perform private.refuse(409, 'refund_changed', 'This refund was changed in the meantime. Please look at it again');
  elsif approved.requested_by = member then
    if exists (select from private.active_owners() as owner where owner.user_id <> member) then
      perform private.refuse(403, 'second_member_needed', 'You requested this refund, so a colleague must approve it');
    elsif (select auth.jwt() ->> 'aal') is distinct from 'aal2' then
      perform private.refuse(403, 'second_factor_needed',
        'You are the only owner. Add an authenticator app under Account, sign in with it, and approve this refund then');
    elsif approved.created_at > now() - interval '10 minutes' then
      perform private.refuse(409, 'approval_too_early', format(
        'You are the only owner, so take ten minutes to think it over. You can approve it from %s on',
        to_char((approved.created_at + interval '10 minutes') at time zone 'Africa/Nairobi', 'HH24:MI')
      ));
    end if;
  end if;
  update public.refunds as r
  set status = 'approved', approved_by = member, approved_by_email = private.email_of(member), approved_at = now(),
      approved_alone = approved.requested_by = member, updated_at = now()
  where r.id = approved.id
  returning * into approved;
  return approved;
end
$$;

comment on function public.approve_refund is 'Approves, as a second owner, a refund above the limit. The only owner approves an own one after a second factor and ten minutes.';

create or replace function public.withdraw_refund(refund_id uuid) returns public.refunds
language plpgsql security definer set search_path = '' as $$
declare
  member uuid := private.expect_staff_member('refunds');
  withdrawn public.refunds := private.lock_refund(withdraw_refund.refund_id);
begin
  if withdrawn.status = 'withdrawn' then
    return withdrawn;
  end if;
  if not private.is_unsent_refund(withdrawn.status) then
    perform private.refuse(409, 'refund_changed', 'This refund was changed in the meantime. Please look at it again');
  end if;
  update public.refunds as r set status = 'withdrawn', updated_at = now() where r.id = withdrawn.id returning * into withdrawn;
  return withdrawn;
end
$$;

comment on function public.withdraw_refund is 'Withdraws a refund that was not sent to M-PESA yet.';

-- Execution rights
grant execute on function public.request_refund, public.approve_refund, public.withdraw_refund to authenticated;

create or replace function public.note_refund_by_hand(
  refund_receipt text, reason text, payment_id uuid default null, receipt text default null, is_sure boolean default false
) returns public.refunds
language plpgsql security definer set search_path = '' as $$
declare
  member uuid := private.expect_staff_member('refunds');
  paid public.payments;
  reported public.mpesa_transactions;
  noted public.refunds;
begin
  select r.* into noted from public.refunds as r
  where r.method = 'by_hand' and r.refund_receipt = private.normalised_receipt(note_refund_by_hand.refund_receipt)
    and case when note_refund_by_hand.payment_id is null
      then r.transaction_receipt = private.normalised_receipt(note_refund_by_hand.receipt) else r.payment_id = note_refund_by_hand.payment_id end;
  if found then
    return noted;
  elsif note_refund_by_hand.payment_id is null then
    reported := private.lock_refundable_transaction(note_refund_by_hand.receipt, note_refund_by_hand.is_sure);
    return private.open_refund(
      null, reported.receipt, reported.receipt, reported.received_cents, note_refund_by_hand.reason, member,
      coalesce(note_refund_by_hand.refund_receipt, '')
    );
  end if;
  paid := private.lock_refundable_payment(note_refund_by_hand.payment_id);
  if paid.method = 'credit' and not private.has_refunded_source(paid) then
    perform private.refuse(409, 'credit_goes_back_as_credit', 'This was paid from credit. Make it credit again, and give that back');
  end if;
  noted := private.open_refund(
    paid.id, null, paid.receipt, private.left_to_refund(paid),
    note_refund_by_hand.reason, member,
    coalesce(note_refund_by_hand.refund_receipt, '')
  );
  return private.complete_refund(noted.id, noted.refund_receipt);
end
$$;

comment on function public.note_refund_by_hand is
  'Records that a payment, or unassigned money by its receipt, was refunded outside the shop, with M-PESA''s receipt of the refund. Idempotent by that receipt. is_sure: as in request_refund.';

create or replace function public.close_unknown_refund(refund_id uuid, refund_receipt text default null) returns public.refunds
language plpgsql security definer set search_path = '' as $$
declare
  member uuid := private.expect_staff_member('refunds');
  closed public.refunds := private.lock_refund(close_unknown_refund.refund_id);
begin
  if closed.status <> 'unknown' then
    perform private.refuse(409, 'refund_changed', 'This refund was changed in the meantime. Please look at it again');
  elsif close_unknown_refund.refund_receipt is not null then
    return private.complete_refund(closed.id, private.check_refund_receipt(close_unknown_refund.refund_receipt));
  end if;
  if closed.sent_at > now() - interval '30 minutes' then
    perform private.refuse(409, 'refund_too_fresh', 'M-PESA may still be working on it. Please wait until half an hour has passed');
  end if;
  update public.refunds as r
  set status = 'failed', next_check_at = null, updated_at = now(),
      result_description = 'A member of staff found that nothing was sent'
  where r.id = closed.id
  returning * into closed;
  return closed;
end
$$;

comment on function public.close_unknown_refund is
  'Resolves a refund with unknown result: with its receipt, or, half an hour after it was sent, as not sent.';

create or replace function private.decide_reversal(
  refund public.refunds, source text, result text, refund_receipt text, refund_cents integer, originator_conversation_id text
) returns text
language plpgsql stable set search_path = '' as $$
#variable_conflict use_column
declare
  is_success constant boolean := decide_reversal.result = 'succeeded';
  code constant text := nullif(decide_reversal.refund_receipt, '');
begin
  return case
    when exists (select from public.refunds as r where r.refund_receipt = code and r.id <> refund.id) then 'receipt_replayed'
    when is_success and (
      code = refund.receipt
      or exists (select from public.payments as p where p.receipt = code)
      or exists (select from public.mpesa_transactions as t where t.receipt = code)
    ) then 'receipt_of_payment'
    -- Reversal results include the amount; a status with another amount may be about another payment.
    when is_success and code is not null and decide_reversal.source = 'status_result'
      and decide_reversal.refund_cents is distinct from refund.refund_cents then 'pending'
    when decide_reversal.originator_conversation_id <> refund.originator_conversation_id then 'other_request'
    when decide_reversal.result = 'pending' then 'pending'
    when is_success and refund.status = 'completed' then 'already_completed'
    when is_success and refund.tries = 0 then 'not_sent'
    when is_success and decide_reversal.refund_cents <> refund.refund_cents then 'wrong_amount'
    when is_success and exists (
      select from public.refunds as r
      where r.id <> refund.id and r.receipt = refund.receipt and r.status = 'completed'
        and (r.method = 'by_hand' or r.refund_receipt <> code)
    ) then 'sent_twice'
    when is_success and exists (
      select from public.refunds as r
      where r.id <> refund.id and r.receipt = refund.receipt
        and not private.is_dropped_refund(r.status) and not private.is_unsent_refund(r.status)
    ) then 'sent_by_another'
    when is_success then 'completed'
    when not private.is_refund_on_the_way(refund.status) then 'superseded'
    when decide_reversal.result = 'already_reversed' then 'already_reversed'
    when decide_reversal.result = 'not_reversed' and (
      -- M-PESA may not have processed the request yet, or has accepted it, or has reported a reversal of the payment before, in whatever amount.
      refund.sent_at > now() - interval '10 minutes' or refund.originator_conversation_id is not null
      or exists (select from public.payment_messages as m where m.refund_id = refund.id and m.outcome in ('already_reversed', 'wrong_amount'))
    ) then 'pending'
    else 'failed'
  end;
end
$$;

comment on function private.decide_reversal is
  'Decides what a message means for a refund. A receipt of incoming money is no receipt of a refund. not_reversed proves that nothing was sent only if M-PESA never accepted the request. The caller has locked the refund.';

create or replace function public.acknowledge_sent_twice(refund_id uuid, note text) returns public.refunds
language plpgsql security definer set search_path = '' as $$
declare
  member uuid := private.expect_staff_member('refunds');
  seen public.refunds := private.lock_refund(acknowledge_sent_twice.refund_id);
begin
  if seen.sent_twice_at is null or seen.sent_twice_seen_at is not null then
    perform private.refuse(409, 'refund_changed', 'This refund was changed in the meantime. Please look at it again');
  end if;
  update public.refunds as r
  set sent_twice_seen_at = now(), sent_twice_seen_by = member, sent_twice_seen_by_email = private.email_of(member),
      sent_twice_note = private.read_reason(acknowledge_sent_twice.note, is_required => true), updated_at = now()
  where r.id = seen.id
  returning * into seen;
  if seen.payment_id is not null then
    perform private.record_order_event(
      (select p.order_id from public.payments as p where p.id = seen.payment_id), 'refund_sent_twice_seen', 'staff',
      jsonb_build_object('refund_id', seen.id, 'refund_cents', seen.refund_cents, 'reason', seen.sent_twice_note)
    );
  end if;
  return seen;
end
$$;

comment on function public.acknowledge_sent_twice is 'Records how staff resolved money that was refunded twice.';

-- Execution rights
grant execute on function public.note_refund_by_hand, public.close_unknown_refund, public.acknowledge_sent_twice
  to authenticated;

create or replace function public.resume_prompts() returns void
language plpgsql security definer set search_path = '' as $$
begin
  perform private.expect_staff('settings');
  perform private.end_prompt_pause();
end
$$;

comment on function public.resume_prompts is 'For staff who corrected the settings: ends the pause of prompts.';

create or replace function public.payment_health() returns public.payment_health
language plpgsql stable security definer set search_path = '' as $$
declare
  health public.payment_health;
begin
  perform private.expect_staff('panel');
  health.checked_at := clock_timestamp();
  health.pause := (
    select (p.code, p.description, p.since, p.until, p.is_refused)::public.active_pause from private.prompt_pause as p
  );
  -- Each count reads its own partial index.
  health.refunds_to_approve := (select count(*) from public.refunds as r where r.status = 'requested');
  health.refunds_to_approve_by_me := (
    select count(*) from public.refunds as r
    where r.status = 'requested' and r.requested_by is distinct from (select auth.uid()) and (select public.may('approvals'))
  );
  health.refunds_unknown := (select count(*) from public.refunds as r where r.status = 'unknown');
  health.refunds_stuck := (
    select count(*) from public.refunds as r
    where r.status in ('approved', 'sending') and r.created_at < now() - interval '10 minutes'
  );
  health.refunds_sent_twice := (
    select count(*) from public.refunds as r where r.sent_twice_at is not null and r.sent_twice_seen_at is null
  );
  health.limit_raise := (
    select (r.raised_by_email, r.raised_at, r.raised_from, r.raised_to, r.raised_at + interval '1 day', private.refund_limit())
      ::public.refund_limit_raise
    from private.refund_limit_raises as r where r.raised_at > now() - interval '7 days'
    order by r.raised_at desc, r.id desc limit 1
  );
  health.token_fresh_until := (select max(t.fresh_until) from private.daraja_tokens as t where t.token is not null);
  health.last_push := (
    select (m.received_at, m.outcome, m.source_address)::public.received_message
    from public.payment_messages as m where m.source = 'push' order by m.id desc limit 1
  );
  health.last_callback := (
    select (m.received_at, m.outcome, m.source_address)::public.received_message
    from public.payment_messages as m where m.source in ('callback', 'confirmation', 'reversal_result') order by m.id desc limit 1
  );
  return health;
end
$$;

comment on function public.payment_health is
  'For staff: a pause of prompts and its cause, refunds that wait for staff, the last prompt and the last callback.';

grant execute on function public.resume_prompts, public.payment_health to authenticated;

create policy "staff read every payment message" on public.payment_messages
  for select to authenticated using ((select public.may('reconciliation')));

create or replace function public.confirm_till_payment(
  order_id uuid, receipt text, received_cents integer, only_if_unpaid boolean default false,
  although_not_reported boolean default false
) returns public.settled_payment
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  code text;
  member uuid := (select auth.uid());
  confirmed_order public.orders;
  known public.payments;
  received integer := confirm_till_payment.received_cents;
  settled public.settled_payment;
begin
  perform private.expect_staff('orders');
  code := private.read_receipt(confirm_till_payment.receipt);
  if private.is_whole_shillings(received) is not true then
    perform private.refuse(400, 'amount_invalid', 'The amount must be in whole shillings');
  end if;
  select * into confirmed_order from public.orders as o where o.id = confirm_till_payment.order_id for no key update;
  if not found then
    perform private.refuse(404, 'order_not_found', 'This order does not exist');
  end if;
  perform pg_advisory_xact_lock(hashtext('settle ' || code));
  select * into known from public.payments as p where p.receipt = code;
  if known.order_id = confirmed_order.id then
    update public.payments as p set confirmed_by = coalesce(p.confirmed_by, member) where p.id = known.id returning * into known;
    return ('already_completed', known)::public.settled_payment;
  end if;
  if confirm_till_payment.only_if_unpaid and exists (
    select from public.payments as p where p.order_id = confirmed_order.id and p.status = 'completed' and p.receipt is not null
  ) then
    perform private.refuse(409, 'paid_meanwhile', 'This order has just been paid with another receipt');
  end if;
  perform private.check_receipt_is_free(code, known.id is null);
  if known.id is null and not coalesce(confirm_till_payment.although_not_reported, false)
    and private.should_be_reported(confirmed_order.id)
    and not exists (
      select from public.mpesa_transactions as t
      where t.receipt = code and (t.reported_by_confirmation_at is not null or t.reported_by_statement_at is not null)
    )
  then
    perform private.refuse(409, 'receipt_not_reported',
      'M-PESA has not reported this receipt yet. Check it in the till''s own messages before you confirm it');
  end if;
  received := private.reported_amount(code, received);
  known := private.add_till_payment(confirmed_order.id, received, member);
  settled := public.settle_payment(
    payment_id => known.id,
    source => 'till',
    body => jsonb_build_object(
      'receipt', code, 'received_cents', confirm_till_payment.received_cents, 'confirmed_by', member,
      'email', private.email_of(member)
    )::text,
    result => 'succeeded',
    received_cents => received,
    receipt => code
  );
  perform private.postpone_messages(confirmed_order.id);
  if settled.outcome = 'receipt_replayed' then
    perform private.refuse(409, 'receipt_used', 'This receipt has paid another order already');
  end if;
  return settled;
end
$$;

comment on function public.confirm_till_payment is
  'For staff: confirms a manual payment by its M-PESA receipt and amount in cents. Idempotent by receipt. Settled like every payment: another amount than the charge needs review, a second payment is marked for refund, or refused with only_if_unpaid. although_not_reported: consent to a receipt that M-PESA should have reported and has not (receipt_not_reported otherwise).';

create or replace function public.correct_till_payment(
  payment_id uuid, seen_receipt text, seen_cents integer, receipt text, received_cents integer
) returns public.settled_payment
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  code text;
  member uuid := (select auth.uid());
  paid_order public.orders;
  known public.payments;
  received integer := correct_till_payment.received_cents;
begin
  perform private.expect_staff('orders');
  code := private.read_receipt(correct_till_payment.receipt);
  if private.is_whole_shillings(received) is not true then
    perform private.refuse(400, 'amount_invalid', 'The amount must be in whole shillings');
  end if;
  select o.* into paid_order from public.orders as o
  where o.id = (select p.order_id from public.payments as p where p.id = correct_till_payment.payment_id)
  for no key update;
  perform pg_advisory_xact_lock(hashtext('settle ' || known_receipt))
  from (select distinct unnest(array[code, correct_till_payment.seen_receipt]) as known_receipt order by 1) as locked;
  select * into known from public.payments as p where p.id = correct_till_payment.payment_id for update;
  if not found then
    perform private.refuse(404, 'payment_not_found', 'This payment does not exist');
  elsif (known.receipt, known.charge_cents) is distinct from (correct_till_payment.seen_receipt, correct_till_payment.seen_cents) then
    perform private.refuse(409, 'payment_changed', 'This payment was changed in the meantime. Nothing was saved');
  elsif exists (select from public.mpesa_transactions as t where t.receipt = known.receipt) then
    perform private.refuse(409, 'payment_confirmed', 'M-PESA has confirmed this payment. It cannot be corrected any more');
  end if;
  if exists (select from public.change_notes as c where c.payment_id = known.id) then
    perform private.refuse(409, 'change_noted', 'Change of this money is noted already. It stays with its order');
  elsif known.method <> 'till' or known.confirmed_by is null or known.status <> 'completed' or known.needs_refund
    or private.is_being_refunded(known.id)
    or exists (
      select from public.payments as p where p.order_id = paid_order.id and p.id <> known.id and p.status = 'completed'
    )
    or not (
      paid_order.payment_status = 'needs_review'
      -- An order that was handed over keeps its status.
      or (paid_order.payment_status = 'paid' and (private.is_in_shop(paid_order.status) or received = known.charge_cents))
    )
  then
    perform private.refuse(409, 'payment_final', 'This payment cannot be corrected any more. Please look at it in Reconciliation');
  elsif code <> known.receipt then
    if exists (select from public.payments as p where p.receipt = code and p.purpose = 'order') then
      perform private.refuse(409, 'receipt_used', 'This receipt has paid another order already');
    end if;
    perform private.check_receipt_is_free(code, true);
    received := private.reported_amount(code, received);
  end if;
  if (code, received) = (known.receipt, known.charge_cents) then
    return ('unchanged', known)::public.settled_payment;
  end if;

  update public.payments as p set receipt = code, charge_cents = received, confirmed_by = coalesce(member, p.confirmed_by), updated_at = now()
  where p.id = known.id;
  -- Messages move with their receipt; their bodies stay as received.
  update public.payment_messages as m set receipt = code where m.payment_id = known.id and m.receipt = known.receipt;
  insert into public.payment_messages (payment_id, source, body, receipt, outcome)
  values (
    known.id, 'till',
    jsonb_build_object(
      'receipt', code, 'received_cents', correct_till_payment.received_cents, 'instead_of', jsonb_build_object('receipt', known.receipt, 'received_cents', known.charge_cents),
      'confirmed_by', member, 'email', private.email_of(member)
    )::text,
    code, 'corrected'
  );
  perform private.record_order_event(paid_order.id, 'payment_corrected', 'staff', jsonb_build_object(
    'payment_id', known.id, 'charge_cents', received, 'receipt', code, 'charge_cents_before', known.charge_cents, 'receipt_before', known.receipt
  ));
  if paid_order.payment_status = 'needs_review' and received = paid_order.charge_cents
    and known.charge_cents <> paid_order.charge_cents then
    perform private.mark_order_paid(paid_order.id);
  elsif paid_order.payment_status = 'paid' and received not in (known.charge_cents, paid_order.charge_cents) then
    perform private.put_order_under_review(paid_order.id);
  end if;
  perform private.postpone_messages(paid_order.id);
  perform private.withdraw_messages(paid_order.id);
  perform private.match_receipts(paid_order.id);
  select o.* into paid_order from public.orders as o where o.id = paid_order.id;
  select * into known from public.payments as p where p.id = known.id;
  return (paid_order.payment_status, known)::public.settled_payment;
end
$$;

comment on function public.correct_till_payment is
  'For staff: corrects receipt and amount (in cents) of a manual payment that M-PESA has not confirmed and that is the only money of its order. Refuses if they changed since they were read. The order is paid when the amount is its charge, otherwise it needs review.';

create policy "staff read every pull" on public.statement_pulls for select to authenticated using ((select public.may('reconciliation')));

create or replace function public.statement_status() returns public.statement_status
language plpgsql stable security definer set search_path = '' as $$
declare
  status public.statement_status;
begin
  perform private.expect_staff('panel');
  status.checked_at := clock_timestamp();
  select max(r.registered_at) filter (where r.kind = 'till'), max(r.registered_at) filter (where r.kind = 'statement')
  into status.till_registered_at, status.statement_registered_at
  from private.mpesa_registrations as r;
  select max(t.reported_by_confirmation_at) into status.last_confirmation_at
  from public.mpesa_transactions as t where t.transacted_at > now() - interval '30 days';
  -- Windows end with the start of their pull, and one pull runs at a time: the last window is of the last pull.
  select s.finished_at, s.window_to into status.last_complete_at, status.covered_until
  from public.statement_pulls as s where s.outcome = 'complete' order by s.window_to desc limit 1;
  select s.problem into status.problem
  from public.statement_pulls as s where s.outcome <> 'running' order by s.id desc limit 1;
  status.missed := array(
    select (s.missed_since, s.window_from)::public.period
    from (select * from public.statement_pulls as gap where gap.missed_since is not null offset 0) as s
    where s.outcome = 'complete' and s.started_at > now() - interval '14 days'
    order by s.id desc
  );
  select count(*) into status.unsettled_messages
  from public.payment_messages as m
  where m.source in ('callback', 'confirmation') and m.outcome is null and m.received_at < now() - interval '5 minutes';
  select count(*) into status.unmatched
  from public.mpesa_transactions as t where t.payment_id is null and t.resolution is null;
  select count(*) into status.to_check from public.messages_to_check as m where m.resolution is null;
  return status;
end
$$;

comment on function public.statement_status is
  'For staff: registrations of confirmations and statement, end of its coverage, its gaps, and money and messages that wait.';

create or replace function public.begin_till_registration() returns void
language plpgsql security definer set search_path = '' as $$
begin
  if private.count_hit('till_registrations', 'all', interval '1 hour') > 10 then
    perform private.refuse(429, 'too_many_registrations', 'The addresses were registered ten times within an hour. Please wait before the next time');
  end if;
end
$$;

comment on function public.begin_till_registration is
  'Counts a registration of the till''s addresses from the panel; refuses more than ten an hour, of all staff together.';

-- Execution rights
grant execute on function public.begin_till_registration to service_role;

grant execute on function public.confirm_till_payment, public.correct_till_payment, public.statement_status
  to authenticated, service_role;

create policy "staff read every message to check" on public.messages_to_check
  for select to authenticated using ((select public.may('reconciliation')));

create or replace function public.enter_message_to_check(
  message_id bigint, receipt text, received_cents integer, transacted_at timestamptz
) returns public.settled_payment
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  member uuid := private.expect_staff_member('reconciliation');
  waiting public.messages_to_check;
  code text;
  settled public.settled_payment;
begin
  waiting := private.waiting_message_to_check(enter_message_to_check.message_id);
  code := private.read_receipt(enter_message_to_check.receipt);
  if waiting.problem = 'reversed' or waiting.refund_id is not null then
    perform private.refuse(409, 'message_of_refund', 'This message is about money that went back. It pays no order');
  elsif coalesce(enter_message_to_check.received_cents, 0) <= 0 then
    perform private.refuse(400, 'amount_invalid', 'The amount must be more than 0');
  elsif enter_message_to_check.transacted_at is null or enter_message_to_check.transacted_at > now() + interval '1 day' then
    perform private.refuse(400, 'time_invalid', 'The time must be when M-PESA received the money');
  end if;
  settled := public.receive_mpesa_transaction(
    source => case waiting.source when 'statement' then 'statement' else 'confirmation' end,
    receipt => code, received_cents => enter_message_to_check.received_cents, reference => waiting.reference,
    transacted_at => enter_message_to_check.transacted_at,
    body => jsonb_build_object(
      'receipt', code, 'received_cents', enter_message_to_check.received_cents, 'transacted_at', enter_message_to_check.transacted_at,
      'entered_by', member, 'email', private.email_of(member), 'message_to_check', waiting.id
    )::text
  );
  perform private.finish_message_to_check(waiting.id, 'entered', null);
  return settled;
end
$$;

comment on function public.enter_message_to_check is
  'For staff: enters what a message says that could not be read (received_cents in cents). Settled like every payment that M-PESA reports (receive_mpesa_transaction), under the reference of the message.';

create or replace function public.dismiss_message_to_check(message_id bigint, note text) returns public.messages_to_check
language plpgsql security definer set search_path = '' as $$
declare
  member uuid := private.expect_staff_member('reconciliation');
  waiting public.messages_to_check := private.waiting_message_to_check(dismiss_message_to_check.message_id);
  reason text := private.read_reason(dismiss_message_to_check.note, is_required => true);
begin
  -- Ends the review of an attempt that has no other evidence (private.end_reviews).
  insert into public.reconciliation_events (payment_id, order_id, kind, note, actor_id, actor_email)
  select p.id, p.order_id, 'accepted', reason, member, private.email_of(member)
  from public.payments as p
  where p.id = waiting.payment_id and p.status = 'review'
    and not exists (select from public.mpesa_transactions as t where t.attempt_id = p.id);
  return private.finish_message_to_check(waiting.id, 'not_a_payment', reason);
end
$$;

comment on function public.dismiss_message_to_check is 'For staff: notes why a message that could not be read is no payment, or how it was dealt with.';

-- Execution rights
grant execute on function public.enter_message_to_check, public.dismiss_message_to_check to authenticated, service_role;

-- Cash: orders that are paid at the door or the counter (docs/decisions/cash.md).

create or replace function private.lock_order_for_cash(order_id uuid) returns public.orders
language plpgsql set search_path = '' as $$
declare
  ordered public.orders;
begin
  -- The lock on the order's row serialises this with its payments and its expiry.
  select * into ordered from public.orders as o where o.id = lock_order_for_cash.order_id for no key update;
  if not found then
    perform private.refuse(404, 'order_not_found', 'This order does not exist');
  elsif ordered.payment_status = 'needs_review' then
    perform private.refuse(409, 'decide_order', 'Decide what happens to the order of this money');
  elsif ordered.payment_status <> 'unpaid' then
    perform private.refuse(409, 'order_already_paid', 'This order is already paid');
  elsif ordered.status = 'cancelled' or (private.is_before_work(ordered.status) and ordered.payment_method <> 'cash' and ordered.expires_at <= now()) then
    perform private.refuse(409, 'order_cancelled', 'This order was cancelled. Please place a new one');
  elsif exists (select from public.payments as p where p.order_id = ordered.id and private.is_unsettled_attempt(p.status)) then
    perform private.refuse(409, 'payment_open', 'A payment by M-PESA is open for this order. Wait until it has ended, so that it is not paid twice');
  elsif exists (
    select from public.mpesa_transactions as t where t.order_id = ordered.id and t.payment_id is null and t.resolution is null
  ) then
    perform private.refuse(409, 'money_waiting', 'Money for this order has come to the till. Decide about it in Reconciliation first');
  end if;
  return ordered;
end
$$;

comment on function private.lock_order_for_cash is 'Locks an order that can be paid in cash. Refuses others.';

create or replace function private.deliver_for_cash(ordered public.orders, agreed_by text) returns void
language plpgsql set search_path = '' as $$
begin
  -- The order holds its units from now on, as one that was handed over unpaid: it does not expire any more.
  update public.orders as o
  set payment_method = 'cash', status = case when o.status = 'pending' then 'processing' else o.status end, updated_at = now()
  where o.id = ordered.id;
  insert into public.deliveries (order_id) values (ordered.id) on conflict on constraint "an order is delivered once" do nothing;
  perform private.record_order_event(
    ordered.id, 'cash_agreed', deliver_for_cash.agreed_by, jsonb_build_object('charge_cents', ordered.charge_cents)
  );
end
$$;

create or replace function public.agree_cash(order_id uuid) returns void
language plpgsql security definer set search_path = '' as $$
declare
  ordered public.orders;
begin
  perform private.expect_staff('cash');
  if not (select s.takes_cash from public.store_settings as s) then
    perform private.refuse(409, 'cash_not_taken', 'The shop takes no cash. Settings, Payments can change that');
  end if;
  ordered := private.lock_order_for_cash(agree_cash.order_id);
  if ordered.payment_method <> 'cash' then
    perform private.deliver_for_cash(ordered, 'staff');
  end if;
end
$$;

comment on function public.agree_cash is
  'For staff: the customer pays an unpaid order in cash at the door. It goes into work, has a delivery, and does not expire any more. Repeating it changes nothing.';

create or replace function public.choose_cash(order_id uuid, access_key text) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  ordered public.orders;
  -- Counted before the subtransaction of the block below, so that a refusal does not roll it back.
  is_within_limit boolean := private.count_call('cash_orders');
  refusal_details text;
  refusal_hint text;
begin
  if not (select s.offers_cash from public.store_settings as s) then
    perform private.refuse(409, 'cash_not_taken', 'We take no cash at the door at the moment. Please pay by M-PESA');
  elsif not exists (
    select from private.order_keys as k where k.order_id = choose_cash.order_id and k.access_key = choose_cash.access_key
  ) then
    perform private.refuse(404, 'order_not_found', 'This order does not exist');
  end if;
  ordered := private.lock_order_for_cash(choose_cash.order_id);
  if ordered.payment_method = 'cash' then
    return private.placed_order(ordered, choose_cash.access_key);
  elsif ordered.is_collected then
    perform private.refuse(409, 'cash_not_taken', 'You collect this order at the shop. Please pay there, or by M-PESA');
  end if;
  -- Nothing is paid before the rider stands at the door: a stranger could send riders around. One phone has one such order at a time,
  -- unless it has paid before.
  if not private.has_paid(ordered.customer_phone) and (
    not is_within_limit or exists (
      select from public.orders as o
      where private.is_open_order(o.status) and o.payment_status = 'unpaid' and o.payment_method = 'cash'
        and o.customer_phone = ordered.customer_phone
    )
  ) then
    perform private.refuse(429, 'too_many_cash_orders', format(
      'Another order of this phone or network is paid in cash already. Please pay this one by M-PESA, or call or WhatsApp us on %s',
      private.contact_numbers()
    ));
  end if;
  perform private.deliver_for_cash(ordered, 'customer');
  -- The link of an order leaves with its first prompt, or now.
  perform private.queue_order_messages(ordered.id, 'order_received');
  perform private.add_notice('paid_order', ordered.id::text, ordered.id);
  select * into ordered from public.orders as o where o.id = ordered.id;
  return private.placed_order(ordered, choose_cash.access_key);
exception when sqlstate 'PT000' then
  get stacked diagnostics refusal_details = pg_exception_detail, refusal_hint = pg_exception_hint;
  return private.refusal_answer(sqlstate, sqlerrm, refusal_details, refusal_hint);
end
$$;

comment on function public.choose_cash is
  'A customer pays in cash at the door, where the settings offer it (store_settings.offers_cash). Proof: the order''s access key. Answers as place_order.';

create or replace function private.take_units_to_pay(ordered public.orders) returns void
language plpgsql set search_path = '' as $$
begin
  if private.is_before_work(ordered.status) and ordered.reserved_until is null and not private.take_units(ordered.id) then
    perform private.refuse(409, 'units_sold',
      'The units of this order were sold in the meantime. There is not enough in stock to reopen it');
  end if;
end
$$;

comment on function private.take_units_to_pay is 'Takes the units of an unpaid order that holds none. Refuses if they are sold.';

create or replace function public.receive_cash(
  order_id uuid, received_cents integer, received_from text default null, difference text default null, note text default null
) returns public.payments
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  member uuid := private.expect_staff_member('cash');
  person text := private.visible_text(receive_cash.received_from);
  reason text := private.read_reason(receive_cash.note);
  ordered public.orders;
  received public.payments;
begin
  if private.is_whole_shillings(receive_cash.received_cents) is not true then
    perform private.refuse(400, 'amount_invalid', 'The amount must be in whole shillings');
  elsif char_length(person) > 120 then
    perform private.refuse(400, 'rider_too_long', 'The name of the person is longer than 120 characters');
  elsif not (select s.takes_cash from public.store_settings as s) then
    perform private.refuse(409, 'cash_not_taken', 'The shop takes no cash. Settings, Payments can change that');
  end if;
  ordered := private.lock_order_for_cash(receive_cash.order_id);
  -- A shortfall is forgiven, with the reason, or paid from credit; a surplus is a tip, or owed to the customer.
  if receive_cash.received_cents < ordered.charge_cents
      and not coalesce(receive_cash.difference = 'from_credit' or (receive_cash.difference = 'forgiven' and reason is not null), false)
    or receive_cash.received_cents > ordered.charge_cents and coalesce(receive_cash.difference, '') not in ('tip', 'credit')
    or receive_cash.received_cents = ordered.charge_cents and receive_cash.difference is not null
  then
    perform private.refuse(409, 'cash_differs', 'This is another amount than the order costs. Say why', ordered.charge_cents::text);
  end if;
  if receive_cash.difference = 'from_credit' then
    perform private.pay_from_credit(ordered, ordered.charge_cents - receive_cash.received_cents, null, member);
  end if;
  -- An order that waits without a hold takes its units now.
  perform private.take_units_to_pay(ordered);
  insert into public.payments (order_id, phone, charge_cents, status, method, confirmed_by, received_from, note, completed_at)
  values (ordered.id, '', receive_cash.received_cents, 'completed', 'cash', member, person, reason, now())
  returning * into received;
  perform private.set_order_paid(ordered, 'cash');
  if receive_cash.difference = 'credit' then
    perform private.add_change_note(received, 'credit', receive_cash.received_cents - ordered.charge_cents, null, reason, member);
  end if;
  return received;
end
$$;

comment on function public.receive_cash is
  'For staff: cash for an unpaid order was received, from its rider (received_from) or the customer, and pays it. Another amount than the charge needs difference: forgiven (with a note), from_credit (what the shop owes to the customer pays the rest), tip, or credit (owed to the customer); its refusal has the charge as hint.';

create or replace function public.take_back_cash(payment_id uuid, reason text) returns void
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  cause text := private.read_reason(take_back_cash.reason, is_required => true);
  ordered public.orders;
  taken public.payments;
  minutes interval := private.reservation();
  member uuid := private.expect_staff_member('cash');
begin
  select o.* into ordered from public.orders as o
  where o.id = (select p.order_id from public.payments as p where p.id = take_back_cash.payment_id)
  for no key update;
  select * into taken from public.payments as p where p.id = take_back_cash.payment_id for update;
  if taken.id is null then
    perform private.refuse(404, 'payment_not_found', 'This payment does not exist');
  elsif taken.method <> 'cash' or taken.status <> 'completed' or taken.refunded_at is not null or ordered.payment_status <> 'paid'
    or ordered.status = 'cancelled' or exists (
      select from public.change_notes as c join public.payments as p on p.id = c.payment_id
      where p.order_id = ordered.id and (p.id = taken.id or (p.method = 'credit' and p.status = 'completed'))
    )
  then
    perform private.refuse(409, 'payment_final', 'This payment cannot be corrected any more. Please look at it in Reconciliation');
  end if;
  -- Credit paid the rest.
  perform private.release_credit(p, cause, member)
  from public.payments as p
  where p.order_id = ordered.id and p.method = 'credit' and p.status = 'completed' and p.refunded_at is null and not p.needs_refund;
  update public.payments as p set status = 'failed', note = cause, updated_at = now()
  where p.id = taken.id
    or (p.order_id = ordered.id and p.method = 'credit' and p.status = 'completed' and p.refunded_at is null and not p.needs_refund);
  -- The customer has paid by M-PESA, too: that money pays the order instead of going back.
  if exists (select from public.payments as p where p.order_id = ordered.id and private.can_still_pay(p)) then
    update public.orders as o set payment_method = 'mpesa', updated_at = now() where o.id = ordered.id;
    perform private.settle_order_again(ordered.id);
    return;
  end if;
  -- It has its units, as every unpaid order in work.
  update public.orders as o
  set payment_status = 'unpaid', expires_at = now() + minutes, reserved_until = now() + minutes,
      expiry_limit = now() + private.longest_reservation(minutes), extended_at = null, updated_at = now()
  where o.id = ordered.id;
end
$$;

comment on function public.take_back_cash is
  'For staff: cash was noted by mistake for an order that is not cancelled. Its order is to be paid in cash again, unless it was paid by M-PESA, too; the payment stays in the books as taken back, with the reason. Credit that paid the rest of it is taken back, too.';

create or replace function public.give_back_cash(payment_id uuid, reason text) returns public.refunds
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  member uuid := private.expect_staff_member('refunds');
  paid public.payments := private.lock_refundable_payment(give_back_cash.payment_id);
  given public.refunds;
begin
  if paid.method = 'credit' and not private.has_refunded_source(paid) then
    perform private.refuse(409, 'credit_goes_back_as_credit', 'This was paid from credit. Make it credit again, and give that back');
  elsif paid.method not in ('cash', 'credit') then
    perform private.refuse(409, 'not_cash', 'This payment came by M-PESA. It goes back by M-PESA, or by hand with its receipt');
  end if;
  perform private.check_refund_right(private.left_to_refund(paid), paid.id);
  insert into public.refunds (payment_id, refund_cents, reason, method, status, requested_by, requested_by_email, completed_at)
  values (
    paid.id, private.left_to_refund(paid),
    private.read_reason(give_back_cash.reason, is_required => true), 'cash', 'completed', member, private.email_of(member), now()
  )
  returning * into given;
  return private.complete_refund(given.id, null);
end
$$;

comment on function public.give_back_cash is
  'For staff: the cash of a cancelled order was given back to its customer; also what it was paid from credit, if the rest of the money that the credit came from was refunded since.';

-- Execution rights
grant execute on function public.choose_cash to anon, authenticated, service_role;

grant execute on function public.agree_cash, public.receive_cash, public.take_back_cash, public.give_back_cash
  to authenticated, service_role;

comment on table public.reconciliation_events is
  'Staff decisions about differences between the books and M-PESA. Append-only, by resolve_difference, resolve_review, take_back_payment, and with notes of change. actor_email: the email address at that time.';

alter table public.reconciliation_events enable row level security;

revoke all on public.reconciliation_events from anon, authenticated, service_role;

grant select on public.reconciliation_events to authenticated, service_role;

grant select (id) on public.reconciliation_events to anon;

create policy "staff read every decision" on public.reconciliation_events
  for select to authenticated using ((select public.may('reconciliation')));

create or replace function private.reconciliation_rows(since timestamptz, until timestamptz) returns setof public.reconciliation_row
language plpgsql stable set search_path = '' as $$
declare
  coverage tstzmultirange := private.statement_coverage(tstzrange(since, until + interval '10 minutes'));
begin
  return query
  with entries as (
    select t, coalesce(t.payment_id, t.attempt_id) as payment_id, t.resolution
    from public.mpesa_transactions as t
    where t.transacted_at >= reconciliation_rows.since and t.transacted_at < reconciliation_rows.until
    union all
    select null, ours.id, (
      -- For payments that only the shop knows, the last event is the decision.
      select nullif(e.kind, 'reopened') from public.reconciliation_events as e
      where e.payment_id = ours.id and e.kind not like 'change\_%' order by e.id desc limit 1
    )
    from (
      select p.id
      from public.payments as p
      where p.status = 'completed' and p.purpose = 'order' and p.method not in ('cash', 'credit')
        and p.completed_at >= reconciliation_rows.since and p.completed_at < reconciliation_rows.until
        and not exists (select from public.mpesa_transactions as t where t.payment_id = p.id)
      union all
      select p.id
      from public.payments as p
      where p.status = 'review' and p.purpose = 'order'
        and p.updated_at >= reconciliation_rows.since and p.updated_at < reconciliation_rows.until
        and not exists (select from public.mpesa_transactions as t where t.attempt_id = p.id)
      union all
      -- Looked at, and ended by that. Apart, so that each has its index.
      select p.id
      from public.payments as p
      where p.status = 'failed' and p.purpose = 'order' and p.method not in ('cash', 'credit')
        and p.updated_at >= reconciliation_rows.since and p.updated_at < reconciliation_rows.until
        and exists (select from public.reconciliation_events as e where e.payment_id = p.id and e.kind = 'accepted')
        and not exists (select from public.mpesa_transactions as t where t.attempt_id = p.id)
    ) as ours
  ),
  compared as (
    -- t: the money in M-PESA's books; p: the shop's payment of it, or the attempt whose callback named another amount; o: their order,
    -- or the order that the reference names.
    select e.t, p, o, e.resolution, refund.status as refund_status,
      case
        when (e.t).payment_id is null and (e.t).receipt is not null
          then case when (e.t).attempt_id is null and (e.t).order_id is null then 'missing_here' else 'wrong_amount' end
        when private.ended_unpaid(p.status) then 'wrong_amount'
        -- Paid twice. Earlier versions read this word.
        when p.needs_refund then 'double'
        -- Parts that add up to the charge are right.
        when (e.t).received_cents <> p.charge_cents or money.booked_cents <> o.charge_cents then 'wrong_amount'
        when (e.t).receipt is not null then 'matched'
        -- A payment that joins a later attempt was completed before that was made.
        when (
          case when p.created_at >= since then coverage
            else private.statement_coverage(tstzrange(least(p.created_at, p.completed_at), p.completed_at + interval '10 minutes')) end
        ) @> tstzrange(least(p.created_at, p.completed_at), p.completed_at + interval '10 minutes') then 'missing_there'
        when p.method = 'till' and p.confirmed_by is not null and private.should_be_reported(o.id) then 'typed'
        else 'not_compared'
      end as kind,
      money.booked_cents, money.waiting_cents, change.owed_cents, change.returned_cents
    from entries as e
    -- Lookups by key for each entry, with any statistics: an offset keeps the planner from joining whole tables.
    left join lateral (select * from public.payments as p where p.id = e.payment_id offset 0) as p on true
    left join lateral (select * from public.orders as o where o.id = coalesce(p.order_id, (e.t).order_id) offset 0) as o on true
    left join lateral (
      select
        (select sum(own.charge_cents) from (select * from public.payments as own where own.order_id = o.id offset 0) as own
         where own.status = 'completed' and not own.needs_refund) as booked_cents,
        (select sum(part.received_cents) from (select * from public.mpesa_transactions as part where part.order_id = o.id offset 0) as part
         where part.payment_id is null and part.resolution is null) as waiting_cents
    ) as money on o.id is not null
    left join lateral private.change_of(p.id) as change on p.status = 'completed'
    left join lateral (
      select r.status from public.refunds as r
      where r.payment_id = p.id or r.receipt = coalesce((e.t).receipt, p.receipt)
      order by private.is_dropped_refund(r.status), r.created_at desc
      limit 1
    ) as refund on true
    -- The money of a payment test pays no order.
    where p.purpose is distinct from 'test'
  )
  select
    coalesce((c.t).receipt, (c.p).id::text),
    coalesce((c.t).transacted_at, (c.p).completed_at, (c.p).updated_at),
    c.kind,
    case
      when c.kind in ('matched', 'not_compared') or not private.is_dropped_refund(c.refund_status)
        or c.resolution in ('accepted', 'not_an_order') then false
      when c.kind = 'double' then (c.p).refunded_at is null
      when c.kind = 'wrong_amount' and ((c.t).receipt is null or (c.t).payment_id is not null) and (c.p).status = 'completed'
        then (c.t).received_cents <> (c.p).charge_cents or (c.o).payment_status = 'needs_review'
      else true
    end,
    coalesce((c.t).receipt, (c.p).receipt),
    -- Money that a callback named for a completed payment besides its own is not booked: the payment has a row of its own.
    case when (c.p).status = 'review' or ((c.p).status = 'completed' and ((c.t).receipt is null or (c.t).payment_id is not null))
      then (c.p).charge_cents end,
    (c.t).received_cents,
    (c.p).id, (c.p).status, (c.p).method, coalesce((c.p).needs_refund, false), (c.p).refunded_at, c.refund_status,
    (c.o).id, (c.o).order_number, (c.o).tracking_number, (c.o).customer_name, (c.o).charge_cents, (c.o).payment_status,
    (c.t).reference, (c.t).payer_name, (c.t).payer_phone, (c.t).reported_by_confirmation_at, (c.t).reported_by_statement_at,
    c.resolution,
    (c.o).status, c.booked_cents, c.waiting_cents, c.owed_cents, c.returned_cents, (c.p).confirmed_by
  from compared as c;
end
$$;

create or replace function public.reconciliation_day(day date) returns public.reconciliation_day
language plpgsql stable security definer set search_path = '' as $$
declare
  since timestamptz := reconciliation_day.day::timestamp at time zone 'Africa/Nairobi';
  until timestamptz := (reconciliation_day.day + 1)::timestamp at time zone 'Africa/Nairobi';
begin
  perform private.expect_staff('reconciliation');
  return (
    reconciliation_day.day,
    array(select r from private.reconciliation_rows(since, until) as r order by r.is_open desc, r.happened_at desc, r.id),
    private.statement_coverage(tstzrange(since, until)) @> tstzrange(since, greatest(since, least(until, now() - interval '2 hours'))),
    array(
      select (s.missed_since, s.window_from)::public.period
      from public.statement_pulls as s
      where s.outcome = 'complete' and s.missed_since < until and s.window_from > since
      order by s.id
    )
  )::public.reconciliation_day;
end
$$;

comment on function public.reconciliation_day is
  'For staff: both books of a day in Nairobi, open differences first; whether complete statements cover the day; and gaps that no statement covers.';

create or replace function private.expect_span(since date, until date) returns void
language plpgsql stable set search_path = '' as $$
begin
  if (expect_span.until - expect_span.since between 0 and 366) is not true then
    perform private.refuse(400, 'range_invalid', 'A range has up to 366 days');
  end if;
end
$$;

comment on function private.expect_span is 'Refuses spans that end before they begin, or have more than 367 days.';

create or replace function public.reconciliation_days(since date, until date) returns table (
  day date, ours bigint, theirs bigint, payments bigint, matched bigint, missing_here bigint, missing_there bigint,
  not_compared bigint, doubles bigint, wrong_amounts bigint, open bigint
)
language plpgsql stable security definer set search_path = '' as $$
#variable_conflict use_column
begin
  perform private.expect_staff('reconciliation');
  perform private.expect_span(reconciliation_days.since, reconciliation_days.until);
  return query
  select
    d.day::date,
    coalesce(sum(r.our_cents) filter (where r.payment_status = 'completed'), 0),
    coalesce(sum(r.their_cents), 0),
    count(r.id),
    count(*) filter (where r.kind = 'matched'),
    count(*) filter (where r.kind = 'missing_here'),
    count(*) filter (where r.kind = 'missing_there'),
    count(*) filter (where r.kind in ('not_compared', 'typed')),
    count(*) filter (where r.kind = 'double'),
    count(*) filter (where r.kind = 'wrong_amount'),
    count(*) filter (where r.is_open)
  from generate_series(reconciliation_days.since::timestamp, reconciliation_days.until::timestamp, interval '1 day') as d (day)
  left join private.reconciliation_rows(
    reconciliation_days.since::timestamp at time zone 'Africa/Nairobi',
    (reconciliation_days.until + 1)::timestamp at time zone 'Africa/Nairobi'
  ) as r on private.nairobi_day(r.happened_at) = d.day::date
  group by d.day
  order by d.day desc;
end
$$;

comment on function public.reconciliation_days is
  'For staff: days of a range in Nairobi, newest first, with the sums of both books in cents and the number of differences by kind, and open ones.';

create or replace function public.resolve_difference(
  decision text, receipt text default null, payment_id uuid default null, order_id uuid default null,
  note text default null, is_sure boolean default false
) returns public.resolved_difference
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  member uuid := private.expect_staff_member('reconciliation');
  member_email text := private.email_of(member);
  reported public.mpesa_transactions;
  money public.payments;
  reason text := private.read_reason(resolve_difference.note);
  settled public.settled_payment;
  outcome text;
  event_kind text;
  kept_cents integer;
  of_order uuid;
  code text := coalesce(private.normalised_receipt(resolve_difference.receipt), resolve_difference.receipt);
begin
  event_kind := case resolve_difference.decision
    when 'give' then 'given' when 'not_an_order' then 'not_an_order' when 'refund' then 'refund'
    when 'accept' then 'accepted' when 'reopen' then 'reopened' end;
  if event_kind is null or num_nonnulls(code, resolve_difference.payment_id) = 0 then
    perform private.refuse(400, 'decision_unknown', 'A difference is given to an order, sent back, noted, accepted or opened again');
  end if;

  -- Lock the order, then the receipt. If the receipt belongs to another order by then, start again: no transaction waits for an order
  -- while it holds a receipt.
  loop
    of_order := coalesce(
      resolve_difference.order_id,
      (select p.order_id from public.payments as p where p.id = resolve_difference.payment_id),
      (select p.order_id from public.payments as p where p.receipt = code)
    );
    begin
      perform from public.orders as o where o.id = of_order for no key update;
      if not found and resolve_difference.decision = 'give' then
        perform private.refuse(404, 'order_not_found', 'This order does not exist');
      elsif code is not null then
        perform pg_advisory_xact_lock(hashtext('settle ' || code));
        select * into reported from public.mpesa_transactions as t where t.receipt = code for update;
      end if;
      if of_order is distinct from coalesce(
        resolve_difference.order_id,
        (select p.order_id from public.payments as p where p.id = resolve_difference.payment_id),
        (select p.order_id from public.payments as p where p.receipt = code)
      ) then
        raise exception using errcode = 'JJ001';
      end if;
      exit;
    exception when sqlstate 'JJ001' then
      null;
    end;
  end loop;
  select * into money from public.payments as p where p.id = coalesce(
    resolve_difference.payment_id, reported.payment_id,
    -- M-PESA may not have reported the receipt that staff typed.
    (select typed.id from public.payments as typed where typed.receipt = code)
  );
  if reported.receipt is null and money.id is null then
    perform private.refuse(404, 'difference_not_found', 'This is not in the books any more');
  end if;

  if event_kind = 'accepted' and money.status = 'completed' and not money.needs_refund
    and exists (select from public.orders as o where o.id = money.order_id and o.payment_status = 'needs_review')
  then
    perform private.refuse(409, 'decide_order', 'Decide what happens to the order of this money');
  elsif event_kind = 'given' and money.purpose = 'test' then
    perform private.refuse(409, 'receipt_of_test', 'This is the receipt of a test with KSh 1. It pays no order');
  elsif (case event_kind
    when 'given' then reported.receipt is null or reported.payment_id is not null or reported.resolution is not null
    when 'not_an_order' then reported.payment_id is not null
    when 'refund' then money.id is null and reported.resolution is not null
    when 'reopened' then private.is_being_refunded(money.id, reported.receipt) or reported.resolution = 'given'
  end) then
    perform private.refuse(409, 'difference_changed', 'This was changed in the meantime. Please look at it again');
  elsif (event_kind = 'given' or (event_kind = 'refund' and money.id is null))
    and not private.is_whole_shillings(reported.received_cents) then
    perform private.refuse(409, 'amount_not_payable', 'This amount is no whole shillings and cannot pay an order');
  end if;

  if event_kind = 'given' then
    if private.is_being_refunded(null, reported.receipt) then
      perform private.refuse(409, 'refund_exists', 'This money is being sent back already');
    end if;
    money := private.add_till_payment(resolve_difference.order_id, reported.received_cents, member);
    settled := public.settle_payment(
      payment_id => money.id, source => 'till',
      body => jsonb_build_object('receipt', reported.receipt, 'received_cents', reported.received_cents, 'confirmed_by', member, 'email', member_email)::text,
      result => 'succeeded', received_cents => reported.received_cents, receipt => reported.receipt
    );
    -- Staff can take it back before the customer is notified.
    perform private.postpone_messages(resolve_difference.order_id);
    money := settled.payment;
    outcome := case when money.method = 'prompt' and not money.needs_refund then 'joined' else settled.outcome end;
  elsif event_kind = 'refund' then
    -- The rules of refunds decide what may be refunded, and who must approve. The refund records its own event.
    perform public.request_refund(
      coalesce(reason, case when money.id is null then 'Not for any order' else 'Paid twice' end),
      money.id, reported.receipt, resolve_difference.is_sure
    );
  end if;

  -- Money that the shop keeps beyond the charge is owed to its customer.
  kept_cents := case
    when event_kind <> 'accepted' or money.status is distinct from 'completed' then 0
    when money.needs_refund then money.charge_cents
    else greatest(reported.received_cents - money.charge_cents, 0)
  end;
  if kept_cents >= 100 and not exists (select from public.change_notes as c where c.payment_id = money.id) then
    perform private.add_change_note(money, 'credit', kept_cents / 100 * 100, null, reason, member);
  end if;

  if reported.receipt is not null then
    update public.mpesa_transactions as t
    set resolution = nullif(event_kind, 'reopened'), resolved_by = case when event_kind <> 'reopened' then member end,
        resolved_at = case when event_kind <> 'reopened' then now() end, updated_at = now()
    where t.receipt = reported.receipt;
  end if;
  if event_kind <> 'refund' then
    insert into public.reconciliation_events (receipt, payment_id, order_id, kind, note, actor_id, actor_email)
    values (
      coalesce(reported.receipt, money.receipt), money.id, coalesce(resolve_difference.order_id, money.order_id),
      event_kind, reason, member, member_email
    );
  end if;
  return (event_kind, outcome, money.id)::public.resolved_difference;
end
$$;

comment on function public.resolve_difference is
  'For staff: resolves a difference, named by its receipt or payment. give: assign it to an order, settled like every payment; not_an_order; refund: requested by the rules of refunds, money that may be an order''s only when is_sure; accept: leave it as it is, what is kept beyond the charge becomes credit; reopen. Money of an order that needs review is decided by resolve_review. Recorded in reconciliation_events.';

-- Execution rights
grant execute on function public.reconciliation_day, public.reconciliation_days,
  public.resolve_difference to authenticated, service_role;

create or replace function public.suggest_orders(receipt text, search text default '') returns setof public.suggested_order
language plpgsql stable security definer set search_path = '' as $$
declare
  reported public.mpesa_transactions;
  is_search boolean := trim(coalesce(suggest_orders.search, '')) <> '';
  -- Possibly paid by this money, whose receipt was lost.
  missing_receipt uuid[];
  named uuid[];
  of_attempt uuid;
  found_ids uuid[];
begin
  perform private.expect_staff('reconciliation');
  select * into reported from public.mpesa_transactions as t where t.receipt = private.normalised_receipt(suggest_orders.receipt);
  missing_receipt := array(select private.orders_missing_receipt(reported.receipt));
  named := array(select private.orders_named(private.order_numbers_in(reported.reference)));
  of_attempt := (select p.order_id from public.payments as p where p.id = reported.attempt_id);
  if is_search then
    found_ids := array(select s.id from public.search_orders(search => suggest_orders.search, page_size => 8) as s);
  end if;
  return query
  with likely as (
    select o.*, o.id = any (missing_receipt) as lacks_receipt, o.id = any (named) as is_named,
      o.charge_cents = reported.received_cents as fits_amount,
      private.compare_payer_phone(reported.payer_phone, o.customer_phone) as phone_match,
      private.shares_name(reported.payer_name, o.customer_name) as shares_name,
      o.created_at between reported.transacted_at - interval '3 days' and reported.transacted_at + interval '1 hour' as is_recent
    from public.orders as o
    where o.id in (
      select unnest(named || missing_receipt || of_attempt || found_ids)
      union
      select recent.id from public.orders as recent
      where private.can_be_paid(recent.payment_status)
        and recent.created_at between reported.transacted_at - interval '3 days' and reported.transacted_at + interval '1 hour'
    )
  ),
  judged as (
    select l.*,
      l.payment_status = 'unpaid' and l.fits_amount and l.is_recent and l.phone_match in ('whole', 'digits') as fits_all
    from likely as l
  ),
  counted as (
    select j.*, count(*) filter (where j.fits_all) over () as fitting from judged as j
  )
  select c.id, c.order_number, c.tracking_number, c.customer_name, c.customer_phone,
    (select string_agg(i.quantity || ' × ' || i.product_name, ', ' order by i.position)
     from public.order_items as i where i.order_id = c.id),
    c.total_amount, c.charge_cents, c.payment_status, c.status, c.created_at, c.lacks_receipt, c.is_named, c.fits_amount,
    c.phone_match, c.shares_name,
    c.fits_all and c.fitting = 1 and cardinality(array_remove(named, c.id)) = 0
      and (cardinality(missing_receipt) = 0 or c.lacks_receipt)
  from counted as c
  where case
    when is_search then c.id = any (found_ids)
    else c.lacks_receipt or c.is_named or c.id = of_attempt
      or (c.payment_status = 'unpaid' and (c.fits_amount or c.phone_match in ('whole', 'digits')))
      or (c.payment_status = 'needs_review' and c.phone_match in ('whole', 'digits'))
  end
  order by c.lacks_receipt desc, c.is_named desc, coalesce(c.phone_match in ('whole', 'digits'), false) desc, c.fits_amount desc,
    c.phone_match = 'whole' desc nulls last, c.shares_name desc nulls last, c.phone_match = 'differs' nulls first, c.created_at desc
  limit case when is_search then 8 else greatest(5, cardinality(named)) end;
end
$$;

comment on function public.suggest_orders is
  'For staff: orders that money may be for, the likeliest first: those with a prompt of this amount and time without a receipt, those that the reference names, then unpaid ones of the days before with the payer''s visible digits or of the same amount. With search: the orders that a search finds, with the same hints.';

create or replace function private.is_kept_apart(money public.payments) returns boolean
language plpgsql stable set search_path = '' as $$
begin
  return money.needs_refund and exists (select from public.change_notes as c where c.payment_id = money.id);
end
$$;

comment on function private.is_kept_apart is
  'Whether a payment that was not needed is owed to its customer, went back in part, or paid another order: its own order cannot have it, too.';

create or replace function private.can_still_pay(money public.payments) returns boolean
language sql stable set search_path = '' as $$
  select money.status = 'completed' and money.refunded_at is null and not private.is_kept_apart(money) and not exists (
    select from public.refunds as r
    where (r.payment_id = money.id or r.receipt = money.receipt) and private.is_open_refund(r.status)
      and not (private.is_unsent_refund(r.status) and r.tries = 0)
  );
$$;

comment on function private.can_still_pay is 'Whether money has come for an order, M-PESA was not asked to send it back, and it was not kept for something else.';

create or replace function private.settle_order_again(order_id uuid) returns void
language plpgsql set search_path = '' as $$
declare
  settled public.orders;
  exact uuid;
  received bigint;
begin
  select * into strict settled from public.orders as o where o.id = settle_order_again.order_id;
  -- Only money that goes back is left: if M-PESA was not asked for it yet, it pays the order instead.
  if settled.status <> 'cancelled' and not exists (
    select from public.payments as own where own.order_id = settled.id and own.status = 'completed' and not own.needs_refund
  ) then
    update public.refunds as r
    set status = 'withdrawn', updated_at = now(), result_description = 'The money turned out to be an order''s'
    where private.is_unsent_refund(r.status) and r.tries = 0 and r.payment_id = (
      select p.id from public.payments as p
      where p.order_id = settled.id and private.can_still_pay(p)
      order by p.charge_cents = settled.charge_cents desc, private.is_being_refunded(p.id, p.receipt), p.completed_at, p.id
      limit 1
    );
  end if;
  -- The exact charge pays the order; otherwise the earliest money counts for it, if none does.
  select p.id into exact from public.payments as p
  where p.order_id = settled.id and p.status = 'completed' and p.refunded_at is null and not private.is_being_refunded(p.id, p.receipt)
    and not private.is_kept_apart(p)
    and (p.charge_cents = settled.charge_cents or not exists (
      select from public.payments as own where own.order_id = settled.id and own.status = 'completed' and not own.needs_refund
    ))
  order by p.charge_cents = settled.charge_cents desc, not p.needs_refund desc, p.completed_at, p.id
  limit 1;
  if exact is not null then
    update public.payments as p set needs_refund = false, updated_at = now() where p.id = exact and p.needs_refund;
    update public.payments as p set needs_refund = true, updated_at = now()
    where p.order_id = settled.id and p.id <> exact and p.status = 'completed' and not p.needs_refund;
  end if;
  select sum(p.charge_cents) into received
  from public.payments as p where p.order_id = settled.id and p.status = 'completed' and not p.needs_refund;
  if received is null then
    perform private.reopen_unpaid_order(settled.id);
  elsif received <> settled.charge_cents and settled.payment_status = 'paid' then
    if not private.put_order_under_review(settled.id) then
      -- Cancelled, and its units were returned.
      update public.orders as o set payment_status = 'needs_review', units_returned_at = null, updated_at = now()
      where o.id = settled.id;
      delete from public.deliveries as d where d.order_id = settled.id;
    end if;
  elsif received = settled.charge_cents and settled.payment_status = 'needs_review' then
    perform private.mark_order_paid(settled.id);
  end if;
  perform private.correct_message_outcomes(p.id)
  from public.payments as p where p.order_id = settled.id and p.status = 'completed';
end
$$;

comment on function private.settle_order_again is
  'Sets what an order is after one of its payments was taken away: paid by another one, under review, or unpaid. The caller has locked the order.';

create or replace function public.take_back_payment(payment_id uuid, note text default null) returns text
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  member uuid := private.expect_staff_member('reconciliation');
  reason text := private.read_reason(take_back_payment.note);
  paid_order public.orders;
  taken public.payments;
  reported public.mpesa_transactions;
  was_told boolean;
begin
  -- The order first: then its payments and their receipts do not change.
  select o.* into paid_order from public.orders as o
  where o.id = (select p.order_id from public.payments as p where p.id = take_back_payment.payment_id)
  for no key update;
  select * into taken from public.payments as p where p.id = take_back_payment.payment_id;
  perform pg_advisory_xact_lock(hashtext('settle ' || taken.receipt)) where taken.receipt is not null;
  select * into reported from public.mpesa_transactions as t where t.receipt = taken.receipt for update;
  select * into taken from public.payments as p where p.id = take_back_payment.payment_id for update;
  if not found then
    perform private.refuse(404, 'payment_not_found', 'This payment does not exist');
  elsif paid_order.id is null or taken.status <> 'completed' or taken.method <> 'till' or taken.confirmed_by is null then
    perform private.refuse(409, 'not_assigned_by_staff', 'Only money that staff assigned or typed can be taken back from an order');
  elsif taken.refunded_at is not null or private.is_being_refunded(taken.id, taken.receipt) then
    perform private.refuse(409, 'refund_exists', 'This money is being sent back already');
  elsif reported.receipt is null and exists (select from public.refunds as r where r.payment_id = taken.id and r.tries > 0) then
    perform private.refuse(409, 'refund_exists', 'M-PESA was asked to send this money back before. It stays with its order');
  elsif exists (select from public.change_notes as c where c.payment_id = taken.id) then
    perform private.refuse(409, 'change_noted', 'Change of this money is noted already. It stays with its order');
  elsif not taken.needs_refund and private.was_handed_over(paid_order) then
    perform private.refuse(409, 'order_left', 'This order has left the shop. Its money cannot be taken back any more');
  elsif reported.received_cents >= paid_order.charge_cents and private.order_of_reference(reported.reference) = paid_order.id then
    perform private.refuse(409, 'named_by_payer', 'The payer named this order. Cancel it and send the money back instead');
  end if;

  was_told := exists (
    select from public.outbox_messages as m
    where m.order_id = paid_order.id and m.kind in ('order_paid', 'order_payment_held')
      and m.event_key = private.payment_event_key(paid_order.id) and private.may_have_arrived(m.status)
  );
  perform private.record_order_event(paid_order.id, 'payment_taken_back', 'staff', jsonb_build_object(
    'payment_id', taken.id, 'charge_cents', taken.charge_cents, 'receipt', taken.receipt, 'note', reason
  ));
  -- Before the payment is deleted: a second update of the row would check its foreign keys, and wait for the lock of another order.
  update public.mpesa_transactions as t
  set payment_id = null, resolution = null, resolved_by = null, resolved_at = null, updated_at = now(),
      order_id = case when private.order_of_reference(t.reference) = paid_order.id then paid_order.id else t.order_id end
  where t.receipt = taken.receipt;
  -- The messages stay as received, without the payment.
  update public.payment_messages as m
  set payment_id = null, outcome = case when m.source = 'till' then 'taken_back' else 'unmatched' end
  where m.payment_id = taken.id;
  -- Refunds that sent nothing stay with the money, and go with a receipt that only staff typed.
  delete from public.refunds as r where r.payment_id = taken.id and reported.receipt is null;
  update public.refunds as r set payment_id = null, transaction_receipt = reported.receipt, updated_at = now() where r.payment_id = taken.id;
  delete from public.payments as p where p.id = taken.id;
  insert into public.reconciliation_events (receipt, payment_id, order_id, kind, note, actor_id, actor_email)
  values (taken.receipt, taken.id, paid_order.id, 'taken_back', reason, member, private.email_of(member));

  if not taken.needs_refund then
    perform private.settle_order_again(paid_order.id);
    perform private.postpone_messages(paid_order.id);
  end if;
  perform private.withdraw_messages(paid_order.id);
  select * into paid_order from public.orders as o where o.id = paid_order.id;
  if was_told and paid_order.payment_status = 'unpaid' and paid_order.status <> 'cancelled' then
    perform private.queue_order_messages(
      paid_order.id, 'order_payment_corrected', private.payment_event_key(paid_order.id), due_at => now() + private.undo_window()
    );
  end if;
  return paid_order.payment_status;
end
$$;

comment on function public.take_back_payment is
  'For staff: takes money that they assigned or typed back from its order, until the order leaves the shop. The money is unassigned again, and the order is what it was: unpaid with a new time for payment, under review, or paid by other money of its own. A customer who was notified of the payment gets a correction. Returns the order''s payment status.';

create or replace function public.resolve_review(order_id uuid, decision text, seen_cents integer, receipt text default null, note text default null)
returns text
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  member uuid := private.expect_staff_member('refunds');
  reason text := private.read_reason(resolve_review.note);
  decided public.orders;
  largest public.payments;
  received bigint;
  surplus bigint;
begin
  if resolve_review.decision not in ('deliver', 'deliver_with_credit', 'deliver_and_return', 'cancel_and_refund') then
    perform private.refuse(400, 'decision_unknown', 'The order is delivered as paid, with credit, with change to send back, or refunded');
  end if;
  perform from public.orders as o where o.id = resolve_review.order_id for no key update;
  if not found then
    perform private.refuse(404, 'order_not_found', 'This order does not exist');
  elsif resolve_review.receipt is not null then
    perform public.resolve_difference('give', resolve_review.receipt, null, resolve_review.order_id, reason);
  end if;
  select * into decided from public.orders as o where o.id = resolve_review.order_id;
  select sum(p.charge_cents) into received from public.payments as p
  where p.order_id = decided.id and p.status = 'completed' and not p.needs_refund and p.refunded_at is null
    and not private.is_being_refunded(p.id, p.receipt);
  select p.* into largest from public.payments as p
  where p.order_id = decided.id and p.status = 'completed' and not p.needs_refund
  -- A surplus is of the money, not of the credit beside it.
  order by p.method = 'credit', p.charge_cents desc, p.id limit 1;
  surplus := received - decided.charge_cents;
  -- The exact charge under the receipt may have paid it already.
  if received is null or (decided.payment_status <> 'needs_review' and not (
    decided.payment_status = 'paid' and resolve_review.receipt is not null and surplus = 0 and resolve_review.decision = 'deliver'
  )) then
    perform private.refuse(409, 'nothing_to_resolve', 'This order has changed and needs no review any more');
  elsif received <> resolve_review.seen_cents then
    perform private.refuse(409, 'order_changed', 'This order was changed in the meantime. Nothing was saved');
  elsif (surplus > 0) <> (resolve_review.decision in ('deliver_with_credit', 'deliver_and_return')) and resolve_review.decision <> 'cancel_and_refund' then
    perform private.refuse(400, 'decision_unknown', 'The order is delivered as paid, with credit, with change to send back, or refunded');
  end if;

  if resolve_review.decision = 'cancel_and_refund' then
    -- Each refund records its own event.
    perform public.request_refund(coalesce(reason, 'Another amount than the charge'), p.id)
    from public.payments as p
    where p.order_id = decided.id and p.status = 'completed' and not p.needs_refund and p.refunded_at is null
      and not private.is_being_refunded(p.id, p.receipt);
    return resolve_review.decision;
  end if;
  if decided.payment_status = 'needs_review' then
    perform private.deliver_reviewed_order(decided.id);
  end if;
  insert into public.reconciliation_events (receipt, payment_id, order_id, kind, note, actor_id, actor_email)
  values (largest.receipt, largest.id, decided.id, 'delivered', reason, member, private.email_of(member));
  if surplus > 0 then
    perform private.add_change_note(
      largest, case resolve_review.decision when 'deliver_with_credit' then 'credit' else 'to_return' end, surplus::integer, null, reason, member
    );
  end if;
  return resolve_review.decision;
end
$$;

comment on function public.resolve_review is
  'For staff: decides in one step about an order that needs review and the money that came for it (seen_cents: its sum as seen). deliver: a shortfall is forgiven. deliver_with_credit, deliver_and_return: the surplus is owed as credit, or to be sent back. cancel_and_refund: all of it goes back, by the rules of refunds. receipt: unassigned money that is assigned to the order first.';

create or replace function public.check_typed_receipt(order_id uuid, receipt text) returns public.typed_receipt
language plpgsql stable security definer set search_path = '' as $$
declare
  code text;
  reported_cents integer;
begin
  perform private.expect_staff('orders');
  code := private.read_receipt(check_typed_receipt.receipt);
  select t.received_cents into reported_cents from public.mpesa_transactions as t
  where t.receipt = code and (t.reported_by_confirmation_at is not null or t.reported_by_statement_at is not null);
  return (
    code,
    case
      when reported_cents is not null then 'reported'
      when private.should_be_reported(check_typed_receipt.order_id) then 'not_reported'
      else 'unknown'
    end,
    reported_cents,
    (select o.order_number from public.payments as p join public.orders as o on o.id = p.order_id where p.receipt = code)
  )::public.typed_receipt;
end
$$;

comment on function public.check_typed_receipt is
  'For staff: whether M-PESA has reported a receipt that they type for an order, and with which amount.';

-- Execution rights
grant execute on function public.suggest_orders, public.take_back_payment, public.resolve_review,
  public.check_typed_receipt to authenticated, service_role;

comment on table public.change_notes is
  'Change of a payment (docs/decisions/kept-for-customers.md). credit, to_return: owed to the customer. returned: sent back outside the shop. used: it paid another order (used_for); use_taken_back: it did not after all. Append-only.';

comment on column public.change_notes.way is 'How returned change went back: by M-PESA, with its receipt, or in cash. Null: for other kinds, and where earlier versions noted it.';

comment on column public.change_notes.is_part_refund is 'Part of the price went back, for example for a missing drink: not what was owed as change.';

comment on column public.change_notes.used_for is
  'The payment of method credit on the order that the credit paid. Without a foreign key, as payments embed their notes by the only one.';

alter table public.change_notes enable row level security;

revoke all on public.change_notes from anon, authenticated, service_role;

grant select on public.change_notes to authenticated, service_role;

create policy "staff read every note of change, the counter recent ones" on public.change_notes
  for select to authenticated using ((select public.may('orders')) or exists (select from public.payments as p where p.id = payment_id));

create index change_notes_by_use on public.change_notes (used_for) where used_for is not null;

create index change_notes_that_owe on public.change_notes (noted_at desc, id desc) where kind in ('credit', 'to_return');

create or replace function private.change_of(payment_id uuid, out owed_cents bigint, out returned_cents bigint, out used_cents bigint)
language sql stable set search_path = '' as $$
  select greatest(coalesce(sum(case
      when c.kind in ('credit', 'to_return', 'use_taken_back') then c.amount_cents
      when not c.is_part_refund then -c.amount_cents
    end), 0), 0),
    coalesce(sum(c.amount_cents) filter (where c.kind = 'returned'), 0),
    coalesce(sum(case c.kind when 'used' then c.amount_cents when 'use_taken_back' then -c.amount_cents end), 0)
  from public.change_notes as c
  where c.payment_id = change_of.payment_id;
$$;

comment on function private.change_of is
  'Change of a payment in cents: what is still owed, what was sent back in part (of it or of the price), and what paid other orders.';

create or replace function private.left_to_refund(paid public.payments) returns integer
language sql stable set search_path = '' as $$
  select (paid.charge_cents - c.returned_cents - c.used_cents)::integer from private.change_of(paid.id) as c;
$$;

comment on function private.left_to_refund is
  'What is left of a payment in cents: without what went back in part, and without credit of it that paid other orders.';

create or replace function private.add_change_note(
  payment public.payments, kind text, amount_cents integer, receipt text, note text, member uuid, way text default null,
  is_part_refund boolean default false, used_for uuid default null
) returns public.change_notes
language plpgsql set search_path = '' as $$
#variable_conflict use_column
declare
  change record;
  noted public.change_notes;
begin
  select c.*, greatest(payment.charge_cents, (select t.received_cents from public.mpesa_transactions as t where t.receipt = payment.receipt))
    as came_cents
  into change from private.change_of(payment.id) as c;
  -- All of it goes back as a refund, which ends its order.
  if (kind = 'returned' and change.returned_cents + change.used_cents + amount_cents >= change.came_cents)
    or (is_part_refund and change.returned_cents + change.used_cents + change.owed_cents + amount_cents >= change.came_cents)
    or (kind in ('credit', 'to_return')
      and change.returned_cents + change.used_cents + change.owed_cents + amount_cents > change.came_cents)
  then
    perform private.refuse(409, 'change_exceeds_payment', 'This is more than what is left of this payment. To send all of it back, refund it');
  end if;
  -- What M-PESA reported beyond a typed amount is booked with its change: otherwise it would go back without having come.
  update public.payments as p set charge_cents = change.came_cents, updated_at = now()
  where p.id = payment.id and p.method = 'till' and p.charge_cents < change.came_cents and private.is_whole_shillings(change.came_cents);
  insert into public.change_notes (
    payment_id, kind, amount_cents, receipt, note, noted_by, noted_by_email, way, is_part_refund, used_for
  ) values (
    payment.id, kind, amount_cents, receipt, note, member, private.email_of(member), way, is_part_refund, used_for
  )
  returning * into noted;
  insert into public.reconciliation_events (receipt, payment_id, order_id, kind, note, actor_id, actor_email)
  values (
    payment.receipt, payment.id, payment.order_id, 'change_' || noted.kind,
    concat_ws(': ',
      format('KES %s', to_char(noted.amount_cents / 100, 'FM999,999,999')) || coalesce(', receipt ' || noted.receipt, '')
        || case when noted.way = 'cash' then ', in cash' else '' end
        || coalesce(', for ' || (
          select o.order_number from public.payments as p join public.orders as o on o.id = p.order_id where p.id = noted.used_for
        ), ''),
      noted.note),
    member, private.email_of(member)
  );
  return noted;
end
$$;

comment on function private.add_change_note is
  'Adds a note of change, and books all that M-PESA reported for a typed amount. What is owed, what went back and what paid other orders together never exceed the payment. The caller has locked the order and the payment; for credit that is used, the payment and the credit of the phone.';

create or replace function private.lock_payment_to_return(payment_id uuid, seen_notes integer) returns public.payments
language plpgsql set search_path = '' as $$
declare
  paid public.payments;
begin
  select * into paid from public.payments as p where p.id = lock_payment_to_return.payment_id for update;
  if not found or paid.purpose <> 'order' then
    perform private.refuse(404, 'payment_not_found', 'This payment does not exist');
  elsif paid.status <> 'completed' then
    perform private.refuse(409, 'nothing_to_send_back', 'There is nothing to send back. Cancel a paid order first to send its money back');
  elsif paid.refunded_at is not null or private.is_being_refunded(paid.id, paid.receipt) then
    perform private.refuse(409, 'refund_exists', 'This money is being sent back already');
  elsif lock_payment_to_return.seen_notes <> (select count(*) from public.change_notes as c where c.payment_id = paid.id) then
    perform private.refuse(409, 'payment_changed', 'Something else was noted for this payment in the meantime. Nothing was saved. Close this and look at its notes');
  end if;
  return paid;
end
$$;

comment on function private.lock_payment_to_return is
  'Locks a payment of which part is owed or goes back. Refuses one that is refunded in full, or has another number of notes than the caller saw (null: not compared). The caller has locked its order.';

create or replace function private.read_way(way text, receipt text) returns text
language plpgsql set search_path = '' as $$
begin
  if read_way.way is null or read_way.way not in ('mpesa', 'cash') then
    perform private.refuse(400, 'way_unknown', 'Money goes back by M-PESA, with its receipt, or in cash');
  elsif read_way.way = 'cash' and nullif(trim(read_way.receipt), '') is not null then
    perform private.refuse(400, 'receipt_invalid', 'Cash has no receipt');
  end if;
  return case when read_way.way = 'mpesa' then private.check_refund_receipt(read_way.receipt) end;
end
$$;

comment on function private.read_way is
  'Checks how money went back, and locks and returns the receipt of sending it back. Null: in cash.';

create or replace function public.note_change(
  payment_id uuid, kind text, amount_cents integer, receipt text default null, note text default null, way text default null,
  seen_notes integer default null
) returns public.change_notes
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  member uuid := private.expect_staff_member('refunds');
  reason text := private.read_reason(note_change.note);
  has_receipt boolean := nullif(trim(note_change.receipt), '') is not null;
  code text;
  phone text;
  paid public.payments;
  noted public.change_notes;
begin
  if note_change.kind is null or note_change.kind not in ('credit', 'to_return', 'returned') then
    perform private.refuse(400, 'decision_unknown', 'Change is credit, to be returned, or returned');
  elsif private.is_whole_shillings(note_change.amount_cents) is not true then
    perform private.refuse(400, 'amount_invalid', 'The amount must be in whole shillings');
  elsif (has_receipt or note_change.way is not null) and note_change.kind <> 'returned' then
    perform private.refuse(400, 'receipt_invalid', 'Only change that was sent back has a receipt');
  end if;
  select o.customer_phone into phone from public.orders as o
  where o.id = (select p.order_id from public.payments as p where p.id = note_change.payment_id)
  for no key update;
  if note_change.kind = 'returned' then
    -- It cannot pay an order at the same time.
    perform private.lock_credit(phone);
  end if;
  if note_change.way is not null then
    code := private.read_way(note_change.way, note_change.receipt);
  elsif has_receipt then
    code := private.check_refund_receipt(note_change.receipt);
  end if;
  paid := private.lock_payment_to_return(note_change.payment_id, note_change.seen_notes);
  -- Earlier versions noted both in the same way.
  if note_change.way is not null and note_change.amount_cents > (select c.owed_cents from private.change_of(paid.id) as c) then
    perform private.refuse(409, 'change_exceeds_owed', 'This is more than what is owed of this payment. A part of the price goes back as a part refund');
  end if;
  if note_change.kind = 'returned' then
    perform private.check_refund_right(note_change.amount_cents, paid.id);
  end if;
  noted := private.add_change_note(
    paid, note_change.kind, note_change.amount_cents, code, reason, member, way => note_change.way
  );
  if note_change.way = 'mpesa' then
    perform private.queue_order_messages(paid.order_id, 'order_refunded', noted.id::text);
  end if;
  return noted;
end
$$;

comment on function public.note_change is
  'For staff: notes change of a payment: owed to the customer as credit or to be returned, or returned outside the shop in part, by M-PESA with its receipt or in cash (way; then at most what is owed). What is owed and what went back never exceed what came. seen_notes: the number of its notes that the caller saw; refuses if it has another now, so that a repeated call notes nothing twice.';

create or replace function public.refund_part(
  payment_id uuid, amount_cents integer, way text, reason text, receipt text default null,
  seen_notes integer default null
) returns public.change_notes
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  member uuid := private.expect_staff_member('refunds');
  cause text := private.read_reason(refund_part.reason, is_required => true);
  refunded public.orders;
  code text;
  paid public.payments;
  noted public.change_notes;
begin
  if private.is_whole_shillings(refund_part.amount_cents) is not true then
    perform private.refuse(400, 'amount_invalid', 'The amount must be in whole shillings');
  end if;
  select o.* into refunded from public.orders as o
  where o.id = (select p.order_id from public.payments as p where p.id = refund_part.payment_id)
  for no key update;
  code := private.read_way(refund_part.way, refund_part.receipt);
  paid := private.lock_payment_to_return(refund_part.payment_id, refund_part.seen_notes);
  -- The money of a cancelled order, and a second payment, go back in full.
  if refunded.payment_status <> 'paid' or refunded.status = 'cancelled' or paid.needs_refund then
    perform private.refuse(409, 'part_not_refundable', 'Only part of what pays an order can go back like this. Other money goes back in full');
  end if;
  perform private.check_refund_right(refund_part.amount_cents, paid.id);
  noted := private.add_change_note(
    paid, 'returned', refund_part.amount_cents, code, cause, member, way => refund_part.way, is_part_refund => true
  );
  -- Who gets cash stands in front of the member or the rider.
  if refund_part.way = 'mpesa' then
    perform private.queue_order_messages(paid.order_id, 'order_refunded', noted.id::text);
  end if;
  return noted;
end
$$;

comment on function public.refund_part is
  'For staff: part of the price of a paid order went back outside the shop, by M-PESA with its receipt or in cash (way), with the reason; the order stays as it is. Its customer gets the message of a refund, for cash none. seen_notes: the number of its notes that the caller saw; refuses if it has another now, so that a repeated call notes nothing twice.';

create or replace function private.after_change_note() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  perform private.count_change(null, private.figures_of(new));
  perform private.record_order_event(
    p.order_id, 'change_noted', 'staff', jsonb_build_object(
      'change', new.kind, 'charge_cents', new.amount_cents, 'receipt', new.receipt, 'way', new.way, 'note', new.note,
      'is_part_refund', case when new.is_part_refund then true end,
      'order_number', (
        select o.order_number from public.payments as used join public.orders as o on o.id = used.order_id where used.id = new.used_for
      )
    )
  )
  from public.payments as p where p.id = new.payment_id;
  return null;
end
$$;

create or replace function private.before_change_note_change() returns trigger
language plpgsql set search_path = '' as $$
begin
  -- A note moves with its payment, when two payments are merged or a receipt becomes a payment of its own.
  if tg_op = 'UPDATE' and to_jsonb(old) - 'payment_id' = to_jsonb(new) - 'payment_id' then
    return new;
  end if;
  raise exception using errcode = 'insufficient_privilege', message = 'Notes of change are only added to';
end
$$;

-- Execution rights
grant execute on function public.note_change, public.refund_part to authenticated, service_role;

-- Credits: what the shop owes to customers, by their phone, pays their orders (docs/decisions/kept-for-customers.md).

create or replace function private.lock_credit(phone text) returns void
language sql volatile set search_path = '' as $$
  select pg_advisory_xact_lock(hashtextextended('credit of ' || lock_credit.phone, 0));
$$;

comment on function private.lock_credit is
  'Only one transaction at a time reduces what is owed to a phone. Taken after the order, and before receipts, payments and products.';

create or replace function private.has_usable_credit(money public.payments) returns boolean
language sql stable set search_path = '' as $$
  select money.status = 'completed' and money.refunded_at is null and not exists (
    select from public.refunds as r
    where (r.payment_id = money.id or r.receipt = money.receipt) and (r.tries > 0 or not private.is_dropped_refund(r.status))
  );
$$;

comment on function private.has_usable_credit is
  'Whether what is owed of a payment can pay an order: it is not refunded in full, and M-PESA was never asked to.';

create or replace function private.credit_of_phone(phone text) returns setof public.owed_credit
language plpgsql stable rows 2 set search_path = '' as $$
begin
  return query
    select p.id, o.id, o.order_number, change.owed_cents::integer, noted.at
    from private.orders_of_phone(credit_of_phone.phone) as o
    join public.payments as p on p.order_id = o.id and private.has_usable_credit(p)
    cross join lateral (
      select min(c.noted_at) as at from public.change_notes as c where c.payment_id = p.id and c.kind in ('credit', 'to_return')
    ) as noted
    cross join lateral private.change_of(p.id) as change
    where noted.at is not null and change.owed_cents > 0
    order by noted.at, p.id;
end
$$;

comment on function private.credit_of_phone is 'What is owed to a phone (+254…) and can pay its orders, the oldest first.';

create or replace function public.credit_for_order(order_id uuid) returns setof public.owed_credit
language plpgsql stable security definer rows 2 set search_path = '' as $$
begin
  perform private.expect_staff('cash');
  return query
    select c.* from public.orders as o
    cross join lateral private.credit_of_phone(o.customer_phone) as c
    where o.id = credit_for_order.order_id and o.customer_phone <> '' and c.order_id <> o.id;
end
$$;

comment on function public.credit_for_order is
  'For staff: what is owed to the phone of an order from its other orders, and can pay it, the oldest first.';

create or replace function private.pay_from_credit(ordered public.orders, amount_cents integer, note text, member uuid) returns public.payments
language plpgsql set search_path = '' as $$
#variable_conflict use_column
declare
  missing integer := pay_from_credit.amount_cents;
  source record;
  part integer;
  added public.payments;
begin
  perform private.lock_credit(ordered.customer_phone);
  insert into public.payments (order_id, phone, charge_cents, status, method, confirmed_by, note, completed_at)
  values (ordered.id, '', missing, 'completed', 'credit', member, pay_from_credit.note, now())
  returning * into added;
  for source in
    select c.* from private.credit_of_phone(ordered.customer_phone) as c where c.order_id <> ordered.id order by c.noted_at, c.payment_id
  loop
    exit when missing = 0;
    part := least(source.owed_cents, missing);
    perform private.add_change_note(p, 'used', part, null, null, member, used_for => added.id)
    -- Another transaction may be joining it to the prompt of the same money.
    from (select * from public.payments as p where p.id = source.payment_id for key share) as p;
    continue when not found;
    missing := missing - part;
  end loop;
  if missing > 0 then
    perform private.refuse(409, 'credit_too_low', format(
      'KES %s of credit is left for this phone, less than what this order needs',
      to_char((pay_from_credit.amount_cents - missing) / 100, 'FM999,999,990')
    ), (pay_from_credit.amount_cents - missing)::text);
  end if;
  return added;
end
$$;

comment on function private.pay_from_credit is
  'Adds a payment of an order from what is owed to its phone, the oldest first; refuses if that is less. The caller has locked the order, and no product.';

create or replace function public.use_credit(order_id uuid, note text default null) returns public.payments
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  member uuid := private.expect_staff_member('cash');
  reason text := private.read_reason(use_credit.note);
  ordered public.orders;
  received bigint;
  used public.payments;
begin
  select * into ordered from public.orders as o where o.id = use_credit.order_id for no key update;
  if ordered.payment_status = 'needs_review' then
    -- As resolve_review, which decides about such orders.
    perform private.expect_staff('refunds');
    select sum(p.charge_cents) into received from public.payments as p
    where p.order_id = ordered.id and p.status = 'completed' and not p.needs_refund;
    if received >= ordered.charge_cents or exists (
      select from public.payments as p
      where p.order_id = ordered.id and p.status = 'completed' and not p.needs_refund
        and (p.refunded_at is not null or private.is_being_refunded(p.id, p.receipt))
    ) then
      perform private.refuse(409, 'decide_order', 'Decide what happens to the order of this money');
    end if;
    used := private.pay_from_credit(ordered, (ordered.charge_cents - coalesce(received, 0))::integer, reason, member);
    perform private.deliver_reviewed_order(ordered.id);
    return used;
  end if;
  ordered := private.lock_order_for_cash(use_credit.order_id);
  if ordered.charge_cents < 100 then
    perform private.refuse(409, 'nothing_to_pay', 'There is nothing to pay for this order');
  end if;
  used := private.pay_from_credit(ordered, ordered.charge_cents, reason, member);
  perform private.take_units_to_pay(ordered);
  perform private.set_order_paid(ordered, 'credit');
  return used;
end
$$;

comment on function public.use_credit is
  'For staff: what is owed to the phone of an order pays what is missing of it: all of an unpaid order, or the rest of one that needs review for less than its charge. Refuses if less is owed (the hint is that, in cents). With cash for the rest: receive_cash.';

create or replace function private.has_refunded_source(used public.payments) returns boolean
language sql stable set search_path = '' as $$
  select used.method = 'credit' and exists (
    select from public.change_notes as use
    join public.payments as source on source.id = use.payment_id
    where use.used_for = used.id and use.kind = 'used' and source.refunded_at is not null
  );
$$;

comment on function private.has_refunded_source is
  'Whether the rest of the money that a payment from credit came from was refunded: what it used cannot be owed again, and goes back as money.';

create or replace function private.release_credit(used public.payments, note text, member uuid) returns void
language plpgsql set search_path = '' as $$
begin
  -- A refund of the money that it came from takes this lock, too: it leaves what is owed again, or is seen here.
  perform private.lock_credit(o.customer_phone) from public.orders as o where o.id = used.order_id;
  -- What is owed of a refunded payment would be lost.
  if exists (
    select from public.change_notes as use
    join public.payments as source on source.id = use.payment_id
    where use.used_for = used.id and use.kind = 'used'
      and (source.refunded_at is not null or private.is_being_refunded(source.id, source.receipt))
  ) then
    perform private.refuse(409, 'credit_refunded',
      'The rest of the money that this credit came from was sent back, so it cannot be owed again. Cancel the order and give this part back, too');
  end if;
  perform private.add_change_note(source, 'use_taken_back', use.amount_cents, null, release_credit.note, member, used_for => used.id)
  from public.change_notes as use
  join public.payments as source on source.id = use.payment_id
  where use.used_for = used.id and use.kind = 'used';
end
$$;

comment on function private.release_credit is 'What a payment from credit used is owed again. Once; the caller has locked the payment and ends it.';

create or replace function private.return_to_credit(paid public.payments, reason text, member uuid) returns public.refunds
language plpgsql set search_path = '' as $$
#variable_conflict use_column
declare
  returned public.refunds;
begin
  if exists (select from public.change_notes as c where c.payment_id = paid.id) then
    perform private.refuse(409, 'partly_returned',
      'Part of this credit went back as money, or is owed again. Give the rest back, and note it as change');
  end if;
  insert into public.refunds (payment_id, refund_cents, reason, method, status, requested_by, requested_by_email, completed_at)
  values (paid.id, paid.charge_cents, return_to_credit.reason, 'credit', 'completed', member, private.email_of(member), now())
  returning * into returned;
  perform private.release_credit(paid, return_to_credit.reason, member);
  return private.complete_refund(returned.id, null);
end
$$;

comment on function private.return_to_credit is
  'Refunds what an order was paid from credit: it is owed again, and no money moves. The caller has locked the order and the payment.';

create or replace function public.take_back_credit(payment_id uuid, reason text) returns void
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  member uuid := private.expect_staff_member('cash');
  cause text := private.read_reason(take_back_credit.reason, is_required => true);
  ordered public.orders;
  taken public.payments;
begin
  select o.* into ordered from public.orders as o
  where o.id = (select p.order_id from public.payments as p where p.id = take_back_credit.payment_id)
  for no key update;
  select * into taken from public.payments as p where p.id = take_back_credit.payment_id for update;
  if taken.id is null then
    perform private.refuse(404, 'payment_not_found', 'This payment does not exist');
  elsif taken.method <> 'credit' or taken.status <> 'completed' or taken.refunded_at is not null or taken.needs_refund
    or not private.has_money(ordered.payment_status) or ordered.status = 'cancelled'
    or exists (select from public.change_notes as c where c.payment_id = taken.id)
  then
    perform private.refuse(409, 'payment_final', 'This payment cannot be corrected any more. Please look at it in Reconciliation');
  elsif private.was_handed_over(ordered) then
    perform private.refuse(409, 'order_left', 'This order has left the shop. Its money cannot be taken back any more');
  elsif exists (
    select from public.payments as p
    where p.order_id = ordered.id and p.method = 'cash' and p.status = 'completed' and p.refunded_at is null
  ) then
    perform private.refuse(409, 'paid_in_cash_too', 'Cash paid the rest of this order. Take the cash back: the credit goes with it');
  end if;
  perform private.release_credit(taken, cause, member);
  update public.payments as p set status = 'failed', note = cause, updated_at = now() where p.id = taken.id;
  perform private.settle_order_again(ordered.id);
  perform private.postpone_messages(ordered.id);
  perform private.withdraw_messages(ordered.id);
end
$$;

comment on function public.take_back_credit is
  'For staff: credit was used by mistake for an order that has not left the shop. It is owed again, and the order is what it was: unpaid with a new time for payment, or under review with the money that came; the payment stays in the books as taken back, with the reason.';

create or replace function public.kept_for_customers(
  only_owed boolean default true, before_created_at timestamptz default null, before_id uuid default null, page_size integer default 50
) returns setof public.kept_money
language plpgsql stable security definer rows 50 set search_path = '' as $$
#variable_conflict use_column
begin
  perform private.expect_staff('refunds');
  return query
    select p.id, o.id, o.order_number, o.customer_name, o.customer_phone, first.noted_at,
      change.owed_cents + change.used_cents + settled.cents,
      change.used_cents,
      case when p.refunded_at is null then settled.cents else settled.cents + change.owed_cents end,
      case when p.refunded_at is null then change.owed_cents else 0 end,
      (
        select string_agg(distinct of_use.order_number, ', ')
        from public.change_notes as use
        join public.payments as used on used.id = use.used_for and used.status = 'completed' and used.refunded_at is null
        join public.orders as of_use on of_use.id = used.order_id
        where use.payment_id = p.id and use.kind = 'used'
      )
    -- The first note of each payment, by the index of what owes; the rest of each row by keys.
    from public.change_notes as first
    cross join lateral (select * from public.payments as p where p.id = first.payment_id offset 0) as p
    cross join lateral (select * from public.orders as o where o.id = p.order_id offset 0) as o
    cross join lateral private.change_of(p.id) as change
    cross join lateral (
      select coalesce(sum(c.amount_cents), 0)::bigint as cents from public.change_notes as c
      where c.payment_id = p.id and c.kind = 'returned' and not c.is_part_refund
    ) as settled
    where first.kind in ('credit', 'to_return')
      and not exists (
        select from public.change_notes as earlier
        where earlier.payment_id = first.payment_id and earlier.kind in ('credit', 'to_return')
          and (earlier.noted_at, earlier.id) < (first.noted_at, first.id)
      )
      and (kept_for_customers.before_created_at is null
        or (first.noted_at, p.id) < (kept_for_customers.before_created_at, kept_for_customers.before_id))
      and (not kept_for_customers.only_owed or (p.refunded_at is null and change.owed_cents > 0))
    order by first.noted_at desc, p.id desc
    limit least(greatest(coalesce(kept_for_customers.page_size, 50), 1), 1000);
end
$$;

comment on function public.kept_for_customers is
  'For staff: payments of which something was kept for the customer, the newest first, after the one named by before_created_at and before_id. only_owed: those of which some is still owed.';

create or replace function public.kept_totals() returns table (owed_cents bigint, used_cents bigint, returned_cents bigint, customers integer)
language plpgsql stable security definer set search_path = '' as $$
begin
  perform private.expect_staff('refunds');
  return query
    with notes as materialized (
      -- As private.change_of, of all payments in one pass.
      select c.payment_id,
        greatest(sum(case
          when c.kind in ('credit', 'to_return', 'use_taken_back') then c.amount_cents
          when not c.is_part_refund then -c.amount_cents
          else 0
        end), 0) as owed,
        sum(case c.kind when 'used' then c.amount_cents when 'use_taken_back' then -c.amount_cents else 0 end) as used,
        coalesce(sum(c.amount_cents) filter (where c.kind = 'returned' and not c.is_part_refund), 0) as returned
      from public.change_notes as c
      group by c.payment_id
      having bool_or(c.kind in ('credit', 'to_return'))
    )
    select coalesce(sum(n.owed) filter (where p.refunded_at is null), 0)::bigint,
      coalesce(sum(n.used), 0)::bigint,
      coalesce(sum(n.returned + case when p.refunded_at is null then 0 else n.owed end), 0)::bigint,
      (count(distinct nullif(o.customer_phone, '')) filter (where p.refunded_at is null and n.owed > 0))::integer
    from notes as n
    join public.payments as p on p.id = n.payment_id
    join public.orders as o on o.id = p.order_id;
end
$$;

comment on function public.kept_totals is
  'For staff: what is owed, was used and went back of what was kept for customers, in cents, and to how many phones something is owed. Of all payments.';

-- Execution rights
grant execute on function public.credit_for_order, public.use_credit, public.take_back_credit, public.kept_for_customers, public.kept_totals
  to authenticated, service_role;

create policy "staff edit every delivery, the counter those of recent orders" on public.deliveries
  for all to authenticated using ((select public.may('orders')) or ((select public.may('deliveries')) and public.is_recent_order(order_id)))
  with check ((select public.may('orders')) or ((select public.may('deliveries')) and public.is_recent_order(order_id)));

create or replace function public.assign_delivery(
  order_id uuid, delivery_person text, delivery_phone text, delivery_vehicle text, delivery_notes text default null,
  seen_updated_at timestamptz default null
) returns public.deliveries
language plpgsql volatile security definer set search_path = '' as $$
#variable_conflict use_column
declare
  person text := private.visible_text(assign_delivery.delivery_person);
  phone text := private.visible_text(assign_delivery.delivery_phone);
  vehicle text := private.visible_text(assign_delivery.delivery_vehicle);
  notes text := private.visible_text(assign_delivery.delivery_notes);
  ordered public.orders;
  delivery public.deliveries;
begin
  perform private.expect_staff('deliveries');
  perform private.check_rider(person, phone, vehicle, notes);

  select * into ordered from public.orders as o where o.id = assign_delivery.order_id for no key update;
  if not found then
    perform private.refuse(404, 'order_not_found', 'This order does not exist');
  end if;
  select * into delivery from public.deliveries as d where d.order_id = ordered.id;
  -- A repeated request changes nothing.
  if (delivery.delivery_person, delivery.delivery_phone, delivery.delivery_vehicle, delivery.delivery_notes)
    is not distinct from (person, phone, vehicle, notes) then
    return delivery;
  elsif coalesce(delivery.delivery_status, 'pending') in ('pending', 'failed') and ordered.status = 'cancelled' then
    perform private.refuse(409, 'delivery_of_cancelled_order',
      'This order was cancelled. To deliver it after all, change the order first');
  elsif assign_delivery.seen_updated_at is null and delivery.delivery_person is not null then
    perform private.refuse(409, 'delivery_already_assigned',
      format('%s already has this delivery. Nothing was changed', delivery.delivery_person));
  elsif delivery.id is null then
    insert into public.deliveries (order_id, delivery_status, delivery_person, delivery_phone, delivery_vehicle, delivery_notes)
    values (ordered.id, 'assigned', person, phone, vehicle, notes)
    returning * into delivery;
    return delivery;
  end if;
  -- A locked delivery counts as changed: the request that has it waits for this order.
  perform from public.deliveries as d where d.id = delivery.id for no key update skip locked;
  if not found or assign_delivery.seen_updated_at <> delivery.updated_at then
    perform private.refuse(409, 'delivery_changed',
      'This delivery was changed in the meantime. Please look at it again and save once more if you still want to');
  end if;
  update public.deliveries as d
  set delivery_person = person, delivery_phone = phone, delivery_vehicle = vehicle, delivery_notes = notes,
      delivery_status = case when d.delivery_status = 'pending' then 'assigned' else d.delivery_status end
  where d.id = delivery.id
  returning * into delivery;
  return delivery;
end
$$;

comment on function public.assign_delivery is
  'Assigns the delivery of an order. Changes an existing assignment only with the updated_at that the caller read.';

create or replace function public.recent_riders() returns table (
  name text, phone text, vehicle text, open_deliveries integer, last_assigned_at timestamptz
)
language plpgsql stable security definer set search_path = '' as $$
#variable_conflict use_column
begin
  perform private.expect_staff('deliveries');
  return query
    with open as materialized (
      select lower(d.delivery_person) as name, count(*)::integer as count
      from (select * from public.deliveries as d where private.is_open_delivery(d.delivery_status) offset 0) as d
      where d.delivery_status <> 'pending' and d.created_at > now() - interval '60 days'
      group by 1
    )
    select latest.delivery_person, latest.delivery_phone, latest.delivery_vehicle,
      coalesce((select o.count from open as o where o.name = lower(latest.delivery_person)), 0), latest.updated_at
    from private.newest_delivery_of_each_rider(now() - interval '60 days') as latest
    order by latest.updated_at desc
    limit 20;
end
$$;

comment on function public.recent_riders is
  'For staff: riders of the last 60 days, with phone and vehicle of their newest delivery and the number of open deliveries.';

-- Execution rights
grant execute on function public.assign_delivery, public.recent_riders to authenticated, service_role;

create policy "staff read every timeline, the counter those of recent orders" on public.order_events
  for select to authenticated using ((select public.may('orders')) or ((select public.may('deliveries')) and public.is_recent_order(order_id)));

create or replace function private.record_order_event(
  order_id uuid, kind text, default_actor text, details jsonb default '{}', member uuid default auth.uid()
) returns void
language plpgsql set search_path = '' as $$
begin
  if member is not null then
    select a.user_id into member from public.admin_profiles as a where a.user_id = member;
  end if;
  insert into public.order_events (order_id, kind, actor, actor_id, actor_email, details)
  values (
    order_id, kind, case when member is null then default_actor else 'staff' end, member,
    case when member is not null then private.email_of(member) end,
    jsonb_strip_nulls(details || case
      when private.is_stated('undoes') then '{"reason": "undone"}'
      when kind = 'status_changed' and private.is_stated('although_unpaid') then '{"although_unpaid": true}'
      else '{}'
    end::jsonb)
  );
end
$$;

comment on function private.record_order_event is
  'Appends to an order''s timeline. The actor is the staff member, by default the caller, else default_actor.';

create or replace function private.record_order_events(old public.orders, new public.orders) returns void
language plpgsql set search_path = '' as $$
begin
  if old.payment_status <> new.payment_status then
    perform private.record_order_event(
      new.id, 'payment_status_changed',
      case when private.has_money(new.payment_status) and new.payment_method = 'mpesa' then 'mpesa' else 'shop' end,
      jsonb_build_object('from', old.payment_status, 'to', new.payment_status)
    );
  end if;
  if old.status <> new.status then
    perform private.record_order_event(
      new.id, 'status_changed', 'shop',
      jsonb_build_object(
        'from', old.status,
        'to', new.status,
        'reason', case
          when old.payment_status <> new.payment_status and new.payment_status = 'paid' then 'paid'
          when private.is_stated('follows_delivery') then 'delivery'
          else nullif(new.cancel_reason, 'by_shop')
        end
      )
    );
  end if;
  if (old.payment_status = new.payment_status and old.units_returned_at is null and new.units_returned_at is not null)
    or (new.payment_status = 'unpaid' and old.reserved_until is not null and new.reserved_until is null)
  then
    perform private.record_order_event(new.id, 'units_returned', 'shop');
  elsif old.payment_status = new.payment_status and (
    (old.units_returned_at is not null and new.units_returned_at is null)
    or (new.payment_status = 'unpaid' and old.reserved_until is null and new.reserved_until is not null)
  ) then
    perform private.record_order_event(new.id, 'units_taken', 'shop');
  end if;
end
$$;

create or replace function private.record_payment_events(old public.payments, new public.payments) returns void
language plpgsql set search_path = '' as $$
declare
  payment jsonb := jsonb_build_object(
    'payment_id', new.id, 'phone', nullif(new.phone, ''), 'charge_cents', new.charge_cents,
    'method', case when new.method <> 'prompt' then new.method end
  );
  result jsonb := payment || jsonb_build_object(
    'result_code', new.result_code, 'result_description', new.result_description, 'receipt', new.receipt
  );
begin
  if new.method in ('cash', 'credit') then
    perform private.record_order_event(
      new.order_id, 'payment_' || case new.status when 'completed' then 'completed' else 'taken_back' end, 'staff',
      payment || jsonb_build_object('person', new.received_from, 'note', new.note)
    );
    return;
  elsif old.id is null then
    -- Recorded when it is settled, in the same transaction.
    if new.method = 'till' then
      return;
    end if;
    perform private.record_order_event(
      new.order_id, 'payment_prompted', 'customer', payment, member => coalesce(new.requested_by, auth.uid())
    );
  elsif old.status = new.status then
    if new.status = 'completed' and old.receipt is null and new.receipt is not null then
      perform private.record_order_event(new.order_id, 'payment_receipt_known', 'mpesa', result);
    end if;
    return;
  end if;
  if not private.is_open_attempt(new.status) then
    perform private.record_order_event(
      new.order_id, 'payment_' || case new.status when 'review' then 'in_review' else new.status end,
      case new.status when 'unresolved' then 'shop' else 'mpesa' end,
      result || jsonb_build_object('needs_refund', case when new.status = 'completed' and new.needs_refund then true end)
    );
  end if;
end
$$;

create or replace function public.resolve_paid_order(order_id uuid, resolution text) returns void
language plpgsql security definer set search_path = '' as $$
declare
  decided public.orders;
begin
  perform private.expect_staff('refunds');
  select * into decided from public.orders as o where o.id = resolve_paid_order.order_id for no key update;
  if not found then
    perform private.refuse(404, 'order_not_found', 'This order does not exist');
  elsif resolve_paid_order.resolution = 'deliver' and decided.payment_status = 'needs_review' then
    perform private.deliver_reviewed_order(decided.id);
  elsif resolve_paid_order.resolution = 'refunded' and (
    decided.payment_status = 'needs_review' or (decided.payment_status = 'paid' and decided.status = 'cancelled')
  ) then
    -- This procedure must not bypass receipts and approval of refunds.
    if exists (select from public.payments as p where p.order_id = decided.id and p.status = 'completed') then
      perform private.refuse(409, 'refund_by_receipt',
        'Send this money back by M-PESA, or enter the M-PESA receipt by which it was sent back');
    end if;
    update public.orders as o
    set payment_status = 'refunded', status = 'cancelled', cancel_reason = coalesce(o.cancel_reason, 'refunded'),
        -- An order that needed review holds no units.
        units_returned_at = case when decided.payment_status = 'needs_review' then now() else o.units_returned_at end,
        updated_at = now()
    where o.id = decided.id;
  else
    perform private.refuse(409, 'nothing_to_resolve', 'This order has changed and needs no review any more');
  end if;
end
$$;

comment on function public.resolve_paid_order is
  'For staff: deliver an order that needs review, if its units are in stock; or mark such an order, or a cancelled one, as refunded, if the shop has no payment of it. Payments are refunded by request_refund or note_refund_by_hand.';

create or replace function private.check_handover(old public.orders, new public.orders) returns void
language plpgsql set search_path = '' as $$
begin
  -- For customers, shipped and out_for_delivery are the same.
  if private.shown_status(old.status) = private.shown_status(new.status) then
    return;
  end if;
  if new.payment_status = 'refunded' then
    perform private.refuse(409, 'order_refunded', 'The money of this order was sent back. It can be neither shipped nor delivered');
  elsif not private.is_to_deliver(new.payment_status, new.payment_method) and not private.is_stated('although_unpaid') and not private.is_stated('undoes') then
    perform private.refuse(409, 'order_unpaid', 'This order is not paid. Confirm that you want to hand it over all the same');
  end if;
end
$$;

comment on function private.check_handover is
  'Refuses to ship or deliver a refunded order, and an unpaid one unless although_unpaid was passed to set_order_status or set_delivery_status.';

create or replace function public.set_order_status(
  order_id uuid, status text, expected_status text, expected_payment_status text, although_unpaid boolean default false
) returns public.status_change
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  changed public.orders;
  state_before jsonb;
begin
  perform private.expect_staff('orders');
  select * into changed from public.orders as o where o.id = set_order_status.order_id for no key update;
  if not found then
    perform private.refuse(404, 'order_not_found', 'This order does not exist');
  elsif (changed.status, changed.payment_status) is distinct from (set_order_status.expected_status, set_order_status.expected_payment_status) then
    perform private.refuse(409, 'order_changed', 'This order was changed in the meantime. Nothing was saved');
  end if;
  state_before := private.order_state(changed.id);
  perform private.state('although_unpaid', set_order_status.although_unpaid);
  update public.orders as o
  set status = set_order_status.status, cancel_reason = case when set_order_status.status = 'cancelled' then 'by_shop' end, updated_at = now()
  where o.id = changed.id;
  perform private.state('although_unpaid', false);
  return private.record_status_change(changed.id, state_before);
end
$$;

comment on function public.set_order_status is
  'For staff: sets the status of an order that still has the expected status and payment status. although_unpaid: consent to hand it over unpaid. Returns change_id for undo_status_change, undo_seconds, and notifies_customer: whether a message is sent after that time.';

create or replace function public.set_delivery_status(
  delivery_id uuid, status text, expected_status text, although_unpaid boolean default false, failure_reason text default null
) returns public.status_change
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  changed public.deliveries;
  state_before jsonb;
begin
  perform private.expect_staff('deliveries');
  changed := private.lock_delivery(set_delivery_status.delivery_id);
  if changed.delivery_status is distinct from set_delivery_status.expected_status then
    perform private.refuse(409, 'delivery_changed', 'This delivery was changed in the meantime. Nothing was saved');
  end if;
  state_before := private.order_state(changed.order_id);
  perform private.state('although_unpaid', set_delivery_status.although_unpaid);
  update public.deliveries as d
  set delivery_status = set_delivery_status.status, failure_reason = set_delivery_status.failure_reason
  where d.id = changed.id;
  perform private.state('although_unpaid', false);
  return private.record_status_change(changed.order_id, state_before);
end
$$;

comment on function public.set_delivery_status is
  'For staff: sets the status of a delivery that still has the expected one; its order follows. failure_reason: why it failed; the customer reads it. although_unpaid and result as in set_order_status.';

create or replace function public.undo_status_change(change_id uuid) returns void
language plpgsql security definer set search_path = '' as $$
declare
  change private.status_changes;
  had_delivery jsonb;
begin
  perform private.expect_staff('deliveries');
  select * into change from private.status_changes as c
  where c.id = undo_status_change.change_id and c.changed_by is not distinct from (select auth.uid())
  for update;
  if not found or change.undo_until < clock_timestamp() then
    perform private.refuse(409, 'undo_too_late', 'It is too late to undo this. Set the status again instead');
  end if;
  had_delivery := nullif(change.state_before -> 'delivery', 'null');
  perform from public.orders as o where o.id = change.order_id for no key update;
  -- A locked delivery counts as changed, as in set_delivery_status.
  perform from public.deliveries as d where d.order_id = change.order_id for no key update skip locked;
  if (not found and had_delivery is not null) or private.order_state(change.order_id) is distinct from change.state_after then
    perform private.refuse(409, 'undo_overtaken', 'This order has changed again since then. Nothing was undone');
  elsif exists (
    select from public.outbox_messages as m
    where m.order_id = change.order_id and m.attempts > 0
      and m.sending_since >= change.undo_until - private.undo_window()
      and private.is_status_message(m.kind)
  ) then
    perform private.refuse(409, 'undo_after_message', 'The customer has been notified already. Set the status again instead');
  end if;

  perform private.state('undoes');
  -- The delivery first: messages about its order read it.
  if had_delivery is not null then
    update public.deliveries as d
    set delivery_status = had_delivery ->> 'delivery_status',
        delivery_person = had_delivery ->> 'delivery_person',
        delivery_phone = had_delivery ->> 'delivery_phone',
        delivery_vehicle = had_delivery ->> 'delivery_vehicle',
        pickup_time = (had_delivery ->> 'pickup_time')::timestamptz,
        delivery_time = (had_delivery ->> 'delivery_time')::timestamptz,
        taken_by = had_delivery ->> 'taken_by',
        ready_at = (had_delivery ->> 'ready_at')::timestamptz,
        failure_reason = had_delivery ->> 'failure_reason',
        failures = coalesce((had_delivery ->> 'failures')::smallint, d.failures)
    where d.order_id = change.order_id;
  end if;
  update public.orders as o
  set status = change.state_before ->> 'status', cancel_reason = change.state_before ->> 'cancel_reason', updated_at = now()
  where o.id = change.order_id and o.status <> change.state_before ->> 'status';
  perform private.state('undoes', false);
  perform private.withdraw_messages(change.order_id);
  delete from private.status_changes as c where c.id = change.id;
end
$$;

comment on function public.undo_status_change is
  'For the staff member who made a change: restores the status of order and delivery with its times, and withdraws the message. Refuses after the undo window, once the message was sent, or if the order has changed again.';

create table private.ended_pay_links (
  order_id uuid primary key references public.orders (id) on delete cascade,
  ended_at timestamptz not null default now()
);

comment on table private.ended_pay_links is
  'Orders that ended unpaid although staff had given their customers the link. Deleted after a day, or when staff have seen it.';

alter table private.ended_pay_links enable row level security;

create index ended_pay_links_by_time on private.ended_pay_links (ended_at);

create or replace function private.had_pay_link(ended public.orders) returns boolean
language sql stable set search_path = '' as $$
  select ended.source in ('call', 'whatsapp') or exists (
    select from public.order_events as e where e.order_id = ended.id and e.kind = 'pay_link_shown'
  );
$$;

comment on function private.had_pay_link is 'Whether staff gave the customer of an order its link.';

create or replace function public.ended_pay_links() returns table (
  order_id uuid, order_number text, customer_name text, charge_cents integer, ended_at timestamptz
)
language plpgsql stable security definer rows 10 set search_path = '' as $$
#variable_conflict use_column
begin
  perform private.expect_staff('orders');
  return query
    select o.id, o.order_number, o.customer_name, o.charge_cents, l.ended_at
    from (
      select * from private.ended_pay_links as recent where recent.ended_at > now() - interval '1 day'
      order by recent.ended_at desc limit 100
    ) as l
    cross join lateral (select * from public.orders as own where own.id = l.order_id offset 0) as o
    where o.status = 'cancelled' and o.payment_status = 'unpaid'
    order by l.ended_at desc;
end
$$;

comment on function public.ended_pay_links is
  'For staff: orders of the last day that ended unpaid although their customers got the link from staff, and that no one has dealt with; the newest first.';

create or replace function public.dismiss_ended_pay_link(order_id uuid) returns void
language plpgsql security definer set search_path = '' as $$
begin
  perform private.expect_staff('orders');
  delete from private.ended_pay_links as l where l.order_id = dismiss_ended_pay_link.order_id or l.ended_at < now() - interval '1 day';
end
$$;

comment on function public.dismiss_ended_pay_link is 'For staff: someone has dealt with an order that ended unpaid. Repeating it changes nothing.';

create or replace function private.wait_for_pay_link(shown public.orders) returns void
language plpgsql set search_path = '' as $$
declare
  waits_until constant timestamptz := now() + private.pay_link_time();
  held_until timestamptz := shown.reserved_until;
  -- No longer than prompts could have held its units.
  longest_hold constant timestamptz := least(shown.created_at + private.longest_reservation(private.reservation()), waits_until);
begin
  if shown.status <> 'pending' or shown.payment_method = 'cash' or shown.expires_at is null or shown.expires_at >= waits_until then
    return;
  end if;
  if held_until < longest_hold and private.extend_counted_hold(shown.id, longest_hold) then
    held_until := longest_hold;
  end if;
  update public.orders as o
  set expires_at = waits_until, reserved_until = held_until,
      expiry_limit = greatest(o.expiry_limit, private.limit_of_pay_link(waits_until)), updated_at = now()
  where o.id = shown.id;
end
$$;

comment on function private.wait_for_pay_link is
  'An unpaid order waits longer for its payment, because its customer gets the link now. Its units stay held at most for the longest reservation. The caller has locked the order.';

create or replace function public.show_pay_link(order_id uuid) returns public.pay_link
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  shown public.orders;
begin
  perform private.expect_staff('orders');
  select * into shown from public.orders as o where o.id = show_pay_link.order_id for no key update;
  if not found then
    perform private.refuse(404, 'order_not_found', 'This order does not exist');
  elsif shown.payment_status <> 'unpaid' then
    perform private.refuse(409, 'order_already_paid', 'This order is already paid');
  elsif shown.status = 'cancelled' then
    perform private.refuse(409, 'order_cancelled', 'This order was cancelled. Please place a new one');
  end if;
  perform private.wait_for_pay_link(shown);
  -- Once per member and hour: the member who copies the link again has seen it.
  if not exists (
    select from public.order_events as e
    where e.order_id = shown.id and e.kind = 'pay_link_shown' and e.actor_id is not distinct from auth.uid()
      and e.happened_at > now() - interval '1 hour'
  ) then
    perform private.record_order_event(shown.id, 'pay_link_shown', 'shop');
  end if;
  return (
    shown.tracking_number, (select k.access_key from private.order_keys as k where k.order_id = shown.id)
  )::public.pay_link;
end
$$;

comment on function public.show_pay_link is
  'For staff: the access key of an order that waits for its payment, for a link to its customer. From then on the order waits a day. Recorded in its timeline. Who has it reads the customer''s details, so it is not among the columns of orders.';

-- Execution rights
grant execute on function public.resolve_paid_order, public.set_order_status, public.set_delivery_status,
  public.undo_status_change, public.show_pay_link, public.ended_pay_links, public.dismiss_ended_pay_link to authenticated, service_role;

-- The queue of paid orders: what each waits for, who prepares it, and one step on (docs/decisions/queue.md).

create or replace function private.work_step(ordered public.orders, delivery public.deliveries) returns text
language sql immutable
return case
  when not private.is_to_deliver(ordered.payment_status, ordered.payment_method) or not private.is_open_order(ordered.status) then null
  when delivery.delivery_status = 'failed' then 'failed'
  when private.is_on_the_way(ordered.status) then 'on_the_way'
  when delivery.ready_at is not null then 'ready'
  when delivery.taken_by is not null then 'preparing'
  else 'prepare'
end;

comment on function private.work_step is
  'What an order that is to be delivered (private.is_to_deliver) waits for: prepare (nobody has it), preparing (somebody has), ready (packed, in the shop), on_the_way, or failed (its delivery failed: try again or refund). Null: nothing.';

create or replace function public.work_queue() returns setof public.deliveries
language plpgsql stable security definer rows 100 set search_path = '' as $$
begin
  perform private.expect_staff('deliveries');
  return query
    select d.*
    from public.orders as o
    -- One step in an index for each open order: the planner would rather read all deliveries.
    cross join lateral (select * from public.deliveries as own where own.order_id = o.id limit 1) as d
    where private.is_open_order(o.status) and private.is_to_deliver(o.payment_status, o.payment_method)
    order by d.created_at, d.id
    limit 500;
end
$$;

comment on function public.work_queue is
  'For staff: the deliveries of all orders that are paid, or paid in cash at the door, and are neither delivered nor cancelled, the earliest payment first, at most 500.';

create or replace function public.move_on(
  delivery_id uuid, expected_step text, step text,
  delivery_person text default null, delivery_phone text default null, delivery_vehicle text default null
) returns public.status_change
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  person text := private.visible_text(move_on.delivery_person);
  phone text := private.visible_text(move_on.delivery_phone);
  vehicle text := private.visible_text(move_on.delivery_vehicle);
  member constant text := private.email_of((select auth.uid()));
  changed public.deliveries;
  state_before jsonb;
begin
  perform private.expect_staff('deliveries');
  changed := private.lock_delivery(move_on.delivery_id);
  if (select private.work_step(o, changed) from public.orders as o where o.id = changed.order_id)
    is distinct from move_on.expected_step
  then
    perform private.refuse(409, 'delivery_changed', 'This delivery was changed in the meantime. Nothing was saved');
  end if;
  state_before := private.order_state(changed.order_id);
  case move_on.step
    when 'prepare' then
      changed.taken_by := null;
      changed.ready_at := null;
    when 'preparing' then
      changed.taken_by := member;
      changed.ready_at := null;
    when 'ready' then
      changed.taken_by := coalesce(changed.taken_by, member);
      changed.ready_at := coalesce(changed.ready_at, clock_timestamp());
    when 'on_the_way' then
      if (select o.is_collected from public.orders as o where o.id = changed.order_id) then
        perform private.refuse(409, 'order_is_collected', 'The customer collects this order at the shop, so no rider takes it');
      end if;
      if changed.delivery_person is null then
        perform private.check_rider(person, phone, vehicle);
        changed.delivery_person := person;
        changed.delivery_phone := phone;
        changed.delivery_vehicle := vehicle;
      elsif person is distinct from changed.delivery_person and person is not null then
        perform private.refuse(409, 'delivery_already_assigned',
          format('%s already has this delivery. Nothing was changed', changed.delivery_person));
      end if;
    when 'delivered' then
    else
      perform private.refuse(400, 'step_unknown', 'This is no step of an order');
  end case;
  update public.deliveries as d
  set delivery_status = case
        when move_on.step = 'on_the_way' then 'picked_up'
        when move_on.step = 'delivered' then 'delivered'
        when private.is_before_pickup(changed.delivery_status) then changed.delivery_status
        when changed.delivery_person is null then 'pending'
        else 'assigned'
      end,
      delivery_person = changed.delivery_person, delivery_phone = changed.delivery_phone, delivery_vehicle = changed.delivery_vehicle,
      taken_by = changed.taken_by, ready_at = changed.ready_at
  where d.id = changed.id;
  return private.record_status_change(changed.order_id, state_before);
end
$$;

comment on function public.move_on is
  'For staff: moves a paid order to a step of private.work_step or to delivered, if it still is at the expected one. preparing: the caller has it. ready: it is packed. on_the_way: its rider takes it, the one given if none was assigned; refused for an order that is collected, which goes from ready to delivered. Result as in set_order_status.';

-- Execution rights
grant execute on function public.work_queue, public.move_on to authenticated, service_role;

-- Conditions read the row's own items and rider in a scalar subquery. With EXISTS PostgreSQL used a hashed subplan and read all items
-- of the shop for the few orders of a search.
create or replace function private.list_conditions(
  filters private.list_filters, is_count boolean, out by_index text, out by_row text, out candidates text, out is_exact boolean,
  out is_broad boolean
)
language plpgsql stable set search_path = '' as $$
declare
  is_orders constant boolean := filters.list = 'orders';
  own constant text := case when is_orders then 'o' else 'd' end;
  -- As in the indexes by words.
  folded constant text := 'private.without_accents(%s)';
  order_text constant text := format(folded, 'private.order_text(o)');
  item_text constant text := format(folded, 'i.product_name');
  rider_text constant text := format(folded, 'private.rider_text(d)');
  is_open constant text := $sql$private.is_open_order(o.status)$sql$;
  is_to_deliver constant text := is_open || $sql$ and private.is_to_deliver(o.payment_status, o.payment_method)$sql$;
  is_refund_due constant text := $sql$((o.payment_status = 'paid' and o.status = 'cancelled') or exists (
    select from public.payments as p where p.order_id = o.id and p.needs_refund and p.refunded_at is null and p.status = 'completed'))$sql$;
  is_review_due constant text := $sql$(o.payment_status = 'needs_review' or (o.payment_status = 'unpaid' and exists (
    select from public.payments as p where p.order_id = o.id and p.status = 'review')))$sql$;
  rider_name constant text := lower(trim(left(filters.rider, 120)));
  typed record;
  indexed text[] := '{}';
  checked text[] := '{}';
  pattern text;
  in_order text[] := '{}';
  anywhere text[] := '{}';
  -- A count stops at 501 orders, of which few have more than three lines with the same word.
  bound text := '';
begin
  typed := private.read_list_search(filters.search);
  is_broad := true;
  is_exact := false;

  if filters.from_day is not null then
    indexed := indexed || format($sql$%s.created_at >= %L::date::timestamp at time zone 'Africa/Nairobi'$sql$, own, filters.from_day);
  end if;
  if filters.until_day is not null then
    indexed := indexed || format($sql$%s.created_at < (%L::date + 1)::timestamp at time zone 'Africa/Nairobi'$sql$, own, filters.until_day);
  end if;

  if is_orders then
    indexed := indexed || case
      when filters.status is null then null
      -- Staff choose "Shipped"; a delivery that leaves makes its order "Out For Delivery".
      when filters.status = 'shipped' then is_open || $sql$ and private.is_on_the_way(o.status)$sql$
      when filters.status in ('pending', 'processing', 'out_for_delivery') then is_open || format(' and o.status = %L', filters.status)
      else format('o.status = %L', filters.status)
    end;
    indexed := indexed || case filters.payment
      when 'paid' then $sql$o.payment_status = 'paid' and o.status <> 'cancelled'$sql$
      -- A cancelled unpaid order owes nothing.
      when 'unpaid' then $sql$o.payment_status = 'unpaid' and o.status <> 'cancelled'$sql$
      when 'cash' then $sql$o.payment_status = 'unpaid' and o.status <> 'cancelled' and o.payment_method = 'cash'$sql$
      when 'refunded' then $sql$o.payment_status = 'refunded'$sql$
      when 'needs_review' then null
      when 'refund_due' then null
      else case when filters.payment is not null then 'false' end
    end;
    indexed := indexed || case filters.due
      when 'late' then is_to_deliver || $sql$ and coalesce(
        (select d.created_at from public.deliveries as d where d.order_id = o.id), o.created_at
      ) < now() - private.delivery_promise()$sql$
      else case when filters.due is not null then
        is_to_deliver || format($sql$ and coalesce(
          (select private.work_step(o, d) from public.deliveries as d where d.order_id = o.id), 'prepare'
        ) = any (%L)$sql$, case filters.due when 'prepare' then array['prepare', 'preparing'] else array[filters.due] end)
      end
    end;
  else
    indexed := indexed || case when filters.status is not null then format('d.delivery_status = %L', filters.status) end;
    -- Pending are those that wait for a rider; collected orders need none.
    indexed := indexed || case when filters.status = 'pending' then
      'not (select collected.is_collected from public.orders as collected where collected.id = d.order_id)' end;
    indexed := indexed || case filters.due
      when 'late' then $sql$d.delivery_status <> 'delivered' and d.created_at < now() - private.delivery_promise()$sql$
      else case when filters.due is not null then 'false' end
    end;
  end if;

  -- Conditions without an index in the order of the list, the rarest last: candidates come from it.
  if rider_name <> '' then
    if is_orders then
      checked := checked || format(
        'coalesce((select lower(d.delivery_person) = %L from public.deliveries as d where d.order_id = o.id), false)', rider_name
      );
      candidates := format('select d.order_id as id from public.deliveries as d where lower(d.delivery_person) = %L', rider_name);
      is_exact := true;
    else
      indexed := indexed || format('lower(d.delivery_person) = %L', rider_name);
    end if;
  end if;
  if cardinality(typed.order_ids) > 0 then
    checked := checked || format('o.id = any (%L::uuid[])', typed.order_ids);
    candidates := format('select unnest(%L::uuid[]) as id', typed.order_ids);
    is_exact := true;
    is_broad := false;
  elsif typed.words is not null then
    -- Words that are in no product or rider must be in the order itself, whose index finds all of them at once. Parts of fewer than
    -- three letters are not in trigram indexes.
    foreach pattern in array typed.words loop
      if pattern ~ '[[:alnum:]]{3}' then
        if private.is_in_item_names(pattern) or (not is_orders and private.is_in_rider_names(pattern)) then
          anywhere := anywhere || pattern;
        else
          in_order := in_order || pattern;
        end if;
      end if;
    end loop;
    is_exact := cardinality(in_order) + cardinality(anywhere) = cardinality(typed.words) and (in_order = '{}' or anywhere = '{}');
    checked := checked || format('(%s like all (%L::text[])%s)',
      order_text || case when in_order <> typed.words then
        format($sql$ || E'\n' || coalesce((select string_agg(%s, E'\n') from public.order_items as i where i.order_id = o.id), '')$sql$, item_text)
        || case when is_orders then '' else format($sql$ || E'\n' || %s$sql$, rider_text) end
        else '' end,
      typed.words,
      case when typed.digits is not null then
        format(' or %s like %L', order_text, typed.digits)
        || case when is_orders then '' else format(' or %s like %L', rider_text, typed.digits) end
      end
    );
    if is_count and is_orders and is_exact and cardinality(anywhere) = 1 and cardinality(checked) = 1 and array_to_string(indexed, '') = '' then
      bound := ' limit 1503';
    end if;
    -- Without longer parts only the newest rows are searched: candidates stay null, or are these rows and the orders with the digits.
    candidates := case
      when cardinality(in_order) > 0 then format('select o.id from public.orders as o where %s',
        (select string_agg(format('%s like %L', order_text, p.pattern), ' and ') from unnest(in_order) as p (pattern))
        || case when typed.digits is not null then format(' or %s like %L', order_text, typed.digits) else '' end)
      when cardinality(anywhere) > 0 then (
        select string_agg(format('((select i.order_id as id from public.order_items as i where %s like %L%s)', item_text, p.pattern, bound)
          || format(' union (select o.id from public.orders as o where %s like %L%s)', order_text, p.pattern, bound)
          || case when is_orders then '' else
            format(' union select d.order_id from public.deliveries as d where %s like %L', rider_text, p.pattern) end
          || ')', ' intersect ')
        from unnest(anywhere) as p (pattern))
      when typed.digits is not null then format(
        '(select %s as id from public.%I as %s where %s order by %3$s.created_at desc, %3$s.id desc limit %s)
         union select o.id from public.orders as o where %s like %L',
        case when is_orders then 'o.id' else 'd.order_id' end, filters.list, own,
        coalesce(nullif(array_to_string(indexed, ' and '), ''), 'true'), private.short_search_rows(), order_text, typed.digits)
    end || case when typed.digits is not null and not is_orders then
      format(' union select d.order_id from public.deliveries as d where %s like %L', rider_text, typed.digits) else '' end;
  end if;
  if is_orders and filters.payment = 'needs_review' then
    -- Money that came too late or in part, or that M-PESA reports in another amount.
    checked := checked || is_review_due;
    is_exact := false;
    candidates := $sql$
      select o.id from public.orders as o where o.payment_status = 'needs_review'
      union
      select p.order_id from public.payments as p where p.status = 'review'$sql$;
    is_broad := false;
  end if;
  if not is_orders and filters.due = 'late' then
    -- As among orders. Failed deliveries are in no index of open ones, so that these come from their orders.
    checked := checked || is_to_deliver;
    is_exact := false;
    candidates := 'select o.id from public.orders as o where ' || is_to_deliver;
    is_broad := false;
  end if;
  if is_orders and filters.payment = 'refund_due' then
    checked := checked || is_refund_due;
    is_exact := true;
    candidates := $sql$
      select o.id from public.orders as o where o.payment_status = 'paid' and o.status = 'cancelled'
      union
      select p.order_id from public.payments as p where p.needs_refund and p.refunded_at is null and p.status = 'completed'$sql$;
    is_broad := false;
  end if;
  by_index := coalesce(nullif(array_to_string(indexed, ' and '), ''), 'true');
  by_row := nullif(array_to_string(checked, ' and '), '');
  is_exact := is_exact and cardinality(checked) = 1;
end
$$;

comment on function private.list_conditions is
  'The filters of a staff list, orders (o) or deliveries (d with their order o), as conditions in SQL. by_index: on the list''s own table, served by an index in the order of the list; by_row: all others, or null; candidates: a query for the ids of orders that may match, or null to scan only private.short_search_rows() rows; is_exact: whether each candidate meets by_row; is_broad: whether the newest rows are scanned first.';

-- Under row level security the trigram indexes cannot be used, since LIKE is not leakproof. So these functions check the caller and
-- then read with their owner's rights.
create or replace function public.search_orders(
  search text default '', status text default null, payment text default null, from_day date default null,
  until_day date default null, rider text default null, due text default null,
  before_created_at timestamptz default null, before_id uuid default null, page_size integer default 50, sort text default null
) returns setof public.orders
language plpgsql stable security definer rows 50 set search_path = '' as $$
declare
  found_ids uuid[];
begin
  perform private.expect_staff('orders');
  found_ids := private.find_in_list(
    ('orders', search, status, payment, from_day, until_day, rider, due), sort, before_created_at, before_id, page_size
  );
  return query
    select o.*
    from unnest(found_ids) with ordinality as f (id, place)
    -- One step in an index for each row: the planner cannot know how few there are.
    cross join lateral (select * from public.orders as own where own.id = f.id limit 1) as o
    order by f.place;
end
$$;

comment on function public.search_orders is
  'For staff: a page of orders, newest first unless sorted otherwise, after the one named by before_created_at and before_id. search: words that must all match, ignoring case, in number, name, email, phone, address, area or products; or a phone number; or a complete tracking number or M-PESA receipt. status: shipped includes out_for_delivery. payment: paid, unpaid, needs_review, refund_due, refunded. from_day, until_day: in Nairobi. rider: name. due: late, or a step of private.work_step: prepare (also being prepared), ready, on_the_way, failed. sort: date (oldest first), -date (default), customer, -customer, total, -total, status or -status; by another column than the date only the newest 5,000 of the list.';

create or replace function public.count_orders(
  search text default '', status text default null, payment text default null, from_day date default null,
  until_day date default null, rider text default null, due text default null
) returns integer
language plpgsql stable security definer set search_path = '' as $$
begin
  perform private.expect_staff('orders');
  return private.count_in_list(('orders', search, status, payment, from_day, until_day, rider, due));
end
$$;

comment on function public.count_orders is
  'For staff: number of orders that search_orders finds on all pages. 501 means more than 500, for a search or rider; 10001 more than 10,000, for other filters.';

create or replace function private.first_day_of_deliveries(from_day date) returns date
language sql stable set search_path = '' as $$
  select case
    when (select auth.role()) = 'authenticated' and not public.may('orders')
    then greatest(from_day, private.nairobi_day(now()) - private.counter_days() + 1)
    else from_day
  end;
$$;

comment on function private.first_day_of_deliveries is
  'The first day of which the caller sees deliveries: that of the filter, for the role counter not before its seven days.';

create or replace function public.search_deliveries(
  search text default '', status text default null, from_day date default null, until_day date default null,
  rider text default null, due text default null, before_created_at timestamptz default null,
  before_id uuid default null, page_size integer default 50, sort text default null
) returns setof public.deliveries
language plpgsql stable security definer rows 50 set search_path = '' as $$
declare
  found_ids uuid[];
begin
  perform private.expect_staff('deliveries');
  found_ids := private.find_in_list(
    ('deliveries', search, status, null, private.first_day_of_deliveries(from_day), until_day, rider, due), sort, before_created_at, before_id, page_size
  );
  return query
    select d.*
    from unnest(found_ids) with ordinality as f (id, place)
    cross join lateral (select * from public.deliveries as own where own.id = f.id limit 1) as d
    order by f.place;
end
$$;

comment on function public.search_deliveries is
  'For staff: a page of deliveries, newest first unless sorted otherwise, after the one named by before_created_at and before_id. search: as in search_orders, also in name and phone of the rider. from_day, until_day: of the payment, in Nairobi. due: late. sort: as in search_orders, and rider or -rider instead of the total.';

create or replace function public.count_deliveries(
  search text default '', status text default null, from_day date default null, until_day date default null,
  rider text default null, due text default null
) returns integer
language plpgsql stable security definer set search_path = '' as $$
begin
  perform private.expect_staff('deliveries');
  return private.count_in_list(
    ('deliveries', search, status, null, private.first_day_of_deliveries(from_day), until_day, rider, due)
  );
end
$$;

comment on function public.count_deliveries is
  'For staff: number of deliveries that search_deliveries finds on all pages. 501 means more than 500, for a search or rider; 10001 more than 10,000, for other filters.';

create or replace function public.count_work() returns table (
  to_prepare integer, ready integer, on_the_way integer, failed integer, late integer, unpaid integer, refunds_due integer, to_assign integer,
  late_deliveries integer, cash_not_received integer
)
language plpgsql stable security definer set search_path = '' as $$
begin
  perform private.expect_staff('deliveries');
  return query select
    private.count_in_list(('orders', null, null, null, null, null, null, 'prepare')),
    private.count_in_list(('orders', null, null, null, null, null, null, 'ready')),
    private.count_in_list(('orders', null, null, null, null, null, null, 'on_the_way')),
    private.count_in_list(('orders', null, null, null, null, null, null, 'failed')),
    private.count_in_list(('orders', null, null, null, null, null, null, 'late')),
    private.count_in_list(('orders', null, null, 'unpaid', null, null, null, null)),
    private.count_in_list(('orders', null, null, 'refund_due', null, null, null, null)),
    private.count_in_list(('deliveries', null, 'pending', null, null, null, null, null)),
    private.count_in_list(('deliveries', null, null, null, null, null, null, 'late')),
    private.count_in_list(('orders', null, 'delivered', 'cash', null, null, null, null));
end
$$;

comment on function public.count_work is
  'For staff: numbers of orders and deliveries that need work, by kind. 10001 means more than 10,000. One row.';

create or replace function private.orders_of_phone(phone text) returns setof public.orders
language plpgsql stable rows 10 set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  return query
    select o.* from public.orders as o where o.customer_phone = orders_of_phone.phone and o.customer_phone <> '';
end
$$;

comment on function private.orders_of_phone is 'The orders with this phone (+254…), by its index.';

create or replace function public.customer_by_phone(phone text) returns public.known_customer
language plpgsql stable security definer set search_path = '' as $$
#variable_conflict use_column
declare
  wanted constant text := private.normalised_phone(customer_by_phone.phone);
  own public.orders[];
  customer public.known_customer;
begin
  perform private.expect_staff('orders');
  if wanted is null then
    perform private.refuse(400, 'phone_invalid', 'Please enter a valid Kenyan phone number (e.g., 0712345678 or +254712345678)');
  end if;
  own := array(select o from private.orders_of_phone(wanted) as o order by o.created_at desc, o.id desc);
  if cardinality(own) = 0 then
    return null;
  end if;
  customer.phone := wanted;
  customer.name := (own[1]).customer_name;
  select count(*) filter (where o.status <> 'cancelled'),
    coalesce((array_agg(o.customer_email order by o.created_at desc, o.id desc) filter (where o.customer_email <> ''))[1], ''),
    coalesce(sum((
      select sum(p.charge_cents - change.returned_cents) from public.payments as p
      cross join lateral private.change_of(p.id) as change
      where p.order_id = o.id and p.status = 'completed' and p.refunded_at is null and p.method <> 'credit'
    )), 0)
  into customer.orders, customer.email, customer.received_cents
  from unnest(own) as o;
  customer.addresses := array(
    select (latest.shipping_address, latest.delivery_notes)::public.known_address
    from (
      select distinct on (lower(o.shipping_address)) o.shipping_address, o.delivery_notes, o.created_at, o.id
      from unnest(own) as o
      where not o.is_collected
      order by lower(o.shipping_address), o.created_at desc, o.id desc
    ) as latest
    order by latest.created_at desc, latest.id desc
    limit 3
  );
  customer.last_orders := array(
    select (o.id, o.order_number, o.created_at, o.status, o.payment_status, o.total_amount, array(
      select (i.product_id, i.product_name, i.quantity, i.unit_price)::public.past_item
      from public.order_items as i where i.order_id = o.id order by i.position
    ))::public.past_order
    from unnest(own[1:5]) as o
    order by o.created_at desc, o.id desc
  );
  return customer;
end
$$;

comment on function public.customer_by_phone is
  'For staff: the customer with this phone, in any Kenyan format. Null: no order has it. Orders that were anonymised are no longer anyone''s.';

create or replace function public.drinks_to_order(search text default '', ids uuid[] default null) returns table (
  id uuid, name text, brand text, price integer, image_url text, units_left integer, sold integer
)
language plpgsql stable security definer rows 30 set search_path = '' as $$
#variable_conflict use_column
declare
  words constant text[] := array(
    select '%' || regexp_replace(w.word, '([\\%_])', '\\\1', 'g') || '%'
    from regexp_split_to_table(trim(left(private.without_accents(drinks_to_order.search), 100)), '\s+') as w (word)
    where w.word <> ''
  );
begin
  perform private.expect_staff('orders');
  -- Reads the whole catalogue, as find_products by a column, and of the orders only the newest.
  return query
    with sales as (
      select i.product_id, sum(i.quantity)::integer as units
      from (select o.id, o.status from public.orders as o order by o.created_at desc, o.id desc limit 300) as newest
      cross join lateral (select * from public.order_items as own where own.order_id = newest.id offset 0) as i
      where newest.status <> 'cancelled'
      group by i.product_id
    )
    select p.id, p.name, p.brand, p.price, p.image_url, public.units_for_sale(p), coalesce(s.units, 0)
    from public.products as p
    left join sales as s on s.product_id = p.id
    where p.is_active and (drinks_to_order.ids is null or p.id = any (drinks_to_order.ids))
      and private.without_accents(p.name || ' ' || coalesce(p.brand, '')) like all (words)
    order by public.units_for_sale(p) = 0, coalesce(s.units, 0) desc, lower(p.name), p.id
    limit 30;
end
$$;

comment on function public.drinks_to_order is
  'For staff who enter an order: up to 30 active products whose name and brand contain all words of a search, or those with these ids, with their price and the units that can be ordered now. Those of the newest 300 orders first, by units sold; those that cannot be ordered last.';

-- Execution rights
grant execute on function public.search_orders, public.count_orders, public.search_deliveries, public.count_deliveries,
  public.count_work, public.customer_by_phone, public.drinks_to_order to authenticated, service_role;

-- Customers by their phone: list, page, notes of staff, and blocked phones (docs/decisions/customers.md).

create table public.customer_notes (
  phone text primary key,
  notes text not null,
  noted_by uuid,
  noted_by_email text,
  updated_at timestamptz not null default now(),
  constraint "notes are of a Kenyan phone" check (phone ~ '^\+254\d{9}$'),
  constraint "notes have words" check (char_length(trim(notes)) between 1 and 1000)
);

comment on table public.customer_notes is 'What staff note about a customer for each other. Erased with the customer''s data.';

alter table public.customer_notes enable row level security;

revoke all on public.customer_notes from anon, authenticated, service_role;

grant select on public.customer_notes to authenticated, service_role;

create policy "staff read every note about customers" on public.customer_notes
  for select to authenticated using ((select public.may('orders')));

create table public.blocked_phones (
  person_hash text primary key,
  phone text,
  reason text,
  blocked_by uuid,
  blocked_by_email text,
  blocked_at timestamptz not null default now(),
  constraint "a blocked phone has a reason, until both are erased" check ((phone is null) = (reason is null)),
  constraint "a reason for blocking has words" check (char_length(trim(reason)) between 3 and 200)
);

comment on table public.blocked_phones is
  'Phones that cannot place orders on the storefront. After an erasure only the keyed hash of the phone is left (private.hash_person).';

alter table public.blocked_phones enable row level security;

revoke all on public.blocked_phones from anon, authenticated, service_role;

grant select on public.blocked_phones to authenticated, service_role;

create policy "staff read every blocked phone" on public.blocked_phones for select to authenticated using ((select public.may('orders')));

create or replace function private.is_blocked(phone text) returns boolean
language plpgsql stable set search_path = '' as $$
begin
  return exists (select from public.blocked_phones as b where b.person_hash = private.hash_person(is_blocked.phone));
end
$$;

create or replace function private.refuse_blocked_phone(phone text) returns void
language plpgsql stable set search_path = '' as $$
begin
  if private.is_blocked(refuse_blocked_phone.phone) then
    perform private.refuse(403, 'phone_blocked', format(
      'We cannot take an online order for this phone number. Please call or WhatsApp us on %s, and we will help you',
      private.contact_numbers()
    ));
  end if;
end
$$;

comment on function private.refuse_blocked_phone is 'Refuses an order of a visitor with a blocked phone, and says how to reach the shop.';

create or replace function private.sums_of_phones(phones text[])
returns table (phone text, orders integer, spent_cents bigint, credit_cents bigint)
language plpgsql stable rows 50 set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  return query
    select wanted.phone, (count(*) filter (where o.status <> 'cancelled'))::integer,
      coalesce(sum(money.came_cents - money.back_cents), 0)::bigint, coalesce(sum(money.owed_cents), 0)::bigint
    from unnest(sums_of_phones.phones) as wanted (phone)
    cross join lateral (
      select o.id, o.status from public.orders as o where o.customer_phone = wanted.phone and o.customer_phone <> '' offset 0
    ) as o
    left join lateral (
      select sum(case when p.needs_refund then 0 else p.charge_cents end) as came_cents,
        sum(case when p.needs_refund then 0 else coalesce(notes.back_cents, 0) end) as back_cents,
        sum(coalesce(notes.owed_cents, 0)) as owed_cents
      from (
        select * from public.payments as p where p.order_id = o.id and p.status = 'completed' and p.refunded_at is null offset 0
      ) as p
      -- Without notes nothing is owed, and few payments have any.
      left join lateral (
        select change.owed_cents, change.owed_cents + change.returned_cents + change.used_cents as back_cents
        from private.change_of(p.id) as change
        where exists (select from public.change_notes as c where c.payment_id = p.id)
      ) as notes on true
    ) as money on true
    group by wanted.phone;
end
$$;

comment on function private.sums_of_phones is
  'Orders and money of phones (+254…). Credit that an order was paid from counts there, not where it came from.';

create or replace function private.newest_of_phones(
  until_created_at timestamptz, until_id uuid, most integer, only_repeat boolean
) returns table (id uuid, created_at timestamptz, phone text, name text)
language plpgsql stable rows 50 set search_path = '' set enable_seqscan = off set enable_sort = off set jit = off as $$
begin
  -- Walks the newest orders, and keeps those that are the last of their phone: one step in the index of phones for each.
  return query
    select o.id, o.created_at, o.customer_phone, o.customer_name
    from public.orders as o
    cross join lateral (
      select newest.id from public.orders as newest
      where newest.customer_phone = o.customer_phone and newest.customer_phone <> ''
      order by newest.created_at desc, newest.id desc limit 1
    ) as last
    where last.id = o.id
      and (newest_of_phones.until_created_at is null
        or (o.created_at, o.id) < (newest_of_phones.until_created_at, newest_of_phones.until_id))
      and (not newest_of_phones.only_repeat or exists (
        select from public.orders as earlier
        where earlier.customer_phone = o.customer_phone and earlier.customer_phone <> ''
          and (earlier.created_at, earlier.id) < (o.created_at, o.id)
      ))
    order by o.created_at desc, o.id desc
    limit newest_of_phones.most;
end
$$;

comment on function private.newest_of_phones is 'The last order of each phone, the newest first, after the one named by until_created_at and until_id.';

create or replace function private.last_of_phones(phones text[])
returns table (id uuid, created_at timestamptz, phone text, name text)
language plpgsql stable rows 50 set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  return query
    select last.id, last.created_at, last.customer_phone, last.customer_name
    from (select distinct p.phone from unnest(last_of_phones.phones) as p (phone)) as wanted
    cross join lateral (
      select o.* from public.orders as o
      where o.customer_phone = wanted.phone and o.customer_phone <> ''
      order by o.created_at desc, o.id desc limit 1
    ) as last;
end
$$;

create or replace function public.list_customers(
  search text default '', kind text default null, sort text default null,
  before_created_at timestamptz default null, before_id uuid default null, page_size integer default 25
) returns setof public.listed_customer
language plpgsql stable security definer rows 25 set search_path = '' as $$
#variable_conflict use_column
declare
  most constant integer := least(greatest(coalesce(list_customers.page_size, 25), 1), 1000);
  words constant text[] := array(
    select '%' || regexp_replace(w.word, '([\\%_])', '\\\1', 'g') || '%'
    from regexp_split_to_table(trim(left(private.without_accents(list_customers.search), 100)), '\s+') as w (word)
    where w.word <> ''
  );
  digits constant text := regexp_replace(left(list_customers.search, 100), '\D', '', 'g');
  phones text[];
begin
  perform private.expect_staff('orders');
  if list_customers.kind not in ('repeat', 'credit', 'blocked') then
    perform private.refuse(400, 'filter_unknown', 'Customers are listed with repeat orders, with credit, or blocked');
  elsif coalesce(list_customers.sort, '') not in ('', 'name', '-name', 'orders', '-orders', 'spent', '-spent') then
    perform private.refuse(400, 'sort_unknown', 'Customers are sorted by name, orders or spending');
  end if;
  if cardinality(words) = 0 and coalesce(list_customers.sort, '') = '' and coalesce(list_customers.kind, 'repeat') = 'repeat' then
    return query
      with page as (
        select n.* from private.newest_of_phones(
          list_customers.before_created_at, list_customers.before_id, most, list_customers.kind is not null
        ) as n
      ), sums as (
        select s.* from private.sums_of_phones((select array_agg(p.phone) from page as p)) as s
      )
      select p.id, p.created_at, p.phone, p.name, s.orders, s.spent_cents, s.credit_cents, private.is_blocked(p.phone)
      from page as p join sums as s on s.phone = p.phone
      order by p.created_at desc, p.id desc;
    return;
  end if;
  -- A search, a rare kind of customer, or another order than the date: all of a bounded set of phones, as in the lists of orders.
  phones := case
    when cardinality(words) > 0 then array(
      select distinct o.customer_phone from public.search_orders(search => list_customers.search, page_size => 500) as o
      where o.customer_phone <> '' and (
        private.without_accents(o.customer_name) like all (words)
        or (char_length(digits) >= 3 and o.customer_phone like '%' || ltrim(digits, '0') || '%')
        or o.customer_phone = private.normalised_phone(left(list_customers.search, 40))
      )
    )
    when list_customers.kind = 'credit' then array(
      select distinct k.customer_phone from public.kept_for_customers(page_size => 1000) as k where k.customer_phone <> ''
    )
    when list_customers.kind = 'blocked' then array(
      select b.phone from public.blocked_phones as b where b.phone is not null order by b.blocked_at desc limit 1000
    )
    else array(
      select distinct newest.customer_phone
      from (select o.customer_phone from public.orders as o order by o.created_at desc, o.id desc limit 5000) as newest
      where newest.customer_phone <> ''
    )
  end;
  return query
    with found as (
      select l.id, l.created_at, l.phone, l.name, s.orders, s.spent_cents, s.credit_cents, private.is_blocked(l.phone) as is_blocked
      from private.last_of_phones(phones) as l
      join private.sums_of_phones(phones) as s on s.phone = l.phone
      where case list_customers.kind
        when 'repeat' then s.orders > 1
        when 'credit' then s.credit_cents > 0
        else true
      end
    ), placed as (
      select f.*, row_number() over (
        order by
          case list_customers.sort when 'name' then lower(f.name) end, case list_customers.sort when '-name' then lower(f.name) end desc,
          case list_customers.sort when 'orders' then f.orders when '-orders' then -f.orders end,
          case list_customers.sort when 'spent' then f.spent_cents when '-spent' then -f.spent_cents end,
          f.created_at desc, f.id desc
      ) as place
      from found as f
      where list_customers.kind is distinct from 'blocked' or f.is_blocked
    )
    select p.id, p.created_at, p.phone, p.name, p.orders, p.spent_cents, p.credit_cents, p.is_blocked
    from placed as p
    where p.place > coalesce((select before.place from placed as before where before.id = list_customers.before_id), 0)
    order by p.place
    limit most;
end
$$;

comment on function public.list_customers is
  'For staff: a page of customers, those with the newest orders first, after the one named by before_created_at and before_id. search: words of the name, or digits of the phone, of the newest 500 orders that it finds. kind: repeat, credit or blocked. sort: name, orders, spent, with - before it for the opposite; by these only the customers of the newest 5,000 orders.';

create or replace function public.customer_page(phone text) returns public.shown_customer
language plpgsql stable security definer set search_path = '' as $$
#variable_conflict use_column
declare
  wanted constant text := private.normalised_phone(customer_page.phone);
  shown public.shown_customer;
begin
  perform private.expect_staff('orders');
  if wanted is null then
    perform private.refuse(400, 'phone_invalid', 'Please enter a valid Kenyan phone number (e.g., 0712345678 or +254712345678)');
  end if;
  shown.phone := wanted;
  select (array_agg(o.customer_name order by o.created_at desc, o.id desc))[1],
    (array_agg(o.customer_email order by o.created_at desc, o.id desc) filter (where o.customer_email <> ''))[1],
    count(*) filter (where o.status = 'cancelled'), min(o.created_at)
  into shown.name, shown.email, shown.cancelled, shown.first_order_at
  from private.orders_of_phone(wanted) as o;
  select s.orders, s.spent_cents, s.credit_cents into shown.orders, shown.spent_cents, shown.credit_cents
  from private.sums_of_phones(array[wanted]) as s;
  shown.orders := coalesce(shown.orders, 0);
  shown.spent_cents := coalesce(shown.spent_cents, 0);
  shown.credit_cents := coalesce(shown.credit_cents, 0);
  select n.notes, n.noted_by_email, n.updated_at into shown.notes, shown.notes_by, shown.notes_at
  from public.customer_notes as n where n.phone = wanted;
  select true, b.reason, b.blocked_by_email, b.blocked_at
  into shown.is_blocked, shown.block_reason, shown.blocked_by, shown.blocked_at
  from public.blocked_phones as b where b.person_hash = private.hash_person(wanted);
  shown.is_blocked := coalesce(shown.is_blocked, false);
  return shown;
end
$$;

comment on function public.customer_page is 'For staff: what is known of a phone, in any Kenyan format.';

create or replace function private.read_customer_phone(phone text) returns text
language plpgsql stable set search_path = '' as $$
declare
  wanted constant text := private.normalised_phone(read_customer_phone.phone);
begin
  if wanted is null then
    perform private.refuse(400, 'phone_invalid', 'Please enter a valid Kenyan phone number (e.g., 0712345678 or +254712345678)');
  end if;
  return wanted;
end
$$;

create or replace function public.note_customer(phone text, notes text, seen_at timestamptz default null) returns void
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  member uuid := private.expect_staff_member('orders');
  wanted text := private.read_customer_phone(note_customer.phone);
  words text := private.visible_text(note_customer.notes);
  known public.customer_notes;
begin
  if char_length(words) > 1000 then
    perform private.refuse(400, 'notes_too_long', 'The notes are longer than 1,000 characters');
  end if;
  perform pg_advisory_xact_lock(hashtextextended('notes about ' || wanted, 0));
  select * into known from public.customer_notes as n where n.phone = wanted;
  if known.updated_at is distinct from note_customer.seen_at then
    perform private.refuse(409, 'notes_changed', 'These notes were changed in the meantime. Nothing was saved');
  elsif words is null then
    delete from public.customer_notes as n where n.phone = wanted;
  else
    insert into public.customer_notes as n (phone, notes, noted_by, noted_by_email)
    values (wanted, words, member, private.email_of(member))
    on conflict (phone) do update set
      notes = excluded.notes, noted_by = excluded.noted_by, noted_by_email = excluded.noted_by_email,
      updated_at = greatest(clock_timestamp(), n.updated_at + interval '1 millisecond');
  end if;
end
$$;

comment on function public.note_customer is
  'For staff: sets the notes about a phone, or removes them (blank). seen_at: updated_at of the notes that the member saw; null: none.';

create or replace function public.block_phone(phone text, reason text) returns void
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  member uuid := private.expect_staff_member('orders');
  wanted text := private.read_customer_phone(block_phone.phone);
begin
  insert into public.blocked_phones as b (person_hash, phone, reason, blocked_by, blocked_by_email)
  values (
    private.hash_person(wanted), wanted, private.read_reason(block_phone.reason, is_required => true), member, private.email_of(member)
  )
  on conflict (person_hash) do update set
    phone = excluded.phone, reason = excluded.reason, blocked_by = excluded.blocked_by, blocked_by_email = excluded.blocked_by_email,
    blocked_at = now();
end
$$;

comment on function public.block_phone is
  'For staff: a phone cannot place orders on the storefront any more; staff can still enter them. Its present orders stay as they are.';

create or replace function public.unblock_phone(phone text) returns void
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  wanted text;
begin
  perform private.expect_staff_member('orders');
  wanted := private.read_customer_phone(unblock_phone.phone);
  delete from public.blocked_phones as b where b.person_hash = private.hash_person(wanted);
end
$$;

comment on function public.unblock_phone is 'For staff: a phone can place orders again. Repeating it changes nothing.';

create or replace function public.nth_order(ordered public.orders) returns integer
language sql stable set search_path = '' as $$
  select count(*)::integer from (
    select from public.orders as o
    where o.customer_phone = ordered.customer_phone and o.customer_phone <> '' and o.status <> 'cancelled'
      and (o.created_at, o.id) <= (ordered.created_at, ordered.id)
    limit 100
  ) as counted;
$$;

comment on function public.nth_order is
  'Which order of its phone this is, without cancelled ones; 100: or a later one, 0: unknown. Counts orders that the caller may read.';

-- Execution rights
grant execute on function public.list_customers, public.customer_page, public.note_customer, public.block_phone, public.unblock_phone,
  public.nth_order to authenticated, service_role;

create policy "staff read every inquiry" on public.inquiries for select to authenticated using ((select public.may('inquiries')));

create or replace function public.mark_inquiry_read(inquiry_id uuid) returns text
language plpgsql volatile security definer set search_path = '' as $$
begin
  perform private.expect_staff('inquiries');
  update public.inquiries as i set is_read = true where i.id = mark_inquiry_read.inquiry_id and not i.is_read;
  if found then
    return 'marked';
  end if;
  return case
    when exists (select from public.inquiries as i where i.id = mark_inquiry_read.inquiry_id) then 'already_read'
    else 'not_found'
  end;
end
$$;

comment on function public.mark_inquiry_read is 'For staff. Returns marked, already_read or not_found.';

create or replace function public.mark_all_inquiries_read(seen_until timestamptz default null) returns integer
language plpgsql volatile security definer set search_path = '' as $$
declare
  count integer;
begin
  perform private.expect_staff('inquiries');
  update public.inquiries as i set is_read = true
  where not i.is_read and i.created_at <= coalesce(mark_all_inquiries_read.seen_until, 'infinity');
  get diagnostics count = row_count;
  return count;
end
$$;

comment on function public.mark_all_inquiries_read is
  'For staff: marks all unread inquiries up to the newest that was seen. Returns how many.';

create or replace function public.search_inquiries(
  search text default '', before_created_at timestamptz default null, before_id uuid default null,
  page_size integer default 50
) returns setof public.inquiries
language plpgsql stable security definer rows 50 set search_path = '' as $$
declare
  found_ids uuid[];
begin
  perform private.expect_staff('inquiries');
  found_ids := private.find_by_text(
    'inquiries', $sql$lower(t.name || E'\n' || t.email || E'\n' || coalesce(t.subject, ''))$sql$, 'true',
    search, before_created_at, before_id, page_size
  );
  return query
    select i.* from public.inquiries as i where i.id = any (found_ids) order by i.created_at desc, i.id desc;
end
$$;

comment on function public.search_inquiries is
  'For staff: a page of inquiries whose name, email or subject contains a text, ignoring case; newest first, after the one named by before_created_at and before_id.';

create policy "staff read every subscription" on public.newsletter_subscriptions
  for select to authenticated using ((select public.may('personal_data')));

grant execute on function public.mark_inquiry_read, public.mark_all_inquiries_read, public.search_inquiries
  to authenticated, service_role;

comment on table public.inquiry_answers is
  'Answers to inquiries, one by each way: a mail and the text sent with it have the same answered_at. The message of an answer by mail or text has the same id in outbox_messages; its repetitions have the inquiry''s id as event_key, too. Deleted with the inquiry.';

comment on column public.inquiry_answers.way is 'mail, text, or elsewhere: by phone or chat, noted afterwards.';

comment on column public.inquiry_answers.body is 'What the customer reads; a note for colleagues if it was answered elsewhere.';

comment on column public.inquiry_answers.answered_by is 'Email address of the staff member.';

alter table public.inquiry_answers enable row level security;

grant select on public.inquiry_answers to authenticated;

create policy "staff read every answer" on public.inquiry_answers for select to authenticated using ((select public.may('inquiries')));

create or replace function private.add_answer(inquiry public.inquiries, way text, body text, subject text, member text) returns uuid
language plpgsql set search_path = '' as $$
declare
  words constant text := private.visible_text(left(add_answer.body, 5001));
  heading constant text := private.visible_text(left(regexp_replace(add_answer.subject, '\s+', ' ', 'g'), 301));
  is_sent constant boolean := add_answer.way in ('mail', 'text');
  recipient constant text := case add_answer.way
    when 'mail' then inquiry.email
    when 'text' then private.normalised_phone(inquiry.phone)
  end;
  added uuid;
begin
  if is_sent and recipient is null then
    perform private.refuse(409, 'recipient_missing', 'This customer gave no mobile number');
  elsif is_sent and words is null then
    perform private.refuse(400, 'reply_empty', 'Please write a reply');
  elsif char_length(words) > (case add_answer.way when 'text' then 480 else 5000 end) then
    perform private.refuse(400, 'reply_too_long', 'This reply is too long');
  elsif is_sent and coalesce(words || heading, words) ~ '\{[a-z_]*\}' then
    perform private.refuse(400, 'placeholder_left', 'A placeholder is not filled in');
  elsif add_answer.way = 'mail' and (heading is null or char_length(heading) > 300) then
    perform private.refuse(400, 'subject_invalid', 'A mail needs a subject of at most 300 characters');
  elsif is_sent and private.left_of_budget(add_answer.way) = 0 then
    perform private.refuse(409, 'message_budget_used_up', format(
      'Today''s budget of %s is used up. Raise it under Settings, or send this tomorrow', add_answer.way || 's'
    ));
  end if;
  insert into public.inquiry_answers (inquiry_id, way, body, answered_by)
  values (inquiry.id, add_answer.way, words, member)
  returning id into added;
  if is_sent then
    insert into public.outbox_messages (
      id, order_id, kind, event_key, channel, recipient, order_number, tracking_number, customer_name, has_priority, is_verbatim,
      subject, body, next_attempt_at
    ) values (
      added, null, 'inquiry_reply', inquiry.id::text, add_answer.way, recipient, '', '', inquiry.name, true, true,
      case add_answer.way when 'mail' then heading end, words, now() + private.undo_window()
    );
    insert into private.outbox_queue (message_id, channel, due_at) values (added, add_answer.way, now() + private.undo_window());
  end if;
  return added;
end
$$;

comment on function private.add_answer is 'Adds an answer and, by mail or text, its message; refuses one that cannot be sent.';

create or replace function public.answer_inquiry(
  inquiry_id uuid, way text, body text, seen_answered_at timestamptz default null, subject text default null,
  text_body text default null
) returns public.status_change
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  inquiry public.inquiries;
  member constant text := coalesce(private.email_of((select auth.uid())), 'the shop itself');
  added uuid;
  change public.status_change;
begin
  perform private.expect_staff('inquiries');
  select * into inquiry from public.inquiries as i where i.id = answer_inquiry.inquiry_id for update;
  if not found then
    perform private.refuse(404, 'inquiry_not_found', 'This inquiry does not exist any more');
  elsif inquiry.answered_at is distinct from answer_inquiry.seen_answered_at then
    perform private.refuse(409, 'inquiry_answered', 'Someone else answered this in the meantime. Nothing was sent');
  elsif answer_inquiry.text_body is not null and answer_inquiry.way <> 'mail' then
    perform private.refuse(400, 'text_without_mail', 'Only a mail can be sent as a text, too');
  end if;
  added := private.add_answer(inquiry, answer_inquiry.way, answer_inquiry.body, answer_inquiry.subject, member);
  if answer_inquiry.text_body is not null then
    perform private.add_answer(inquiry, 'text', answer_inquiry.text_body, null, member);
  end if;
  update public.inquiries as i set is_read = true, answered_by = member, answered_at = now() where i.id = inquiry.id;
  change := (added, extract(epoch from private.undo_window())::integer, answer_inquiry.way in ('mail', 'text'));
  perform private.note_answer(to_jsonb(change));
  return change;
end
$$;

comment on function public.answer_inquiry is
  'For staff: sends a reply to an inquiry by mail or text after the undo window, as it is written, or notes that it was answered elsewhere, and marks it as read. text_body: the words of a mail that is sent as a text, too. seen_answered_at: of the inquiry as the member read it; it is refused if a colleague was first. change_id: of the answer, for withdraw_answer.';

create or replace function public.withdraw_answer(answer_id uuid) returns void
language plpgsql security definer set search_path = '' as $$
declare
  answer public.inquiry_answers;
  parts uuid[];
  withdrawn integer;
begin
  perform private.expect_staff('inquiries');
  -- The inquiry first, as in answer_inquiry.
  perform from public.inquiries as i
  where i.id = (select a.inquiry_id from public.inquiry_answers as a where a.id = withdraw_answer.answer_id)
  for update;
  select * into answer from public.inquiry_answers as a where a.id = withdraw_answer.answer_id;
  if not found then
    perform private.refuse(404, 'answer_not_found', 'This answer does not exist any more');
  elsif answer.answered_by is distinct from coalesce(private.email_of((select auth.uid())), 'the shop itself') then
    perform private.refuse(403, 'answer_of_colleague', 'Only who answered can undo this');
  elsif answer.answered_at + private.undo_window() < clock_timestamp() then
    perform private.refuse(409, 'answer_too_late', 'It is too late to undo this answer');
  end if;
  -- A mail and its text have the time of their transaction.
  parts := array(
    select a.id from public.inquiry_answers as a where a.inquiry_id = answer.inquiry_id and a.answered_at = answer.answered_at
  );
  if answer.way <> 'elsewhere' then
    delete from public.outbox_messages as m where m.id = any (parts) and m.status = 'waiting' and m.attempts = 0;
    get diagnostics withdrawn = row_count;
    if withdrawn < cardinality(parts) then
      perform private.refuse(409, 'answer_sent', 'This reply is being sent already');
    end if;
  end if;
  delete from public.inquiry_answers as a where a.id = any (parts);
  update public.inquiries as i
  set answered_by = last.answered_by, answered_at = last.answered_at
  from (select) as one
  left join lateral (
    select a.answered_by, a.answered_at from public.inquiry_answers as a
    where a.inquiry_id = answer.inquiry_id order by a.answered_at desc, a.id limit 1
  ) as last on true
  where i.id = answer.inquiry_id;
end
$$;

comment on function public.withdraw_answer is
  'For the staff member who answered an inquiry: withdraws the answer within the undo window, before it is sent, and the text that was sent with a mail. The inquiry stays read.';

create policy "staff read and edit the reply templates" on public.reply_templates
  for all to authenticated using ((select public.may('inquiries'))) with check ((select public.may('inquiries')));

-- Execution rights
grant execute on function public.answer_inquiry, public.withdraw_answer to authenticated, service_role;

create policy "staff read every message" on public.outbox_messages for select to authenticated using ((select public.may('messages')));

create policy "staff read and edit the templates" on public.message_templates
  for all to authenticated using ((select public.may('messages'))) with check ((select public.may('messages')));

create or replace function private.queue_messages_of_delivery(old public.deliveries, new public.deliveries) returns void
language plpgsql set search_path = '' as $$
begin
  -- The words of the mail speak of a payment.
  if new.delivery_status = 'failed' and old.delivery_status <> 'failed' and new.failure_reason is not null and exists (
    select from public.orders as o where o.id = new.order_id and private.is_to_deliver(o.payment_status, o.payment_method)
  ) then
    perform private.queue_order_messages(
      new.order_id, 'delivery_failed', private.failure_event_key(new.order_id), due_at => now() + private.undo_window(),
      channels => case (select o.payment_status from public.orders as o where o.id = new.order_id)
        when 'paid' then array['mail', 'text'] else array['text'] end
    );
  end if;
end
$$;

create or replace function private.queue_messages_of_order(old public.orders, new public.orders) returns void
language plpgsql set search_path = '' as $$
begin
  if old.payment_status = 'unpaid' and new.payment_status <> 'unpaid' then
    perform private.release_messages(new.id);
  end if;
  if old.payment_status <> new.payment_status then
    if new.payment_status = 'paid' then
      -- A customer who pays cash stands in front of staff or the rider, and texts cost money.
      perform private.queue_order_messages(
        new.id, 'order_paid', private.payment_event_key(new.id),
        channels => case new.payment_method when 'cash' then array['mail'] else array['mail', 'text'] end
      );
    elsif new.payment_status = 'needs_review' then
      perform private.queue_order_messages(new.id, 'order_payment_held', private.payment_event_key(new.id));
    -- Not where the last part of it became credit again or was given back in cash: nothing was sent.
    elsif new.payment_status = 'refunded' and new.payment_method <> 'cash' and coalesce((
      select r.method from public.refunds as r
      join public.payments as p on p.id = r.payment_id
      where p.order_id = new.id and not p.needs_refund and r.status = 'completed'
      order by r.completed_at desc, r.updated_at desc limit 1
    ), '') not in ('credit', 'cash') then
      perform private.queue_order_messages(new.id, 'order_refunded');
    end if;
  end if;
  if old.status <> new.status then
    -- The customer of a collected order has it in hand.
    if new.is_collected and private.has_left_shop(new.status) then
      null;
    elsif private.is_on_the_way(new.status) then
      perform private.queue_order_messages(
        new.id, 'order_on_its_way', private.failure_event_key(new.id), due_at => now() + private.undo_window()
      );
    elsif new.status = 'delivered' then
      perform private.queue_order_messages(new.id, 'order_delivered', due_at => now() + private.undo_window());
    elsif new.status = 'cancelled' and new.payment_status <> 'refunded' then
      if new.cancel_reason = 'not_paid_in_time' then
        -- Not without a prompt, nor when the link was withheld: the order may have a stranger's address.
        if exists (select from public.payments as p where p.order_id = new.id) and not exists (
          select from public.outbox_messages as m
          where m.order_id = new.id and m.kind = 'order_received' and m.channel = 'mail' and m.status = 'over_budget'
        ) then
          perform private.queue_order_messages(new.id, 'order_expired', channels => array['mail']);
        end if;
      else
        -- No texts for unpaid orders, because texts cost money.
        perform private.queue_order_messages(new.id, 'order_cancelled',
          channels => case when new.payment_status = 'unpaid' then array['mail'] else array['mail', 'text'] end,
          due_at => now() + private.undo_window());
      end if;
    end if;
    if new.status = 'cancelled' then
      delete from public.outbox_messages as m
      where m.order_id = new.id and m.status = 'over_budget' and not private.is_message_true(m.order_id, m.kind);
    end if;
  end if;
end
$$;

create or replace function private.check_message_template() returns trigger
language plpgsql security definer set search_path = '' as $$
declare
  written text := coalesce(new.subject, '') || E'\n' || new.body;
  is_newsletter boolean := new.kind = 'newsletter_confirmation';
  placeholders text[] := array['shop', 'shop_phone', 'shop_email'] || case
    when is_newsletter then array['confirm_link', 'unsubscribe_link']
    when new.kind = 'refund_to_approve' then array['refund', 'order', 'receipt', 'requested_by', 'reason', 'staff_link']
    when private.is_staff_message(new.kind) then array['cause', 'advice', 'code', 'began', 'till', 'staff_link']
    else array[
      'name', 'order', 'tracking', 'items', 'delivery_fee', 'discount', 'total', 'paid', 'receipt', 'due_back', 'refunded', 'refund_receipt',
      'failure', 'cash', 'link', 'receipt_link'
    ]
  end;
  missing text;
begin
  if private.visible_length(new.body) = 0 or (new.channel = 'mail' and private.visible_length(new.subject) = 0) then
    perform private.refuse(400, 'template_empty', 'A message needs words');
  elsif char_length(new.body) > 5000 or (new.channel = 'text' and char_length(new.body) > 480) or char_length(new.subject) > 150 then
    perform private.refuse(400, 'template_too_long', 'This message is too long');
  elsif new.subject ~ '[\n\r]' then
    perform private.refuse(400, 'subject_has_lines', 'A subject is one line');
  end if;
  perform private.check_placeholders(written, placeholders);
  if is_newsletter then
    select wanted.word into missing
    from unnest(array['confirm_link', 'unsubscribe_link']) as wanted (word)
    where position('{' || wanted.word || '}' in new.body) = 0
    limit 1;
    if found then
      perform private.refuse(400, 'placeholder_missing', format('This message needs {%s}', missing));
    end if;
  end if;
  if tg_op = 'UPDATE' then
    new.updated_at := private.time_of_edit(to_jsonb(old), to_jsonb(new));
  end if;
  return new;
end
$$;

create or replace function public.search_messages(
  search text default '', status text default null, channel text default null,
  before_created_at timestamptz default null, before_id uuid default null, page_size integer default 50
) returns setof public.outbox_messages
language plpgsql stable security definer rows 50 set search_path = '' as $$
declare
  found_ids uuid[];
begin
  perform private.expect_staff('messages');
  found_ids := private.find_by_text(
    'outbox_messages',
    $sql$lower(t.customer_name || E'\n' || t.recipient || E'\n' || t.order_number || E'\n' || t.tracking_number)$sql$,
    concat_ws(' and ', 'true', 't.status = ' || quote_literal(status), 't.channel = ' || quote_literal(channel)),
    search, before_created_at, before_id, page_size
  );
  return query
    select m.* from public.outbox_messages as m where m.id = any (found_ids) order by m.created_at desc, m.id desc;
end
$$;

comment on function public.search_messages is
  'For staff: a page of messages whose recipient, customer, order or tracking number contains a text, ignoring case; newest first, after the one named by before_created_at and before_id.';

create or replace function private.add_to_outbox(
  ordered public.orders, kind text, event_key text, channel text, recipient text, due_at timestamptz
) returns void
language plpgsql set search_path = '' as $$
#variable_conflict use_column
declare
  -- Other messages follow a payment, or a change by staff.
  has_priority boolean := ordered.payment_status <> 'unpaid' or ordered.source <> 'storefront'
    or add_to_outbox.kind not in ('order_received', 'order_expired', 'order_cancelled');
  problem text;
  added uuid;
begin
  -- Further prompts for an order are not limited: the message exists already.
  select m.id into added from public.outbox_messages as m
  where m.order_id = ordered.id and m.kind = add_to_outbox.kind
    and m.event_key = add_to_outbox.event_key and m.channel = add_to_outbox.channel;
  if found then
    -- Changed again before it was sent: the undo window starts again.
    if add_to_outbox.due_at > now() then
      update public.outbox_messages as m set next_attempt_at = add_to_outbox.due_at
      where m.id = added and m.status = 'waiting' and m.attempts = 0;
      if found then
        update private.outbox_queue as q set due_at = add_to_outbox.due_at, lease = null where q.message_id = added;
      end if;
    end if;
    return;
  end if;
  if not has_priority then
    problem := private.reason_to_withhold(add_to_outbox.kind, add_to_outbox.channel, add_to_outbox.recipient);
  end if;
  insert into public.outbox_messages (
    order_id, kind, event_key, channel, recipient, order_number, tracking_number, customer_name,
    has_priority, status, next_attempt_at, problem
  ) values (
    ordered.id, add_to_outbox.kind, add_to_outbox.event_key, add_to_outbox.channel, add_to_outbox.recipient,
    ordered.order_number, ordered.tracking_number, ordered.customer_name,
    has_priority,
    case when problem is null then 'waiting' else 'over_budget' end,
    case when problem is null then add_to_outbox.due_at end,
    problem
  )
  on conflict do nothing
  returning id into added;
  if problem is null and added is not null then
    insert into private.outbox_queue (message_id, channel, due_at) values (added, add_to_outbox.channel, add_to_outbox.due_at);
  end if;
end
$$;

comment on function private.add_to_outbox is
  'Adds a message of an order to the outbox, once per order, kind, event_key and channel; it is sent at due_at. Messages of unpaid orders are withheld (over_budget) above the limits of private.reason_to_withhold.';

-- Execution rights
grant execute on function public.search_messages to authenticated, service_role;

-- Sending messages: the queue of the outbox and the daily budgets.

create or replace function private.message_facts(order_id uuid, kind text, event_key text) returns jsonb
language plpgsql stable set search_path = '' as $$
declare
  shop jsonb := (
    select jsonb_build_object('name', s.store_name, 'phone', s.support_phone, 'email', s.support_email)
    from public.store_settings as s
  );
begin
  if message_facts.kind = 'newsletter_confirmation' then
    return jsonb_build_object('shop', shop, 'subscription_id', message_facts.event_key);
  elsif private.is_staff_message(message_facts.kind) then
    return jsonb_build_object('shop', shop) || private.staff_message_facts(message_facts.kind, message_facts.event_key);
  elsif message_facts.kind in ('inquiry_reply', 'test_message') then
    -- With the empty values of an order, for versions of the shop that fill in every message.
    return jsonb_build_object(
      'shop', shop, 'tracking_number', '', 'customer_name', '', 'delivery_fee', 0, 'total_amount', 0, 'items', '[]'::jsonb
    );
  end if;
  return (select jsonb_build_object(
    'shop', shop,
    'tracking_number', o.tracking_number,
    'access_key', (select k.access_key from private.order_keys as k where k.order_id = o.id limit 1),
    'customer_name', o.customer_name,
    'delivery_fee', o.delivery_fee,
    'discount_cents', o.discount_cents,
    'total_amount', o.total_amount,
    'items', array(
      select jsonb_build_object('name', i.product_name, 'quantity', i.quantity, 'unit_price', i.unit_price)
      from public.order_items as i where i.order_id = o.id order by i.position
    ),
    'pays_cash', o.payment_status = 'unpaid' and o.payment_method = 'cash',
    'failure', (select d.failure_reason from public.deliveries as d where d.order_id = o.id),
    'payment', (
      select jsonb_build_object(
        'charge_cents', coalesce(part.amount_cents, p.charge_cents), 'receipt', p.receipt, 'paid_at', p.completed_at,
        'refund_receipt', coalesce(part.receipt, p.refund_receipt), 'is_credit', case when p.method = 'credit' then true end
      )
      -- The few payments of the order, before any order or limit: the planner would rather read all payments in order of completion.
      from (select * from public.payments as own where own.order_id = o.id offset 0) as p
      left join lateral (
        select c.* from public.change_notes as c where c.payment_id = p.id and c.id::text = message_facts.event_key
      ) as part on true
      where p.status = 'completed'
        and case
          -- A blank or counted key.
          when message_facts.event_key ~ '^[0-9]*$' then not p.needs_refund
          when part.id is not null then true
          -- Merged payments have one refund.
          else exists (select from public.refunds as r where r.id::text = message_facts.event_key and r.payment_id = p.id)
        end
      order by p.completed_at desc
      limit 1
    )
  )
  from public.orders as o
  where o.id = message_facts.order_id);
end
$$;

comment on function private.message_facts is
  'Values of a message''s placeholders. payment: the one that paid the order, or whose refund, or part that went back, is the event_key. pays_cash: it is to be paid at the door. Newsletter mails: the shop and the subscription. Messages to staff: staff_message_facts. Replies to inquiries and tests: the shop.';

create or replace function private.given_up(message public.outbox_messages, problem text) returns text
language sql immutable set search_path = '' as $$
  select case
    -- Tried once: its sender waits for the answer.
    when message.kind = 'test_message' then coalesce(given_up.problem, 'No process of the shop sent it in time. Is one running?')
    else 'Given up after a day: ' || coalesce(given_up.problem, 'nothing could be sent in that time')
  end;
$$;

create or replace function public.begin_message(message_id uuid, lease uuid, body text, subject text default null) returns integer
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  message public.outbox_messages;
  final_status text;
  reason text;
  attempt integer;
begin
  select * into message from public.outbox_messages as m where m.id = begin_message.message_id for update;
  delete from private.outbox_queue as q where q.message_id = begin_message.message_id and q.lease = begin_message.lease;
  if not found or message.status <> 'waiting' then
    return null;
  end if;
  if not message.is_verbatim and not private.is_still_true(message) then
    -- Deleted, so that it is sent once it is true again.
    delete from public.outbox_messages as m where m.id = message.id;
    return null;
  end if;
  if message.give_up_at < now() then
    final_status := 'failed';
    reason := private.given_up(message, message.problem);
  elsif not message.is_verbatim and not exists (
    select from public.message_templates as t where t.kind = message.kind and t.channel = message.channel and t.is_on
  ) then
    final_status := 'failed';
    reason := 'Messages of this kind are switched off';
  else
    -- Newsletter confirmations have a budget of their own (subscribe_to_newsletter).
    reason := private.take_from_budget(message.channel, message.has_priority or message.kind = 'newsletter_confirmation');
    final_status := case when reason is not null then 'over_budget' end;
  end if;
  if final_status is not null then
    update public.outbox_messages as m
    set status = final_status, next_attempt_at = null, problem = reason, updated_at = now()
    where m.id = message.id;
    return null;
  end if;
  update public.outbox_messages as m
  set status = 'sending', attempts = m.attempts + 1, sending_since = now(), next_attempt_at = null,
      subject = begin_message.subject, body = begin_message.body, updated_at = now()
  where m.id = message.id
  returning m.attempts into attempt;
  return attempt;
end
$$;

comment on function public.begin_message is
  'Marks a leased message as being sent, stores its text and counts it in today''s budget. Returns the number of the attempt; only then may it be sent. Null: another process has it, a day has passed, its template is off, the budget is used up, or it no longer matches the order; then it is deleted.';

create or replace function public.finish_message(
  message_id uuid, attempt integer, outcome text, problem text default null, gateway_reference text default null
) returns text
language plpgsql security definer set search_path = '' as $$
declare
  sent public.outbox_messages;
  next_at timestamptz;
begin
  if finish_message.outcome not in ('sent', 'refused', 'failed', 'unsure') then
    perform private.refuse(400, 'outcome_unknown', 'A message is sent, refused, failed or unsure');
  end if;
  -- A slow process may still report its outcome, unless another attempt has followed.
  select * into sent from public.outbox_messages as m
  where m.id = finish_message.message_id and m.attempts = finish_message.attempt
    and (m.status in ('sending', 'unsure') or (m.status = 'waiting' and finish_message.outcome = 'sent'))
  for update;
  if not found then
    return null;
  end if;
  delete from private.outbox_queue as q where q.message_id = sent.id;
  if finish_message.outcome in ('refused', 'failed') then
    perform private.return_to_budget(sent.channel, sent.sending_since);
  end if;
  if finish_message.outcome = 'refused' then
    next_at := now() + private.back_off(interval '30 seconds', sent.attempts - 1, interval '2 hours');
    if next_at <= sent.give_up_at then
      insert into private.outbox_queue (message_id, channel, due_at) values (sent.id, sent.channel, next_at) on conflict do nothing;
    else
      next_at := null;
    end if;
  end if;
  update public.outbox_messages as m
  set status = case
        when finish_message.outcome <> 'refused' then finish_message.outcome
        when next_at is null then 'failed'
        else 'waiting'
      end,
      next_attempt_at = next_at,
      problem = case
        when finish_message.outcome = 'sent' then null
        when finish_message.outcome = 'refused' and next_at is null
          then private.given_up(sent, coalesce(finish_message.problem, 'refused without a reason'))
        else finish_message.problem
      end,
      gateway_reference = coalesce(finish_message.gateway_reference, m.gateway_reference),
      sent_at = case when finish_message.outcome = 'sent' then now() end, updated_at = now()
  where m.id = sent.id
  returning * into sent;
  return sent.status;
end
$$;

comment on function public.finish_message is
  'Records the outcome of an attempt: sent; refused, to be retried with growing delays for a day; failed; or unsure. Refused and failed messages are returned to the budget. Returns the message''s status, or null if a later attempt has begun.';

create or replace function public.send_message_again(message_id uuid) returns public.outbox_messages
language plpgsql security definer set search_path = '' as $$
declare
  again public.outbox_messages;
begin
  perform private.expect_staff('messages');
  update public.outbox_messages as m
  set status = 'waiting', next_attempt_at = now(), give_up_at = now() + interval '1 day', sending_since = null,
      -- Requested by staff, not by a visitor.
      has_priority = true,
      resent_by = coalesce(private.email_of((select auth.uid())), 'the shop itself'),
      updated_at = now()
  where m.id = send_message_again.message_id and m.status in ('failed', 'unsure', 'over_budget')
    -- A message whose recipient was removed cannot be sent.
    and m.recipient <> ''
  returning * into again;
  if not found then
    if not exists (select from public.outbox_messages as m where m.id = send_message_again.message_id) then
      perform private.refuse(404, 'message_not_found', 'This message does not exist any more');
    end if;
    perform private.refuse(409, 'message_not_to_send_again', 'This message is waiting already, or was sent in the meantime');
  end if;
  if private.left_of_budget(again.channel) = 0 then
    perform private.refuse(409, 'message_budget_used_up', format(
      'Today''s budget of %s is used up. Raise it under Settings, or send this tomorrow', again.channel || 's'
    ));
  end if;
  insert into private.outbox_queue (message_id, channel, due_at) values (again.id, again.channel, now());
  return again;
end
$$;

comment on function public.send_message_again is
  'For staff: sends a failed, unsure or over-budget message again, for another day and with the whole daily budget.';

create or replace function public.check_repeat(message_id uuid) returns table (problem text, is_true boolean)
language plpgsql stable security definer set search_path = '' as $$
begin
  perform private.expect_staff('messages');
  return query
    select private.reason_not_to_repeat(m), private.is_still_true(m) from public.outbox_messages as m where m.id = check_repeat.message_id;
end
$$;

comment on function public.check_repeat is
  'For staff: why a sent message cannot be sent once more (null: it can), and whether what it says is still true.';

create or replace function public.repeat_message(message_id uuid) returns public.outbox_messages
language plpgsql security definer set search_path = '' as $$
declare
  first_id uuid;
  sent public.outbox_messages;
  new_id constant uuid := gen_random_uuid();
  reason text;
begin
  perform private.expect_staff('messages');
  select coalesce(m.repeat_of, m.id) into first_id from public.outbox_messages as m where m.id = repeat_message.message_id;
  -- Of two members who repeat it at once, the second one sees the first one's message.
  perform from public.outbox_messages as m where m.id = first_id for update;
  select * into sent from public.outbox_messages as m where m.id = repeat_message.message_id;
  if not found then
    perform private.refuse(404, 'message_not_found', 'This message does not exist any more');
  end if;
  reason := private.reason_not_to_repeat(sent);
  if reason is not null then
    perform private.refuse(409, 'message_not_to_repeat', format('This message cannot be sent again, because %s', reason));
  elsif private.left_of_budget(sent.channel) = 0 then
    perform private.refuse(409, 'message_budget_used_up', format(
      'Today''s budget of %s is used up. Raise it under Settings, or send this tomorrow', sent.channel || 's'
    ));
  end if;
  insert into public.outbox_messages (
    id, order_id, kind, event_key, channel, recipient, order_number, tracking_number, customer_name, has_priority, is_verbatim,
    subject, body, repeat_of, resent_by
  ) values (
    new_id, sent.order_id, sent.kind, case when sent.order_id is null then sent.event_key else new_id::text end, sent.channel,
    sent.recipient, sent.order_number, sent.tracking_number, sent.customer_name, true, true, sent.subject, sent.body, first_id,
    coalesce(private.email_of((select auth.uid())), 'the shop itself')
  )
  returning * into sent;
  insert into private.outbox_queue (message_id, channel, due_at) values (sent.id, sent.channel, now());
  return sent;
end
$$;

comment on function public.repeat_message is
  'For staff: sends the text of a sent message once more, as a new message that refers to the first (repeat_of), within the daily budget. The screen confirms it, with recipient and text.';

create or replace function public.send_withheld_messages(channel text default null) returns jsonb
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  sent integer;
  withheld bigint;
begin
  perform private.expect_staff('messages');
  with chosen as (
    select m.id
    from (values ('mail'), ('text')) as way (channel)
    cross join lateral (
      select m.id from public.outbox_messages as m
      where m.status = 'over_budget' and m.channel = way.channel and m.recipient <> '' and m.created_at > private.withheld_since()
      order by m.created_at, m.id
      -- Further ones stay withheld, so that they do not fail one by one.
      limit least(private.left_of_budget(way.channel), 1000)
      for update
    ) as m
    where send_withheld_messages.channel is null or way.channel = send_withheld_messages.channel
  ), released as (
    update public.outbox_messages as m
    set status = 'waiting', next_attempt_at = now(), give_up_at = now() + interval '1 day', sending_since = null,
        has_priority = true, resent_by = coalesce(private.email_of((select auth.uid())), 'the shop itself'), updated_at = now()
    from chosen
    where m.id = chosen.id and m.status = 'over_budget'
    returning m.id, m.channel
  ), queued as (
    insert into private.outbox_queue (message_id, channel, due_at) select r.id, r.channel, now() from released as r
    on conflict do nothing
    returning 1
  )
  select count(*) into sent from queued;
  withheld := coalesce(private.withheld_messages(send_withheld_messages.channel), 0);
  if sent = 0 and withheld > 0 then
    perform private.refuse(409, 'message_budget_used_up',
      'Today''s budget is used up. Raise it under Settings, or send these tomorrow');
  end if;
  return jsonb_build_object('sent', sent, 'withheld', withheld);
end
$$;

comment on function public.send_withheld_messages is
  'For staff: sends the withheld messages of the last week, of one channel or both, the oldest first, as far as today''s budgets allow and at most 1,000 per channel. Returns sent, their number, and withheld, the number of those that stay.';

create or replace function public.message_budgets() returns table (
  channel text, sent integer, sent_without_priority integer, per_day integer, over_budget bigint, reason text
)
language plpgsql stable security definer set search_path = '' as $$
#variable_conflict use_column
begin
  perform private.expect_staff('messages');
  return query
  select way.channel, private.sent_today(way.channel), private.sent_without_priority(way.channel), private.daily_budget(way.channel),
    private.withheld_messages(way.channel), (
      select m.problem from public.outbox_messages as m
      where m.status = 'over_budget' and m.channel = way.channel and m.recipient <> '' and m.created_at > private.withheld_since()
      order by m.created_at desc limit 1
    )
  from (values ('text'), ('mail')) as way (channel);
end
$$;

comment on function public.message_budgets is
  'For staff: per channel the messages sent today, those caused by visitors who have not paid, the daily budget, the withheld messages of the last week that can still be sent, and why the newest is withheld.';

-- Execution rights
grant execute on function public.send_message_again, public.check_repeat, public.repeat_message, public.send_withheld_messages, public.message_budgets to authenticated, service_role;

grant execute on function public.lease_messages, public.begin_message, public.finish_message to service_role;

-- Tests of the mail server and of the text message gateway, sent by staff through the outbox.

create or replace function public.send_test_message(channel text, recipient text) returns public.outbox_messages
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  member constant text := coalesce(private.email_of(private.expect_staff_member('settings')), 'A colleague');
  shop constant text := (select s.store_name from public.store_settings as s);
  new_id constant uuid := gen_random_uuid();
  checked text;
  queued public.outbox_messages;
begin
  if send_test_message.channel is null or send_test_message.channel not in ('mail', 'text') then
    perform private.refuse(400, 'channel_unknown', 'A message goes by mail or as a text');
  elsif send_test_message.channel = 'mail' then
    checked := private.visible_text(left(send_test_message.recipient, 255));
    if checked is null or not private.is_email(checked) or char_length(checked) > 254 then
      perform private.refuse(400, 'email_invalid', 'Please enter a valid email address');
    end if;
  else
    checked := private.normalised_phone(left(send_test_message.recipient, 40));
    if checked is null then
      perform private.refuse(400, 'phone_invalid', 'Please enter a valid phone number');
    end if;
  end if;
  if private.left_of_budget(send_test_message.channel) = 0 then
    perform private.refuse(409, 'message_budget_used_up', format(
      'Today''s budget of %s is used up. Raise it under Settings, or send this tomorrow', send_test_message.channel || 's'
    ));
  elsif private.count_hit('test_messages', send_test_message.channel, interval '1 hour') > 10 then
    perform private.refuse(429, 'too_many_tests', 'Ten tests were sent within an hour. Please wait before the next one');
  end if;
  insert into public.outbox_messages (
    id, order_id, kind, event_key, channel, recipient, order_number, tracking_number, customer_name, has_priority, is_verbatim,
    subject, body, give_up_at
  ) values (
    new_id, null, 'test_message', new_id::text, send_test_message.channel, checked, '', '', '', true, true,
    case send_test_message.channel when 'mail' then 'Test from ' || shop end,
    case send_test_message.channel
      when 'mail' then format(E'This is a test of the emails of %s. If you read it, customers get theirs, too.\n\nSent from the staff panel by %s.', shop, member)
      else format('%s: this is a test of our text messages.', shop)
    end,
    -- Less than the delay before a second attempt: the answer to the first one is the result.
    now() + interval '20 seconds'
  )
  returning * into queued;
  insert into private.outbox_queue (message_id, channel, due_at) values (queued.id, queued.channel, now());
  return queued;
end
$$;

comment on function public.send_test_message is
  'For staff: sends a test by mail or text to an address or phone, at most ten an hour of each, within the daily budget. It is tried once; the row of the outbox says how it ended.';

-- Execution rights
grant execute on function public.send_test_message to authenticated;

create policy "staff read the requests" on public.personal_data_requests
  for select to authenticated using ((select public.may('personal_data')));

create or replace function private.unsettled_money_reason(order_id uuid) returns text
language plpgsql stable set search_path = '' as $$
declare
  unsettled public.orders;
begin
  select * into unsettled from public.orders as o where o.id = unsettled_money_reason.order_id;
  return case
    when unsettled.payment_status = 'unpaid' and unsettled.status <> 'cancelled' then 'It waits for its payment'
    when unsettled.payment_status = 'needs_review' then 'Its payment needs review'
    when exists (
      select from public.payments as p where p.order_id = unsettled.id and private.is_unsettled_attempt(p.status)
    ) then 'A payment is being checked'
    -- M-PESA's statement reaches back 48 hours: until then it may still report money of a prompt that seemed to fail.
    when exists (
      select from public.payments as p
      where p.order_id = unsettled.id and p.status in ('failed', 'unresolved') and p.created_at > now() - interval '48 hours'
    ) then 'M-PESA may still report a payment'
    when exists (
      select from public.payments as p
      where p.order_id = unsettled.id and p.status = 'completed' and p.needs_refund and p.refunded_at is null
        -- What was kept may have paid other orders.
        and private.left_to_refund(p) > 0
    ) or exists (
      select from public.payments as p
      join public.refunds as r on r.payment_id = p.id
      where p.order_id = unsettled.id and private.is_open_refund(r.status)
    ) then 'Money is on its way back'
    when exists (
      select from public.mpesa_transactions as t
      where t.order_id = unsettled.id and t.payment_id is null and t.resolution is null
    ) then 'Money under its number needs review'
    when exists (
      select from public.payments as p
      join public.change_notes as c on c.payment_id = p.id
      where p.order_id = unsettled.id and p.refunded_at is null
      group by p.id
      having sum(c.amount_cents) filter (where c.kind = 'to_return') > coalesce(sum(case
        when c.kind = 'used' or (c.kind = 'returned' and not c.is_part_refund) then c.amount_cents
        when c.kind = 'use_taken_back' then -c.amount_cents
      end), 0)
    ) then 'Change is owed to its customer'
    when exists (
      select from public.messages_to_check as m
      join public.payments as p on p.id = m.payment_id
      where p.order_id = unsettled.id and m.resolution is null
    ) then 'A message of M-PESA about its payment is being checked'
  end;
end
$$;

comment on function private.unsettled_money_reason is
  'Why the money of an order is not settled yet, as a sentence. Null: settled. Until then the customer''s details are needed.';

create or replace function private.retention_reason(order_id uuid) returns text
language plpgsql stable set search_path = '' as $$
begin
  return coalesce(private.unsettled_money_reason(retention_reason.order_id), (
    select 'It is paid and not delivered yet'
    from public.orders as o
    where o.id = retention_reason.order_id and o.payment_status = 'paid' and private.is_open_order(o.status)
  ), (
    select format('KES %s of credit is owed to its customer. Give it back first', to_char(sum(change.owed_cents) / 100, 'FM999,999,999'))
    from public.payments as p
    cross join lateral private.change_of(p.id) as change
    where p.order_id = retention_reason.order_id and p.status = 'completed' and p.refunded_at is null
    having sum(change.owed_cents) > 0
  ), (
    select 'A message to its customer is being sent'
    from public.outbox_messages as m
    where m.order_id = retention_reason.order_id and m.status = 'sending'
    limit 1
  ));
end
$$;

comment on function private.retention_reason is
  'Why an order cannot be anonymised on request yet, as a sentence. Null: it can. Retention periods ignore deliveries and credit.';

create or replace function private.describe_payment(payment public.payments) returns jsonb
language sql stable
return jsonb_build_object(
  'phone', payment.phone, 'charge_cents', payment.charge_cents, 'status', payment.status, 'method', payment.method,
  'receipt', payment.receipt, 'created_at', payment.created_at, 'completed_at', payment.completed_at,
  'refunded_at', payment.refunded_at, 'refund_receipt', payment.refund_receipt,
  'change', array(
    select jsonb_build_object('kind', c.kind, 'amount_cents', c.amount_cents, 'receipt', c.receipt, 'way', c.way, 'note', c.note, 'noted_at', c.noted_at)
    from public.change_notes as c where c.payment_id = payment.id order by c.noted_at, c.id
  ),
  'payer_name', (select t.payer_name from public.mpesa_transactions as t where t.receipt = payment.receipt),
  'mpesa_messages', array(
    select jsonb_build_object('received_at', m.received_at, 'source', m.source, 'body', m.body)
    from public.payment_messages as m where m.payment_id = payment.id and m.body <> '{}' order by m.id
  )
);

create or replace function public.export_person(identifier text) returns jsonb
language plpgsql volatile security definer set search_path = '' as $$
#variable_conflict use_column
declare
  person record;
  person_key text;
  order_ids uuid[];
  answer jsonb;
begin
  perform private.expect_staff('personal_data');
  select * into person from private.read_person(export_person.identifier);
  person_key := coalesce(person.email, person.phone);
  order_ids := private.orders_of_person(person.email, person.phone);
  answer := jsonb_build_object(
    'identifier', person_key,
    'exported_at', now(),
    'shop', (select s.store_name from public.store_settings as s),
    'orders', array(
      select jsonb_build_object(
        'id', o.id, 'order_number', o.order_number, 'tracking_number', o.tracking_number, 'created_at', o.created_at,
        'status', o.status, 'payment_status', o.payment_status,
        'customer_name', o.customer_name, 'customer_email', o.customer_email, 'customer_phone', o.customer_phone,
        'shipping_address', o.shipping_address, 'city', o.city, 'delivery_notes', o.delivery_notes,
        'delivery_fee', o.delivery_fee, 'discount_code', o.discount_code, 'discount_cents', o.discount_cents,
        'total_amount', o.total_amount,
        'erasure_requested_at', o.erasure_requested_at,
        'reason_to_keep', private.retention_reason(o.id),
        'items', array(
          select jsonb_build_object('product', i.product_name, 'quantity', i.quantity, 'unit_price', i.unit_price)
          from public.order_items as i where i.order_id = o.id order by i.position
        ),
        'payments', array(
          select private.describe_payment(p) from public.payments as p where p.order_id = o.id order by p.created_at
        ),
        -- Who delivered is another person's data.
        'delivery', (
          select jsonb_build_object(
            'status', d.delivery_status, 'notes', d.delivery_notes, 'pickup_time', d.pickup_time, 'delivery_time', d.delivery_time
          )
          from public.deliveries as d where d.order_id = o.id
        ),
        'history', array(
          select jsonb_build_object('what', e.kind, 'by', e.actor, 'at', e.happened_at)
          from public.order_events as e where e.order_id = o.id order by e.id
        ),
        'messages', array(
          select private.describe_message(m) from public.outbox_messages as m where m.order_id = o.id order by m.created_at
        )
      )
      from public.orders as o where o.id = any (order_ids) order by o.created_at desc, o.id
    ),
    'payments_for_others', array(
      select private.describe_payment(p)
      from public.payments as p
      where p.phone = person.phone and p.purpose = 'order' and p.order_id <> all (order_ids)
      order by p.created_at
    ),
    'inquiries', array(
      select to_jsonb(i) - '{id,is_read,answered_by,answered_at}'::text[] || jsonb_build_object('answers', array(
        select jsonb_build_object('by', a.way, 'body', a.body, 'answered_at', a.answered_at)
        from public.inquiry_answers as a where a.inquiry_id = i.id order by a.answered_at
      ))
      from public.inquiries as i
      where lower(i.email) = person.email or private.is_phone(i.phone, person.phone)
      order by i.created_at desc
    ),
    'newsletter', (
      select jsonb_build_object('email', n.email, 'created_at', n.created_at, 'confirmed_at', n.confirmed_at)
      from public.newsletter_subscriptions as n where lower(n.email) = person.email
    ),
    'newsletter_mails', array(
      select private.describe_message(m)
      from public.outbox_messages as m where m.order_id is null and m.kind <> 'inquiry_reply' and lower(m.recipient) = person.email order by m.created_at
    ),
    'notes_of_staff', (
      select jsonb_build_object('notes', n.notes, 'updated_at', n.updated_at) from public.customer_notes as n where n.phone = person.phone
    ),
    'blocked', (
      select jsonb_build_object('reason', b.reason, 'blocked_at', b.blocked_at)
      from public.blocked_phones as b where b.person_hash = private.hash_person(person.phone)
    ),
    -- Other phones and email addresses of the same customer, for separate requests.
    'also_used', array(
      select distinct other.identifier
      from public.orders as o
      cross join lateral (values (lower(o.customer_email)), (o.customer_phone)) as other (identifier)
      where o.id = any (order_ids) and other.identifier <> '' and other.identifier <> person_key
      order by other.identifier
    ),
    'earlier_requests', array(
      select jsonb_build_object('kind', r.kind, 'requested_at', r.requested_at, 'counts', r.counts)
      from public.personal_data_requests as r
      where r.person_hash = private.hash_person(person_key) and r.kind = 'erasure'
      order by r.id desc
    )
  );
  perform private.log_personal_data_request('export', person_key, jsonb_build_object(
    'orders', cardinality(order_ids), 'payments_for_others', jsonb_array_length(answer -> 'payments_for_others'),
    'inquiries', jsonb_array_length(answer -> 'inquiries'),
    'newsletter', case when answer ->> 'newsletter' is null then 0 else 1 end
  ));
  return answer;
end
$$;

comment on function public.export_person is
  'For staff: everything stored about a phone (in any Kenyan format) or email address. Amounts in cents. reason_to_keep: why an order cannot be anonymised yet. Logged. Returns jsonb: a document to hand over, which no program reads in whole.';

create or replace function public.erase_person(identifier text) returns public.erasure
language plpgsql volatile security definer set search_path = '' as $$
#variable_conflict use_column
declare
  person record;
  person_key text;
  order_ids uuid[];
  closed uuid[];
  erased public.erased_counts;
  postponed public.postponed_order[];
begin
  perform private.expect_staff('personal_data');
  select * into person from private.read_person(erase_person.identifier);
  person_key := coalesce(person.email, person.phone);
  -- Lock the orders first, by id, against deadlocks.
  order_ids := array(
    select o.id from public.orders as o
    where o.id = any (private.orders_of_person(person.email, person.phone)
        || array(select p.order_id from public.payments as p where p.phone = person.phone and p.order_id is not null))
      and o.anonymised_at is null
    order by o.id
    for no key update
  );

  closed := array(
    select o.id from public.orders as o
    where o.id = any (order_ids) and (lower(o.customer_email) = person.email or o.customer_phone = person.phone)
      and private.retention_reason(o.id) is null
  );
  perform private.anonymise_orders(closed);
  erased.orders := cardinality(closed);
  update public.orders as o
  set erasure_requested_at = coalesce(o.erasure_requested_at, now())
  where o.id = any (order_ids) and o.anonymised_at is null
    and (lower(o.customer_email) = person.email or o.customer_phone = person.phone);

  -- This phone may have paid the orders of others. What is left of the orders locked above is open, or another customer's.
  update public.payments as p
  set phone = ''
  where p.phone = person.phone and p.order_id = any (order_ids) and private.retention_reason(p.order_id) is null;
  get diagnostics erased.payments_for_others = row_count;
  update public.order_events as e
  set details = e.details - 'phone'
  where e.order_id = any (order_ids) and e.kind like 'payment\_%' and e.details ->> 'phone' = person.phone
    and private.retention_reason(e.order_id) is null;
  update public.payments as p set phone = ''
  where p.purpose = 'test' and p.phone = person.phone and not private.is_open_attempt(p.status);

  delete from public.inquiries as i where lower(i.email) = person.email or private.is_phone(i.phone, person.phone);
  get diagnostics erased.inquiries = row_count;
  delete from public.newsletter_subscriptions as n where lower(n.email) = person.email;
  get diagnostics erased.newsletter = row_count;

  delete from public.customer_notes as n where n.phone = person.phone;
  -- The phone stays blocked, without being stored.
  update public.blocked_phones as b set phone = null, reason = null where b.person_hash = private.hash_person(person.phone);

  postponed := array(
    select (
      o.id, o.order_number, private.retention_reason(o.id),
      coalesce(lower(o.customer_email) = person.email, o.customer_phone = person.phone, false)
    )::public.postponed_order
    from public.orders as o
    where o.id = any (order_ids) and o.anonymised_at is null and private.retention_reason(o.id) is not null
    order by o.created_at desc
  );
  perform private.log_personal_data_request(
    'erasure', person_key, to_jsonb(erased) || jsonb_build_object('postponed', cardinality(postponed))
  );
  return (person_key, erased, postponed)::public.erasure;
end
$$;

comment on function public.erase_person is
  'For staff: anonymises the orders of a phone or email address, removes the phone from payments of other orders, deletes inquiries, notes of staff and the newsletter subscription; a blocked phone stays blocked as a hash. Open orders are listed with the reason: own ones (is_own) are anonymised once they are closed, others need another request. Logged. M-PESA''s messages stay for store_settings.payment_messages_months.';

-- Execution rights
grant execute on function public.export_person, public.erase_person to authenticated, service_role;

create policy "staff read the page views" on public.page_views for select to authenticated using ((select public.may('figures')));

create policy "staff read every backup" on public.backups for select to authenticated using ((select public.may('settings')));

create or replace function private.figures_of(counted public.orders) returns private.day_figures
language sql immutable
return case when counted.id is not null then
  (private.nairobi_day(counted.created_at), 1, counted.total_amount, 0, 0)::private.day_figures
end;

create or replace function private.figures_of(counted public.payments) returns private.day_figures
language sql immutable
-- No money came with credit.
return case when counted.status = 'completed' and counted.purpose = 'order' and counted.method <> 'credit' then
  (coalesce(private.nairobi_day(counted.completed_at), '-infinity'), 0, 0, counted.charge_cents, 0)::private.day_figures
end;

create or replace function private.figures_of(counted public.refunds) returns private.day_figures
language sql stable
return case
  -- A refund may move to a payment that is just being added.
  when counted.status = 'completed' and counted.payment_id is not null and counted.method <> 'credit'
    and not exists (select from public.payments as p where p.id = counted.payment_id and p.purpose = 'test')
  then (coalesce(private.nairobi_day(counted.completed_at), '-infinity'), 0, 0, -counted.refund_cents, 0)::private.day_figures
end;

create or replace function private.figures_of(counted public.change_notes) returns private.day_figures
language sql immutable
return case when counted.kind = 'returned' then
  (private.nairobi_day(counted.noted_at), 0, 0, -counted.amount_cents, 0)::private.day_figures
end;

create or replace function public.daily_figures(days integer default 30) returns table (
  day date, page_views bigint, orders bigint, failed_deliveries bigint
)
language plpgsql stable security definer set search_path = '' as $$
#variable_conflict use_column
declare
  today date := private.nairobi_day(now());
  first_day date := today - least(greatest(coalesce(daily_figures.days, 30), 1), 366) + 1;
begin
  perform private.expect_staff('figures');
  return query
  with seen as (
    select v.day, sum(v.views) as count from public.page_views as v where v.day >= first_day group by 1
  ), placed as (
    select t.day, sum(t.orders) as count, sum(t.failed_deliveries) as failed from private.daily_totals as t where t.day >= first_day group by 1
  )
  select d.day::date, coalesce(seen.count, 0)::bigint, coalesce(placed.count, 0)::bigint, coalesce(placed.failed, 0)::bigint
  from generate_series(first_day::timestamp, today::timestamp, interval '1 day') as d (day)
  left join seen on seen.day = d.day::date
  left join placed on placed.day = d.day::date
  order by 1;
end
$$;

comment on function public.daily_figures is
  'For staff: page views, orders and failed deliveries of the last days in Nairobi, including today and days without any.';

create or replace function public.request_backup() returns void
language plpgsql volatile security definer set search_path = '' as $$
begin
  perform private.expect_staff('settings');
  if private.count_hit('backups', 'all', interval '10 minutes') > 5 then
    perform private.refuse(429, 'too_many_backups', 'A backup was just requested. Please wait a few minutes');
  end if;
  perform pg_catalog.pg_notify('backup_requests', '');
end
$$;

comment on function public.request_backup is
  'For staff and the secret key: requests a backup now. Its outcome is a new row of backups.';

create or replace function public.system_status() returns table (
  checked_at timestamptz, last_backup_at timestamptz, last_backup_outcome text, last_attempt_at timestamptz,
  last_attempt_outcome text, last_attempt_problem text, last_payment_answer_at timestamptz, overdue_payments bigint,
  opened_at timestamptz, prompts_paused_since timestamptz
)
language sql stable security definer set search_path = '' as $$
  select private.expect_staff('figures');
  select
    clock_timestamp(),
    made.finished_at,
    made.outcome,
    tried.finished_at,
    tried.outcome,
    tried.problem,
    (select m.received_at from public.payment_messages as m order by m.id desc limit 1),
    (
      select count(*) from public.payments as p
      where p.purpose = 'order' and private.is_open_attempt(p.status) and p.created_at < now() - interval '5 minutes'
    ),
    (select min(a.created_at) from public.admin_profiles as a),
    (select paused.since from private.prompt_pause as paused)
  from (select) as always
  left join lateral (
    select b.finished_at, b.outcome from public.backups as b
    where b.outcome in ('verified', 'readable') order by b.id desc limit 1
  ) as made on true
  left join lateral (select b.* from public.backups as b order by b.id desc limit 1) as tried on true;
$$;

comment on function public.system_status is
  'For staff: the last good backup and the last attempt, the last message of M-PESA, prompts open for more than five minutes, when the first staff account was created, and since when prompts do not work (null: they do).';

create or replace function public.dashboard_figures() returns table (
  products bigint, orders bigint, inquiries bigint, revenue bigint, received bigint, received_this_week bigint,
  received_today bigint
)
language plpgsql stable security definer set search_path = '' as $$
declare
  today date := private.nairobi_day(now());
  monday date := date_trunc('week', today::timestamp)::date;
begin
  perform private.expect_staff('figures');
  return query
  select
    (select coalesce(sum(c.products), 0)::bigint from private.catalogue_counts as c),
    coalesce(sum(t.orders), 0)::bigint,
    (select count(*) from public.inquiries),
    coalesce(sum(t.revenue_cents), 0)::bigint,
    coalesce(sum(t.received_cents), 0)::bigint,
    coalesce(sum(t.received_cents) filter (where t.day >= monday), 0)::bigint,
    coalesce(sum(t.received_cents) filter (where t.day >= today), 0)::bigint
  from private.daily_totals as t;
end
$$;

comment on function public.dashboard_figures is
  'For staff: active products, orders, inquiries, and money in cents. revenue: total of all orders, paid or not (docs/product.md#numbers). received: money for orders minus refunds, by its time; days of Nairobi, weeks from Monday.';

create or replace function public.count_payments_since(since timestamptz default null) returns table (count integer, newest timestamptz)
language plpgsql stable security definer set search_path = '' as $$
begin
  perform private.expect_staff('panel');
  return query select
    (select count(*)::integer from (
      select from public.payments as p
      where p.completed_at > count_payments_since.since and p.status = 'completed' and p.purpose = 'order'
      limit 101
    ) as bounded),
    (select max(p.completed_at) from public.payments as p where p.status = 'completed' and p.purpose = 'order');
end
$$;

comment on function public.count_payments_since is
  'For staff: the number of orders'' payments that were completed after a time (101: more than 100; 0 for null), and when the newest was completed.';

-- Execution rights
grant execute on function public.request_backup to authenticated, service_role;

grant execute on function public.daily_figures, public.system_status, public.dashboard_figures,
  public.count_payments_since to authenticated;

-- What staff do with a backup: check it once more, and download it (docs/decisions/backups.md).

create table public.backup_downloads (
  id bigint generated always as identity primary key,
  backup_id bigint not null,
  file_name text not null,
  downloaded_by uuid references auth.users (id) on delete set null,
  downloaded_by_email text not null,
  allowed_at timestamptz not null default now(),
  started_at timestamptz,
  token_hash text not null,
  constraint "a download has its own token" unique (token_hash)
);

comment on table public.backup_downloads is
  'Who downloaded a backup, which contains all personal data. Append-only; started_at is null while no file was sent.';

comment on column public.backup_downloads.token_hash is
  'SHA-256 of the token in the URL, which opens the file for two minutes from allowed_at.';

alter table public.backup_downloads enable row level security;

revoke all on public.backup_downloads from anon, authenticated, service_role;

grant select (id, backup_id, file_name, downloaded_by, downloaded_by_email, allowed_at, started_at) on public.backup_downloads
  to authenticated, service_role;

create policy "staff read who downloaded backups" on public.backup_downloads
  for select to authenticated using ((select public.may('settings')));

create or replace function private.backup_with_file(backup_id bigint) returns public.backups
language plpgsql stable set search_path = '' as $$
declare
  found_backup public.backups;
begin
  select * into found_backup from public.backups as b where b.id = backup_with_file.backup_id and b.file_name is not null;
  if not found then
    perform private.refuse(404, 'backup_not_found', 'This backup does not exist any more');
  end if;
  return found_backup;
end
$$;

create or replace function public.request_backup_check(backup_id bigint) returns void
language plpgsql volatile security definer set search_path = '' as $$
begin
  perform private.expect_staff('settings');
  perform private.backup_with_file(request_backup_check.backup_id);
  if private.count_hit('backups', 'all', interval '10 minutes') > 5 then
    perform private.refuse(429, 'too_many_backups', 'A backup was just requested. Please wait a few minutes');
  end if;
  update public.backups as b set check_requested_at = now() where b.id = request_backup_check.backup_id;
  perform pg_catalog.pg_notify('backup_checks', request_backup_check.backup_id::text);
end
$$;

comment on function public.request_backup_check is
  'For staff and the secret key: requests that a backup is restored once more, as a check. Its outcome is checked_at and check_problem of its row.';

create or replace function public.record_backup_check(backup_id bigint, problem text default null) returns void
language sql volatile security definer set search_path = '' as $$
  update public.backups as b set checked_at = now(), check_problem = record_backup_check.problem where b.id = record_backup_check.backup_id;
$$;

comment on function public.record_backup_check is 'Records the outcome of a check. problem: null if the backup could be restored.';

create or replace function private.has_fresh_second_factor() returns boolean
language sql stable set search_path = '' as $$
  select not exists (select from auth.mfa_factors as f where f.user_id = (select auth.uid()) and f.status = 'verified')
    or exists (
      select from jsonb_array_elements(
        case jsonb_typeof((select auth.jwt()) -> 'amr') when 'array' then (select auth.jwt()) -> 'amr' else '[]' end
      ) as passed (method)
      where passed.method ->> 'method' in ('totp', 'mfa/webauthn', 'mfa/phone')
        and to_timestamp((passed.method ->> 'timestamp')::double precision) > now() - interval '5 minutes'
    );
$$;

comment on function private.has_fresh_second_factor is
  'Whether the caller passed a second factor within the last five minutes, or has none.';

create or replace function public.allow_backup_download(backup_id bigint) returns text
language plpgsql volatile security definer set search_path = '' as $$
declare
  member constant uuid := private.expect_staff_member('settings');
  asked public.backups := private.backup_with_file(allow_backup_download.backup_id);
  token constant text := encode(sha256(convert_to(gen_random_uuid()::text || gen_random_uuid()::text, 'UTF8')), 'hex');
begin
  if not private.has_fresh_second_factor() then
    perform private.refuse(403, 'second_factor_needed', 'Please enter the code of your authenticator app first');
  elsif private.count_hit('backup_downloads', 'all', interval '1 hour') > 20 then
    perform private.refuse(429, 'too_many_downloads', 'Backups were downloaded twenty times within an hour. Please wait before the next one');
  end if;
  insert into public.backup_downloads (backup_id, file_name, downloaded_by, downloaded_by_email, token_hash)
  values (
    asked.id, asked.file_name, member, coalesce(private.email_of(member), ''), encode(sha256(convert_to(token, 'UTF8')), 'hex')
  );
  return token;
end
$$;

comment on function public.allow_backup_download is
  'For staff who passed their second factor within five minutes, if they have one: records who downloads a backup, and returns the token of its URL, valid for two minutes.';

create or replace function public.open_backup_download(token text, is_started boolean default false) returns text
language plpgsql volatile security definer set search_path = '' as $$
declare
  allowed public.backup_downloads;
begin
  select * into allowed from public.backup_downloads as d
  where d.token_hash = encode(sha256(convert_to(open_backup_download.token, 'UTF8')), 'hex')
    and d.allowed_at > now() - interval '2 minutes'
  for update;
  if found and open_backup_download.is_started and allowed.started_at is null then
    update public.backup_downloads as d set started_at = now() where d.id = allowed.id;
  end if;
  return allowed.file_name;
end
$$;

comment on function public.open_backup_download is
  'The file that a token opens; null if it opens none, or no longer. is_started: the file is about to be sent.';

-- Execution rights
grant execute on function public.request_backup_check to authenticated, service_role;

grant execute on function public.allow_backup_download to authenticated;

grant execute on function public.record_backup_check, public.open_backup_download to service_role;

-- The money of a day: its rows, how its totals follow from each other, cash by person, and the close of the day
-- (docs/decisions/days.md).

create index refunds_by_completion on public.refunds (completed_at) where completed_at is not null;

create index change_notes_by_time on public.change_notes (noted_at);

-- Rows

create or replace function private.signed_change(kind text, amount_cents integer) returns integer
language sql immutable
return case when kind in ('credit', 'to_return', 'use_taken_back') then amount_cents else -amount_cents end;

comment on function private.signed_change is 'How much more is owed to the customer after a note of change.';

create or replace function private.change_balance(payment_id uuid, moment timestamptz, note_id uuid) returns bigint
language sql stable set search_path = '' as $$
  -- Part of the price that went back was never owed.
  select coalesce(sum(private.signed_change(c.kind, case when c.is_part_refund then 0 else c.amount_cents end)), 0)
  from public.change_notes as c
  where c.payment_id = change_balance.payment_id and (c.noted_at, c.id) < (change_balance.moment, change_balance.note_id)
    -- A refund returns all that is left of a payment.
    and not exists (
      select from public.refunds as r
      where r.payment_id = change_balance.payment_id and r.status = 'completed' and r.completed_at < change_balance.moment
    );
$$;

comment on function private.change_balance is
  'Change of a payment that was noted before a note: what is owed to its customer, less what went back. Only a positive balance is owed.';

create or replace function private.money_rows(since timestamptz, until timestamptz) returns setof private.money_row
language plpgsql stable rows 100 set search_path = '' as $$
begin
  return query
  select p.id, p.completed_at, p.method, p.id, p.order_id, p.receipt,
    p.charge_cents, 0, 0::bigint, p.confirmed_by, p.received_from, p.note
  from public.payments as p
  -- No money comes with credit: its note is below.
  where p.status = 'completed' and p.purpose = 'order' and p.method <> 'credit'
    and p.completed_at >= money_rows.since and p.completed_at < money_rows.until
  union all
  select r.id, r.completed_at, case r.method when 'reversal' then 'refund_by_mpesa' when 'cash' then 'refund_in_cash' else 'refund_by_hand' end,
    p.id, p.order_id, coalesce(r.refund_receipt, r.receipt), 0, r.refund_cents,
    -greatest(private.change_balance(p.id, r.completed_at, 'ffffffff-ffff-ffff-ffff-ffffffffffff'), 0), r.requested_by, null, r.reason
  from public.refunds as r
  -- A lookup by key for each refund, with any statistics.
  cross join lateral (select * from public.payments as own where own.id = r.payment_id offset 0) as p
  where r.status = 'completed' and p.purpose = 'order' and r.method <> 'credit'
    and r.completed_at >= money_rows.since and r.completed_at < money_rows.until
  union all
  select c.id, c.noted_at,
    case
      when c.kind in ('credit', 'to_return') then 'kept'
      when c.kind = 'used' then 'credit_used'
      when c.kind = 'use_taken_back' then 'credit_returned'
      -- Earlier versions did not note how it went back.
      when coalesce(c.way = 'cash', p.method = 'cash' and c.receipt is null) then 'change_in_cash'
      else 'change_by_hand'
    end,
    p.id, p.order_id, c.receipt, 0, case when c.kind = 'returned' then c.amount_cents else 0 end,
    case when own.is_refunded then 0 else greatest(own.balance + own.cents, 0) - greatest(own.balance, 0) end,
    c.noted_by, null, c.note
  from public.change_notes as c
  cross join lateral (select * from public.payments as own where own.id = c.payment_id offset 0) as p
  cross join lateral (
    select private.change_balance(p.id, c.noted_at, c.id) as balance,
      private.signed_change(c.kind, case when c.is_part_refund then 0 else c.amount_cents end) as cents,
      exists (
        select from public.refunds as r where r.payment_id = p.id and r.status = 'completed' and r.completed_at < c.noted_at
      ) as is_refunded
  ) as own
  where p.purpose = 'order' and c.noted_at >= money_rows.since and c.noted_at < money_rows.until;
end
$$;

comment on function private.money_rows is
  'What moved money of orders within a period. kind: prompt, till, cash (a payment by its method); refund_by_mpesa, refund_by_hand, refund_in_cash; change_by_hand, change_in_cash (part of a payment went back); kept (owed to the customer); credit_used, credit_returned (it paid another order, or did not after all). kept_cents: how much more the shop owes to customers after it. member: who took cash, gave it back, or requested the refund.';

create or replace function public.money_entries(
  since date, until date, after_time timestamptz default null, after_id uuid default null, page_size integer default 1000
) returns setof public.money_entry
language plpgsql stable security definer rows 100 set search_path = '' as $$
begin
  perform private.expect_staff('figures');
  perform private.expect_span(money_entries.since, money_entries.until);
  return query
  select m.id, m.happened_at, m.kind, m.order_id, o.order_number, o.tracking_number, o.customer_name, o.customer_phone, m.receipt,
    m.received_cents, m.refunded_cents, m.kept_cents,
    -- With the first payment that counts: the fees of a file add up.
    case when m.id = (
      select p.id from public.payments as p
      where p.order_id = o.id and p.status = 'completed' and not p.needs_refund
      order by p.completed_at, p.id limit 1
    ) then o.delivery_fee end,
    (select string_agg(i.quantity || ' × ' || i.product_name, ', ' order by i.position) from public.order_items as i where i.order_id = o.id),
    private.email_of(m.member), m.received_from, m.note
  from (
    select page.*
    from private.money_rows(
      greatest(money_entries.since::timestamp at time zone 'Africa/Nairobi', money_entries.after_time),
      (money_entries.until + 1)::timestamp at time zone 'Africa/Nairobi'
    ) as page
    where money_entries.after_time is null or (page.happened_at, page.id) > (money_entries.after_time, money_entries.after_id)
    order by page.happened_at, page.id
    limit least(greatest(coalesce(money_entries.page_size, 1000), 1), 1000)
  ) as m
  cross join lateral (select * from public.orders as own where own.id = m.order_id offset 0) as o
  order by m.happened_at, m.id;
end
$$;

comment on function public.money_entries is
  'For staff: what moved money of orders on the days of a span in Nairobi, the earliest first, at most 1,000 after a row. Amounts in cents; kinds as in private.money_rows. delivery_fee: with the first payment that counts for its order.';

-- Totals

create or replace function public.day_totals(day date) returns table (
  placed bigint, rounding bigint, not_paid bigint, paid_otherwise bigint, other_amounts bigint, received_for_orders bigint,
  paid_other_days bigint, placed_other_days bigint, received bigint, refunded bigint, net_received bigint,
  other_clock bigint, booked bigint, delivery_fees bigint, in_review bigint,
  by_prompt bigint, by_till bigint, in_cash bigint, refunded_by_mpesa bigint, refunded_by_hand bigint, refunded_in_cash bigint,
  kept bigint, paid_with_credit bigint,
  missing_at_mpesa bigint, not_compared bigint, amounts_differ bigint, not_matched bigint, not_ours bigint, returned_unmatched bigint,
  at_mpesa bigint, discounts bigint
)
language plpgsql stable security definer set search_path = '' as $$
#variable_conflict use_column
declare
  since timestamptz := day_totals.day::timestamp at time zone 'Africa/Nairobi';
  until timestamptz := (day_totals.day + 1)::timestamp at time zone 'Africa/Nairobi';
begin
  perform private.expect_staff('figures');
  return query
  with orders as (
    select o.total_amount, o.charge_cents, o.delivery_fee, o.discount_cents, o.payment_status <> 'unpaid' as is_paid, money.*
    from public.orders as o
    cross join lateral (
      select count(*) as payments,
        coalesce(sum(p.charge_cents) filter (where p.method <> 'credit'), 0) as cents,
        coalesce(sum(p.charge_cents) filter (where p.method = 'credit'), 0) as credit_cents,
        coalesce(sum(p.charge_cents) filter (where p.method <> 'credit' and p.completed_at >= since and p.completed_at < until), 0) as then_cents
      from public.payments as p where p.order_id = o.id and p.status = 'completed' and p.purpose = 'order'
    ) as money
    where o.created_at >= since and o.created_at < until
  ), by_order as (
    select
      coalesce(sum(o.total_amount), 0) as placed,
      coalesce(sum(o.charge_cents - o.total_amount) filter (where o.is_paid), 0) as rounding,
      -coalesce(sum(o.total_amount) filter (where not o.is_paid), 0) as not_paid,
      -coalesce(sum(o.charge_cents) filter (where o.is_paid and o.payments = 0), 0) as paid_otherwise,
      -coalesce(sum(o.credit_cents), 0) as paid_with_credit,
      coalesce(sum(o.cents + o.credit_cents - case when o.is_paid then o.charge_cents else 0 end) filter (where o.payments > 0), 0) as other_amounts,
      coalesce(sum(o.cents), 0) as received_for_orders,
      coalesce(sum(o.then_cents), 0) as received_then,
      coalesce(sum(o.delivery_fee) filter (where o.is_paid), 0) as delivery_fees,
      coalesce(sum(o.discount_cents) filter (where o.is_paid), 0) as discounts
    from orders as o
  ), by_row as (
    select
      coalesce(sum(m.received_cents), 0) as received,
      coalesce(sum(m.received_cents) filter (where m.kind = 'prompt'), 0) as by_prompt,
      coalesce(sum(m.received_cents) filter (where m.kind = 'till'), 0) as by_till,
      coalesce(sum(m.received_cents) filter (where m.kind = 'cash'), 0) as in_cash,
      -coalesce(sum(m.refunded_cents), 0) as refunded,
      -coalesce(sum(m.refunded_cents) filter (where m.kind = 'refund_by_mpesa'), 0) as refunded_by_mpesa,
      -coalesce(sum(m.refunded_cents) filter (where m.kind in ('refund_by_hand', 'change_by_hand')), 0) as refunded_by_hand,
      -coalesce(sum(m.refunded_cents) filter (where m.kind in ('refund_in_cash', 'change_in_cash')), 0) as refunded_in_cash,
      -coalesce(sum(m.kept_cents), 0) as kept,
      coalesce(sum(m.received_cents) filter (where o.payment_status = 'needs_review'), 0) as in_review,
      -- M-PESA's clock decides the day in the books.
      coalesce(sum(m.received_cents) filter (where t.transacted_at < since or t.transacted_at >= until), 0) as left_day
    from private.money_rows(since, until) as m
    left join lateral (select o.payment_status from public.orders as o where o.id = m.order_id offset 0) as o on m.received_cents > 0
    left join lateral (select t.transacted_at from public.mpesa_transactions as t where t.payment_id = m.payment_id offset 0) as t
      on m.received_cents > 0
  ), other_day as (
    select coalesce(sum(p.charge_cents), 0) as cents
    from public.mpesa_transactions as t
    cross join lateral (select p.* from public.payments as p where p.id = t.payment_id offset 0) as p
    where t.transacted_at >= since and t.transacted_at < until and p.status = 'completed' and p.purpose = 'order'
      and not coalesce(p.completed_at >= since and p.completed_at < until, false)
  ), compared as (
    select r.their_cents, case when r.payment_status = 'completed' then r.our_cents end as our_cents, r.kind, r.resolution
    from private.reconciliation_rows(since, until) as r
  ), at_mpesa as (
    select
      -coalesce(sum(c.our_cents) filter (where c.their_cents is null and c.kind = 'missing_there'), 0) as missing_at_mpesa,
      -coalesce(sum(c.our_cents) filter (where c.their_cents is null and c.kind <> 'missing_there'), 0) as not_compared,
      coalesce(sum(c.their_cents - c.our_cents), 0) as amounts_differ,
      coalesce(sum(c.their_cents) filter (where c.our_cents is null and coalesce(c.resolution, '') not in ('not_an_order', 'refund')), 0) as not_matched,
      coalesce(sum(c.their_cents) filter (where c.our_cents is null and c.resolution = 'not_an_order'), 0) as not_ours,
      coalesce(sum(c.their_cents) filter (where c.our_cents is null and c.resolution = 'refund'), 0) as returned_unmatched,
      coalesce(sum(c.their_cents), 0) as total
    from compared as c
  )
  select
    a.placed, a.rounding, a.not_paid, a.paid_otherwise, a.other_amounts::bigint, a.received_for_orders::bigint,
    (a.received_then - a.received_for_orders)::bigint,
    (b.received - a.received_then)::bigint,
    b.received, b.refunded, b.received + b.refunded,
    c.cents - b.left_day, b.received - b.in_cash + c.cents - b.left_day,
    a.delivery_fees, b.in_review,
    b.by_prompt, b.by_till, b.in_cash, b.refunded_by_mpesa, b.refunded_by_hand, b.refunded_in_cash,
    b.kept::bigint, a.paid_with_credit::bigint,
    d.missing_at_mpesa, d.not_compared, d.amounts_differ, d.not_matched, d.not_ours, d.returned_unmatched, d.total,
    a.discounts
  from by_order as a, by_row as b, other_day as c, at_mpesa as d;
end
$$;

comment on function public.day_totals is
  'For staff: how the totals of a day in Nairobi follow from each other, in cents; steps that take away are negative. by_prompt + by_till + in_cash = received (payments completed on the day); + refunded_by_mpesa + refunded_by_hand + refunded_in_cash (together refunded; change that went back is in them) = net_received, as in dashboard_figures; + kept (owed to customers) is the shop''s own. received - in_cash + other_clock (M-PESA''s time is on another day) = booked, as in reconciliation_days; + missing_at_mpesa + not_compared + amounts_differ + not_matched + not_ours + returned_unmatched (went back without an order) = at_mpesa. placed (orders placed, paid or not) + rounding (to whole shillings) + not_paid + paid_with_credit + paid_otherwise (marked as paid, without a payment) + other_amounts (paid twice, in parts, or in another amount) = received_for_orders, whenever; + paid_other_days + placed_other_days = received. Included: delivery_fees of paid orders, in_review of received. discounts of paid orders: already taken off placed.';

create or replace function private.cash_by_member(day date) returns table (
  member uuid, taken_cents bigint, given_back_cents bigint, handed_over public.handed_over[]
)
language plpgsql stable set search_path = '' as $$
#variable_conflict use_column
begin
  return query
  with moved as materialized (
    select m.*
    from private.money_rows(
      cash_by_member.day::timestamp at time zone 'Africa/Nairobi', (cash_by_member.day + 1)::timestamp at time zone 'Africa/Nairobi'
    ) as m
    where m.kind in ('cash', 'refund_in_cash', 'change_in_cash') and m.member is not null
  ), taken as (
    select m.member, m.received_from, count(*) as payments, sum(m.received_cents) as cents
    from moved as m where m.kind = 'cash' group by m.member, m.received_from
  )
  select m.member, sum(m.received_cents), sum(m.refunded_cents),
    array(
      select (t.received_from, t.payments, t.cents)::public.handed_over
      from taken as t where t.member = m.member order by t.received_from nulls last
    )
  from moved as m
  group by m.member;
end
$$;

comment on function private.cash_by_member is 'Cash that each staff member took and gave back on a day in Nairobi, and who handed it over.';

create or replace function public.cash_of_day(day date) returns table (
  member uuid, email text, taken_cents bigint, given_back_cents bigint, expected_cents bigint, handed_over public.handed_over[]
)
language plpgsql stable security definer set search_path = '' as $$
#variable_conflict use_column
begin
  perform private.expect_staff('figures');
  return query
  select c.member, private.email_of(c.member), c.taken_cents, c.given_back_cents, c.taken_cents - c.given_back_cents, c.handed_over
  from private.cash_by_member(cash_of_day.day) as c
  order by 2, 1;
end
$$;

comment on function public.cash_of_day is
  'For staff: the cash of a day in Nairobi by the member who took it or gave it back. expected_cents: what should be there, without the change that the day began with.';

-- Close of the day

create table public.day_closes (
  day date primary key,
  totals jsonb not null,
  note text,
  closed_by uuid not null,
  closed_by_email text,
  closed_at timestamptz not null default now()
);

comment on table public.day_closes is
  'Days that staff closed, by close_day. totals: day_totals at that time; later changes of the day leave it as it is. Append-only.';

comment on column public.day_closes.closed_by_email is 'The email address at that time.';

alter table public.day_closes enable row level security;

revoke all on public.day_closes from anon, authenticated, service_role;

grant select on public.day_closes to authenticated, service_role;

-- Otherwise realtime would announce changes to visitors, without their rows.
grant select (day) on public.day_closes to anon;

create policy "staff read every close" on public.day_closes for select to authenticated using ((select public.may('figures')));

create table public.cash_counts (
  day date not null references public.day_closes (day),
  member uuid not null,
  member_email text,
  taken_cents bigint not null,
  given_back_cents bigint not null,
  expected_cents bigint not null generated always as (taken_cents - given_back_cents) stored,
  counted_cents bigint not null,
  reason text,
  primary key (day, member),
  constraint "counted cash that differs has a reason" check (counted_cents = taken_cents - given_back_cents or reason is not null)
);

comment on table public.cash_counts is
  'Cash that a staff member took, gave back and counted on a closed day. Append-only.';

comment on column public.cash_counts.reason is 'Why the counted cash differs from what is expected.';

alter table public.cash_counts enable row level security;

revoke all on public.cash_counts from anon, authenticated, service_role;

grant select on public.cash_counts to authenticated, service_role;

create policy "staff read every count" on public.cash_counts for select to authenticated using ((select public.may('figures')));

create trigger day_closes_before_change before update or delete on public.day_closes
  for each row execute function private.refuse_change('A closed day stays as it was closed');

create trigger day_closes_before_truncate before truncate on public.day_closes
  for each statement execute function private.refuse_change('A closed day stays as it was closed');

create trigger cash_counts_before_change before update or delete on public.cash_counts
  for each row execute function private.refuse_change('A closed day stays as it was closed');

create trigger cash_counts_before_truncate before truncate on public.cash_counts
  for each statement execute function private.refuse_change('A closed day stays as it was closed');

create or replace function private.read_cash_counts(counts jsonb) returns setof private.cash_count
language plpgsql stable set search_path = '' as $$
begin
  if jsonb_typeof(read_cash_counts.counts) is distinct from 'array' or jsonb_array_length(read_cash_counts.counts) > 200 then
    perform private.refuse(400, 'counts_invalid', 'The counted cash cannot be read');
  end if;
  begin
    return query
    select c.member, c.expected_cents, c.counted_cents, private.visible_text(left(c.reason, 1000))
    from jsonb_to_recordset(read_cash_counts.counts) as c (member uuid, expected_cents bigint, counted_cents bigint, reason text);
  exception when data_exception then
    perform private.refuse(400, 'counts_invalid', 'The counted cash cannot be read');
  end;
end
$$;

comment on function private.read_cash_counts is
  'Reads what staff counted: [{"member", "expected_cents", "counted_cents", "reason"}, …]. expected_cents: as the staff member saw it.';

create or replace function public.close_day(day date, counts jsonb, note text default null) returns public.day_closes
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  closing_member uuid := private.expect_staff_member('figures');
  remark text := private.read_reason(close_day.note);
  counted private.cash_count[];
  wrong private.cash_count;
  outcome record;
begin
  if close_day.day is null or close_day.day > private.nairobi_day(now()) then
    perform private.refuse(400, 'day_in_future', 'This day has not begun yet');
  end if;
  counted := array(select c from private.read_cash_counts(close_day.counts) as c);
  if exists (select from unnest(counted) as c group by c.member having count(*) > 1) then
    perform private.refuse(400, 'counts_invalid', 'The counted cash cannot be read');
  end if;
  select c.* into wrong from unnest(counted) as c
  where c.counted_cents is null or c.counted_cents % 100 <> 0 or abs(c.counted_cents) > 10000000000 limit 1;
  if found then
    perform private.refuse(400, 'amount_invalid', 'The amount must be in whole shillings');
  end if;
  select c.* into wrong from unnest(counted) as c
  where c.counted_cents <> c.expected_cents and private.visible_length(coalesce(c.reason, '')) not between 3 and 200 limit 1;
  if found then
    perform private.refuse(400, 'reason_invalid', 'Please say why, in 3 to 200 characters', wrong.member::text);
  end if;

  -- One statement: totals and cash are of one moment.
  with closed as (
    insert into public.day_closes (day, totals, note, closed_by, closed_by_email)
    select close_day.day, to_jsonb(t), remark, closing_member, private.email_of(closing_member)
    from public.day_totals(close_day.day) as t
    on conflict (day) do nothing
    returning *
  ), cash as materialized (
    select * from private.cash_by_member(close_day.day)
  ), saved_counts as (
    insert into public.cash_counts (day, member, member_email, taken_cents, given_back_cents, counted_cents, reason)
    select closed.day, cash.member, private.email_of(cash.member), cash.taken_cents, cash.given_back_cents, c.counted_cents, c.reason
    from closed, cash
    join unnest(counted) as c on c.member = cash.member and c.expected_cents = cash.taken_cents - cash.given_back_cents
    returning member
  )
  select closed.*, (select count(*) from saved_counts) = all (array[(select count(*) from cash), cardinality(counted)]) as is_whole
  into outcome from closed;
  if not found then
    perform private.refuse(409, 'day_closed', 'This day is closed already');
  elsif not outcome.is_whole then
    perform private.refuse(409, 'cash_changed', 'The cash of this day was changed in the meantime. Nothing was saved');
  end if;
  return (select d from public.day_closes as d where d.day = outcome.day);
end
$$;

comment on function public.close_day is
  'For staff: closes a day in Nairobi that has begun, once, with the cash that each member counted (private.read_cash_counts): one count for each member of cash_of_day, with the expected amount as seen. Another amount than expected needs a reason. Stores the totals of that moment.';

-- Execution rights
grant execute on function public.money_entries, public.day_totals, public.cash_of_day, public.close_day to authenticated, service_role;

create or replace function private.area_of(shipping_address text, city text) returns text
language sql immutable
return nullif(concat_ws(', ',
  nullif(trim(regexp_replace(shipping_address, ', (Building|Unit): .*$', '')), ''), nullif(nullif(trim(city), ''), 'Nairobi')
), '');

comment on function private.area_of is 'The address of an order without building and unit; with the city if it is not Nairobi. As areaOf in domain/order-summary.ts.';

create or replace function private.folded_area(area text) returns text
language sql immutable set search_path = '' as $$
  select coalesce(nullif(replace(private.fold_text(left(area, 300)), ' ', ''), ''), area);
$$;

comment on function private.folded_area is 'What spellings of one area have in common: without case, accents, spaces and punctuation.';

create or replace function public.report(since date, until date) returns public.report
language plpgsql stable security definer set search_path = '' as $$
declare
  span_start timestamptz := report.since::timestamp at time zone 'Africa/Nairobi';
  span_end timestamptz := (report.until + 1)::timestamp at time zone 'Africa/Nairobi';
  answer public.report;
begin
  perform private.expect_staff('figures');
  perform private.expect_span(report.since, report.until);
  with placed as materialized (
    select o.id, o.created_at, o.payment_status = 'paid' as is_sold, o.charge_cents, o.charge_cents - o.delivery_fee as drinks_cents, o.is_collected,
      case when o.payment_status = 'paid' then private.area_of(o.shipping_address, o.city) end as area
    from public.orders as o
    where o.created_at >= span_start and o.created_at < span_end
  ), money as materialized (
    select m.* from private.money_rows(span_start, span_end) as m
  ), placed_by_day as (
    select private.nairobi_day(p.created_at) as day, count(*) as orders, count(*) filter (where p.is_sold) as sold,
      sum(p.charge_cents) filter (where p.is_sold) as cents
    from placed as p group by 1
  ), money_by_day as (
    select private.nairobi_day(m.happened_at) as day, sum(m.received_cents) as received, sum(m.refunded_cents) as refunded
    from money as m group by 1
  ), by_day as (
    select (
      d.day::date, coalesce(p.orders, 0), coalesce(p.sold, 0), coalesce(p.cents, 0),
      coalesce(m.received, 0), coalesce(m.refunded, 0), coalesce(m.received, 0) - coalesce(m.refunded, 0)
    )::public.report_day as line, d.day
    from generate_series(report.since::timestamp, report.until::timestamp, interval '1 day') as d (day)
    left join placed_by_day as p on p.day = d.day::date
    left join money_by_day as m on m.day = d.day::date
  ), sold_lines as (
    select i.order_id, i.product_id, i.product_name, i.quantity, i.list_cents, p.drinks_cents - i.all_cents as difference,
      i.list_cents + i.before_cents as until_cents, i.before_cents, i.all_cents
    from placed as p
    -- Lookups by key for each order, with any statistics.
    cross join lateral (
      select i.*, i.quantity::bigint * i.unit_price as list_cents,
        sum(i.quantity::bigint * i.unit_price) over () as all_cents,
        coalesce(sum(i.quantity::bigint * i.unit_price) over (order by i.position, i.id rows between unbounded preceding and 1 preceding), 0) as before_cents
      from public.order_items as i where i.order_id = p.id offset 0
    ) as i
    where p.is_sold
  ), by_drink as (
    -- The discount and the rounding to whole shillings, shared in proportion: each line gets what is due until it, less what is until the one before.
    select (
      i.product_name, max(own.brand), count(distinct i.order_id), sum(i.quantity),
      sum(i.list_cents + coalesce(
        round(i.difference * i.until_cents / nullif(i.all_cents, 0)) - round(i.difference * i.before_cents / nullif(i.all_cents, 0)), 0
      ))::bigint
    )::public.report_drink as line
    from sold_lines as i
    left join lateral (select d.brand from public.products as d where d.id = i.product_id offset 0) as own on true
    group by i.product_name
  ), by_hour as (
    select (h.hour, count(p.id), coalesce(sum(p.charge_cents), 0))::public.report_hour as line, h.hour
    from generate_series(0, 23) as h (hour)
    left join placed as p on p.is_sold and extract(hour from p.created_at at time zone 'Africa/Nairobi') = h.hour
    where exists (select from placed as any_sold where any_sold.is_sold)
    group by h.hour
  ), area_spellings as materialized (
    select p.is_collected, case when not p.is_collected then p.area end as area, count(*) as orders, sum(p.charge_cents) as cents
    from placed as p where p.is_sold
    group by 1, 2
  ), area_sums as (
    select case when s.is_collected then 'Collected at the shop' else (array_agg(s.area order by s.orders desc, s.area))[1] end as area,
      sum(s.orders) as orders, sum(s.cents) as cents
    from area_spellings as s
    group by s.is_collected, private.folded_area(s.area)
  ), ranked_areas as (
    select a.*, row_number() over (order by a.orders desc, a.cents desc, a.area) <= 50 as is_listed from area_sums as a
  ), by_area as (
    select (case when a.is_listed then coalesce(a.area, 'Not known any more') else 'All others' end, sum(a.orders), sum(a.cents))::public.report_area as line
    from ranked_areas as a
    group by a.is_listed, case when a.is_listed then coalesce(a.area, 'Not known any more') else 'All others' end
  ), by_rider as (
    select (
      mode() within group (order by trim(d.delivery_person)), count(*), count(*) filter (where d.delivery_status = 'delivered'),
      sum(d.failures), coalesce(sum(cash.cents), 0)
    )::public.report_rider as line
    from placed as p
    cross join lateral (select * from public.deliveries as d where d.order_id = p.id offset 0) as d
    left join lateral (
      select sum(c.charge_cents) as cents
      from (select * from public.payments as c where c.order_id = p.id offset 0) as c
      where c.method = 'cash' and c.status = 'completed' and lower(trim(c.received_from)) = lower(trim(d.delivery_person))
    ) as cash on true
    where d.delivery_person is not null
    group by lower(trim(d.delivery_person))
  ), by_refund as (
    select (m.kind, m.note, count(*), sum(m.refunded_cents))::public.report_refund as line
    from money as m where m.refunded_cents > 0
    group by m.kind, m.note
  ), by_prompt as (
    select (tried.status, case when tried.status = 'failed' then tried.result_code end, count(*))::public.report_prompt as line
    from placed as p
    cross join lateral (select * from public.payments as tried where tried.order_id = p.id offset 0) as tried
    where tried.method = 'prompt' and tried.purpose = 'order'
    group by tried.status, case when tried.status = 'failed' then tried.result_code end
  )
  select
    array(select d.line from by_day as d order by d.day),
    array(select d.line from by_drink as d order by (d.line).units desc, (d.line).cents desc, (d.line).name),
    array(select h.line from by_hour as h order by h.hour),
    array(select a.line from by_area as a order by (a.line).area = 'All others', (a.line).orders desc, (a.line).cents desc, (a.line).area),
    array(select r.line from by_rider as r order by (r.line).orders desc, (r.line).rider),
    array(select r.line from by_refund as r order by (r.line).cents desc, (r.line).kind, (r.line).reason),
    array(select t.line from by_prompt as t order by (t.line).prompts desc, (t.line).status, (t.line).result_code)
  into answer;
  return answer;
end
$$;

comment on function public.report is
  'For staff: the report on up to 367 days in Nairobi. Reads the orders and the money of these days, whatever the size of the shop. Areas: the 50 with the most orders, and all others.';

-- Execution rights
grant execute on function public.report to authenticated, service_role;

create or replace function private.notify_access_change(user_id uuid) returns void
language plpgsql set search_path = '' as $$
begin
  -- No details: screens query the services then. Only the account has its id, which names the topic.
  perform realtime.send('{}'::jsonb, 'access_changed', 'staff-' || notify_access_change.user_id, false);
end
$$;

comment on function private.notify_access_change is
  'Broadcasts access_changed on the live channel staff-{user_id}: a session of the account ended, it is no longer active staff, or its role changed.';

-- A hosted project lets no one drop a trigger of auth.sessions: this function keeps its name.
create or replace function private.announce_access_change() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  perform private.end_push_subscriptions(old.user_id, old.id);
  perform private.notify_access_change(old.user_id);
  return null;
end
$$;

comment on function private.announce_access_change is
  'Trigger of sessions: ends the push subscriptions of a session that ended, and announces its end to the account.';

create or replace function private.after_shop_text_change() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  perform pg_catalog.pg_notify('page_changes', '{"table": "shop_texts"}');
  perform private.record_audit_event(
    'shop_text_changed', new.title,
    jsonb_build_object('title', old.title, 'body', old.body), jsonb_build_object('title', new.title, 'body', new.body)
  );
  return null;
end
$$;

create trigger shop_texts_after_change after update on public.shop_texts
  for each row
  when (old.* is distinct from new.*)
  execute function private.after_shop_text_change();

create or replace function private.after_settings_change() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  if old is distinct from new then
    perform pg_catalog.pg_notify('page_changes', '{"table": "store_settings"}');
  end if;
  perform private.record_price_change(null, null, old.delivery_fee, new.delivery_fee);
  -- The fee stands in the history of prices, a pause in its own.
  perform private.record_audit_event(
    'settings_changed', null,
    to_jsonb(old) - array['updated_at', 'delivery_fee', 'orders_pause_reason', 'orders_paused_until'],
    to_jsonb(new) - array['updated_at', 'delivery_fee', 'orders_pause_reason', 'orders_paused_until']
  );
  if (old.orders_pause_reason, old.orders_paused_until) is distinct from (new.orders_pause_reason, new.orders_paused_until) then
    insert into public.order_pauses (reason, paused_until, changed_by, changed_by_email)
    values (new.orders_pause_reason, new.orders_paused_until, auth.uid(), private.email_of(auth.uid()));
  end if;
  if new.refund_approval_above > old.refund_approval_above and auth.uid() is not null then
    insert into private.refund_limit_raises (raised_by, raised_by_email, raised_from, raised_to)
    values (auth.uid(), private.email_of(auth.uid()), old.refund_approval_above, new.refund_approval_above);
  end if;
  return null;
end
$$;

create or replace function private.after_order_change() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  perform private.count_change(private.figures_of(old), private.figures_of(new));
  if tg_op = 'INSERT' then
    perform private.record_order_event(new.id, 'order_placed', case when new.source = 'storefront' then 'customer' else 'shop' end, jsonb_build_object(
      'total_amount', new.total_amount,
      'source', nullif(new.source, 'storefront'),
      'holds_no_units', case when new.payment_status = 'unpaid' and new.reserved_until is null then true end
    ));
    -- Callers and chats get the link at once; a customer in the shop, as on the storefront, with a prompt.
    if new.source in ('call', 'whatsapp') then
      perform private.queue_order_messages(new.id, 'order_received');
    end if;
    return null;
  elsif tg_op = 'DELETE' then
    delete from public.order_events as e where e.order_id = old.id;
    delete from public.outbox_messages as m where m.order_id = old.id;
    return null;
  end if;
  if private.has_money(old.payment_status) and new.payment_status = 'refunded' then
    perform private.record_refund_of_order(new);
  end if;
  if (old.status, old.payment_status) is distinct from (new.status, new.payment_status) then
    perform private.queue_messages_of_order(old, new);
    perform private.notify_order_followers(new.id);
  end if;
  perform private.record_order_events(old, new);
  if (old.status <> new.status or private.is_called_off(old) <> private.is_called_off(new))
    and not private.is_stated('undoes')
  then
    perform private.move_delivery_with_order(old, new);
  end if;
  -- Last: orders of the same products wait for these counters until the transaction ends.
  if (old.status, old.payment_status, old.reserved_until is null)
    is distinct from (new.status, new.payment_status, new.reserved_until is null)
  then
    perform private.count_held_units(old, new);
  end if;
  return null;
end
$$;

create or replace function private.staff_emails(area text, except_member uuid default null) returns table (user_id uuid, email text)
language sql stable set search_path = '' as $$
  select profile.user_id, account.email::text
  from public.admin_profiles as profile
  join auth.users as account on account.id = profile.user_id
  where profile.is_active and staff_emails.area = any (private.areas_of(profile.role)) and account.deleted_at is null
    and (account.banned_until is null or account.banned_until <= now())
    and (profile.invited_at is null or account.email_confirmed_at is not null)
    and profile.user_id is distinct from staff_emails.except_member and account.email <> ''
  order by profile.created_at, profile.user_id
  limit 50;
$$;

comment on function private.staff_emails is 'Active staff with an email address whose role has the area, without except_member.';

create or replace function private.queue_staff_message(kind text, event_key text, except_member uuid default null) returns void
language plpgsql set search_path = '' as $$
begin
  -- Against an incident that begins and ends again and again, or refunds requested in bulk.
  if private.count_hit('staff_messages', queue_staff_message.kind, interval '1 hour') > 20 then
    return;
  end if;
  with queued as (
    insert into public.outbox_messages (
      order_id, kind, event_key, channel, recipient, order_number, tracking_number, customer_name, has_priority
    )
    select null, template.kind, queue_staff_message.event_key, template.channel, staff.email, '', '', '', true
    from private.staff_emails(
      case queue_staff_message.kind when 'refund_to_approve' then 'approvals' else 'orders' end, queue_staff_message.except_member
    ) as staff
    join public.message_templates as template
      on template.kind = queue_staff_message.kind and template.channel = 'mail' and template.is_on
    returning id, channel
  )
  insert into private.outbox_queue (message_id, channel, due_at) select queued.id, queued.channel, now() from queued;
exception when others then
  -- Its cause stays valid without the message.
  raise warning 'no message % to staff could be put into the outbox: %', queue_staff_message.kind, sqlerrm;
end
$$;

comment on function private.queue_staff_message is
  'Mails active staff whom a message concerns, except except_member, at most 20 times an hour per kind: those who may approve refunds, or take orders. Callers call it once per event. Never fails.';

create or replace function public.refund_approvers() returns table (email text)
language plpgsql stable security definer set search_path = '' as $$
begin
  perform private.expect_staff('refunds');
  return query select staff.email from private.staff_emails('approvals', (select auth.uid())) as staff;
end
$$;

comment on function public.refund_approvers is
  'For staff: the email addresses of the other active owners, who can approve a refund that the caller requested.';

-- Execution rights
grant execute on function public.refund_approvers to authenticated;

create policy "staff read every notice" on public.notices for select to authenticated using ((select public.may('panel')));

create or replace function private.notice_area(kind text) returns text
language sql immutable
return case kind when 'inquiry' then 'inquiries' when 'refund_to_approve' then 'approvals' else 'deliveries' end;

comment on function private.notice_area is 'The area that a role must have to get a notice (private.areas_of).';

create or replace function private.note_failed_delivery(old public.deliveries, new public.deliveries) returns void
language plpgsql set search_path = '' as $$
begin
  -- The delivery of a cancelled order fails, too.
  if new.delivery_status = 'failed' and old.delivery_status is distinct from 'failed' and exists (
    select from public.orders as o where o.id = new.order_id and private.is_to_deliver(o.payment_status, o.payment_method) and private.is_open_order(o.status)
  ) then
    perform private.add_notice('failed_delivery', concat_ws(' ', new.order_id, new.failures), new.order_id, (select auth.uid()));
  end if;
end
$$;

create or replace function private.newly_late_orders() returns setof uuid
language plpgsql stable set search_path = '' as $$
begin
  return query
    select late.order_id
    from (
      select * from public.deliveries as d
      where private.is_open_delivery(d.delivery_status)
        -- After an outage, orders that have been late for longer are no news.
        and d.created_at < now() - private.delivery_promise() and d.created_at > now() - private.delivery_promise() - interval '1 hour'
      order by d.created_at desc, d.id desc
      limit 500
    ) as late
    join public.orders as o on o.id = late.order_id
    where private.work_step(o, (
        select d from public.deliveries as d where d.id = late.id
      )) is not null
      and not exists (select from public.notices as n where n.kind = 'late_order' and n.event_key = late.order_id::text);
end
$$;

comment on function private.newly_late_orders is 'Paid orders that are late since at most an hour and have no notice of it.';

create or replace function private.is_notice_waiting(notice public.notices) returns boolean
language plpgsql stable set search_path = '' as $$
declare
  step text;
begin
  if notice.kind = 'refund_to_approve' then
    return exists (select from public.refunds as r where r.id::text = notice.event_key and r.status = 'requested');
  elsif notice.kind = 'inquiry' then
    return exists (select from public.inquiries as i where i.id = notice.event_key::uuid and not i.is_read);
  end if;
  select private.work_step(o, d) into step
  from public.orders as o
  join public.deliveries as d on d.order_id = o.id
  where o.id = notice.order_id;
  return coalesce(case notice.kind
    when 'paid_order' then step = 'prepare'
    when 'failed_delivery' then step = 'failed'
    else true
  end and step is not null, false);
end
$$;

comment on function private.is_notice_waiting is
  'Whether nobody has dealt with it: nobody has taken the paid order, the late one is not delivered, the failed one is not sent again, the refund is not decided, the inquiry is unread.';

create or replace function private.notice_facts(notice public.notices) returns jsonb
language sql stable set search_path = '' as $$
  select case
    when notice.kind = 'inquiry' then (
      select jsonb_build_object('name', i.name) from public.inquiries as i where i.id = notice.event_key::uuid
    )
    when notice.kind = 'refund_to_approve' then (
      select jsonb_build_object('refund_cents', r.refund_cents, 'requested_by', r.requested_by_email, 'order_number', o.order_number)
      from public.refunds as r
      left join public.payments as p on p.id = r.payment_id
      left join public.orders as o on o.id = p.order_id
      where r.id = notice.event_key::uuid
    )
    else (
      select jsonb_build_object(
        'order_number', o.order_number, 'name', o.customer_name, 'shipping_address', o.shipping_address, 'city', o.city,
        'charge_cents', o.charge_cents, 'failure_reason', (select d.failure_reason from public.deliveries as d where d.order_id = o.id),
        'items', array(
          select jsonb_build_object('quantity', i.quantity, 'product_name', i.product_name, 'brand', p.brand)
          from public.order_items as i left join public.products as p on p.id = i.product_id
          where i.order_id = o.id order by i.position
        )
      )
      from public.orders as o where o.id = notice.order_id
    )
  end;
$$;

comment on function private.notice_facts is 'What a notice says, in its parts (domain/notice-text.ts). A push leaves names out.';

create or replace function public.waiting_notices() returns table (
  id uuid, kind text, event_key text, order_id uuid, created_at timestamptz, facts jsonb
)
language plpgsql stable security definer rows 20 set search_path = '' as $$
#variable_conflict use_column
begin
  perform private.expect_staff('panel');
  return query
    select n.id, n.kind, n.event_key, n.order_id, n.created_at, private.notice_facts(n)
    from (
      select * from public.notices as recent where recent.created_at > now() - interval '1 day'
      order by recent.created_at desc limit 500
    ) as r
    cross join lateral (select * from public.notices as own where own.id = r.id) as n
    where n.caused_by is distinct from (select auth.uid()) and private.is_notice_waiting(n)
      and ((select auth.role()) = 'service_role' or public.may(private.notice_area(n.kind)))
    order by n.created_at desc;
end
$$;

comment on function public.waiting_notices is
  'For staff: which of the newest 500 notices of the last day nobody has dealt with, the newest first, without those that the caller caused or whose area the caller''s role lacks.';

create or replace function public.push_public_key() returns text
language plpgsql stable security definer set search_path = '' as $$
begin
  perform private.expect_staff('panel');
  return (select k.public_key from private.push_keys as k);
end
$$;

comment on function public.push_public_key is
  'For staff: the public VAPID key with which a browser subscribes, in base64url. Null until the shop has started once.';

create or replace function public.save_push_subscription(endpoint text, p256dh text, auth_secret text, device text, kinds text[]) returns uuid
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  member constant uuid := private.expect_staff_member('panel');
  saved uuid;
begin
  if not coalesce(
    save_push_subscription.endpoint ~ '^https://[^/?#@[:space:]]+/[^[:space:]]*$' and char_length(save_push_subscription.endpoint) <= 1000
    and save_push_subscription.p256dh ~ '^B[A-Za-z0-9_-]{86}$' and save_push_subscription.auth_secret ~ '^[A-Za-z0-9_-]{22}$', false
  ) then
    perform private.refuse(400, 'push_subscription_invalid', 'The shop cannot send notices to this browser');
  end if;
  -- Two devices that subscribe at once count one after the other.
  perform pg_advisory_xact_lock(hashtextextended('push subscriptions of ' || member, 0));
  if 10 <= (
    select count(*) from public.push_subscriptions as s where s.user_id = member and s.endpoint <> save_push_subscription.endpoint
  ) then
    perform private.refuse(409, 'too_many_devices', 'Ten of your devices get notices already. Please remove one first');
  end if;
  insert into public.push_subscriptions as s (user_id, session_id, endpoint, p256dh, auth_secret, device, kinds)
  values (
    member, ((select auth.jwt()) ->> 'session_id')::uuid, save_push_subscription.endpoint, save_push_subscription.p256dh,
    save_push_subscription.auth_secret, left(coalesce(private.visible_text(save_push_subscription.device), 'An unknown device'), 80),
    array(select known from unnest(private.notice_kinds()) as known where known = any (save_push_subscription.kinds))
  )
  -- The browser belongs to the member who is signed in.
  on conflict on constraint "a browser has one push subscription" do update
  set user_id = excluded.user_id, session_id = excluded.session_id, p256dh = excluded.p256dh, auth_secret = excluded.auth_secret,
      device = excluded.device, kinds = excluded.kinds, failures = 0
  returning s.id into saved;
  return saved;
end
$$;

comment on function public.save_push_subscription is
  'For staff: lets the calling member''s browser receive notices of some kinds by Web Push, until the session ends. At most 10 devices per member.';

create or replace function public.lease_pushes(at_most integer default 20) returns table (
  id bigint, lease uuid, endpoint text, p256dh text, auth_secret text, notice_id uuid, kind text, event_key text, order_id uuid,
  seconds_to_live integer, facts jsonb
)
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  due bigint[];
begin
  perform private.add_notice('late_order', late.order_id::text, late.order_id) from private.newly_late_orders() as late (order_id);
  due := array(
    select q.id from private.push_queue as q
    where q.due_at <= now()
    order by q.due_at
    limit least(greatest(coalesce(lease_pushes.at_most, 20), 1), 100)
    for update skip locked
  );
  delete from private.push_queue as q
  using public.notices as n, public.push_subscriptions as s
  where q.id = any (due) and n.id = q.notice_id and s.id = q.subscription_id and not (
    n.created_at > now() - private.notice_lifetime(n.kind) and private.is_notice_waiting(n)
    and exists (
      select from public.admin_profiles as profile
      join auth.users as account on account.id = profile.user_id
      where profile.user_id = s.user_id and profile.is_active and private.notice_area(n.kind) = any (private.areas_of(profile.role))
        and account.deleted_at is null
        and (account.banned_until is null or account.banned_until <= now())
    )
  );
  return query
  with taken as (
    update private.push_queue as q
    set due_at = now() + interval '1 minute', lease = gen_random_uuid(), attempts = q.attempts + 1
    where q.id = any (due)
    returning q.id, q.lease, q.notice_id, q.subscription_id
  )
  select taken.id, taken.lease, s.endpoint, s.p256dh, s.auth_secret, n.id, n.kind, n.event_key, n.order_id,
    greatest(60, extract(epoch from n.created_at + private.notice_lifetime(n.kind) - now()))::integer, private.notice_facts(n)
  from taken
  join public.push_subscriptions as s on s.id = taken.subscription_id
  join public.notices as n on n.id = taken.notice_id;
end
$$;

comment on function public.lease_pushes is
  'Adds notices of orders that are late now. Then leases due pushes for a minute, without those whose notice was dealt with, is too old or is for a member who is no longer active or whose role lacks its area. A push whose process ended is leased again; its device replaces the earlier notification. seconds_to_live: how long the push service may retain it. facts: see notice_facts.';

-- Execution rights
grant execute on function public.waiting_notices, public.push_public_key, public.save_push_subscription to authenticated;

grant execute on function public.waiting_notices, public.push_public_key to service_role;

grant execute on function public.read_push_keys, public.store_push_keys, public.lease_pushes, public.finish_push to service_role;

-- The team: invitations, roles, access, and who changed what (docs/decisions/roles.md).

create table public.audit_events (
  id bigint generated always as identity primary key,
  kind text not null,
  actor_id uuid,
  actor_email text,
  subject text,
  before jsonb,
  after jsonb,
  happened_at timestamptz not null default clock_timestamp(),
  constraint "an audited change is known" check (kind in (
    'member_invited', 'member_changed', 'member_removed', 'second_factor_reset', 'recovery_codes_made', 'recovery_code_used',
    'settings_changed', 'shop_text_changed', 'message_template_changed',
    'reply_template_added', 'reply_template_changed', 'reply_template_removed',
    'discount_code_added', 'discount_code_changed', 'discount_code_removed', 'phone_blocked', 'phone_unblocked'
  ))
);

comment on table public.audit_events is
  'Changes that no other table keeps a history of, with the changed values only. Append-only. search_audit adds the other histories. actor_email: the email address at that time. subject: the member, the discount code, the text.';

alter table public.audit_events enable row level security;

revoke all on public.audit_events from anon, authenticated, service_role;

grant select on public.audit_events to authenticated, service_role;

create policy "owners read the audit" on public.audit_events for select to authenticated using ((select public.may('team')));

create trigger audit_events_before_change before update or delete on public.audit_events
  for each row execute function private.refuse_change('The audit is only added to');

create trigger audit_events_before_truncate before truncate on public.audit_events
  for each statement execute function private.refuse_change('The audit is only added to');

create or replace function private.audit_area(kind text) returns text
language sql immutable
return case
  when kind = 'settings_changed' then 'settings'
  when kind ~ '^(shop_text|message_template|reply_template)_' then 'texts'
  when kind ~ '^discount_code_' then 'discounts'
  when kind in ('phone_blocked', 'phone_unblocked') then 'customers'
  else 'team'
end;

comment on function private.audit_area is 'The area of a kind of audit event, by which search_audit filters.';

create or replace function private.record_audit_event(kind text, subject text, before jsonb, after jsonb, actor uuid default auth.uid()) returns void
language plpgsql set search_path = '' as $$
declare
  -- A change says what differs; what begins or ends, all of it.
  changed text[] := array(
    select known.key from jsonb_object_keys(coalesce(before, after, '{}')) as known (key)
    where before is null or after is null or before -> known.key is distinct from after -> known.key
  );
  pick_before jsonb := (select jsonb_object_agg(e.key, e.value) from jsonb_each(before) as e where e.key = any (changed));
  pick_after jsonb := (select jsonb_object_agg(e.key, e.value) from jsonb_each(after) as e where e.key = any (changed));
begin
  if before is not null and after is not null and cardinality(changed) = 0 then
    return;
  end if;
  insert into public.audit_events (kind, actor_id, actor_email, subject, before, after)
  values (
    record_audit_event.kind, record_audit_event.actor, private.email_of(record_audit_event.actor), record_audit_event.subject,
    pick_before, pick_after
  );
end
$$;

comment on function private.record_audit_event is 'Adds a change to the audit, with the values that differ. Without a difference it adds nothing.';

create or replace function private.active_owners() returns table (user_id uuid)
language sql stable set search_path = '' as $$
  select profile.user_id
  from public.admin_profiles as profile
  join auth.users as account on account.id = profile.user_id
  where profile.role = 'owner' and profile.is_active and account.deleted_at is null
    and (account.banned_until is null or account.banned_until <= now())
    and (profile.invited_at is null or account.email_confirmed_at is not null);
$$;

comment on function private.active_owners is 'Owners who can sign in. Who was invited and has not accepted is none.';

create or replace function private.after_profile_change() returns trigger
language plpgsql security definer set search_path = '' as $$
declare
  before jsonb := case when tg_op <> 'INSERT' then jsonb_build_object('role', old.role, 'name', old.name, 'is_active', old.is_active) end;
  after jsonb := case when tg_op <> 'DELETE' then jsonb_build_object('role', new.role, 'name', new.name, 'is_active', new.is_active) end;
begin
  perform private.record_audit_event(
    case tg_op when 'INSERT' then 'member_invited' when 'DELETE' then 'member_removed' else 'member_changed' end,
    coalesce(private.email_of(coalesce(new.user_id, old.user_id)), old.name), before, after,
    coalesce(auth.uid(), case when tg_op = 'INSERT' then new.invited_by end)
  );
  if tg_op <> 'INSERT' and old.is_active and not coalesce(new.is_active, false) then
    perform private.end_push_subscriptions(old.user_id);
    perform private.notify_access_change(old.user_id);
  elsif tg_op = 'UPDATE' and old.role <> new.role then
    perform private.notify_access_change(old.user_id);
  end if;
  -- The secret key may do everything. Two owners who take each other's role away at once come one after the other.
  if tg_op <> 'INSERT' and old.role = 'owner' and old.is_active and auth.uid() is not null then
    perform pg_advisory_xact_lock(hashtextextended('owners of the shop', 0));
    if not exists (select from private.active_owners()) then
      perform private.refuse(409, 'last_owner', 'At least one active owner must remain. Make another member an owner first');
    end if;
  end if;
  return null;
end
$$;

create trigger profiles_after_change after insert or delete or update of role, name, is_active on public.admin_profiles
  for each row execute function private.after_profile_change();

create or replace function public.team() returns table (
  user_id uuid, email text, name text, role text, is_active boolean, is_invited boolean, invited_at timestamptz,
  created_at timestamptz, last_seen_at timestamptz, second_factors integer
)
language plpgsql stable security definer set search_path = '' as $$
#variable_conflict use_column
begin
  perform private.expect_staff('team');
  return query
    select profile.user_id, account.email::text, profile.name, profile.role, profile.is_active,
      profile.invited_at is not null and account.email_confirmed_at is null, profile.invited_at, profile.created_at,
      coalesce((
        select max(coalesce(session.refreshed_at, session.created_at)) from auth.sessions as session
        where session.user_id = profile.user_id
      ), account.last_sign_in_at),
      (select count(*)::integer from auth.mfa_factors as factor
       where factor.user_id = profile.user_id and factor.status = 'verified')
    from public.admin_profiles as profile
    join auth.users as account on account.id = profile.user_id
    order by not profile.is_active, lower(coalesce(nullif(profile.name, ''), account.email::text)), profile.user_id;
end
$$;

comment on function public.team is
  'For owners: all members, active ones first. is_invited: the invitation was not accepted yet. last_seen_at: when a session was last renewed, or the last sign-in.';

create or replace function private.lock_member(member_id uuid, caller uuid) returns public.admin_profiles
language plpgsql set search_path = '' as $$
declare
  locked public.admin_profiles;
begin
  select * into locked from public.admin_profiles as profile where profile.user_id = lock_member.member_id for update;
  if not found then
    perform private.refuse(404, 'member_not_found', 'This member does not exist any more');
  elsif lock_member.member_id = lock_member.caller then
    perform private.refuse(409, 'own_access', 'Another owner changes your role and your access');
  end if;
  return locked;
end
$$;

create or replace function private.read_role(role text) returns text
language plpgsql immutable set search_path = '' as $$
begin
  if private.areas_of(role) is null then
    perform private.refuse(400, 'role_unknown', 'A role is owner, staff or counter');
  end if;
  return role;
end
$$;

create or replace function private.read_member_name(name text) returns text
language plpgsql immutable set search_path = '' as $$
declare
  shown text := coalesce(private.visible_text(left(name, 200)), '');
begin
  if char_length(shown) not between 1 and 60 or private.has_control_characters(shown) then
    perform private.refuse(400, 'member_name_invalid', 'A name has 1 to 60 characters');
  end if;
  return shown;
end
$$;

create or replace function public.change_member(
  member_id uuid, role text default null, name text default null, is_active boolean default null
) returns void
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  caller constant uuid := private.expect_staff_member('team');
  changed public.admin_profiles;
begin
  -- One's own name is no question of access.
  if change_member.member_id = caller and change_member.role is null and change_member.is_active is null then
    update public.admin_profiles as p set name = private.read_member_name(change_member.name) where p.user_id = caller;
    return;
  end if;
  changed := private.lock_member(change_member.member_id, caller);
  update public.admin_profiles as p
  set role = case when change_member.role is null then changed.role else private.read_role(change_member.role) end,
      name = case when change_member.name is null then changed.name else private.read_member_name(change_member.name) end,
      is_active = coalesce(change_member.is_active, changed.is_active)
  where p.user_id = changed.user_id;
  if change_member.is_active = false then
    delete from auth.sessions as session where session.user_id = changed.user_id;
  end if;
end
$$;

comment on function public.change_member is
  'For owners: another role, name or access of a member; null leaves it as it is. Without access all sessions of the member end. Of their own row owners change the name only.';

create or replace function public.reset_second_factor(member_id uuid) returns void
language plpgsql security definer set search_path = '' as $$
declare
  caller constant uuid := private.expect_staff_member('team');
  changed public.admin_profiles := private.lock_member(reset_second_factor.member_id, caller);
begin
  delete from auth.mfa_factors as factor where factor.user_id = changed.user_id and factor.status = 'verified';
  if not found then
    perform private.refuse(409, 'no_second_factor', 'This member has no second factor');
  end if;
  delete from private.recovery_codes as known where known.user_id = changed.user_id;
  delete from auth.sessions as session where session.user_id = changed.user_id;
  perform private.record_audit_event('second_factor_reset', private.email_of(changed.user_id), null, null);
end
$$;

comment on function public.reset_second_factor is
  'For owners: removes the authenticator apps and recovery codes of another member who has lost them, and ends all sessions of the member. The password stays.';

create table private.recovery_codes (
  user_id uuid not null references auth.users (id) on delete cascade,
  code_hash bytea not null,
  created_at timestamptz not null default now(),
  primary key (user_id, code_hash)
);

comment on table private.recovery_codes is
  'Recovery codes of staff that were not used yet. Each removes the second factor of its member once (use_recovery_code).';

comment on column private.recovery_codes.code_hash is
  'SHA-256 of member and code. Codes are random with 60 bits, so that no slow hash is needed.';

alter table private.recovery_codes enable row level security;

create or replace function private.hash_recovery_code(user_id uuid, code text) returns bytea
language sql immutable
-- As it was typed: small letters, blanks and hyphens, and the letters that look like digits.
return sha256(convert_to(
  user_id || ' ' || translate(regexp_replace(upper(left(code, 100)), '[^0-9A-Z]', '', 'g'), 'OIL', '011'), 'UTF8'
));

create or replace function private.has_second_factor(user_id uuid) returns boolean
language sql stable set search_path = '' as $$
  select exists (
    select from auth.mfa_factors as factor where factor.user_id = has_second_factor.user_id and factor.status = 'verified'
  );
$$;

create or replace function public.count_recovery_codes() returns integer
language sql stable security definer set search_path = '' as $$
  select count(*)::integer from private.recovery_codes as known where known.user_id = (select auth.uid());
$$;

comment on function public.count_recovery_codes is 'How many recovery codes of the caller were not used yet.';

create or replace function public.make_recovery_codes() returns setof text
language plpgsql volatile security definer set search_path = '' as $$
declare
  caller constant uuid := private.expect_staff_member('panel');
  code text;
begin
  if not private.has_second_factor(caller) then
    perform private.refuse(409, 'no_second_factor', 'Add an authenticator app first');
  end if;
  -- Two sets at once would both be valid.
  perform from public.admin_profiles as profile where profile.user_id = caller for update;
  delete from private.recovery_codes as known where known.user_id = caller;
  for count in 1..10 loop
    select string_agg(
      -- Crockford's base32: without letters that look like digits.
      substr('0123456789ABCDEFGHJKMNPQRSTVWXYZ', get_byte(random.bytes, place) % 32 + 1, 1) || case when place in (3, 7) then '-' else '' end,
      '' order by place
    ) into code
    from (select sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())) as bytes) as random
    cross join generate_series(0, 11) as place;
    insert into private.recovery_codes (user_id, code_hash) values (caller, private.hash_recovery_code(caller, code));
    return next code;
  end loop;
  perform private.record_audit_event('recovery_codes_made', private.email_of(caller), null, null);
end
$$;

comment on function public.make_recovery_codes is
  'For staff with a second factor: ten new recovery codes, which are shown once. They end the earlier ones.';

create or replace function public.use_recovery_code(code text) returns jsonb
language plpgsql volatile security definer set search_path = '' as $$
declare
  caller constant uuid := auth.uid();
  remaining integer;
begin
  -- Before the second factor a member has no rights, so this is the only procedure that asks for less than expect_staff.
  if not private.has_staff_session() then
    perform private.refuse_staff();
  elsif not private.has_second_factor(caller) then
    perform private.refuse(409, 'no_second_factor', 'Your account has no second factor');
  elsif private.count_hit('recovery_codes', caller::text, interval '1 hour') > 10 then
    perform private.refuse(429, 'too_many_tries', 'That were too many tries. Please wait an hour, or ask an owner to reset your second factor');
  end if;
  delete from private.recovery_codes as known
  where known.user_id = caller and known.code_hash = private.hash_recovery_code(caller, use_recovery_code.code);
  if not found then
    -- Not raised, so that the try is counted.
    return private.refusal_answer('PT400', 'This is none of your recovery codes that are left. Please check each letter and digit',
      'recovery_code_wrong', '');
  end if;
  delete from auth.mfa_factors as factor where factor.user_id = caller and factor.status = 'verified';
  -- The lost phone may still be signed in.
  delete from auth.sessions as session
  where session.user_id = caller and session.id::text is distinct from auth.jwt() ->> 'session_id';
  select count(*) into remaining from private.recovery_codes as known where known.user_id = caller;
  perform private.record_audit_event('recovery_code_used', private.email_of(caller), null, jsonb_build_object('codes_left', remaining));
  return jsonb_build_object('codes_left', remaining);
end
$$;

comment on function public.use_recovery_code is
  'For staff who signed in with the password and have lost the second factor: an unused recovery code removes the second factor, and ends all other sessions. At most ten tries an hour.';

create or replace function public.check_invitation(email text, role text, name text) returns void
language plpgsql stable security definer set search_path = '' as $$
begin
  perform private.expect_staff('team');
  perform private.read_role(check_invitation.role), private.read_member_name(check_invitation.name);
  if not private.is_email(trim(check_invitation.email)) then
    perform private.refuse(400, 'email_invalid', 'Please enter a valid email address');
  elsif exists (
    select from auth.users as account
    left join public.admin_profiles as profile on profile.user_id = account.id
    where lower(account.email::text) = lower(trim(check_invitation.email)) and account.deleted_at is null
      and (account.email_confirmed_at is not null or (profile.user_id is not null and profile.invited_at is null))
  ) then
    perform private.refuse(409, 'email_has_account', 'This address has an account already. Members who left are readmitted in the list');
  end if;
end
$$;

comment on function public.check_invitation is
  'For owners, by the function that invites: refuses an invitation of an address that has an account, or with an invalid name or role.';

create or replace function public.record_invitation(member_id uuid, role text, name text, invited_by uuid) returns void
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
begin
  insert into public.admin_profiles as p (user_id, role, name, invited_at, invited_by)
  values (
    record_invitation.member_id, private.read_role(record_invitation.role), private.read_member_name(record_invitation.name),
    now(), record_invitation.invited_by
  )
  on conflict (user_id) do update
  set invited_at = excluded.invited_at, invited_by = excluded.invited_by, role = excluded.role, name = excluded.name, is_active = true
  where p.invited_at is not null;
end
$$;

comment on function public.record_invitation is
  'Makes an invited account staff, with its role and name. Again for an invitation that is sent again.';

create or replace function public.withdraw_invitation(member_id uuid) returns void
language plpgsql security definer set search_path = '' as $$
declare
  caller constant uuid := private.expect_staff_member('team');
  withdrawn public.admin_profiles := private.lock_member(withdraw_invitation.member_id, caller);
begin
  if withdrawn.invited_at is null
    or exists (select from auth.users as account where account.id = withdrawn.user_id and account.email_confirmed_at is not null)
  then
    perform private.refuse(409, 'invitation_accepted', 'This invitation was accepted already. Take the access away instead');
  end if;
  delete from public.admin_profiles as profile where profile.user_id = withdrawn.user_id;
  delete from auth.users as account where account.id = withdrawn.user_id;
end
$$;

comment on function public.withdraw_invitation is 'For owners: withdraws an invitation that was not accepted. Its link does not work any more.';

create or replace function public.staff_names() returns table (email text, name text)
language plpgsql stable security definer set search_path = '' as $$
begin
  perform private.expect_staff('panel');
  return query
    select account.email::text, profile.name
    from public.admin_profiles as profile
    join auth.users as account on account.id = profile.user_id
    where profile.name <> '' and account.email <> '';
end
$$;

comment on function public.staff_names is 'For staff: the names of all present and former members who have one, by the email address that histories store.';

-- Trigger of tables without a history. Arguments: what a row is, as in the kinds of events; the columns that name it; the audited ones.
create or replace function private.after_audited_change() returns trigger
language plpgsql security definer set search_path = '' as $$
declare
  row_before constant jsonb := case when tg_op <> 'INSERT' then to_jsonb(old) end;
  row_after constant jsonb := case when tg_op <> 'DELETE' then to_jsonb(new) end;
  audited constant text[] := string_to_array(tg_argv[2], ' ');
begin
  -- Not the rows of a new shop.
  if auth.role() is not null then
    perform private.record_audit_event(
      tg_argv[0] || case tg_op when 'INSERT' then '_added' when 'DELETE' then '_removed' else '_changed' end,
      (select string_agg(coalesce(row_after, row_before) ->> named.name, ', ' order by named.place)
       from unnest(string_to_array(tg_argv[1], ' ')) with ordinality as named (name, place)),
      (select jsonb_object_agg(e.key, e.value) from jsonb_each(row_before) as e where e.key = any (audited)),
      (select jsonb_object_agg(e.key, e.value) from jsonb_each(row_after) as e where e.key = any (audited))
    );
  end if;
  return null;
end
$$;

create trigger discount_codes_after_change after insert or update or delete on public.discount_codes
  for each row execute function private.after_audited_change(
    'discount_code', 'code', 'code percent amount_cents minimum_cents starts_at ends_at max_uses max_uses_per_phone is_active'
  );

create trigger message_templates_after_change after update on public.message_templates
  for each row execute function private.after_audited_change('message_template', 'kind channel', 'subject body is_on');

create trigger reply_templates_after_change after insert or update or delete on public.reply_templates
  for each row execute function private.after_audited_change('reply_template', 'title', 'title body');

create or replace function private.after_phone_block() returns trigger
language plpgsql security definer set search_path = '' as $$
declare
  phone constant text := case tg_op when 'INSERT' then new.phone else old.phone end;
begin
  -- An erasure must leave no number and no reason behind. The last digits are enough to recognise it.
  perform private.record_audit_event(
    case tg_op when 'INSERT' then 'phone_blocked' else 'phone_unblocked' end,
    coalesce('0' || substr(phone, 5, 1) || '•• ••• ' || right(phone, 3), 'An erased phone'), null, null
  );
  return null;
end
$$;

create trigger blocked_phones_after_change after insert or delete on public.blocked_phones
  for each row execute function private.after_phone_block();

create or replace function public.search_audit(
  area text default null, person text default null, from_day date default null, until_day date default null,
  before_created_at timestamptz default null, before_id text default null, page_size integer default 50
) returns setof public.audit_row
language plpgsql stable security definer rows 50 set search_path = '' as $$
#variable_conflict use_column
declare
  wanted constant text := nullif(search_audit.area, '');
  by_whom constant text := nullif(search_audit.person, '');
  since constant timestamptz := coalesce(search_audit.from_day::timestamp at time zone 'Africa/Nairobi', '-infinity');
  until constant timestamptz := coalesce((search_audit.until_day + 1)::timestamp at time zone 'Africa/Nairobi', 'infinity');
  upto constant timestamptz := coalesce(search_audit.before_created_at, 'infinity');
  most constant integer := least(greatest(coalesce(search_audit.page_size, 50), 1), 1000);
begin
  perform private.expect_staff('team');
  -- Each history is read from its newest row, no further than a page.
  return query
    select (found).* from (
      (select ('change-' || e.id, e.happened_at, private.audit_area(e.kind), e.kind, e.actor_id, e.actor_email, e.subject, e.before, e.after)::public.audit_row as found
        from public.audit_events as e
        where (wanted is null or wanted = private.audit_area(e.kind))
          and (by_whom is null or e.actor_email = by_whom) and e.happened_at >= since and e.happened_at < until
          and (e.happened_at, 'change-' || e.id) < (upto, coalesce(search_audit.before_id, ''))
        order by e.happened_at desc, 'change-' || e.id desc limit most)
      union all
      (select ('price-' || p.id, p.changed_at, 'prices', 'price_changed', p.changed_by, p.changed_by_email,
          coalesce(p.product_name, 'Delivery fee'),
          jsonb_build_object('price', p.from_cents), jsonb_build_object('price', p.to_cents))::public.audit_row
        from public.price_changes as p
        where (wanted is null or wanted = 'prices')
          and (by_whom is null or p.changed_by_email = by_whom) and p.changed_at >= since and p.changed_at < until
          and (p.changed_at, 'price-' || p.id) < (upto, coalesce(search_audit.before_id, ''))
        order by p.changed_at desc, 'price-' || p.id desc limit most)
      union all
      (select ('refund-' || r.id, r.created_at, 'refunds', case when r.method = 'reversal' then 'refund_requested' else 'refund_noted' end,
          r.requested_by, r.requested_by_email, coalesce(r.receipt, r.refund_receipt, case r.method when 'credit' then 'From credit' else 'In cash' end), null,
          jsonb_build_object('refund', r.refund_cents, 'reason', r.reason))::public.audit_row
        from public.refunds as r
        where (wanted is null or wanted = 'refunds') and r.requested_by is not null
          and (by_whom is null or r.requested_by_email = by_whom) and r.created_at >= since and r.created_at < until
          and (r.created_at, 'refund-' || r.id) < (upto, coalesce(search_audit.before_id, ''))
        order by r.created_at desc, 'refund-' || r.id desc limit most)
      union all
      (select ('approval-' || r.id, r.approved_at, 'refunds', 'refund_approved', r.approved_by, r.approved_by_email,
          coalesce(r.receipt, 'In cash'), null,
          jsonb_build_object('refund', r.refund_cents, 'alone', case when r.approved_alone then true end))::public.audit_row
        from public.refunds as r
        where (wanted is null or wanted = 'refunds') and r.approved_at is not null
          and (by_whom is null or r.approved_by_email = by_whom) and r.approved_at >= since and r.approved_at < until
          and (r.approved_at, 'approval-' || r.id) < (upto, coalesce(search_audit.before_id, ''))
        order by r.approved_at desc, 'approval-' || r.id desc limit most)
      union all
      (select ('decision-' || d.id, d.happened_at, 'reconciliation', d.kind, d.actor_id, d.actor_email,
          coalesce(d.receipt, 'A payment'), null, jsonb_build_object('note', d.note))::public.audit_row
        from public.reconciliation_events as d
        -- Refunds have their own rows.
        where (wanted is null or wanted = 'reconciliation') and d.kind <> 'refund' and d.actor_id is not null
          and (by_whom is null or d.actor_email = by_whom) and d.happened_at >= since and d.happened_at < until
          and (d.happened_at, 'decision-' || d.id) < (upto, coalesce(search_audit.before_id, ''))
        order by d.happened_at desc, 'decision-' || d.id desc limit most)
      union all
      (select ('download-' || b.id, b.allowed_at, 'personal_data', 'backup_downloaded', b.downloaded_by, b.downloaded_by_email,
          b.file_name, null, null)::public.audit_row
        from public.backup_downloads as b
        where (wanted is null or wanted = 'personal_data')
          and (by_whom is null or b.downloaded_by_email = by_whom) and b.allowed_at >= since and b.allowed_at < until
          and (b.allowed_at, 'download-' || b.id) < (upto, coalesce(search_audit.before_id, ''))
        order by b.allowed_at desc, 'download-' || b.id desc limit most)
      union all
      (select ('person-' || q.id, q.requested_at, 'personal_data', 'person_' || q.kind, q.requested_by, q.requested_by_email,
          'A customer', null, null)::public.audit_row
        from public.personal_data_requests as q
        where (wanted is null or wanted = 'personal_data')
          and (by_whom is null or q.requested_by_email = by_whom) and q.requested_at >= since and q.requested_at < until
          and (q.requested_at, 'person-' || q.id) < (upto, coalesce(search_audit.before_id, ''))
        order by q.requested_at desc, 'person-' || q.id desc limit most)
    ) as history
    order by (found).created_at desc, (found).id desc
    limit most;
end
$$;

comment on function public.search_audit is
  'For owners: who changed what, newest first, after the row named by before_created_at and before_id. area: team, settings, texts, discounts, customers, prices, refunds, reconciliation, personal_data. person: the email address that the histories store. Days of Nairobi.';

-- Execution rights
grant execute on function public.team, public.change_member, public.reset_second_factor, public.check_invitation,
  public.withdraw_invitation, public.staff_names, public.search_audit, public.count_recovery_codes, public.make_recovery_codes,
  public.use_recovery_code to authenticated;

grant execute on function public.record_invitation to service_role;

create or replace function public.settle_write(write_id uuid) returns table (is_saved boolean, answer jsonb)
language plpgsql volatile security definer set search_path = '' as $$
begin
  perform private.expect_staff('panel');
  -- Waits for the request if it is still running.
  insert into private.staff_writes (id, is_withdrawn) values (settle_write.write_id, true) on conflict do nothing;
  return query select not w.is_withdrawn, w.answer from private.staff_writes as w where w.id = settle_write.write_id;
end
$$;

comment on function public.settle_write is
  'For staff: whether a request whose answer was lost was saved, by its x-write-id. If not, it is withdrawn: it is refused should it still arrive, so that it can be repeated safely. answer: what it returned, where that was kept. One row.';

create trigger discount_codes_by_staff before insert or update or delete on public.discount_codes for each statement
  when (current_setting('request.headers', true) like '%"x-write-id"%') execute function private.record_staff_write();

-- Execution rights
grant execute on function public.settle_write to authenticated, service_role;

alter publication supabase_realtime add table public.day_closes;

alter publication supabase_realtime add table public.discount_codes;

-- The default texts; the shop's own ones where they are the default.
update public.message_templates as t
set default_body = replace(t.default_body, E'\nDelivery: {delivery_fee}\n', E'\n[Discount: {discount}\n]Delivery: {delivery_fee}\n'),
    body = case
      when t.body = t.default_body
        then replace(t.body, E'\nDelivery: {delivery_fee}\n', E'\n[Discount: {discount}\n]Delivery: {delivery_fee}\n')
      else t.body
    end
where t.kind in ('order_received', 'order_paid') and t.channel = 'mail';

-- Templates say that an order is paid in cash at the door. One that staff edited stays.
update public.message_templates as t
set body = case when t.body = t.default_body then replace(t.body, new.from_text, new.to_text) else t.body end,
    default_body = replace(t.default_body, new.from_text, new.to_text)
from (values
  ('order_received', 'text', ', {total}. Pay', ', {total}[, {cash}]. Pay'),
  ('order_received', 'mail', 'Total: {total}', 'Total: {total}[, {cash}]'),
  ('order_on_its_way', 'text', 'on its way. Follow', 'on its way. [Have {total} ready: {cash}. ]Follow'),
  ('order_on_its_way', 'mail', 'on its way to you.', E'on its way to you.[\n\nPlease have {total} ready: {cash}.]')
) as new (kind, channel, from_text, to_text)
where t.kind = new.kind and t.channel = new.channel;
