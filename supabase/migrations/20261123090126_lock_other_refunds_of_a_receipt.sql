create or replace function public.settle_reversal(
  refund_id uuid, source text, body text, result text, result_code text default null,
  result_description text default null, refund_receipt text default null, refund_cents integer default null,
  originator_conversation_id text default null, source_address text default null
) returns public.settled_refund
language plpgsql security definer set search_path = '' as $$
declare
  settled public.refunds;
  stored_message bigint;
  message_outcome text;
  settled_receipt constant text := nullif(settle_reversal.refund_receipt, '');
begin
  if settle_reversal.result not in ('succeeded', 'failed', 'already_reversed', 'not_reversed', 'pending') then
    perform private.refuse(400, 'result_unknown', 'A settlement is succeeded, failed or pending');
  end if;
  settled := private.lock_refund(settle_reversal.refund_id);
  insert into public.payment_messages (refund_id, source, source_address, body)
  values (settled.id, settle_reversal.source, settle_reversal.source_address, settle_reversal.body)
  returning id into stored_message;
  if settled_receipt is not null then
    perform pg_advisory_xact_lock(hashtext('settle ' || settled_receipt));
  end if;
  -- lease_refunds does not lock the receipt: no other refund of this money may begin to be sent between the decision and the update.
  perform from public.refunds as r where r.receipt = settled.receipt and r.id <> settled.id for update;
  message_outcome := private.decide_reversal(
    settled, settle_reversal.source, settle_reversal.result, settled_receipt, settle_reversal.refund_cents,
    settle_reversal.originator_conversation_id
  );

  if message_outcome in ('completed', 'sent_twice', 'sent_by_another') then
    -- Also supersedes a failure. A second refund of the same money, requested after that failure, is withdrawn.
    update public.refunds as r
    set status = 'withdrawn', updated_at = now()
    where r.id <> settled.id and r.receipt = settled.receipt and r.status in ('requested', 'approved');
  end if;
  case message_outcome
    when 'completed' then
      update public.refunds as r
      set result_code = settle_reversal.result_code, result_description = settle_reversal.result_description
      where r.id = settled.id;
      settled := private.complete_refund(settled.id, settled_receipt);
    when 'already_completed' then
      -- A result with another amount does not have this refund's receipt.
      if settled.refund_receipt is null and settled_receipt is not null and settled.refund_cents = settle_reversal.refund_cents then
        settled := private.complete_refund(settled.id, settled_receipt);
      end if;
    when 'sent_twice' then
      settled := private.mark_sent_twice(settled, settled_receipt, settle_reversal.result_code, settle_reversal.result_description);
    when 'wrong_amount', 'already_reversed', 'failed' then
      update public.refunds as r
      set status = case
            when message_outcome = 'failed' then 'failed'
            when r.status in ('sending', 'sent', 'unknown') then 'unknown'
            else r.status
          end,
          result_code = settle_reversal.result_code,
          result_description = case
            when message_outcome = 'wrong_amount'
              then format('M-PESA reported %s cents, %s were to be refunded', settle_reversal.refund_cents, r.refund_cents)
            else settle_reversal.result_description
          end,
          next_check_at = case when message_outcome = 'already_reversed' then now() end, updated_at = now()
      where r.id = settled.id
      returning * into settled;
    else
      null;
  end case;
  update public.payment_messages as m set outcome = message_outcome where m.id = stored_message;
  return (message_outcome, settled)::public.settled_refund;
end
$$;

comment on function public.settle_reversal is
  'Settles a refund by a message of M-PESA: stores the message, decides what it means (decide_reversal) and updates refund, payment and order in the same transaction. Idempotent. A success supersedes a failure, never the reverse.';

grant execute on function public.lease_refunds, public.record_reversal_push, public.settle_reversal,
  public.find_refund_by_secret
  to service_role;
