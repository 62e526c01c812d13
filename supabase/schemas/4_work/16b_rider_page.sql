-- The page of a rider: what it shows, and what is pressed there (docs/decisions/riders.md).

create function private.most_code_tries() returns smallint
language sql immutable
return 5::smallint;
comment on function private.most_code_tries is 'Wrong codes after which only staff finish a delivery.';

create function private.asks_for_code(delivery public.deliveries) returns boolean
language sql stable set search_path = '' as $$
  select delivery.proof_code is not null and delivery.rider_id is not null and private.is_open_delivery(delivery.delivery_status)
    and (select s.asks_delivery_code from public.store_settings as s);
$$;
comment on function private.asks_for_code is
  'Whether the rider of an open delivery needs the code of its customer. Riders who are not on the list have no page that asks for it.';

create function private.with_proof(answer jsonb, described public.orders, access_key text) returns jsonb
language plpgsql stable set search_path = '' as $$
declare
  delivery public.deliveries;
begin
  select * into delivery from public.deliveries as d where d.order_id = described.id;
  if exists (
    select from private.order_keys as k where k.order_id = described.id and k.access_key = left(with_proof.access_key, 64)
  ) then
    return answer || jsonb_build_object('customer_email', described.customer_email) || case
      when delivery.delivery_person is not null and private.asks_for_code(delivery)
        then jsonb_build_object('proof_code', delivery.proof_code)
      else '{}'
    end;
  elsif delivery.delivery_person is null then
    return answer;
  end if;
  -- The rider knows the customer's phone, and finds the numbers on the slip: with the key a rider could read the code, and rate the own work.
  return answer - array['access_key', 'may_rate'];
end
$$;
comment on function private.with_proof is
  'The order as its customer sees it. With the access key also customer_email, which fills the form of another order, and the code for the rider. Once a rider was assigned, callers who gave digits of the phone do not get the key, and cannot rate, because the rider knows the phone.';

create function private.describe_job(delivery public.deliveries) returns jsonb
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

create function private.describe_ride(link public.rider_links) returns jsonb
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
        -- As on Today (work_queue).
        select jsonb_agg(private.describe_job(d) order by private.due_at(o, d.created_at), d.id)
        from (
          select * from public.deliveries as open
          where open.rider_id = r.id and private.is_open_job(open.delivery_status)
          union all
          select * from public.deliveries as done
          where done.rider_id = r.id and private.has_ended(done.delivery_status) and done.updated_at > now() - interval '1 hour'
        ) as d
        join public.orders as o on o.id = d.order_id
      ), '[]'::jsonb)
    )
    from public.riders as r where r.id = link.rider_id
  );
end
$$;

create function private.refuse_ended_link() returns jsonb
language plpgsql volatile set search_path = '' as $$
begin
  return private.refusal_answer('PT410', format(
    'This link has ended. Ask the shop for a new one: %s', private.contact_numbers()
  ), 'rider_link_ended', '');
end
$$;

create function private.refuse_many_rider_calls(limit_name text) returns jsonb
language plpgsql volatile set search_path = '' as $$
begin
  return private.refusal_answer('PT429', format(
    'Too many requests from your network. Please try again in %s, or call the shop on %s',
    private.time_left(refuse_many_rider_calls.limit_name), private.contact_numbers()
  ), 'too_many_rider_calls', '');
end
$$;

create function public.rider_page(secret text) returns jsonb
language plpgsql volatile security definer set search_path = '' as $$
declare
  link public.rider_links;
begin
  if not private.count_call('rider_pages') then
    return private.refuse_many_rider_calls('rider_pages');
  end if;
  link := private.find_rider_link(rider_page.secret);
  if link.id is null then
    return private.refuse_ended_link();
  end if;
  return private.describe_ride(link);
end
$$;
comment on function public.rider_page is
  'The page of the rider whose link has this secret: deliveries by when they are due, open ones and for an hour those that are done. Changes nothing but the count of calls.';

create function private.step_rank(delivery_status text) returns integer
language sql immutable
return case delivery_status
  when 'assigned' then 1 when 'picked_up' then 2 when 'in_transit' then 3 when 'delivered' then 4 when 'failed' then 4 else 0
end;

create function private.moment_of_press(delivery public.deliveries, seconds_ago integer) returns timestamptz
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

create function private.decide_press(
  link public.rider_links, delivery_id uuid, step text, code text, received_cents integer, is_other_amount boolean, failure_reason text,
  seconds_ago integer
) returns jsonb
language plpgsql set search_path = '' as $$
#variable_conflict use_column
declare
  delivery public.deliveries;
  ordered public.orders;
  owes_cash boolean;
  has_cash boolean;
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
  has_cash := private.is_whole_shillings(decide_press.received_cents) and decide_press.received_cents <= 100000000;
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
      if has_cash is not true then
        return jsonb_build_object('outcome', 'cash_missing', 'order_number', ordered.order_number, 'cash_cents', ordered.charge_cents);
      elsif decide_press.received_cents <> ordered.charge_cents and decide_press.is_other_amount is not true then
        return jsonb_build_object(
          'outcome', 'cash_differs', 'order_number', ordered.order_number, 'cash_cents', ordered.charge_cents,
          'received_cents', decide_press.received_cents
        );
      end if;
    end if;
  else
    has_cash := false;
  end if;
  if decide_press.step = 'failed' and coalesce(decide_press.failure_reason, '') not in (
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
      collected_cents = case when has_cash then decide_press.received_cents else d.collected_cents end
  where d.id = delivery.id;
  if has_cash then
    perform private.record_order_event(ordered.id, 'cash_collected', 'rider', jsonb_build_object(
      'person', delivery.delivery_person, 'received_cents', decide_press.received_cents, 'charge_cents', ordered.charge_cents
    ));
  end if;
  perform private.state_moment(null);
  return jsonb_build_object('outcome', 'done', 'order_number', ordered.order_number, 'status', decide_press.step)
    -- It was paid in another way while the rider took the cash.
    || case when has_cash and not owes_cash then jsonb_build_object('received_cents', decide_press.received_cents) else '{}' end;
end
$$;
comment on function private.decide_press is
  'What a press of a rider does. outcome: done (received_cents: cash for an order that was paid in the meantime); already (someone has done it or gone further: status, failure); not_yours; cancelled; asked_to_cancel (staff have not answered yet); wrong_code (tries_left); code_locked, code_missing, cash_missing, cash_differs, reason_missing. Only done changes the delivery, a wrong code its count.';

create function public.rider_press(
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
    when answer is null then '{}' else jsonb_build_object(
      'press', answer || jsonb_build_object('delivery_id', rider_press.delivery_id, 'step', rider_press.step)
    )
  end;
end
$$;
comment on function public.rider_press is
  'A press on the page of the rider whose link has this secret: a step of a delivery, or seen. Once per press_key: a repeated one answers as the first. Answers as rider_page, with the step and the outcome of private.decide_press as press. code: of the customer. received_cents: cash that the rider got, confirmed by is_other_amount where it is not what the order costs. seconds_ago: how long the press waited on the device for a network.';

create function public.finish_without_code(delivery_id uuid, reason text) returns public.status_change
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  cause text;
  finished public.deliveries;
  state_before jsonb;
begin
  perform private.expect_staff('deliveries');
  cause := private.read_reason(finish_without_code.reason, is_required => true);
  finished := private.lock_delivery(finish_without_code.delivery_id);
  if not private.is_open_delivery(finished.delivery_status) or finished.delivery_person is null then
    perform private.refuse(409, 'delivery_changed', 'This delivery was changed in the meantime. Nothing was saved');
  end if;
  state_before := private.order_state(finished.order_id);
  update public.deliveries as d set delivery_status = 'delivered', proven_by = 'staff' where d.id = finished.id;
  perform private.record_order_event(finished.order_id, 'code_waived', 'staff', jsonb_build_object('note', cause));
  return private.record_status_change(finished.order_id, state_before);
end
$$;
comment on function public.finish_without_code is
  'For staff: a delivery has arrived although its rider could not give the code of the customer, with the reason. Result as in set_order_status.';

-- Execution rights
grant execute on function public.rider_page, public.rider_press to anon, authenticated, service_role;
grant execute on function public.finish_without_code to authenticated, service_role;
