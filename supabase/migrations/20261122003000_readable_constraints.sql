-- Lists of known values in a readable order, and constraints that were never checked for older rows.
alter table public.deliveries validate constraint "who delivers is told in short";
alter table public.store_settings validate constraint "phones are in international form";
alter table public.store_settings validate constraint "social links are https or empty";

alter table public.order_events
  drop constraint "a kind of event is known",
  add constraint "a kind of event is known" check (kind in (
    'order_placed', 'status_changed', 'payment_status_changed', 'units_taken', 'units_returned',
    'payment_prompted', 'payment_completed', 'payment_failed', 'payment_in_review', 'payment_unresolved',
    'payment_receipt_known', 'payment_corrected',
    'delivery_made', 'delivery_assigned', 'delivery_status_changed',
    'refund_requested', 'refund_approved', 'refund_withdrawn', 'refund_sent', 'refund_unknown', 'refund_failed',
    'refund_completed', 'refund_sent_twice', 'refund_sent_twice_seen'
  ));

alter table public.payment_messages
  drop constraint "a message has a known source",
  add constraint "a message has a known source" check (source in (
    'push', 'notice', 'query', 'till', 'confirmation', 'statement',
    'reversal', 'reversal_result', 'reversal_timeout', 'status_question', 'status_result'
  ));

alter table public.message_templates
  drop constraint "a template is of a kind that is known",
  add constraint "a template is of a kind that is known" check (kind in (
    'order_received', 'order_paid', 'order_payment_held', 'order_on_its_way', 'order_delivered', 'order_refunded',
    'order_cancelled', 'order_expired', 'newsletter_confirmation'
  ));

alter table public.outbox_messages
  drop constraint "a kind of message is known",
  add constraint "a kind of message is known" check (kind in (
    'order_received', 'order_paid', 'order_payment_held', 'order_on_its_way', 'order_delivered', 'order_refunded',
    'order_cancelled', 'order_expired', 'newsletter_confirmation'
  ));
