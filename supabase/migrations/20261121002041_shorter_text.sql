-- One text was a sign longer than a message holds.

update public.message_templates as t
set body = case when t.body = t.default_body then shorter.words else t.body end,
    default_body = shorter.words
from (
  select '{shop}: {paid} received[, M-PESA {receipt}], {order} needs a check. We will call you. {link}' as words
) as shorter
where t.kind = 'order_payment_held' and t.channel = 'text';
