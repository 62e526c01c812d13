-- M-PESA's own words are kept as long as books must be, and no longer: they name people.

alter table public.store_settings
  add column payment_messages_months integer not null default 72,
  add constraint "messages of payments are kept between one and twenty years" check (payment_messages_months between 12 and 240);
comment on column public.store_settings.payment_messages_months is
  'For how many months M-PESA''s messages are kept word for word, and who it said has paid. Kenya asks for records of five years after the year they are of.';
grant update (payment_messages_months) on public.store_settings to authenticated;

create index payment_messages_with_words on public.payment_messages (received_at) where body <> '{}';
create index payment_messages_that_decided_nothing on public.payment_messages (received_at)
  where source = 'query' and outcome = 'pending';

create or replace function public.forget_old_rows() returns integer
language plpgsql volatile security definer
set search_path = ''
as $$
declare
  forgotten integer;
begin
  delete from private.rate_limits as counted where counted.window_start < now() - interval '2 hours';
  update public.outbox_messages as m
  set recipient = '', customer_name = '', subject = null, body = null, problem = null, updated_at = now()
  where m.id in (
    select old.id from public.outbox_messages as old
    where old.recipient <> '' and old.created_at < now() - interval '90 days' and old.status not in ('waiting', 'sending')
    order by old.created_at limit 5000
    for update skip locked
  );
  get diagnostics forgotten = row_count;
  -- That M-PESA had not decided yet is no evidence of anything.
  delete from public.payment_messages as m
  where m.id in (
    select old.id from public.payment_messages as old
    where old.source = 'query' and old.outcome = 'pending' and old.received_at < now() - interval '90 days'
    order by old.received_at limit 5000
    for update skip locked
  );
  -- It stays known that it came, when, of what and what it did; what could not be settled yet is kept whole.
  update public.payment_messages as m
  set body = '{}', source_address = null
  where m.id in (
    select old.id from public.payment_messages as old
    where old.received_at < now() - make_interval(months => (select s.payment_messages_months from public.store_settings as s))
      and old.body <> '{}' and old.outcome is not null and old.outcome <> 'fault'
    order by old.received_at limit 5000
    for update skip locked
  );
  update public.mpesa_transactions as t
  set payer_name = null, payer_phone = null
  where t.receipt in (
    select old.receipt from public.mpesa_transactions as old
    where old.transacted_at < now() - make_interval(months => (select s.payment_messages_months from public.store_settings as s))
      and (old.payer_name is not null or old.payer_phone is not null)
    order by old.transacted_at limit 5000
    for update skip locked
  );
  return forgotten;
end
$$;
comment on function public.forget_old_rows() is
  'Deletes counters that have run out; takes recipient and words from messages to customers older than 90 days; deletes answers of M-PESA that decided nothing after 90 days, and empties its other messages after store_settings.payment_messages_months. 5000 of each at a time. Gives how many messages to customers.';
