-- Faults of orders, payments, sign-in and staff work: readers of M-PESA's messages, refusals and incidents, limits of shared networks,
-- decisions about money, prices and deliveries.

alter type private.payment_report add attribute unreadable text[], add attribute ended_by text;
comment on type private.payment_report is
  'What a message reports about a payment attempt. result: succeeded, failed or pending. received_cents: null if the message names no amount, or one that cannot be read. unreadable: what the message has but cannot be read: code, receipt, amount. ended_by: who can end a failure (payments.ended_by).';
alter type public.active_pause add attribute is_refused boolean;
alter type public.payment_health add attribute refunds_to_approve_by_me bigint;
comment on type public.payment_health is
  'pause: null while prompts work; after its until the next prompt is sent as a probe. refunds_to_approve_by_me: those that other staff requested. limit_raise: the last one of the past week, amounts in cents; current_limit applies now.';
alter type public.statement_status add attribute to_check bigint;
comment on type public.statement_status is
  'missed: gaps of the last 14 days. unsettled_messages: callbacks and confirmations that could not be settled. unmatched: money without a payment. to_check: messages_to_check that wait.';

alter table public.payments add column review_cause text, add column ended_by text;
comment on column public.payments.review_cause is
  'Why the attempt came into review, and stays afterwards. wrong_amount: a message named another amount than the charge, or none. contradiction: a message said that it failed, or gave no known result, but named money.';
comment on column public.payments.ended_by is
  'Who can end the cause of the failure, as the payment function classified it (domain/result-advice.ts). owner: the shop''s settings or account. Null: not failed.';
alter table private.failed_prompts
  add column cause text not null default '', add column order_id uuid, add column is_refused boolean not null default false;
alter table private.mpesa_registrations add column api_version text;
comment on column private.mpesa_registrations.api_version is
  'Version of the C2B API that the app has. Null: of the statement, or not known.';
alter table private.prompt_pause add column is_refused boolean not null default false, add column incident_id uuid;
comment on column private.prompt_pause.is_refused is 'As in prompt_incidents. A request that M-PESA accepts ends such a pause.';
alter table private.limits add column per_paid_order numeric not null default 0;
comment on column private.limits.per_paid_order is
  'Further calls for each order of the network that was paid in the same window, so that a limit fits the thousands of customers behind one address of a mobile network.';
alter table private.order_networks add column phone text;
comment on column private.order_networks.phone is 'The customer''s phone. Null for orders placed before it was stored.';
comment on column public.outbox_messages.order_id is 'Null for newsletter mails and messages to staff.';
comment on column public.outbox_messages.event_key is
  'Event key: distinguishes messages of one kind and order. Empty, or the id of the refund; of newsletter mails the subscription''s id; of messages to staff the id of the incident or the refund.';
comment on column public.outbox_messages.has_priority is
  'Whether the message may use the whole daily budget: its order was paid, or staff caused or sent it. Messages that visitors cause without paying may use half of it.';
comment on column public.store_settings.unpaid_orders_per_phone is
  'Maximum unpaid orders of one phone in one network (of all phones: waiting_orders in private.limits). Wider networks: private.allowance_factor.';

create type public.suggested_order as (
  id uuid, order_number text, tracking_number text, customer_name text, customer_phone text, items text, total_amount integer,
  charge_cents integer, payment_status text, status text, created_at timestamptz, lacks_receipt boolean, is_named boolean,
  fits_amount boolean, phone_match text, shares_name boolean, is_certain boolean
);
comment on type public.suggested_order is
  'An order that money may be for. lacks_receipt: a prompt of this amount and time has no receipt. is_named: the payer''s reference names it. phone_match: as private.compare_payer_phone. is_certain: the only unpaid order whose charge is the amount and whose phone has the payer''s visible digits, and the reference names no other.';

create type public.typed_receipt as (receipt text, state text, reported_cents integer, order_number text);
comment on type public.typed_receipt is
  'What is known about a typed receipt. state: reported (M-PESA has it, with reported_cents), not_reported (its confirmations or statement should have it), or unknown. order_number: the order that it has paid.';

alter type public.reconciliation_row add attribute order_status text, add attribute order_booked_cents bigint,
  add attribute order_waiting_cents bigint, add attribute owed_cents bigint, add attribute returned_cents bigint,
  add attribute confirmed_by uuid;
comment on type public.reconciliation_row is
  'A payment in the books of the shop and of M-PESA, joined by receipt. kind: matched; missing_here (no payment has M-PESA''s receipt); missing_there (a statement covers the payment but lacks it); not_compared (no statement covers it yet); typed (staff typed a receipt that M-PESA should have reported); double; wrong_amount. order_booked_cents: what counts for its order; order_waiting_cents: unassigned money under the order''s number.';

alter type private.search_terms add attribute most_cents integer;
comment on type private.search_terms is
  'A search as it was read. all_words: every word, as typed or similar; null if all words match every drink. exact_words: any word as typed or its meaning. any_words: any word, or similar. correction: the text with typing errors corrected. is_misspelt: whether a word is in no product. most_cents: the highest price that it names.';

alter table public.store_settings add column payment_limit integer not null default 25000000;
comment on column public.store_settings.payment_limit is
  'In cents: the most that M-PESA takes in one payment, and so the largest total of an order.';
grant update (payment_limit) on public.store_settings to authenticated;
grant select (payment_limit) on public.store_settings to anon, authenticated;

alter table public.message_templates drop constraint "a template is of a kind that is known";

alter table public.order_events drop constraint "a kind of event is known";

alter table public.outbox_messages drop constraint "a kind of message is known";

alter table public.outbox_messages drop constraint "a message is about an order or the newsletter";

alter table private.failed_prompts drop constraint failed_prompts_pkey;

alter table public.reconciliation_events drop constraint "a decision is known";

drop function public.begin_payment(uuid,text,text,text,integer);

drop function public.confirm_till_payment(uuid,text,integer,boolean);

drop function public.count_work();

drop function public.message_budgets();

drop function private.delivery_status_for_order(text,text,text);

drop function private.fail_attempt(uuid,text,private.payment_report,text);

drop function private.is_configuration_error(text,text);

drop function private.is_credential_error(text,text);

drop function private.open_order(text,text,text);

drop function private.read_phone(text);

drop function private.refuse_same_amount(payments);

drop function private.refuse_too_many_unpaid_orders(text[],text,integer);

drop function private.return_to_budget(text,boolean,timestamp with time zone);

drop function private.total_of_offer(products,integer,integer,integer);

drop function public.receive_mpesa_transaction(text,text,integer,text,timestamp with time zone,text,text,text,bigint);

drop function public.record_mpesa_registration(text);

drop function public.record_push(uuid,text,text,text,text,text);

drop function public.settle_payment(uuid,text,text,text,text,text,integer,text,text,text,text);

drop function public.settle_reversal(uuid,text,text,text,text,text,text,integer,text,text);

drop function public.suggest_orders(text);

drop function public.system_status();

drop index public.payments_due_for_a_query;

drop index private.order_networks_of_open_orders;

revoke all on public.outbox_messages from anon, authenticated;

revoke all on private.failed_prompts from anon, authenticated;

revoke all on public.reconciliation_events from anon, authenticated;

alter table public.message_templates add constraint "a template is of a kind that is known" CHECK ((kind = ANY (ARRAY['order_received'::text, 'order_paid'::text, 'order_payment_held'::text, 'order_payment_corrected'::text, 'order_on_its_way'::text, 'order_delivered'::text, 'order_refunded'::text, 'order_cancelled'::text, 'order_expired'::text, 'newsletter_confirmation'::text, 'prompts_paused'::text, 'prompts_resumed'::text, 'refund_to_approve'::text])));

alter table public.order_events add constraint "a kind of event is known" CHECK ((kind = ANY (ARRAY['order_placed'::text, 'status_changed'::text, 'payment_status_changed'::text, 'units_taken'::text, 'units_returned'::text, 'payment_prompted'::text, 'payment_completed'::text, 'payment_failed'::text, 'payment_in_review'::text, 'payment_unresolved'::text, 'payment_receipt_known'::text, 'payment_corrected'::text, 'payment_taken_back'::text, 'delivery_made'::text, 'delivery_assigned'::text, 'delivery_status_changed'::text, 'refund_requested'::text, 'refund_approved'::text, 'refund_withdrawn'::text, 'refund_sent'::text, 'refund_unknown'::text, 'refund_failed'::text, 'refund_completed'::text, 'refund_sent_twice'::text, 'refund_sent_twice_seen'::text])));

alter table public.outbox_messages add constraint "a kind of message is known" CHECK ((kind = ANY (ARRAY['order_received'::text, 'order_paid'::text, 'order_payment_held'::text, 'order_payment_corrected'::text, 'order_on_its_way'::text, 'order_delivered'::text, 'order_refunded'::text, 'order_cancelled'::text, 'order_expired'::text, 'newsletter_confirmation'::text, 'prompts_paused'::text, 'prompts_resumed'::text, 'refund_to_approve'::text])));

alter table public.reconciliation_events add constraint "a decision is known" CHECK ((kind = ANY (ARRAY['given'::text, 'not_an_order'::text, 'refund'::text, 'accepted'::text, 'reopened'::text, 'taken_back'::text, 'delivered'::text, 'change_credit'::text, 'change_to_return'::text, 'change_returned'::text])));

alter table public.outbox_messages add constraint "a message is about an order, the newsletter or the shop" CHECK (((order_id IS NULL) = (kind = ANY (ARRAY['newsletter_confirmation'::text, 'prompts_paused'::text, 'prompts_resumed'::text, 'refund_to_approve'::text]))));

alter table public.payments add constraint "a cause of a review is known" CHECK ((review_cause = ANY (ARRAY['wrong_amount'::text, 'contradiction'::text])));

alter table public.payments add constraint "who can end the cause of a failure is known" CHECK ((ended_by = ANY (ARRAY['customer'::text, 'time'::text, 'owner'::text, 'unknown'::text])));

alter table private.failed_prompts add constraint "a phone counts once per cause" PRIMARY KEY (cause, phone);

alter table private.limits add constraint "a paid order takes no calls away" CHECK ((per_paid_order >= (0)::numeric));

alter table private.mpesa_registrations add constraint "a version of C2B is known" CHECK ((api_version = ANY (ARRAY['v1'::text, 'v2'::text])));

alter table public.store_settings add constraint "M-PESA takes a payment of at least one shilling" CHECK (((payment_limit >= 100) AND (payment_limit <= 100000000)));

create or replace function private.normalised_phone(phone text) returns text
language plpgsql immutable set search_path = '' as $$
declare
  written text;
  run text[];
  digits text;
  found_number text;
  has_other_digits boolean := false;
  is_bare boolean := false;
begin
  if octet_length(phone) > 400 or char_length(phone) > 100 then
    return null;
  end if;
  written := regexp_replace(
    translate(phone, '０１２３４５６７８９＋', '0123456789+'),
    '[\u00ad\u0600-\u0605\u061c\u06dd\u070f\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]', '', 'g'
  );
  -- Digits with what people write between them, and a letter that touches them.
  for run in
    select * from regexp_matches(
      written,
      '([a-zA-Z]?)(\+?[0-9](?:[0-9 \t\u00a0\u2000-\u200a\u2010-\u2015\u202f\u2212\u3000().-]*[0-9])?)([a-zA-Z]?)', 'g'
    )
  loop
    digits := regexp_replace(
      regexp_replace(run[2], '[^0-9+]', '', 'g'), '^(?:\+254|00254|254)0?(?=[17])', '0'
    );
    if digits ~ '^[17][0-9]{8}$' and run[1] || run[3] = '' then
      is_bare := true;
      digits := '0' || digits;
    end if;
    if digits ~ '^(\+254|0)[17][0-9]{8}$' then
      if found_number <> right(digits, 9) then
        return null;
      end if;
      found_number := right(digits, 9);
    elsif char_length(digits) > 6 then
      return null;
    else
      has_other_digits := true;
    end if;
  end loop;
  -- Beside other digits, nine digits may be the end of a foreign number.
  if is_bare and has_other_digits then
    return null;
  end if;
  return '+254' || found_number;
end
$$;

comment on function private.normalised_phone is
  'The Kenyan mobile number in a text, also in a link or with a name, as +2547… or +2541…; null for a text without one or with different ones. Reads as domain/phone.ts.';

create or replace function private.visible_length(written text) returns integer
language plpgsql immutable set search_path = '' as $$
begin
  return char_length(regexp_replace(
    written,
    '[\u0001-\u0020\u007f-\u00a0\u00ad\u0300-\u036f\u0483-\u0489\u0591-\u05bd\u0600-\u0605\u0610-\u061c'
    '\u064b-\u065f\u0670\u06d6-\u06dd\u070f\u0900-\u0903\u093a-\u093c\u093e-\u094f\u0e31\u0e34-\u0e3a'
    '\u0e47-\u0e4e\u115f\u1160\u135d-\u135f\u1680\u17b4\u17b5\u180b-\u180f\u1ab0-\u1aff\u1dc0-\u1dff'
    '\u2000-\u200f\u2028-\u202f\u205f-\u206f\u20d0-\u20f0\u2800\u3000\u302a-\u302f\u3099\u309a\u3164'
    '\ufe00-\ufe0f\ufe20-\ufe2f\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff]',
    '', 'g'
  ));
end
$$;

comment on function private.visible_length is
  'Number of characters that a reader sees: without white space, control and format characters, and combining marks. Counts as domain/visible-text.ts.';

create or replace function private.word_length(written text) returns integer
language plpgsql immutable set search_path = '' as $$
begin
  return private.visible_length(regexp_replace(
    written,
    '[\u0021-\u002f\u003a-\u0040\u005b-\u0060\u007b-\u007e\u00a1-\u00a9\u00ab-\u00b4\u00b6-\u00b9'
    '\u00bb-\u00bf\u00d7\u00f7\u02c2-\u02df\u2010-\u2bff\u2e00-\u2e7f\u3001-\u3004\u3008-\u3020\u3030'
    '\ufe10-\ufe1f\ufe30-\ufe6f\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65\ufffc\ufffd'
    '\U0001f000-\U0001faff]',
    '', 'g'
  ));
end
$$;

comment on function private.word_length is
  'Number of letters and digits of any script in a text. Counts as domain/visible-text.ts.';

create or replace function private.normalised_receipt(written text) returns text
language plpgsql immutable set search_path = '' as $$
begin
  if char_length(written) > 100 then
    return null;
  end if;
  -- Checked before the change to capitals, which turns some other letters into these.
  return upper(substring(regexp_replace(
    normalize(written, nfkc),
    '[\s\u0085\u00A0\u00AD\u061C\u1680\u180E\u2000-\u200F\u2028-\u202F\u205F-\u206F\u3000\uFEFF]', '', 'g'
  ) from '^[A-Za-z0-9]{10}$'));
end
$$;

comment on function private.normalised_receipt is
  'An M-PESA receipt in capitals, without blanks; null for any other text. normaliseReceipt in domain/mpesa-receipt.ts.';

create or replace function private.refuse_blank(promise text, written text) returns void
language plpgsql immutable set search_path = '' as $$
begin
  if private.visible_length(refuse_blank.written) = 0 then
    raise exception using
      errcode = 'check_violation', constraint = refuse_blank.promise,
      message = format('the text of "%s" has no visible characters', refuse_blank.promise);
  end if;
end
$$;

comment on function private.refuse_blank is
  'For triggers: refuses a required text of invisible characters as the named check constraint does, which cannot call private functions.';

create or replace function private.is_email(address text) returns boolean
language plpgsql immutable set search_path = '' as $$
declare
  domain text;
begin
  if address is null or octet_length(address) > 1016 or char_length(address) > 254 then
    return false;
  end if;
  -- White space and control characters, written out: \s depends on the database's locale.
  if address ~ '[\u0001-\u0020\u007f-\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff]' then
    return false;
  end if;
  domain := split_part(address, '@', 2);
  return char_length(replace(address, '@', '')) = char_length(address) - 1
    and private.visible_length(split_part(address, '@', 1)) > 0 and private.word_length(domain) > 0
    -- A dot that is neither the first nor the last character.
    and position('.' in substr(domain, 2, greatest(char_length(domain) - 2, 0))) > 0;
end
$$;

comment on function private.is_email is
  'Whether a text can be an email address, by the rule of domain/email.ts: at most 254 characters; one @ with text before it; after it a dot with text on both sides; no spaces or control characters.';

create unlogged table private.network_paid_orders (
  id bigint generated always as identity primary key,
  network text not null,
  within interval not null,
  window_start timestamptz not null,
  window_end timestamptz not null,
  orders integer not null
);

comment on table private.network_paid_orders is
  'Paid orders counted per network and window of a limit, in as many rows as transactions counted at once: each takes a row that no other has locked.';

alter table private.network_paid_orders enable row level security;

create index network_paid_orders_by_window on private.network_paid_orders (network, within, window_start);

create index network_paid_orders_by_window_end on private.network_paid_orders (window_end);

create or replace function private.count_paid_order(networks text[]) returns void
language plpgsql set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  counted record;
begin
  for counted in
    select payer.network, span.within, date_bin(span.within, clock_timestamp(), timestamptz '2000-01-01') as window_start
    from unnest(networks) as payer (network)
    cross join (select distinct l.within from private.limits as l where l.per_paid_order > 0) as span
  loop
    -- Never waits for another transaction: a settlement may have locked products already.
    update private.network_paid_orders as known
    set orders = known.orders + 1
    where known.id = (
      select free.id from private.network_paid_orders as free
      where free.network = counted.network and free.within = counted.within and free.window_start = counted.window_start
      limit 1
      for update skip locked
    );
    if not found then
      insert into private.network_paid_orders (network, within, window_start, window_end, orders)
      values (counted.network, counted.within, counted.window_start, counted.window_start + counted.within, 1);
    end if;
  end loop;
end
$$;

comment on function private.count_paid_order is
  'Counts an order that was paid for the networks of its customer, in the current window of each limit that grows with paid orders.';

create or replace function private.allowance(rule private.limits, network text) returns integer
language plpgsql stable set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  return rule.allowed * private.allowance_factor(allowance.network) + floor(rule.per_paid_order * coalesce((
    select sum(known.orders) from private.network_paid_orders as known
    where known.network = allowance.network and known.within = rule.within
      and known.window_start = date_bin(rule.within, clock_timestamp(), timestamptz '2000-01-01')
  ), 0));
end
$$;

comment on function private.allowance is
  'Calls that a limit allows a network in the current window: its share, and per_paid_order for each of its paid orders.';

create or replace function private.is_within(rule private.limits, network text, hits bigint) returns boolean
language plpgsql stable set search_path = '' as $$
begin
  -- Paid orders are counted only where the share is used up.
  return hits <= rule.allowed * private.allowance_factor(is_within.network)
    or (rule.per_paid_order > 0 and hits <= private.allowance(rule, is_within.network));
end
$$;

comment on function private.is_within is 'Whether a network may make this many calls in the current window of a limit.';

create or replace function private.is_within_limit(rule private.limits, networks text[], subject text) returns boolean
language plpgsql stable set search_path = '' as $$
begin
  return not exists (
    select from unnest(networks) as caller (network)
    where not private.is_within(
      rule, caller.network, private.hits_so_far(rule.name, rtrim(caller.network || ' ' || is_within_limit.subject), rule.within) + 1
    )
  );
end
$$;

create or replace function private.is_within_limit(limit_name text, subject text default '') returns boolean
language plpgsql stable set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  rule private.limits;
begin
  select * into strict rule from private.limits as l where l.name = is_within_limit.limit_name;
  return private.is_within_limit(rule, private.caller_networks(), is_within_limit.subject);
end
$$;

comment on function private.is_within_limit(text, text) is
  'Whether the caller has a call left in this limit, in each network. Counts nothing. True without an IP address.';

create or replace function private.count_call(limit_name text, subject text default '') returns boolean
language plpgsql volatile set search_path = '' as $$
#variable_conflict use_column
declare
  rule private.limits;
  networks text[] := private.caller_networks();
  started timestamptz;
  is_within boolean;
begin
  select * into strict rule from private.limits as l where l.name = count_call.limit_name;
  -- A call over the limit writes nothing, so that one address cannot use up the allowance of its wider networks.
  if not private.is_within_limit(rule, networks, count_call.subject) then
    return false;
  end if;
  started := date_bin(rule.within, clock_timestamp(), timestamptz '2000-01-01');
  with counted as (
    insert into private.rate_limits as known (bucket, subject, window_start, window_end, hits)
    select rule.name, rtrim(caller.network || ' ' || count_call.subject), started, started + rule.within, 1
    from unnest(networks) with ordinality as caller (network, level)
    -- Concurrent calls lock their common counters in the same order.
    order by caller.level
    on conflict (bucket, subject, window_start) do update set hits = known.hits + 1
    returning known.subject, hits
  )
  select coalesce(bool_and(private.is_within(rule, split_part(c.subject, ' ', 1), c.hits)), true) into is_within
  from counted as c;
  return is_within;
end
$$;

comment on function private.count_call is
  'Counts one call in this limit, and subject if given, for each network of the caller. Returns whether all are within their allowance. Bound the subject''s length first. True without an IP address.';

create or replace function private.readable_phone(phone text) returns text
language sql immutable
return regexp_replace(phone, '^\+254(\d{3})(\d{3})(\d{3})$', '0\1 \2 \3');

comment on function private.readable_phone is 'A Kenyan number in groups, as 0712 345 678; others unchanged, as formatPhone of domain/phone.ts.';

create or replace function private.contact_numbers() returns text
language sql stable set search_path = '' as $$
  select private.readable_phone(s.support_phone) || case
    when s.chat_phone <> s.support_phone then ' (WhatsApp ' || private.readable_phone(s.chat_phone) || ')'
    else ''
  end
  from public.store_settings as s;
$$;

comment on function private.contact_numbers is
  'Where customers call the shop or write on WhatsApp: 0712 345 678, with a number for WhatsApp where it is another.';

create or replace function private.time_left(limit_name text) returns text
language plpgsql stable set search_path = '' as $$
declare
  rule private.limits;
  minutes integer;
begin
  select * into strict rule from private.limits as l where l.name = time_left.limit_name;
  minutes := ceil(extract(epoch from
    date_bin(rule.within, clock_timestamp(), timestamptz '2000-01-01') + rule.within - clock_timestamp()
  ) / 60);
  return case
    when minutes <= 1 then 'a minute'
    when minutes < 120 then minutes || ' minutes'
    else ceil(minutes / 60.0) || ' hours'
  end;
end
$$;

comment on function private.time_left is 'The time until the current window of a limit ends, such as 7 minutes or 5 hours.';

create or replace function public.shop_page(
  search text default '',
  brand text default null,
  category text default null,
  sort text default null,
  page integer default 1
) returns jsonb
language plpgsql stable security definer
set search_path = ''
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
  page_size constant integer := 60;
  most_found constant integer := 250;
  wanted text := trim(left(coalesce(shop_page.search, ''), 200));
  of_brand text := left(shop_page.brand, 200);
  of_category text := left(shop_page.category, 200);
  before integer := (least(greatest(coalesce(shop_page.page, 1), 1), 1000) - 1) * page_size;
  is_whole boolean := (select count(*) from (select from public.products as p where p.is_active limit page_size + 1) as few) <= page_size;
  terms private.search_terms;
  found_ids uuid[];
  shown_ids uuid[];
  matching integer;
begin
  if wanted <> '' then
    terms := private.read_search(wanted);
    found_ids := private.found_products(terms, most_found);
  end if;
  if is_whole then
    shown_ids := private.shop_page_ids(null, null, null, 0, page_size);
    matching := coalesce(cardinality(shown_ids), 0);
  elsif wanted <> '' then
    select array_agg(f.id order by f.place) filter (where f.place > before and f.place <= before + page_size), count(*)
    into shown_ids, matching
    from (
      select p.id, row_number() over (
        order by
          case shop_page.sort when 'brand' then lower(p.brand) when 'flavor' then lower(p.category) end,
          case shop_page.sort when 'brand' then p.brand when 'flavor' then p.category end,
          case shop_page.sort when 'price' then p.price end,
          case when shop_page.sort in ('popularity', 'brand', 'flavor', 'price') then p.created_at end desc,
          match.place
      ) as place
      from unnest(found_ids) with ordinality as match (id, place)
      join public.products as p on p.id = match.id
      where (coalesce(of_brand, '') in ('', p.brand)) and (coalesce(of_category, '') in ('', p.category))
    ) as f;
  else
    select coalesce(sum(c.products), 0) into matching
    from private.catalogue_counts as c
    where coalesce(of_brand, '') in ('', c.brand) and coalesce(of_category, '') in ('', c.category);
    shown_ids := private.shop_page_ids(of_brand, of_category, shop_page.sort, before, page_size);
  end if;
  return jsonb_build_object(
    'is_whole', is_whole,
    'count', matching,
    'may_be_more', coalesce(cardinality(found_ids), 0) = most_found,
    'pages', greatest((matching + page_size - 1) / page_size, 1),
    'products', coalesce((
      select jsonb_agg(
        jsonb_build_object(
          'slug', p.slug, 'name', p.name, 'tagline', p.tagline, 'price', p.price, 'previous_price', p.previous_price,
          'image_url', p.image_url, 'category', p.category, 'brand', p.brand, 'stock_quantity', p.stock_quantity
        ) order by s.place
      )
      from unnest(case when matching > 0 then shown_ids else private.shop_page_ids(null, null, null, 0, 12) end)
        with ordinality as s (id, place)
      join public.products as p on p.id = s.id
    ), '[]'),
    'brands', (
      select coalesce(jsonb_agg(distinct c.brand order by c.brand), '[]')
      from private.catalogue_counts as c where c.brand <> ''
    ),
    'categories', (
      select coalesce(jsonb_agg(distinct c.category order by c.category), '[]')
      from private.catalogue_counts as c
      join public.categories as k on k.name = c.category and k.is_active
    ),
    'found', case when is_whole and wanted <> '' then (
      select coalesce(jsonb_agg(p.slug order by f.place), '[]')
      from unnest(found_ids) with ordinality as f (id, place)
      join public.products as p on p.id = f.id
    ) end,
    'correction', case when wanted <> '' then private.better_search(terms) end,
    'most_cents', terms.most_cents
  );
end
$$;

comment on function public.shop_page(text, text, text, text, integer) is
  'What the shop page shows. Up to 60 active products are all given, newest first, with the slugs that a search found, best first. Of more products, 60 per page that match the search, brand and flavour, in the order of sort; if none does, the newest 12. most_cents: the highest price that the search names. count: products that match; may_be_more: the search has reached its 250 best matches.';

-- History of prices

create table public.price_changes (
  id bigint generated always as identity primary key,
  product_id uuid,
  product_name text,
  from_cents integer not null,
  to_cents integer not null,
  changed_by uuid,
  changed_by_email text,
  changed_at timestamptz not null default clock_timestamp(),
  constraint "a change of a price has its product's name" check ((product_id is null) = (product_name is null))
);

comment on table public.price_changes is
  'Changes of prices, and of the delivery fee (without a product). Append-only. It refers to no product, so that it survives one. changed_by_email: the email address at that time.';

alter table public.price_changes enable row level security;

revoke all on public.price_changes from anon, authenticated, service_role;

grant select on public.price_changes to authenticated, service_role;

create policy "staff read every price change" on public.price_changes
  for select to authenticated using ((select public.is_admin()));

create index price_changes_by_product on public.price_changes (product_id, id);

create trigger price_changes_before_change before update or delete on public.price_changes
  for each row execute function private.refuse_change('The history of prices is only added to');

create or replace function private.record_price_change(product_id uuid, product_name text, from_cents integer, to_cents integer) returns void
language sql volatile set search_path = '' as $$
  insert into public.price_changes (product_id, product_name, from_cents, to_cents, changed_by, changed_by_email)
  select record_price_change.product_id, record_price_change.product_name, record_price_change.from_cents,
    record_price_change.to_cents, (select auth.uid()), private.email_of((select auth.uid()))
  where record_price_change.from_cents <> record_price_change.to_cents;
$$;

create or replace function public.typical_price() returns integer
language plpgsql stable security definer set search_path = '' as $$
begin
  perform private.expect_staff();
  return (select percentile_disc(0.5) within group (order by p.price) from public.products as p where p.is_active);
end
$$;

comment on function public.typical_price is 'For staff: the median price of active products in cents. Null without products.';

-- Execution rights
grant execute on function public.product_and_related, public.home_products, public.shop_page
  to anon, authenticated, service_role;

grant execute on function public.staff_settings, public.typical_price to authenticated, service_role;

create or replace function private.split_price(folded text, out words text, out most_cents integer)
language plpgsql immutable set search_path = '' as $$
declare
  currency constant text := '(?:bob|kshs?|kes|shs?|shillings?|shilingi)';
  number constant text := '(\d{1,3}(?: \d{3})+|\d{1,7})';
  -- A lower bound is read, too, but limits nothing.
  named constant text := '\m(?:(over|above|more than|from|at least|zaidi ya) |(?:at|for|about|around|price|kama|bei ya|bei) )?'
    || format('(?:%1$s ?%2$s|%2$s ?%1$s)(?: or less)?\M ?', currency, number);
  limited constant text := format('\m(?:(?:under|below|less than|cheaper than|up to|at most|maximum|max|budget|chini ya|hadi) '
    '(?:%1$s ?)?%2$s(?: ?%1$s)?|%2$s or less)\M ?', currency, number);
  found_price text[];
begin
  words := folded;
  found_price := regexp_match(folded, limited);
  if found_price is not null then
    most_cents := replace(coalesce(found_price[1], found_price[2]), ' ', '')::integer * 100;
    words := regexp_replace(words, limited, '', 'g');
  end if;
  found_price := regexp_match(words, named);
  if found_price is not null then
    if found_price[1] is null then
      most_cents := coalesce(most_cents, replace(coalesce(found_price[2], found_price[3]), ' ', '')::integer * 100);
    end if;
    words := regexp_replace(words, named, '', 'g');
  end if;
  words := trim(words);
end
$$;

comment on function private.split_price is
  'Separates the price in a folded search from its words: most_cents is the highest price wanted, null without one. words has no price.';

-- The number of corrected and compared words, indexes and the number of synonyms bound the cost of a search (docs/decisions/search.md).
create or replace function private.read_search(search text) returns private.search_terms
language plpgsql stable
set search_path = ''
-- The embedded database gathers no statistics: without this it scans tables. Where it must scan one, the estimated cost would start
-- the JIT compiler.
set enable_seqscan = off
-- Parts of words are found in the trigram index: with a limit the planner would rather scan all words in order.
set enable_indexscan = off
set enable_indexonlyscan = off
set jit = off
-- Minimum similarity of a word with a typing error. The edit distance then decides.
set pg_trgm.similarity_threshold = 0.2
as $$
declare
  -- "700/=" and "<700" name a price.
  folded text := private.fold_text(
    regexp_replace(regexp_replace(left(search, 100), '(\d) ?/[=-]', '\1 bob', 'g'), '[<≤] ?(\d)', 'under \1', 'g')
  );
  priced record;
  shop_name text;
  all_words tsquery;
  exact_words tsquery;
  any_words tsquery;
  is_misspelt boolean := false;
  words text[];
  word_index integer := 1;
  word_count integer;
  typed text;
  meaning text;
  exact tsquery;
  wide tsquery;
  others text[];
  best text;
  halves text[];
  found_count integer;
  corrected text[] := '{}';
  -- More words have fewer similar words each, and only three unknown words are corrected, so that the cost does not grow with the text.
  max_similar integer;
  corrected_count integer := 0;
  -- Other drinks that people ask for: words that need no correction.
  known_words constant text[] :=
    '{afia,beer,chai,cider,coffee,coke,cola,fanta,guinness,kahawa,keringet,konyagi,krest,maziwa,milk,minute,mirinda,monster,novida,pepsi,picana,quencher,rum,savanna,schweppes,smirnoff,sprite,stoney,tusker,vodka,water,whisky,wine,yoghurt,yogurt}';
begin
  -- A price matches every drink: "500 bob" is no size.
  priced := private.split_price(folded);
  if priced.words <> folded then
    folded := priced.words;
    exact_words := '';
  end if;
  select private.fold_text(s.store_name) into shop_name from public.store_settings as s;
  -- Some characters fold to several.
  words := (string_to_array(left(folded, 200), ' '))[1:10];
  max_similar := greatest(4, 40 / greatest(coalesce(cardinality(words), 0), 2));
  while word_index <= coalesce(cardinality(words), 0) loop
    -- The longest phrase from here on that has a meaning, else one word, or two that the catalogue writes as one.
    word_count := least(3, cardinality(words) - word_index + 1);
    loop
      typed := array_to_string(words[word_index : word_index + word_count - 1], ' ');
      meaning := private.meaning_of(typed);
      exit when meaning is not null or word_count = 1;
      word_count := word_count - 1;
    end loop;
    if meaning is null and word_index < cardinality(words)
      and exists (select from private.search_words as w where w.word = words[word_index] || words[word_index + 1])
    then
      word_count := 2;
      typed := words[word_index] || words[word_index + 1];
    end if;
    typed := left(typed, 60);
    if typed = any ('{a,an,and,the,of,for,with,in,to,or,my,na,ya,wa,za,la,cha,vya,kwa,au}') then
      word_index := word_index + word_count;
      continue;
    end if;
    -- The shop's own name matches every drink.
    if (typed = any (string_to_array(shop_name, ' ')) or typed in (shop_name || 's', replace(shop_name, ' ', '')))
      and not exists (select from private.search_words as w where w.word = typed)
    then
      exact_words := coalesce(exact_words, '');
      corrected := corrected || typed;
      word_index := word_index + 1;
      continue;
    end if;

    exact := plainto_tsquery('private.catalogue', typed);
    if meaning <> '' then
      exact := exact || to_tsquery('private.catalogue', replace(meaning, ' ', ' | '));
    end if;
    -- Words that begin with it, words that contain it, and the meanings of synonyms that begin with it.
    select array_agg(near.word) into others
    from (
      (
        select w.word from private.search_words as w
        where w.word > typed and w.word < typed || E'\uffff'
        limit max_similar
      )
      union
      (
        select w.word from private.search_words as w
        where char_length(typed) between 4 and 24 and w.word like '%' || typed || '%' and w.word <> typed
        limit max_similar
      )
      union
      (
        select m.word
        from public.search_synonyms as s, string_to_table(s.means, ' ') as m (word)
        where meaning is null and char_length(typed) >= 2 and s.word > typed and s.word like typed || '%'
          and s.word not like '% %' and m.word <> ''
        limit max_similar
      )
    ) as near;

    best := null;
    if meaning is null and others is null and char_length(typed) between 4 and 24 and typed !~ '\d' and corrected_count < 3
      and typed <> all (known_words) then
      corrected_count := corrected_count + 1;
      select count(*) into found_count
      from (select from private.searchable_products as s where s.words @@ exact limit 3) as s;
      if found_count < 3 then
        -- The words with the fewest edits; swapped neighbours count as one edit.
        with alike as (
          (
            select w.word, w.is_name from private.search_words as w
            where w.word operator(extensions.%) typed
              and (w.is_name or greatest(char_length(w.word), char_length(typed)) > 4)
          )
          union
          select s.word, true from public.search_synonyms as s where s.word not like '% %'
        ), compared as (
          select a.word, a.is_name,
            d.edits - (
              d.edits = 2
              and (select string_agg(c, '' order by c) from string_to_table(a.word, null) as c)
                = (select string_agg(c, '' order by c) from string_to_table(typed, null) as c)
            )::integer as edits
          from alike as a
          cross join lateral (select extensions.levenshtein_less_equal(a.word, typed, 2) as edits) as d
          where d.edits between 1 and 2
        ), nearest as (
          select n.word, n.is_name, n.edits, min(n.edits) over () as fewest
          from compared as n
          -- People seldom mistype the first letter.
          where n.edits <= case when char_length(typed) <= 5 or left(n.word, 1) <> left(typed, 1) then 1 else 2 end
        )
        select array_agg(n.word order by not n.is_name, right(n.word, 1) <> right(typed, 1), extensions.similarity(n.word, typed) desc, n.word) into others
        from nearest as n
        where n.edits = n.fewest;
        best := others[1];
        if found_count > 0 then
          -- The word has matches: similar words are suggested, not searched.
          others := null;
        elsif best is not null then
          is_misspelt := true;
          meaning := private.meaning_of(best);
          if meaning <> '' then
            others := others || string_to_array(meaning, ' ');
          end if;
        else
          -- Two words without their space.
          select array[left(typed, cut), substr(typed, cut + 1)] into halves
          from generate_series(3, char_length(typed) - 3) as cut
          where cardinality(words) < 12
            and (select count(*) from unnest(array[left(typed, cut), substr(typed, cut + 1)]) as half
              where exists (select from private.search_words as w where w.word = half)
                or private.meaning_of(half) is not null) = 2
          order by cut desc
          limit 1;
          if found then
            is_misspelt := true;
            words := words[: word_index - 1] || halves || words[word_index + word_count :];
            continue;
          end if;
          -- A longer word that begins with a name: lemonade.
          select array[w.word] into others
          from private.search_words as w
          where w.is_name and w.word = any (array(select left(typed, n) from generate_series(4, char_length(typed) - 1) as n))
          order by char_length(w.word) desc
          limit 1;
          best := others[1];
          is_misspelt := is_misspelt or best is not null;
        end if;
      end if;
    end if;

    wide := exact;
    if others is not null then
      wide := wide || to_tsquery('private.catalogue', array_to_string(others, ' | '));
    end if;
    corrected := corrected || coalesce(best, typed);
    exact_words := coalesce(exact_words || exact, exact);
    any_words := coalesce(any_words || wide, wide);
    if meaning is distinct from '' then
      all_words := coalesce(all_words && wide, wide);
    end if;
    word_index := word_index + word_count;
  end loop;
  return (folded, all_words, exact_words, any_words, array_to_string(corrected, ' '), is_misspelt, priced.most_cents)::private.search_terms;
end
$$;

comment on function private.read_search is 'Parses a search.';

create or replace function private.found_products(terms private.search_terms, most integer) returns uuid[]
language plpgsql stable
set search_path = ''
set enable_seqscan = off
set jit = off
as $$
declare
  -- At most this many matches are ranked; of more, the newest.
  compared integer := greatest(most, 250);
  candidates tid[];
  by_word tid[];
  found_ids uuid[] := '{}';
  affordable uuid[];
begin
  if terms.exact_words is not null then
    by_word := array(
      select s.ctid from private.searchable_products as s
      where s.words @@ coalesce(terms.all_words, terms.exact_words)
      limit compared
    );
    candidates := by_word;
    -- There may be more: those named so, and the newest.
    if cardinality(by_word) = compared then
      candidates := candidates || array(
        select s.ctid from private.searchable_products as s where s.name ~>=~ terms.folded and s.name ~<~ (terms.folded || E'\uffff') limit compared
      ) || array(
        select s.ctid from private.searchable_products as s
        where to_tsvector('private.catalogue', s.name) @@ coalesce(terms.all_words, terms.exact_words)
        limit compared
      ) || array(
        select n.ctid
        from (
          select s.ctid, s.words from private.searchable_products as s
          order by s.created_at desc, s.product_id
          limit 2 * compared
        ) as n
        where n.words @@ coalesce(terms.all_words, terms.exact_words)
      );
    end if;
    found_ids := private.ranked_products(candidates, terms.folded, terms.exact_words, terms.any_words, most);
    -- Some of the words, where hardly any product matches all of them.
    if terms.all_words <> terms.any_words and cardinality(found_ids) < least(most, 3) then
      candidates := array(
        select s.ctid from private.searchable_products as s where s.words @@ terms.any_words limit compared
      );
      found_ids := (array(
        select f.id
        from unnest(found_ids || private.ranked_products(candidates, terms.folded, terms.exact_words, terms.any_words, most))
          with ordinality as f (id, place)
        group by f.id
        order by min(f.place)
      ))[:most];
    end if;
  end if;
  -- No word narrows the search: every drink, newest first.
  if terms.all_words is null and (terms.exact_words is not null or terms.folded is null) then
    found_ids := found_ids || array(
      select s.product_id from private.searchable_products as s
      where s.product_id <> all (found_ids)
      order by s.created_at desc, s.product_id
      limit most - cardinality(found_ids)
    );
  end if;
  if terms.most_cents is not null then
    affordable := array(
      select p.id from unnest(found_ids) with ordinality as f (id, place) join public.products as p on p.id = f.id
      where p.price <= terms.most_cents
      order by f.place
    );
    -- Where nothing is that cheap, what comes closest.
    found_ids := case when cardinality(affordable) > 0 then affordable else array(
      select p.id from unnest(found_ids) with ordinality as f (id, place) join public.products as p on p.id = f.id
      order by p.price, f.place
    ) end;
  end if;
  return found_ids;
end
$$;

comment on function private.found_products is
  'Ids of the active products that match a search, best first. Without a text: the newest. A price in the search limits them; where nothing is that cheap, the cheapest come first.';

create or replace function private.read_order_details(
  customer_name text, customer_email text, customer_phone text, delivery_location text, building text, unit text,
  delivery_notes text
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
  email := trim(customer_email);
  phone := private.normalised_phone(customer_phone);
  location := trim(delivery_location);
  building_name := nullif(trim(building), '');
  unit_name := nullif(trim(unit), '');
  -- Line feeds stay; other control characters become spaces.
  notes := nullif(trim(regexp_replace(delivery_notes, '[\u0001-\u0009\u000b-\u001f\u007f-\u009f]', ' ', 'g')), '');

  -- Names and addresses appear in messages to customers: single lines without control or bidirectional characters.
  if name is null or private.visible_length(name) < 2 or private.has_control_characters(name) then
    perform private.refuse(400, 'name_invalid', 'Please enter a valid name (at least 2 characters)');
  elsif char_length(name) > 120 then
    perform private.refuse(400, 'name_too_long', 'The name is longer than 120 characters');
  elsif char_length(email) > 254 then
    perform private.refuse(400, 'email_too_long', 'The email address is longer than 254 characters');
  elsif not private.is_email(email) or private.has_control_characters(email) then
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
    name, email, phone, location || coalesce(', Building: ' || building_name, '') || coalesce(', Unit: ' || unit_name, ''), notes
  )::private.order_details;
end
$$;

comment on function private.read_order_details is 'Checks and trims what a customer typed; refuses what is missing, invalid or too long.';

create or replace function private.refuse_above_payment_limit(payment_limit integer) returns void
language plpgsql set search_path = '' as $$
begin
  perform private.refuse(400, 'total_too_large',
    format('M-PESA takes at most KSh %s in one payment. Please order less, or contact us for a large order',
      to_char(payment_limit / 100, 'FM999,999,999')),
    payment_limit::text);
end
$$;

comment on function private.refuse_above_payment_limit is
  'Refuses an order that M-PESA cannot charge in one payment. The hint is the limit in cents.';

create or replace function private.total_of_offer(
  product public.products, quantity integer, settings public.store_settings, expected_total integer
) returns integer
language plpgsql stable set search_path = '' as $$
declare
  total bigint := product.price::bigint * total_of_offer.quantity + settings.delivery_fee;
begin
  if product.id is null then
    perform private.refuse(404, 'product_unavailable', 'This product is not available');
  elsif product.stock_quantity = 0 then
    perform private.refuse(409, 'out_of_stock', 'This product is out of stock');
  elsif product.stock_quantity < total_of_offer.quantity then
    perform private.refuse(409, 'not_enough_stock', format('Only %s left in stock', product.stock_quantity), product.stock_quantity::text);
  -- M-PESA charges whole shillings.
  elsif (total + 99) / 100 * 100 > settings.payment_limit then
    perform private.refuse_above_payment_limit(settings.payment_limit);
  elsif total_of_offer.expected_total is distinct from total then
    perform private.refuse(409, 'total_changed',
      'The price has changed since you opened this page. Please check the new total', total::text);
  end if;
  return total;
end
$$;

comment on function private.total_of_offer is
  'Price of the units and the delivery fee, in cents. Refuses an order whose product (null: not for sale), stock or total is not what its customer saw.';

create or replace function public.place_order(
  idempotency_key uuid,
  product_id uuid,
  quantity integer,
  customer_name text,
  customer_email text,
  customer_phone text,
  delivery_location text,
  expected_total integer,
  building text default null,
  unit text default null,
  delivery_notes text default null,
  accepts_terms boolean default null
) returns jsonb
language plpgsql security definer
set search_path = ''
-- A cached plan made for few orders must not scan or join many.
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
-- The functions it calls inherit this: one with an array as parameter would be planned again at each call.
set plan_cache_mode = force_generic_plan
set jit = off
as $$
#variable_conflict use_column
declare
  -- Counted before the subtransaction of the block below, so that a refusal does not roll it back.
  is_within_limit boolean := private.count_call('place_order');
  customer private.order_details;
  fingerprint text;
  earlier private.order_keys;
  settings public.store_settings;
  product public.products;
  total integer;
  refusal jsonb;
  new_order public.orders;
  number text;
  -- Empty for staff and the shop itself, whose unpaid orders are not limited.
  networks text[] := case
    when coalesce((select auth.role()), '') = 'service_role' or public.is_admin() then '{}'
    else private.caller_networks()
  end;
  is_held boolean;
  expires_at timestamptz;
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
  end if;

  customer := private.read_order_details(
    place_order.customer_name, place_order.customer_email, place_order.customer_phone, place_order.delivery_location,
    place_order.building, place_order.unit, place_order.delivery_notes
  );
  if place_order.quantity is null or place_order.quantity < 1 then
    perform private.refuse(400, 'quantity_invalid', 'The quantity must be at least 1');
  end if;
  fingerprint := encode(sha256(convert_to(
    jsonb_build_array(place_order.product_id, place_order.quantity, customer.name, customer.email, customer.phone, customer.address,
      customer.notes, place_order.expected_total)::text, 'UTF8'
  )), 'hex');

  -- The first request with a key places the order; concurrent ones with the same key wait here.
  insert into private.order_keys (idempotency_key, request_hash)
  values (place_order.idempotency_key, fingerprint)
  on conflict do nothing;
  if not found then
    select * into strict earlier from private.order_keys as k where k.idempotency_key = place_order.idempotency_key;
    if earlier.request_hash <> fingerprint then
      perform private.refuse(409, 'idempotency_key_reused', 'This idempotency key belongs to another order');
    end if;
    return private.placed_order(earlier.order_id);
  end if;

  select * into strict settings from public.store_settings;
  if settings.requires_terms_tick and place_order.accepts_terms is not true then
    perform private.refuse(400, 'terms_not_accepted', 'Please confirm that you are 18 or older and accept our terms and privacy notice');
  end if;
  perform private.refuse_too_many_unpaid_orders(networks, customer.phone, settings);

  select * into product from public.products as p where p.id = place_order.product_id and p.is_active;
  total := private.total_of_offer(product, place_order.quantity, settings, place_order.expected_total);
  is_held := private.may_hold_units(
    networks, product.id, place_order.quantity, product.stock_quantity, settings.reserved_share_percent
  );
  expires_at := now() + make_interval(mins => settings.reservation_minutes);
  for attempt in 1 .. 10 loop
    number := private.draw_tracking_number();
    insert into public.orders (
      tracking_number, customer_name, customer_email, customer_phone, shipping_address, delivery_notes,
      delivery_fee, total_amount, reserved_until, expires_at, expiry_limit, terms_accepted_at, accepted_terms
    ) values (
      number, customer.name, customer.email, customer.phone, customer.address, customer.notes,
      settings.delivery_fee, total, case when is_held then expires_at end, expires_at,
      now() + 2 * make_interval(mins => settings.reservation_minutes),
      case when place_order.accepts_terms then now() end,
      case when place_order.accepts_terms then (
        select coalesce(jsonb_object_agg(t.slug, t.updated_at), '{}') || jsonb_build_object('is_ticked', settings.requires_terms_tick)
        from public.shop_texts as t
        where t.slug in ('terms', 'privacy')
      ) end
    )
    on conflict (tracking_number) do nothing
    returning * into new_order;
    continue when not found;
    -- Orders of one product wait for each other from here to their end, so that the costly part comes before. Another order may have
    -- changed what is left.
    select * into product from public.products as p where p.id = place_order.product_id and p.is_active for no key update;
    perform private.total_of_offer(product, place_order.quantity, settings, place_order.expected_total);
    exit when not is_held or private.may_hold_units(
      networks, product.id, place_order.quantity, product.stock_quantity, settings.reserved_share_percent
    );
    is_held := false;
    delete from public.orders as o where o.id = new_order.id;
    new_order := null;
  end loop;
  if new_order.id is null then
    perform private.refuse(503, 'no_tracking_number', 'No tracking number could be drawn. Please try again');
  end if;

  if is_held then
    update public.products as p set stock_quantity = p.stock_quantity - place_order.quantity where p.id = product.id;
  end if;
  insert into public.order_items (order_id, product_id, product_name, quantity, unit_price)
  values (new_order.id, product.id, product.name, place_order.quantity, product.price);
  insert into private.order_networks (order_id, network, product_id, taken, phone)
  select new_order.id, caller.network, product.id, case when is_held then place_order.quantity else 0 end, customer.phone
  from unnest(networks) as caller (network);
  update private.order_keys as k set order_id = new_order.id where k.idempotency_key = place_order.idempotency_key;
  return private.placed_order(new_order.id);
exception when sqlstate 'PT000' then
  get stacked diagnostics refusal_details = pg_exception_detail, refusal_hint = pg_exception_hint;
  refusal := private.refusal_answer(sqlstate, sqlerrm, refusal_details, refusal_hint);
  -- Current figures for the form.
  if product.id is not null then
    refusal := refusal || jsonb_build_object('quote', jsonb_build_object(
      'price', product.price, 'delivery_fee', settings.delivery_fee,
      'total', product.price::bigint * place_order.quantity + settings.delivery_fee,
      'units_left', product.stock_quantity
    ));
  end if;
  return refusal;
end
$$;

comment on function public.place_order is
  'Places an order in one transaction: price and fee from the database, a new tracking number, units held (reserved_until) unless unpaid orders hold too many. The same key again returns the same order. A refusal includes quote: the current price, delivery_fee, total and units_left.';

-- Execution rights
grant execute on function public.place_order to anon, authenticated, service_role;

create index order_networks_of_open_orders on private.order_networks (network, phone) where is_open;

create or replace function private.end_reviews() returns void
language plpgsql
set search_path = ''
-- Starts from the few attempts under review, not from all orders in order of id.
set enable_sort = on
set enable_bitmapscan = on
set jit = off
as $$
declare
  reviewed record;
  minutes interval := (select make_interval(mins => s.reservation_minutes) from public.store_settings as s);
begin
  for reviewed in
    select o.id as order_id, p.id as payment_id
    from public.payments as p
    join public.orders as o on o.id = p.order_id
    where p.status = 'review' and (
      case
        when exists (select from public.mpesa_transactions as t where t.attempt_id = p.id) then not exists (
          -- Resolved money belongs to another payment, was refunded, or was noted.
          select from public.mpesa_transactions as t
          where t.attempt_id = p.id and t.payment_id is null and coalesce(t.resolution, '') not in ('accepted', 'not_an_order')
            and not exists (select from public.refunds as r where r.receipt = t.receipt and r.status = 'completed')
        )
        else 'accepted' = (
          select e.kind from public.reconciliation_events as e where e.payment_id = p.id order by e.id desc limit 1
        )
      end
    )
    order by o.id
    for update of o skip locked
  loop
    -- updated_at stays: it decides the day in the books.
    update public.payments as p set status = 'failed', next_query_at = null where p.id = reviewed.payment_id and p.status = 'review';
    -- The customer gets the time of a new order to pay again.
    update public.orders as o
    set expires_at = greatest(o.expires_at, now() + minutes),
        reserved_until = case when o.reserved_until is not null then greatest(o.expires_at, now() + minutes) end,
        expiry_limit = greatest(o.expiry_limit, now() + 2 * minutes), extended_at = null
    where o.id = reviewed.order_id and o.payment_status = 'unpaid' and o.status <> 'cancelled';
  end loop;
end
$$;

comment on function private.end_reviews is
  'Ends attempts under review whose money staff have resolved. A later success still supersedes this.';

create or replace function private.count_held_units(old public.orders, new public.orders) returns void
language plpgsql set search_path = '' set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
declare
  paid_networks text[];
  was_held boolean := old.payment_status = 'unpaid' and old.reserved_until is not null and old.status in ('pending', 'cancelled');
  is_held boolean := new.id is not null
    and new.payment_status = 'unpaid' and new.reserved_until is not null and new.status in ('pending', 'cancelled');
begin
  if is_held and not was_held then
    insert into private.held_units as known (product_id, quantity)
    select i.product_id, sum(i.quantity)
    from public.order_items as i
    where i.order_id = new.id and i.product_id is not null
    group by i.product_id
    order by i.product_id
    on conflict (product_id) do update set quantity = known.quantity + excluded.quantity;
  elsif was_held and not is_held then
    update private.held_units as known
    set quantity = known.quantity - held.quantity
    from (
      select i.product_id, sum(i.quantity) as quantity
      from public.order_items as i
      where i.order_id = old.id
      group by i.product_id
    ) as held
    where known.product_id = held.product_id;
  end if;
  if new.id is null then
    return;
  end if;

  -- Paid orders, and unpaid ones that were handed over, are not limited.
  if new.payment_status <> 'unpaid' or new.status not in ('pending', 'cancelled') then
    with forgotten as (
      delete from private.order_networks as k where k.order_id = new.id returning k.network
    )
    select array_agg(f.network) into paid_networks from forgotten as f;
    if new.payment_status <> 'unpaid' and paid_networks is not null then
      perform private.count_paid_order(paid_networks);
    end if;
  else
    update private.order_networks as k
    set is_open = new.status = 'pending',
        taken = k.taken + case
          when is_held and not was_held then coalesce((
            select sum(i.quantity) from public.order_items as i where i.order_id = new.id and i.product_id = k.product_id
          ), 0)
          else 0
        end,
        ended_at = case when not is_held then coalesce(k.ended_at, now()) end
    where k.order_id = new.id;
  end if;
end
$$;

create or replace function private.refuse_too_many_unpaid_orders(networks text[], phone text, settings public.store_settings) returns void
language plpgsql set search_path = '' set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
#variable_conflict use_column
declare
  rule private.limits;
  caller_network text;
  most integer;
begin
  select * into strict rule from private.limits as l where l.name = 'waiting_orders';
  foreach caller_network in array networks loop
    -- Only orders of the same network count, so that a stranger's orders with this phone do not block the customer.
    most := settings.unpaid_orders_per_phone * private.allowance_factor(caller_network);
    if (
      select count(*) from (
        select from private.order_networks as k
        where k.network = caller_network and k.is_open and k.phone = refuse_too_many_unpaid_orders.phone
        limit most
      ) as of_phone
    ) >= most then
      perform private.refuse(429, 'too_many_unpaid_orders', format(
        '%s orders of this phone wait to be paid already. Please pay one of them first, or try again in %s minutes',
        most, settings.reservation_minutes
      ));
    end if;
    most := private.allowance(rule, caller_network);
    if (
      select count(*) from (
        select from private.order_networks as k where k.network = caller_network and k.is_open limit most
      ) as of_network
    ) >= most and not private.has_paid(refuse_too_many_unpaid_orders.phone) then
      perform private.refuse(429, 'too_many_unpaid_orders', format(
        'Too many orders from your network wait to be paid already. Please try again in %s minutes, or call or WhatsApp us on %s',
        settings.reservation_minutes, private.contact_numbers()
      ));
    end if;
  end loop;
end
$$;

comment on function private.refuse_too_many_unpaid_orders is
  'Refuses an order when a network of its customer has as many unpaid orders as allowed: of its phone unpaid_orders_per_phone times private.allowance_factor, of all phones the allowance of the limit waiting_orders, unless its phone has paid before.';

create or replace function public.track_order(tracking_number text, access_key text default null, phone_last_four text default null)
returns jsonb
language plpgsql volatile security definer set search_path = '' as $$
declare
  opened record;
begin
  select * into opened
  from private.open_order(track_order.tracking_number, track_order.access_key, track_order.phone_last_four);
  if opened.refusal is not null then
    return opened.refusal;
  end if;
  if (opened.found_order).id is null then
    return null;
  end if;
  if opened.is_by_order_number and not opened.is_open then
    return private.describe_by_order_number(opened.found_order);
  end if;
  return private.describe_order(opened.found_order, opened.is_open);
end
$$;

comment on function public.track_order is
  'An order by a text with its tracking number: status, items and total, and after 30 days only the status. Proof (the access key, the last four digits of the phone, or the whole number) adds id, access key and personal data, reserved_until, expires_at, paid_cents, part_paid_cents, and whether the customer pays without a prompt (are_prompts_paused). live_handle: name of the live channel. payment_check of an unpaid order: review (staff check a payment), goes_back (its money is being refunded), prompted (a prompt is open), unresolved (M-PESA gave no result). is_refunding: a refund of the paid order is in progress. cancelled_because: not_paid_in_time or by_shop. By its order number (ORD-...), which can be guessed, without proof: only status, order_number and needs_digits. Null: no such order, or several.';

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
      ) order by i.created_at, i.id)
      from public.order_items as i
      left join public.products as p on p.id = i.product_id
      where i.order_id = described.id
    ), '[]'::jsonb)
  );
  if not is_open then
    return answer;
  end if;
  return answer || jsonb_build_object(
    'id', described.id,
    'access_key', (select k.access_key from private.order_keys as k where k.order_id = described.id),
    'shipping_address', described.shipping_address, 'delivery_notes', described.delivery_notes,
    'are_prompts_paused', described.payment_status = 'unpaid' and public.are_prompts_paused()
  );
end
$$;

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
        order by i.created_at, i.id
      )
      from public.order_items as i where i.order_id = receipt_of.id
    ), '[]'::jsonb),
    'payments', coalesce((
      select jsonb_agg(
        jsonb_build_object(
          'id', p.id, 'charge_cents', p.charge_cents, 'receipt', p.receipt, 'completed_at', p.completed_at,
          'is_surplus', p.needs_refund, 'refunded_at', p.refunded_at, 'refund_receipt', p.refund_receipt
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

create or replace function private.count_order_lookup(tracking_number text) returns boolean
language plpgsql set search_path = '' as $$
declare
  number_of_caller text := (private.caller_networks())[1] || ' ' || count_order_lookup.tracking_number;
begin
  if not private.count_call('order_lookups') then
    return false;
  end if;
  -- The same number counts once a day, so that an open page is not limited.
  if number_of_caller is null or private.hits_so_far('order_looked_up', number_of_caller, interval '1 day') > 0 then
    return true;
  end if;
  if not private.count_call('orders_looked_up') then
    return false;
  end if;
  perform private.count_hit('order_looked_up', number_of_caller, interval '1 day');
  return true;
end
$$;

comment on function private.count_order_lookup is
  'Counts a lookup without proof, and returns whether it is allowed: per network a number in 10 minutes (order_lookups), and of different numbers a day (orders_looked_up).';

create or replace function private.refuse_lookup() returns jsonb
language plpgsql volatile set search_path = '' as $$
begin
  return private.refusal_answer('PT429', format(
    'Too many look-ups. Please try again in %s, or call or WhatsApp us on %s',
    private.time_left(case when private.is_within_limit('order_lookups') then 'orders_looked_up' else 'order_lookups' end),
    private.contact_numbers()
  ), 'too_many_lookups', '');
end
$$;

comment on function private.refuse_lookup is 'The response to a lookup without proof above a limit.';

create or replace function private.open_order(
  tracking_number text, access_key text, phone_digits text, out found_order public.orders, out is_open boolean,
  out is_by_order_number boolean, out refusal jsonb
)
language plpgsql set search_path = '' as $$
#variable_conflict use_column
declare
  numbers text[];
  wanted text := coalesce(upper(trim(left(open_order.tracking_number, 40))), '');
  digits text := nullif(trim(left(open_order.phone_digits, 40)), '');
  needs_whole_phone boolean;
  networks text[];
begin
  select * into found_order from public.orders as o where o.tracking_number = wanted;
  is_by_order_number := false;
  if not found then
    numbers := private.order_numbers_in(open_order.tracking_number);
    select * into found_order from public.orders as o where o.id = private.order_of_reference(open_order.tracking_number);
    is_by_order_number := found and found_order.tracking_number <> all (numbers);
    -- Each spelling of a number counts for the same limits.
    wanted := coalesce(found_order.tracking_number, numbers[1], wanted);
  end if;
  is_open := exists (
    select from private.order_keys as k
    where k.order_id = found_order.id and k.access_key = left(open_order.access_key, 64)
  );
  if is_open then
    return;
  end if;

  if digits is not null then
    -- Guesses are serialised, so that each is counted before the next is compared. Unknown numbers take the same path, so that the
    -- response does not distinguish them.
    perform pg_advisory_xact_lock(hashtext('order_digits ' || wanted));
    -- The widest network contains the others. Always after the order, so that two guesses never wait for each other.
    networks := private.caller_networks();
    perform pg_advisory_xact_lock(hashtext('digits ' || networks[cardinality(networks)]));
    if not private.is_within_limit('order_digits', wanted) then
      refusal := private.refusal_answer('PT429', format(
        'Too many wrong digits for this order. Please try again in %s, or call or WhatsApp us on %s', private.time_left('order_digits'), private.contact_numbers()
      ), 'too_many_guesses', '');
      return;
    end if;
    if not private.is_within_limit('digits') then
      refusal := private.refusal_answer('PT429', format(
        'Too many wrong digits from your network. Please try again in %s, or call or WhatsApp us on %s', private.time_left('digits'), private.contact_numbers()
      ), 'too_many_guesses', '');
      return;
    end if;
    -- Many networks together could try all 10,000 endings. After 200 misses only the whole number opens the order.
    needs_whole_phone := private.hits_so_far('order_digits_of_all', wanted, interval '30 days') >= 200;
    is_open := coalesce(
      private.normalised_phone(digits) = found_order.customer_phone
        or (right(found_order.customer_phone, 4) = digits and not needs_whole_phone),
      false
    );
    if is_open then
      return;
    end if;
    perform private.count_call('order_digits', wanted);
    perform private.count_call('digits');
    if found_order.id is not null then
      perform private.count_hit('order_digits_of_all', wanted, interval '30 days');
    end if;
    if needs_whole_phone then
      refusal := private.refusal_answer('PT429', 'Too many wrong digits for this order. Please enter the whole phone number',
        'too_many_guesses', '');
      return;
    end if;
  end if;

  if not private.count_order_lookup(wanted) then
    refusal := private.refuse_lookup();
  end if;
end
$$;

comment on function private.open_order is
  'Finds an order and checks the proof: its access key, the last four digits of its phone, or the whole number. is_open: the proof is valid; that is not counted. is_by_order_number: only its order number was given. refusal: the response when the caller is over a limit.';

create or replace function private.describe_by_order_number(described public.orders) returns jsonb
language sql stable set search_path = '' as $$
  select jsonb_build_object(
    'order_number', described.order_number, 'status', private.shown_status(described.status), 'is_masked', true, 'needs_digits', true
  );
$$;

comment on function private.describe_by_order_number is
  'The order as a caller may see it who gave only its order number. Order numbers are consecutive, so neither payment nor tracking number is shown.';

create or replace function public.orders_by_access_key(access_keys text[]) returns jsonb
language plpgsql volatile security definer
set search_path = ''
-- Without statistics the embedded database would scan all keys.
set enable_seqscan = off
set jit = off
as $$
#variable_conflict use_column
declare
  answer jsonb;
begin
  select jsonb_agg(private.order_facts(o, true) order by o.created_at desc) into answer
  from (select distinct left(requested.access_key, 64) as access_key from unnest(access_keys[1:20]) as requested (access_key)) as known
  join private.order_keys as k on k.access_key = known.access_key
  join public.orders as o on o.id = k.order_id;
  -- Valid keys are not counted, as in track_order.
  if answer is null and not private.count_call('order_lookups') then
    return private.refuse_lookup();
  end if;
  return coalesce(answer, '[]'::jsonb);
end
$$;

comment on function public.orders_by_access_key is
  'State of the orders with these access keys, at most 20, newest first, without personal data. Calls without a valid key count as order lookups.';

-- Execution rights
grant execute on function public.track_order, public.order_receipt, public.orders_by_access_key
  to anon, authenticated, service_role;

create index payments_due_for_a_query on public.payments (next_query_at) where status in ('processing', 'review');

create or replace function private.refuse_same_amount(payer text, charge_cents integer, paid_within interval) returns void
language plpgsql set search_path = '' as $$
declare
  free_at timestamptz;
begin
  select max(known.free_at) into free_at
  from (
    select p.updated_at + interval '2 minutes' as free_at
    from public.payments as p
    where p.phone = refuse_same_amount.payer and p.charge_cents = refuse_same_amount.charge_cents and p.result_code = '17'
      and p.status = 'failed' and p.purpose = 'order'
      and p.updated_at > now() - interval '2 minutes'
    union all
    select p.completed_at + refuse_same_amount.paid_within
    from public.payments as p
    where p.phone = refuse_same_amount.payer and p.charge_cents = refuse_same_amount.charge_cents
      and p.status = 'completed' and p.method = 'prompt'
      and p.created_at > now() - interval '1 hour' and p.completed_at > now() - refuse_same_amount.paid_within
  ) as known;
  if free_at is not null then
    perform private.refuse(429, 'same_amount_too_soon', format(
      'M-PESA takes the same amount from one phone only once in two minutes. If you have just paid, do not pay again. Otherwise please try again in %s seconds',
      ceil(extract(epoch from free_at - now()))::integer
    ));
  end if;
end
$$;

comment on function private.refuse_same_amount is
  'Refuses a prompt that M-PESA would end with result 17: within two minutes after such a result, or within paid_within after a prompt of this amount was paid.';

create or replace function private.has_paid(payer text) returns boolean
language plpgsql stable set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  return exists (
    select from public.payments as p where p.phone = has_paid.payer and p.status = 'completed' and p.purpose = 'order'
  );
end
$$;

comment on function private.has_paid is 'Whether an order was paid from this phone before.';

create or replace function private.may_prompt_from_network(payer text) returns boolean
language plpgsql volatile set search_path = '' as $$
begin
  -- Customers who paid before are served even while a stranger uses up the limit of their common network.
  return private.count_call('payment_prompts') or private.has_paid(may_prompt_from_network.payer);
end
$$;

comment on function private.may_prompt_from_network is
  'Counts a prompt for the caller''s networks. Whether it may be sent: within the limit payment_prompts, or to a phone that paid before.';

create or replace function private.may_prompt_new_phone(payer text) returns boolean
language plpgsql volatile set search_path = '' as $$
declare
  phone_of_caller text := (private.caller_networks())[1] || ' ' || may_prompt_new_phone.payer;
begin
  if phone_of_caller is null or private.hits_so_far('phone_prompted', phone_of_caller, interval '1 day') > 0
    or private.has_paid(may_prompt_new_phone.payer)
  then
    return true;
  elsif not private.count_call('prompted_phones') then
    return false;
  end if;
  perform private.count_hit('phone_prompted', phone_of_caller, interval '1 day');
  return true;
end
$$;

comment on function private.may_prompt_new_phone is
  'Whether the caller''s networks may prompt this phone: one that paid before, that was prompted today, or one more within the limit prompted_phones.';

create or replace function public.begin_payment(
  order_id uuid, tracking_number text, phone text, callback_secret text, expected_cents integer default null,
  same_amount_seconds integer default 0
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
  for update;
  if not found then
    perform private.refuse(404, 'order_not_found', 'This order does not exist');
  end if;
  select * into current_attempt from public.payments as p
  where p.order_id = ordered.id and (
    p.status in ('initiating', 'processing', 'review')
    -- Money that does not pay the order allows another attempt.
    or (p.status = 'completed' and not p.needs_refund and (
      ordered.payment_status in ('paid', 'refunded')
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

  -- Without limits, one order could send prompts to many phones.
  if not private.may_prompt_from_network(payer) then
    return private.refusal_answer('PT429', format(
      'Too many payments from your network. Please try again in %s, or call or WhatsApp us on %s', private.time_left('payment_prompts'), private.contact_numbers()
    ), 'too_many_payments', '');
  end if;
  if not private.may_prompt_new_phone(payer) then
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
    insert into public.payments (order_id, phone, charge_cents, next_query_at)
    values (ordered.id, payer, ordered.charge_cents, null)
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
  'Opens a payment attempt for an order, or returns the open or successful one. id and tracking number must belong to one order. A prompt may be sent only if is_new. same_amount_seconds: how long M-PESA refuses the same amount from one phone; 0: it does not.';

-- Prompts: their responses, and leasing status queries

create or replace function public.record_push(
  payment_id uuid, body text, merchant_request_id text default null, checkout_request_id text default null,
  refusal_code text default null, refusal_description text default null, refusal_ended_by text default null
) returns public.payments
language plpgsql security definer set search_path = '' as $$
declare
  attempt public.payments;
begin
  -- Locked before the message is stored: its foreign key takes a weaker lock, which two concurrent calls could not upgrade.
  perform from public.payments as p where p.id = record_push.payment_id for update;
  if not found then
    perform private.refuse(404, 'payment_not_found', 'This payment does not exist');
  end if;
  insert into public.payment_messages (payment_id, source, body, outcome)
  values (
    record_push.payment_id, 'push', record_push.body,
    case
      when record_push.checkout_request_id is not null then 'accepted'
      when record_push.refusal_code is not null then 'refused'
      else 'unknown'
    end
  );
  -- A callback may arrive before the response to the push: what it settled stays settled.
  update public.payments as p
  set status = case
        when p.status <> 'initiating' then p.status
        when record_push.refusal_code is not null then 'failed'
        else 'processing'
      end,
      result_code = case when p.status = 'initiating' then coalesce(record_push.refusal_code, p.result_code) else p.result_code end,
      result_description = case
        when p.status = 'initiating' then coalesce(record_push.refusal_description, p.result_description)
        else p.result_description
      end,
      ended_by = case when p.status = 'initiating' then coalesce(record_push.refusal_ended_by, p.ended_by) else p.ended_by end,
      merchant_request_id = coalesce(p.merchant_request_id, record_push.merchant_request_id),
      checkout_request_id = coalesce(p.checkout_request_id, record_push.checkout_request_id),
      next_query_at = case
        when p.status <> 'initiating' then p.next_query_at
        when record_push.refusal_code is null then now() + interval '10 seconds'
      end,
      updated_at = now()
  where p.id = record_push.payment_id
  returning * into attempt;
  return attempt;
end
$$;

comment on function public.record_push is
  'Stores the response to the push. Without request ids and refusal, the response was lost: the attempt stays open. refusal_ended_by: who can end the refusal (payments.ended_by).';

create or replace function public.find_payment(reference text) returns jsonb
language plpgsql volatile security definer set search_path = '' as $$
declare
  wanted text := left(find_payment.reference, 200);
  own_id uuid := case
    when wanted ~ '^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$' then wanted::uuid
  end;
  found_payment jsonb;
begin
  -- Clients have M-PESA's id, or only ours when the response with M-PESA's was lost.
  select to_jsonb(p) || case
    -- Money that is being refunded has not paid the order: staff contact the customer.
    when p.status = 'completed' and o.payment_status = 'unpaid' then '{"status": "review"}'
    else '{}'
  end::jsonb into found_payment
  from public.payments as p
  join public.orders as o on o.id = p.order_id
  where p.checkout_request_id = wanted or p.id = own_id
  limit 1;
  -- M-PESA's ids contain the time and the phone, so they can be guessed. Limits apply to wrong guesses only.
  if found_payment is null and not private.count_call('unknown_payments') then
    return private.refusal_answer('PT429', format(
      'Too many unknown payments. Please try again in %s, or call or WhatsApp us on %s', private.time_left('unknown_payments'), private.contact_numbers()
    ), 'too_many_lookups', '');
  end if;
  return found_payment;
end
$$;

comment on function public.find_payment is
  'An attempt by M-PESA''s checkout request id or its own id, for clients that poll its status. Null: none. Only unknown references count for the caller''s networks, and only they are refused.';

-- M-PESA allows few queries per minute. Prompts of one network must not delay the payments of others.
create or replace function public.lease_payment_queries(at_most integer default 1, per_minute integer default 5)
returns setof public.payments
language plpgsql security definer set search_path = '' as $$
begin
  perform pg_advisory_xact_lock(hashtext('lease_payment_queries'));
  -- An attempt whose push had no response cannot be queried, and its callback arrives within 15 minutes or never. M-PESA reports
  -- no results after a day.
  update public.payments as p
  set status = 'unresolved', next_query_at = null, updated_at = now()
  where p.status in ('initiating', 'processing')
    and p.created_at < now() - case when p.checkout_request_id is null then interval '15 minutes' else interval '1 day' end;
  update public.payments as p
  set next_query_at = null
  where p.status = 'review' and p.next_query_at is not null and p.created_at < now() - interval '1 day';
  -- All processes share the merchant's rate limit: one batch, then none until the limit allows the next.
  if not exists (
    select from public.payments as p
    where p.status in ('processing', 'review') and p.checkout_request_id is not null and p.next_query_at <= now()
  ) or private.count_hit(
    'payment_queries', 'all',
    interval '1 minute' * lease_payment_queries.at_most / greatest(lease_payment_queries.per_minute, 1)
  ) > 1 then
    return;
  end if;
  return query
  with waiting as materialized (
    select p.id, p.next_query_at, (
      select k.network from private.order_networks as k
      where k.order_id = p.order_id
      order by private.allowance_factor(k.network) desc
      limit 1
    ) as widest_network
    from public.payments as p
    where p.status in ('processing', 'review') and p.checkout_request_id is not null and p.next_query_at <= now()
  ), network_queries as materialized (
    select w.widest_network, (
      select sum(p.query_count)
      from private.order_networks as k
      join public.payments as p on p.order_id = k.order_id
      where k.network = w.widest_network and p.created_at > now() - interval '15 minutes'
    ) as queries
    from waiting as w
    where w.widest_network is not null
    group by w.widest_network
  ), due as (
    select p.id
    from waiting as w
    join public.payments as p on p.id = w.id
    left join network_queries as n on n.widest_network = w.widest_network
    where p.status in ('processing', 'review')
    -- Orders before tests, the network with the fewest queries first, then the attempt that has waited longest.
    order by p.purpose = 'test', coalesce(n.queries, 0), w.next_query_at
    limit lease_payment_queries.at_most
    -- An attempt that is being settled needs no query.
    for update of p skip locked
  )
  update public.payments as p
  set query_count = p.query_count + 1,
      -- A larger exponent would overflow the interval.
      next_query_at = now() + least(interval '10 seconds' * power(1.5, least(p.query_count, 20)), interval '10 minutes'),
      updated_at = now()
  from due
  where p.id = due.id
  returning p.*;
end
$$;

comment on function public.lease_payment_queries is
  'Leases attempts to query now: at most at_most at once, and per_minute; first those of the networks with the fewest queries in the last 15 minutes. Each is due again at growing intervals until it is settled.';

-- Execution rights
grant execute on function public.begin_payment, public.begin_payment_test, public.record_push, public.find_payment,
  public.find_payment_by_secret, public.lease_payment_queries to service_role;

create or replace function public.settle_payment(
  payment_id uuid, source text, body text, result text, result_code text default null,
  result_description text default null, received_cents integer default null, receipt text default null,
  merchant_request_id text default null, checkout_request_id text default null, source_address text default null,
  unreadable text[] default '{}', ended_by text default null
) returns public.settled_payment
language plpgsql security definer set search_path = '' as $$
declare
  report private.payment_report := (
    source, result, result_code, result_description, received_cents, private.normalised_receipt(receipt), merchant_request_id,
    checkout_request_id, coalesce(unreadable, '{}'), ended_by
  );
  reported_receipt text;
  stored_message bigint;
  attempt public.payments;
  receipt_owner public.payments;
  settlement private.settlement;
  message_outcome text;
  settled_id uuid;
begin
  if report.result not in ('succeeded', 'failed', 'pending') then
    perform private.refuse(400, 'result_unknown', 'A settlement is succeeded, failed or pending');
  end if;
  if nullif(trim(settle_payment.receipt), '') is not null and report.receipt is null then
    report.unreadable := report.unreadable || array['receipt'];
  end if;
  -- Lock the order, the receipt and request id, then the payment, all before storing the message: its foreign key takes a weaker
  -- lock, which two concurrent settlements could not upgrade.
  perform from public.orders as o
  where o.id = (select p.order_id from public.payments as p where p.id = settle_payment.payment_id)
  for update;
  -- A query names no receipt; a message that contradicted itself may have named it.
  if report.result = 'succeeded' and report.receipt is null then
    reported_receipt := private.receipt_of_contradiction(settle_payment.payment_id);
  end if;
  perform pg_advisory_xact_lock(hashtext('settle ' || known.id))
  from unnest(array[report.receipt, report.checkout_request_id, reported_receipt]) as known (id)
  where known.id is not null;
  select * into attempt from public.payments as p where p.id = settle_payment.payment_id for update;
  if attempt.id is null then
    perform private.refuse(404, 'payment_not_found', 'This payment does not exist');
  end if;
  insert into public.payment_messages (payment_id, source, source_address, body, receipt)
  values (attempt.id, report.source, settle_payment.source_address, settle_payment.body, report.receipt)
  returning id into stored_message;

  if reported_receipt = private.receipt_of_contradiction(attempt.id) then
    report.receipt := reported_receipt;
  end if;
  select * into receipt_owner from public.payments as p where p.receipt = report.receipt and p.id <> attempt.id;
  settlement := private.decide_settlement(
    attempt, report, receipt_owner,
    is_other_request => coalesce(report.checkout_request_id <> attempt.checkout_request_id, false) or exists (
      select from public.payments as p where p.checkout_request_id = report.checkout_request_id and p.id <> attempt.id
    ),
    attempt_is_refunded => private.is_being_refunded(attempt.id),
    owner_is_refunded => private.is_being_refunded(receipt_owner.id)
  );

  if settlement.splits_receipt then
    perform private.separate_receipt(attempt.id, failed => settlement.decision = 'failed');
    select * into strict attempt from public.payments as p where p.id = attempt.id;
  end if;
  settled_id := attempt.id;
  case settlement.decision
    when 'completes' then
      message_outcome := private.complete_attempt(attempt, report);
    when 'failed' then
      perform private.fail_attempt(attempt.id, 'failed', report, report.result_description);
    when 'wrong_amount' then
      perform private.fail_attempt(attempt.id, 'review', report,
        format('M-PESA reported %s cents, %s were charged', coalesce(report.received_cents::text, 'no'), attempt.charge_cents),
        'wrong_amount');
      perform private.store_mismatched_money(attempt, report);
    when 'contradiction' then
      perform private.fail_attempt(attempt.id, 'review', report,
        format('M-PESA reported money and the result %s', coalesce(report.result_code, 'without a code')), 'contradiction');
      perform private.store_mismatched_money(attempt, report);
    when 'superseded' then
      perform private.store_mismatched_money(attempt, report);
    when 'confirmed_by_hand' then
      perform private.merge_receipt_owner(attempt, report, receipt_owner);
    when 'second_payment' then
      message_outcome := 'paid_twice';
      settled_id := private.add_second_payment(attempt, report);
      update public.payment_messages as m set payment_id = settled_id where m.id = stored_message;
    when 'adds_details' then
      message_outcome := 'already_completed';
      perform private.add_details(attempt, report);
    else
      null;
  end case;
  message_outcome := coalesce(message_outcome, settlement.decision);
  update public.payment_messages as m set outcome = message_outcome where m.id = stored_message and m.outcome is null;
  if settlement.decision = 'completes' then
    perform private.match_receipts(attempt.order_id);
    -- The attempt, or the one that its money was joined to.
    select m.payment_id into settled_id from public.payment_messages as m where m.id = stored_message;
  end if;
  if report.result = 'succeeded' and attempt.purpose = 'order' then
    perform private.correct_message_outcomes(m.payment_id) from public.payment_messages as m where m.id = stored_message;
  end if;
  select * into strict attempt from public.payments as p where p.id = settled_id;
  perform private.check_settled_message(attempt, report, settle_payment.body, settlement.decision);
  return (message_outcome, attempt)::public.settled_payment;
end
$$;

comment on function public.settle_payment is
  'Settles a payment attempt by a message of M-PESA: stores the message, decides what it means (decide_settlement) and applies it in the same transaction. Idempotent. A success supersedes a failure, never the reverse; a failure that names money needs review; every receipt stays in the books; an amount other than the charge needs review. unreadable: what the message has but cannot be read (code, receipt, amount): it waits for staff in messages_to_check.';

create or replace function private.decide_settlement(
  attempt public.payments, report private.payment_report, receipt_owner public.payments, is_other_request boolean,
  attempt_is_refunded boolean, owner_is_refunded boolean
) returns private.settlement
language plpgsql immutable set search_path = '' as $$
declare
  is_completed boolean := attempt.status = 'completed';
  names_other_amount boolean := report.received_cents <> attempt.charge_cents or (report.received_cents is null and report.source = 'callback');
  -- Anyone can type a reference, so it disproves nothing.
  is_by_reference boolean := report.source in ('confirmation', 'statement');
  splits_receipt boolean := coalesce(
    report.receipt <> attempt.receipt and attempt.presumption is not null and not is_by_reference and not attempt_is_refunded, false
  );
  -- The attempt without its presumed receipt.
  stays_completed boolean := is_completed and not (splits_receipt and attempt.presumption = 'attempt');
  attempt_receipt text := case when not splits_receipt then attempt.receipt end;
  -- M-PESA names money only when it moved.
  is_contradiction boolean := report.result <> 'succeeded' and (
    coalesce(report.received_cents > 0, false) or report.receipt is not null
    or coalesce(report.unreadable && array['receipt', 'amount'], false)
  );
  decision text := case
    when is_other_request then 'other_request'
    when is_contradiction and is_completed then 'superseded'
    -- The money is in the books already.
    when is_contradiction and receipt_owner.id is not null then 'receipt_replayed'
    when is_contradiction and report.received_cents <> attempt.charge_cents then 'wrong_amount'
    when is_contradiction then 'contradiction'
    when report.result = 'pending' then 'pending'
    -- Also an attempt completed by presumption: the money was not this prompt's.
    when report.result = 'failed' and (
      attempt.status in ('initiating', 'processing', 'unresolved')
      or (is_completed and attempt.presumption = 'attempt' and not attempt_is_refunded)
    ) then 'failed'
    when report.result = 'failed' or (names_other_amount and is_completed) then 'superseded'
    when names_other_amount then 'wrong_amount'
    -- A query names no amount: it cannot clear an attempt whose callback named a wrong one.
    when attempt.status = 'review' and report.received_cents is null and attempt.review_cause is distinct from 'contradiction'
      then 'needs_review'
    -- The money of a payment test pays no order, and money of an order completes no test.
    when receipt_owner.id is not null and (receipt_owner.order_id is distinct from attempt.order_id
      or (receipt_owner.method = 'prompt' and receipt_owner.presumption is null)) then 'receipt_replayed'
    -- Already in the books; money that is refunded is not moved.
    when owner_is_refunded and (receipt_owner.method = 'prompt' or attempt_is_refunded) then 'already_completed'
    -- Both have their receipts already.
    when receipt_owner.id is not null and stays_completed and attempt_receipt is not null then 'already_completed'
    -- The receipt is in the books: as a separate payment, or as the presumed receipt of another attempt.
    when receipt_owner.id is not null then 'confirmed_by_hand'
    -- A second success under another receipt is a separate payment.
    when stays_completed and report.receipt <> attempt_receipt then
      case attempt.purpose when 'test' then 'already_completed' else 'second_payment' end
    when stays_completed then 'adds_details'
    else 'completes'
  end;
begin
  return (
    decision,
    case
      when decision = 'failed' then is_completed
      else splits_receipt and decision in ('confirmed_by_hand', 'second_payment', 'adds_details', 'completes')
    end
  )::private.settlement;
end
$$;

comment on function private.decide_settlement is
  'Decides what a message means for a payment attempt, from facts alone. receipt_owner: the other payment with this receipt. is_other_request: the request id belongs to another attempt. attempt_is_refunded, owner_is_refunded: a refund of that money is requested or done.';

create or replace function private.fail_attempt(
  attempt_id uuid, new_status text, report private.payment_report, description text, cause text default null
) returns void
language sql set search_path = '' as $$
  update public.payments as p
  set status = new_status, result_code = report.result_code, result_description = description,
      ended_by = case when new_status = 'failed' then report.ended_by end,
      merchant_request_id = coalesce(p.merchant_request_id, report.merchant_request_id),
      checkout_request_id = coalesce(p.checkout_request_id, report.checkout_request_id),
      review_cause = coalesce(p.review_cause, cause),
      -- A query can confirm money that a contradicting message named. It names no amount, so it cannot confirm another one.
      next_query_at = case
        when coalesce(p.review_cause, cause) = 'contradiction' and new_status = 'review'
          and coalesce(p.checkout_request_id, report.checkout_request_id) is not null and p.created_at > now() - interval '1 day'
        then now() + interval '10 seconds'
      end,
      updated_at = now()
  where p.id = attempt_id;
$$;

comment on function private.fail_attempt is
  'Ends an attempt without paying its order: failed, or review when the amount is not the charge or a message contradicts itself (cause).';

create or replace function private.receipt_of_contradiction(attempt_id uuid) returns text
language sql stable set search_path = '' as $$
  select t.receipt
  from public.payments as p
  join public.mpesa_transactions as t on t.attempt_id = p.id and t.received_cents = p.charge_cents
  where p.id = receipt_of_contradiction.attempt_id and p.status in ('review', 'failed') and p.review_cause = 'contradiction'
  order by t.created_at, t.receipt
  limit 1;
$$;

comment on function private.receipt_of_contradiction is
  'The receipt of the charged amount that a message named which contradicted itself about this attempt. Staff may have decided about that money since: a query that confirms the attempt confirms this money, and no other.';

create or replace function private.check_settled_message(attempt public.payments, report private.payment_report, body text, decision text)
returns void
language plpgsql set search_path = '' as $$
declare
  unknown text[] := report.unreadable;
begin
  if decision in ('wrong_amount', 'contradiction') then
    -- Money without a receipt or an amount cannot be stored as a transaction.
    unknown := unknown || case when report.receipt is null then array['receipt'] else '{}' end
      || case when coalesce(report.received_cents, 0) <= 0 then array['amount'] else '{}' end;
  end if;
  if cardinality(unknown) > 0 and decision <> 'other_request' and not (attempt.status = 'completed' and attempt.receipt is not null)
    and not (attempt.status = 'failed' and unknown = array['code'])
  then
    perform private.add_message_to_check(
      report.source, 'unreadable', check_settled_message.body, unknown, report.receipt, report.received_cents, null,
      coalesce((select o.tracking_number from public.orders as o where o.id = attempt.order_id), ''), attempt.id
    );
  end if;
  perform private.close_messages_to_check(attempt);
end
$$;

comment on function private.check_settled_message is
  'Lets a message about an attempt wait for staff as long as a part of it is unknown, and ends the wait of earlier messages that it explains.';

-- Execution rights
grant execute on function public.settle_payment to service_role;

create or replace function private.order_numbers_in(written text) returns text[]
language sql immutable set search_path = '' as $$
  -- The patterns of domain/tracking-number.ts.
  with spelled as (
    select translate(
      regexp_replace(left(order_numbers_in.written, 300), '[\u00ad\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]', '', 'g'),
      'abcdefghijklmnopqrstuvwxyz', 'ABCDEFGHIJKLMNOPQRSTUVWXYZ'
    ) as text
  ),
  found as (
    select 1 as kind, m.place, m.parts
    from spelled as s
    cross join regexp_matches(s.text,
      'J[^A-Z0-9]?J[^A-Z0-9]{0,3}((?:2[0O])?[2-9][0-9OIL])[^A-Z0-9]?([0O][1-9IL]|[1IL][0-2OIL])[^A-Z0-9]?([0O][1-9IL]|[12IL][0-9OIL]|3[01OIL])[^A-Z0-9]{0,3}([0-9OIL]{4,6}(?![A-Z0-9])|[0-9]{4,6}(?=[A-Z]))',
      'g') with ordinality as m (parts, place)
    union all
    select 2, m.place, m.parts
    from spelled as s
    cross join regexp_matches(s.text,
      '(?:^|[^A-Z0-9])((?:2[0O])?[2-9][0-9OIL])[^A-Z0-9]?([0O][1-9IL]|[1IL][0-2OIL])[^A-Z0-9]?([0O][1-9IL]|[12IL][0-9OIL]|3[01OIL])[^A-Z0-9]{0,3}([0-9OIL]{4,6})(?![A-Z0-9])',
      'g') with ordinality as m (parts, place)
    union all
    select 3, m.place, m.parts
    from spelled as s
    cross join regexp_matches(s.text,
      '(?:^|[^A-Z0-9])[0O]RD(?:ER)?[^A-Z0-9]{0,3}(?:N(?:O|R|UMBER)[^A-Z0-9]{0,3})?(?=[OIL]{0,8}[0-9])([1-9IL][0-9OIL]{3,8}(?![A-Z0-9]|[.,][0-9]|/[=-])|[1-9][0-9]{3,8}(?=[A-Z])(?!KES|KSH|SH|BOB|ML))',
      'g') with ordinality as m (parts, place)
  ),
  numbers as (
    select f.kind, f.place, translate(
      case
        when f.kind = 3 then '#' || f.parts[1]
        else 'JJ-' || case when char_length(f.parts[1]) = 2 then '20' else '' end || f.parts[1] || f.parts[2] || f.parts[3] || '-' || f.parts[4]
      end, 'OIL', '011') as number
    from found as f
  )
  select coalesce(array_agg(replace(n.number, '#', 'ORD-') order by n.kind, n.place), '{}')
  from (select distinct on (k.number) k.number, k.kind, k.place from numbers as k order by k.number, k.kind, k.place) as n;
$$;

comment on function private.order_numbers_in is
  'The tracking numbers and order numbers that a short text names, as they are stored, the tracking numbers first. The same as readOrderNumbers in domain/tracking-number.ts.';

create or replace function private.orders_named(numbers text[]) returns setof uuid
language sql stable set search_path = '' as $$
  select o.id from public.orders as o where o.tracking_number = any (orders_named.numbers)
  union
  select o.id from public.orders as o where o.order_number = any (orders_named.numbers);
$$;

comment on function private.orders_named is 'The orders with these tracking numbers or order numbers.';

create or replace function private.order_of_reference(reference text) returns uuid
language sql stable set search_path = '' as $$
  -- If the text names several orders, staff decide.
  select case when count(*) = 1 then min(named.id::text)::uuid end
  from private.orders_named(private.order_numbers_in(order_of_reference.reference)) as named (id);
$$;

comment on function private.order_of_reference is
  'The order that a payer''s reference names, by its tracking number or its order number in any spelling. Null for none or several.';

create or replace function private.merge_payments(own_id uuid, attempt_id uuid) returns void
language plpgsql set search_path = '' as $$
declare
  by_hand public.payments;
  attempt public.payments;
begin
  select * into strict by_hand from public.payments as p where p.id = merge_payments.own_id;
  select * into strict attempt from public.payments as p where p.id = merge_payments.attempt_id;
  update public.payment_messages as m set payment_id = attempt.id where m.payment_id = by_hand.id;
  update public.change_notes as c set payment_id = attempt.id where c.payment_id = by_hand.id;
  -- Refunds of its present receipt move with that (move_refund_with_receipt). Staff may have corrected the receipt since.
  update public.refunds as r set payment_id = attempt.id
  where r.payment_id = by_hand.id and r.receipt is distinct from by_hand.receipt and r.status in ('failed', 'withdrawn');
  delete from public.payments as p where p.id = by_hand.id;
  update public.payments as p
  set status = 'completed', result_code = '0', receipt = by_hand.receipt,
      confirmed_by = coalesce(by_hand.confirmed_by, p.confirmed_by),
      needs_refund = by_hand.needs_refund and (attempt.status <> 'completed' or attempt.needs_refund),
      next_query_at = null, completed_at = least(attempt.completed_at, by_hand.completed_at), updated_at = now()
  where p.id = attempt.id;
  perform private.correct_message_outcomes(attempt.id);
end
$$;

comment on function private.merge_payments is
  'Merges a payment by its receipt into the attempt of the same money. The caller has locked the order.';

create or replace function private.store_transaction(
  source text, receipt text, received_cents integer, reference text, transacted_at timestamptz, payer_phone text, payer_name text
) returns public.mpesa_transactions
language plpgsql set search_path = '' as $$
#variable_conflict use_column
declare
  is_confirmation constant boolean := store_transaction.source = 'confirmation';
  stored public.mpesa_transactions;
begin
  insert into public.mpesa_transactions as t (
    receipt, received_cents, reference, payer_phone, payer_name, transacted_at, reported_by_confirmation_at, reported_by_statement_at,
    payment_id
  ) values (
    store_transaction.receipt, store_transaction.received_cents, coalesce(trim(store_transaction.reference), ''),
    nullif(trim(store_transaction.payer_phone), ''), nullif(trim(store_transaction.payer_name), ''), store_transaction.transacted_at,
    case when is_confirmation then now() end, case when not is_confirmation then now() end,
    (select p.id from public.payments as p where p.receipt = store_transaction.receipt)
  )
  on conflict (receipt) do update set
    -- A statement overrides a confirmation, which overrides a callback, because callbacks can be forged.
    received_cents = case
      when is_confirmation and coalesce(t.reported_by_confirmation_at, t.reported_by_statement_at) is not null then t.received_cents
      else excluded.received_cents
    end,
    transacted_at = case
      when is_confirmation and coalesce(t.reported_by_confirmation_at, t.reported_by_statement_at) is not null then t.transacted_at
      else excluded.transacted_at
    end,
    reference = case
      when t.reference <> '' and coalesce(t.reported_by_confirmation_at, t.reported_by_statement_at) is not null then t.reference
      else excluded.reference
    end,
    payer_phone = coalesce(t.payer_phone, excluded.payer_phone),
    payer_name = coalesce(t.payer_name, excluded.payer_name),
    reported_by_confirmation_at = coalesce(t.reported_by_confirmation_at, excluded.reported_by_confirmation_at),
    reported_by_statement_at = coalesce(t.reported_by_statement_at, excluded.reported_by_statement_at),
    updated_at = now()
  returning * into stored;
  update public.messages_to_check as m
  set resolution = 'read_later', resolved_at = now()
  where m.receipt = stored.receipt and m.problem = 'unreadable' and m.resolution is null;
  return stored;
end
$$;

comment on function private.store_transaction is
  'Stores what a confirmation or the statement reports about a receipt, each receipt once. The caller has locked the receipt.';

create or replace function private.apply_reported_amount(known public.payments, reported public.mpesa_transactions) returns void
language plpgsql set search_path = '' as $$
declare
  of_order public.orders;
  pays_exactly boolean;
begin
  if known.method <> 'till' or known.charge_cents = reported.received_cents or private.is_being_refunded(known.id) then
    return;
  end if;
  select * into of_order from public.orders as o where o.id = known.order_id;
  if private.is_whole_shillings(reported.received_cents) and (known.needs_refund or of_order.payment_status = 'needs_review') then
    -- Nothing was decided by the typed amount.
    update public.payments as p set charge_cents = reported.received_cents, updated_at = now() where p.id = known.id;
    if not known.needs_refund and reported.received_cents = of_order.charge_cents then
      perform private.mark_order_paid(of_order.id);
    end if;
    return;
  end if;
  -- Staff accepted another amount, and the charge came.
  pays_exactly := of_order.payment_status = 'paid' and not known.needs_refund
    and not exists (select from public.change_notes as c where c.payment_id = known.id)
    and of_order.charge_cents = reported.received_cents + (
      select coalesce(sum(other.charge_cents), 0) from public.payments as other
      where other.order_id = of_order.id and other.id <> known.id and other.status = 'completed' and not other.needs_refund
    );
  if pays_exactly then
    update public.payments as p set charge_cents = reported.received_cents, updated_at = now() where p.id = known.id;
  elsif reported.received_cents < known.charge_cents and not known.needs_refund then
    if private.put_order_under_review(of_order.id) and private.is_whole_shillings(reported.received_cents) then
      update public.payments as p set charge_cents = reported.received_cents, updated_at = now() where p.id = known.id;
    end if;
  end if;
end
$$;

create or replace function public.receive_mpesa_transaction(
  source text, receipt text, received_cents integer, reference text default '', transacted_at timestamptz default null,
  payer_phone text default null, payer_name text default null, body text default '', message_id bigint default null,
  kind text default 'payment', unreadable text[] default '{}', reversed_receipt text default null
) returns public.settled_payment
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  code text := private.normalised_receipt(receipt);
  unknown text[] := coalesce(unreadable, '{}')
    || case when private.normalised_receipt(receipt) is null then array['receipt'] else '{}' end
    || case when coalesce(received_cents, 0) <= 0 then array['amount'] else '{}' end;
  moment timestamptz := coalesce(transacted_at, now());
  for_order uuid;
  reported public.mpesa_transactions;
  known public.payments;
  settled public.settled_payment;
  outcome text;
  is_part boolean;
begin
  if source not in ('confirmation', 'statement') then
    perform private.refuse(400, 'source_unknown', 'Money without a prompt is reported by a confirmation or the statement');
  elsif kind = 'outgoing' then
    perform private.store_message_outcome(message_id, source, body, null, null, 'outgoing') where message_id is not null;
    return ('outgoing', null)::public.settled_payment;
  elsif kind = 'reversal' then
    outcome := private.receive_reversal(source, code, received_cents, reference, moment, body, reversed_receipt);
    perform private.store_message_outcome(message_id, source, body, null, null, outcome) where message_id is not null;
    return (outcome, null)::public.settled_payment;
  elsif kind <> 'payment' or unknown && array['receipt', 'amount'] or (source = 'statement' and unknown && array['time']) then
    outcome := private.add_message_to_check(
      source, case when kind = 'payment' then 'unreadable' else 'unknown_kind' end, body, unknown, code, received_cents, transacted_at,
      reference
    );
    perform private.store_message_outcome(message_id, source, body, null, null, 'unreadable') where message_id is not null or outcome = 'new';
    outcome := case outcome when 'checked' then 'checked' else 'unreadable' end;
    return (outcome, null)::public.settled_payment;
  end if;

  -- The order must be locked first, but is known only after reading. If it changed before the lock, read again.
  loop
    for_order := private.order_of_transaction(code, reference);
    begin
      -- Leaving this block releases the lock, so that no transaction waits for a second order while it holds the first.
      perform from public.orders as o where o.id = for_order for update;
      perform pg_advisory_xact_lock(hashtext('settle ' || code));
      if private.order_of_transaction(code, reference) is distinct from for_order then
        raise exception using errcode = 'JJ001';
      end if;
      exit;
    exception when sqlstate 'JJ001' then
      null;
    end;
  end loop;

  reported := private.store_transaction(source, code, received_cents, reference, moment, payer_phone, payer_name);
  -- A confirmation arrives within moments, so its money counts by the time of arrival until the statement names the time.
  if unknown && array['time'] and reported.reported_by_statement_at is null then
    perform private.add_message_to_check(source, 'unreadable', body, unknown, code, received_cents, null, reference);
  end if;
  perform private.add_receipt_to_test(reported);
  select * into known from public.payments as p where p.receipt = code;
  if known.id is not null then
    outcome := 'already_completed';
    perform private.store_message_outcome(message_id, source, body, known.id, code, outcome);
    perform private.apply_reported_amount(known, reported);
    perform private.match_receipts(known.order_id);
    select * into strict known from public.payments as p where p.receipt = code;
    return (outcome, known)::public.settled_payment;
  end if;

  -- Anyone can type an order's number. Less than its charge never pays it: staff decide.
  is_part := reported.received_cents < (select o.charge_cents from public.orders as o where o.id = for_order);
  update public.mpesa_transactions as t set order_id = case when is_part then for_order end
  where t.receipt = code and t.order_id is distinct from case when is_part then for_order end;
  if for_order is null or is_part or reported.resolution is not null
    or not private.is_whole_shillings(reported.received_cents)
  then
    outcome := 'unmatched';
    perform private.store_message_outcome(message_id, source, body, null, code, outcome);
    return (outcome, null)::public.settled_payment;
  end if;

  select * into known from public.payments as p
  where p.id = private.attempt_for(for_order, code, reported.received_cents, reported.transacted_at);
  if known.id is null then
    insert into public.payments (order_id, phone, charge_cents, status, method)
    values (for_order, '', reported.received_cents, 'unresolved', 'till')
    returning * into known;
  end if;
  settled := public.settle_payment(
    payment_id => known.id, source => source, body => body,
    result => 'succeeded', result_code => '0', received_cents => reported.received_cents, receipt => code
  );
  -- The settlement stored the message again, with its payment.
  if message_id is not null then
    update public.payment_messages as m
    set source_address = stored.source_address, received_at = stored.received_at
    from public.payment_messages as stored
    where stored.id = receive_mpesa_transaction.message_id and m.id = (select max(later.id) from public.payment_messages as later
      where later.payment_id = (settled.payment).id and later.receipt = code and later.source = 'confirmation');
    delete from public.payment_messages as m where m.id = receive_mpesa_transaction.message_id;
  end if;
  return settled;
end
$$;

comment on function public.receive_mpesa_transaction is
  'Stores money that M-PESA reports by a confirmation or its statement, each receipt once. It belongs to the payment with this receipt, else to the order that its reference names: it completes an attempt of the same amount without a receipt, becomes a separate payment, or, if less than the charge, waits for staff. All other money stays unmatched for staff. Idempotent, in any order with other messages. kind: payment, reversal (of reversed_receipt, if it is named), outgoing (ignored) or unknown. unreadable: what the message has but cannot be read (receipt, amount, time). What cannot be read, and unknown kinds, wait in messages_to_check: the outcome is unreadable, or checked once staff have resolved it.';

create or replace function public.record_mpesa_registration(kind text, api_version text default null) returns void
language sql volatile security definer set search_path = '' as $$
  insert into private.mpesa_registrations as known (kind, api_version)
  values (record_mpesa_registration.kind, record_mpesa_registration.api_version)
  on conflict (kind) do update set registered_at = now(), api_version = coalesce(excluded.api_version, known.api_version);
$$;

comment on function public.record_mpesa_registration is
  'Records that M-PESA accepted a registration: till (confirmations) or statement. From then on the statement is pulled. api_version: of the C2B API.';

create or replace function public.till_registration() returns table (registered_at timestamptz, api_version text)
language sql stable security definer set search_path = '' as $$
  select r.registered_at, r.api_version from private.mpesa_registrations as r where r.kind = 'till';
$$;

comment on function public.till_registration is 'When the addresses for confirmations were registered, and by which version of C2B. No row: not yet.';

create or replace function public.receipts_not_in_statement(receipts text[]) returns text[]
language sql stable security definer set search_path = '' as $$
  select coalesce(array_agg(given.receipt order by given.place), '{}')
  from unnest(receipts_not_in_statement.receipts) with ordinality as given (receipt, place)
  where not exists (
    select from public.mpesa_transactions as t
    where t.receipt = private.normalised_receipt(given.receipt) and t.reported_by_statement_at is not null
  );
$$;

comment on function public.receipts_not_in_statement is 'Those of the receipts that no statement has listed.';

-- Execution rights
grant execute on function public.receive_mpesa_transaction, public.record_mpesa_registration,
  public.till_registration, public.receipts_not_in_statement to service_role;

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
    returning p.id, p.charge_cents, p.receipt
  )
  insert into public.refunds (
    payment_id, receipt, refund_cents, reason, method, status, requested_by, requested_by_email, completed_at
  )
  select s.id, s.receipt, s.charge_cents - (select c.returned_cents from private.change_of(s.id) as c), 'Noted with the order', 'by_hand', 'completed', member, private.email_of(member), now()
  from sent_back as s;
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
  if char_length(trim(coalesce(reason, ''))) not between 3 and 200 then
    perform private.refuse(400, 'reason_invalid', 'Please say why, in 3 to 200 characters');
  end if;
  insert into public.refunds (
    payment_id, transaction_receipt, receipt, refund_cents, reason, method, status, needs_approval, requested_by, requested_by_email,
    refund_receipt, completed_at
  ) values (
    payment_id, transaction_receipt, receipt, refund_cents, trim(reason),
    case when sent_by_hand is null then 'reversal' else 'by_hand' end,
    case when sent_by_hand is not null then 'completed' when needs_approval then 'requested' else 'approved' end, needs_approval,
    member, private.email_of(member),
    case when sent_by_hand is not null then private.check_refund_receipt(sent_by_hand) end,
    case when sent_by_hand is not null then now() end
  )
  returning * into opened;
  if opened.status = 'requested' then
    perform private.queue_staff_message('refund_to_approve', opened.id::text, except_member => member);
  end if;
  return opened;
end
$$;

comment on function private.open_refund is
  'Requests a refund by M-PESA, or records a refund by hand when sent_by_hand (its receipt) is given.';

create or replace function private.lock_refundable_transaction(receipt text, is_sure boolean) returns public.mpesa_transactions
language plpgsql set search_path = '' as $$
#variable_conflict use_column
declare
  code text := private.normalised_receipt(lock_refundable_transaction.receipt);
  reported public.mpesa_transactions;
begin
  -- Settlements and reconciliation take the same lock for a receipt.
  perform pg_advisory_xact_lock(hashtext('settle ' || code));
  select * into reported from public.mpesa_transactions as t where t.receipt = code for update;
  if not found then
    perform private.refuse(404, 'payment_not_found', 'This payment does not exist');
  elsif private.is_being_refunded(null, code) then
    perform private.refuse(409, 'refund_exists', 'This money is being sent back already');
  elsif reported.payment_id is not null or exists (select from public.payments as p where p.receipt = code)
    or not private.is_whole_shillings(reported.received_cents)
  then
    perform private.refuse(409, 'nothing_to_send_back', 'There is nothing to send back. Cancel a paid order first to send its money back');
  elsif not coalesce(lock_refundable_transaction.is_sure, false) and exists (select private.orders_missing_receipt(code)) then
    perform private.refuse(409, 'may_be_of_order', format(
      'This may be the money of order %s, whose prompt lacks a receipt. Give it to that order, or send it back if you are sure',
      (select o.order_number from public.orders as o
       where o.id in (select private.orders_missing_receipt(code)) order by o.created_at desc limit 1)
    ));
  end if;
  return reported;
end
$$;

create or replace function public.request_refund(
  reason text, payment_id uuid default null, receipt text default null, is_sure boolean default false
) returns public.refunds
language plpgsql security definer set search_path = '' as $$
declare
  member uuid := private.expect_staff_member();
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
  if paid.receipt is null then
    perform private.refuse(409, 'receipt_unknown',
      'M-PESA has not reported the receipt of this payment yet. Without it the money can only be sent back by hand');
  end if;
  if exists (select from public.change_notes as c where c.payment_id = paid.id and c.kind = 'returned') then
    perform private.refuse(409, 'partly_returned',
      'Part of this money went back outside the shop, and M-PESA reverses whole payments only. Send the rest back by hand and note it');
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
  'Requests the full refund by M-PESA of a payment, or of unassigned money by its receipt. Above the refund limit it waits for a second staff member. Money that may be an order''s, whose prompt lacks a receipt, is refunded only when is_sure.';

-- Execution rights
grant execute on function public.request_refund, public.approve_refund, public.withdraw_refund to authenticated;

create or replace function private.check_refund_receipt(typed text) returns text
language plpgsql set search_path = '' as $$
declare
  code text := private.read_receipt(typed);
begin
  perform pg_advisory_xact_lock(hashtext('settle ' || code));
  if exists (select from public.payments as p where p.receipt = code) then
    perform private.refuse(409, 'receipt_of_payment', 'This is the receipt of money that came in. Enter the receipt of sending it back');
  elsif exists (select from public.refunds as r where r.refund_receipt = code)
    or exists (select from public.change_notes as c where c.receipt = code)
  then
    perform private.refuse(409, 'refund_receipt_used', 'This receipt belongs to another refund already');
  end if;
  return code;
end
$$;

create or replace function public.note_refund_by_hand(
  refund_receipt text, reason text, payment_id uuid default null, receipt text default null, is_sure boolean default false
) returns public.refunds
language plpgsql security definer set search_path = '' as $$
declare
  member uuid := private.expect_staff_member();
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
  noted := private.open_refund(
    paid.id, null, paid.receipt, (paid.charge_cents - (select c.returned_cents from private.change_of(paid.id) as c))::integer,
    note_refund_by_hand.reason, member,
    coalesce(note_refund_by_hand.refund_receipt, '')
  );
  return private.complete_refund(noted.id, noted.refund_receipt);
end
$$;

comment on function public.note_refund_by_hand is
  'Records that a payment, or unassigned money by its receipt, was refunded outside the shop, with M-PESA''s receipt of the refund. Idempotent by that receipt. is_sure: as in request_refund.';

create or replace function public.settle_reversal(
  refund_id uuid, source text, body text, result text, result_code text default null,
  result_description text default null, refund_receipt text default null, refund_cents integer default null,
  originator_conversation_id text default null, source_address text default null, unreadable text[] default '{}'
) returns public.settled_refund
language plpgsql security definer set search_path = '' as $$
declare
  settled public.refunds;
  stored_message bigint;
  message_outcome text;
  settled_receipt constant text := private.normalised_receipt(settle_reversal.refund_receipt);
  unknown constant text[] := coalesce(settle_reversal.unreadable, '{}') || case
    when nullif(trim(settle_reversal.refund_receipt), '') is not null and settled_receipt is null then array['receipt'] else '{}'
  end;
begin
  if settle_reversal.result not in ('succeeded', 'failed', 'already_reversed', 'not_reversed', 'pending') then
    perform private.refuse(400, 'result_unknown', 'A settlement is succeeded, failed or pending');
  end if;
  settled := private.lock_refund(settle_reversal.refund_id);
  insert into public.payment_messages (refund_id, source, source_address, body)
  values (settled.id, settle_reversal.source, settle_reversal.source_address, settle_reversal.body)
  returning id into stored_message;
  if settled_receipt is not null then
    perform pg_advisory_xact_lock(hashtext('settle ' || settled_receipt));
  end if;
  -- lease_refunds does not lock the receipt: no other refund of this money may begin to be sent between the decision and the update.
  perform from public.refunds as r where r.receipt = settled.receipt and r.id <> settled.id for update;
  message_outcome := private.decide_reversal(
    settled, settle_reversal.source, settle_reversal.result, settled_receipt, settle_reversal.refund_cents,
    settle_reversal.originator_conversation_id
  );

  if message_outcome in ('completed', 'sent_twice', 'sent_by_another') then
    -- Also supersedes a failure. A second refund of the same money, requested after that failure, is withdrawn.
    update public.refunds as r
    set status = 'withdrawn', updated_at = now()
    where r.id <> settled.id and r.receipt = settled.receipt and r.status in ('requested', 'approved');
  end if;
  case message_outcome
    when 'completed' then
      update public.refunds as r
      set result_code = settle_reversal.result_code, result_description = settle_reversal.result_description
      where r.id = settled.id;
      settled := private.complete_refund(settled.id, settled_receipt);
    when 'already_completed' then
      -- A result with another amount does not have this refund's receipt.
      if settled.refund_receipt is null and settled_receipt is not null and settled.refund_cents = settle_reversal.refund_cents then
        settled := private.complete_refund(settled.id, settled_receipt);
      end if;
    when 'sent_twice' then
      settled := private.mark_sent_twice(settled, settled_receipt, settle_reversal.result_code, settle_reversal.result_description);
    when 'wrong_amount', 'already_reversed', 'failed' then
      update public.refunds as r
      set status = case
            when message_outcome = 'failed' then 'failed'
            when r.status in ('sending', 'sent', 'unknown') then 'unknown'
            else r.status
          end,
          result_code = settle_reversal.result_code,
          result_description = case
            when message_outcome = 'wrong_amount'
              then format('M-PESA reported %s cents, %s were to be refunded', settle_reversal.refund_cents, r.refund_cents)
            else settle_reversal.result_description
          end,
          next_check_at = case when message_outcome = 'already_reversed' then now() end, updated_at = now()
      where r.id = settled.id
      returning * into settled;
    else
      null;
  end case;
  update public.payment_messages as m set outcome = message_outcome where m.id = stored_message;
  if cardinality(unknown) > 0 and settled.refund_receipt is null then
    perform private.add_message_to_check(
      settle_reversal.source, 'unreadable', settle_reversal.body, unknown, settled_receipt, settle_reversal.refund_cents, null, '', null,
      settled.id
    );
  elsif settled.refund_receipt is not null then
    update public.messages_to_check as m
    set resolution = 'read_later', resolved_at = now()
    where m.refund_id = settled.id and m.problem = 'unreadable' and m.resolution is null;
  end if;
  return (message_outcome, settled)::public.settled_refund;
end
$$;

comment on function public.settle_reversal is
  'Settles a refund by a message of M-PESA: stores the message, decides what it means (decide_reversal) and updates refund, payment and order in the same transaction. Idempotent. A success supersedes a failure, never the reverse. unreadable: as in settle_payment.';

-- Execution rights
grant execute on function public.note_refund_by_hand, public.close_unknown_refund, public.acknowledge_sent_twice
  to authenticated;

grant execute on function public.lease_refunds, public.record_reversal_push, public.settle_reversal,
  public.find_refund_by_secret to service_role;

-- Prompts pause while M-PESA refuses them for a reason that only the owner can end: customers see another way to pay, staff see the cause.
create table private.prompt_incidents (
  id uuid primary key default gen_random_uuid(),
  code text not null,
  description text,
  is_refused boolean not null,
  began_at timestamptz not null default now(),
  ended_at timestamptz
);

comment on table private.prompt_incidents is
  'Times in which prompts did not work, from the first pause until a prompt worked or staff ended the pause.';

comment on column private.prompt_incidents.is_refused is
  'Whether M-PESA refused the requests themselves. False: prompts ended with this code.';

alter table private.prompt_incidents enable row level security;

comment on table private.failed_prompts is
  'Phones whose prompts failed since the last success, with a code about the shop''s account (cause: owner) or one without a documented meaning (cause: the code). One phone proves nothing, since it may be the cause.';

alter table private.failed_prompts enable row level security;

create table private.mpesa_settings (
  id boolean primary key default true,
  digest text not null,
  constraint "there is one digest" check (id)
);

comment on table private.mpesa_settings is
  'Digest of the settings with which prompts were last sent: other settings end a pause.';

alter table private.mpesa_settings enable row level security;

-- Hosted projects refuse an UPDATE or DELETE without a WHERE (safeupdate), also within a function.
create or replace function private.end_prompt_pause() returns void
language plpgsql set search_path = '' as $$
declare
  ended uuid;
begin
  delete from private.failed_prompts where true;
  delete from private.prompt_pause where true returning incident_id into ended;
  if ended is not null then
    update private.prompt_incidents as i set ended_at = now() where i.id = ended;
    perform private.announce_end_of_incident(ended);
  end if;
end
$$;

create or replace function private.end_refusal_pause() returns void
language plpgsql set search_path = '' as $$
begin
  delete from private.failed_prompts as f where f.is_refused;
  if exists (select from private.prompt_pause as p where p.is_refused) then
    perform private.end_prompt_pause();
  end if;
end
$$;

comment on function private.end_refusal_pause is 'Ends a pause that M-PESA''s refusals caused, because it has accepted a request.';

create or replace function private.is_owners_problem(failed public.payments, was_refused boolean) returns boolean
language plpgsql set search_path = '' as $$
declare
  counted_cause text := coalesce(case failed.ended_by when 'owner' then 'owner' else failed.result_code end, '');
  phones bigint;
  orders bigint;
begin
  if failed.ended_by = 'owner' and was_refused then
    -- No phone was involved.
    return true;
  end if;
  insert into private.failed_prompts as known (cause, phone, order_id, is_refused, at)
  values (counted_cause, failed.phone, failed.order_id, was_refused, now())
  on conflict on constraint "a phone counts once per cause" do update
  set order_id = excluded.order_id, is_refused = excluded.is_refused, at = excluded.at;
  select count(distinct f.phone), count(distinct f.order_id) into phones, orders
  from private.failed_prompts as f where f.cause = counted_cause and f.at > now() - interval '1 hour';
  -- A second customer confirms a code that is about the shop; a code without a documented meaning needs a third.
  return least(phones, orders) >= case failed.ended_by when 'owner' then 2 else 3 end
    -- The probe after a pause, by another phone.
    or exists (
      select from private.prompt_pause as paused
      where paused.caused_by <> failed.phone and paused.until between now() - interval '1 hour' and now()
        and (failed.ended_by = 'owner' or paused.code = failed.result_code)
    );
end
$$;

comment on function private.is_owners_problem is
  'Whether a failure with ended_by owner or unknown shows that no customer can pay. Counts it where one customer proves nothing.';

create or replace function private.pause_prompts(new public.payments) returns void
language plpgsql set search_path = '' as $$
declare
  was_refused boolean := new.checkout_request_id is null;
  incident uuid;
begin
  if new.status = 'completed' then
    perform private.end_prompt_pause();
    return;
  elsif new.status <> 'failed' then
    perform private.end_refusal_pause();
    return;
  end if;
  if coalesce(new.ended_by not in ('owner', 'unknown'), true) or not private.is_owners_problem(new, was_refused) then
    -- Proves nothing about M-PESA: the next prompt is the probe.
    update private.prompt_pause as paused set probe_at = null where paused.probe_at is not null and paused.until <= now();
    return;
  end if;
  insert into private.prompt_pause (code, description, caused_by, is_refused, until)
  values (coalesce(new.result_code, ''), new.result_description, new.phone, was_refused, now() + interval '5 minutes')
  on conflict (id) do nothing;
  if found then
    insert into private.prompt_incidents (code, description, is_refused)
    values (coalesce(new.result_code, ''), new.result_description, was_refused)
    returning id into incident;
    update private.prompt_pause as paused set incident_id = incident where paused.incident_id is null;
    perform private.queue_staff_message('prompts_paused', incident::text);
    return;
  end if;
  update private.prompt_pause as paused
  set code = coalesce(new.result_code, ''), description = new.result_description, caused_by = new.phone,
      is_refused = was_refused, probe_at = null,
      times = case when paused.until > now() - interval '1 hour' then paused.times + 1 else 1 end,
      until = now() + case
        when paused.until > now() - interval '1 hour' then least(interval '5 minutes' * power(2, least(paused.times, 10)), interval '1 hour')
        else interval '5 minutes'
      end
  -- Failures of prompts sent before the pause do not extend it.
  where paused.until <= now();
end
$$;

comment on function private.pause_prompts is
  'Begins, extends or ends the pause of prompts after a prompt was accepted, refused, paid or failed.';

create or replace function public.are_prompts_paused() returns boolean
language sql stable security definer set search_path = '' as $$
  select exists (
    select from private.prompt_pause as paused
    where paused.until > now() or (paused.until > now() - interval '1 hour' and paused.probe_at > now() - interval '2 minutes')
  );
$$;

comment on function public.are_prompts_paused is
  'Whether no prompt is sent right now, because M-PESA refuses the shop''s, or because one is being tried. Customers then pay without one.';

create or replace function private.refuse_prompt_in_pause() returns void
language plpgsql set search_path = '' as $$
begin
  perform from private.prompt_pause as paused for update;
  if not found then
    return;
  elsif public.are_prompts_paused() then
    perform private.refuse(409, 'prompts_paused', 'M-PESA prompts do not work right now. Your order is saved');
  end if;
  -- This prompt is the probe.
  update private.prompt_pause as paused set probe_at = now() where true;
end
$$;

create or replace function public.note_mpesa_settings(digest text) returns void
language plpgsql security definer set search_path = '' as $$
begin
  insert into private.mpesa_settings (digest) values (note_mpesa_settings.digest) on conflict (id) do nothing;
  if found then
    return;
  end if;
  update private.mpesa_settings as s set digest = note_mpesa_settings.digest where s.digest <> note_mpesa_settings.digest;
  if found then
    perform private.end_prompt_pause();
  end if;
end
$$;

comment on function public.note_mpesa_settings is
  'Ends the pause of prompts if the payment function has other settings than before. Called once per process.';

create or replace function public.payment_health() returns public.payment_health
language plpgsql stable security definer set search_path = '' as $$
declare
  health public.payment_health;
begin
  perform private.expect_staff();
  health.checked_at := clock_timestamp();
  health.pause := (
    select (p.code, p.description, p.since, p.until, p.is_refused)::public.active_pause from private.prompt_pause as p
  );
  -- Each count reads its own partial index.
  health.refunds_to_approve := (select count(*) from public.refunds as r where r.status = 'requested');
  health.refunds_to_approve_by_me := (
    select count(*) from public.refunds as r
    where r.status = 'requested' and r.requested_by is distinct from (select auth.uid())
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

-- Jobs: claims of calls of the payment function, by one process at a time

create or replace function private.is_payment_job_due(action text) returns boolean
language plpgsql stable set search_path = '' as $$
begin
  -- The conditions of the functions that lease the work, such as lease_payment_queries.
  return case is_payment_job_due.action
    when 'query-open' then exists (
      select from public.payments as p
      where (p.status = 'review' and p.next_query_at <= now()) or p.status in ('initiating', 'processing')
        and (p.next_query_at <= now() or p.created_at < now()
          - case when p.checkout_request_id is null then interval '15 minutes' else interval '1 day' end)
    )
    when 'send-refunds' then exists (
      select from public.refunds as r
      where r.status = 'approved'
        or (r.status in ('sent', 'unknown') and r.next_check_at <= now())
        or (r.status = 'sending' and r.sent_at < now() - interval '2 minutes')
    ) or exists (
      select from public.refunds as r
      join public.mpesa_transactions as known on known.receipt = r.receipt and known.received_cents < r.refund_cents
      where r.status in ('requested', 'approved')
    )
    when 'take-up-till' then exists (
      select from public.payment_messages as m
      where m.source = 'confirmation' and m.outcome is null and m.received_at < now() - interval '30 seconds'
    ) or exists (
      select from public.payment_messages as m
      where m.outcome = 'error' and m.received_at < now() - interval '30 seconds'
    )
    when 'pull-statement' then exists (
      select from private.mpesa_registrations as registered where registered.kind = 'statement'
    ) and not exists (
      select from public.statement_pulls as s
      where (s.outcome = 'running' and s.leased_until >= now())
        or (s.outcome = 'complete' and s.finished_at > now() - interval '30 minutes')
        or (s.outcome = 'failed' and s.finished_at > now() - interval '5 minutes')
    )
    else false
  end;
end
$$;

comment on function private.is_payment_job_due is 'Whether the payment function has work for this action now.';

-- Execution rights
grant execute on function public.are_prompts_paused to anon, authenticated, service_role;

grant execute on function public.resume_prompts, public.payment_health to authenticated;

grant execute on function public.lease_daraja_token, public.store_daraja_token, public.claim_payment_job,
  public.note_mpesa_settings
  to service_role;

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
  perform private.expect_staff();
  code := private.read_receipt(confirm_till_payment.receipt);
  if private.is_whole_shillings(received) is not true then
    perform private.refuse(400, 'amount_invalid', 'The amount must be in whole shillings');
  end if;
  select * into confirmed_order from public.orders as o where o.id = confirm_till_payment.order_id for update;
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
  insert into public.payments (order_id, phone, charge_cents, status, method, confirmed_by)
  -- Not an open attempt: the result of a prompt may still be expected.
  values (confirmed_order.id, '', received, 'unresolved', 'till', member)
  returning * into known;
  perform set_config('private.is_typed_by_staff', 'yes', true);
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
  perform set_config('private.is_typed_by_staff', '', true);
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
  perform private.expect_staff();
  code := private.read_receipt(correct_till_payment.receipt);
  if private.is_whole_shillings(received) is not true then
    perform private.refuse(400, 'amount_invalid', 'The amount must be in whole shillings');
  end if;
  select o.* into paid_order from public.orders as o
  where o.id = (select p.order_id from public.payments as p where p.id = correct_till_payment.payment_id)
  for update;
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
      or (paid_order.payment_status = 'paid' and (paid_order.status in ('pending', 'processing') or received = known.charge_cents))
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
  perform set_config('private.is_typed_by_staff', 'yes', true);
  if paid_order.payment_status = 'needs_review' and received = paid_order.charge_cents
    and known.charge_cents <> paid_order.charge_cents then
    perform private.mark_order_paid(paid_order.id);
  elsif paid_order.payment_status = 'paid' and received not in (known.charge_cents, paid_order.charge_cents) then
    perform private.put_order_under_review(paid_order.id);
  end if;
  perform set_config('private.is_typed_by_staff', '', true);
  perform private.withdraw_messages(paid_order.id);
  perform private.match_receipts(paid_order.id);
  select o.* into paid_order from public.orders as o where o.id = paid_order.id;
  select * into known from public.payments as p where p.id = known.id;
  return (paid_order.payment_status, known)::public.settled_payment;
end
$$;
comment on function public.correct_till_payment is
  'For staff: corrects receipt and amount (in cents) of a manual payment that M-PESA has not confirmed and that is the only money of its order. Refuses if they changed since they were read. The order is paid when the amount is its charge, otherwise it needs review.';

create or replace function private.read_receipt(typed text) returns text
language plpgsql stable set search_path = '' as $$
declare
  code text := private.normalised_receipt(typed);
begin
  if code is null then
    perform private.refuse(400, 'receipt_invalid', 'An M-PESA receipt has ten letters and digits, such as UKL3AB12CD');
  end if;
  return code;
end
$$;

comment on function private.read_receipt is
  'An M-PESA receipt that staff typed, in capitals and without spaces. Refuses anything else.';

create or replace function public.statement_status() returns public.statement_status
language plpgsql stable security definer set search_path = '' as $$
declare
  status public.statement_status;
begin
  perform private.expect_staff();
  status.checked_at := clock_timestamp();
  select max(r.registered_at) filter (where r.kind = 'till'), max(r.registered_at) filter (where r.kind = 'statement')
  into status.till_registered_at, status.statement_registered_at
  from private.mpesa_registrations as r;
  select max(t.reported_by_confirmation_at) into status.last_confirmation_at
  from public.mpesa_transactions as t where t.transacted_at > now() - interval '30 days';
  select max(s.finished_at), max(s.window_to) into status.last_complete_at, status.covered_until
  from public.statement_pulls as s where s.outcome = 'complete';
  select s.problem into status.problem
  from public.statement_pulls as s where s.outcome <> 'running' order by s.id desc limit 1;
  status.missed := array(
    select (s.missed_since, s.window_from)::public.period
    from public.statement_pulls as s
    where s.outcome = 'complete' and s.missed_since is not null and s.started_at > now() - interval '14 days'
    order by s.id desc
  );
  select count(*) into status.unsettled_messages
  from public.payment_messages as m
  where (m.outcome = 'error' or (m.source = 'confirmation' and m.outcome is null)) and m.received_at < now() - interval '5 minutes';
  select count(*) into status.unmatched
  from public.mpesa_transactions as t where t.payment_id is null and t.resolution is null;
  select count(*) into status.to_check from public.messages_to_check as m where m.resolution is null;
  return status;
end
$$;

comment on function public.statement_status is
  'For staff: registrations of confirmations and statement, end of its coverage, its gaps, and money and messages that wait.';

-- Execution rights
grant execute on function public.confirm_till_payment, public.correct_till_payment, public.statement_status
  to authenticated, service_role;

-- Messages of M-PESA that a person must check: what cannot be read is neither done nor failed (docs/decisions/reading-messages.md).

create table public.messages_to_check (
  id bigint generated always as identity primary key,
  source text not null,
  problem text not null,
  body text not null,
  digest text not null,
  unreadable text[] not null default '{}',
  receipt text,
  received_cents integer,
  transacted_at timestamptz,
  reference text not null default '',
  payment_id uuid references public.payments (id) on delete set null,
  refund_id uuid references public.refunds (id) on delete set null,
  received_at timestamptz not null default now(),
  resolution text,
  note text,
  resolved_by uuid,
  resolved_by_email text,
  resolved_at timestamptz,
  constraint "a message is checked once" unique (digest),
  constraint "a problem of a message is known" check (problem in ('unreadable', 'unknown_kind', 'reversed')),
  constraint "a resolution of a message is known" check (resolution in ('entered', 'not_a_payment', 'read_later')),
  constraint "a resolved message has a time" check ((resolution is null) = (resolved_at is null))
);

comment on table public.messages_to_check is
  'Messages of M-PESA that cannot be settled by what can be read of them, until staff enter what they say or note that they are no payment. problem: unreadable; unknown_kind (of transaction); reversed (money was taken back that no refund asked for).';

comment on column public.messages_to_check.unreadable is 'The parts that are missing or cannot be read: code, receipt, amount, time.';

comment on column public.messages_to_check.resolution is
  'entered: staff entered what it says. not_a_payment: staff noted why. read_later: another message reported the same. Null: it waits.';

alter table public.messages_to_check enable row level security;

grant select on public.messages_to_check to authenticated;

-- Otherwise realtime would announce changes to visitors, without their rows.
grant select (id) on public.messages_to_check to anon;

create policy "staff read every message to check" on public.messages_to_check
  for select to authenticated using ((select public.is_admin()));

create index messages_to_check_waiting on public.messages_to_check (received_at) where resolution is null;

create index messages_to_check_by_payment on public.messages_to_check (payment_id) where payment_id is not null;

create index messages_to_check_by_refund on public.messages_to_check (refund_id) where refund_id is not null;

create index messages_to_check_by_receipt on public.messages_to_check (receipt) where receipt is not null;

create index messages_to_check_with_bodies on public.messages_to_check (received_at) where resolution is not null and body <> '{}';

create or replace function private.add_message_to_check(
  source text, problem text, body text, unreadable text[], receipt text, received_cents integer, transacted_at timestamptz,
  reference text, payment_id uuid default null, refund_id uuid default null
) returns text
language plpgsql set search_path = '' as $$
#variable_conflict use_column
declare
  -- Spacing makes no other message.
  message_digest text := encode(sha256(convert_to(concat_ws(
    ' ', add_message_to_check.source, add_message_to_check.payment_id, add_message_to_check.refund_id,
    regexp_replace(add_message_to_check.body, '\s', '', 'g')
  ), 'UTF8')), 'hex');
begin
  insert into public.messages_to_check (
    source, problem, body, digest, unreadable, receipt, received_cents, transacted_at, reference, payment_id, refund_id
  ) values (
    add_message_to_check.source, add_message_to_check.problem, add_message_to_check.body, message_digest,
    array(select distinct part from unnest(add_message_to_check.unreadable) as part order by part),
    add_message_to_check.receipt, add_message_to_check.received_cents, add_message_to_check.transacted_at,
    coalesce(trim(add_message_to_check.reference), ''), add_message_to_check.payment_id, add_message_to_check.refund_id
  )
  on conflict (digest) do nothing;
  if found then
    return 'new';
  end if;
  return (
    select case when m.resolution is null then 'waiting' else 'checked' end from public.messages_to_check as m where m.digest = message_digest
  );
end
$$;

comment on function private.add_message_to_check is
  'Stores a message that staff must check, each once. Returns new; waiting if it is stored already, checked if it is resolved.';

create or replace function private.close_messages_to_check(attempt public.payments) returns void
language sql set search_path = '' as $$
  update public.messages_to_check as m
  set resolution = 'read_later', resolved_at = now()
  where m.resolution is null and m.problem = 'unreadable' and (
    (m.payment_id = attempt.id and (
      (attempt.status = 'completed' and attempt.receipt is not null)
      -- A message without a readable code is explained by any final result.
      or (attempt.status in ('completed', 'failed') and m.unreadable = array['code'])
    ))
    or (attempt.status = 'completed' and m.receipt = attempt.receipt and not m.unreadable && array['time'])
  );
$$;

comment on function private.close_messages_to_check is
  'Ends the wait of unreadable messages about an attempt once its result and receipt are known.';

create or replace function private.receive_reversal(
  source text, receipt text, received_cents integer, reference text, reversed_at timestamptz, body text, reversed_receipt text
) returns text
language plpgsql set search_path = '' as $$
#variable_conflict use_column
declare
  original text;
  reversed public.payments;
  refund public.refunds;
  outcome text;
  state text;
begin
  -- The reversed payment is named, or its receipt is the reference, or the reversal has its receipt.
  select named.receipt into original
  from unnest(array[
    private.normalised_receipt(receive_reversal.reversed_receipt), private.normalised_receipt(receive_reversal.reference),
    receive_reversal.receipt
  ]) with ordinality as named (receipt, place)
  where exists (select from public.payments as p where p.receipt = named.receipt)
    or exists (select from public.mpesa_transactions as t where t.receipt = named.receipt)
  order by named.place
  limit 1;

  select * into refund from public.refunds as r
  where r.refund_receipt = receive_reversal.receipt
    or (r.receipt = original and r.tries > 0 and r.status <> 'withdrawn')
  order by r.refund_receipt is not distinct from receive_reversal.receipt desc, r.status = 'failed', r.created_at desc
  limit 1;
  if refund.status = 'completed' and (
    refund.refund_receipt = receive_reversal.receipt or refund.refund_receipt is null and receive_reversal.receipt = original
  ) then
    return 'already_completed';
  elsif refund.id is not null then
    outcome := (public.settle_reversal(
      refund.id, receive_reversal.source, receive_reversal.body, 'succeeded', '0', 'Reversed, by the statement',
      nullif(receive_reversal.receipt, original), abs(receive_reversal.received_cents)
    )).outcome;
    if outcome in ('completed', 'already_completed') then
      return outcome;
    end if;
  end if;

  -- Locked first: the message's reference to the payment locks that.
  perform from public.orders as o
  where o.id = (select p.order_id from public.payments as p where p.receipt = original) for update;
  select p.* into reversed from public.payments as p where p.receipt = original;
  state := private.add_message_to_check(
    receive_reversal.source, 'reversed', receive_reversal.body, '{}', receive_reversal.receipt, receive_reversal.received_cents,
    receive_reversal.reversed_at, coalesce(original, receive_reversal.reference), reversed.id, refund.id
  );
  if state = 'new' and reversed.order_id is not null and not reversed.needs_refund and reversed.refunded_at is null then
    perform private.put_order_under_review(reversed.order_id);
  end if;
  return case state when 'checked' then 'checked' else 'reversed' end;
end
$$;

comment on function private.receive_reversal is
  'Matches a reversal that M-PESA lists with the refund that asked for it. Without one it waits for staff, and the order of the reversed payment needs review. Returns the outcome: completed, already_completed, reversed, or checked once staff have resolved it.';

create or replace function private.waiting_message_to_check(message_id bigint) returns public.messages_to_check
language plpgsql set search_path = '' as $$
declare
  waiting public.messages_to_check;
begin
  select * into waiting from public.messages_to_check as m where m.id = waiting_message_to_check.message_id;
  if not found then
    perform private.refuse(404, 'message_not_found', 'This message does not exist');
  elsif waiting.resolution is not null then
    perform private.refuse(409, 'message_checked', 'This message was checked in the meantime. Nothing was saved');
  end if;
  return waiting;
end
$$;

comment on function private.waiting_message_to_check is 'A message that waits. Refuses others.';

create or replace function private.finish_message_to_check(message_id bigint, resolution text, note text) returns public.messages_to_check
language plpgsql set search_path = '' as $$
declare
  member uuid := (select auth.uid());
  finished public.messages_to_check;
begin
  update public.messages_to_check as m
  set resolution = finish_message_to_check.resolution, note = finish_message_to_check.note, resolved_by = member,
      resolved_by_email = private.email_of(member), resolved_at = now()
  -- Settling what staff entered ends its wait, too.
  where m.id = finish_message_to_check.message_id and (m.resolution is null or (m.resolution = 'read_later' and m.resolved_by is null))
  returning * into finished;
  if not found then
    perform private.refuse(409, 'message_checked', 'This message was checked in the meantime. Nothing was saved');
  end if;
  return finished;
end
$$;

create or replace function public.enter_message_to_check(
  message_id bigint, receipt text, received_cents integer, transacted_at timestamptz
) returns public.settled_payment
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  member uuid := private.expect_staff_member();
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
  member uuid := private.expect_staff_member();
  waiting public.messages_to_check := private.waiting_message_to_check(dismiss_message_to_check.message_id);
  reason text := trim(coalesce(dismiss_message_to_check.note, ''));
begin
  if char_length(reason) not between 3 and 200 then
    perform private.refuse(400, 'reason_invalid', 'Please say why, in 3 to 200 characters');
  end if;
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

comment on table public.reconciliation_events is
  'Staff decisions about differences between the books and M-PESA. Append-only, by resolve_difference, resolve_review, take_back_payment and note_change. actor_email: the email address at that time.';

alter table public.reconciliation_events enable row level security;

revoke all on public.reconciliation_events from anon, authenticated, service_role;

grant select on public.reconciliation_events to authenticated, service_role;

grant select (id) on public.reconciliation_events to anon;

create or replace function private.reconciliation_rows(since timestamptz, until timestamptz) returns setof public.reconciliation_row
language plpgsql stable
set search_path = ''
-- A day and a year need different plans.
set plan_cache_mode = force_custom_plan
as $$
declare
  coverage tstzmultirange := private.statement_coverage();
begin
  return query
  with entries as (
    select t, coalesce(t.payment_id, t.attempt_id) as payment_id, t.resolution
    from public.mpesa_transactions as t
    where t.transacted_at >= reconciliation_rows.since and t.transacted_at < reconciliation_rows.until
      -- The money of a payment test pays no order.
      and not exists (select from public.payments as k where k.id = t.payment_id and k.purpose = 'test')
    union all
    select null, ours.id, (
      -- For payments that only the shop knows, the last event is the decision.
      select nullif(e.kind, 'reopened') from public.reconciliation_events as e
      where e.payment_id = ours.id and e.kind not like 'change\_%' order by e.id desc limit 1
    )
    from (
      select p.id
      from public.payments as p
      where p.status = 'completed' and p.purpose = 'order'
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
      where p.status = 'failed' and p.purpose = 'order'
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
        when p.status in ('review', 'failed') then 'wrong_amount'
        when p.needs_refund then 'double'
        -- Parts that add up to the charge are right.
        when (e.t).received_cents <> p.charge_cents or money.booked_cents <> o.charge_cents then 'wrong_amount'
        when (e.t).receipt is not null then 'matched'
        when coverage @> tstzrange(p.created_at, p.completed_at + interval '10 minutes') then 'missing_there'
        when p.method = 'till' and p.confirmed_by is not null and private.should_be_reported(o.id) then 'typed'
        else 'not_compared'
      end as kind,
      money.booked_cents, money.waiting_cents, change.owed_cents, change.returned_cents
    from entries as e
    left join public.payments as p on p.id = e.payment_id
    left join public.orders as o on o.id = coalesce(p.order_id, (e.t).order_id)
    left join lateral (
      select
        (select sum(own.charge_cents) from public.payments as own
         where own.order_id = o.id and own.status = 'completed' and not own.needs_refund) as booked_cents,
        (select sum(part.received_cents) from public.mpesa_transactions as part
         where part.order_id = o.id and part.payment_id is null and part.resolution is null) as waiting_cents
    ) as money on o.id is not null
    left join lateral private.change_of(p.id) as change on p.status = 'completed'
    left join lateral (
      select r.status from public.refunds as r
      where r.payment_id = p.id or r.receipt = coalesce((e.t).receipt, p.receipt)
      order by r.status in ('failed', 'withdrawn'), r.created_at desc
      limit 1
    ) as refund on true
  )
  select
    coalesce((c.t).receipt, (c.p).id::text),
    coalesce((c.t).transacted_at, (c.p).completed_at, (c.p).updated_at),
    c.kind,
    case
      when c.kind in ('matched', 'not_compared') or c.refund_status not in ('failed', 'withdrawn')
        or c.resolution in ('accepted', 'not_an_order') then false
      when c.kind = 'double' then (c.p).refunded_at is null
      when c.kind = 'wrong_amount' and ((c.t).receipt is null or (c.t).payment_id is not null) and (c.p).status = 'completed'
        then (c.t).received_cents <> (c.p).charge_cents or (c.o).payment_status = 'needs_review'
      else true
    end,
    coalesce((c.t).receipt, (c.p).receipt),
    case when (c.p).status in ('completed', 'review') then (c.p).charge_cents end,
    (c.t).received_cents,
    (c.p).id, (c.p).status, (c.p).method, coalesce((c.p).needs_refund, false), (c.p).refunded_at, c.refund_status,
    (c.o).id, (c.o).order_number, (c.o).tracking_number, (c.o).customer_name, (c.o).charge_cents, (c.o).payment_status,
    (c.t).reference, (c.t).payer_name, (c.t).payer_phone, (c.t).reported_by_confirmation_at, (c.t).reported_by_statement_at,
    c.resolution,
    (c.o).status, c.booked_cents, c.waiting_cents, c.owed_cents, c.returned_cents, (c.p).confirmed_by
  from compared as c;
end
$$;

create or replace function public.reconciliation_days(since date, until date) returns table (
  day date, ours bigint, theirs bigint, payments bigint, matched bigint, missing_here bigint, missing_there bigint,
  not_compared bigint, doubles bigint, wrong_amounts bigint, open bigint
)
language plpgsql stable security definer set search_path = '' as $$
#variable_conflict use_column
begin
  perform private.expect_staff();
  if reconciliation_days.until - reconciliation_days.since not between 0 and 366 then
    perform private.refuse(400, 'range_invalid', 'A range has up to 366 days');
  end if;
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
  member uuid := private.expect_staff_member();
  member_email text := private.email_of(member);
  reported public.mpesa_transactions;
  money public.payments;
  reason text := nullif(trim(resolve_difference.note), '');
  settled public.settled_payment;
  outcome text;
  event_kind text;
  kept_cents integer;
  of_order uuid;
  code text := coalesce(private.normalised_receipt(resolve_difference.receipt), resolve_difference.receipt);
begin
  if char_length(reason) not between 3 and 200 then
    perform private.refuse(400, 'reason_invalid', 'A note has 3 to 200 characters');
  end if;
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
      perform from public.orders as o where o.id = of_order for update;
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
    insert into public.payments (order_id, phone, charge_cents, status, method, confirmed_by)
    values (resolve_difference.order_id, '', reported.received_cents, 'unresolved', 'till', member)
    returning * into money;
    -- Staff can take it back before the customer is notified.
    perform set_config('private.is_typed_by_staff', 'yes', true);
    settled := public.settle_payment(
      payment_id => money.id, source => 'till',
      body => jsonb_build_object('receipt', reported.receipt, 'received_cents', reported.received_cents, 'confirmed_by', member, 'email', member_email)::text,
      result => 'succeeded', received_cents => reported.received_cents, receipt => reported.receipt
    );
    perform set_config('private.is_typed_by_staff', '', true);
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

-- Decisions about money for an order: finding its order, taking an assignment back, an amount that differs from the charge, change,
-- and receipts that M-PESA has not reported (docs/decisions/money-without-a-prompt.md).

-- Finding the order of a payment

create or replace function private.compare_payer_phone(payer_phone text, customer_phone text) returns text
language plpgsql immutable set search_path = '' as $$
declare
  compact text := regexp_replace(left(payer_phone, 100), '[\s+()-]', '', 'g');
  own text := right(customer_phone, 9);
  masked text;
  is_whole boolean;
  visible integer;
begin
  -- M-PESA hashes the number in confirmations, and masks it in statements.
  if compact ~ '^[0-9A-Fa-f]{64}$' then
    return case when exists (
      select from unnest(array['254' || own, '+254' || own, '0' || own, own]) as spelled (number)
      where encode(sha256(convert_to(spelled.number, 'UTF8')), 'hex') = lower(compact)
    ) then 'whole' end;
  elsif coalesce(compact, '') !~ '^[0-9*xX#•]{6,20}$' or own !~ '^\d{9}$' then
    return null;
  elsif private.normalised_phone(compact) is not null then
    return case when private.normalised_phone(compact) = customer_phone then 'whole' else 'differs' end;
  end if;
  masked := regexp_replace(compact, '[^0-9]', '*', 'g');
  -- 254 and nine digits, 0 and nine digits, or nine digits; of another length only the end can be compared.
  is_whole := char_length(masked) in (10, 12) or (char_length(masked) = 9 and masked !~ '^254');
  masked := case when is_whole then right(masked, 9) else lpad(right(coalesce(substring(masked from '[0-9]+$'), ''), 9), 9, '*') end;
  if exists (
    select from generate_series(1, 9) as place
    where substr(masked, place, 1) <> '*' and substr(masked, place, 1) <> substr(own, place, 1)
  ) then
    return 'differs';
  end if;
  -- Every number begins with 7 or 1.
  visible := char_length(replace(substr(masked, 2), '*', ''));
  return case when visible >= 3 then 'digits' end;
end
$$;

comment on function private.compare_payer_phone is
  'Compares the payer''s phone as M-PESA shows it (masked, hashed or whole) with the phone of a customer: whole, digits (at least three visible digits, and all of them, are the same), differs, or null if nothing can be compared.';

create or replace function private.shares_name(payer_name text, customer_name text) returns boolean
language sql immutable set search_path = '' as $$
  select exists (
    select from regexp_split_to_table(lower(left(payer_name, 200)), '[^[:alpha:]]+') as part
    where char_length(part) >= 3 and part = any (regexp_split_to_array(lower(customer_name), '[^[:alpha:]]+'))
  );
$$;

comment on function private.shares_name is 'Whether a name of the payer, of at least three letters, is a name of the customer.';

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
  perform private.expect_staff();
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
      where recent.payment_status in ('unpaid', 'needs_review')
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
    (select string_agg(i.quantity || ' × ' || i.product_name, ', ' order by i.created_at, i.id)
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

-- Taking an assignment back

create or replace function private.has_left_shop(seen public.orders) returns boolean
language sql stable set search_path = '' as $$
  select seen.status in ('shipped', 'out_for_delivery', 'delivered')
    -- Cancelled after it left: its units were not returned.
    or (seen.status = 'cancelled' and seen.payment_status = 'paid' and seen.units_returned_at is null)
    or exists (
      select from public.deliveries as d
      where d.order_id = seen.id and d.delivery_status in ('picked_up', 'in_transit', 'delivered')
    );
$$;

comment on function private.has_left_shop is 'Whether an order was handed over, to a rider or to its customer.';

create or replace function private.reopen_unpaid_order(order_id uuid) returns void
language plpgsql set search_path = '' as $$
declare
  reopened public.orders;
  minutes interval := (select make_interval(mins => s.reservation_minutes) from public.store_settings as s);
  was_cancelled boolean;
  holds_units boolean;
begin
  select * into strict reopened from public.orders as o where o.id = reopen_unpaid_order.order_id;
  delete from public.deliveries as d where d.order_id = reopened.id;
  -- Its time for payment had passed before the money came.
  was_cancelled := reopened.payment_status = 'paid' and 'cancelled' = (
    select e.details ->> 'from' from public.order_events as e
    where e.order_id = reopened.id and e.kind = 'status_changed' and e.details ->> 'reason' = 'paid'
    order by e.id desc limit 1
  );
  if reopened.status = 'cancelled' or was_cancelled then
    if reopened.status <> 'cancelled' then
      perform private.return_units(reopened.id);
    end if;
    update public.orders as o
    set payment_status = 'unpaid', payment_method = 'pending', status = 'cancelled', reserved_until = null, expires_at = null,
        units_returned_at = null, updated_at = now()
    where o.id = reopened.id;
    return;
  end if;
  -- A paid order has its units. One that needed review takes them, if enough are left.
  holds_units := reopened.payment_status = 'paid' or (
    not exists (select from public.order_items as i where i.order_id = reopened.id and i.product_id is null)
    and private.take_units(reopened.id)
  );
  update public.orders as o
  set payment_status = 'unpaid', payment_method = 'pending', status = 'pending', expires_at = now() + minutes,
      reserved_until = case when holds_units then now() + minutes end, expiry_limit = now() + 2 * minutes, extended_at = null,
      updated_at = now()
  where o.id = reopened.id;
end
$$;

comment on function private.reopen_unpaid_order is
  'Makes an order unpaid again whose payment was not its own: with a new time for payment, or cancelled if its time had passed before. The caller has locked the order.';

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
    where r.status in ('requested', 'approved') and r.tries = 0 and r.payment_id = (
      select p.id from public.payments as p
      where p.order_id = settled.id and p.status = 'completed' and p.refunded_at is null
      order by p.charge_cents = settled.charge_cents desc, private.is_being_refunded(p.id, p.receipt), p.completed_at, p.id
      limit 1
    );
  end if;
  -- The exact charge pays the order; otherwise the earliest money counts for it, if none does.
  select p.id into exact from public.payments as p
  where p.order_id = settled.id and p.status = 'completed' and p.refunded_at is null and not private.is_being_refunded(p.id, p.receipt)
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
  member uuid := private.expect_staff_member();
  reason text := nullif(trim(take_back_payment.note), '');
  paid_order public.orders;
  taken public.payments;
  reported public.mpesa_transactions;
  was_told boolean;
begin
  if char_length(reason) not between 3 and 200 then
    perform private.refuse(400, 'reason_invalid', 'A note has 3 to 200 characters');
  end if;
  -- The order first: then its payments and their receipts do not change.
  select o.* into paid_order from public.orders as o
  where o.id = (select p.order_id from public.payments as p where p.id = take_back_payment.payment_id)
  for update;
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
  elsif not taken.needs_refund and private.has_left_shop(paid_order) then
    perform private.refuse(409, 'order_left', 'This order has left the shop. Its money cannot be taken back any more');
  elsif reported.received_cents >= paid_order.charge_cents and private.order_of_reference(reported.reference) = paid_order.id then
    perform private.refuse(409, 'named_by_payer', 'The payer named this order. Cancel it and send the money back instead');
  end if;

  was_told := exists (
    select from public.outbox_messages as m
    where m.order_id = paid_order.id and m.kind in ('order_paid', 'order_payment_held')
      and m.event_key = private.payment_event_key(paid_order.id) and m.status in ('sending', 'sent', 'unsure')
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
    perform set_config('private.is_typed_by_staff', 'yes', true);
    perform private.settle_order_again(paid_order.id);
    perform set_config('private.is_typed_by_staff', '', true);
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

-- An amount that differs from the charge: one decision about the money and the order

create or replace function private.deliver_reviewed_order(order_id uuid) returns void
language plpgsql set search_path = '' as $$
begin
  if private.mark_order_paid(deliver_reviewed_order.order_id) <> 'paid' then
    perform private.refuse(409, 'units_sold',
      'The units of this order were sold in the meantime. There is not enough in stock to reopen it');
  end if;
end
$$;

comment on function private.deliver_reviewed_order is
  'Makes an order that needs review paid with the money that came. Refuses if its units are sold. The caller has locked the order.';

create or replace function public.resolve_review(order_id uuid, decision text, seen_cents integer, receipt text default null, note text default null)
returns text
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  member uuid := private.expect_staff_member();
  reason text := nullif(trim(resolve_review.note), '');
  decided public.orders;
  largest public.payments;
  received bigint;
  surplus bigint;
begin
  if char_length(reason) not between 3 and 200 then
    perform private.refuse(400, 'reason_invalid', 'A note has 3 to 200 characters');
  elsif resolve_review.decision not in ('deliver', 'deliver_with_credit', 'deliver_and_return', 'cancel_and_refund') then
    perform private.refuse(400, 'decision_unknown', 'The order is delivered as paid, with credit, with change to send back, or refunded');
  end if;
  perform from public.orders as o where o.id = resolve_review.order_id for update;
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
  order by p.charge_cents desc, p.id limit 1;
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

-- Change: money of a payment that is owed to its customer, or went back in part outside the shop

create table public.change_notes (
  id uuid primary key default gen_random_uuid(),
  payment_id uuid not null references public.payments (id),
  kind text not null,
  amount_cents integer not null,
  receipt text,
  note text,
  noted_by uuid,
  noted_by_email text,
  noted_at timestamptz not null default now(),
  constraint "change is credit, to return, or returned" check (kind in ('credit', 'to_return', 'returned')),
  constraint "change is of whole shillings" check (amount_cents >= 100 and amount_cents % 100 = 0),
  constraint "only returned change has a receipt" check (receipt is null or kind = 'returned'),
  constraint "a receipt returns change once" unique (receipt)
);

comment on table public.change_notes is
  'Change of a payment, added by note_change and resolve_review. credit, to_return: owed to the customer. returned: sent back outside the shop, with M-PESA''s receipt if there is one. Append-only.';

alter table public.change_notes enable row level security;

revoke all on public.change_notes from anon, authenticated, service_role;

grant select on public.change_notes to authenticated, service_role;

create policy "staff read every note of change" on public.change_notes for select to authenticated using ((select public.is_admin()));

create index change_notes_by_payment on public.change_notes (payment_id);

create or replace function private.change_of(payment_id uuid, out owed_cents bigint, out returned_cents bigint)
language sql stable set search_path = '' as $$
  select greatest(coalesce(sum(c.amount_cents) filter (where c.kind <> 'returned'), 0)
      - coalesce(sum(c.amount_cents) filter (where c.kind = 'returned'), 0), 0),
    coalesce(sum(c.amount_cents) filter (where c.kind = 'returned'), 0)
  from public.change_notes as c
  where c.payment_id = change_of.payment_id;
$$;

comment on function private.change_of is 'Change of a payment in cents: what is still owed, and what was sent back in part.';

create or replace function private.add_change_note(
  payment public.payments, kind text, amount_cents integer, receipt text, note text, member uuid
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
  if (kind = 'returned' and change.returned_cents + amount_cents >= change.came_cents)
    or (kind <> 'returned' and change.returned_cents + change.owed_cents + amount_cents > change.came_cents)
  then
    perform private.refuse(409, 'change_exceeds_payment', 'This is more than what is left of this payment. To send all of it back, refund it');
  end if;
  -- What M-PESA reported beyond a typed amount is booked with its change: otherwise it would go back without having come.
  update public.payments as p set charge_cents = change.came_cents, updated_at = now()
  where p.id = payment.id and p.method = 'till' and p.charge_cents < change.came_cents and private.is_whole_shillings(change.came_cents);
  insert into public.change_notes (payment_id, kind, amount_cents, receipt, note, noted_by, noted_by_email)
  values (payment.id, kind, amount_cents, receipt, note, member, private.email_of(member))
  returning * into noted;
  insert into public.reconciliation_events (receipt, payment_id, order_id, kind, note, actor_id, actor_email)
  values (
    payment.receipt, payment.id, payment.order_id, 'change_' || noted.kind,
    concat_ws(': ', format('KES %s', to_char(noted.amount_cents / 100, 'FM999,999,999')) || coalesce(', receipt ' || noted.receipt, ''), noted.note),
    member, private.email_of(member)
  );
  return noted;
end
$$;

comment on function private.add_change_note is
  'Adds a note of change, and books all that M-PESA reported for a typed amount. What is owed, and what went back, together never exceed the payment. The caller has locked the order and the payment.';

create or replace function public.note_change(
  payment_id uuid, kind text, amount_cents integer, receipt text default null, note text default null
) returns public.change_notes
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  member uuid := private.expect_staff_member();
  reason text := nullif(trim(note_change.note), '');
  has_receipt boolean := nullif(trim(note_change.receipt), '') is not null;
  code text;
  paid public.payments;
  noted public.change_notes;
begin
  if char_length(reason) not between 3 and 200 then
    perform private.refuse(400, 'reason_invalid', 'A note has 3 to 200 characters');
  elsif note_change.kind is null or note_change.kind not in ('credit', 'to_return', 'returned') then
    perform private.refuse(400, 'decision_unknown', 'Change is credit, to be returned, or returned');
  elsif private.is_whole_shillings(note_change.amount_cents) is not true then
    perform private.refuse(400, 'amount_invalid', 'The amount must be in whole shillings');
  elsif has_receipt and note_change.kind <> 'returned' then
    perform private.refuse(400, 'receipt_invalid', 'Only change that was sent back has a receipt');
  end if;
  perform from public.orders as o
  where o.id = (select p.order_id from public.payments as p where p.id = note_change.payment_id)
  for update;
  if has_receipt then
    code := private.check_refund_receipt(note_change.receipt);
  end if;
  select * into paid from public.payments as p where p.id = note_change.payment_id for update;
  if not found or paid.purpose <> 'order' then
    perform private.refuse(404, 'payment_not_found', 'This payment does not exist');
  elsif paid.status <> 'completed' then
    perform private.refuse(409, 'nothing_to_send_back', 'There is nothing to send back. Cancel a paid order first to send its money back');
  elsif paid.refunded_at is not null or private.is_being_refunded(paid.id, paid.receipt) then
    perform private.refuse(409, 'refund_exists', 'This money is being sent back already');
  end if;
  noted := private.add_change_note(paid, note_change.kind, note_change.amount_cents, code, reason, member);
  return noted;
end
$$;

comment on function public.note_change is
  'For staff: notes change of a payment: owed to the customer as credit or to be returned, or returned outside the shop in part, with M-PESA''s receipt if there is one. What is owed and what went back never exceed what came.';

create or replace function private.after_change_note() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  perform private.count_change(null, private.figures_of(new));
  return null;
end
$$;

create trigger change_notes_after_insert after insert on public.change_notes
  for each row execute function private.after_change_note();

create or replace function private.before_change_note_change() returns trigger
language plpgsql set search_path = '' as $$
begin
  -- A note moves with its payment, when two payments are merged.
  if tg_op = 'UPDATE' and to_jsonb(old) - 'payment_id' = to_jsonb(new) - 'payment_id' then
    return new;
  end if;
  raise exception using errcode = 'insufficient_privilege', message = 'Notes of change are only added to';
end
$$;

create trigger change_notes_before_change before update or delete on public.change_notes
  for each row execute function private.before_change_note_change();

create or replace function public.check_typed_receipt(order_id uuid, receipt text) returns public.typed_receipt
language plpgsql stable security definer set search_path = '' as $$
declare
  code text;
  reported_cents integer;
begin
  perform private.expect_staff();
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

create or replace function private.should_be_reported(order_id uuid) returns boolean
language sql stable set search_path = '' as $$
  select exists (select from private.mpesa_registrations as r where r.kind = 'till') or case
    -- A receipt does not show its time: any since the order was placed.
    when o.created_at < now() - interval '1 hour'
      then private.statement_coverage() @> tstzrange(o.created_at, now() - interval '1 hour')
    else false
  end
  from public.orders as o where o.id = should_be_reported.order_id;
$$;

comment on function private.should_be_reported is
  'Whether M-PESA reports every payment for an order: confirmations are registered, or complete statements cover the time since it was placed.';

-- Execution rights
grant execute on function public.suggest_orders, public.take_back_payment, public.resolve_review, public.note_change,
  public.check_typed_receipt to authenticated, service_role;

create or replace function private.move_order_with_delivery(old public.deliveries, new public.deliveries) returns void
language plpgsql set search_path = '' as $$
declare
  new_status text := private.order_status_of_delivery(new.delivery_status);
  old_status text := private.order_status_of_delivery(old.delivery_status);
begin
  if new_status is not null then
    update public.orders as o
    set status = new_status, updated_at = now()
    where o.id = new.order_id and o.status <> 'cancelled' and private.shown_status(o.status) is distinct from new_status;
  elsif old_status is not null or new.delivery_status = 'failed' then
    -- A delivery that fails without a rider belongs to an order that was shipped without one.
    update public.orders as o
    set status = 'processing', updated_at = now()
    where o.id = new.order_id and private.shown_status(o.status) = coalesce(old_status, 'out_for_delivery')
      and o.payment_status <> 'refunded';
  end if;
end
$$;

create or replace function private.before_delivery_change() returns trigger
language plpgsql security definer set search_path = '' as $$
declare
  moment timestamptz := clock_timestamp();
  ordered public.orders;
begin
  -- Lock the order before the delivery: the transaction that has locked the order may change the delivery next.
  select * into ordered from public.orders as o where o.id = new.order_id for no key update;
  if tg_op = 'UPDATE' then
    -- Never the same time for two changes.
    new.updated_at := greatest(moment, old.updated_at + interval '1 microsecond');
    if current_setting('private.is_undoing', true) = 'yes' then
      return new;
    end if;
    new.pickup_time := old.pickup_time;
    new.delivery_time := old.delivery_time;
    if new.delivery_status = old.delivery_status then
      -- The order may have changed while this request waited for its lock.
      new.delivery_status := private.delivery_status_for_order(ordered, old.delivery_status, new.delivery_person);
      if new.delivery_status = old.delivery_status then
        return new;
      end if;
    elsif private.delivery_status_for_order(ordered, old.delivery_status, old.delivery_person) <> old.delivery_status
      and (private.is_called_off(ordered) or private.order_status_of_delivery(new.delivery_status) is null)
    then
      -- The order changed first. A status that changes the order still applies, unless the order is called off.
      new.delivery_status := private.delivery_status_for_order(ordered,
        case when private.is_called_off(ordered) then old.delivery_status else new.delivery_status end, new.delivery_person);
    elsif private.order_status_of_delivery(old.delivery_status) is null and new.delivery_status in ('pending', 'assigned')
      and not private.is_called_off(ordered)
    then
      -- A rider for an order that was shipped without one is on the way.
      new.delivery_status := private.delivery_status_for_order(ordered, new.delivery_status, new.delivery_person);
    end if;
  elsif new.delivery_status in ('pending', 'assigned') and not private.is_called_off(ordered) then
    new.delivery_status := private.delivery_status_for_order(ordered, new.delivery_status, new.delivery_person);
  end if;
  if new.delivery_status <> 'failed' and private.is_called_off(ordered) then
    if ordered.payment_status = 'refunded' then
      perform private.refuse(409, 'order_refunded', 'The money of this order was sent back. It can be neither shipped nor delivered');
    end if;
    perform private.refuse(409, 'delivery_of_cancelled_order', 'This order was cancelled. To deliver it after all, change the order first');
  end if;
  -- An earlier status clears later times.
  case new.delivery_status
    when 'picked_up' then
      new.pickup_time := moment;
      new.delivery_time := null;
    when 'delivered' then
      new.delivery_time := moment;
    when 'pending', 'assigned' then
      new.pickup_time := null;
      new.delivery_time := null;
    else
      new.delivery_time := null;
  end case;
  return new;
end
$$;

create or replace function private.is_called_off(ordered public.orders) returns boolean
language sql immutable
return ordered.status = 'cancelled' or (ordered.payment_status = 'refunded' and ordered.status <> 'delivered');

comment on function private.is_called_off is
  'Whether nothing of an order is to be delivered any more: it was cancelled, or its money was sent back before it was delivered.';

create or replace function private.delivery_status_for_order(ordered public.orders, delivery_status text, delivery_person text) returns text
language sql immutable
return case
  -- Whatever the rider had begun ends; what arrived has arrived.
  when private.is_called_off(ordered) then case when delivery_status = 'delivered' then 'delivered' else 'failed' end
  when ordered.status = 'delivered' then 'delivered'
  when private.shown_status(ordered.status) = 'out_for_delivery' then case
    when delivery_status in ('picked_up', 'in_transit') then delivery_status
    -- Shipped without a rider: it waits for one.
    when delivery_person is null then 'pending'
    else 'in_transit'
  end
  when delivery_status not in ('picked_up', 'in_transit', 'delivered') then delivery_status
  when delivery_person is null then 'pending'
  else 'assigned'
end;

comment on function private.delivery_status_for_order is
  'The status that a delivery gets from its order; unchanged if they agree.';

create or replace function private.move_delivery_with_order(old public.orders, new public.orders) returns void
language plpgsql set search_path = '' as $$
declare
  delivery public.deliveries;
  new_status text;
begin
  -- Skips a locked delivery: the request that has it waits for this order, then reads it.
  select * into delivery from public.deliveries as d where d.order_id = new.id for no key update skip locked;
  if found then
    new_status := private.delivery_status_for_order(
      new,
      -- A reactivated order is delivered again.
      case when old.status = 'cancelled' and delivery.delivery_status = 'failed'
        then case when delivery.delivery_person is null then 'pending' else 'assigned' end
        else delivery.delivery_status
      end,
      delivery.delivery_person
    );
    update public.deliveries as d
    set delivery_status = new_status
    where d.id = delivery.id and d.delivery_status <> new_status;
  end if;
end
$$;

create or replace function public.resolve_paid_order(order_id uuid, resolution text) returns void
language plpgsql security definer set search_path = '' as $$
declare
  decided public.orders;
begin
  perform private.expect_staff();
  select * into decided from public.orders as o where o.id = resolve_paid_order.order_id for update;
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
    set payment_status = 'refunded', status = 'cancelled',
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

create or replace function private.record_status_change(order_id uuid, state_before jsonb) returns public.status_change
language plpgsql set search_path = '' as $$
#variable_conflict use_column
declare
  change_id uuid;
  change public.status_change;
begin
  delete from private.status_changes as c where c.id in (
    select old.id from private.status_changes as old where old.undo_until < now() for update skip locked
  );
  insert into private.status_changes (order_id, changed_by, undo_until, state_before, state_after)
  values (
    record_status_change.order_id, (select auth.uid()), now() + private.undo_window(),
    record_status_change.state_before, private.order_state(record_status_change.order_id)
  )
  returning id into change_id;
  change := (
    change_id, extract(epoch from private.undo_window())::integer,
    exists (
      select from public.outbox_messages as m
      join private.outbox_queue as q on q.message_id = m.id
      where m.order_id = record_status_change.order_id and private.is_status_message(m.kind)
        and m.attempts = 0 and private.is_message_true(m.order_id, m.kind)
    )
  )::public.status_change;
  perform private.note_answer(to_jsonb(change));
  return change;
end
$$;

comment on function private.record_status_change is
  'Stores what undo_status_change needs. Returns the result of the procedure that made the change.';

-- Execution rights
grant execute on function public.resolve_paid_order, public.set_order_status, public.set_delivery_status,
  public.undo_status_change to authenticated, service_role;

create or replace function private.work_step(order_status text, payment_status text, delivery_status text) returns text
language sql immutable
return case
  when payment_status <> 'paid' or order_status in ('cancelled', 'delivered') then null
  when delivery_status = 'failed' then 'failed'
  when private.shown_status(order_status) = 'out_for_delivery' then 'on_the_way'
  when delivery_status = 'assigned' then 'assigned'
  else 'prepare'
end;

comment on function private.work_step is
  'What a paid order waits for: prepare (in the shop, without a rider), assigned (its rider picks it up), on_the_way, or failed (its delivery failed: try again or refund). Null: nothing. Also of orders that were shipped without a rider, delivery_status is pending until one is assigned.';

create or replace function private.read_list_search(search text, out words text[], out digits text, out order_ids uuid[])
language plpgsql stable set search_path = '' as $$
declare
  written text := trim(left(translate(lower(search), 'àáâãäåçèéêëìíîïĩñòóôõöùúûüũ''’ʼ', 'aaaaaaceeeeiiiiinooooouuuuu'), 200));
  typed_receipt text := private.normalised_receipt(search);
begin
  -- ord1040, ORD 1040 and #1040 are ORD-1040.
  written := regexp_replace(regexp_replace(written, '\mord[\s.:#-]*(?=\d)', 'ord-', 'g'), '#(?=\d)', '', 'g');
  if coalesce(written, '') = '' then
    return;
  end if;
  order_ids := array(
    select found.id from (
      select named.id from private.orders_named(private.order_numbers_in(written)) as named (id)
      union
      select p.order_id from public.payments as p where p.receipt = typed_receipt
      union
      select coalesce(t.order_id, p.order_id)
      from public.mpesa_transactions as t
      -- The receipt of another amount belongs to the attempt alone while it needs review.
      left join public.payments as p on p.id = coalesce(t.payment_id, t.attempt_id)
      where t.receipt = typed_receipt
      union
      select p.order_id
      from public.refunds as r
      join public.payments as p on p.id = r.payment_id
      where r.refund_receipt = typed_receipt
    ) as found
    where found.id is not null
  );
  -- ginger-lemon is ginger lemon.
  written := regexp_replace(written, '(?<=[a-z])-(?=[a-z])', ' ', 'g');
  words := array(
    select '%' || regexp_replace(w.word, '([\\%_])', '\\\1', 'g') || '%'
    from regexp_split_to_table(written, '\s+') as w (word)
    where w.word <> ''
    limit 8
  );
  -- A phone number in any spelling, whole or in part: its digits without the prefix.
  if char_length(written) <= 60 and written !~ '[a-z]' then
    digits := regexp_replace(regexp_replace(written, '[^0-9]', '', 'g'), '^(00)?2540?([17])|^0([17])', '\2\3');
    digits := case when char_length(digits) >= 4 then '%' || digits || '%' end;
  end if;
end
$$;

comment on function private.read_list_search is
  'Parses a search in a staff list. words: LIKE patterns that must all match. digits: a LIKE pattern of a phone number that may match instead. order_ids: orders whose tracking number, order number or M-PESA receipt was typed completely; then only these match.';

-- Conditions read the row's own items and rider in a scalar subquery. With EXISTS PostgreSQL used a hashed subplan and read all items
-- of the shop for the few orders of a search.
create or replace function private.list_conditions(
  filters private.list_filters, out by_index text, out by_row text, out candidates text, out is_broad boolean
)
language plpgsql stable set search_path = '' as $$
declare
  is_orders constant boolean := filters.list = 'orders';
  own constant text := case when is_orders then 'o' else 'd' end;
  -- As in the indexes by words.
  folded constant text := $sql$translate(lower(%s), 'àáâãäåçèéêëìíîïĩñòóôõöùúûüũ''’ʼ', 'aaaaaaceeeeiiiiinooooouuuuu')$sql$;
  order_text constant text := format(folded, $sql$o.order_number || E'\n' || split_part(o.tracking_number, '-', 3) || E'\n' || o.customer_name || E'\n' || o.customer_email || E'\n' || o.customer_phone || E'\n' || replace(o.customer_phone, '+254', '0') || E'\n' || o.shipping_address || E'\n' || o.city$sql$);
  item_text constant text := format(folded, 'i.product_name');
  rider_text constant text := format(folded, $sql$coalesce(d.delivery_person, '') || E'\n' || regexp_replace(coalesce(d.delivery_phone, ''), '[^0-9]', '', 'g')$sql$);
  is_open constant text := $sql$o.status in ('pending', 'processing', 'shipped', 'out_for_delivery')$sql$;
  is_open_delivery constant text := $sql$d.delivery_status in ('pending', 'assigned', 'picked_up', 'in_transit')$sql$;
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
begin
  typed := private.read_list_search(filters.search);
  is_broad := true;

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
      when filters.status = 'shipped' then is_open || $sql$ and o.status in ('shipped', 'out_for_delivery')$sql$
      when filters.status in ('pending', 'processing', 'out_for_delivery') then is_open || format(' and o.status = %L', filters.status)
      else format('o.status = %L', filters.status)
    end;
    indexed := indexed || case filters.payment
      when 'paid' then $sql$o.payment_status = 'paid' and o.status <> 'cancelled'$sql$
      -- A cancelled unpaid order owes nothing.
      when 'unpaid' then $sql$o.payment_status = 'unpaid' and o.status <> 'cancelled'$sql$
      when 'refunded' then $sql$o.payment_status = 'refunded'$sql$
      when 'needs_review' then null
      when 'refund_due' then null
      else case when filters.payment is not null then 'false' end
    end;
    indexed := indexed || case filters.due
      when 'late' then is_open || $sql$ and o.payment_status = 'paid' and coalesce(
        (select d.created_at from public.deliveries as d where d.order_id = o.id), o.created_at
      ) < now() - private.delivery_promise()$sql$
      else case when filters.due is not null then
        is_open || format($sql$ and o.payment_status = 'paid' and private.work_step(
          o.status, o.payment_status, (select d.delivery_status from public.deliveries as d where d.order_id = o.id)
        ) = %L$sql$, filters.due)
      end
    end;
  else
    indexed := indexed || case when filters.status is not null then format('d.delivery_status = %L', filters.status) end;
    indexed := indexed || case filters.due
      when 'late' then is_open_delivery || $sql$ and d.created_at < now() - private.delivery_promise()
        and (select o.status from public.orders as o where o.id = d.order_id) <> 'cancelled'$sql$
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
    else
      indexed := indexed || format('lower(d.delivery_person) = %L', rider_name);
    end if;
  end if;
  if cardinality(typed.order_ids) > 0 then
    checked := checked || format('o.id = any (%L::uuid[])', typed.order_ids);
    candidates := format('select unnest(%L::uuid[]) as id', typed.order_ids);
    is_broad := false;
  elsif typed.words is not null then
    checked := checked || format($sql$(%1$s || E'\n' || coalesce((
      select string_agg(%2$s, E'\n') from public.order_items as i where i.order_id = o.id), '')%3$s like all (%4$L::text[])%5$s)$sql$,
      order_text, item_text, case when not is_orders then format($sql$ || E'\n' || %s$sql$, rider_text) end, typed.words,
      case when typed.digits is not null then
        format(' or %s like %L', order_text, typed.digits)
        || case when is_orders then '' else format(' or %s like %L', rider_text, typed.digits) end
      end
    );
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
    -- Without longer parts only the newest rows are searched: candidates stay null, or are these rows and the orders with the digits.
    candidates := case
      when cardinality(in_order) > 0 then format('select o.id from public.orders as o where %s',
        (select string_agg(format('%s like %L', order_text, p.pattern), ' and ') from unnest(in_order) as p (pattern))
        || case when typed.digits is not null then format(' or %s like %L', order_text, typed.digits) else '' end)
      when cardinality(anywhere) > 0 then (
        select string_agg(format('(select i.order_id as id from public.order_items as i where %s like %L', item_text, p.pattern)
          || format(' union select o.id from public.orders as o where %s like %L', order_text, p.pattern)
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
    candidates := $sql$
      select o.id from public.orders as o where o.payment_status = 'needs_review'
      union
      select p.order_id from public.payments as p where p.status = 'review'$sql$;
    is_broad := false;
  end if;
  if is_orders and filters.payment = 'refund_due' then
    checked := checked || is_refund_due;
    candidates := $sql$
      select o.id from public.orders as o where o.payment_status = 'paid' and o.status = 'cancelled'
      union
      select p.order_id from public.payments as p where p.needs_refund and p.refunded_at is null and p.status = 'completed'$sql$;
    is_broad := false;
  end if;
  by_index := coalesce(nullif(array_to_string(indexed, ' and '), ''), 'true');
  by_row := nullif(array_to_string(checked, ' and '), '');
end
$$;

comment on function private.list_conditions is
  'The filters of a staff list, orders (o) or deliveries (d with their order o), as conditions in SQL. by_index: on the list''s own table, served by an index in the order of the list; by_row: all others, or null; candidates: a query for the ids of orders that may match, or null to scan only private.short_search_rows() rows; is_broad: whether the newest rows are scanned first.';

-- Under row level security the trigram indexes cannot be used, since LIKE is not leakproof. So these functions check the caller and
-- then read with their owner's rights.
create or replace function public.search_orders(
  search text default '', status text default null, payment text default null, from_day date default null,
  until_day date default null, rider text default null, due text default null,
  before_created_at timestamptz default null, before_id uuid default null, page_size integer default 50
) returns setof public.orders
language plpgsql stable security definer rows 50 set search_path = '' as $$
declare
  found_ids uuid[];
begin
  perform private.expect_staff();
  found_ids := private.find_in_list(
    ('orders', search, status, payment, from_day, until_day, rider, due), before_created_at, before_id, page_size
  );
  return query
    select o.* from public.orders as o where o.id = any (found_ids) order by o.created_at desc, o.id desc;
end
$$;

comment on function public.search_orders is
  'For staff: a page of orders, newest first, after the one named by before_created_at and before_id. search: words that must all match, ignoring case, in number, name, email, phone, address, area or products; or a phone number; or a complete tracking number or M-PESA receipt. status: shipped includes out_for_delivery. payment: paid, unpaid, needs_review, refund_due, refunded. from_day, until_day: in Nairobi. rider: name. due: late, or a step of private.work_step: prepare, assigned, on_the_way, failed.';

create or replace function public.count_work() returns table (
  to_prepare integer, on_the_way integer, failed integer, late integer, unpaid integer, refunds_due integer, to_assign integer,
  late_deliveries integer
)
language plpgsql stable security definer set search_path = '' as $$
begin
  perform private.expect_staff();
  return query select
    private.count_in_list(('orders', null, null, null, null, null, null, 'prepare')),
    private.count_in_list(('orders', null, null, null, null, null, null, 'on_the_way')),
    private.count_in_list(('orders', null, null, null, null, null, null, 'failed')),
    private.count_in_list(('orders', null, null, null, null, null, null, 'late')),
    private.count_in_list(('orders', null, null, 'unpaid', null, null, null, null)),
    private.count_in_list(('orders', null, null, 'refund_due', null, null, null, null)),
    private.count_in_list(('deliveries', null, 'pending', null, null, null, null, null)),
    private.count_in_list(('deliveries', null, null, null, null, null, null, 'late'));
end
$$;

comment on function public.count_work is
  'For staff: numbers of orders and deliveries that need work, by kind. 10001 means more than 10,000. One row.';

-- Execution rights
grant execute on function public.search_orders, public.count_orders, public.search_deliveries, public.count_deliveries,
  public.count_work, public.recent_riders to authenticated, service_role;

create or replace function private.before_inquiry_insert() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  if cardinality(private.caller_networks()) > 0 then
    -- One inquiry per request bounds the checks of an insert.
    if current_setting('private.has_inquiry', true) = 'yes' then
      perform private.refuse(400, 'too_many_rows', 'Please send one message at a time');
    end if;
    perform set_config('private.has_inquiry', 'yes', true);
    if not private.count_call('inquiries') then
      perform private.refuse(429, 'too_many_inquiries', format(
        'Too many messages from your network. Please try again in %s, or call or WhatsApp us on %s', private.time_left('inquiries'), private.contact_numbers()
      ));
    elsif not private.count_call('inquiries_of_day') then
      perform private.refuse(429, 'too_many_inquiries', format(
        'Too many messages from your network today. Please try again in %s, or call or WhatsApp us on %s', private.time_left('inquiries_of_day'), private.contact_numbers()
      ));
    end if;
  end if;
  if not private.is_email(new.email) then
    perform private.refuse(400, 'email_invalid', 'Please enter a valid email address');
  elsif private.visible_length(left(new.name, 300)) = 0 then
    perform private.refuse(400, 'name_invalid', 'Please enter your name');
  elsif private.visible_length(left(new.message, 10000)) = 0 then
    perform private.refuse(400, 'message_invalid', 'Please write a message');
  end if;
  return new;
end
$$;

create or replace function public.subscribe_to_newsletter(email text) returns jsonb
language plpgsql volatile security definer set search_path = '' as $$
#variable_conflict use_column
declare
  address text;
  subscription_id uuid;
begin
  -- Checked for every address, so that a refusal does not reveal which addresses need a mail.
  if not private.count_call('newsletter') then
    perform private.refuse(429, 'too_many_subscriptions', format(
      'Too many subscriptions from your network. Please try again in %s', private.time_left('newsletter')
    ));
  elsif not private.is_within_limit('newsletter_mails') then
    perform private.refuse(429, 'too_many_subscriptions', format(
      'Too many subscriptions from your network today. Please try again in %s', private.time_left('newsletter_mails')
    ));
  elsif char_length(subscribe_to_newsletter.email) <= 300 then
    address := trim(subscribe_to_newsletter.email);
  end if;
  if not private.is_email(address) then
    return private.refusal_answer('PT400', 'Please enter a valid email address', 'email_invalid', '');
  end if;
  insert into public.newsletter_subscriptions (email) values (address) on conflict do nothing;
  -- At most one mail a day and address.
  update public.newsletter_subscriptions as n
  set confirmation_queued_at = now()
  where lower(n.email) = lower(address) and n.confirmed_at is null
    and (n.confirmation_queued_at is null or n.confirmation_queued_at < now() - interval '1 day')
  returning n.id into subscription_id;
  if found then
    perform private.count_call('newsletter_mails');
    perform private.queue_newsletter_confirmation(subscription_id);
  end if;
  -- The same result for every address, so that it does not reveal who is subscribed.
  return null;
end
$$;

comment on function public.subscribe_to_newsletter is
  'Mails a confirmation link to the address, at most once a day. Returns null for every address, so that the result does not reveal who is subscribed.';

-- Execution rights
grant execute on function public.subscribe_to_newsletter, public.confirm_newsletter, public.unsubscribe_from_newsletter
  to anon, authenticated, service_role;

comment on table public.outbox_messages is
  'Messages to customers and staff. sending: being handed over. unsure: may have been sent, so only staff send it again. over_budget: withheld by a limit or daily budget (problem says which) until the order is paid or staff send it. subject and body: of the last attempt.';

comment on column public.outbox_messages.order_id is 'Null for newsletter mails and messages to staff.';

comment on column public.outbox_messages.event_key is
  'Event key: distinguishes messages of one kind and order. Empty, or the id of the refund; of newsletter mails the subscription''s id; of messages to staff the id of the incident or the refund.';

comment on column public.outbox_messages.recipient is 'Email address, or phone as +254….';

comment on column public.outbox_messages.gateway_reference is 'Id from the text message gateway.';

comment on column public.outbox_messages.resent_by is 'Email address of the staff member who sent it again.';

comment on column public.outbox_messages.has_priority is
  'Whether the message may use the whole daily budget: its order was paid, or staff caused or sent it. Messages that visitors cause without paying may use half of it.';

alter table public.outbox_messages enable row level security;

grant select on public.outbox_messages to authenticated;

-- Otherwise realtime would announce changes to visitors, without their rows.
grant select (id) on public.outbox_messages to anon;

-- Messages that visitors caused without paying: of one recipient, and sent today.
create index outbox_messages_unpaid_of_recipient on public.outbox_messages (lower(recipient), kind, created_at)
  where not has_priority;

create index outbox_messages_unpaid_by_time_of_sending on public.outbox_messages (channel, sending_since) where not has_priority;

create or replace function private.payment_event_key(order_id uuid) returns text
language sql stable set search_path = '' as $$
  select coalesce(nullif(count(*), 0)::text, '')
  from public.order_events as e where e.order_id = payment_event_key.order_id and e.kind = 'payment_taken_back';
$$;

comment on function private.payment_event_key is
  'Key of messages about an order''s payment: blank, then the number of payments that were taken back, so that the next payment is reported again.';

create or replace function private.queue_messages_of_order(old public.orders, new public.orders) returns void
language plpgsql set search_path = '' as $$
declare
  -- Staff can correct a manual payment for as long as they can undo a status change.
  due_at timestamptz := now() + case
    when current_setting('private.is_typed_by_staff', true) = 'yes' then private.undo_window() else interval '0'
  end;
begin
  if old.payment_status = 'unpaid' and new.payment_status <> 'unpaid' then
    perform private.release_messages(new.id, due_at);
  end if;
  if old.payment_status <> new.payment_status then
    if new.payment_status = 'paid' then
      perform private.queue_order_messages(new.id, 'order_paid', private.payment_event_key(new.id), due_at => due_at);
    elsif new.payment_status = 'needs_review' then
      perform private.queue_order_messages(new.id, 'order_payment_held', private.payment_event_key(new.id), due_at => due_at);
    elsif new.payment_status = 'refunded' then
      perform private.queue_order_messages(new.id, 'order_refunded');
    end if;
  end if;
  if old.status <> new.status then
    if new.status in ('shipped', 'out_for_delivery') then
      perform private.queue_order_messages(new.id, 'order_on_its_way', due_at => now() + private.undo_window());
    elsif new.status = 'delivered' then
      perform private.queue_order_messages(new.id, 'order_delivered', due_at => now() + private.undo_window());
    elsif new.status = 'cancelled' and new.payment_status <> 'refunded' then
      -- Only expire_reservations empties expires_at.
      if new.payment_status = 'unpaid' and old.expires_at is not null and new.expires_at is null then
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
      'name', 'order', 'tracking', 'items', 'delivery_fee', 'total', 'paid', 'receipt', 'due_back', 'refunded', 'refund_receipt',
      'link', 'receipt_link'
    ]
  end;
  unknown text;
  missing text;
begin
  if trim(new.body) = '' or (new.channel = 'mail' and trim(new.subject) = '') then
    perform private.refuse(400, 'template_empty', 'A message needs words');
  elsif char_length(new.body) > 5000 or (new.channel = 'text' and char_length(new.body) > 480) or char_length(new.subject) > 150 then
    perform private.refuse(400, 'template_too_long', 'This message is too long');
  elsif new.subject ~ '[\n\r]' then
    perform private.refuse(400, 'subject_has_lines', 'A subject is one line');
  end if;
  select named.word[1] into unknown
  from regexp_matches(written, '\{([^{}]*)\}', 'g') as named (word)
  where named.word[1] <> all (placeholders)
  limit 1;
  if found then
    perform private.refuse(400, 'placeholder_unknown', format('There is no placeholder {%s}', unknown));
  elsif is_newsletter then
    select wanted.word into missing
    from unnest(array['confirm_link', 'unsubscribe_link']) as wanted (word)
    where position('{' || wanted.word || '}' in new.body) = 0
    limit 1;
    if found then
      perform private.refuse(400, 'placeholder_missing', format('This message needs {%s}', missing));
    end if;
  end if;
  -- Brackets that remain after all complete ones are removed.
  if regexp_replace(regexp_replace(written, '\{[a-z_]+\}', '', 'g'), '\[[^][]*\]', '', 'g') ~ '[][{}]' then
    perform private.refuse(400, 'brackets_unbalanced', 'A bracket is not closed, or stands within another');
  elsif tg_op = 'UPDATE' then
    new.updated_at := private.time_of_edit(to_jsonb(old), to_jsonb(new));
  end if;
  return new;
end
$$;

create or replace function private.release_messages(order_id uuid, due_at timestamptz) returns void
language plpgsql set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  with released as (
    update public.outbox_messages as m
    set has_priority = true,
        status = case when m.status = 'over_budget' then 'waiting' else m.status end,
        next_attempt_at = case when m.status = 'over_budget' then release_messages.due_at else m.next_attempt_at end,
        give_up_at = case when m.status = 'over_budget' then now() + interval '1 day' else m.give_up_at end,
        problem = case when m.status <> 'over_budget' then m.problem end,
        updated_at = now()
    where m.order_id = release_messages.order_id and not m.has_priority and m.recipient <> ''
    returning m.id, m.channel, m.status, m.next_attempt_at
  )
  insert into private.outbox_queue (message_id, channel, due_at)
  select r.id, r.channel, r.next_attempt_at from released as r where r.status = 'waiting'
  on conflict do nothing;
exception when others then
  -- The payment is settled all the same.
  raise warning 'the messages of order % could not be released: %', release_messages.order_id, sqlerrm;
end
$$;

comment on function private.release_messages is
  'Money for an order arrived: its messages no longer count as those of visitors who have not paid, and what was withheld is sent at due_at, if it is still true (begin_message). Never fails.';

create or replace function private.reason_to_withhold(kind text, channel text, recipient text) returns text
language plpgsql volatile set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  -- Concurrent prompts count one after the other. Orders end one after the other anyway, in transactions that hold locks of products,
  -- for which a prompt waits.
  if reason_to_withhold.kind = 'order_received' then
    perform pg_advisory_xact_lock(hashtextextended('messages to ' || lower(reason_to_withhold.recipient), 0));
  end if;
  -- The recipient first, so that a message withheld for it does not use up the network's limit.
  return case
    when 5 <= (
      select count(*) from (
        select from public.outbox_messages as m
        where lower(m.recipient) = lower(reason_to_withhold.recipient) and m.kind = reason_to_withhold.kind
          and not m.has_priority and m.created_at > now() - interval '1 day' and m.status <> 'over_budget'
        limit 5
      ) as of_recipient
    ) then 'Not sent: too many unpaid orders for this recipient today'
    -- Orders are ended by the shop and staff, whose networks are not limited.
    when reason_to_withhold.kind = 'order_received'
      and not private.count_call(case reason_to_withhold.channel when 'text' then 'unpaid_order_texts' else 'unpaid_order_mails' end)
      then 'Not sent: too many unpaid orders from one network today'
  end;
end
$$;

comment on function private.reason_to_withhold is
  'Why a message of an unpaid order is withheld. Null: it may be sent. A recipient gets five of a kind a day, for all unpaid orders together; of the links (order_received) a network causes its limit, which grows with its paid orders.';

create or replace function private.add_to_outbox(
  ordered public.orders, kind text, event_key text, channel text, recipient text, due_at timestamptz
) returns void
language plpgsql set search_path = '' as $$
#variable_conflict use_column
declare
  -- Other messages follow a payment, or a change by staff.
  has_priority boolean := ordered.payment_status <> 'unpaid'
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
  end if;
  return (select jsonb_build_object(
    'shop', shop,
    'tracking_number', o.tracking_number,
    'access_key', (select k.access_key from private.order_keys as k where k.order_id = o.id limit 1),
    'customer_name', o.customer_name,
    'delivery_fee', o.delivery_fee,
    'total_amount', o.total_amount,
    'items', array(
      select jsonb_build_object('name', i.product_name, 'quantity', i.quantity, 'unit_price', i.unit_price)
      from public.order_items as i where i.order_id = o.id order by i.created_at, i.id
    ),
    'payment', (
      select jsonb_build_object(
        'charge_cents', p.charge_cents, 'receipt', p.receipt, 'paid_at', p.completed_at,
        'refund_receipt', p.refund_receipt
      )
      from public.payments as p
      where p.order_id = o.id and p.status = 'completed'
        and case
          when message_facts.event_key = '' then not p.needs_refund
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
  'Values of a message''s placeholders. payment: the one that paid the order, or whose refund is the event_key. Newsletter mails: the shop and the subscription. Messages to staff: staff_message_facts.';

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
  if (message.order_id is not null and not private.is_message_true(message.order_id, message.kind))
    or not private.is_staff_message_true(message.kind, message.event_key)
  then
    -- Deleted, so that it is sent once it is true again.
    delete from public.outbox_messages as m where m.id = message.id;
    return null;
  end if;
  if message.give_up_at < now() then
    final_status := 'failed';
    reason := 'Given up after a day: ' || coalesce(message.problem, 'nothing could be sent in that time');
  elsif not exists (
    select from public.message_templates as t where t.kind = message.kind and t.channel = message.channel and t.is_on
  ) then
    final_status := 'failed';
    reason := 'Messages of this kind are switched off';
  else
    reason := private.take_from_budget(message.channel, message.has_priority);
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
    next_at := now() + least(interval '30 seconds' * power(2, least(sent.attempts - 1, 10)), interval '2 hours');
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
          then 'Given up after a day: ' || coalesce(finish_message.problem, 'refused without a reason')
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
  perform private.expect_staff();
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

create or replace function public.send_withheld_messages(channel text default null) returns jsonb
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  sent integer;
  withheld bigint;
begin
  perform private.expect_staff();
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

create or replace function private.withheld_since() returns timestamptz
language sql stable
return now() - interval '7 days';

comment on function private.withheld_since is 'Messages withheld before this time are too old to be sent and counted.';

create or replace function private.withheld_messages(channel text) returns bigint
language plpgsql stable set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  return (
    select count(*) from public.outbox_messages as m
    where m.status = 'over_budget' and m.recipient <> '' and m.created_at > private.withheld_since()
      and (withheld_messages.channel is null or m.channel = withheld_messages.channel)
  );
end
$$;

comment on function private.withheld_messages is 'Withheld messages of the last week that can still be sent, of one channel or (null) both.';

create or replace function private.left_of_budget(channel text) returns integer
language sql stable set search_path = '' as $$
  select greatest(0, private.daily_budget(left_of_budget.channel) - coalesce((
    select s.total from private.messages_sent as s
    where s.day = private.nairobi_day(now()) and s.channel = left_of_budget.channel
  ), 0));
$$;

comment on function private.left_of_budget is 'Messages of a channel that today''s budget still allows.';

create or replace function private.sent_without_priority(channel text) returns integer
language plpgsql stable set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  return (
    select count(*) from public.outbox_messages as m
    where m.channel = sent_without_priority.channel and not m.has_priority
      and m.sending_since >= private.nairobi_day(now())::timestamp at time zone 'Africa/Nairobi'
      and m.status in ('sending', 'sent', 'unsure')
  );
end
$$;

comment on function private.sent_without_priority is
  'Messages of a channel sent today that visitors caused without paying. Those of an order stop counting when it is paid.';

create or replace function private.take_from_budget(channel text, has_priority boolean) returns text
language plpgsql set search_path = '' as $$
declare
  today date := private.nairobi_day(now());
  budget integer := private.daily_budget(take_from_budget.channel);
  used integer;
begin
  insert into private.messages_sent (day, channel) values (today, take_from_budget.channel) on conflict do nothing;
  -- Until the end of the transaction no other message of this channel is counted.
  select m.total into used from private.messages_sent as m
  where m.day = today and m.channel = take_from_budget.channel for update;
  if used >= budget then
    return format('Not sent: today''s budget of %ss is used up', take_from_budget.channel);
  elsif not take_from_budget.has_priority and private.sent_without_priority(take_from_budget.channel) >= budget / 2 then
    return format('Not sent: the half of today''s budget of %ss for visitors who have not paid is used up', take_from_budget.channel);
  end if;
  update private.messages_sent as counted
  set total = counted.total + 1
  where counted.day = today and counted.channel = take_from_budget.channel;
  return null;
end
$$;

comment on function private.take_from_budget is
  'Counts a message in today''s budget. Null: it may be sent; else the reason why not. Half of the budget is reserved for messages with priority.';

create or replace function private.return_to_budget(channel text, taken_at timestamptz) returns void
language sql set search_path = '' as $$
  update private.messages_sent as counted
  set total = counted.total - 1
  where counted.day = private.nairobi_day(return_to_budget.taken_at) and counted.channel = return_to_budget.channel
    and counted.total > 0;
$$;

create or replace function public.message_budgets() returns table (
  channel text, sent integer, sent_without_priority integer, per_day integer, over_budget bigint, reason text
)
language plpgsql stable security definer set search_path = '' as $$
#variable_conflict use_column
declare
  today date := private.nairobi_day(now());
begin
  perform private.expect_staff();
  return query
  select way.channel, coalesce(s.total, 0), private.sent_without_priority(way.channel), private.daily_budget(way.channel),
    private.withheld_messages(way.channel), (
      select m.problem from public.outbox_messages as m
      where m.status = 'over_budget' and m.channel = way.channel and m.recipient <> '' and m.created_at > private.withheld_since()
      order by m.created_at desc limit 1
    )
  from (values ('text'), ('mail')) as way (channel)
  left join private.messages_sent as s on s.day = today and s.channel = way.channel;
end
$$;

comment on function public.message_budgets is
  'For staff: per channel the messages sent today, those caused by visitors who have not paid, the daily budget, the withheld messages of the last week that can still be sent, and why the newest is withheld.';

create or replace function private.is_message_true(order_id uuid, kind text) returns boolean
language sql stable set search_path = '' as $$
  select case is_message_true.kind
    when 'order_on_its_way' then private.shown_status(o.status) = 'out_for_delivery'
    when 'order_delivered' then o.status = 'delivered'
    -- Its link asks for a payment.
    when 'order_received' then o.status <> 'cancelled'
    -- order_refunded includes the cancellation.
    when 'order_cancelled' then o.status = 'cancelled' and o.payment_status <> 'refunded'
    when 'order_expired' then o.status = 'cancelled' and o.payment_status = 'unpaid'
    when 'order_paid' then o.payment_status in ('paid', 'refunded')
    when 'order_payment_held' then o.payment_status = 'needs_review'
    when 'order_payment_corrected' then o.payment_status = 'unpaid' and o.status <> 'cancelled'
    else true
  end
  from public.orders as o where o.id = is_message_true.order_id;
$$;

comment on function private.is_message_true is
  'Whether the order still has the state that a message of this kind reports. Null without an order.';

-- Execution rights
grant execute on function public.send_message_again, public.send_withheld_messages, public.message_budgets to authenticated, service_role;

grant execute on function public.lease_messages, public.begin_message, public.finish_message to service_role;

create or replace function public.forget_old_rows() returns integer
language plpgsql volatile security definer set search_path = '' as $$
declare
  old_messages uuid[] := array(
    select m.id from public.outbox_messages as m
    where m.recipient <> '' and m.created_at < now() - interval '90 days' and m.status not in ('waiting', 'sending')
    order by m.created_at limit 5000
    for update skip locked
  );
begin
  delete from private.rate_limits as known where known.window_end < now();
  delete from private.network_paid_orders as known where known.window_end < now();
  delete from private.order_networks as k where not k.is_open and k.ended_at < now() - interval '1 hour';
  perform private.anonymise_messages(old_messages);
  perform private.clear_old_payment_messages();
  perform private.anonymise_old_orders();
  perform private.reduce_abandoned_orders();
  delete from public.inquiries as i
  where i.id in (
    select old.id from public.inquiries as old
    where old.created_at < now() - make_interval(months => (select s.inquiries_months from public.store_settings as s))
    order by old.created_at limit 5000
    for update skip locked
  );
  delete from public.newsletter_subscriptions as n
  where n.id in (
    select old.id from public.newsletter_subscriptions as old
    where old.confirmed_at is null and coalesce(old.confirmation_queued_at, old.created_at) < now() - interval '7 days'
    order by old.created_at limit 5000
    for update skip locked
  );
  return cardinality(old_messages);
end
$$;

comment on function public.forget_old_rows is
  'Deletes or anonymises old rows, a bounded number of each kind: counters of limits whose window ended, networks of orders that ended; messages to customers after 90 days; M-PESA''s messages, orders and inquiries after the periods of store_settings; cancelled orders that no money came for after 30 days; newsletter addresses not confirmed within 7 days. Returns the number of messages.';

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
      select from public.payments as p where p.order_id = unsettled.id and p.status in ('initiating', 'processing', 'review')
    ) then 'A payment is being checked'
    -- M-PESA's statement reaches back 48 hours: until then it may still report money of a prompt that seemed to fail.
    when exists (
      select from public.payments as p
      where p.order_id = unsettled.id and p.status in ('failed', 'unresolved') and p.created_at > now() - interval '48 hours'
    ) then 'M-PESA may still report a payment'
    when exists (
      select from public.payments as p
      where p.order_id = unsettled.id and p.status = 'completed' and p.needs_refund and p.refunded_at is null
    ) or exists (
      select from public.payments as p
      join public.refunds as r on r.payment_id = p.id
      where p.order_id = unsettled.id and r.status not in ('completed', 'failed', 'withdrawn')
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
      having sum(c.amount_cents) filter (where c.kind = 'to_return') > coalesce(sum(c.amount_cents) filter (where c.kind = 'returned'), 0)
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

create or replace function private.clear_old_payment_messages() returns void
language plpgsql set search_path = '' as $$
declare
  retained_since timestamptz := now() - make_interval(months => (select s.payment_messages_months from public.store_settings as s));
begin
  -- Responses without a result prove nothing.
  delete from public.payment_messages as m
  where m.id in (
    select old.id from public.payment_messages as old
    where old.source = 'query' and old.outcome = 'pending' and old.received_at < now() - interval '90 days'
    order by old.received_at limit 5000
    for update skip locked
  );
  -- The time, payment and outcome stay. Messages that could not be settled yet stay complete.
  update public.payment_messages as m
  set body = '{}', source_address = null
  where m.id in (
    select old.id from public.payment_messages as old
    where old.received_at < retained_since and old.body <> '{}' and old.outcome is not null and old.outcome <> 'error'
    order by old.received_at limit 5000
    for update skip locked
  );
  update public.mpesa_transactions as t
  set payer_name = null, payer_phone = null
  where t.receipt in (
    select old.receipt from public.mpesa_transactions as old
    where old.transacted_at < retained_since and (old.payer_name is not null or old.payer_phone is not null)
    order by old.transacted_at limit 5000
    for update skip locked
  );
  -- Who resolved it, when and how stays; what waits stays complete.
  update public.messages_to_check as m
  set body = '{}', note = null
  where m.id in (
    select old.id from public.messages_to_check as old
    where old.received_at < retained_since and old.resolution is not null and old.body <> '{}'
    order by old.received_at limit 5000
    for update skip locked
  );
end
$$;

create or replace function private.read_person(identifier text, out email text, out phone text)
language plpgsql immutable set search_path = '' as $$
begin
  if octet_length(read_person.identifier) <= 1016 and private.is_email(trim(read_person.identifier)) then
    email := lower(trim(read_person.identifier));
  else
    phone := private.normalised_phone(read_person.identifier);
  end if;
  if email is null and phone is null then
    perform private.refuse(400, 'person_invalid', 'Please enter a Kenyan mobile number or an email address');
  end if;
end
$$;

comment on function private.read_person is 'A person as email address in lower case, or phone as +254…. Refuses other texts.';

create or replace function public.export_person(identifier text) returns jsonb
language plpgsql volatile security definer set search_path = '' as $$
#variable_conflict use_column
declare
  person record;
  person_key text;
  order_ids uuid[];
  answer jsonb;
begin
  perform private.expect_staff();
  select * into person from private.read_person(export_person.identifier);
  person_key := coalesce(person.email, person.phone);
  order_ids := array(
    select o.id from public.orders as o
    where lower(o.customer_email) = person.email or o.customer_phone = person.phone
    order by o.created_at desc, o.id
  );
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
        'delivery_fee', o.delivery_fee, 'total_amount', o.total_amount,
        'erasure_requested_at', o.erasure_requested_at,
        'reason_to_keep', private.retention_reason(o.id),
        'items', array(
          select jsonb_build_object('product', i.product_name, 'quantity', i.quantity, 'unit_price', i.unit_price)
          from public.order_items as i where i.order_id = o.id order by i.created_at, i.id
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
      select to_jsonb(i) - 'id' - 'is_read'
      from public.inquiries as i
      where lower(i.email) = person.email or private.normalised_phone(i.phone) = person.phone
      order by i.created_at desc
    ),
    'newsletter', (
      select jsonb_build_object('email', n.email, 'created_at', n.created_at, 'confirmed_at', n.confirmed_at)
      from public.newsletter_subscriptions as n where lower(n.email) = person.email
    ),
    'newsletter_mails', array(
      select private.describe_message(m)
      from public.outbox_messages as m where m.order_id is null and lower(m.recipient) = person.email order by m.created_at
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
  perform private.expect_staff();
  select * into person from private.read_person(erase_person.identifier);
  person_key := coalesce(person.email, person.phone);
  -- Lock the orders first, by id, against deadlocks.
  order_ids := array(
    select o.id from public.orders as o
    where o.anonymised_at is null and (lower(o.customer_email) = person.email or o.customer_phone = person.phone
      or exists (select from public.payments as p where p.order_id = o.id and p.phone = person.phone))
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
  where p.purpose = 'test' and p.phone = person.phone and p.status not in ('initiating', 'processing');

  delete from public.inquiries as i where lower(i.email) = person.email or private.normalised_phone(i.phone) = person.phone;
  get diagnostics erased.inquiries = row_count;
  delete from public.newsletter_subscriptions as n where lower(n.email) = person.email;
  get diagnostics erased.newsletter = row_count;

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
  'For staff: anonymises the orders of a phone or email address, removes the phone from payments of other orders, deletes inquiries and the newsletter subscription. Open orders are listed with the reason: own ones (is_own) are anonymised once they are closed, others need another request. Logged. M-PESA''s messages stay for store_settings.payment_messages_months.';

-- Execution rights
grant execute on function public.export_person, public.erase_person to authenticated, service_role;

grant execute on function public.forget_old_rows to service_role;

create or replace function private.figures_of(counted public.orders) returns private.day_figures
language sql immutable
return case when counted.id is not null then
  (private.nairobi_day(counted.created_at), 1, counted.total_amount, 0)::private.day_figures
end;

create or replace function private.figures_of(counted public.payments) returns private.day_figures
language sql immutable
return case when counted.status = 'completed' and counted.purpose = 'order' then
  (coalesce(private.nairobi_day(counted.completed_at), '-infinity'), 0, 0, counted.charge_cents)::private.day_figures
end;

create or replace function private.figures_of(counted public.refunds) returns private.day_figures
language sql stable
return case
  -- A refund may move to a payment that is just being added.
  when counted.status = 'completed' and counted.payment_id is not null
    and not exists (select from public.payments as p where p.id = counted.payment_id and p.purpose = 'test')
  then (coalesce(private.nairobi_day(counted.completed_at), '-infinity'), 0, 0, -counted.refund_cents)::private.day_figures
end;

create or replace function private.figures_of(counted public.change_notes) returns private.day_figures
language sql immutable
return case when counted.kind = 'returned' then
  (private.nairobi_day(counted.noted_at), 0, 0, -counted.amount_cents)::private.day_figures
end;

create or replace function public.system_status() returns table (
  checked_at timestamptz, last_backup_at timestamptz, last_backup_outcome text, last_attempt_at timestamptz,
  last_attempt_outcome text, last_attempt_problem text, last_payment_answer_at timestamptz, overdue_payments bigint,
  opened_at timestamptz, prompts_paused_since timestamptz
)
language sql stable security definer set search_path = '' as $$
  select private.expect_staff();
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
      where p.purpose = 'order' and p.status in ('initiating', 'processing') and p.created_at < now() - interval '5 minutes'
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

create or replace function public.day_totals(day date) returns table (
  placed bigint, rounding bigint, not_paid bigint, paid_otherwise bigint, other_amounts bigint, received_for_orders bigint,
  paid_other_days bigint, placed_other_days bigint, received bigint, refunded bigint, net_received bigint,
  other_clock bigint, booked bigint, delivery_fees bigint, in_review bigint
)
language plpgsql stable security definer set search_path = '' set enable_seqscan = off set jit = off as $$
#variable_conflict use_column
declare
  since timestamptz := day_totals.day::timestamp at time zone 'Africa/Nairobi';
  until timestamptz := (day_totals.day + 1)::timestamp at time zone 'Africa/Nairobi';
begin
  perform private.expect_staff();
  return query
  with orders as (
    select o.total_amount, o.charge_cents, o.delivery_fee, o.payment_status <> 'unpaid' as is_paid, money.payments, money.cents, money.then_cents
    from public.orders as o
    cross join lateral (
      select count(*) as payments, coalesce(sum(p.charge_cents), 0) as cents,
        coalesce(sum(p.charge_cents) filter (where p.completed_at >= since and p.completed_at < until), 0) as then_cents
      from public.payments as p where p.order_id = o.id and p.status = 'completed' and p.purpose = 'order'
    ) as money
    where o.created_at >= since and o.created_at < until
  ), by_order as (
    select
      coalesce(sum(o.total_amount), 0) as placed,
      coalesce(sum(o.charge_cents - o.total_amount) filter (where o.is_paid), 0) as rounding,
      -coalesce(sum(o.total_amount) filter (where not o.is_paid), 0) as not_paid,
      -coalesce(sum(o.charge_cents) filter (where o.is_paid and o.payments = 0), 0) as paid_otherwise,
      coalesce(sum(o.cents - case when o.is_paid then o.charge_cents else 0 end) filter (where o.payments > 0), 0) as other_amounts,
      coalesce(sum(o.cents), 0) as received_for_orders,
      coalesce(sum(o.then_cents), 0) as received_then,
      coalesce(sum(o.delivery_fee) filter (where o.is_paid), 0) as delivery_fees
    from orders as o
  ), by_payment as (
    select
      coalesce(sum(p.charge_cents), 0) as received,
      coalesce(sum(p.charge_cents) filter (where o.payment_status = 'needs_review'), 0) as in_review,
      -- M-PESA's clock decides the day in the books.
      coalesce(sum(p.charge_cents) filter (where t.transacted_at < since or t.transacted_at >= until), 0) as left_day
    from public.payments as p
    left join public.orders as o on o.id = p.order_id
    left join public.mpesa_transactions as t on t.payment_id = p.id
    where p.status = 'completed' and p.purpose = 'order' and p.completed_at >= since and p.completed_at < until
  ), other_day as (
    select coalesce(sum(p.charge_cents), 0) as cents
    from public.mpesa_transactions as t
    join public.payments as p on p.id = t.payment_id
    where t.transacted_at >= since and t.transacted_at < until and p.status = 'completed' and p.purpose = 'order'
      and not coalesce(p.completed_at >= since and p.completed_at < until, false)
  ), sent_back as (
    select coalesce(sum(money.cents), 0)::bigint as cents
    from (
      select r.refund_cents as cents
      from public.refunds as r
      join public.payments as p on p.id = r.payment_id
      where r.status = 'completed' and p.purpose = 'order' and r.completed_at >= since and r.completed_at < until
      union all
      select c.amount_cents from public.change_notes as c where c.kind = 'returned' and c.noted_at >= since and c.noted_at < until
    ) as money
  )
  select
    a.placed, a.rounding, a.not_paid, a.paid_otherwise, a.other_amounts::bigint, a.received_for_orders::bigint,
    (a.received_then - a.received_for_orders)::bigint,
    (b.received - a.received_then)::bigint,
    b.received, -d.cents, b.received - d.cents,
    c.cents - b.left_day, b.received + c.cents - b.left_day,
    a.delivery_fees, b.in_review
  from by_order as a, by_payment as b, other_day as c, sent_back as d;
end
$$;

comment on function public.day_totals is
  'For staff: how the totals of a day in Nairobi follow from each other, in cents; steps that take away are negative. placed (orders placed, paid or not) + rounding (to whole shillings) + not_paid + paid_otherwise (paid without M-PESA) + other_amounts (paid twice, in parts, or in another amount) = received_for_orders, whenever; + paid_other_days + placed_other_days = received (payments completed on the day); + refunded (refunds, and change that went back) = net_received, as in dashboard_figures; received + other_clock (M-PESA''s time is on another day) = booked, as in reconciliation_days. Included: delivery_fees of paid orders, in_review of received.';

-- Metrics for monitoring (docs/monitoring.md)

create or replace function public.shop_metrics() returns table (metric text, label text, value double precision)
language sql stable security definer set search_path = '' as $$
  -- Each part reads a partial index or one end of an index, so that the cost does not grow with the data.
  select 'payments_open', known.status, (
    select count(*) from public.payments as p where p.purpose = 'order' and p.status = known.status and p.status in ('initiating', 'processing')
  )::double precision
  from unnest(array['initiating', 'processing']) as known (status)
  union all
  select 'payments_in_review', null, count(*) from public.payments as p where p.purpose = 'order' and p.status = 'review'
  union all
  select 'payment_open_oldest_seconds', null, coalesce(extract(epoch from now() - min(p.created_at)), 0)
  from public.payments as p where p.purpose = 'order' and p.status in ('initiating', 'processing')
  union all
  select 'payments_completed_last_day', null, count(*)
  from public.payments as p where p.purpose = 'order' and p.status = 'completed' and p.completed_at > now() - interval '1 day'
  union all
  select 'payment_last_completed_timestamp_seconds', null, coalesce(extract(epoch from max(p.completed_at)), 0)
  from public.payments as p where p.purpose = 'order' and p.status = 'completed'
  union all
  select 'transactions_without_payment', null, count(*)
  from public.mpesa_transactions as t where t.payment_id is null and t.resolution is null
  union all
  select 'messages_to_check', null, count(*) from public.messages_to_check as m where m.resolution is null
  union all
  select 'payment_messages_unprocessed', null, (
    select count(*) from public.payment_messages as m
    where m.source = 'confirmation' and m.outcome is null and m.received_at < now() - interval '30 seconds'
  ) + (select count(*) from public.payment_messages as m where m.outcome = 'error')
  union all
  select 'payment_message_last_timestamp_seconds', known.source, coalesce(extract(epoch from (
    select m.received_at from public.payment_messages as m where m.source = known.source order by m.id desc limit 1
  )), 0)
  from unnest(array['callback', 'confirmation', 'query', 'statement', 'reversal_result']) as known (source)
  union all
  select 'prompts_paused', null, count(*) from private.prompt_pause
  union all
  select 'refunds_open', known.status, (
    select count(*) from public.refunds as r
    where r.status = known.status and r.status not in ('completed', 'failed', 'withdrawn')
  )
  from unnest(array['requested', 'approved', 'sending', 'sent', 'unknown']) as known (status)
  union all
  select 'outbox_waiting', known.channel, (select count(*) from private.outbox_queue as q where q.channel = known.channel)
  from unnest(array['mail', 'text']) as known (channel)
  union all
  select 'outbox_oldest_due_seconds', known.channel, greatest(0, coalesce(extract(epoch from now() - (
    select min(q.due_at) from private.outbox_queue as q where q.channel = known.channel
  )), 0))
  from unnest(array['mail', 'text']) as known (channel)
  union all
  select 'outbox_failed_last_day', known.status, (
    select count(*) from public.outbox_messages as m
    where m.status = known.status and m.created_at > now() - interval '1 day'
  )
  from unnest(array['failed', 'unsure', 'over_budget']) as known (status)
  union all
  select 'messages_withheld', known.channel, private.withheld_messages(known.channel)
  from unnest(array['mail', 'text']) as known (channel)
  union all
  select 'backup_last_timestamp_seconds', null, coalesce(extract(epoch from max(b.finished_at)), 0)
  from public.backups as b where b.outcome in ('verified', 'readable')
$$;

comment on function public.shop_metrics is 'Metrics for monitoring: name, value of its label (null: none), value.';

grant execute on function public.daily_figures, public.system_status, public.dashboard_figures, public.day_totals to authenticated;

grant execute on function public.record_page_views, public.record_backup, public.shop_metrics to service_role;

create or replace function private.after_product_change() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  if (old.id, old.name, old.tagline, old.description, old.category, old.brand, old.is_active, old.created_at,
      old.previous_price is null)
    is distinct from
    (new.id, new.name, new.tagline, new.description, new.category, new.brand, new.is_active, new.created_at,
      new.previous_price is null)
  then
    perform private.refuse_blank('a product has a name', new.name);
    perform private.update_product_search(old, new);
    perform private.count_active_products(old, new);
  end if;
  if tg_op = 'UPDATE' then
    perform private.record_price_change(new.id, new.name, old.price, new.price);
  end if;
  -- Of the stock, pages only show whether there is any.
  if (old.name, old.slug, old.tagline, old.description, old.price, old.previous_price, old.image_url, old.category,
      old.brand, old.is_active, old.home_section, old.home_position, old.stock_quantity = 0)
    is distinct from
    (new.name, new.slug, new.tagline, new.description, new.price, new.previous_price, new.image_url, new.category,
      new.brand, new.is_active, new.home_section, new.home_position, new.stock_quantity = 0)
  then
    perform private.announce_product_change(old, new);
  end if;
  return null;
end
$$;

create or replace function private.before_category_change() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  perform private.refuse_blank('a category has a name', new.name);
  new.name := trim(regexp_replace(new.name, '\s+', ' ', 'g'));
  if tg_op = 'UPDATE' and old.name <> new.name then
    -- The foreign key updates its products in any order: lock them by id first, as orders do.
    perform from public.products as p where p.category = old.name order by p.id for update;
  end if;
  return new;
end
$$;

create or replace function private.before_settings_change() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  perform private.refuse_blank('the store has a name', new.store_name);
  if old.support_email is distinct from new.support_email and not private.is_email(new.support_email) then
    raise exception using
      errcode = 'check_violation',
      message = 'new row for relation "store_settings" violates the rule "the support address is an e-mail address"',
      constraint = 'the support address is an e-mail address';
  end if;
  new.updated_at := private.time_of_edit(to_jsonb(old), to_jsonb(new));
  return new;
end
$$;

create or replace function private.after_settings_change() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  if old is distinct from new then
    perform pg_catalog.pg_notify('page_changes', '{"table": "store_settings"}');
  end if;
  perform private.record_price_change(null, null, old.delivery_fee, new.delivery_fee);
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
    perform private.record_order_events(null, new);
    return null;
  elsif tg_op = 'DELETE' then
    delete from public.order_events as e where e.order_id = old.id;
    delete from public.outbox_messages as m where m.order_id = old.id;
    return null;
  end if;
  if (old.status, old.payment_status, old.reserved_until is null)
    is distinct from (new.status, new.payment_status, new.reserved_until is null)
  then
    perform private.count_held_units(old, new);
  end if;
  if old.payment_status in ('paid', 'needs_review') and new.payment_status = 'refunded' then
    perform private.record_refund_of_order(new);
  end if;
  if (old.status, old.payment_status) is distinct from (new.status, new.payment_status) then
    perform private.queue_messages_of_order(old, new);
    perform private.notify_order_followers(new.id);
  end if;
  perform private.record_order_events(old, new);
  if (old.status <> new.status or private.is_called_off(old) <> private.is_called_off(new))
    and current_setting('private.is_undoing', true) is distinct from 'yes'
  then
    perform private.move_delivery_with_order(old, new);
  end if;
  return null;
end
$$;

-- Payments and refunds

create or replace function private.before_payment_change() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  if new.purpose = 'test' then
    return new;
  end if;
  if tg_op = 'INSERT' and new.status = 'initiating' and new.method = 'prompt' then
    perform private.refuse_prompt_in_pause();
  end if;
  if new.receipt is not null then
    new := private.move_refund_with_receipt(new);
  end if;
  return new;
end
$$;

create or replace function private.after_payment_change() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  perform private.count_change(private.figures_of(old), private.figures_of(new));
  if tg_op = 'DELETE' then
    return null;
  end if;
  -- A test pays no order; it only proves that prompts work.
  if new.purpose = 'test' then
    if tg_op = 'UPDATE' and old.status <> new.status and new.status = 'completed' then
      perform private.end_prompt_pause();
    elsif tg_op = 'UPDATE' and old.checkout_request_id is null and new.checkout_request_id is not null then
      perform private.end_refusal_pause();
    end if;
    return null;
  end if;
  if tg_op = 'INSERT' then
    if new.method = 'prompt' and new.status = 'initiating' then
      perform private.queue_link_with_prompt(new);
    end if;
    if new.status in ('initiating', 'processing') then
      perform private.notify_order_followers(new.order_id);
    end if;
    perform private.record_payment_events(null, new);
    return null;
  end if;
  if new.method = 'prompt' and (
    (old.status <> new.status and new.status in ('completed', 'failed'))
    or (old.checkout_request_id is null and new.checkout_request_id is not null)
  ) then
    perform private.pause_prompts(new);
  end if;
  if new.refunded_at is not null and (old.refunded_at is null or (old.needs_refund and not new.needs_refund)) then
    perform private.refund_order_of_payment(new);
  end if;
  if old.refunded_at is distinct from new.refunded_at or (old.status <> new.status and (
    old.status in ('review', 'unresolved') or new.status in ('review', 'unresolved', 'failed') or new.needs_refund
  )) then
    perform private.notify_order_followers(new.order_id);
  end if;
  perform private.record_payment_events(old, new);
  return null;
end
$$;

-- Messages to staff: who gets them, and their values (docs/decisions/messages-to-staff.md). They leave by the outbox, as messages to
-- customers do, with their templates and the daily budget.

create or replace function private.is_staff_message(kind text) returns boolean
language sql immutable
return kind in ('prompts_paused', 'prompts_resumed', 'refund_to_approve');

create or replace function private.staff_emails(except_member uuid default null) returns table (user_id uuid, email text)
language sql stable set search_path = '' as $$
  select profile.user_id, account.email::text
  from public.admin_profiles as profile
  join auth.users as account on account.id = profile.user_id
  where profile.is_active and account.deleted_at is null
    and (account.banned_until is null or account.banned_until <= now())
    and profile.user_id is distinct from staff_emails.except_member and account.email <> ''
  order by profile.created_at, profile.user_id
  limit 50;
$$;

comment on function private.staff_emails is 'Active staff with an email address, without except_member.';

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
    from private.staff_emails(queue_staff_message.except_member) as staff
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
  'Mails all active staff except except_member, at most 20 times an hour per kind. Callers call it once per event. Never fails.';

create or replace function private.announce_end_of_incident(incident_id uuid) returns void
language plpgsql set search_path = '' as $$
begin
  -- A message that was not sent yet needs no second one.
  delete from public.outbox_messages as m
  where m.order_id is null and m.kind = 'prompts_paused' and m.event_key = announce_end_of_incident.incident_id::text
    and m.status = 'waiting' and m.attempts = 0;
  if exists (
    select from public.outbox_messages as m
    where m.order_id is null and m.kind = 'prompts_paused' and m.event_key = announce_end_of_incident.incident_id::text
  ) then
    perform private.queue_staff_message('prompts_resumed', announce_end_of_incident.incident_id::text);
  end if;
end
$$;

create or replace function private.is_staff_message_true(kind text, event_key text) returns boolean
language sql stable set search_path = '' as $$
  select case is_staff_message_true.kind
    when 'prompts_paused' then exists (
      select from private.prompt_incidents as i where i.id::text = is_staff_message_true.event_key and i.ended_at is null
    )
    when 'refund_to_approve' then exists (
      select from public.refunds as r where r.id::text = is_staff_message_true.event_key and r.status = 'requested'
    )
    else true
  end;
$$;

comment on function private.is_staff_message_true is
  'Whether a message to staff still reports what is so: the incident lasts, the refund waits. True for other messages.';

create or replace function private.staff_message_facts(kind text, event_key text) returns jsonb
language sql stable set search_path = '' as $$
  select case staff_message_facts.kind
    when 'refund_to_approve' then jsonb_build_object('refund', (
      select jsonb_build_object(
        'refund_cents', r.refund_cents, 'requested_by', r.requested_by_email, 'reason', r.reason, 'receipt', r.receipt,
        'order_number', o.order_number
      )
      from public.refunds as r
      left join public.payments as p on p.id = r.payment_id
      left join public.orders as o on o.id = p.order_id
      where r.id::text = staff_message_facts.event_key
    ))
    else jsonb_build_object('incident', (
      select jsonb_build_object(
        'code', i.code, 'description', i.description, 'is_refused', i.is_refused, 'began_at', i.began_at,
        'has_till', s.till_number <> '' or s.paybill_number <> ''
      )
      from private.prompt_incidents as i cross join public.store_settings as s
      where i.id::text = staff_message_facts.event_key
    ))
  end;
$$;

comment on function private.staff_message_facts is
  'Values of the placeholders of a message to staff: refund, or incident.';

create or replace function public.refund_approvers() returns table (email text)
language plpgsql stable security definer set search_path = '' as $$
begin
  perform private.expect_staff();
  return query select staff.email from private.staff_emails((select auth.uid())) as staff;
end
$$;

comment on function public.refund_approvers is
  'For staff: the email addresses of the other active staff, who can approve a refund that the caller requested.';

-- Execution rights
grant execute on function public.refund_approvers to authenticated;

-- Writes of staff whose answer was lost: whether they were saved can be asked, and one that was not saved never will be.

create table private.staff_writes (
  id uuid primary key,
  is_withdrawn boolean not null default false,
  answer jsonb,
  written_at timestamptz not null default now()
);

comment on table private.staff_writes is
  'Requests of staff that wrote something, by the header x-write-id, for an hour. is_withdrawn: settle_write came first, so that the request is refused. answer: what the procedure returned, where the screen needs it.';

alter table private.staff_writes enable row level security;

create index staff_writes_by_time on private.staff_writes (written_at);

create or replace function private.write_id() returns uuid
language plpgsql stable set search_path = '' as $$
declare
  sent text := nullif(current_setting('request.headers', true), '')::jsonb ->> 'x-write-id';
begin
  return case when sent ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' then sent::uuid end;
end
$$;

comment on function private.write_id is 'The id that the panel gave to this request. Null: none.';

create or replace function private.record_staff_write() returns trigger
language plpgsql security definer set search_path = '' as $$
declare
  write_id uuid := private.write_id();
begin
  if write_id is null or not public.is_admin() then
    return null;
  end if;
  insert into private.staff_writes (id) values (write_id) on conflict do nothing;
  if found then
    delete from private.staff_writes as w where w.id in (
      select past.id from private.staff_writes as past
      where past.written_at < now() - interval '1 hour' order by past.written_at limit 20 for update skip locked
    );
  elsif (select w.is_withdrawn from private.staff_writes as w where w.id = write_id) then
    perform private.refuse(409, 'write_withdrawn', 'The connection broke before this was saved. Please try again');
  end if;
  return null;
end
$$;

comment on function private.record_staff_write is
  'Records the request of a staff member that writes to a table, once; refuses one that settle_write has withdrawn.';

create or replace function private.note_answer(answer jsonb) returns void
language sql volatile set search_path = '' as $$
  update private.staff_writes as w set answer = note_answer.answer where w.id = private.write_id();
$$;

comment on function private.note_answer is 'Keeps the answer of a procedure for settle_write.';

create or replace function public.settle_write(write_id uuid) returns table (is_saved boolean, answer jsonb)
language plpgsql volatile security definer set search_path = '' as $$
begin
  perform private.expect_staff();
  -- Waits for the request if it is still running.
  insert into private.staff_writes (id, is_withdrawn) values (settle_write.write_id, true) on conflict do nothing;
  return query select not w.is_withdrawn, w.answer from private.staff_writes as w where w.id = settle_write.write_id;
end
$$;

comment on function public.settle_write is
  'For staff: whether a request whose answer was lost was saved, by its x-write-id. If not, it is withdrawn: it is refused should it still arrive, so that it can be repeated safely. answer: what it returned, where that was kept. One row.';

-- Before each statement on a table that staff write, themselves or by a procedure.
create trigger orders_by_staff before insert or update or delete on public.orders for each statement
  when (current_setting('request.headers', true) like '%"x-write-id"%') execute function private.record_staff_write();

create trigger deliveries_by_staff before insert or update or delete on public.deliveries for each statement
  when (current_setting('request.headers', true) like '%"x-write-id"%') execute function private.record_staff_write();

create trigger payments_by_staff before insert or update or delete on public.payments for each statement
  when (current_setting('request.headers', true) like '%"x-write-id"%') execute function private.record_staff_write();

create trigger refunds_by_staff before insert or update or delete on public.refunds for each statement
  when (current_setting('request.headers', true) like '%"x-write-id"%') execute function private.record_staff_write();

create trigger mpesa_transactions_by_staff before insert or update or delete on public.mpesa_transactions for each statement
  when (current_setting('request.headers', true) like '%"x-write-id"%') execute function private.record_staff_write();

create trigger reconciliation_events_by_staff before insert or update or delete on public.reconciliation_events for each statement
  when (current_setting('request.headers', true) like '%"x-write-id"%') execute function private.record_staff_write();

create trigger products_by_staff before insert or update or delete on public.products for each statement
  when (current_setting('request.headers', true) like '%"x-write-id"%') execute function private.record_staff_write();

create trigger categories_by_staff before insert or update or delete on public.categories for each statement
  when (current_setting('request.headers', true) like '%"x-write-id"%') execute function private.record_staff_write();

create trigger search_synonyms_by_staff before insert or update or delete on public.search_synonyms for each statement
  when (current_setting('request.headers', true) like '%"x-write-id"%') execute function private.record_staff_write();

create trigger store_settings_by_staff before insert or update or delete on public.store_settings for each statement
  when (current_setting('request.headers', true) like '%"x-write-id"%') execute function private.record_staff_write();

create trigger shop_texts_by_staff before insert or update or delete on public.shop_texts for each statement
  when (current_setting('request.headers', true) like '%"x-write-id"%') execute function private.record_staff_write();

create trigger message_templates_by_staff before insert or update or delete on public.message_templates for each statement
  when (current_setting('request.headers', true) like '%"x-write-id"%') execute function private.record_staff_write();

create trigger outbox_messages_by_staff before insert or update or delete on public.outbox_messages for each statement
  when (current_setting('request.headers', true) like '%"x-write-id"%') execute function private.record_staff_write();

create trigger inquiries_by_staff before insert or update or delete on public.inquiries for each statement
  when (current_setting('request.headers', true) like '%"x-write-id"%') execute function private.record_staff_write();

create trigger prompt_pause_by_staff before insert or update or delete on private.prompt_pause for each statement
  when (current_setting('request.headers', true) like '%"x-write-id"%') execute function private.record_staff_write();

-- Execution rights
grant execute on function public.settle_write to authenticated, service_role;

alter table private.prompt_pause add constraint prompt_pause_incident_id_fkey FOREIGN KEY (incident_id) REFERENCES private.prompt_incidents(id);
alter publication supabase_realtime add table public.messages_to_check;
alter table private.messages_sent drop column without_priority;

-- Rows

-- Each order that is paid adds to what the network of its customer may do in the same window (docs/decisions/limits.md).
update private.limits as l
set per_paid_order = grown.per_paid_order
from (values
  ('place_order', 2),
  ('payment_prompts', 2),
  ('unpaid_order_texts', 1.5),
  ('unpaid_order_mails', 1.5),
  ('order_lookups', 1),
  ('orders_looked_up', 1),
  ('inquiries_of_day', 0.1),
  ('newsletter_mails', 0.05)
) as grown (name, per_paid_order)
where l.name = grown.name;

insert into private.limits (name, allowed, within, per_paid_order) values
  ('waiting_orders', 150, '1 day', 0.1),
  ('prompted_phones', 300, '1 day', 2);

-- Links of orders that were paid no longer count as those of visitors who have not paid.
update public.outbox_messages as m
set has_priority = true
where not m.has_priority and m.created_at > now() - interval '7 days' and exists (
  select from public.orders as o where o.id = m.order_id and o.payment_status <> 'unpaid'
);

update private.order_networks as k
set phone = (select o.customer_phone from public.orders as o where o.id = k.order_id)
where k.phone is null;

-- Receipts in capitals, without blanks. The same money may be booked under both spellings: then the prompt loses the other spelling, and is
-- matched with the payment that has M-PESA's.
do $$
declare
  known record;
  code text;
begin
  for known in
    select t.* from public.mpesa_transactions as t
    where t.receipt <> upper(regexp_replace(t.receipt, '\s', '', 'g'))
    order by t.created_at
  loop
    code := upper(regexp_replace(known.receipt, '\s', '', 'g'));
    insert into public.mpesa_transactions as t (
      receipt, received_cents, reference, payer_phone, payer_name, transacted_at, reported_by_callback_at, reported_by_confirmation_at,
      reported_by_statement_at, payment_id, attempt_id, order_id, resolution, resolved_by, resolved_at, created_at, updated_at
    ) values (
      code, known.received_cents, known.reference, known.payer_phone, known.payer_name, known.transacted_at, known.reported_by_callback_at,
      known.reported_by_confirmation_at, known.reported_by_statement_at, known.payment_id, known.attempt_id, known.order_id,
      known.resolution, known.resolved_by, known.resolved_at, known.created_at, known.updated_at
    )
    on conflict (receipt) do update set
      attempt_id = coalesce(t.attempt_id, excluded.attempt_id),
      reported_by_callback_at = coalesce(t.reported_by_callback_at, excluded.reported_by_callback_at);
    update public.refunds as r set transaction_receipt = code where r.transaction_receipt = known.receipt;
    delete from public.mpesa_transactions as t where t.receipt = known.receipt;
  end loop;
  for known in
    select p.id, p.receipt, p.order_id from public.payments as p
    where p.receipt <> upper(regexp_replace(p.receipt, '\s', '', 'g'))
    order by p.created_at
  loop
    code := upper(regexp_replace(known.receipt, '\s', '', 'g'));
    if exists (select from public.payments as p where p.receipt = code) then
      update public.payments as p set receipt = null where p.id = known.id;
      perform private.match_receipts(known.order_id);
    else
      update public.payments as p set receipt = code where p.id = known.id;
    end if;
  end loop;
  update public.payment_messages as m set receipt = upper(regexp_replace(m.receipt, '\s', '', 'g'))
  where m.receipt <> upper(regexp_replace(m.receipt, '\s', '', 'g'));
  update public.refunds as r set receipt = upper(regexp_replace(r.receipt, '\s', '', 'g'))
  where r.receipt <> upper(regexp_replace(r.receipt, '\s', '', 'g')) and not exists (
    select from public.refunds as other where other.receipt = upper(regexp_replace(r.receipt, '\s', '', 'g'))
  );
  update public.refunds as r set refund_receipt = upper(regexp_replace(r.refund_receipt, '\s', '', 'g'))
  where r.refund_receipt <> upper(regexp_replace(r.refund_receipt, '\s', '', 'g')) and not exists (
    select from public.refunds as other where other.refund_receipt = upper(regexp_replace(r.refund_receipt, '\s', '', 'g'))
  );
end
$$;

-- Confirmations that could not be read were on no screen.
do $$
begin
  perform private.add_message_to_check(m.source, 'unreadable', m.body, array['receipt', 'amount'], null, null, null, '')
  from public.payment_messages as m
  where m.source = 'confirmation' and m.outcome = 'unreadable' and m.body <> '{}';
end
$$;

-- Until now attempts came into review by another amount only.
update public.payments as p set review_cause = 'wrong_amount' where p.status = 'review' and p.review_cause is null;

-- Only now, because rows may have had other spellings. Deferred checks of the changed rows would refuse the change of the table.
set constraints all immediate;
alter table public.payments add constraint "a receipt is in capitals, without blanks" check (receipt = upper(receipt) and receipt !~ '\s');
alter table public.mpesa_transactions
  add constraint "a receipt is in capitals, without blanks" check (receipt = upper(receipt) and receipt !~ '\s');

-- Rows: templates of the messages to staff.
insert into public.message_templates (kind, channel, subject, body, default_subject, default_body)
select kind, channel, subject, body, subject, body
from (values
  ('prompts_paused', 'mail', 'Customers get no M-PESA prompts',
    E'Habari,\n\nM-PESA prompts of {shop} have not worked since {began}. Customers cannot pay by them until someone corrects the cause.\n\n{cause}\n{advice}\n\nM-PESA''s answer: {code}\n\n{till}\n\nAfter a correction, send a prompt for KSh 1 to your own phone there:\n{staff_link}\n\nAnother mail follows when prompts work again.'),
  ('prompts_resumed', 'mail', 'Customers get M-PESA prompts again',
    E'Habari,\n\nM-PESA prompts of {shop} work again. They had not worked since {began}.\n\nOrders of that time may be unpaid, or paid by hand. The last messages of M-PESA:\n{staff_link}'),
  ('refund_to_approve', 'mail', 'A refund of {refund} waits for your approval',
    E'Habari,\n\nA refund of {refund}[ for order {order}][ (receipt {receipt})] was requested by {requested_by} and needs the approval of a colleague. Nothing is sent before.\n\nReason: {reason}\n\nApprove or withdraw it here:\n{staff_link}')
) as template (kind, channel, subject, body);

insert into public.message_templates (kind, channel, subject, body, default_subject, default_body)
select kind, channel, subject, body, subject, body
from (values
  ('order_payment_corrected', 'text', null,
    '{shop}: sorry, a payment noted for {tracking} was not yours. To pay {total}: {link}'),
  ('order_payment_corrected', 'mail', 'Your order {tracking} is not paid yet',
    E'Habari {name},\n\nWe are sorry: we noted another customer''s payment for your order {tracking} by mistake. Your order is not paid yet, and its total is {total}.\n\nYou can pay for it here:\n{link}\n\nIf you have paid, please reply or call us, and we will look for your payment.\n\n{shop}\n{shop_phone}\n{shop_email}')
) as starting (kind, channel, subject, body);

-- Deliveries of orders that were cancelled or refunded before they arrived, and of orders that were shipped without a rider.
update public.deliveries as d
set delivery_status = private.delivery_status_for_order(o, d.delivery_status, d.delivery_person)
from public.orders as o
where o.id = d.order_id and private.is_called_off(o) and d.delivery_status not in ('failed', 'delivered');

-- Without the triggers, which would set these orders back to processing.
alter table public.deliveries disable trigger user;
update public.deliveries as d
set delivery_status = 'pending'
from public.orders as o
where o.id = d.order_id and d.delivery_person is null and d.delivery_status = 'in_transit' and d.pickup_time is null
  and o.status in ('shipped', 'out_for_delivery') and not private.is_called_off(o);
alter table public.deliveries enable trigger user;

-- Texts to customers name the tracking number, which is longer than the order number: these two would not fit one SMS. A text that
-- staff edited stays.
update public.message_templates as t
set body = case when t.body = t.default_body then short.body else t.body end, default_body = short.body
from (values
  ('order_payment_held', '{shop}: {paid} received[, {receipt}], {order} needs a check. We will call you. {link}'),
  ('order_refunded', '{shop}: {refunded} for {order} was sent back to the phone that paid[, {refund_receipt}]. {link}')
) as short (kind, body)
where t.kind = short.kind and t.channel = 'text';
