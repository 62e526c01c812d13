-- Earlier versions keep working: they ignore the new parts of what statement_status returns.

alter type public.statement_status add attribute unconfirmed bigint, add attribute waiting_since timestamptz;

comment on type public.statement_status is
  'missed: gaps of the last 14 days. unsettled_messages: callbacks and confirmations that could not be settled. unmatched: money without a payment. to_check: messages_to_check that wait. unconfirmed: receipts of the last 14 days that staff typed and M-PESA should have reported (private.is_unconfirmed), and that no refund sends back. waiting_since: time of the oldest of unmatched and unconfirmed.';

create index payments_typed on public.payments (completed_at) where method = 'till' and confirmed_by is not null;

create or replace function public.statement_status() returns public.statement_status
language plpgsql stable security definer set search_path = '' as $$
declare
  status public.statement_status;
begin
  perform private.expect_staff('panel');
  status.checked_at := clock_timestamp();
  select max(r.registered_at) filter (where r.kind = 'till'), max(r.registered_at) filter (where r.kind = 'statement')
  into status.till_registered_at, status.statement_registered_at
  from private.mpesa_registrations as r;
  select max(t.reported_by_confirmation_at) into status.last_confirmation_at
  from public.mpesa_transactions as t where t.transacted_at > now() - interval '30 days';
  -- Windows end with the start of their pull, and one pull runs at a time: the last window is of the last pull.
  select s.finished_at, s.window_to into status.last_complete_at, status.covered_until
  from public.statement_pulls as s where s.outcome = 'complete' order by s.window_to desc limit 1;
  select s.problem into status.problem
  from public.statement_pulls as s where s.outcome <> 'running' order by s.id desc limit 1;
  status.missed := array(
    select (s.missed_since, s.window_from)::public.period
    from (select * from public.statement_pulls as gap where gap.missed_since is not null offset 0) as s
    where s.outcome = 'complete' and s.started_at > now() - interval '14 days'
    order by s.id desc
  );
  select count(*) into status.unsettled_messages
  from public.payment_messages as m
  where m.source in ('callback', 'confirmation') and m.outcome is null and m.received_at < now() - interval '5 minutes';
  select count(*), min(t.transacted_at) into status.unmatched, status.waiting_since
  from public.mpesa_transactions as t where t.payment_id is null and t.resolution is null;
  select count(*) into status.to_check from public.messages_to_check as m where m.resolution is null;
  select count(*), least(status.waiting_since, min(p.completed_at)) into status.unconfirmed, status.waiting_since
  from public.payments as p
  where p.method = 'till' and p.confirmed_by is not null and p.completed_at > now() - interval '14 days'
    and private.is_unconfirmed(p)
    and not exists (select from public.refunds as r where r.payment_id = p.id and not private.is_dropped_refund(r.status));
  return status;
end
$$;

comment on function public.statement_status is
  'For staff: registrations of confirmations and statement, end of its coverage, its gaps, and money and messages that wait.';

grant execute on function public.confirm_till_payment, public.correct_till_payment, public.statement_status
  to authenticated, service_role;
