-- Earlier versions keep working: only comments change.

comment on function private.normalised_phone is
  'The Kenyan mobile number in a text, also in a link or with a name, as +2547… or +2541…; null for a text without one or with different ones. Reads as domain/people/phone.ts.';

comment on function private.visible_length is
  'Number of characters that a reader sees: without white space, control and format characters, and combining marks. Counts as domain/visible-text.ts.';

comment on function private.word_length is
  'Number of letters and digits of any script in a text. Counts as domain/visible-text.ts.';

comment on function private.normalised_receipt is
  'An M-PESA receipt in capitals, without blanks; null for any other text. normaliseReceipt in domain/mpesa/receipt.ts.';

comment on function private.is_email is
  'Whether a text can be an email address, by the rule of domain/people/email.ts: at most 254 characters; one @ with text before it; after it a dot with text on both sides; no spaces or control characters.';

comment on function private.areas_of is
  'The areas in which a role may read and write. panel: what every screen needs. deliveries: Today and deliveries. refunds: up to the limit; approvals: above it. domain/people/staff-rights.ts repeats it for screens.';

comment on function private.readable_phone is 'A Kenyan number in groups, as 0712 345 678; others unchanged, as formatPhone of domain/people/phone.ts.';

comment on table public.shop_texts is
  'Texts of the contact page in Markdown; slug is the anchor. {name} is replaced by a setting (domain/messages/shop-text.ts).';

comment on function private.end_of_pause is
  'The end of a pause as customers read it: until 18:30. The same sentence is in domain/orders/order-pause.ts.';

comment on column public.delivery_areas.spellings is
  'Other names, streets and towns by which a typed address is recognised (domain/deliveries/delivery-area.ts).';

comment on function private.shop_promise_minutes is
  'Minutes from the payment to the arrival, for orders without an area. shopPromiseMinutes in domain/deliveries/delivery-promise.ts.';

comment on function private.due_at is
  'When an order is late: its promise, else the end of the agreed day, else an hour after its payment. dueAt in domain/deliveries/delivery-promise.ts.';

comment on column public.payments.ended_by is
  'Who can end the cause of the failure, as the payment function classified it (domain/mpesa/result-advice.ts). owner: the shop''s settings or account. Null: not failed.';

comment on function private.order_numbers_in is
  'The tracking numbers and order numbers that a short text names, as they are stored, the tracking numbers first. The same as readOrderNumbers in domain/orders/tracking-number.ts.';

comment on type public.pay_link is 'What the link of an order consists of (domain/orders/order-link.ts).';

comment on function private.area_of is 'The address of an order without building and unit; with the city if it is not Nairobi. As areaOf in domain/orders/order-summary.ts.';

comment on function private.notice_facts is 'What a notice says, in its parts (domain/messages/notice-text.ts). A push leaves names out.';

create or replace function private.order_numbers_in(written text) returns text[]
language sql immutable set search_path = '' as $$
  -- The patterns of domain/orders/tracking-number.ts.
  with spelled as (
    select translate(
      regexp_replace(left(order_numbers_in.written, 300), '[\u00ad\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]', '', 'g'),
      'abcdefghijklmnopqrstuvwxyz', 'ABCDEFGHIJKLMNOPQRSTUVWXYZ'
    ) as text
  ),
  found as (
    select 1 as kind, m.place, m.parts
    from spelled as s
    cross join regexp_matches(s.text,
      'J[^A-Z0-9]?J[^A-Z0-9]{0,3}((?:2[0O])?[2-9][0-9OIL])[^A-Z0-9]?([0O][1-9IL]|[1IL][0-2OIL])[^A-Z0-9]?([0O][1-9IL]|[12IL][0-9OIL]|3[01OIL])[^A-Z0-9]{0,3}([0-9OIL]{4,6}(?![A-Z0-9])|[0-9]{4,6}(?=[A-Z]))',
      'g') with ordinality as m (parts, place)
    union all
    select 2, m.place, m.parts
    from spelled as s
    cross join regexp_matches(s.text,
      '(?:^|[^A-Z0-9])((?:2[0O])?[2-9][0-9OIL])[^A-Z0-9]?([0O][1-9IL]|[1IL][0-2OIL])[^A-Z0-9]?([0O][1-9IL]|[12IL][0-9OIL]|3[01OIL])[^A-Z0-9]{0,3}([0-9OIL]{4,6})(?![A-Z0-9])',
      'g') with ordinality as m (parts, place)
    union all
    select 3, m.place, m.parts
    from spelled as s
    cross join regexp_matches(s.text,
      '(?:^|[^A-Z0-9])[0O]RD(?:ER)?[^A-Z0-9]{0,3}(?:N(?:O|R|UMBER)[^A-Z0-9]{0,3})?(?=[OIL]{0,8}[0-9])([1-9IL][0-9OIL]{3,8}(?![A-Z0-9]|[.,][0-9]|/[=-])|[1-9][0-9]{3,8}(?=[A-Z])(?!KES|KSH|SH|BOB|ML))',
      'g') with ordinality as m (parts, place)
  ),
  numbers as (
    select f.kind, f.place, translate(
      case
        when f.kind = 3 then '#' || f.parts[1]
        else 'JJ-' || case when char_length(f.parts[1]) = 2 then '20' else '' end || f.parts[1] || f.parts[2] || f.parts[3] || '-' || f.parts[4]
      end, 'OIL', '011') as number
    from found as f
  )
  select coalesce(array_agg(replace(n.number, '#', 'ORD-') order by n.kind, n.place), '{}')
  from (select distinct on (k.number) k.number, k.kind, k.place from numbers as k order by k.number, k.kind, k.place) as n;
$$;
