// Reads the areas of delivery for pages with an order form.
import { deliveryAreasTag } from '../../domain/cache-tags.ts';
import type { DeliveryArea } from '../../domain/deliveries/delivery-area.ts';
import type { ShopContext } from './shop-context.ts';

/** The columns of `DeliveryArea`. */
const areaColumns =
  'id, name, spellings, fee_cents, promise_from_minutes, promise_to_minutes, needs_agreement' as const;

/** The active areas in the order of the owner. None where they cannot be read: an order needs none. */
export async function readAreas({
  store,
  addCacheTags,
}: Pick<ShopContext, 'store' | 'addCacheTags'>): Promise<DeliveryArea[]> {
  addCacheTags(deliveryAreasTag);
  const { data: found } = await store.tables
    .from('delivery_areas')
    .select(areaColumns)
    .eq('is_active', true)
    .order('position')
    .order('name');
  return Array.isArray(found) ? found : [];
}
