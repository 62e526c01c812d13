-- Earlier versions keep working: rider_press has a new parameter with a default, and rider_page answers with more values, which they
-- ignore. To them the key of a second text to one rider is a rider that they do not know; only the database reads it.

comment on column public.deliveries.pickup_time is
  'When the status became picked_up, by a rider without a network when the rider pressed. Null: never, or undone.';

comment on column public.deliveries.delivery_time is 'When the status became delivered, as with pickup_time. Null: never, or undone.';

comment on column public.outbox_messages.event_key is
  'Event key: distinguishes messages of one kind and order. Empty, the id of the refund or of the note of change (change_notes), or the number of payments that were taken back or of failed deliveries; of a job the id of its rider, and after a space how many texts that rider had about it before; of newsletter mails the subscription''s id; of replies the inquiry''s id; of messages to staff the id of the incident, the refund or the audit event; of a repeated message of an order its own id.';

drop function private.decide_press(rider_links,uuid,text,text,integer,boolean,text);

drop function public.rider_press(text,uuid,uuid,text,text,integer,boolean,text);

create or replace function private.state_moment(at timestamptz) returns void
language plpgsql set search_path = '' as $$
begin
  perform set_config('private.moment', coalesce(extract(epoch from state_moment.at)::text, ''), true);
end
$$;

comment on function private.state_moment is
  'States for the triggers of the next statements when their change happened, where that was before now. Null takes it back. It ends with the transaction at the latest.';

create or replace function private.moment() returns timestamptz
language sql volatile
return coalesce(to_timestamp(nullif(current_setting('private.moment', true), '')::double precision), clock_timestamp());

comment on function private.moment is 'When the change of this statement happened: as stated (private.state_moment), else now.';

create or replace function private.before_delivery_change() returns trigger
language plpgsql security definer set search_path = '' as $$
declare
  moment timestamptz := private.moment();
  ordered public.orders;
begin
  new := private.without_invisible_texts(new);
  -- Lock the order before the delivery: the transaction that has locked the order may change the delivery next.
  select * into ordered from public.orders as o where o.id = new.order_id for no key update;
  if not private.is_stated('undoes') and old.delivery_phone is distinct from new.delivery_phone then
    new.rider_id := private.rider_of_phone(new.delivery_phone);
  end if;
  if tg_op = 'INSERT' then
    new.proof_code := private.draw_proof_code();
  end if;
  if tg_op = 'UPDATE' and not private.is_stated('undoes') and private.has_cancel_request(ordered) and (
    (new.taken_by is not null and old.taken_by is null) or (new.ready_at is not null and old.ready_at is null)
    or (private.was_picked_up(new.delivery_status) and not private.was_picked_up(old.delivery_status))
  ) then
    perform private.refuse_before_answer();
  end if;
  if tg_op = 'UPDATE' then
    -- Never the same time for two changes.
    new.updated_at := greatest(clock_timestamp(), old.updated_at + interval '1 microsecond');
    if private.is_stated('undoes') then
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
    elsif private.order_status_of_delivery(old.delivery_status) is null and private.is_before_pickup(new.delivery_status)
      and not private.is_called_off(ordered)
    then
      -- A rider for an order that was shipped without one is on the way.
      new.delivery_status := private.delivery_status_for_order(ordered, new.delivery_status, new.delivery_person);
    end if;
  elsif private.is_before_pickup(new.delivery_status) and not private.is_called_off(ordered) then
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
  if private.was_picked_up(new.delivery_status) then
    new.ready_at := coalesce(new.ready_at, moment);
  end if;
  if new.delivery_status <> 'failed' then
    new.failure_reason := null;
  elsif private.has_left_shop(ordered.status) then
    new.failures := new.failures + 1;
  end if;
  return new;
end
$$;

create or replace function private.record_order_event(
  order_id uuid, kind text, default_actor text, details jsonb default '{}', member uuid default auth.uid()
) returns void
language plpgsql set search_path = '' as $$
begin
  if member is not null then
    select a.user_id into member from public.admin_profiles as a where a.user_id = member;
  end if;
  insert into public.order_events (happened_at, order_id, kind, actor, actor_id, actor_email, details)
  values (
    private.moment(), order_id, kind,
    case when member is not null then 'staff' when private.is_stated('by_rider') then 'rider' else default_actor end, member,
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
  'Appends to an order''s timeline, with the time of private.moment. The actor is the staff member, by default the caller, else the rider whose press it is, else default_actor.';

create or replace function private.describe_job(delivery public.deliveries) returns jsonb
language plpgsql stable set search_path = '' as $$
declare
  ordered public.orders;
  job jsonb;
begin
  select * into ordered from public.orders as o where o.id = delivery.order_id;
  job := jsonb_build_object(
    'id', delivery.id, 'order_number', ordered.order_number, 'status', delivery.delivery_status,
    'items', (
      select jsonb_agg(jsonb_build_object('name', i.product_name, 'quantity', i.quantity) order by i.position)
      from public.order_items as i where i.order_id = ordered.id
    ),
    'first_name', split_part(ordered.customer_name, ' ', 1)
  );
  if not private.is_open_delivery(delivery.delivery_status) then
    return job || jsonb_build_object(
      'done_at', coalesce(delivery.delivery_time, delivery.updated_at),
      'failure', delivery.failure_reason, 'is_cancelled', private.is_called_off(ordered)
    );
  end if;
  return job || jsonb_build_object(
    'name', ordered.customer_name, 'phone', ordered.customer_phone,
    'address', ordered.shipping_address, 'city', ordered.city, 'area', ordered.area_name, 'map_point', ordered.map_point,
    'promised_at', coalesce(ordered.promised_again_at, ordered.promised_at),
    'customer_notes', ordered.delivery_notes, 'notes', delivery.delivery_notes,
    'cash_cents', case when ordered.payment_status = 'unpaid' then ordered.charge_cents end,
    'asks_code', private.asks_for_code(delivery),
    'tries_left', greatest(private.most_code_tries() - delivery.wrong_codes, 0)
  );
end
$$;

comment on function private.describe_job is
  'A delivery as its rider sees it: no email, tracking number, access key or code. Once it is done, nothing that identifies the customer but the first name.';

create or replace function private.describe_ride(link public.rider_links) returns jsonb
language plpgsql stable set search_path = '' as $$
begin
  return (
    select jsonb_build_object(
      'link_id', link.id, 'rider_id', r.id, 'expires_at', link.expires_at, 'name', r.name, 'now', now(),
      'shop', (
        select jsonb_build_object('name', s.store_name, 'phone', s.support_phone, 'chat_phone', s.chat_phone)
        from public.store_settings as s
      ),
      'jobs', coalesce((
        select jsonb_agg(private.describe_job(d) order by d.created_at, d.id)
        from (
          select * from public.deliveries as open
          where open.rider_id = r.id and private.is_open_job(open.delivery_status)
          union all
          select * from public.deliveries as done
          where done.rider_id = r.id and private.has_ended(done.delivery_status) and done.updated_at > now() - interval '1 hour'
        ) as d
      ), '[]'::jsonb)
    )
    from public.riders as r where r.id = link.rider_id
  );
end
$$;

create or replace function private.moment_of_press(delivery public.deliveries, seconds_ago integer) returns timestamptz
language sql volatile set search_path = '' as $$
  select greatest(
    clock_timestamp() - make_interval(secs => greatest(moment_of_press.seconds_ago, 0)),
    delivery.created_at, (
      select max(e.happened_at) from public.order_events as e
      where e.order_id = delivery.order_id and e.kind in ('delivery_assigned', 'delivery_status_changed')
    )
  );
$$;

comment on function private.moment_of_press is
  'When a rider pressed, by the age of the press: not in the future, and not before the assignment or the step before it. The clock of a phone can be wrong, so the page sends an age.';

create or replace function private.decide_press(
  link public.rider_links, delivery_id uuid, step text, code text, received_cents integer, is_other_amount boolean, failure_reason text,
  seconds_ago integer
) returns jsonb
language plpgsql set search_path = '' as $$
#variable_conflict use_column
declare
  delivery public.deliveries;
  ordered public.orders;
  owes_cash boolean;
begin
  if not exists (select from public.deliveries as d where d.id = decide_press.delivery_id and d.rider_id = link.rider_id) then
    return '{"outcome": "not_yours"}';
  end if;
  delivery := private.lock_delivery(decide_press.delivery_id);
  select * into ordered from public.orders as o where o.id = delivery.order_id;
  -- Read again under the lock: staff may have given it to another rider in the meantime.
  if delivery.rider_id is distinct from link.rider_id then
    return '{"outcome": "not_yours"}';
  elsif private.is_called_off(ordered) then
    return jsonb_build_object('outcome', 'cancelled', 'order_number', ordered.order_number);
  elsif private.has_cancel_request(ordered) then
    return jsonb_build_object('outcome', 'asked_to_cancel', 'order_number', ordered.order_number);
  elsif private.step_rank(delivery.delivery_status) >= private.step_rank(decide_press.step) then
    return jsonb_build_object(
      'outcome', 'already', 'order_number', ordered.order_number, 'status', delivery.delivery_status, 'failure', delivery.failure_reason
    );
  elsif not private.is_open_job(delivery.delivery_status) then
    return '{"outcome": "not_yours"}';
  end if;
  owes_cash := ordered.payment_status = 'unpaid';
  if decide_press.step = 'delivered' then
    if private.asks_for_code(delivery) then
      if delivery.wrong_codes >= private.most_code_tries() then
        return jsonb_build_object('outcome', 'code_locked', 'order_number', ordered.order_number);
      elsif decide_press.code is null or decide_press.code !~ '^\s*(\d\s*){4}$' then
        return jsonb_build_object('outcome', 'code_missing', 'order_number', ordered.order_number);
      elsif regexp_replace(decide_press.code, '\s', '', 'g') <> delivery.proof_code then
        update public.deliveries as d set wrong_codes = d.wrong_codes + 1 where d.id = delivery.id returning * into delivery;
        if delivery.wrong_codes >= private.most_code_tries() then
          perform private.record_order_event(ordered.id, 'code_locked', 'rider', jsonb_build_object('person', delivery.delivery_person));
          return jsonb_build_object('outcome', 'code_locked', 'order_number', ordered.order_number);
        end if;
        return jsonb_build_object(
          'outcome', 'wrong_code', 'order_number', ordered.order_number, 'tries_left', private.most_code_tries() - delivery.wrong_codes
        );
      end if;
    end if;
    if owes_cash then
      if private.is_whole_shillings(decide_press.received_cents) is not true or decide_press.received_cents > 100000000 then
        return jsonb_build_object('outcome', 'cash_missing', 'order_number', ordered.order_number, 'cash_cents', ordered.charge_cents);
      elsif decide_press.received_cents <> ordered.charge_cents and decide_press.is_other_amount is not true then
        return jsonb_build_object(
          'outcome', 'cash_differs', 'order_number', ordered.order_number, 'cash_cents', ordered.charge_cents,
          'received_cents', decide_press.received_cents
        );
      end if;
    end if;
  elsif decide_press.step = 'failed' and coalesce(decide_press.failure_reason, '') not in (
    'nobody_there', 'no_answer', 'address_not_found', 'not_accepted', 'damaged', 'rider_problem', 'other'
  ) then
    return jsonb_build_object('outcome', 'reason_missing', 'order_number', ordered.order_number);
  end if;
  if decide_press.seconds_ago > 0 then
    perform private.state_moment(private.moment_of_press(delivery, decide_press.seconds_ago));
  end if;
  update public.deliveries as d
  set delivery_status = decide_press.step,
      failure_reason = case when decide_press.step = 'failed' then decide_press.failure_reason end,
      proven_by = case when decide_press.step = 'delivered' and private.asks_for_code(delivery) then 'code' else d.proven_by end,
      collected_cents = case when decide_press.step = 'delivered' and owes_cash then decide_press.received_cents else d.collected_cents end
  where d.id = delivery.id;
  if decide_press.step = 'delivered' and owes_cash then
    perform private.record_order_event(ordered.id, 'cash_collected', 'rider', jsonb_build_object(
      'person', delivery.delivery_person, 'received_cents', decide_press.received_cents, 'charge_cents', ordered.charge_cents
    ));
  end if;
  perform private.state_moment(null);
  return jsonb_build_object('outcome', 'done', 'order_number', ordered.order_number, 'status', decide_press.step);
end
$$;

comment on function private.decide_press is
  'What a press of a rider does. outcome: done; already (someone has done it or gone further: status, failure); not_yours; cancelled; asked_to_cancel (staff have not answered yet); wrong_code (tries_left); code_locked, code_missing, cash_missing, cash_differs, reason_missing. Only done changes the delivery, a wrong code its count.';

create or replace function public.rider_press(
  secret text, press_key uuid, delivery_id uuid, step text, code text default null, received_cents integer default null,
  is_other_amount boolean default false, failure_reason text default null, seconds_ago integer default 0
) returns jsonb
language plpgsql volatile security definer set search_path = '' as $$
#variable_conflict use_column
declare
  link public.rider_links;
  answer jsonb;
  request_hash text;
begin
  if not private.count_call('rider_presses') then
    return private.refuse_many_rider_calls('rider_presses');
  end if;
  link := private.find_rider_link(rider_press.secret);
  if link.id is null then
    return private.refuse_ended_link();
  elsif coalesce(rider_press.step, '') not in ('seen', 'picked_up', 'in_transit', 'delivered', 'failed') then
    perform private.refuse(400, 'step_unknown', 'This is no step of an order');
  elsif rider_press.step <> 'seen' then
    if rider_press.press_key is null or rider_press.delivery_id is null then
      perform private.refuse(400, 'press_incomplete', 'A press has a key and a delivery');
    end if;
    request_hash := encode(sha256(convert_to(concat_ws(
      E'\n', rider_press.delivery_id, rider_press.step, left(rider_press.code, 40), rider_press.received_cents,
      rider_press.is_other_amount, left(rider_press.failure_reason, 40)
    ), 'UTF8')), 'hex');
    -- A repeated press, also one that was first sent with an earlier link of the rider, waits for the first one here, and then reads its
    -- outcome. The form of a press that was refused can be sent again with other values.
    insert into private.rider_presses as known (press_key, link_id, delivery_id, request_hash)
    values (rider_press.press_key, link.id, rider_press.delivery_id, request_hash)
    on conflict (press_key) do update set request_hash = excluded.request_hash
    where known.outcome ->> 'outcome' <> 'done' and known.request_hash <> excluded.request_hash
      and exists (select from public.rider_links as l where l.id = known.link_id and l.rider_id = link.rider_id);
    if found then
      perform private.state('by_rider');
      answer := private.decide_press(
        link, rider_press.delivery_id, rider_press.step, left(rider_press.code, 40), rider_press.received_cents,
        rider_press.is_other_amount, rider_press.failure_reason, rider_press.seconds_ago
      );
      perform private.state('by_rider', false);
      update private.rider_presses as p set outcome = answer where p.press_key = rider_press.press_key;
    else
      select p.outcome || '{"is_repeated": true}' into answer
      from private.rider_presses as p
      join public.rider_links as l on l.id = p.link_id and l.rider_id = link.rider_id
      where p.press_key = rider_press.press_key;
      answer := coalesce(answer, '{"outcome": "not_yours"}');
    end if;
  end if;
  update public.riders as r set last_seen_at = now()
  where r.id = link.rider_id and (r.last_seen_at is null or r.last_seen_at < now() - interval '20 seconds');
  return private.describe_ride(link) || case
    when answer is null then '{}' else jsonb_build_object('press', answer || jsonb_build_object('delivery_id', rider_press.delivery_id))
  end;
end
$$;

comment on function public.rider_press is
  'A press on the page of the rider whose link has this secret: a step of a delivery, or seen. Once per press_key: a repeated one answers as the first. Answers as rider_page, with the outcome of private.decide_press as press. code: of the customer. received_cents: cash that the rider got, confirmed by is_other_amount where it is not what the order costs. seconds_ago: how long the press waited on the device for a network.';

-- Execution rights
grant execute on function public.rider_page, public.rider_press to anon, authenticated, service_role;

create or replace function private.queue_job_for_rider(old public.deliveries, new public.deliveries) returns void
language plpgsql set search_path = '' as $$
begin
  if new.rider_id is null or old.rider_id is not distinct from new.rider_id or not private.is_open_delivery(new.delivery_status) then
    return;
  end if;
  perform private.add_to_outbox(
    o, 'job_for_rider', concat_ws(' ', r.id, nullif((
      -- One that waits says the same. Undoing brings back what the rider has read.
      select count(*) from public.outbox_messages as m
      where m.order_id = o.id and m.kind = 'job_for_rider' and split_part(m.event_key, ' ', 1) = r.id::text
        and (m.status <> 'waiting' or m.attempts > 0) and not private.is_stated('undoes')
    ), 0)), 'text', r.phone, now() + private.undo_window()
  )
  from public.orders as o
  cross join public.riders as r
  join public.message_templates as template on template.kind = 'job_for_rider' and template.channel = 'text' and template.is_on
  where o.id = new.order_id and r.id = new.rider_id and not r.is_practice;
exception when others then
  -- The assignment stays valid without its message.
  raise warning 'no text to the rider of order % could be put into the outbox: %', new.order_id, sqlerrm;
end
$$;

comment on function private.queue_job_for_rider is
  'Puts the text with a delivery to its new rider into the outbox, also to one who had it before, where its template is on. Never fails.';

create or replace function private.is_still_true(message public.outbox_messages) returns boolean
language sql stable set search_path = '' as $$
  select coalesce(
    case
    when message.kind = 'job_for_rider' and not exists (
      select from public.deliveries as d where d.order_id = message.order_id and d.rider_id::text = split_part(message.event_key, ' ', 1)
    ) then false
    when message.order_id is not null then private.is_message_true(message.order_id, message.kind)
    else private.is_staff_message_true(message.kind, message.event_key) end, false
  );
$$;

comment on function private.is_still_true is 'Whether a message still reports what is so. False if its order was deleted.';
