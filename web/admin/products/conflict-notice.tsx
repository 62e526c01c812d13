// Another member saved the same product first: shows both versions to choose one.

import { type FactColumn, productFacts } from '../../../domain/products/product-facts.ts';
import { Button } from '../../ui/button.tsx';
import type { EditedProduct } from './product-queries.ts';
import {
  changedFields,
  homeSections,
  type ProductField,
  type ProductForm,
  productFormOf,
} from './product-values.ts';
import type { EditConflict, ImageField } from './use-product-save.ts';

const factLabels = Object.fromEntries(productFacts.map(({ column, label }) => [column, label])) as Record<
  FactColumn,
  string
>;

const labels: Record<ProductField | ImageField, string> = {
  name: 'Product Name',
  slug: 'Product Slug',
  tagline: 'Product Tagline',
  price: 'Price (KES)',
  previousPrice: 'Before Offer (KES)',
  stock: 'Stock Quantity',
  lowStockBelow: 'Low Stock Below',
  category: 'Category',
  brand: 'Brand',
  homeSection: 'Home Page',
  homePosition: 'Place in Section',
  ...factLabels,
  description: 'Description',
  image: 'Image',
  moreImages: 'More Images',
};

interface ConflictNoticeProps {
  seen: EditedProduct;
  conflict: EditConflict;
  mine: ProductForm;
  isBusy: boolean;
  onTakeTheirs(): void;
  onWriteMine(): void;
}

export function ConflictNotice({
  seen,
  conflict: { current, fields },
  mine,
  isBusy,
  onTakeTheirs,
  onWriteMine,
}: ConflictNoticeProps) {
  const [before, theirs] = [productFormOf(seen), productFormOf(current)];
  const touched = changedFields(before, mine);
  return (
    <section
      role="alert"
      aria-label="Someone else changed this"
      // On a phone it appears above the visible part.
      ref={(element) => element?.scrollIntoView({ block: 'nearest' })}
      className="grid gap-3 rounded-md border border-ember-200 bg-ember-50 px-4 py-4 text-sm"
    >
      <p>
        <strong className="block text-base">Someone else changed this product in the meantime</strong>
        {fields.length === 1 && fields[0] === 'stock'
          ? 'Units were sold or added since you opened it. Nothing of yours was saved yet.'
          : 'Nothing of yours was saved yet. This is where it is no longer what you saw:'}
      </p>
      <ul className="grid gap-2">
        {fields.map((field) => (
          <li key={field} className="grid gap-0.5 border-l-3 border-ember-400 pl-3 break-words">
            <strong>{labels[field]}</strong>
            {field === 'image' ? (
              <span>There is another image now.</span>
            ) : field === 'moreImages' ? (
              <span>There are other images now.</span>
            ) : (
              <>
                <span>You saw: {shorten(before, field)}</span>
                <span>Now: {shorten(theirs, field)}</span>
                {touched.includes(field) ? (
                  <span>Yours: {shorten(mine, field)}</span>
                ) : (
                  <span className="text-ink-soft">You left it alone: it stays as it is now.</span>
                )}
              </>
            )}
          </li>
        ))}
      </ul>
      <div className="flex flex-wrap gap-3">
        <Button tone="quiet" onClick={onTakeTheirs} disabled={isBusy} className="bg-card!">
          Keep their changes
        </Button>
        <Button tone="dusk" onClick={onWriteMine} isBusy={isBusy}>
          Save mine instead
        </Button>
      </div>
    </section>
  );
}

function shorten(form: ProductForm, field: ProductField): string {
  const text =
    field === 'homeSection'
      ? (homeSections.find(({ value }) => value === form.homeSection)?.label ?? form.homeSection)
      : form[field];
  if (!text.trim()) return 'nothing';
  return text.length > 160 ? `${text.slice(0, 160)}…` : text;
}
