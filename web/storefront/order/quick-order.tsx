// The order dialog of a drink in a list. Loaded on use.
import { lazy, type ReactElement, Suspense, useState } from 'react';
import type { DeliveryArea } from '../../../domain/deliveries/delivery-area.ts';
import { withTimeout } from '../../../domain/timeout.ts';
import { createStore, type StoreAddress } from '../../../supabase/store.ts';
import { readAreas } from '../../lib/delivery-areas.ts';
import { type OrderedProduct, readProduct } from './lines/order-lines.ts';
import type { SimilarDrink } from './similar-drinks.tsx';

// A dynamic import, so that all files of the dialog load at the same time.
const loadDialog = () => import('./order-dialog.tsx');
const OrderDialog = lazy(loadDialog);

const similarCount = 3;
/** Maximum time in ms that a tap waits for the drink, as for the code of a dialog. */
const timeoutMs = 10_000;

let opened = 0;

/**
 * @param link names the drink
 * @throws when the code or the drink cannot be loaded, or the drink is not sold
 */
export async function quickOrder(link: HTMLElement, config: StoreAddress): Promise<ReactElement> {
  const store = createStore(config);
  const product_slug = link.dataset.order ?? '';
  const [found, areas] = await withTimeout(
    Promise.all([
      store.tables
        .rpc('product_and_related', { product_slug, related_limit: similarCount })
        .select('id, slug, name, price, image_url, category, brand, stock_quantity:units_for_sale'),
      readAreas({ store, addCacheTags() {} }),
      loadDialog(),
    ]),
    timeoutMs,
  );
  const [product, ...similar] = (Array.isArray(found.data) ? found.data : []).flatMap(
    (row) => readProduct(row) ?? [],
  );
  if (!product) throw new Error('The drink could not be read');
  // Another tap is another form.
  opened += 1;
  return <QuickOrder key={opened} product={product} areas={areas} similar={similar} />;
}

interface QuickOrderProps {
  product: OrderedProduct;
  areas: readonly DeliveryArea[];
  similar: readonly SimilarDrink[];
}

function QuickOrder({ product, areas, similar }: QuickOrderProps) {
  const [quantity, setQuantity] = useState(1);
  const [isOpen, setOpen] = useState(true);
  return (
    <Suspense fallback={null}>
      <OrderDialog
        product={product}
        areas={areas}
        interrupted={null}
        like={undefined}
        quantity={quantity}
        onQuantityChange={setQuantity}
        similar={similar}
        open={isOpen}
        onClose={() => setOpen(false)}
      />
    </Suspense>
  );
}
