// Generated from the database by `npm run generate-types`; a test compares it with the migrations.

export type Json = string | number | boolean | null | { [key: string]: Json | undefined } | Json[];

/** Values of `admin_profiles.role`. */
export type AdminProfileRole = 'owner' | 'staff' | 'counter';
/** Values of `audit_events.kind`. */
export type AuditEventKind = 'member_invited' | 'member_changed' | 'member_removed' | 'second_factor_reset' | 'recovery_codes_made' | 'recovery_code_used' | 'authenticator_removed' | 'settings_changed' | 'shop_text_changed' | 'message_template_changed' | 'reply_template_added' | 'reply_template_changed' | 'reply_template_removed' | 'discount_code_added' | 'discount_code_changed' | 'discount_code_removed' | 'phone_blocked' | 'phone_unblocked' | 'product_added' | 'product_changed' | 'product_removed' | 'category_added' | 'category_changed' | 'quote_shown' | 'quote_hidden' | 'rider_added' | 'rider_changed' | 'rider_link_made' | 'rider_link_revoked';
/** Values of `backups.outcome`. */
export type BackupOutcome = 'verified' | 'readable' | 'failed' | 'impossible';
/** Values of `change_notes.kind`. */
export type ChangeNoteKind = 'credit' | 'to_return' | 'returned' | 'used' | 'use_taken_back' | 'not_owed';
/** Values of `change_notes.way`. */
export type ChangeNoteWay = 'mpesa' | 'cash';
/** Values of `deliveries.delivery_status`. */
export type DeliveryStatus = 'pending' | 'assigned' | 'picked_up' | 'in_transit' | 'delivered' | 'failed';
/** Values of `deliveries.failure_reason`. */
export type DeliveryFailureReason = 'nobody_there' | 'no_answer' | 'address_not_found' | 'not_accepted' | 'damaged' | 'rider_problem' | 'other';
/** Values of `deliveries.proven_by`. */
export type DeliveryProvenBy = 'code' | 'staff';
/** Values of `inquiry_answers.way`. */
export type InquiryAnswerWay = 'mail' | 'text' | 'elsewhere';
/** Values of `message_templates.channel`. */
export type MessageTemplateChannel = 'mail' | 'text';
/** Values of `message_templates.kind`. */
export type MessageTemplateKind = 'order_received' | 'order_paid' | 'order_payment_held' | 'order_payment_corrected' | 'order_on_its_way' | 'order_delayed' | 'delivery_failed' | 'order_delivered' | 'order_refunded' | 'order_cancelled' | 'order_expired' | 'newsletter_confirmation' | 'prompts_paused' | 'prompts_resumed' | 'refund_to_approve' | 'second_factor_removed' | 'job_for_rider' | 'back_in_stock';
/** Values of `messages_to_check.problem`. */
export type MessageToCheckProblem = 'unreadable' | 'unknown_kind' | 'reversed';
/** Values of `messages_to_check.resolution`. */
export type MessageToCheckResolution = 'entered' | 'not_a_payment' | 'read_later';
/** Values of `mpesa_transactions.resolution`. */
export type MpesaTransactionResolution = 'given' | 'not_an_order' | 'refund' | 'accepted';
/** Values of `notices.kind`. */
export type NoticeKind = 'paid_order' | 'late_order' | 'failed_delivery' | 'cancel_request' | 'order_to_agree' | 'refund_to_approve' | 'inquiry' | 'low_stock';
/** Values of `order_events.actor`. */
export type OrderEventActor = 'staff' | 'customer' | 'mpesa' | 'shop' | 'rider';
/** Values of `order_events.kind`. */
export type OrderEventKind = 'order_placed' | 'pay_link_shown' | 'delivery_agreed' | 'items_changed' | 'status_changed' | 'cancel_requested' | 'cancel_declined' | 'cancel_withdrawn' | 'payment_status_changed' | 'units_taken' | 'units_returned' | 'cash_agreed' | 'cash_collected' | 'change_noted' | 'payment_prompted' | 'payment_completed' | 'payment_failed' | 'payment_in_review' | 'payment_unresolved' | 'payment_receipt_known' | 'payment_corrected' | 'payment_taken_back' | 'delivery_made' | 'delivery_assigned' | 'delivery_status_changed' | 'delivery_taken' | 'delivery_ready' | 'delivery_unpacked' | 'code_locked' | 'code_waived' | 'refund_requested' | 'refund_approved' | 'refund_withdrawn' | 'refund_sent' | 'refund_unknown' | 'refund_failed' | 'refund_completed' | 'refund_sent_twice' | 'refund_sent_twice_seen';
/** Values of `orders.cancel_reason`. */
export type OrderCancelReason = 'not_paid_in_time' | 'refunded' | 'by_shop' | 'by_customer';
/** Values of `orders.payment_method`. */
export type OrderPaymentMethod = 'pending' | 'mpesa' | 'cash' | 'credit';
/** Values of `orders.payment_status`. */
export type OrderPaymentStatus = 'unpaid' | 'paid' | 'needs_review' | 'refunded';
/** Values of `orders.source`. */
export type OrderSource = 'storefront' | 'call' | 'whatsapp' | 'walk_in';
/** Values of `orders.status`. */
export type OrderStatus = 'pending' | 'processing' | 'shipped' | 'out_for_delivery' | 'delivered' | 'cancelled';
/** Values of `outbox_messages.channel`. */
export type OutboxMessageChannel = 'mail' | 'text';
/** Values of `outbox_messages.kind`. */
export type OutboxMessageKind = 'order_received' | 'order_paid' | 'order_payment_held' | 'order_payment_corrected' | 'order_on_its_way' | 'order_delayed' | 'delivery_failed' | 'order_delivered' | 'order_refunded' | 'order_cancelled' | 'order_expired' | 'newsletter_confirmation' | 'inquiry_reply' | 'prompts_paused' | 'prompts_resumed' | 'refund_to_approve' | 'second_factor_removed' | 'test_message' | 'job_for_rider' | 'back_in_stock';
/** Values of `outbox_messages.status`. */
export type OutboxMessageStatus = 'waiting' | 'sending' | 'sent' | 'failed' | 'unsure' | 'over_budget';
/** Values of `payment_messages.source`. */
export type PaymentMessageSource = 'push' | 'callback' | 'query' | 'till' | 'confirmation' | 'statement' | 'reversal' | 'reversal_result' | 'reversal_timeout' | 'status_query' | 'status_result';
/** Values of `payments.ended_by`. */
export type PaymentEndedBy = 'customer' | 'time' | 'owner' | 'unknown';
/** Values of `payments.method`. */
export type PaymentMethod = 'prompt' | 'till' | 'cash' | 'credit';
/** Values of `payments.presumption`. */
export type PaymentPresumption = 'attempt' | 'receipt';
/** Values of `payments.review_cause`. */
export type PaymentReviewCause = 'wrong_amount' | 'contradiction';
/** Values of `payments.status`. */
export type PaymentStatus = 'initiating' | 'processing' | 'completed' | 'failed' | 'review' | 'unresolved';
/** Values of `personal_data_requests.kind`. */
export type PersonalDataRequestKind = 'export' | 'erasure';
/** Values of `products.home_section`. */
export type ProductHomeSection = 'top_picks' | 'drinks_on_offer';
/** Values of `reconciliation_events.kind`. */
export type ReconciliationEventKind = 'given' | 'not_an_order' | 'refund' | 'accepted' | 'reopened' | 'taken_back' | 'delivered' | 'change_credit' | 'change_to_return' | 'change_returned' | 'change_used' | 'change_use_taken_back' | 'change_not_owed';
/** Values of `refunds.method`. */
export type RefundMethod = 'reversal' | 'by_hand' | 'cash' | 'credit';
/** Values of `refunds.status`. */
export type RefundStatus = 'requested' | 'approved' | 'sending' | 'sent' | 'completed' | 'failed' | 'unknown' | 'withdrawn';
/** Values of `shop_texts.slug`. */
export type ShopTextSlug = 'faq' | 'privacy' | 'terms';
/** Values of `statement_pulls.outcome`. */
export type StatementPullOutcome = 'running' | 'complete' | 'failed';
/** Values of `stock_changes.cause`. */
export type StockChangeCause = 'edited' | 'ordered' | 'reservation_ended' | 'order_changed' | 'cancelled' | 'refunded' | 'under_review';

export type Database = {
  public: {
    Tables: {
      admin_profiles: {
        Row: { created_at: string; invited_at: string | null; invited_by: string | null; is_active: boolean; name: string; role: AdminProfileRole; user_id: string; };
        Insert: { created_at?: string; invited_at?: string | null; invited_by?: string | null; is_active?: boolean; name?: string; role?: AdminProfileRole; user_id: string; };
        Update: { created_at?: string; invited_at?: string | null; invited_by?: string | null; is_active?: boolean; name?: string; role?: AdminProfileRole; user_id?: string; };
        Relationships: [
        ];
      };
      audit_events: {
        Row: { actor_email: string | null; actor_id: string | null; after: Json | null; before: Json | null; happened_at: string; id: number; kind: AuditEventKind; subject: string | null; };
        Insert: { actor_email?: string | null; actor_id?: string | null; after?: Json | null; before?: Json | null; happened_at?: string; id?: never; kind: AuditEventKind; subject?: string | null; };
        Update: { actor_email?: string | null; actor_id?: string | null; after?: Json | null; before?: Json | null; happened_at?: string; id?: never; kind?: AuditEventKind; subject?: string | null; };
        Relationships: [
        ];
      };
      backup_downloads: {
        Row: { allowed_at: string; backup_id: number; downloaded_by: string | null; downloaded_by_email: string; file_name: string; id: number; started_at: string | null; token_hash: string; };
        Insert: { allowed_at?: string; backup_id: number; downloaded_by?: string | null; downloaded_by_email: string; file_name: string; id?: never; started_at?: string | null; token_hash: string; };
        Update: { allowed_at?: string; backup_id?: number; downloaded_by?: string | null; downloaded_by_email?: string; file_name?: string; id?: never; started_at?: string | null; token_hash?: string; };
        Relationships: [
        ];
      };
      backups: {
        Row: { check_problem: string | null; check_requested_at: string | null; checked_at: string | null; file_name: string | null; finished_at: string; id: number; outcome: BackupOutcome; problem: string | null; size: number | null; started_at: string; };
        Insert: { check_problem?: string | null; check_requested_at?: string | null; checked_at?: string | null; file_name?: string | null; finished_at?: string; id?: never; outcome: BackupOutcome; problem?: string | null; size?: number | null; started_at: string; };
        Update: { check_problem?: string | null; check_requested_at?: string | null; checked_at?: string | null; file_name?: string | null; finished_at?: string; id?: never; outcome?: BackupOutcome; problem?: string | null; size?: number | null; started_at?: string; };
        Relationships: [
        ];
      };
      blocked_phones: {
        Row: { blocked_at: string; blocked_by: string | null; blocked_by_email: string | null; person_hash: string; phone: string | null; reason: string | null; };
        Insert: { blocked_at?: string; blocked_by?: string | null; blocked_by_email?: string | null; person_hash: string; phone?: string | null; reason?: string | null; };
        Update: { blocked_at?: string; blocked_by?: string | null; blocked_by_email?: string | null; person_hash?: string; phone?: string | null; reason?: string | null; };
        Relationships: [
        ];
      };
      brands: {
        Row: { created_at: string; name: string; page_text: string; slug: string; updated_at: string; };
        Insert: { created_at?: string; name: string; page_text?: string; slug?: string; updated_at?: string; };
        Update: { created_at?: string; name?: string; page_text?: string; slug?: string; updated_at?: string; };
        Relationships: [
        ];
      };
      cash_counts: {
        Row: { counted_cents: number; day: string; expected_cents: number; given_back_cents: number; member: string; member_email: string | null; reason: string | null; taken_cents: number; };
        Insert: { counted_cents: number; day: string; expected_cents?: never; given_back_cents: number; member: string; member_email?: string | null; reason?: string | null; taken_cents: number; };
        Update: { counted_cents?: number; day?: string; expected_cents?: never; given_back_cents?: number; member?: string; member_email?: string | null; reason?: string | null; taken_cents?: number; };
        Relationships: [
          { foreignKeyName: "cash_counts_day_fkey"; columns: ['day']; isOneToOne: false; referencedRelation: 'day_closes'; referencedColumns: ['day'] },
        ];
      };
      categories: {
        Row: { created_at: string; id: string; is_active: boolean; name: string; page_text: string; slug: string; updated_at: string; };
        Insert: { created_at?: string; id?: string; is_active?: boolean; name: string; page_text?: string; slug?: string; updated_at?: string; };
        Update: { created_at?: string; id?: string; is_active?: boolean; name?: string; page_text?: string; slug?: string; updated_at?: string; };
        Relationships: [
        ];
      };
      change_notes: {
        Row: { amount_cents: number; id: string; is_part_refund: boolean; kind: ChangeNoteKind; note: string | null; noted_at: string; noted_by: string | null; noted_by_email: string | null; payment_id: string; receipt: string | null; used_for: string | null; way: ChangeNoteWay | null; };
        Insert: { amount_cents: number; id?: string; is_part_refund?: boolean; kind: ChangeNoteKind; note?: string | null; noted_at?: string; noted_by?: string | null; noted_by_email?: string | null; payment_id: string; receipt?: string | null; used_for?: string | null; way?: ChangeNoteWay | null; };
        Update: { amount_cents?: number; id?: string; is_part_refund?: boolean; kind?: ChangeNoteKind; note?: string | null; noted_at?: string; noted_by?: string | null; noted_by_email?: string | null; payment_id?: string; receipt?: string | null; used_for?: string | null; way?: ChangeNoteWay | null; };
        Relationships: [
          { foreignKeyName: "change_notes_payment_id_fkey"; columns: ['payment_id']; isOneToOne: false; referencedRelation: 'payments'; referencedColumns: ['id'] },
        ];
      };
      customer_notes: {
        Row: { noted_by: string | null; noted_by_email: string | null; notes: string; phone: string; updated_at: string; };
        Insert: { noted_by?: string | null; noted_by_email?: string | null; notes: string; phone: string; updated_at?: string; };
        Update: { noted_by?: string | null; noted_by_email?: string | null; notes?: string; phone?: string; updated_at?: string; };
        Relationships: [
        ];
      };
      day_closes: {
        Row: { cash_due: Json | null; closed_at: string; closed_by: string; closed_by_email: string | null; day: string; note: string | null; totals: Json; };
        Insert: { cash_due?: Json | null; closed_at?: string; closed_by: string; closed_by_email?: string | null; day: string; note?: string | null; totals: Json; };
        Update: { cash_due?: Json | null; closed_at?: string; closed_by?: string; closed_by_email?: string | null; day?: string; note?: string | null; totals?: Json; };
        Relationships: [
        ];
      };
      deliveries: {
        Row: { collected_cents: number | null; created_at: string; delivery_notes: string | null; delivery_person: string | null; delivery_phone: string | null; delivery_status: DeliveryStatus; delivery_time: string | null; delivery_vehicle: string | null; failure_reason: DeliveryFailureReason | null; failures: number; id: string; order_id: string; pickup_time: string | null; proof_code: string | null; proven_by: DeliveryProvenBy | null; ready_at: string | null; rider_id: string | null; taken_by: string | null; updated_at: string; wrong_codes: number; };
        Insert: { collected_cents?: number | null; created_at?: string; delivery_notes?: string | null; delivery_person?: string | null; delivery_phone?: string | null; delivery_status?: DeliveryStatus; delivery_time?: string | null; delivery_vehicle?: string | null; failure_reason?: DeliveryFailureReason | null; failures?: number; id?: string; order_id: string; pickup_time?: string | null; proof_code?: string | null; proven_by?: DeliveryProvenBy | null; ready_at?: string | null; rider_id?: string | null; taken_by?: string | null; updated_at?: string; wrong_codes?: number; };
        Update: { collected_cents?: number | null; created_at?: string; delivery_notes?: string | null; delivery_person?: string | null; delivery_phone?: string | null; delivery_status?: DeliveryStatus; delivery_time?: string | null; delivery_vehicle?: string | null; failure_reason?: DeliveryFailureReason | null; failures?: number; id?: string; order_id?: string; pickup_time?: string | null; proof_code?: string | null; proven_by?: DeliveryProvenBy | null; ready_at?: string | null; rider_id?: string | null; taken_by?: string | null; updated_at?: string; wrong_codes?: number; };
        Relationships: [
          { foreignKeyName: "deliveries_order_id_fkey"; columns: ['order_id']; isOneToOne: true; referencedRelation: 'orders'; referencedColumns: ['id'] },
          { foreignKeyName: "deliveries_rider_id_fkey"; columns: ['rider_id']; isOneToOne: false; referencedRelation: 'riders'; referencedColumns: ['id'] },
        ];
      };
      delivery_areas: {
        Row: { created_at: string; fee_cents: number | null; id: string; is_active: boolean; name: string; needs_agreement: boolean; position: number; promise_from_minutes: number; promise_to_minutes: number; spellings: string[]; updated_at: string; };
        Insert: { created_at?: string; fee_cents?: number | null; id?: string; is_active?: boolean; name: string; needs_agreement?: boolean; position?: number; promise_from_minutes?: number; promise_to_minutes?: number; spellings?: string[]; updated_at?: string; };
        Update: { created_at?: string; fee_cents?: number | null; id?: string; is_active?: boolean; name?: string; needs_agreement?: boolean; position?: number; promise_from_minutes?: number; promise_to_minutes?: number; spellings?: string[]; updated_at?: string; };
        Relationships: [
        ];
      };
      discount_codes: {
        Row: { amount_cents: number | null; code: string; created_at: string; ends_at: string | null; id: string; is_active: boolean; max_uses: number | null; max_uses_per_phone: number | null; minimum_cents: number; percent: number | null; starts_at: string | null; updated_at: string; };
        Insert: { amount_cents?: number | null; code: string; created_at?: string; ends_at?: string | null; id?: string; is_active?: boolean; max_uses?: number | null; max_uses_per_phone?: number | null; minimum_cents?: number; percent?: number | null; starts_at?: string | null; updated_at?: string; };
        Update: { amount_cents?: number | null; code?: string; created_at?: string; ends_at?: string | null; id?: string; is_active?: boolean; max_uses?: number | null; max_uses_per_phone?: number | null; minimum_cents?: number; percent?: number | null; starts_at?: string | null; updated_at?: string; };
        Relationships: [
        ];
      };
      inquiries: {
        Row: { answered_at: string | null; answered_by: string | null; created_at: string; email: string; id: string; is_read: boolean; message: string; name: string; phone: string | null; subject: string | null; };
        Insert: { answered_at?: string | null; answered_by?: string | null; created_at?: string; email: string; id?: string; is_read?: boolean; message: string; name: string; phone?: string | null; subject?: string | null; };
        Update: { answered_at?: string | null; answered_by?: string | null; created_at?: string; email?: string; id?: string; is_read?: boolean; message?: string; name?: string; phone?: string | null; subject?: string | null; };
        Relationships: [
        ];
      };
      inquiry_answers: {
        Row: { answered_at: string; answered_by: string; body: string | null; id: string; inquiry_id: string; way: InquiryAnswerWay; };
        Insert: { answered_at?: string; answered_by: string; body?: string | null; id?: string; inquiry_id: string; way: InquiryAnswerWay; };
        Update: { answered_at?: string; answered_by?: string; body?: string | null; id?: string; inquiry_id?: string; way?: InquiryAnswerWay; };
        Relationships: [
          { foreignKeyName: "inquiry_answers_inquiry_id_fkey"; columns: ['inquiry_id']; isOneToOne: false; referencedRelation: 'inquiries'; referencedColumns: ['id'] },
        ];
      };
      message_templates: {
        Row: { body: string; channel: MessageTemplateChannel; created_at: string; default_body: string; default_subject: string | null; id: string; is_on: boolean; kind: MessageTemplateKind; subject: string | null; updated_at: string; };
        Insert: { body: string; channel: MessageTemplateChannel; created_at?: string; default_body: string; default_subject?: string | null; id?: string; is_on?: boolean; kind: MessageTemplateKind; subject?: string | null; updated_at?: string; };
        Update: { body?: string; channel?: MessageTemplateChannel; created_at?: string; default_body?: string; default_subject?: string | null; id?: string; is_on?: boolean; kind?: MessageTemplateKind; subject?: string | null; updated_at?: string; };
        Relationships: [
        ];
      };
      messages_to_check: {
        Row: { body: string; digest: string; id: number; note: string | null; payment_id: string | null; problem: MessageToCheckProblem; receipt: string | null; received_at: string; received_cents: number | null; reference: string; refund_id: string | null; resolution: MessageToCheckResolution | null; resolved_at: string | null; resolved_by: string | null; resolved_by_email: string | null; source: PaymentMessageSource; transacted_at: string | null; unreadable: string[]; };
        Insert: { body: string; digest: string; id?: never; note?: string | null; payment_id?: string | null; problem: MessageToCheckProblem; receipt?: string | null; received_at?: string; received_cents?: number | null; reference?: string; refund_id?: string | null; resolution?: MessageToCheckResolution | null; resolved_at?: string | null; resolved_by?: string | null; resolved_by_email?: string | null; source: PaymentMessageSource; transacted_at?: string | null; unreadable?: string[]; };
        Update: { body?: string; digest?: string; id?: never; note?: string | null; payment_id?: string | null; problem?: MessageToCheckProblem; receipt?: string | null; received_at?: string; received_cents?: number | null; reference?: string; refund_id?: string | null; resolution?: MessageToCheckResolution | null; resolved_at?: string | null; resolved_by?: string | null; resolved_by_email?: string | null; source?: PaymentMessageSource; transacted_at?: string | null; unreadable?: string[]; };
        Relationships: [
          { foreignKeyName: "messages_to_check_payment_id_fkey"; columns: ['payment_id']; isOneToOne: false; referencedRelation: 'payments'; referencedColumns: ['id'] },
          { foreignKeyName: "messages_to_check_refund_id_fkey"; columns: ['refund_id']; isOneToOne: false; referencedRelation: 'refunds'; referencedColumns: ['id'] },
        ];
      };
      mpesa_transactions: {
        Row: { attempt_id: string | null; created_at: string; order_id: string | null; payer_name: string | null; payer_phone: string | null; payment_id: string | null; receipt: string; received_cents: number; reference: string; reported_by_callback_at: string | null; reported_by_confirmation_at: string | null; reported_by_statement_at: string | null; resolution: MpesaTransactionResolution | null; resolved_at: string | null; resolved_by: string | null; transacted_at: string; updated_at: string; };
        Insert: { attempt_id?: string | null; created_at?: string; order_id?: string | null; payer_name?: string | null; payer_phone?: string | null; payment_id?: string | null; receipt: string; received_cents: number; reference?: string; reported_by_callback_at?: string | null; reported_by_confirmation_at?: string | null; reported_by_statement_at?: string | null; resolution?: MpesaTransactionResolution | null; resolved_at?: string | null; resolved_by?: string | null; transacted_at: string; updated_at?: string; };
        Update: { attempt_id?: string | null; created_at?: string; order_id?: string | null; payer_name?: string | null; payer_phone?: string | null; payment_id?: string | null; receipt?: string; received_cents?: number; reference?: string; reported_by_callback_at?: string | null; reported_by_confirmation_at?: string | null; reported_by_statement_at?: string | null; resolution?: MpesaTransactionResolution | null; resolved_at?: string | null; resolved_by?: string | null; transacted_at?: string; updated_at?: string; };
        Relationships: [
          { foreignKeyName: "mpesa_transactions_attempt_id_fkey"; columns: ['attempt_id']; isOneToOne: false; referencedRelation: 'payments'; referencedColumns: ['id'] },
          { foreignKeyName: "mpesa_transactions_order_id_fkey"; columns: ['order_id']; isOneToOne: false; referencedRelation: 'orders'; referencedColumns: ['id'] },
          { foreignKeyName: "mpesa_transactions_payment_id_fkey"; columns: ['payment_id']; isOneToOne: false; referencedRelation: 'payments'; referencedColumns: ['id'] },
        ];
      };
      newsletter_subscriptions: {
        Row: { confirmation_queued_at: string | null; confirmed_at: string | null; created_at: string; email: string; id: string; };
        Insert: { confirmation_queued_at?: string | null; confirmed_at?: string | null; created_at?: string; email: string; id?: string; };
        Update: { confirmation_queued_at?: string | null; confirmed_at?: string | null; created_at?: string; email?: string; id?: string; };
        Relationships: [
        ];
      };
      notices: {
        Row: { caused_by: string | null; created_at: string; event_key: string; id: string; kind: NoticeKind; order_id: string | null; };
        Insert: { caused_by?: string | null; created_at?: string; event_key: string; id?: string; kind: NoticeKind; order_id?: string | null; };
        Update: { caused_by?: string | null; created_at?: string; event_key?: string; id?: string; kind?: NoticeKind; order_id?: string | null; };
        Relationships: [
          { foreignKeyName: "notices_order_id_fkey"; columns: ['order_id']; isOneToOne: false; referencedRelation: 'orders'; referencedColumns: ['id'] },
        ];
      };
      order_events: {
        Row: { actor: OrderEventActor; actor_email: string | null; actor_id: string | null; details: Json; happened_at: string; id: number; kind: OrderEventKind; order_id: string; };
        Insert: { actor: OrderEventActor; actor_email?: string | null; actor_id?: string | null; details?: Json; happened_at?: string; id?: never; kind: OrderEventKind; order_id: string; };
        Update: { actor?: OrderEventActor; actor_email?: string | null; actor_id?: string | null; details?: Json; happened_at?: string; id?: never; kind?: OrderEventKind; order_id?: string; };
        Relationships: [
        ];
      };
      order_items: {
        Row: { created_at: string; id: string; order_id: string; position: number; product_id: string | null; product_name: string; quantity: number; unit_price: number; };
        Insert: { created_at?: string; id?: string; order_id: string; position?: number; product_id?: string | null; product_name: string; quantity: number; unit_price: number; };
        Update: { created_at?: string; id?: string; order_id?: string; position?: number; product_id?: string | null; product_name?: string; quantity?: number; unit_price?: number; };
        Relationships: [
          { foreignKeyName: "order_items_order_id_fkey"; columns: ['order_id']; isOneToOne: false; referencedRelation: 'orders'; referencedColumns: ['id'] },
          { foreignKeyName: "order_items_product_id_fkey"; columns: ['product_id']; isOneToOne: false; referencedRelation: 'products'; referencedColumns: ['id'] },
        ];
      };
      order_pauses: {
        Row: { changed_at: string; changed_by: string | null; changed_by_email: string | null; id: number; paused_until: string | null; reason: string | null; };
        Insert: { changed_at?: string; changed_by?: string | null; changed_by_email?: string | null; id?: never; paused_until?: string | null; reason?: string | null; };
        Update: { changed_at?: string; changed_by?: string | null; changed_by_email?: string | null; id?: never; paused_until?: string | null; reason?: string | null; };
        Relationships: [
        ];
      };
      orders: {
        Row: { accepted_terms: Json | null; anonymised_at: string | null; area_id: string | null; area_name: string | null; awaits_agreement: boolean; cancel_answer: string | null; cancel_declined_at: string | null; cancel_reason: OrderCancelReason | null; cancel_requested_at: string | null; charge_cents: number; city: string; created_at: string; customer_email: string; customer_name: string; customer_phone: string; delivery_day: string | null; delivery_fee: number; delivery_notes: string | null; discount_cents: number; discount_code: string | null; erasure_requested_at: string | null; expires_at: string | null; expiry_limit: string | null; extended_at: string | null; id: string; is_collected: boolean; live_handle: string; map_point: string | null; order_number: string; payment_method: OrderPaymentMethod; payment_status: OrderPaymentStatus; promised_again_at: string | null; promised_at: string | null; reserved_until: string | null; shipping_address: string; source: OrderSource; status: OrderStatus; terms_accepted_at: string | null; total_amount: number; tracking_number: string; units_returned_at: string | null; updated_at: string; nth_order: number; };
        Insert: { accepted_terms?: Json | null; anonymised_at?: string | null; area_id?: string | null; area_name?: string | null; awaits_agreement?: boolean; cancel_answer?: string | null; cancel_declined_at?: string | null; cancel_reason?: OrderCancelReason | null; cancel_requested_at?: string | null; charge_cents?: never; city?: string; created_at?: string; customer_email: string; customer_name: string; customer_phone: string; delivery_day?: string | null; delivery_fee: number; delivery_notes?: string | null; discount_cents?: number; discount_code?: string | null; erasure_requested_at?: string | null; expires_at?: string | null; expiry_limit?: string | null; extended_at?: string | null; id?: string; is_collected?: boolean; live_handle?: string; map_point?: string | null; order_number?: string; payment_method?: OrderPaymentMethod; payment_status?: OrderPaymentStatus; promised_again_at?: string | null; promised_at?: string | null; reserved_until?: string | null; shipping_address: string; source?: OrderSource; status?: OrderStatus; terms_accepted_at?: string | null; total_amount: number; tracking_number: string; units_returned_at?: string | null; updated_at?: string; };
        Update: { accepted_terms?: Json | null; anonymised_at?: string | null; area_id?: string | null; area_name?: string | null; awaits_agreement?: boolean; cancel_answer?: string | null; cancel_declined_at?: string | null; cancel_reason?: OrderCancelReason | null; cancel_requested_at?: string | null; charge_cents?: never; city?: string; created_at?: string; customer_email?: string; customer_name?: string; customer_phone?: string; delivery_day?: string | null; delivery_fee?: number; delivery_notes?: string | null; discount_cents?: number; discount_code?: string | null; erasure_requested_at?: string | null; expires_at?: string | null; expiry_limit?: string | null; extended_at?: string | null; id?: string; is_collected?: boolean; live_handle?: string; map_point?: string | null; order_number?: string; payment_method?: OrderPaymentMethod; payment_status?: OrderPaymentStatus; promised_again_at?: string | null; promised_at?: string | null; reserved_until?: string | null; shipping_address?: string; source?: OrderSource; status?: OrderStatus; terms_accepted_at?: string | null; total_amount?: number; tracking_number?: string; units_returned_at?: string | null; updated_at?: string; };
        Relationships: [
          { foreignKeyName: "orders_area_id_fkey"; columns: ['area_id']; isOneToOne: false; referencedRelation: 'delivery_areas'; referencedColumns: ['id'] },
        ];
      };
      outbox_messages: {
        Row: { attempts: number; body: string | null; channel: OutboxMessageChannel; created_at: string; customer_name: string; event_key: string; gateway_reference: string | null; give_up_at: string; has_priority: boolean; id: string; is_verbatim: boolean; kind: OutboxMessageKind; next_attempt_at: string | null; order_id: string | null; order_number: string; problem: string | null; recipient: string; repeat_of: string | null; resent_by: string | null; sending_since: string | null; sent_at: string | null; status: OutboxMessageStatus; subject: string | null; tracking_number: string; updated_at: string; };
        Insert: { attempts?: number; body?: string | null; channel: OutboxMessageChannel; created_at?: string; customer_name: string; event_key?: string; gateway_reference?: string | null; give_up_at?: string; has_priority?: boolean; id?: string; is_verbatim?: boolean; kind: OutboxMessageKind; next_attempt_at?: string | null; order_id?: string | null; order_number: string; problem?: string | null; recipient: string; repeat_of?: string | null; resent_by?: string | null; sending_since?: string | null; sent_at?: string | null; status?: OutboxMessageStatus; subject?: string | null; tracking_number: string; updated_at?: string; };
        Update: { attempts?: number; body?: string | null; channel?: OutboxMessageChannel; created_at?: string; customer_name?: string; event_key?: string; gateway_reference?: string | null; give_up_at?: string; has_priority?: boolean; id?: string; is_verbatim?: boolean; kind?: OutboxMessageKind; next_attempt_at?: string | null; order_id?: string | null; order_number?: string; problem?: string | null; recipient?: string; repeat_of?: string | null; resent_by?: string | null; sending_since?: string | null; sent_at?: string | null; status?: OutboxMessageStatus; subject?: string | null; tracking_number?: string; updated_at?: string; };
        Relationships: [
          { foreignKeyName: "outbox_messages_repeat_of_fkey"; columns: ['repeat_of']; isOneToOne: false; referencedRelation: 'outbox_messages'; referencedColumns: ['id'] },
        ];
      };
      page_views: {
        Row: { day: string; path: string; views: number; };
        Insert: { day: string; path: string; views: number; };
        Update: { day?: string; path?: string; views?: number; };
        Relationships: [
        ];
      };
      payment_messages: {
        Row: { body: string; id: number; outcome: string | null; payment_id: string | null; receipt: string | null; received_at: string; refund_id: string | null; source: PaymentMessageSource; source_address: string | null; };
        Insert: { body: string; id?: never; outcome?: string | null; payment_id?: string | null; receipt?: string | null; received_at?: string; refund_id?: string | null; source: PaymentMessageSource; source_address?: string | null; };
        Update: { body?: string; id?: never; outcome?: string | null; payment_id?: string | null; receipt?: string | null; received_at?: string; refund_id?: string | null; source?: PaymentMessageSource; source_address?: string | null; };
        Relationships: [
          { foreignKeyName: "payment_messages_payment_id_fkey"; columns: ['payment_id']; isOneToOne: false; referencedRelation: 'payments'; referencedColumns: ['id'] },
          { foreignKeyName: "payment_messages_refund_id_fkey"; columns: ['refund_id']; isOneToOne: false; referencedRelation: 'refunds'; referencedColumns: ['id'] },
        ];
      };
      payments: {
        Row: { charge_cents: number; checkout_request_id: string | null; completed_at: string | null; confirmed_by: string | null; created_at: string; ended_by: PaymentEndedBy | null; id: string; merchant_request_id: string | null; method: PaymentMethod; needs_refund: boolean; next_query_at: string | null; note: string | null; order_id: string | null; phone: string; presumption: PaymentPresumption | null; purpose: string; query_count: number; receipt: string | null; received_from: string | null; refund_receipt: string | null; refunded_at: string | null; requested_by: string | null; requested_by_email: string | null; result_code: string | null; result_description: string | null; review_cause: PaymentReviewCause | null; status: PaymentStatus; updated_at: string; counted_cents: number; has_refunded_source: boolean; is_unconfirmed: boolean; };
        Insert: { charge_cents: number; checkout_request_id?: string | null; completed_at?: string | null; confirmed_by?: string | null; created_at?: string; ended_by?: PaymentEndedBy | null; id?: string; merchant_request_id?: string | null; method?: PaymentMethod; needs_refund?: boolean; next_query_at?: string | null; note?: string | null; order_id?: string | null; phone: string; presumption?: PaymentPresumption | null; purpose?: string; query_count?: number; receipt?: string | null; received_from?: string | null; refund_receipt?: string | null; refunded_at?: string | null; requested_by?: string | null; requested_by_email?: string | null; result_code?: string | null; result_description?: string | null; review_cause?: PaymentReviewCause | null; status?: PaymentStatus; updated_at?: string; };
        Update: { charge_cents?: number; checkout_request_id?: string | null; completed_at?: string | null; confirmed_by?: string | null; created_at?: string; ended_by?: PaymentEndedBy | null; id?: string; merchant_request_id?: string | null; method?: PaymentMethod; needs_refund?: boolean; next_query_at?: string | null; note?: string | null; order_id?: string | null; phone?: string; presumption?: PaymentPresumption | null; purpose?: string; query_count?: number; receipt?: string | null; received_from?: string | null; refund_receipt?: string | null; refunded_at?: string | null; requested_by?: string | null; requested_by_email?: string | null; result_code?: string | null; result_description?: string | null; review_cause?: PaymentReviewCause | null; status?: PaymentStatus; updated_at?: string; };
        Relationships: [
          { foreignKeyName: "payments_order_id_fkey"; columns: ['order_id']; isOneToOne: false; referencedRelation: 'orders'; referencedColumns: ['id'] },
        ];
      };
      personal_data_requests: {
        Row: { counts: Json; id: number; kind: PersonalDataRequestKind; person_hash: string; requested_at: string; requested_by: string | null; requested_by_email: string | null; };
        Insert: { counts: Json; id?: never; kind: PersonalDataRequestKind; person_hash: string; requested_at?: string; requested_by?: string | null; requested_by_email?: string | null; };
        Update: { counts?: Json; id?: never; kind?: PersonalDataRequestKind; person_hash?: string; requested_at?: string; requested_by?: string | null; requested_by_email?: string | null; };
        Relationships: [
        ];
      };
      price_changes: {
        Row: { changed_at: string; changed_by: string | null; changed_by_email: string | null; from_cents: number; id: number; product_id: string | null; product_name: string | null; reason: string | null; to_cents: number; };
        Insert: { changed_at?: string; changed_by?: string | null; changed_by_email?: string | null; from_cents: number; id?: never; product_id?: string | null; product_name?: string | null; reason?: string | null; to_cents: number; };
        Update: { changed_at?: string; changed_by?: string | null; changed_by_email?: string | null; from_cents?: number; id?: never; product_id?: string | null; product_name?: string | null; reason?: string | null; to_cents?: number; };
        Relationships: [
        ];
      };
      products: {
        Row: { allergens: string | null; brand: string | null; caffeine: string | null; category: string | null; created_at: string; description: string | null; home_position: number | null; home_section: ProductHomeSection | null; id: string; image_url: string | null; is_active: boolean; is_low_on_stock: boolean; keeps: string | null; khat_strength: string | null; low_stock_below: number | null; more_images: string[]; name: string; previous_price: number | null; price: number; reason_of_change: string | null; serving_note: string | null; size: string | null; slug: string; sold_out_until: string | null; stock_quantity: number; sweetened_with: string | null; tagline: string | null; updated_at: string; serving: string; units_for_sale: number; waiting_for_stock: number; };
        Insert: { allergens?: string | null; brand?: string | null; caffeine?: string | null; category?: string | null; created_at?: string; description?: string | null; home_position?: number | null; home_section?: ProductHomeSection | null; id?: string; image_url?: string | null; is_active?: boolean; is_low_on_stock?: never; keeps?: string | null; khat_strength?: string | null; low_stock_below?: number | null; more_images?: string[]; name: string; previous_price?: number | null; price: number; reason_of_change?: string | null; serving_note?: string | null; size?: string | null; slug: string; sold_out_until?: string | null; stock_quantity?: number; sweetened_with?: string | null; tagline?: string | null; updated_at?: string; };
        Update: { allergens?: string | null; brand?: string | null; caffeine?: string | null; category?: string | null; created_at?: string; description?: string | null; home_position?: number | null; home_section?: ProductHomeSection | null; id?: string; image_url?: string | null; is_active?: boolean; is_low_on_stock?: never; keeps?: string | null; khat_strength?: string | null; low_stock_below?: number | null; more_images?: string[]; name?: string; previous_price?: number | null; price?: number; reason_of_change?: string | null; serving_note?: string | null; size?: string | null; slug?: string; sold_out_until?: string | null; stock_quantity?: number; sweetened_with?: string | null; tagline?: string | null; updated_at?: string; };
        Relationships: [
          { foreignKeyName: "a product's brand is known"; columns: ['brand']; isOneToOne: false; referencedRelation: 'brands'; referencedColumns: ['name'] },
          { foreignKeyName: "a product's category exists"; columns: ['category']; isOneToOne: false; referencedRelation: 'categories'; referencedColumns: ['name'] },
        ];
      };
      push_subscriptions: {
        Row: { auth_secret: string; created_at: string; device: string; endpoint: string; failures: number; id: string; kinds: string[]; last_sent_at: string | null; p256dh: string; session_id: string | null; user_id: string; };
        Insert: { auth_secret: string; created_at?: string; device: string; endpoint: string; failures?: number; id?: string; kinds: string[]; last_sent_at?: string | null; p256dh: string; session_id?: string | null; user_id: string; };
        Update: { auth_secret?: string; created_at?: string; device?: string; endpoint?: string; failures?: number; id?: string; kinds?: string[]; last_sent_at?: string | null; p256dh?: string; session_id?: string | null; user_id?: string; };
        Relationships: [
        ];
      };
      ratings: {
        Row: { created_at: string; may_quote: boolean; order_id: string; quoted_at: string | null; stars: number; updated_at: string; words: string | null; is_on_home_page: boolean; };
        Insert: { created_at?: string; may_quote?: boolean; order_id: string; quoted_at?: string | null; stars: number; updated_at?: string; words?: string | null; };
        Update: { created_at?: string; may_quote?: boolean; order_id?: string; quoted_at?: string | null; stars?: number; updated_at?: string; words?: string | null; };
        Relationships: [
          { foreignKeyName: "ratings_order_id_fkey"; columns: ['order_id']; isOneToOne: true; referencedRelation: 'orders'; referencedColumns: ['id'] },
        ];
      };
      reconciliation_events: {
        Row: { actor_email: string | null; actor_id: string | null; happened_at: string; id: number; kind: ReconciliationEventKind; note: string | null; order_id: string | null; payment_id: string | null; receipt: string | null; };
        Insert: { actor_email?: string | null; actor_id?: string | null; happened_at?: string; id?: never; kind: ReconciliationEventKind; note?: string | null; order_id?: string | null; payment_id?: string | null; receipt?: string | null; };
        Update: { actor_email?: string | null; actor_id?: string | null; happened_at?: string; id?: never; kind?: ReconciliationEventKind; note?: string | null; order_id?: string | null; payment_id?: string | null; receipt?: string | null; };
        Relationships: [
        ];
      };
      refunds: {
        Row: { approved_alone: boolean; approved_at: string | null; approved_by: string | null; approved_by_email: string | null; check_count: number; completed_at: string | null; conversation_id: string | null; created_at: string; id: string; method: RefundMethod; needs_approval: boolean; next_check_at: string | null; originator_conversation_id: string | null; payment_id: string | null; reason: string; receipt: string | null; refund_cents: number; refund_receipt: string | null; requested_by: string | null; requested_by_email: string | null; result_code: string | null; result_description: string | null; sent_at: string | null; sent_twice_at: string | null; sent_twice_note: string | null; sent_twice_seen_at: string | null; sent_twice_seen_by: string | null; sent_twice_seen_by_email: string | null; status: RefundStatus; transaction_receipt: string | null; tries: number; updated_at: string; };
        Insert: { approved_alone?: boolean; approved_at?: string | null; approved_by?: string | null; approved_by_email?: string | null; check_count?: number; completed_at?: string | null; conversation_id?: string | null; created_at?: string; id?: string; method: RefundMethod; needs_approval?: boolean; next_check_at?: string | null; originator_conversation_id?: string | null; payment_id?: string | null; reason: string; receipt?: string | null; refund_cents: number; refund_receipt?: string | null; requested_by?: string | null; requested_by_email?: string | null; result_code?: string | null; result_description?: string | null; sent_at?: string | null; sent_twice_at?: string | null; sent_twice_note?: string | null; sent_twice_seen_at?: string | null; sent_twice_seen_by?: string | null; sent_twice_seen_by_email?: string | null; status: RefundStatus; transaction_receipt?: string | null; tries?: number; updated_at?: string; };
        Update: { approved_alone?: boolean; approved_at?: string | null; approved_by?: string | null; approved_by_email?: string | null; check_count?: number; completed_at?: string | null; conversation_id?: string | null; created_at?: string; id?: string; method?: RefundMethod; needs_approval?: boolean; next_check_at?: string | null; originator_conversation_id?: string | null; payment_id?: string | null; reason?: string; receipt?: string | null; refund_cents?: number; refund_receipt?: string | null; requested_by?: string | null; requested_by_email?: string | null; result_code?: string | null; result_description?: string | null; sent_at?: string | null; sent_twice_at?: string | null; sent_twice_note?: string | null; sent_twice_seen_at?: string | null; sent_twice_seen_by?: string | null; sent_twice_seen_by_email?: string | null; status?: RefundStatus; transaction_receipt?: string | null; tries?: number; updated_at?: string; };
        Relationships: [
          { foreignKeyName: "a refund is of a payment"; columns: ['payment_id']; isOneToOne: false; referencedRelation: 'payments'; referencedColumns: ['id'] },
          { foreignKeyName: "a refund is of a transaction"; columns: ['transaction_receipt']; isOneToOne: false; referencedRelation: 'mpesa_transactions'; referencedColumns: ['receipt'] },
        ];
      };
      reply_templates: {
        Row: { body: string; created_at: string; id: string; title: string; updated_at: string; };
        Insert: { body: string; created_at?: string; id?: string; title: string; updated_at?: string; };
        Update: { body?: string; created_at?: string; id?: string; title?: string; updated_at?: string; };
        Relationships: [
        ];
      };
      rider_links: {
        Row: { created_at: string; created_by_email: string | null; expires_at: string; id: string; revoked_at: string | null; rider_id: string; secret_hash: string; };
        Insert: { created_at?: string; created_by_email?: string | null; expires_at: string; id?: string; revoked_at?: string | null; rider_id: string; secret_hash: string; };
        Update: { created_at?: string; created_by_email?: string | null; expires_at?: string; id?: string; revoked_at?: string | null; rider_id?: string; secret_hash?: string; };
        Relationships: [
          { foreignKeyName: "rider_links_rider_id_fkey"; columns: ['rider_id']; isOneToOne: false; referencedRelation: 'riders'; referencedColumns: ['id'] },
        ];
      };
      riders: {
        Row: { created_at: string; id: string; is_active: boolean; is_practice: boolean; last_seen_at: string | null; name: string; phone: string; plate: string; updated_at: string; vehicle: string; };
        Insert: { created_at?: string; id?: string; is_active?: boolean; is_practice?: boolean; last_seen_at?: string | null; name: string; phone: string; plate?: string; updated_at?: string; vehicle: string; };
        Update: { created_at?: string; id?: string; is_active?: boolean; is_practice?: boolean; last_seen_at?: string | null; name?: string; phone?: string; plate?: string; updated_at?: string; vehicle?: string; };
        Relationships: [
        ];
      };
      search_synonyms: {
        Row: { created_at: string; id: string; means: string; stem: string; word: string; };
        Insert: { created_at?: string; id?: string; means?: string; stem?: string; word: string; };
        Update: { created_at?: string; id?: string; means?: string; stem?: string; word?: string; };
        Relationships: [
        ];
      };
      shop_texts: {
        Row: { body: string; default_body: string; default_title: string; slug: ShopTextSlug; title: string; updated_at: string; };
        Insert: { body: string; default_body: string; default_title: string; slug: ShopTextSlug; title: string; updated_at?: string; };
        Update: { body?: string; default_body?: string; default_title?: string; slug?: ShopTextSlug; title?: string; updated_at?: string; };
        Relationships: [
        ];
      };
      statement_pulls: {
        Row: { finished_at: string | null; id: number; leased_until: string; missed_since: string | null; new_payments: number | null; outcome: StatementPullOutcome; payments: number | null; problem: string | null; started_at: string; unreadable: number | null; window_from: string; window_to: string; };
        Insert: { finished_at?: string | null; id?: never; leased_until: string; missed_since?: string | null; new_payments?: number | null; outcome?: StatementPullOutcome; payments?: number | null; problem?: string | null; started_at?: string; unreadable?: number | null; window_from: string; window_to: string; };
        Update: { finished_at?: string | null; id?: never; leased_until?: string; missed_since?: string | null; new_payments?: number | null; outcome?: StatementPullOutcome; payments?: number | null; problem?: string | null; started_at?: string; unreadable?: number | null; window_from?: string; window_to?: string; };
        Relationships: [
        ];
      };
      stock_alerts: {
        Row: { created_at: string; ends_at: string; id: string; phone: string; product_id: string; };
        Insert: { created_at?: string; ends_at?: string; id?: string; phone: string; product_id: string; };
        Update: { created_at?: string; ends_at?: string; id?: string; phone?: string; product_id?: string; };
        Relationships: [
          { foreignKeyName: "stock_alerts_product_id_fkey"; columns: ['product_id']; isOneToOne: false; referencedRelation: 'products'; referencedColumns: ['id'] },
        ];
      };
      stock_changes: {
        Row: { cause: StockChangeCause; changed_at: string; changed_by: string | null; changed_by_email: string | null; from_units: number; id: number; order_id: string | null; product_id: string; reason: string | null; to_units: number; };
        Insert: { cause: StockChangeCause; changed_at?: string; changed_by?: string | null; changed_by_email?: string | null; from_units: number; id?: never; order_id?: string | null; product_id: string; reason?: string | null; to_units: number; };
        Update: { cause?: StockChangeCause; changed_at?: string; changed_by?: string | null; changed_by_email?: string | null; from_units?: number; id?: never; order_id?: string | null; product_id?: string; reason?: string | null; to_units?: number; };
        Relationships: [
        ];
      };
      store_settings: {
        Row: { announces_delays: boolean; asks_delivery_code: boolean; chat_phone: string; days_off: Json; delivery_fee: number; facebook_url: string; id: boolean; inquiries_months: number; instagram_url: string; kra_pin: string; mails_per_day: number; offers_cash: boolean; offers_stock_alerts: boolean; opening_hours: Json; order_details_months: number; orders_pause_reason: string | null; orders_paused_until: string | null; paybill_number: string; payment_limit: number; payment_messages_months: number; queue_minutes: number; refund_approval_above: number; refuses_unknown_payments: boolean; requires_terms_tick: boolean; reservation_minutes: number; reserved_share_percent: number; seller_address: string; seller_registration: string; store_name: string; support_email: string; support_phone: string; takes_cash: boolean; texts_per_day: number; tiktok_url: string; till_number: string; unpaid_orders_per_phone: number; updated_at: string; };
        Insert: { announces_delays?: boolean; asks_delivery_code?: boolean; chat_phone?: string; days_off?: Json; delivery_fee?: number; facebook_url?: string; id?: boolean; inquiries_months?: number; instagram_url?: string; kra_pin?: string; mails_per_day?: number; offers_cash?: boolean; offers_stock_alerts?: boolean; opening_hours?: Json; order_details_months?: number; orders_pause_reason?: string | null; orders_paused_until?: string | null; paybill_number?: string; payment_limit?: number; payment_messages_months?: number; queue_minutes?: number; refund_approval_above?: number; refuses_unknown_payments?: boolean; requires_terms_tick?: boolean; reservation_minutes?: number; reserved_share_percent?: number; seller_address?: string; seller_registration?: string; store_name?: string; support_email?: string; support_phone?: string; takes_cash?: boolean; texts_per_day?: number; tiktok_url?: string; till_number?: string; unpaid_orders_per_phone?: number; updated_at?: string; };
        Update: { announces_delays?: boolean; asks_delivery_code?: boolean; chat_phone?: string; days_off?: Json; delivery_fee?: number; facebook_url?: string; id?: boolean; inquiries_months?: number; instagram_url?: string; kra_pin?: string; mails_per_day?: number; offers_cash?: boolean; offers_stock_alerts?: boolean; opening_hours?: Json; order_details_months?: number; orders_pause_reason?: string | null; orders_paused_until?: string | null; paybill_number?: string; payment_limit?: number; payment_messages_months?: number; queue_minutes?: number; refund_approval_above?: number; refuses_unknown_payments?: boolean; requires_terms_tick?: boolean; reservation_minutes?: number; reserved_share_percent?: number; seller_address?: string; seller_registration?: string; store_name?: string; support_email?: string; support_phone?: string; takes_cash?: boolean; texts_per_day?: number; tiktok_url?: string; till_number?: string; unpaid_orders_per_phone?: number; updated_at?: string; };
        Relationships: [
        ];
      };
    };
    Views: { [name in never]: never };
    Functions: {
      acknowledge_sent_twice: { Args: { refund_id: string; note: string; }; Returns: Database['public']['Tables']['refunds']['Row']; SetofOptions: { from: '*'; to: 'refunds'; isOneToOne: true; isSetofReturn: false }; };
      agree_cash: { Args: { order_id: string; }; Returns: undefined };
      agree_delivery: { Args: { order_id: string; fee_cents: number; delivery_day: string; }; Returns: undefined };
      allow_backup_download: { Args: { backup_id: number; }; Returns: string };
      answer_inquiry: { Args: { inquiry_id: string; way: string; body: string; seen_answered_at?: string | null; subject?: string | null; text_body?: string | null; }; Returns: Database['public']['CompositeTypes']['status_change'] };
      applied_migrations: { Args: Record<PropertyKey, never>; Returns: string[] };
      approve_refund: { Args: { refund_id: string; }; Returns: Database['public']['Tables']['refunds']['Row']; SetofOptions: { from: '*'; to: 'refunds'; isOneToOne: true; isSetofReturn: false }; };
      are_prompts_paused: { Args: Record<PropertyKey, never>; Returns: boolean };
      assign_delivery: { Args: { order_id: string; delivery_person: string; delivery_phone: string; delivery_vehicle: string; delivery_notes?: string | null; seen_updated_at?: string | null; }; Returns: Database['public']['Tables']['deliveries']['Row']; SetofOptions: { from: '*'; to: 'deliveries'; isOneToOne: true; isSetofReturn: false }; };
      begin_message: { Args: { message_id: string; lease: string; body: string; subject?: string | null; }; Returns: number };
      begin_payment: { Args: { order_id: string; tracking_number: string; phone: string; callback_secret: string; expected_cents?: number | null; same_amount_seconds?: number | null; requested_by?: string | null; }; Returns: Json };
      begin_payment_test: { Args: { phone: string; callback_secret: string; requested_by: string; }; Returns: Database['public']['Tables']['payments']['Row']; SetofOptions: { from: '*'; to: 'payments'; isOneToOne: true; isSetofReturn: false }; };
      begin_till_registration: { Args: Record<PropertyKey, never>; Returns: undefined };
      block_phone: { Args: { phone: string; reason: string; }; Returns: undefined };
      cancel_own_order: { Args: { tracking_number: string; access_key: string; expected_payment_status: string; }; Returns: Json };
      cash_due_of_day: { Args: { day: string; }; Returns: Database['public']['CompositeTypes']['cash_due'][] };
      cash_of_day: { Args: { day: string; }; Returns: { member: string; email: string; taken_cents: number; given_back_cents: number; expected_cents: number; handed_over: Database['public']['CompositeTypes']['handed_over'][]; }[] };
      change_member: { Args: { member_id: string; role?: string | null; name?: string | null; is_active?: boolean | null; }; Returns: undefined };
      change_order_items: { Args: { order_id: string; access_key: string; items: Json; expected_total: number; }; Returns: Json };
      change_stock: { Args: { product_id: string; by: number; reason?: string | null; seen_units?: number | null; }; Returns: number };
      check_discount_code: { Args: { code: string; }; Returns: Json };
      check_invitation: { Args: { email: string; role: string; name: string; }; Returns: undefined };
      check_repeat: { Args: { message_id: string; }; Returns: { problem: string; is_true: boolean; }[] };
      check_typed_receipt: { Args: { order_id: string; receipt: string; }; Returns: Database['public']['CompositeTypes']['typed_receipt'] };
      choose_cash: { Args: { order_id: string; access_key: string; }; Returns: Json };
      claim_due_jobs: { Args: { busy?: string[] | null; }; Returns: string[] };
      claim_payment_job: { Args: { action: string; }; Returns: boolean };
      close_day: { Args: { day: string; counts: Json; note?: string | null; }; Returns: Database['public']['Tables']['day_closes']['Row']; SetofOptions: { from: '*'; to: 'day_closes'; isOneToOne: true; isSetofReturn: false }; };
      close_unknown_refund: { Args: { refund_id: string; refund_receipt?: string | null; }; Returns: Database['public']['Tables']['refunds']['Row']; SetofOptions: { from: '*'; to: 'refunds'; isOneToOne: true; isSetofReturn: false }; };
      confirm_newsletter: { Args: { token: string; }; Returns: boolean };
      confirm_till_payment: { Args: { order_id: string; receipt: string; received_cents: number; only_if_unpaid?: boolean | null; although_not_reported?: boolean | null; }; Returns: Database['public']['CompositeTypes']['settled_payment'] };
      correct_search: { Args: { search: string; }; Returns: string };
      correct_till_payment: { Args: { payment_id: string; seen_receipt: string; seen_cents: number; receipt: string; received_cents: number; }; Returns: Database['public']['CompositeTypes']['settled_payment'] };
      count_deliveries: { Args: { search?: string | null; status?: string | null; from_day?: string | null; until_day?: string | null; rider?: string | null; due?: string | null; }; Returns: number };
      count_orders: { Args: { search?: string | null; status?: string | null; payment?: string | null; from_day?: string | null; until_day?: string | null; rider?: string | null; due?: string | null; }; Returns: number };
      count_payments_since: { Args: { since?: string | null; }; Returns: { count: number; newest: string; }[] };
      count_product_orders: { Args: { product_id: string; }; Returns: { orders: number; unpaid: number; }[] };
      count_recovery_codes: { Args: Record<PropertyKey, never>; Returns: number };
      count_work: { Args: Record<PropertyKey, never>; Returns: { to_prepare: number; ready: number; on_the_way: number; failed: number; late: number; unpaid: number; refunds_due: number; to_assign: number; late_deliveries: number; cash_not_received: number; to_cancel: number; to_agree: number; }[] };
      credit_for_order: { Args: { order_id: string; }; Returns: Database['public']['CompositeTypes']['owed_credit'][] };
      customer_by_phone: { Args: { phone: string; }; Returns: Database['public']['CompositeTypes']['known_customer'] };
      customer_page: { Args: { phone: string; }; Returns: Database['public']['CompositeTypes']['shown_customer'] };
      customer_quotes: { Args: Record<PropertyKey, never>; Returns: Database['public']['CompositeTypes']['customer_quote'][] };
      daily_figures: { Args: { days?: number | null; }; Returns: { day: string; page_views: number; orders: number; failed_deliveries: number; }[] };
      dashboard_figures: { Args: Record<PropertyKey, never>; Returns: { products: number; orders: number; inquiries: number; revenue: number; received: number; received_this_week: number; received_today: number; }[] };
      day_totals: { Args: { day: string; }; Returns: { placed: number; rounding: number; not_paid: number; paid_otherwise: number; other_amounts: number; received_for_orders: number; paid_other_days: number; placed_other_days: number; received: number; refunded: number; net_received: number; other_clock: number; booked: number; delivery_fees: number; in_review: number; by_prompt: number; by_till: number; in_cash: number; refunded_by_mpesa: number; refunded_by_hand: number; refunded_in_cash: number; kept: number; paid_with_credit: number; missing_at_mpesa: number; not_compared: number; amounts_differ: number; not_matched: number; not_ours: number; returned_unmatched: number; at_mpesa: number; discounts: number; }[] };
      decline_cancel_request: { Args: { order_id: string; reason: string; }; Returns: undefined };
      delivery_estimates: { Args: Record<PropertyKey, never>; Returns: { area_id: string; hour: number; deliveries: number; median_minutes: number; p90_minutes: number; }[] };
      delivery_promise: { Args: { area_id?: string | null; }; Returns: Json };
      delivery_report: { Args: { since: string; until: string; }; Returns: Database['public']['CompositeTypes']['delivery_report'] };
      dismiss_ended_pay_link: { Args: { order_id: string; }; Returns: undefined };
      dismiss_message_to_check: { Args: { message_id: number; note: string; }; Returns: Database['public']['Tables']['messages_to_check']['Row']; SetofOptions: { from: '*'; to: 'messages_to_check'; isOneToOne: true; isSetofReturn: false }; };
      drinks_to_order: { Args: { search?: string | null; ids?: string[] | null; }; Returns: { id: string; name: string; brand: string; price: number; image_url: string; units_left: number; sold: number; }[] };
      ended_pay_links: { Args: Record<PropertyKey, never>; Returns: { order_id: string; order_number: string; customer_name: string; charge_cents: number; ended_at: string; }[] };
      enter_message_to_check: { Args: { message_id: number; receipt: string; received_cents: number; transacted_at: string; }; Returns: Database['public']['CompositeTypes']['settled_payment'] };
      erase_person: { Args: { identifier: string; }; Returns: Database['public']['CompositeTypes']['erasure'] };
      expire_reservations: { Args: { at_most?: number | null; }; Returns: number };
      export_person: { Args: { identifier: string; }; Returns: Json };
      extend_statement_pull: { Args: { pull_id: number; }; Returns: boolean };
      find_payment: { Args: { reference: string; }; Returns: Json };
      find_products: { Args: { search?: string | null; category?: string | null; before_created_at?: string | null; before_id?: string | null; page_size?: number | null; sort?: string | null; low_on_stock?: boolean | null; }; Returns: Database['public']['Tables']['products']['Row'][]; SetofOptions: { from: '*'; to: 'products'; isOneToOne: false; isSetofReturn: true }; };
      find_refund_by_secret: { Args: { result_secret: string; }; Returns: string };
      finish_message: { Args: { message_id: string; attempt: number; outcome: string; problem?: string | null; gateway_reference?: string | null; }; Returns: string };
      finish_push: { Args: { push_id: number; lease: string; outcome: string; retry_after_seconds?: number | null; }; Returns: undefined };
      finish_statement_pull: { Args: { pull_id: number; payments?: number | null; new_payments?: number | null; unreadable?: number | null; problem?: string | null; }; Returns: undefined };
      finish_without_code: { Args: { delivery_id: string; reason: string; }; Returns: Database['public']['CompositeTypes']['status_change'] };
      forget_old_rows: { Args: Record<PropertyKey, never>; Returns: number };
      give_back_cash: { Args: { payment_id: string; reason: string; }; Returns: Database['public']['Tables']['refunds']['Row']; SetofOptions: { from: '*'; to: 'refunds'; isOneToOne: true; isSetofReturn: false }; };
      grant_cancel_request: { Args: { order_id: string; sends_back?: boolean | null; }; Returns: string };
      home_products: { Args: { newest?: number | null; }; Returns: Database['public']['Tables']['products']['Row'][]; SetofOptions: { from: '*'; to: 'products'; isOneToOne: false; isSetofReturn: true }; };
      is_admin: { Args: Record<PropertyKey, never>; Returns: boolean };
      is_recent_order: { Args: { order_id: string; }; Returns: boolean };
      issue_newsletter_tokens: { Args: { subscription_id: string; }; Returns: { confirm: string; unsubscribe: string; }[] };
      keep_own_order: { Args: { tracking_number: string; access_key: string; }; Returns: Json };
      kept_for_customers: { Args: { only_owed?: boolean | null; before_created_at?: string | null; before_id?: string | null; page_size?: number | null; }; Returns: Database['public']['CompositeTypes']['kept_money'][] };
      kept_totals: { Args: Record<PropertyKey, never>; Returns: { owed_cents: number; used_cents: number; returned_cents: number; customers: number; }[] };
      learn_delivery_times: { Args: Record<PropertyKey, never>; Returns: undefined };
      lease_daraja_token: { Args: { account: string; stale_token?: string | null; }; Returns: Database['public']['CompositeTypes']['daraja_token_lease'] };
      lease_messages: { Args: { at_most?: number | null; channel?: string | null; }; Returns: Database['public']['CompositeTypes']['leased_message'][] };
      lease_payment_queries: { Args: { at_most?: number | null; per_minute?: number | null; }; Returns: Database['public']['Tables']['payments']['Row'][]; SetofOptions: { from: '*'; to: 'payments'; isOneToOne: false; isSetofReturn: true }; };
      lease_pushes: { Args: { at_most?: number | null; }; Returns: { id: number; lease: string; endpoint: string; p256dh: string; auth_secret: string; notice_id: string; kind: string; event_key: string; order_id: string; seconds_to_live: number; facts: Json; }[] };
      lease_refunds: { Args: { at_most?: number | null; }; Returns: { work: string; refund: Database['public']['Tables']['refunds']['Row']; secret: string; }[] };
      lease_statement_pull: { Args: { every?: string | null; }; Returns: Database['public']['Tables']['statement_pulls']['Row'][]; SetofOptions: { from: '*'; to: 'statement_pulls'; isOneToOne: false; isSetofReturn: true }; };
      list_brands: { Args: Record<PropertyKey, never>; Returns: string[] };
      list_categories: { Args: Record<PropertyKey, never>; Returns: { id: string; name: string; is_active: boolean; products: number; }[] };
      list_customers: { Args: { search?: string | null; kind?: string | null; sort?: string | null; before_created_at?: string | null; before_id?: string | null; page_size?: number | null; }; Returns: Database['public']['CompositeTypes']['listed_customer'][] };
      list_discount_codes: { Args: { search?: string | null; before_created_at?: string | null; before_id?: string | null; page_size?: number | null; only_id?: string | null; }; Returns: { id: string; code: string; percent: number; amount_cents: number; minimum_cents: number; starts_at: string; ends_at: string; max_uses: number; max_uses_per_phone: number; is_active: boolean; created_at: string; updated_at: string; uses: number; waiting: number; cost_cents: number; sold_cents: number; has_orders: boolean; }[] };
      list_own_sessions: { Args: Record<PropertyKey, never>; Returns: { id: string; created_at: string; last_seen_at: string; user_agent: string; address: string; is_current: boolean; }[] };
      list_pages: { Args: Record<PropertyKey, never>; Returns: { kind: string; name: string; slug: string; page_text: string; products: number; is_active: boolean; updated_at: string; }[] };
      list_riders: { Args: Record<PropertyKey, never>; Returns: { id: string; name: string; phone: string; vehicle: string; plate: string; is_active: boolean; last_seen_at: string; updated_at: string; open_deliveries: number; link_expires_at: string; }[] };
      list_unprocessed_confirmations: { Args: { at_most?: number | null; }; Returns: { id: number; body: string; }[] };
      list_unsettled_callbacks: { Args: { at_most?: number | null; }; Returns: { id: number; payment_id: string; body: string; }[] };
      make_recovery_codes: { Args: Record<PropertyKey, never>; Returns: string[] };
      mark_all_inquiries_read: { Args: { seen_until?: string | null; }; Returns: number };
      mark_inquiry_read: { Args: { inquiry_id: string; }; Returns: string };
      may: { Args: { area: string; }; Returns: boolean };
      message_budgets: { Args: Record<PropertyKey, never>; Returns: { channel: OutboxMessageChannel; sent: number; sent_without_priority: number; per_day: number; over_budget: number; reason: string; }[] };
      money_entries: { Args: { since: string; until: string; after_time?: string | null; after_id?: string | null; page_size?: number | null; }; Returns: Database['public']['CompositeTypes']['money_entry'][] };
      move_on: { Args: { delivery_id: string; expected_step: string; step: string; delivery_person?: string | null; delivery_phone?: string | null; delivery_vehicle?: string | null; }; Returns: Database['public']['CompositeTypes']['status_change'] };
      note_change: { Args: { payment_id: string; kind: ChangeNoteKind; amount_cents: number; receipt?: string | null; note?: string | null; way?: ChangeNoteWay | null; seen_notes?: number | null; }; Returns: Database['public']['Tables']['change_notes']['Row']; SetofOptions: { from: '*'; to: 'change_notes'; isOneToOne: true; isSetofReturn: false }; };
      note_customer: { Args: { phone: string; notes: string; seen_at?: string | null; }; Returns: undefined };
      note_mpesa_settings: { Args: { digest: string; }; Returns: undefined };
      note_refund_by_hand: { Args: { refund_receipt: string; reason: string; payment_id?: string | null; receipt?: string | null; is_sure?: boolean | null; }; Returns: Database['public']['Tables']['refunds']['Row']; SetofOptions: { from: '*'; to: 'refunds'; isOneToOne: true; isSetofReturn: false }; };
      open_backup_download: { Args: { token: string; is_started?: boolean | null; }; Returns: string };
      open_rider_link: { Args: { rider_id: string; }; Returns: Database['public']['CompositeTypes']['rider_link'] };
      order_again: { Args: { access_key: string; idempotency_key: string; expected_total: number; accepts_terms?: boolean | null; }; Returns: Json };
      order_receipt: { Args: { tracking_number: string; access_key?: string | null; phone_last_four?: string | null; }; Returns: Json };
      orders_by_access_key: { Args: { access_keys: string[]; }; Returns: Json };
      pause_orders: { Args: { reason: string; minutes?: number | null; }; Returns: undefined };
      payment_health: { Args: Record<PropertyKey, never>; Returns: Database['public']['CompositeTypes']['payment_health'] };
      place_order: { Args: { idempotency_key: string; product_id?: string | null; quantity?: number | null; customer_name?: string | null; customer_email?: string | null; customer_phone?: string | null; delivery_location?: string | null; expected_total?: number | null; building?: string | null; unit?: string | null; delivery_notes?: string | null; accepts_terms?: boolean | null; items?: Json | null; source?: string | null; is_collected?: boolean | null; discount_code?: string | null; area_id?: string | null; map_point?: string | null; }; Returns: Json };
      practice_rider: { Args: { is_practice: boolean; }; Returns: string };
      product_and_related: { Args: { product_slug: string; related_limit?: number | null; }; Returns: Database['public']['Tables']['products']['Row'][]; SetofOptions: { from: '*'; to: 'products'; isOneToOne: false; isSetofReturn: true }; };
      product_history: { Args: { product_id: string; before_stock_change?: number | null; before_price_change?: number | null; page_size?: number | null; }; Returns: { kind: string; id: number; from_value: number; to_value: number; cause: string; order_id: string; order_number: string; changed_by_email: string; changed_at: string; reason: string; }[] };
      push_public_key: { Args: Record<PropertyKey, never>; Returns: string };
      quote_rating: { Args: { order_id: string; is_quoted: boolean; seen_updated_at: string; }; Returns: undefined };
      rate_order: { Args: { order_id: string; access_key: string; stars: number; words?: string | null; may_quote?: boolean | null; }; Returns: Json };
      read_push_keys: { Args: Record<PropertyKey, never>; Returns: { public_key: string; private_key: string; }[] };
      read_till_secret: { Args: Record<PropertyKey, never>; Returns: string };
      receipts_not_in_statement: { Args: { receipts: string[]; }; Returns: string[] };
      receive_cash: { Args: { order_id: string; received_cents: number; received_from?: string | null; difference?: string | null; note?: string | null; }; Returns: Database['public']['Tables']['payments']['Row']; SetofOptions: { from: '*'; to: 'payments'; isOneToOne: true; isSetofReturn: false }; };
      receive_mpesa_transaction: { Args: { source: PaymentMessageSource; receipt: string; received_cents: number; reference?: string | null; transacted_at?: string | null; payer_phone?: string | null; payer_name?: string | null; body?: string | null; message_id?: number | null; kind?: string | null; unreadable?: string[] | null; reversed_receipt?: string | null; }; Returns: Database['public']['CompositeTypes']['settled_payment'] };
      recent_riders: { Args: Record<PropertyKey, never>; Returns: { name: string; phone: string; vehicle: string; open_deliveries: number; last_assigned_at: string; }[] };
      reconciliation_day: { Args: { day: string; }; Returns: Database['public']['CompositeTypes']['reconciliation_day'] };
      reconciliation_days: { Args: { since: string; until: string; }; Returns: { day: string; ours: number; theirs: number; payments: number; matched: number; missing_here: number; missing_there: number; not_compared: number; doubles: number; wrong_amounts: number; open: number; }[] };
      record_backup: { Args: { started_at: string; outcome: BackupOutcome; file_name?: string | null; size?: number | null; problem?: string | null; }; Returns: undefined };
      record_backup_check: { Args: { backup_id: number; problem?: string | null; }; Returns: undefined };
      record_invitation: { Args: { member_id: string; role: string; name: string; invited_by: string; }; Returns: undefined };
      record_mpesa_registration: { Args: { kind: string; api_version?: string | null; }; Returns: undefined };
      record_page_views: { Args: { views: Json; }; Returns: undefined };
      record_push: { Args: { payment_id: string; body: string; merchant_request_id?: string | null; checkout_request_id?: string | null; refusal_code?: string | null; refusal_description?: string | null; refusal_ended_by?: PaymentEndedBy | null; }; Returns: Database['public']['Tables']['payments']['Row']; SetofOptions: { from: '*'; to: 'payments'; isOneToOne: true; isSetofReturn: false }; };
      record_reversal_push: { Args: { refund_id: string; body: string; conversation_id?: string | null; originator_conversation_id?: string | null; refusal_code?: string | null; refusal_description?: string | null; }; Returns: Database['public']['Tables']['refunds']['Row']; SetofOptions: { from: '*'; to: 'refunds'; isOneToOne: true; isSetofReturn: false }; };
      refund_approvers: { Args: Record<PropertyKey, never>; Returns: { email: string; }[] };
      refund_part: { Args: { payment_id: string; amount_cents: number; way: ChangeNoteWay; reason: string; receipt?: string | null; seen_notes?: number | null; }; Returns: Database['public']['Tables']['change_notes']['Row']; SetofOptions: { from: '*'; to: 'change_notes'; isOneToOne: true; isSetofReturn: false }; };
      register_storefront: { Args: { token_hash: string; }; Returns: undefined };
      repeat_message: { Args: { message_id: string; }; Returns: Database['public']['Tables']['outbox_messages']['Row']; SetofOptions: { from: '*'; to: 'outbox_messages'; isOneToOne: true; isSetofReturn: false }; };
      report: { Args: { since: string; until: string; }; Returns: Database['public']['CompositeTypes']['report'] };
      request_backup: { Args: Record<PropertyKey, never>; Returns: undefined };
      request_backup_check: { Args: { backup_id: number; }; Returns: undefined };
      request_refund: { Args: { reason: string; payment_id?: string | null; receipt?: string | null; is_sure?: boolean | null; }; Returns: Database['public']['Tables']['refunds']['Row']; SetofOptions: { from: '*'; to: 'refunds'; isOneToOne: true; isSetofReturn: false }; };
      request_stock_alert: { Args: { product_id: string; phone: string; has_consented?: boolean | null; }; Returns: Json };
      reset_second_factor: { Args: { member_id: string; }; Returns: undefined };
      resolve_difference: { Args: { decision: string; receipt?: string | null; payment_id?: string | null; order_id?: string | null; note?: string | null; is_sure?: boolean | null; }; Returns: Database['public']['CompositeTypes']['resolved_difference'] };
      resolve_paid_order: { Args: { order_id: string; resolution: string; }; Returns: undefined };
      resolve_review: { Args: { order_id: string; decision: string; seen_cents: number; receipt?: string | null; note?: string | null; }; Returns: string };
      resume_orders: { Args: Record<PropertyKey, never>; Returns: undefined };
      resume_prompts: { Args: Record<PropertyKey, never>; Returns: undefined };
      revoke_rider_link: { Args: { rider_id: string; }; Returns: undefined };
      rider_page: { Args: { secret: string; }; Returns: Json };
      rider_press: { Args: { secret: string; press_key: string; delivery_id: string; step: string; code?: string | null; received_cents?: number | null; is_other_amount?: boolean | null; failure_reason?: string | null; seconds_ago?: number | null; }; Returns: Json };
      same_again: { Args: { access_keys: string[]; }; Returns: Json };
      save_push_subscription: { Args: { endpoint: string; p256dh: string; auth_secret: string; device: string; kinds: string[]; }; Returns: string };
      save_rider: { Args: { name: string; phone: string; vehicle: string; plate?: string | null; is_active?: boolean | null; rider_id?: string | null; seen_updated_at?: string | null; }; Returns: Database['public']['Tables']['riders']['Row']; SetofOptions: { from: '*'; to: 'riders'; isOneToOne: true; isSetofReturn: false }; };
      search_audit: { Args: { area?: string | null; person?: string | null; from_day?: string | null; until_day?: string | null; before_created_at?: string | null; before_id?: string | null; page_size?: number | null; }; Returns: Database['public']['CompositeTypes']['audit_row'][] };
      search_deliveries: { Args: { search?: string | null; status?: string | null; from_day?: string | null; until_day?: string | null; rider?: string | null; due?: string | null; before_created_at?: string | null; before_id?: string | null; page_size?: number | null; sort?: string | null; }; Returns: Database['public']['Tables']['deliveries']['Row'][]; SetofOptions: { from: '*'; to: 'deliveries'; isOneToOne: false; isSetofReturn: true }; };
      search_inquiries: { Args: { search?: string | null; before_created_at?: string | null; before_id?: string | null; page_size?: number | null; unread?: boolean | null; sort?: string | null; }; Returns: Database['public']['Tables']['inquiries']['Row'][]; SetofOptions: { from: '*'; to: 'inquiries'; isOneToOne: false; isSetofReturn: true }; };
      search_messages: { Args: { search?: string | null; status?: string | null; channel?: string | null; before_created_at?: string | null; before_id?: string | null; page_size?: number | null; sort?: string | null; }; Returns: Database['public']['Tables']['outbox_messages']['Row'][]; SetofOptions: { from: '*'; to: 'outbox_messages'; isOneToOne: false; isSetofReturn: true }; };
      search_orders: { Args: { search?: string | null; status?: string | null; payment?: string | null; from_day?: string | null; until_day?: string | null; rider?: string | null; due?: string | null; before_created_at?: string | null; before_id?: string | null; page_size?: number | null; sort?: string | null; }; Returns: Database['public']['Tables']['orders']['Row'][]; SetofOptions: { from: '*'; to: 'orders'; isOneToOne: false; isSetofReturn: true }; };
      search_products: { Args: { search?: string | null; page_size?: number | null; }; Returns: Database['public']['Tables']['products']['Row'][]; SetofOptions: { from: '*'; to: 'products'; isOneToOne: false; isSetofReturn: true }; };
      send_message_again: { Args: { message_id: string; }; Returns: Database['public']['Tables']['outbox_messages']['Row']; SetofOptions: { from: '*'; to: 'outbox_messages'; isOneToOne: true; isSetofReturn: false }; };
      send_test_message: { Args: { channel: string; recipient: string; }; Returns: Database['public']['Tables']['outbox_messages']['Row']; SetofOptions: { from: '*'; to: 'outbox_messages'; isOneToOne: true; isSetofReturn: false }; };
      send_withheld_messages: { Args: { channel?: string | null; }; Returns: Json };
      set_delivery_status: { Args: { delivery_id: string; status: DeliveryStatus; expected_status: DeliveryStatus; although_unpaid?: boolean | null; failure_reason?: string | null; }; Returns: Database['public']['CompositeTypes']['status_change'] };
      set_order_status: { Args: { order_id: string; status: OrderStatus; expected_status: OrderStatus; expected_payment_status: OrderPaymentStatus; although_unpaid?: boolean | null; }; Returns: Database['public']['CompositeTypes']['status_change'] };
      set_sold_out: { Args: { product_id: string; span?: string | null; }; Returns: string };
      settle_payment: { Args: { payment_id: string; source: PaymentMessageSource; body: string; result: string; result_code?: string | null; result_description?: string | null; received_cents?: number | null; receipt?: string | null; merchant_request_id?: string | null; checkout_request_id?: string | null; source_address?: string | null; unreadable?: string[] | null; ended_by?: PaymentEndedBy | null; message_id?: number | null; }; Returns: Database['public']['CompositeTypes']['settled_payment'] };
      settle_reversal: { Args: { refund_id: string; source: PaymentMessageSource; body: string; result: string; result_code?: string | null; result_description?: string | null; refund_receipt?: string | null; refund_cents?: number | null; originator_conversation_id?: string | null; source_address?: string | null; unreadable?: string[] | null; }; Returns: Database['public']['CompositeTypes']['settled_refund'] };
      settle_write: { Args: { write_id: string; }; Returns: { is_saved: boolean; answer: Json; }[] };
      shop_metrics: { Args: Record<PropertyKey, never>; Returns: { metric: string; label: string; value: number; }[] };
      shop_page: { Args: { search?: string | null; brand?: string | null; category?: string | null; sort?: string | null; page?: number | null; }; Returns: Json };
      show_pay_link: { Args: { order_id: string; }; Returns: Database['public']['CompositeTypes']['pay_link'] };
      sort_delivery_areas: { Args: { ids: string[]; }; Returns: undefined };
      staff_names: { Args: Record<PropertyKey, never>; Returns: { email: string; name: string; }[] };
      staff_settings: { Args: Record<PropertyKey, never>; Returns: Database['public']['Tables']['store_settings']['Row']; SetofOptions: { from: '*'; to: 'store_settings'; isOneToOne: true; isSetofReturn: false }; };
      statement_status: { Args: Record<PropertyKey, never>; Returns: Database['public']['CompositeTypes']['statement_status'] };
      store_callback: { Args: { callback_secret: string; body: string; source_address?: string | null; }; Returns: { message_id: number; payment_id: string; }[] };
      store_confirmation: { Args: { body: string; source_address?: string | null; }; Returns: number };
      store_daraja_token: { Args: { account: string; lease: string; token: string; fresh_for_ms: number; }; Returns: boolean };
      store_push_keys: { Args: { public_key: string; private_key: string; }; Returns: undefined };
      subscribe_to_newsletter: { Args: { email: string; }; Returns: Json };
      suggest_orders: { Args: { receipt: string; search?: string | null; }; Returns: Database['public']['CompositeTypes']['suggested_order'][] };
      system_status: { Args: Record<PropertyKey, never>; Returns: { checked_at: string; last_backup_at: string; last_backup_outcome: BackupOutcome; last_attempt_at: string; last_attempt_outcome: BackupOutcome; last_attempt_problem: string; last_payment_answer_at: string; overdue_payments: number; opened_at: string; prompts_paused_since: string; }[] };
      take_back_cash: { Args: { payment_id: string; reason: string; }; Returns: undefined };
      take_back_credit: { Args: { payment_id: string; reason: string; }; Returns: undefined };
      take_back_payment: { Args: { payment_id: string; note?: string | null; }; Returns: string };
      team: { Args: Record<PropertyKey, never>; Returns: { user_id: string; email: string; name: string; role: string; is_active: boolean; is_invited: boolean; invited_at: string; created_at: string; last_seen_at: string; second_factors: number; }[] };
      till_registration: { Args: Record<PropertyKey, never>; Returns: { registered_at: string; api_version: string; }[] };
      track_order: { Args: { tracking_number: string; access_key?: string | null; phone_last_four?: string | null; }; Returns: Json };
      typical_price: { Args: Record<PropertyKey, never>; Returns: number };
      unblock_phone: { Args: { phone: string; }; Returns: undefined };
      undo_status_change: { Args: { change_id: string; }; Returns: undefined };
      unsubscribe_from_newsletter: { Args: { token: string; }; Returns: boolean };
      use_credit: { Args: { order_id: string; note?: string | null; }; Returns: Database['public']['Tables']['payments']['Row']; SetofOptions: { from: '*'; to: 'payments'; isOneToOne: true; isSetofReturn: false }; };
      use_recovery_code: { Args: { code: string; }; Returns: Json };
      validate_till_payment: { Args: { reference: string; offered_cents: number; }; Returns: string };
      waiting_notices: { Args: Record<PropertyKey, never>; Returns: { id: string; kind: string; event_key: string; order_id: string; created_at: string; facts: Json; }[] };
      withdraw_answer: { Args: { answer_id: string; }; Returns: undefined };
      withdraw_invitation: { Args: { member_id: string; }; Returns: undefined };
      withdraw_refund: { Args: { refund_id: string; }; Returns: Database['public']['Tables']['refunds']['Row']; SetofOptions: { from: '*'; to: 'refunds'; isOneToOne: true; isSetofReturn: false }; };
      work_queue: { Args: Record<PropertyKey, never>; Returns: Database['public']['Tables']['deliveries']['Row'][]; SetofOptions: { from: '*'; to: 'deliveries'; isOneToOne: false; isSetofReturn: true }; };
    };
    Enums: { [name in never]: never };
    CompositeTypes: {
      active_pause: { code: string; description: string; since: string; until: string; is_refused: boolean; };
      audit_row: { id: string; created_at: string; area: string; kind: string; actor_id: string; actor_email: string; subject: string; before: Json; after: Json; };
      cash_due: { person: string; orders: number; cents: number; open_orders: number; };
      customer_quote: { words: string; first_name: string; area: string; };
      daraja_token_lease: { state: string; token: string; fresh_for_ms: number; lease: string; };
      delivery_failures: { reason: string; failures: number; };
      delivery_line: { name: string; delivered: number; on_time: number; median_minutes: number; p90_minutes: number; failures: number; ratings: number; average_stars: number; };
      delivery_report: { total: Database['public']['CompositeTypes']['delivery_line']; areas: Database['public']['CompositeTypes']['delivery_line'][]; hours: Database['public']['CompositeTypes']['delivery_line'][]; riders: Database['public']['CompositeTypes']['delivery_line'][]; reasons: Database['public']['CompositeTypes']['delivery_failures'][]; };
      erased_counts: { orders: number; payments_for_others: number; inquiries: number; newsletter: number; };
      erasure: { identifier: string; erased: Database['public']['CompositeTypes']['erased_counts']; postponed: Database['public']['CompositeTypes']['postponed_order'][]; };
      handed_over: { person: string; payments: number; cents: number; };
      kept_money: { id: string; order_id: string; order_number: string; customer_name: string; customer_phone: string; created_at: string; kept_cents: number; used_cents: number; returned_cents: number; owed_cents: number; used_orders: string; };
      known_address: { address: string; notes: string; };
      known_customer: { phone: string; name: string; email: string; orders: number; received_cents: number; addresses: Database['public']['CompositeTypes']['known_address'][]; last_orders: Database['public']['CompositeTypes']['past_order'][]; };
      leased_message: { id: string; lease: string; kind: OutboxMessageKind; channel: OutboxMessageChannel; recipient: string; subject: string; body: string; facts: Json; is_verbatim: boolean; };
      listed_customer: { id: string; created_at: string; phone: string; name: string; orders: number; spent_cents: number; credit_cents: number; is_blocked: boolean; };
      money_entry: { id: string; happened_at: string; kind: string; order_id: string; order_number: string; tracking_number: string; customer_name: string; customer_phone: string; receipt: string; received_cents: number; refunded_cents: number; kept_cents: number; delivery_fee: number; items: string; member_email: string; received_from: string; note: string; discount_cents: number; };
      owed_credit: { payment_id: string; order_id: string; order_number: string; owed_cents: number; noted_at: string; unconfirmed_receipt: string; };
      past_item: { product_id: string; product_name: string; quantity: number; unit_price: number; };
      past_order: { id: string; order_number: string; created_at: string; status: string; payment_status: string; total_amount: number; items: Database['public']['CompositeTypes']['past_item'][]; };
      pay_link: { tracking_number: string; access_key: string; };
      payment_health: { checked_at: string; pause: Database['public']['CompositeTypes']['active_pause']; refunds_to_approve: number; refunds_unknown: number; refunds_stuck: number; refunds_sent_twice: number; limit_raise: Database['public']['CompositeTypes']['refund_limit_raise']; token_fresh_until: string; last_push: Database['public']['CompositeTypes']['received_message']; last_callback: Database['public']['CompositeTypes']['received_message']; refunds_to_approve_by_me: number; };
      period: { starts_at: string; ends_at: string; };
      postponed_order: { id: string; order_number: string; reason: string; is_own: boolean; };
      received_message: { received_at: string; outcome: string; source_address: string; };
      reconciliation_day: { day: string; rows: Database['public']['CompositeTypes']['reconciliation_row'][]; is_covered: boolean; missed: Database['public']['CompositeTypes']['period'][]; };
      reconciliation_row: { id: string; happened_at: string; kind: string; is_open: boolean; receipt: string; our_cents: number; their_cents: number; payment_id: string; payment_status: PaymentStatus; method: PaymentMethod; needs_refund: boolean; refunded_at: string; refund_status: RefundStatus; order_id: string; order_number: string; tracking_number: string; customer_name: string; charge_cents: number; order_payment_status: OrderPaymentStatus; reference: string; payer_name: string; payer_phone: string; reported_by_confirmation_at: string; reported_by_statement_at: string; resolution: ReconciliationEventKind; order_status: OrderStatus; order_booked_cents: number; order_waiting_cents: number; owed_cents: number; returned_cents: number; confirmed_by: string; };
      refund_limit_raise: { raised_by_email: string; raised_at: string; raised_from: number; raised_to: number; applies_from: string; current_limit: number; };
      report: { days: Database['public']['CompositeTypes']['report_day'][]; drinks: Database['public']['CompositeTypes']['report_drink'][]; hours: Database['public']['CompositeTypes']['report_hour'][]; areas: Database['public']['CompositeTypes']['report_area'][]; riders: Database['public']['CompositeTypes']['report_rider'][]; refunds: Database['public']['CompositeTypes']['report_refund'][]; prompts: Database['public']['CompositeTypes']['report_prompt'][]; discounts: Database['public']['CompositeTypes']['report_discount'][]; };
      report_area: { area: string; orders: number; cents: number; };
      report_day: { day: string; orders: number; sold: number; sold_cents: number; received_cents: number; refunded_cents: number; net_cents: number; };
      report_discount: { code: string; orders: number; cents: number; };
      report_drink: { name: string; brand: string; orders: number; units: number; cents: number; };
      report_hour: { hour: number; orders: number; cents: number; };
      report_prompt: { status: string; result_code: string; prompts: number; };
      report_refund: { kind: string; reason: string; refunds: number; cents: number; };
      report_rider: { rider: string; orders: number; delivered: number; failures: number; cash_cents: number; };
      resolved_difference: { decision: string; outcome: string; payment_id: string; };
      rider_link: { secret: string; expires_at: string; };
      settled_payment: { outcome: string; payment: Database['public']['Tables']['payments']['Row']; };
      settled_refund: { outcome: string; refund: Database['public']['Tables']['refunds']['Row']; };
      shown_customer: { phone: string; name: string; email: string; orders: number; cancelled: number; spent_cents: number; credit_cents: number; first_order_at: string; notes: string; notes_by: string; notes_at: string; is_blocked: boolean; block_reason: string; blocked_by: string; blocked_at: string; };
      statement_status: { checked_at: string; till_registered_at: string; statement_registered_at: string; last_confirmation_at: string; last_complete_at: string; covered_until: string; problem: string; missed: Database['public']['CompositeTypes']['period'][]; unsettled_messages: number; unmatched: number; to_check: number; unconfirmed: number; waiting_since: string; };
      status_change: { change_id: string; undo_seconds: number; notifies_customer: boolean; };
      suggested_order: { id: string; order_number: string; tracking_number: string; customer_name: string; customer_phone: string; items: string; total_amount: number; charge_cents: number; payment_status: OrderPaymentStatus; status: OrderStatus; created_at: string; lacks_receipt: boolean; is_named: boolean; fits_amount: boolean; phone_match: string; shares_name: boolean; is_certain: boolean; };
      typed_receipt: { receipt: string; state: string; reported_cents: number; order_number: string; };
    };
  };
};
