-- Money that went back twice is before staff's eyes until one of them has dealt with it.

alter table public.refunds
  add column sent_twice_seen_at timestamptz,
  add column sent_twice_seen_by uuid,
  add column sent_twice_seen_by_email text,
  add column sent_twice_note text,
  add constraint "what is dealt with has happened" check (sent_twice_seen_at is null or sent_twice_at is not null),
  add constraint "how it was dealt with is said" check (
    (sent_twice_seen_at is null) = (sent_twice_note is null) and char_length(trim(sent_twice_note)) between 3 and 200
  );
comment on column public.refunds.sent_twice_note is
  'How a member of staff dealt with money that went back twice: the customer paid one of the two back, or it is given up.';
create index refunds_sent_twice_and_not_seen on public.refunds (sent_twice_at)
  where sent_twice_at is not null and sent_twice_seen_at is null;

-- Others add words to this list as well: this is added to whatever is there by now.
do $$
declare
  words text[];
begin
  select array_agg(distinct known.word) into strict words
  from (
    select matched[1] as word
    from pg_constraint as c, regexp_matches(pg_get_constraintdef(c.oid), '''([a-z_]+)''', 'g') as matched
    where c.conrelid = 'public.order_events'::regclass and c.conname = 'a kind of event is known'
    union
    select 'refund_sent_twice_seen'
  ) as known;
  execute format('alter table public.order_events drop constraint "a kind of event is known",
    add constraint "a kind of event is known" check (kind in (%s))', (select string_agg(quote_literal(w), ', ') from unnest(words) as w));
end
$$;

create function public.acknowledge_sent_twice(refund_id uuid, note text) returns jsonb
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  member uuid := private.expect_member();
  seen public.refunds := private.locked_refund(acknowledge_sent_twice.refund_id);
begin
  if seen.sent_twice_at is null or seen.sent_twice_seen_at is not null then
    perform private.refuse(409, 'refund_changed', 'This refund has changed meanwhile. Please look at it again');
  end if;
  if char_length(trim(coalesce(acknowledge_sent_twice.note, ''))) not between 3 and 200 then
    perform private.refuse(400, 'reason_invalid', 'Please say why, in 3 to 200 characters');
  end if;
  update public.refunds as r
  set sent_twice_seen_at = now(), sent_twice_seen_by = member,
      sent_twice_seen_by_email = (select u.email from auth.users as u where u.id = member),
      sent_twice_note = trim(acknowledge_sent_twice.note), updated_at = now()
  where r.id = seen.id
  returning * into seen;
  if seen.payment_id is not null then
    perform private.tell_order_event(
      (select p.order_id from public.payments as p where p.id = seen.payment_id), 'refund_sent_twice_seen', 'staff',
      jsonb_build_object('refund_id', seen.id, 'amount', seen.amount, 'reason', seen.sent_twice_note)
    );
  end if;
  return to_jsonb(seen);
end
$$;
comment on function public.acknowledge_sent_twice(uuid, text) is
  'A member of staff has dealt with money that went back twice, and says how. It is shown with the refund, and waits for nobody any more.';
grant execute on function public.acknowledge_sent_twice(uuid, text) to authenticated;

create or replace function public.payment_health() returns jsonb
language sql stable security definer
set search_path = ''
as $$
  select private.expect_staff();
  select jsonb_build_object(
    'checked_at', clock_timestamp(),
    'pause', (
      select jsonb_build_object('code', p.code, 'description', p.description, 'since', p.since, 'until', p.until)
      from private.prompt_pause as p where p.until > now()
    ),
    'refunds_to_approve', (select count(*) from public.refunds as r where r.status = 'requested'),
    'refunds_unknown', (select count(*) from public.refunds as r where r.status = 'unknown'),
    'refunds_stuck', (
      select count(*) from public.refunds as r
      where r.status in ('approved', 'sending') and r.created_at < now() - interval '10 minutes'
    ),
    'limit_raise', (
      select jsonb_build_object('by', r.raised_by_email, 'at', r.raised_at, 'from', r.raised_from, 'to', r.raised_to,
        'counts_from', r.raised_at + interval '1 day', 'limit', private.refund_limit())
      from private.refund_limit_raises as r where r.raised_at > now() - interval '7 days'
      order by r.raised_at desc, r.id desc limit 1
    ),
    'refunds_sent_twice', (
      select count(*) from public.refunds as r where r.sent_twice_at is not null and r.sent_twice_seen_at is null
    ),
    'token_fresh_until', (select max(t.fresh_until) from private.daraja_tokens as t where t.token is not null),
    'last_push', (
      select jsonb_build_object('at', m.received_at, 'outcome', m.outcome)
      from public.payment_messages as m where m.source = 'push' order by m.id desc limit 1
    ),
    'last_notice', (
      select jsonb_build_object('at', m.received_at, 'outcome', m.outcome, 'address', m.source_address)
      from public.payment_messages as m where m.source in ('notice', 'confirmation', 'reversal_result') order by m.id desc limit 1
    )
  );
$$;
