-- Whoever is signed in reads of the settings what visitors read. What staff decide by, staff ask for.

revoke select on public.store_settings from authenticated;
grant select (
  id, store_name, support_phone, chat_phone, support_email, instagram_url, facebook_url, tiktok_url, delivery_fee,
  reservation_minutes, till_number, paybill_number, updated_at
) on public.store_settings to authenticated;

create function public.staff_settings() returns public.store_settings
language plpgsql stable security definer
set search_path = ''
as $$
begin
  perform private.expect_staff();
  return (select s from public.store_settings as s);
end
$$;
comment on function public.staff_settings() is
  'For staff: every setting, those included that only staff decide by (refund_approval_above, refuses_unknown_payments, payment_messages_months).';
grant execute on function public.staff_settings() to authenticated, service_role;
