-- Refusals of M-PESA by who can end them, pauses as incidents, messages to staff, and the version of C2B.

alter table public.payments add column ended_by text;
comment on column public.payments.ended_by is
  'Who can end the cause of the failure, as the payment function classified it (domain/result-advice.ts). owner: the shop''s settings or account. Null: not failed.';

alter table private.failed_prompts
  add column cause text not null default '', add column order_id uuid, add column is_refused boolean not null default false;
alter table private.mpesa_registrations add column api_version text;
comment on column private.mpesa_registrations.api_version is
  'Version of the C2B API that the app has. Null: of the statement, or not known.';

create table private.prompt_incidents (
  id uuid primary key default gen_random_uuid(),
  code text not null,
  description text,
  is_refused boolean not null,
  began_at timestamptz not null default now(),
  ended_at timestamptz
);

create table private.mpesa_settings (
  id boolean primary key default true,
  digest text not null,
  constraint "there is one digest" check (id)
);

alter table private.prompt_pause
  add column is_refused boolean not null default false,
  add column incident_id uuid references private.prompt_incidents (id);
comment on column private.prompt_pause.is_refused is 'As in prompt_incidents. A request that M-PESA accepts ends such a pause.';

alter type private.payment_report add attribute ended_by text;
comment on type private.payment_report is
  'What a message reports about a payment attempt. result: succeeded, failed or pending. received_cents: null if the message names no amount. ended_by: who can end a failure (payments.ended_by).';

alter type public.active_pause add attribute is_refused boolean;
alter type public.payment_health add attribute refunds_to_approve_by_me bigint;
comment on type public.payment_health is
  'pause: null while prompts work; after its until the next prompt is sent as a probe. refunds_to_approve_by_me: those that other staff requested. limit_raise: the last one of the past week, amounts in cents; current_limit applies now.';

comment on column public.outbox_messages.order_id is 'Null for newsletter mails and messages to staff.';
comment on column public.outbox_messages.event_key is
  'Event key: distinguishes messages of one kind and order. Empty, or the id of the refund; of newsletter mails the subscription''s id; of messages to staff the id of the incident or the refund.';

alter table public.message_templates drop constraint "a template is of a kind that is known";

alter table public.outbox_messages drop constraint "a kind of message is known";

alter table public.outbox_messages drop constraint "a message is about an order or the newsletter";

alter table private.failed_prompts drop constraint failed_prompts_pkey;

drop function public.begin_payment(uuid,text,text,text,integer);

drop function private.is_configuration_error(text,text);

drop function private.is_credential_error(text,text);

drop function private.refuse_same_amount(payments);

drop function public.record_mpesa_registration(text);

drop function public.record_push(uuid,text,text,text,text,text);

drop function public.settle_payment(uuid,text,text,text,text,text,integer,text,text,text,text);

drop function public.system_status();

alter table public.message_templates add constraint "a template is of a kind that is known" CHECK ((kind = ANY (ARRAY['order_received'::text, 'order_paid'::text, 'order_payment_held'::text, 'order_on_its_way'::text, 'order_delivered'::text, 'order_refunded'::text, 'order_cancelled'::text, 'order_expired'::text, 'newsletter_confirmation'::text, 'prompts_paused'::text, 'prompts_resumed'::text, 'refund_to_approve'::text])));

alter table public.outbox_messages add constraint "a kind of message is known" CHECK ((kind = ANY (ARRAY['order_received'::text, 'order_paid'::text, 'order_payment_held'::text, 'order_on_its_way'::text, 'order_delivered'::text, 'order_refunded'::text, 'order_cancelled'::text, 'order_expired'::text, 'newsletter_confirmation'::text, 'prompts_paused'::text, 'prompts_resumed'::text, 'refund_to_approve'::text])));

alter table public.outbox_messages add constraint "a message is about an order, the newsletter or the shop" CHECK (((order_id IS NULL) = (kind = ANY (ARRAY['newsletter_confirmation'::text, 'prompts_paused'::text, 'prompts_resumed'::text, 'refund_to_approve'::text]))));

alter table public.payments add constraint "who can end the cause of a failure is known" CHECK ((ended_by = ANY (ARRAY['customer'::text, 'time'::text, 'owner'::text, 'unknown'::text])));

alter table private.failed_prompts add constraint "a phone counts once per cause" PRIMARY KEY (cause, phone);

alter table private.mpesa_registrations add constraint "a version of C2B is known" CHECK ((api_version = ANY (ARRAY['v1'::text, 'v2'::text])));

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

create or replace function public.begin_payment(
  order_id uuid, tracking_number text, phone text, callback_secret text, expected_cents integer default null,
  same_amount_seconds integer default 0
) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  payer text := private.normalised_phone(left(begin_payment.phone, 40));
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
  end if;

  -- Without limits, one order could send prompts to many phones.
  if not private.count_call('payment_prompts') then
    return private.refusal_answer('PT429', 'Too many payments from your network. Please try again in a few minutes',
      'too_many_payments', '');
  end if;
  if not private.count_call('payment_prompts_of_order', ordered.id::text) then
    return private.refusal_answer('PT429', 'Too many payment attempts for this order. Please wait a few minutes',
      'too_many_attempts', '');
  end if;
  if not private.count_call('payment_prompts_to_phone', payer) then
    return private.refusal_answer('PT429', 'Too many payment prompts to this phone. Please wait a few minutes',
      'too_many_prompts', '');
  end if;
  if not private.may_prompt_phone(payer, ordered) then
    return private.refusal_answer('PT429',
      'This phone had many unpaid payment prompts today. Please pay from another phone, or contact us',
      'too_many_unanswered_prompts', '');
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

-- Execution rights
grant execute on function public.begin_payment, public.begin_payment_test, public.record_push, public.find_payment,
  public.find_payment_by_secret, public.lease_payment_queries to service_role;

create or replace function public.settle_payment(
  payment_id uuid, source text, body text, result text, result_code text default null,
  result_description text default null, received_cents integer default null, receipt text default null,
  merchant_request_id text default null, checkout_request_id text default null, source_address text default null,
  ended_by text default null
) returns public.settled_payment
language plpgsql security definer set search_path = '' as $$
declare
  report private.payment_report := (
    source, result, result_code, result_description, received_cents, receipt, merchant_request_id, checkout_request_id, ended_by
  );
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
  -- Lock the order, the receipt and request id, then the payment, all before storing the message: its foreign key takes a weaker
  -- lock, which two concurrent settlements could not upgrade.
  perform from public.orders as o
  where o.id = (select p.order_id from public.payments as p where p.id = settle_payment.payment_id)
  for update;
  perform pg_advisory_xact_lock(hashtext('settle ' || known.id))
  from unnest(array[report.receipt, report.checkout_request_id]) as known (id)
  where known.id is not null;
  select * into attempt from public.payments as p where p.id = settle_payment.payment_id for update;
  if attempt.id is null then
    perform private.refuse(404, 'payment_not_found', 'This payment does not exist');
  end if;
  insert into public.payment_messages (payment_id, source, source_address, body, receipt)
  values (attempt.id, report.source, settle_payment.source_address, settle_payment.body, report.receipt)
  returning id into stored_message;

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
        format('M-PESA reported %s cents, %s were charged', coalesce(report.received_cents::text, 'no'), attempt.charge_cents));
      perform private.store_mismatched_money(attempt, report);
    when 'superseded' then
      if report.result = 'succeeded' then
        perform private.store_mismatched_money(attempt, report);
      end if;
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
  return (message_outcome, attempt)::public.settled_payment;
end
$$;

comment on function public.settle_payment is
  'Settles a payment attempt by a message of M-PESA: stores the message, decides what it means (decide_settlement) and applies it in the same transaction. Idempotent. A success supersedes a failure, never the reverse; every receipt stays in the books; an amount other than the charge needs review.';

create or replace function private.fail_attempt(attempt_id uuid, new_status text, report private.payment_report, description text) returns void
language sql set search_path = '' as $$
  update public.payments as p
  set status = new_status, result_code = report.result_code, result_description = description, ended_by = report.ended_by,
      merchant_request_id = coalesce(p.merchant_request_id, report.merchant_request_id),
      checkout_request_id = coalesce(p.checkout_request_id, report.checkout_request_id), next_query_at = null,
      updated_at = now()
  where p.id = attempt_id;
$$;

comment on function private.fail_attempt is
  'Ends an attempt without paying its order: failed, or review when the amount is not the charge.';

-- Execution rights
grant execute on function public.settle_payment to service_role;

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

-- Execution rights
grant execute on function public.receive_mpesa_transaction, public.record_mpesa_registration,
  public.till_registration, public.receipts_not_in_statement to service_role;

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

-- Prompts pause while M-PESA refuses them for a reason that only the owner can end: customers see another way to pay, staff see the cause.
comment on table private.prompt_incidents is
  'Times in which prompts did not work, from the first pause until a prompt worked or staff ended the pause.';

comment on column private.prompt_incidents.is_refused is
  'Whether M-PESA refused the requests themselves. False: prompts ended with this code.';

alter table private.prompt_incidents enable row level security;

comment on table private.failed_prompts is
  'Phones whose prompts failed since the last success, with a code about the shop''s account (cause: owner) or one without a documented meaning (cause: the code). One phone proves nothing, since it may be the cause.';

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

-- Execution rights
grant execute on function public.are_prompts_paused to anon, authenticated, service_role;

grant execute on function public.resume_prompts, public.payment_health to authenticated;

grant execute on function public.lease_daraja_token, public.store_daraja_token, public.claim_payment_job,
  public.note_mpesa_settings
  to service_role;

comment on table public.outbox_messages is
  'Messages to customers and staff. sending: being handed over. unsure: may have been sent, so only staff send it again. over_budget: held back by a limit or daily budget; staff may send it. subject and body: of the last attempt.';

comment on column public.outbox_messages.order_id is 'Null for newsletter mails and messages to staff.';

comment on column public.outbox_messages.event_key is
  'Event key: distinguishes messages of one kind and order. Empty, or the id of the refund; of newsletter mails the subscription''s id; of messages to staff the id of the incident or the refund.';

comment on column public.outbox_messages.recipient is 'Email address, or phone as +254….';

comment on column public.outbox_messages.gateway_reference is 'Id from the text message gateway.';

comment on column public.outbox_messages.resent_by is 'Email address of the staff member who sent it again.';

comment on column public.outbox_messages.has_priority is
  'Whether the message may use the whole daily budget. Messages that visitors cause without paying may use half of it.';

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
    'order_number', o.order_number,
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

grant execute on function public.lease_messages, public.begin_message, public.finish_message to service_role;

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
  select 'backup_last_timestamp_seconds', null, coalesce(extract(epoch from max(b.finished_at)), 0)
  from public.backups as b where b.outcome in ('verified', 'readable')
$$;

comment on function public.shop_metrics is 'Metrics for monitoring: name, value of its label (null: none), value.';

grant execute on function public.daily_figures, public.system_status, public.dashboard_figures to authenticated;

grant execute on function public.record_page_views, public.record_backup, public.shop_metrics to service_role;

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
