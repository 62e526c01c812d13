-- M-PESA takes the same amount from one phone only once in two minutes and calls anything else result 17: then no prompt is
-- sent that would fail in the same way, and that might be paid twice if it did not.

create index payments_of_the_same_amount on public.payments (phone, amount, updated_at) where result_code = '17';

create function private.hold_same_amount() returns trigger
language plpgsql security definer
set search_path = ''
as $$
declare
  told_at timestamptz;
begin
  select max(p.updated_at) into told_at
  from public.payments as p
  where p.phone = new.phone and p.amount = new.amount and p.result_code = '17' and p.status = 'failed'
    and p.updated_at > now() - interval '2 minutes';
  if told_at is not null then
    perform private.refuse(429, 'same_amount_too_soon', format(
      'M-PESA takes the same amount from one phone only once in two minutes. If you have just paid, do not pay again. Otherwise please try again in %s seconds',
      ceil(extract(epoch from told_at + interval '2 minutes' - now()))::integer
    ));
  end if;
  return new;
end
$$;
create trigger payments_hold_the_same_amount before insert on public.payments
  for each row
  when (new.status = 'initiating' and new.method = 'prompt')
  execute function private.hold_same_amount();
