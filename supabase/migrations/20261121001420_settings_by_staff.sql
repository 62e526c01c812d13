-- The settings in the hands of several members of staff: nobody's change is silently lost, and nothing odd gets in.

create function private.date_settings_edit() returns trigger
language plpgsql
set search_path = ''
as $$
begin
  -- Whoever saves names the moment they saw: a clock that is set back must not make two edits look like one.
  new.updated_at := case
    when to_jsonb(old) - 'updated_at' is distinct from to_jsonb(new) - 'updated_at'
    then greatest(clock_timestamp(), old.updated_at + interval '1 microsecond')
    else old.updated_at
  end;
  return new;
end
$$;
create trigger store_settings_date_their_edit before update on public.store_settings
  for each row execute function private.date_settings_edit();
comment on column public.store_settings.updated_at is
  'Moves with every edit. Who saves one names the one they saw, and changes nothing if it has moved.';

-- Links and numbers are on every page. What an earlier edit left there is not judged until it is changed.
alter table public.store_settings
  add constraint "phones are in international form"
    check (support_phone ~ '^\+[1-9]\d{7,14}$' and chat_phone ~ '^\+[1-9]\d{7,14}$') not valid,
  add constraint "the support address is an e-mail address"
    check (support_email ~ '^[^\s@]+@[^\s@]+\.[^\s@]+$' and char_length(support_email) <= 254) not valid,
  add constraint "social links are https or empty"
    check (
      (instagram_url = '' or instagram_url ~ '^https://[^\s]+$') and char_length(instagram_url) <= 300
      and (facebook_url = '' or facebook_url ~ '^https://[^\s]+$') and char_length(facebook_url) <= 300
      and (tiktok_url = '' or tiktok_url ~ '^https://[^\s]+$') and char_length(tiktok_url) <= 300
    ) not valid;
