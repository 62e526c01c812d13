-- Tests of the mail server and of the text message gateway, sent by staff through the outbox.

create function public.send_test_message(channel text, recipient text) returns public.outbox_messages
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  member constant text := coalesce(private.email_of(private.expect_staff_member('settings')), 'A colleague');
  shop constant text := (select s.store_name from public.store_settings as s);
  new_id constant uuid := gen_random_uuid();
  checked text;
  queued public.outbox_messages;
begin
  if send_test_message.channel is null or send_test_message.channel not in ('mail', 'text') then
    perform private.refuse(400, 'channel_unknown', 'A message goes by mail or as a text');
  elsif send_test_message.channel = 'mail' then
    checked := private.visible_text(left(send_test_message.recipient, 255));
    if checked is null or not private.is_email(checked) or char_length(checked) > 254 then
      perform private.refuse(400, 'email_invalid', 'Please enter a valid email address');
    end if;
  else
    checked := private.normalised_phone(left(send_test_message.recipient, 40));
    if checked is null then
      perform private.refuse(400, 'phone_invalid', 'Please enter a valid phone number');
    end if;
  end if;
  if private.left_of_budget(send_test_message.channel) = 0 then
    perform private.refuse(409, 'message_budget_used_up', format(
      'Today''s budget of %s is used up. Raise it under Settings, or send this tomorrow', send_test_message.channel || 's'
    ));
  elsif private.count_hit('test_messages', send_test_message.channel, interval '1 hour') > 10 then
    perform private.refuse(429, 'too_many_tests', 'Ten tests were sent within an hour. Please wait before the next one');
  end if;
  insert into public.outbox_messages (
    id, order_id, kind, event_key, channel, recipient, order_number, tracking_number, customer_name, has_priority, is_verbatim,
    subject, body, give_up_at
  ) values (
    new_id, null, 'test_message', new_id::text, send_test_message.channel, checked, '', '', '', true, true,
    case send_test_message.channel when 'mail' then 'Test from ' || shop end,
    case send_test_message.channel
      when 'mail' then format(E'This is a test of the emails of %s. If you read it, customers get theirs, too.\n\nSent from the staff panel by %s.', shop, member)
      else format('%s: this is a test of our text messages.', shop)
    end,
    -- Less than the delay before a second attempt: the answer to the first one is the result.
    now() + interval '20 seconds'
  )
  returning * into queued;
  insert into private.outbox_queue (message_id, channel, due_at) values (queued.id, queued.channel, now());
  return queued;
end
$$;
comment on function public.send_test_message is
  'For staff: sends a test by mail or text to an address or phone, at most ten an hour of each, within the daily budget. It is tried once; the row of the outbox says how it ended.';

-- Execution rights
grant execute on function public.send_test_message to authenticated;
