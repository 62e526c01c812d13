-- Messages in the hands of staff: found as orders are found, and sent again where only a person can decide that.

create index outbox_messages_by_order on public.outbox_messages (order_id, created_at);
create index outbox_messages_by_part_of_their_text on public.outbox_messages
  using gin (
    lower(customer_name || E'\n' || recipient || E'\n' || order_number || E'\n' || tracking_number) extensions.gin_trgm_ops
  )
  with (fastupdate = off);

create function public.search_messages(
  search text default '',
  status text default null,
  channel text default null,
  before_created_at timestamptz default null,
  before_id uuid default null,
  page_size integer default 50
) returns setof public.outbox_messages
language plpgsql stable security definer rows 50
set search_path = ''
as $$
declare
  pattern text := private.order_search_pattern(search_messages.search);
  most integer := least(greatest(coalesce(search_messages.page_size, 50), 1), 1000);
  -- How far a search goes through the newest before it looks a text up: so far, a broad one has found its page.
  nearby integer := 40 * most;
  in_list text := concat_ws(' and ', 'true',
    case when search_messages.status is not null then 'm.status = $2' end,
    case when search_messages.channel is not null then 'm.channel = $3' end,
    case when search_messages.before_id is not null then '(m.created_at, m.id) < ($4, $5)' end
  );
  matches constant text :=
    $sql$lower(m.customer_name || E'\n' || m.recipient || E'\n' || m.order_number || E'\n' || m.tracking_number) like $1$sql$;
  found_ids uuid[];
  is_whole_list boolean;
begin
  perform private.expect_staff();
  if pattern is null then
    return query execute
      format('select m.* from public.outbox_messages as m where %s order by m.created_at desc, m.id desc limit $6', in_list)
      using pattern, search_messages.status, search_messages.channel, search_messages.before_created_at,
        search_messages.before_id, most;
    return;
  end if;

  execute format(
    'with near as materialized (
       select m.id, m.created_at, m.customer_name, m.recipient, m.order_number, m.tracking_number
       from public.outbox_messages as m where %s order by m.created_at desc, m.id desc limit $7
     )
     select
       (select array_agg(found.id) from (
         select m.id from near as m where %s order by m.created_at desc, m.id desc limit $6
       ) as found),
       (select count(*) < $7 from near)',
    in_list, matches
  ) into found_ids, is_whole_list
  using pattern, search_messages.status, search_messages.channel, search_messages.before_created_at,
    search_messages.before_id, most, nearby;

  if coalesce(cardinality(found_ids), 0) < most and not is_whole_list then
    execute format(
      'with found as materialized (
         select m.id, m.created_at from public.outbox_messages as m where %s and %s
       )
       select array_agg(newest.id)
       from (select found.id from found order by found.created_at desc, found.id desc limit $6) as newest',
      -- The status is hidden from the planner, who would take its index to be the better one.
      matches, replace(in_list, 'm.status =', $sql$m.status || '' =$sql$)
    ) into found_ids
    using pattern, search_messages.status, search_messages.channel, search_messages.before_created_at,
      search_messages.before_id, most;
  end if;
  return query
    select m.* from public.outbox_messages as m where m.id = any (found_ids) order by m.created_at desc, m.id desc;
end
$$;
comment on function public.search_messages(text, text, text, timestamptz, uuid, integer) is
  'For staff: a page of the messages whose recipient, customer, order or tracking number contains a text, in any case and literally; newest first, after the message named by before_created_at and before_id.';

create function public.send_message_again(message_id uuid) returns public.outbox_messages
language plpgsql security definer
set search_path = ''
as $$
declare
  again public.outbox_messages;
begin
  perform private.expect_staff();
  update public.outbox_messages as m
  set status = 'waiting', next_attempt_at = now(), give_up_at = now() + interval '1 day', sending_since = null,
      resent_by = coalesce((select u.email from auth.users as u where u.id = (select auth.uid())), 'the shop itself'),
      updated_at = now()
  where m.id = send_message_again.message_id and m.status in ('failed', 'unsure')
    -- What is forgotten has nobody to go to.
    and m.recipient <> ''
  returning * into again;
  if not found then
    if not exists (select from public.outbox_messages as m where m.id = send_message_again.message_id) then
      perform private.refuse(404, 'message_not_found', 'This message does not exist any more');
    end if;
    perform private.refuse(409, 'message_not_to_send_again', 'This message waits already, or was sent meanwhile');
  end if;
  insert into private.outbox_queue (message_id, due_at) values (again.id, now());
  return again;
end
$$;
comment on function public.send_message_again(uuid) is
  'For staff: sends a message again that failed, or of which nobody knows whether it left. It has another day to get through.';
grant execute on function
  public.search_messages(text, text, text, timestamptz, uuid, integer),
  public.send_message_again(uuid)
to authenticated, service_role;
