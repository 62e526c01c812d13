-- Earlier versions keep working. They call list_discount_codes without arguments, and get the 500 newest codes as before. They show a message
-- of the new kind under its own name; a process of theirs cannot write one, leaves it leased, and a later version sends it a minute later.

comment on column public.outbox_messages.event_key is
  'Event key: distinguishes messages of one kind and order. Empty, the id of the refund or of the note of change (change_notes), or the number of payments that were taken back or of failed deliveries; of a job the id of its rider; of newsletter mails the subscription''s id; of replies the inquiry''s id; of messages to staff the id of the incident, the refund or the audit event; of a repeated message of an order its own id.';

alter table public.message_templates drop constraint "a template is of a kind that is known";

alter table public.outbox_messages drop constraint "a kind of message is known";

alter table public.outbox_messages drop constraint "a message is about an order, a reader, an inquiry or the shop";

drop function public.list_discount_codes();

alter table public.message_templates add constraint "a template is of a kind that is known" CHECK ((kind = ANY (ARRAY['order_received'::text, 'order_paid'::text, 'order_payment_held'::text, 'order_payment_corrected'::text, 'order_on_its_way'::text, 'order_delayed'::text, 'delivery_failed'::text, 'order_delivered'::text, 'order_refunded'::text, 'order_cancelled'::text, 'order_expired'::text, 'newsletter_confirmation'::text, 'prompts_paused'::text, 'prompts_resumed'::text, 'refund_to_approve'::text, 'second_factor_removed'::text, 'job_for_rider'::text])));

alter table public.outbox_messages add constraint "a kind of message is known" CHECK ((kind = ANY (ARRAY['order_received'::text, 'order_paid'::text, 'order_payment_held'::text, 'order_payment_corrected'::text, 'order_on_its_way'::text, 'order_delayed'::text, 'delivery_failed'::text, 'order_delivered'::text, 'order_refunded'::text, 'order_cancelled'::text, 'order_expired'::text, 'newsletter_confirmation'::text, 'inquiry_reply'::text, 'prompts_paused'::text, 'prompts_resumed'::text, 'refund_to_approve'::text, 'second_factor_removed'::text, 'test_message'::text, 'job_for_rider'::text])));

alter table public.outbox_messages add constraint "a message is about an order, a reader, an inquiry or the shop" CHECK (((order_id IS NULL) = (kind = ANY (ARRAY['newsletter_confirmation'::text, 'inquiry_reply'::text, 'prompts_paused'::text, 'prompts_resumed'::text, 'refund_to_approve'::text, 'second_factor_removed'::text, 'test_message'::text]))));

create or replace function public.list_discount_codes(
  search text default '', before_created_at timestamptz default null, before_id uuid default null, page_size integer default 500,
  only_id uuid default null
) returns table (
  id uuid, code text, percent smallint, amount_cents integer, minimum_cents integer, starts_at timestamptz, ends_at timestamptz,
  max_uses integer, max_uses_per_phone integer, is_active boolean, created_at timestamptz, updated_at timestamptz,
  uses bigint, waiting bigint, cost_cents bigint, sold_cents bigint, has_orders boolean
)
language plpgsql stable security definer set search_path = '' as $$
#variable_conflict use_column
declare
  words constant text := regexp_replace(private.read_discount_code(list_discount_codes.search), '([\\%_])', '\\\1', 'g');
begin
  perform private.expect_staff('settings');
  return query
  select d.id, d.code, d.percent, d.amount_cents, d.minimum_cents, d.starts_at, d.ends_at,
    d.max_uses, d.max_uses_per_phone, d.is_active, d.created_at, d.updated_at,
    used.uses, used.waiting, used.cost_cents, used.sold_cents, used.has_orders
  from (
    select * from public.discount_codes as d
    where (list_discount_codes.only_id is null or d.id = list_discount_codes.only_id)
      and (words is null or d.code like '%' || words || '%')
      and (
        list_discount_codes.before_id is null
        or (d.created_at, d.id) < (list_discount_codes.before_created_at, list_discount_codes.before_id)
      )
    order by d.created_at desc, d.id desc
    limit least(greatest(coalesce(list_discount_codes.page_size, 500), 1), 1000)
  ) as d
  cross join lateral (
    select count(*) filter (where private.counts_as_use(o.status, o.payment_status)) as uses,
      count(*) filter (where o.payment_status = 'unpaid' and o.status <> 'cancelled') as waiting,
      coalesce(sum(o.discount_cents) filter (where o.payment_status = 'paid'), 0)::bigint as cost_cents,
      coalesce(sum(o.total_amount) filter (where o.payment_status = 'paid'), 0)::bigint as sold_cents,
      count(*) > 0 as has_orders
    from public.orders as o where o.discount_code = d.code
  ) as used
  order by d.created_at desc, d.id desc;
end
$$;

comment on function public.list_discount_codes is
  'For staff: a page of discount codes, the newest first, after the one named by before_created_at and before_id. search: a part of the code. only_id: this one alone. uses: orders with the code, cancelled unpaid ones not counted; waiting: those of them that wait for their payment. cost_cents and sold_cents: the discounts and the totals of paid orders. has_orders: it was used at least once, so it can be neither changed nor deleted.';

grant execute on function public.list_discount_codes to authenticated;

create or replace function private.check_message_template() returns trigger
language plpgsql security definer set search_path = '' as $$
declare
  written text := coalesce(new.subject, '') || E'\n' || new.body;
  is_newsletter boolean := new.kind = 'newsletter_confirmation';
  placeholders text[] := array['shop', 'shop_phone', 'shop_email'] || case
    when is_newsletter then array['confirm_link', 'unsubscribe_link']
    when new.kind = 'refund_to_approve' then array['refund', 'order', 'receipt', 'requested_by', 'reason', 'staff_link']
    when new.kind = 'second_factor_removed' then array['member', 'cause', 'time', 'staff_link']
    when new.kind = 'job_for_rider' then array['order', 'name', 'customer_phone', 'address', 'notes', 'items', 'pay']
    when private.is_staff_message(new.kind) then array['cause', 'advice', 'code', 'began', 'till', 'staff_link']
    else array[
      'name', 'order', 'tracking', 'items', 'delivery_fee', 'discount', 'total', 'paid', 'receipt', 'due_back', 'refunded', 'refund_receipt',
      'failure', 'cash', 'arrival', 'code', 'link', 'receipt_link'
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

-- Messages to staff: who gets them, and their values (docs/decisions/messages.md). They leave by the outbox, as messages to
-- customers do, with their templates and the daily budget.

create or replace function private.is_staff_message(kind text) returns boolean
language sql immutable
return kind in ('prompts_paused', 'prompts_resumed', 'refund_to_approve', 'second_factor_removed');

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
      case queue_staff_message.kind
        when 'refund_to_approve' then 'approvals' when 'second_factor_removed' then 'team' else 'orders'
      end,
      queue_staff_message.except_member
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
  'Mails active staff whom a message concerns, except except_member, at most 20 times an hour per kind: those who may approve refunds, manage the team, or take orders. Callers call it once per event. Never fails.';

create or replace function private.name_of_staff(email text) returns text
language sql stable strict set search_path = '' as $$
  select coalesce((
    select profile.name
    from auth.users as account
    join public.admin_profiles as profile on profile.user_id = account.id
    where account.email = name_of_staff.email and profile.name <> ''
    limit 1
  ), name_of_staff.email);
$$;

comment on function private.name_of_staff is
  'What colleagues call a member, by the email address that histories store; without a name the address.';

create or replace function private.staff_message_facts(kind text, event_key text) returns jsonb
language sql stable set search_path = '' as $$
  select case staff_message_facts.kind
    when 'refund_to_approve' then jsonb_build_object('refund', (
      select jsonb_build_object(
        'refund_cents', r.refund_cents, 'requested_by', private.name_of_staff(r.requested_by_email), 'reason', r.reason, 'receipt', r.receipt,
        'order_number', o.order_number
      )
      from public.refunds as r
      left join public.payments as p on p.id = r.payment_id
      left join public.orders as o on o.id = p.order_id
      where r.id::text = staff_message_facts.event_key
    ))
    when 'second_factor_removed' then jsonb_build_object('removal', (
      select jsonb_build_object(
        'member', private.name_of_staff(e.subject), 'removed_by', private.name_of_staff(e.actor_email),
        'codes_left', e.after -> 'codes_left', 'happened_at', e.happened_at
      )
      from public.audit_events as e where e.id = staff_message_facts.event_key::bigint
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
  'Values of the placeholders of a message to staff: refund, removal of a second factor, or incident. codes_left: a recovery code removed it.';

create or replace function private.after_audit_event() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  -- To the member who pressed, too: that may be another person with the member's password.
  perform private.queue_staff_message('second_factor_removed', new.id::text);
  return null;
end
$$;

create trigger audit_events_after_insert after insert on public.audit_events
  for each row when (new.kind in ('second_factor_reset', 'recovery_code_used')) execute function private.after_audit_event();

insert into public.message_templates (kind, channel, subject, body, default_subject, default_body)
select kind, channel, subject, body, subject, body
from (values
  ('second_factor_removed', 'mail', 'The second factor of {member} was removed', $text$Habari,

The second factor of {member} was removed on {time}: the password alone is enough to sign in to {shop} now.

{cause}

If you do not know why, ask {member} at once. Owners can end the access here, and let it be used again later:
{staff_link}$text$)
) as template (kind, channel, subject, body);
