-- Earlier versions keep working: the answer to a press has more values (step, received_cents), which they ignore.

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
    when answer is null then '{}' else jsonb_build_object(
      'press', answer || jsonb_build_object('delivery_id', rider_press.delivery_id, 'step', rider_press.step)
    )
  end;
end
$$;

comment on function public.rider_press is
  'A press on the page of the rider whose link has this secret: a step of a delivery, or seen. Once per press_key: a repeated one answers as the first. Answers as rider_page, with the step and the outcome of private.decide_press as press. code: of the customer. received_cents: cash that the rider got, confirmed by is_other_amount where it is not what the order costs. seconds_ago: how long the press waited on the device for a network.';

-- Execution rights
grant execute on function public.rider_page, public.rider_press to anon, authenticated, service_role;
