-- Inquiries are stored for months: 30 in ten minutes, all day long, would fill the disk with a gigabyte a day from one /24.

insert into private.limits (name, allowed, within) values ('inquiries_of_day', 100, '1 day');

create or replace function private.limit_inquiries() returns trigger
language plpgsql security definer
set search_path = ''
as $$
begin
  if cardinality(private.caller_networks()) > 0 then
    -- Visitors send one inquiry per request: one insert of thousands would be thousands of checks.
    if current_setting('private.has_inquiry', true) = 'yes' then
      perform private.refuse(400, 'too_many_rows', 'Please send one message at a time');
    end if;
    perform set_config('private.has_inquiry', 'yes', true);
    if not private.count_call('inquiries') then
      perform private.refuse(429, 'too_many_inquiries', 'Too many messages from your network. Please try again in a few minutes');
    elsif not private.count_call('inquiries_of_day') then
      perform private.refuse(429, 'too_many_inquiries', 'Too many messages from your network today. Please call us, or try again tomorrow');
    end if;
  end if;
  if not private.is_email(new.email) then
    perform private.refuse(400, 'email_invalid', 'Please enter a valid email address');
  end if;
  return new;
end
$$;
