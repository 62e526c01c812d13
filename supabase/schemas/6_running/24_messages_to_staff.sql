-- Messages to staff: who gets them, and their values (docs/decisions/messages.md). They leave by the outbox, as messages to
-- customers do, with their templates and the daily budget.

create function private.is_staff_message(kind text) returns boolean
language sql immutable
return kind in ('prompts_paused', 'prompts_resumed', 'refund_to_approve', 'second_factor_removed');

create function private.staff_emails(area text, except_member uuid default null) returns table (user_id uuid, email text)
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

create function private.queue_staff_message(kind text, event_key text, except_member uuid default null) returns void
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

create function private.announce_end_of_incident(incident_id uuid) returns void
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

create function private.is_staff_message_true(kind text, event_key text) returns boolean
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

create function private.name_of_staff(email text) returns text
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

create function private.staff_message_facts(kind text, event_key text) returns jsonb
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

create function public.refund_approvers() returns table (email text)
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
