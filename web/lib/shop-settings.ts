// The settings that every page reads, and their defaults for when they cannot be read.
import type { DayOff, OpenSpan } from '../../domain/deliveries/delivery-promise.ts';
import { describeOpening, endOfDay, type Opening } from '../../domain/orders/opening-hours.ts';
import { type OrderPause, orderPauseOf, type PauseSettings } from '../../domain/orders/order-pause.ts';
import type { Store } from '../../supabase/store.ts';
import type { Database } from '../../supabase/types.ts';
import type { ShopContext } from './shop-context.ts';

/** The public settings that do not change by themselves. */
export type ShopSettings = Omit<
  Database['public']['Tables']['store_settings']['Row'],
  | 'refund_approval_above'
  | 'refuses_unknown_payments'
  | 'payment_messages_months'
  | 'unpaid_orders_per_phone'
  | 'reserved_share_percent'
  | 'order_details_months'
  | 'inquiries_months'
  | 'texts_per_day'
  | 'mails_per_day'
  | 'takes_cash'
  | 'opening_hours'
  | 'days_off'
  | 'queue_minutes'
  | 'announces_delays'
  | 'asks_delivery_code'
  // In words (`readOpening`) or on few pages (`web/storefront/contact/seller.ts`).
  | 'seller_address'
  | 'seller_registration'
  | 'kra_pin'
  | keyof PauseSettings
>;

const shopSettingsColumns =
  'id, store_name, support_phone, chat_phone, support_email, instagram_url, facebook_url, tiktok_url, delivery_fee, reservation_minutes, till_number, paybill_number, requires_terms_tick, payment_limit, offers_cash, offers_stock_alerts, updated_at, orders_pause_reason, orders_paused_until, opening_hours, days_off, seller_address';

export const defaultShopSettings: ShopSettings = {
  id: true,
  store_name: 'Jani Juice',
  support_phone: '+254700000000',
  chat_phone: '+254700000000',
  support_email: 'hello@jani.example',
  instagram_url: 'https://instagram.example/janijuice',
  facebook_url: 'https://facebook.example/janijuice',
  tiktok_url: 'https://tiktok.example/@janijuice',
  delivery_fee: 100,
  reservation_minutes: 15,
  till_number: '',
  paybill_number: '',
  requires_terms_tick: false,
  payment_limit: 25_000_000,
  offers_cash: false,
  offers_stock_alerts: true,
  updated_at: '1970-01-01T00:00:00Z',
};

/** Reads the settings. All loaders send the same request, so that the server asks the database once. */
export const readShopSettings = ({ tables }: Store) =>
  tables.from('store_settings').select(shopSettingsColumns).single();

/**
 * The pause of orders that a page shows, which is cached until its end.
 * @returns null while the shop takes orders
 */
export function readPause(settings: PauseSettings, cacheUntil: ShopContext['cacheUntil']): OrderPause | null {
  cacheUntil(settings.orders_paused_until);
  return orderPauseOf(settings, Date.now());
}

/**
 * Opening hours and days off in words; a page with days off is cached until the end of the day.
 * @returns null for a shop that is always open
 */
export function readOpening(
  settings: Pick<Database['public']['Tables']['store_settings']['Row'], 'opening_hours' | 'days_off'> | null,
  cacheUntil: ShopContext['cacheUntil'],
): Opening | null {
  if (!settings) return null;
  const now = Date.now();
  const { opening_hours, days_off } = settings;
  // The table accepts nothing else.
  const opening = describeOpening(
    opening_hours as unknown as OpenSpan[],
    days_off as unknown as DayOff[],
    now,
  );
  if (opening && opening.daysOff.length > 0) cacheUntil(endOfDay(now));
  return opening;
}
