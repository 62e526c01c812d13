-- Rows that a new shop begins with. Migrations bring them to a running shop, whose owner may have changed them since:
-- supabase/tests/database/starting-rows.test.ts demands that both give a new shop the same rows.

insert into public.store_settings default values;

insert into private.person_hash_key default values;

insert into storage.buckets (id, name, public, file_size_limit, allowed_mime_types)
values (
  'product-images', 'product-images', true, 10 * 1024 * 1024,
  array['image/jpeg', 'image/png', 'image/webp', 'image/avif', 'image/gif']
);

-- The first fifteen are the areas of the delivery page. Spellings: domain/deliveries/delivery-area.ts.
insert into public.delivery_areas (name, spellings, promise_from_minutes, promise_to_minutes, needs_agreement, position) values
  ('Nairobi CBD', array['CBD', 'Nairobi town', 'City centre', 'City center', 'Tao', 'Moi Avenue', 'Kenyatta Avenue', 'Tom Mboya', 'River Road', 'Kimathi Street', 'Haile Selassie', 'University Way', 'KICC', 'Archives'], 15, 60, false, 1),
  ('Westlands', array['Westy', 'Westi', 'Sarit', 'Westgate', 'Mpaka Road', 'Waiyaki Way', 'Rhapta', 'Muthangari', 'Spring Valley', 'Mwanzi'], 15, 60, false, 2),
  ('Kilimani', array['Kili', 'Yaya', 'Hurlingham', 'Argwings Kodhek', 'Dennis Pritt', 'Lenana Road', 'Wood Avenue', 'Adams Arcade', 'Prestige Plaza', 'Ngong Hills Hotel', 'Chaka Road'], 15, 60, false, 3),
  ('Parklands', array['Parkie', 'Highridge', 'Limuru Road', 'Aga Khan Hospital', 'City Park', 'Ojijo', 'Diamond Plaza', '3rd Parklands', 'Muthaiga'], 15, 60, false, 4),
  ('Lavington', array['Lavi', 'Valley Arcade', 'James Gichuru', 'Gitanga', 'Bernard', 'Junction Mall'], 15, 60, false, 5),
  ('Karen', array['Langata Road Karen', 'The Hub', 'Bomas', 'Hardy', 'Waterfront', 'Miotoni', 'Dagoretti Road'], 15, 60, false, 6),
  ('Runda', array['Gigiri', 'Village Market', 'Rosslyn', 'Nyari', 'Two Rivers', 'Ridgeways', 'Runda Mumwe'], 15, 60, false, 7),
  ('Kileleshwa', array['Kile', 'Mandera Road', 'Oloitoktok', 'Othaya Road', 'Kandara Road', 'Riverside'], 15, 60, false, 8),
  ('Upperhill', array['Upper Hill', 'Upper-Hill', 'Upperhil', 'KNH', 'Kenyatta Hospital', 'Ragati', 'Hospital Road', 'Elgon Road', 'Bunyala'], 15, 60, false, 9),
  ('South B & C', array['South B', 'South C', 'South B and C', 'Bellevue', 'Mugoya', 'Akila', 'Capital Centre', 'Muhoho', 'Nyayo Estate South'], 15, 60, false, 10),
  ('Ngong Road', array['Ngong Rd', 'Race Course', 'Jamhuri', 'Lenana School', 'Dagoretti Corner', 'Ngando', 'Karinde'], 15, 60, false, 11),
  ('Thika Road', array['Thika Rd', 'Thika Superhighway', 'TRM', 'Garden City', 'Roysambu', 'Zimmerman', 'Githurai', 'Kahawa', 'Ruaraka', 'Allsops', 'Muthaiga North', 'USIU'], 15, 60, false, 12),
  ('Mombasa Road', array['Mombasa Rd', 'Msa Road', 'Msa Rd', 'JKIA', 'Airport', 'Syokimau', 'Imara Daima', 'Embakasi', 'Gateway Mall', 'Cabanas', 'Nyayo Estate', 'Mlolongo', 'Pipeline'], 15, 60, false, 13),
  ('Langata', array['Lang''ata', 'Lang ata', 'Langata Road', 'Wilson Airport', 'Nairobi West', 'Madaraka', 'Uhuru Gardens', 'Otiende', 'Kibera', 'Onyonka'], 15, 60, false, 14),
  ('Kasarani', array['Kasa', 'Mwiki', 'Hunters', 'Seasons', 'Sportsview', 'Clay City', 'Santon', 'Kasarani Stadium'], 15, 60, false, 15),
  ('Elsewhere in Nairobi', array['Nairobi', 'NRB', 'NBO', 'Ngara', 'Eastleigh', 'Buruburu', 'Buru Buru', 'Donholm', 'Umoja', 'Utawala', 'Ruaka', 'Kitengela', 'Rongai', 'Kikuyu', 'Ruiru', 'Kangemi', 'Kawangware', 'Uthiru', 'Kinoo', 'Pangani', 'Huruma', 'Komarock', 'Kayole', 'Industrial Area', 'Ruai', 'Ngong', 'Syokimau Katani', 'Athi River', 'Kiambu', 'Limuru', 'Banana', 'Tassia', 'Fedha'], 15, 60, false, 16),
  ('Outside Nairobi', array['Mombasa', 'Kisumu', 'Nakuru', 'Eldoret', 'Malindi', 'Kitale', 'Garissa', 'Nyeri', 'Meru', 'Embu', 'Kericho', 'Kisii', 'Kakamega', 'Bungoma', 'Busia', 'Naivasha', 'Nanyuki', 'Machakos', 'Kitui', 'Isiolo', 'Marsabit', 'Moyale', 'Mandera', 'Wajir', 'Lamu', 'Kilifi', 'Kwale', 'Diani', 'Watamu', 'Mtwapa', 'Nyali', 'Voi', 'Taveta', 'Wundanyi', 'Mwingi', 'Makueni', 'Wote', 'Narok', 'Bomet', 'Kajiado', 'Namanga', 'Loitoktok', 'Nyahururu', 'Nyandarua', 'Laikipia', 'Maralal', 'Samburu', 'Lodwar', 'Turkana', 'Kapenguria', 'Iten', 'Kabarnet', 'Baringo', 'Eldama Ravine', 'Nandi', 'Kapsabet', 'Vihiga', 'Mumias', 'Webuye', 'Malaba', 'Siaya', 'Bondo', 'Homa Bay', 'Homabay', 'Migori', 'Nyamira', 'Kerugoya', 'Kirinyaga', 'Karatina', 'Chuka', 'Tharaka', 'Maua', 'Murang''a', 'Gilgil', 'Molo', 'Njoro', 'Emali', 'Mtito Andei', 'Uasin Gishu', 'Trans Nzoia', 'Tana River', 'Mpeketoni', 'Hola', 'Kakuma', 'Uganda', 'Kampala', 'Entebbe', 'Jinja', 'Tanzania', 'Dar es Salaam', 'Arusha', 'Moshi', 'Mwanza', 'Dodoma', 'Zanzibar', 'Rwanda', 'Kigali', 'Burundi', 'Bujumbura', 'Ethiopia', 'Addis Ababa', 'Somalia', 'Mogadishu', 'Hargeisa', 'South Sudan', 'Juba', 'Sudan', 'Khartoum', 'Congo', 'Goma', 'Kinshasa', 'Nigeria', 'Lagos', 'Ghana', 'Accra', 'South Africa', 'Johannesburg', 'Dubai', 'London', 'Thika', 'Juja', 'Ukunda', 'Kiserian', 'Isinya', 'Gatundu', 'Tala', 'Kangundo', 'Kenol', 'Makuyu', 'Mwea', 'Wanguru', 'Kutus', 'Sagana', 'Othaya', 'Matuu', 'Kibwezi', 'Makindu', 'Mai Mahiu', 'Ol Kalou', 'Elburgon', 'Burnt Forest', 'Turbo', 'Moi''s Bridge', 'Nkubu', 'Timau', 'Rumuruti', 'Mariakani', 'Likoni', 'Kisauni', 'Bamburi', 'Msambweni', 'Ahero', 'Muhoroni', 'Luanda', 'Kimilili', 'Rongo', 'Awendo', 'Oyugis', 'Isebania', 'Kehancha', 'Keroka', 'Ogembo', 'Kilgoris', 'Litein', 'Sotik', 'Dadaab', 'Habaswein', 'Elwak'], 1440, 4320, true, 17);

-- Calls of one network in a window, and how many more for each of its paid orders (docs/decisions/limits.md).
insert into private.limits (name, allowed, within, per_paid_order) values
  ('place_order', 100, '10 minutes', 2),
  ('discount_codes', 60, '1 hour', 0),
  ('waiting_orders', 150, '1 day', 0.1),
  ('cash_orders', 10, '1 day', 0.5),
  ('cancellations', 60, '10 minutes', 1),
  ('cancellations_of_order', 6, '1 hour', 0),
  ('rider_pages', 1200, '10 minutes', 0),
  ('rider_presses', 300, '10 minutes', 0),
  ('ratings', 60, '10 minutes', 0),
  ('payment_prompts', 100, '10 minutes', 2),
  ('payment_prompts_of_order', 10, '10 minutes', 0),
  ('payment_prompts_to_phone', 10, '10 minutes', 0),
  ('prompts_beyond_unanswered', 2, '1 day', 0),
  ('prompted_phones', 300, '1 day', 2),
  ('unknown_payments', 60, '10 minutes', 0),
  ('order_lookups', 60, '10 minutes', 1),
  ('orders_looked_up', 300, '1 day', 1),
  ('order_digits', 5, '1 hour', 0),
  ('digits', 60, '1 hour', 0),
  ('unpaid_order_texts', 10, '1 day', 1.5),
  ('unpaid_order_mails', 20, '1 day', 1.5),
  ('inquiries', 30, '10 minutes', 0),
  ('inquiries_of_day', 100, '1 day', 0.1),
  ('stock_alerts', 30, '1 day', 0.2),
  ('newsletter', 30, '10 minutes', 0),
  ('newsletter_mails', 5, '1 day', 0.05);

-- Messages to customers and staff. A part in brackets is left out where one of its placeholders has no value.
insert into public.message_templates (kind, channel, subject, body, default_subject, default_body)
select kind, channel, subject, body, subject, body
from (values
  ('order_received', 'text', null, '{shop}: we have your order {order}, {total}[, {cash}]. Pay or follow it: {link}'),
  ('order_received', 'mail', 'We have your order {order}', $text$Habari {name},

Thank you for your order at {shop}.

{items}
[Discount: {discount}
]Delivery: {delivery_fee}
Total: {total}[, {cash}]

[It arrives by {arrival}.

]Pay or follow your order here:
{link}

Your tracking number is {tracking}.

{shop}
{shop_phone}
{shop_email}$text$),
  ('order_paid', 'text', null, '{shop}: {paid} paid[, M-PESA {receipt}]. {order}[ arrives by {arrival}]: {link}'),
  ('order_paid', 'mail', 'We received your payment for {order}', $text$Habari {name},

We received {paid} for your order {order}. Asante![ The M-PESA receipt is {receipt}.]

{items}
[Discount: {discount}
]Delivery: {delivery_fee}
Total: {total}

[It arrives by {arrival}.

]Follow your order here:
{link}

Your receipt, to keep or to print:
{receipt_link}

{shop}
{shop_phone}
{shop_email}$text$),
  ('order_payment_held', 'text', null, '{shop}: {paid} received[, {receipt}], {order} needs a check. We will call you. {link}'),
  ('order_payment_held', 'mail', 'Your payment for {order} reached us, and we will call you', $text$Habari {name},

We received {paid} for your order {order}.[ The M-PESA receipt is {receipt}.]

It came too late for the drinks we kept for you, or in another amount than the total of {total}. Nothing is lost: our team will call you to sort it out.

Your order:
{link}

{shop}
{shop_phone}
{shop_email}$text$),
  ('order_payment_corrected', 'text', null, '{shop}: sorry, a payment noted for {tracking} was not yours. To pay {total}: {link}'),
  ('order_payment_corrected', 'mail', 'Your order {tracking} is not paid yet', $text$Habari {name},

We are sorry: we noted another customer's payment for your order {tracking} by mistake. Your order is not paid yet, and its total is {total}.

You can pay for it here:
{link}

If you have paid, please reply or call us, and we will look for your payment.

{shop}
{shop_phone}
{shop_email}$text$),
  ('order_on_its_way', 'text', null, '{shop}: your order {order} is on its way. [Have {total} ready: {cash}. ][Code for the rider: {code}. ]Follow it: {link}'),
  ('order_on_its_way', 'mail', 'Your order {order} is on its way', $text$Habari {name},

Your order {order} has left our fridge and is on its way to you.[

Please have {total} ready: {cash}.][

The rider asks for this code: {code}]

Follow it here:
{link}

{shop}
{shop_phone}
{shop_email}$text$),
  ('order_delayed', 'text', null, '{shop}: sorry, {order} takes longer than we promised. It arrives by {arrival}. Questions? {shop_phone}'),
  ('order_delayed', 'mail', 'Your order {order} takes a little longer', $text$Habari {name},

We are sorry: your order {order} takes longer than we promised. It arrives by {arrival}.

[Follow it here: {link}

]Questions? Call us at {shop_phone}.

{shop}
{shop_email}$text$),
  ('delivery_failed', 'text', null, '{shop}: we could not deliver {order}[: {failure}]. We will call you about what happens next. Or call {shop_phone}.'),
  ('delivery_failed', 'mail', 'We could not deliver your order {order}', $text$Habari {name},

We tried to deliver your order {order} and could not[: {failure}]. Your payment is safe.

We will call you to agree on what happens next: another try, or your money back. You can also call us at {shop_phone}.

Your order:
{link}

{shop}
{shop_phone}
{shop_email}$text$),
  ('order_delivered', 'text', null, '{shop}: your order {order} was delivered. Asante! Your receipt: {receipt_link}'),
  ('order_delivered', 'mail', 'Your order {order} was delivered', $text$Habari {name},

Your order {order} was delivered. Asante, and enjoy it cold!

Your receipt, to keep or to print:
{receipt_link}

If something is not right, call us at {shop_phone}.

{shop}
{shop_phone}
{shop_email}$text$),
  ('order_refunded', 'text', null, '{shop}: {refunded} for {order} was sent back to the phone that paid[, {refund_receipt}]. {link}'),
  ('order_refunded', 'mail', 'Your money for {order} was sent back', $text$Habari {name},

We sent {refunded} for your order {order} back to the phone that paid.[ The M-PESA receipt of it is {refund_receipt}.]

Your order:
{link}

If it has not reached you within a day, call us at {shop_phone}.

{shop}
{shop_phone}
{shop_email}$text$),
  ('order_cancelled', 'text', null, '{shop}: your order {order} was cancelled.[ We are sending {due_back} back to you.] {link}'),
  ('order_cancelled', 'mail', 'Your order {order} was cancelled', $text$Habari {name},

We have cancelled your order {order}.[ We are sending your {due_back} back to the phone that paid.]

Your order:
{link}

If you have a question, call us at {shop_phone}.

{shop}
{shop_phone}
{shop_email}$text$),
  ('order_expired', 'mail', 'Your order {order} was not paid in time', $text$Habari {name},

No payment for your order {order} reached us in time, so we have cancelled it.

{items}

You can order again here:
{link}

If you did pay, keep your M-PESA receipt and call us at {shop_phone}.

{shop}
{shop_phone}
{shop_email}$text$),
  ('newsletter_confirmation', 'mail', 'Please confirm: news from {shop}', $text$Habari,

You asked for news from {shop}: a short note when a new flavor leaves the press.

Please confirm your address here:
{confirm_link}

If it was not you, do nothing. Without your confirmation we send no news and forget your address after 7 days. To remove it now:
{unsubscribe_link}

{shop}
{shop_phone}
{shop_email}$text$),
  ('refund_to_approve', 'mail', 'A refund of {refund} waits for your approval', $text$Habari,

A refund of {refund}[ for order {order}][ (receipt {receipt})] was requested by {requested_by} and needs the approval of a colleague. Nothing is sent before.

Reason: {reason}

Approve or withdraw it here:
{staff_link}$text$),
  ('second_factor_removed', 'mail', 'The second factor of {member} was removed', $text$Habari,

The second factor of {member} was removed on {time}: the password alone is enough to sign in to {shop} now.

{cause}

If you do not know why, ask {member} at once. Owners can end the access here, and let it be used again later:
{staff_link}$text$),
  ('prompts_paused', 'mail', 'Customers get no M-PESA prompts', $text$Habari,

M-PESA prompts of {shop} have not worked since {began}. Customers cannot pay by them until someone corrects the cause.

{cause}
{advice}

M-PESA's answer: {code}

{till}

After a correction, send a prompt for KSh 1 to your own phone there:
{staff_link}

Another mail follows when prompts work again.$text$),
  ('prompts_resumed', 'mail', 'Customers get M-PESA prompts again', $text$Habari,

M-PESA prompts of {shop} work again. They had not worked since {began}.

Orders of that time may be unpaid, or paid by hand. The last messages of M-PESA:
{staff_link}$text$)
) as template (kind, channel, subject, body);

-- Off, because each text costs: the page of a rider shows the same.
insert into public.message_templates (kind, channel, body, default_body, is_on)
select 'job_for_rider', 'text', body, body, false
from (values (
  '{order} for {name}, {customer_phone}: {address}[. By {arrival}][. Note: {notes}]. {items}. {pay}. {shop}'
)) as template (body);

insert into public.message_templates (kind, channel, body, default_body)
select 'back_in_stock', 'text', body, body
from (values (
  '{product} is back: {product_link} You asked {shop} for this one text. To stop: {shop_phone}'
)) as template (body);

-- Texts from which staff begin a reply to an inquiry.
insert into public.reply_templates (title, body) values
  ('Which order is it?', 'Habari {first_name}, please send us your tracking number (it begins with JJ) or the phone you ordered with, and we look at once. {shop}, {shop_phone}'),
  ('It is on its way', 'Habari {first_name}, your order[ {tracking}] is on its way. Our rider calls you on arrival. {shop}, {shop_phone}'),
  ('Yes, we deliver there', 'Habari {first_name}, yes, we deliver to you. Order on our website or call us. In Nairobi it takes 15 to 60 minutes. {shop}, {shop_phone}'),
  ('Sorry, we call you', 'Habari {first_name}, we are sorry about[ order {tracking} and] the trouble. We call you today to put it right. {shop}, {shop_phone}');

-- The texts of the contact page.
insert into public.shop_texts (slug, title, body, default_title, default_body)
select slug, title, body, title, body
from (values
  ('faq', 'Frequently asked questions', $text$## How fast is delivery?

15 to 60 minutes within Nairobi, 7 days a week, public holidays included. The [delivery page](/delivery) lists the areas we cover.

## What does delivery cost?

Within Nairobi: {delivery_fee}. You see it before you pay. Outside Nairobi County it may cost more, and we ask you before we send anything.

## Do you deliver outside Nairobi?

Yes, nationwide. Call {phone} first, and we tell you when a parcel reaches your town.

## How do I pay?

By M-PESA. After you order, a prompt appears on your phone; enter your PIN and your drinks are on their way. You need no account.

## Where is my order?

Enter your tracking number on the [tracking page](/track-order). It updates by itself while you watch.

## Who can order?

Anyone aged 18 or older. Our drinks contain khat (miraa), which is legal for adults in Kenya.

## Something is wrong with my order

Call {phone} or write to {email}. We are there 24/7 by phone and chat, and answer email within 24 hours.$text$),
  ('privacy', 'Privacy notice', $text$We ask for what a delivery needs, use it for that, and delete it on a schedule. We sell no one's data and set no advertising cookies.

## Who we are

{shop} in Nairobi is the data controller under Kenya's Data Protection Act, 2019. For anything about your data, write to {email} or call {phone}.

## What we collect, and why

- **When you order:** your name, phone, email, delivery address and notes. We need them to take your payment, to deliver, and to keep you posted. Our legal basis is the contract with you.
- **When you pay:** the phone that pays, the amount and the M-PESA receipt. Safaricom also tells us the payer's name. Tax law asks us to keep these records.
- **When you write to us:** your name, email, phone and message, to answer you.
- **When you ask for a text about a drink that is sold out:** your phone, until the text has left, and for 60 days at most.
- **When you join the newsletter:** your email address, once you have confirmed it. Every mail has a link to unsubscribe.
- **When you visit:** how often each page is opened per day, without cookies and without anything about you. For a few hours we use IP addresses to keep the shop safe from abuse.

If you let this device remember your details for the next order, they stay on the device. It also keeps the numbers and keys of your orders there: with them, this website shows you those orders and fills in their details for the next one. “Forget my details” in the order form and “Forget my orders on this device” beside your orders erase both.

## Who receives it

- Safaricom (M-PESA): the phone that pays and the amount.
- Your rider: your name, phone, address and notes.
- The companies that send our texts and emails: your phone or email address, and the message.
- The companies that host this website and its backups, on our behalf.
- Authorities, where Kenyan law requires it.

## How long we keep it

- Your details in an order: {order_details_kept}. After that the order stays in our books without them.
- M-PESA's messages about payments: {payment_messages_kept}, as tax law asks for records.
- Texts and emails we sent you: 90 days.
- Messages you sent us: {inquiries_kept}.
- Newsletter: until you unsubscribe. An address that is not confirmed is deleted after 7 days.
- Backups: about a week.

## Your rights

You may ask us for a copy of your data, to correct it, to erase it, or to stop using it. Write to {email} or call {phone}. So that no one else gets your data, we check that the phone or email address is yours. We answer a request for a copy within 7 days, and a request to correct or erase within 14 days. What tax law asks us to keep, we keep until its time is over.

Not happy with our answer? You can complain to the [Office of the Data Protection Commissioner](https://www.odpc.go.ke).$text$),
  ('terms', 'Terms of service', $text$## Who may order

You must be 18 or older. Our drinks contain khat (miraa), which is legal for adults in Kenya. Riders may ask for your ID, and hand nothing to anyone under 18. Khat is a stimulant: take it in moderation, and not while you are pregnant or breastfeeding, or if you have heart trouble.

## Your order

When you order, we reserve your drinks for a few minutes while you pay. The contract begins when your payment reaches us. If we cannot deliver after all, your money comes back.

## Prices

Prices are in Kenyan shillings and include taxes. Delivery within Nairobi: {delivery_fee}. You see the total before you pay.

## Payment

You pay by M-PESA: by the prompt on the phone you enter, or to our till or paybill where we offer it. M-PESA takes whole shillings, so the total is rounded up to the next one. We never ask for your PIN.

## Delivery

Within Nairobi we deliver in 15 to 60 minutes, 7 days a week, in the areas on the [delivery page](/delivery). Rain and traffic can make it longer. Outside Nairobi we agree on time and charges with you first. Please make sure that an adult can receive the order and answer the phone.

## Cancelling and refunds

- Until your rider leaves you can cancel for a full refund: call {phone}.
- If a drink arrives damaged, warm or wrong, tell us within 24 hours. We replace it or send your money back.
- Refunds go by M-PESA to the phone that paid.
- For your safety we do not take back drinks that reached you in order.

## The rest

Kenyan law applies. Changes of these terms apply to orders placed after the change. How we handle your data is in the [privacy notice](#privacy).$text$)
) as page (slug, title, body);

-- Words that mean nothing are left out of a search.
insert into public.search_synonyms (word, means)
select word, '' from unnest(array[
  'barafu', 'baridi', 'bei', 'best', 'best seller', 'bestseller', 'beverage', 'bob', 'bulk', 'buy', 'carton', 'chilled', 'cold',
  'cool', 'crate', 'deliver', 'delivery', 'delivery fee', 'delivery time', 'drink', 'flavor', 'flavour',
  'fruit', 'gani', 'how long', 'how much', 'ice', 'iko', 'joosi', 'juice', 'juisi', 'jumla', 'jus', 'jusi', 'kabisa',
  'kinywaji', 'kitu', 'ksh', 'ladha', 'list', 'maji ya', 'maji ya matunda', 'matunda', 'menu', 'moja', 'mpya', 'nairobi',
  'naomba', 'nataka', 'new', 'ngapi', 'nipe', 'nunua', 'order', 'pesa ngapi', 'please', 'popular', 'price',
  'refreshment', 'sharubati', 'size', 'tunda', 'vinywaji', 'wholesale', 'zote', '🍹', '🥤', '🧃'
]) as meaningless (word);

-- What visitors write, for the words of the catalogue.
insert into public.search_synonyms (word, means)
select word, means
from (values
  ('330ml', array['0 33l', '33cl', 'dogo', 'mini', 'ndogo', 'small', 'smallest']),
  ('500ml', array['0 5l', '500 millilitres', '50cl', 'half liter', 'half litre', 'medium']),
  ('750ml', array['0 75l', '1 litre', '1l', '75cl', 'big', 'biggest', 'family', 'kubwa', 'large', 'litre', 'share', 'three quarter litre']),
  ('blackcurrant', array['berry', 'cassis', 'currant', 'grape', 'ribena', 'zabibu', '🍇']),
  ('bottle', array['chupa', 'glass bottle']),
  ('can', array['debe', 'kopo', 'mkebe', 'tin']),
  ('coconut', array['coco', 'dafu', 'madafu', 'nazi', '🥥']),
  ('dawa ginger', array['dawa']),
  ('energy', array['energy drink', 'nguvu', 'power', 'red bull', 'redbull', 'stim']),
  ('ginger', array['ginja', 'tangawizi', '🫚']),
  ('hibiscus', array['bissap', 'hibiscus tea', 'karkade', 'karkadeh', 'rosella', 'roselle', 'sobolo', 'sorrel', 'zobo', '🌺']),
  ('honey', array['asali']),
  ('khat mint', array['🌿']),
  ('khat', array['giza', 'gomba', 'jaba', 'kangeta', 'mairungi', 'miraa', 'muguka', 'qat', 'veve']),
  ('lemon lime', array['malimau', 'ndimu']),
  ('lemon', array['limao', 'limau', '🍋']),
  ('mango', array['apple mango', 'embe', 'maembe', '🥭']),
  ('mint', array['mint leaf', 'mnanaa', 'nanaa', 'peppermint']),
  ('offer', array['affordable', 'bei poa', 'bei ya chini', 'cheap', 'cheapest', 'deal', 'discount', 'nafuu', 'ofa', 'promo', 'promotion', 'punguzo', 'rahisi', 'sale']),
  ('orange', array['chungwa', 'machungwa']),
  ('passion', array['granadilla', 'karakara', 'maracuja', 'maracuya', 'pasheni', 'passion fruit']),
  ('pineapple', array['ananas', 'mananasi', 'nanasi', '🍍']),
  ('sour sharp tart', array['chachu', 'ukali']),
  ('sparkling', array['bubbles', 'carbonated', 'fizzy', 'soda', 'sparkle']),
  ('strong ginger double', array['hot', 'kali', 'spicy', 'strong']),
  ('sugary', array['bila sukari', 'no sugar', 'sugar free', 'sugarless', 'without sugar']),
  ('sweet', array['sukari', 'tamu']),
  ('tamarind', array['imli', 'ukwaju']),
  ('water watermelon', array['maji', 'water']),
  ('watermelon', array['matikiti', 'melon', 'tikiti', 'tikiti maji', 'tikitimaji', '🍉'])
) as known (means, words), unnest(words) as word;
