// What the settings are before anyone changes them: the defaults of the table, for pages that cannot read it.
import type { Database } from '../../supabase/types.ts';

export const settingsOfANewShop: Database['public']['Tables']['store_settings']['Row'] = {
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
  refund_approval_above: 100_000,
  refuses_unknown_payments: false,
  updated_at: '1970-01-01T00:00:00Z',
};
