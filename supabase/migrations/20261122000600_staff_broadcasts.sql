-- Visitors receive broadcasts, they do not send them. The realtime service asks this policy who may send to a public topic, such as
-- order-{id}. Private topics stay closed to everyone but the secret key.

create policy "Staff send broadcasts to public topics" on realtime.messages for insert to authenticated
with check (extension = 'broadcast' and not private and (select public.is_admin()));
