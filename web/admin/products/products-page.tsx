// The products: search, filters, activation, and the dialogs to add, edit and delete (docs/product.md#products-screen).
import { useState } from 'react';
import { Link, useSearchParams } from 'react-router';
import { Button, buttonStyle } from '../../ui/button.tsx';
import { fromThisPage } from '../dialogs/use-dialog-url-close.ts';
import { describeStaffPage } from '../layout/staff-page.ts';
import { useMember } from '../layout/use-member.tsx';
import type { CsvColumn } from '../list/csv.ts';
import { ExportButton } from '../list/export-button.tsx';
import { MoreFilters } from '../list/list-filters.tsx';
import { FilterSelect, SearchBox } from '../list/list-toolbar.tsx';
import { ListFrame, noneFound, RowList } from '../list/row-list.tsx';
import { useListFilters } from '../list/use-list-filters.ts';
import type { Route } from './+types/products-page.ts';
import { CategoriesDialog } from './categories-dialog.tsx';
import { DeleteProduct } from './delete-product.tsx';
import { ProductRow, productColumns } from './product-columns.tsx';
import { ProductDialog, withProductDialog } from './product-dialog.tsx';
import { type ListedProduct, readProducts, useCategories, useProducts } from './product-queries.ts';
import { SynonymsDialog } from './synonyms-dialog.tsx';
import { useProductToggle } from './use-product-toggle.ts';

export const meta: Route.MetaFunction = ({ matches }) => describeStaffPage(matches, 'Products');

const exported: CsvColumn<ListedProduct>[] = [
  { title: 'Name', value: ({ name }) => name },
  { title: 'Slug', value: ({ slug }) => slug },
  { title: 'Tagline', value: ({ tagline }) => tagline },
  { title: 'Price (KES)', value: ({ price }) => price / 100 },
  {
    title: 'Before Offer (KES)',
    value: ({ previous_price }) => (previous_price === null ? null : previous_price / 100),
  },
  { title: 'Category', value: ({ category }) => category },
  { title: 'Stock', value: ({ stock_quantity }) => stock_quantity },
  { title: 'Status', value: ({ is_active }) => (is_active ? 'Active' : 'Inactive') },
];

export default function ProductsPage() {
  const { tables } = useMember().staff;
  const filters = useListFilters({ search: '', category: '' });
  const products = useProducts(filters.values);
  const categories = useCategories();
  const { toggle, isToggling, withPendingToggle } = useProductToggle();
  const [isManaging, setManaging] = useState(false);
  const [isEditingSearch, setEditingSearch] = useState(false);
  const [deleted, setDeleted] = useState<{ product: ListedProduct; isOpen: boolean } | null>(null);

  const handlers = {
    isToggling,
    onToggle: (product: ListedProduct) => void toggle(product),
    onDelete: (product: ListedProduct) => setDeleted({ product, isOpen: true }),
  };
  return (
    <>
      <ListFrame
        heading="Products"
        subtitle="Manage your product catalog"
        actions={<AddProduct />}
        tools={
          <>
            <SearchBox
              placeholder="Search products..."
              searched={filters.values.search}
              onSearch={(text) => filters.set('search', text)}
            />
            <FilterSelect
              label="Category"
              value={filters.values.category}
              options={[
                { value: '', label: 'All Categories' },
                ...(categories.data ?? [])
                  .filter(({ is_active }) => is_active)
                  .map(({ name }) => ({ value: name, label: name })),
              ]}
              onChoose={(category) => filters.set('category', category)}
            />
            <MoreFilters label="More">
              <Button tone="quiet" aria-haspopup="dialog" onClick={() => setManaging(true)}>
                Manage Categories
              </Button>
              <Button tone="quiet" aria-haspopup="dialog" onClick={() => setEditingSearch(true)}>
                Search Words
              </Button>
              <ExportButton name="products" read={readProducts(tables, filters.values)} columns={exported} />
            </MoreFilters>
          </>
        }
      >
        <RowList
          {...products}
          rows={products.rows.map(withPendingToggle)}
          label="Products"
          columns={productColumns(handlers)}
          compact={(product) => <ProductRow product={product} handlers={handlers} />}
          skeletons={3}
          empty={
            filters.isNarrowed
              ? noneFound('products', 'Try another name or category.', filters.clear)
              : {
                  title: 'No products yet',
                  text: 'What you add here is in the shop at once.',
                  action: <AddProduct />,
                }
          }
        />
      </ListFrame>
      <ProductDialog />
      <CategoriesDialog open={isManaging} onClose={() => setManaging(false)} />
      <SynonymsDialog open={isEditingSearch} onClose={() => setEditingSearch(false)} />
      {deleted ? (
        <DeleteProduct
          key={deleted.product.id}
          product={deleted.product}
          open={deleted.isOpen}
          onClose={() => setDeleted({ ...deleted, isOpen: false })}
          onDeactivate={(product) => void toggle(product)}
        />
      ) : null}
    </>
  );
}

function AddProduct() {
  const [parameters] = useSearchParams();
  return (
    <Link
      to={{ search: withProductDialog(parameters, 'new').toString() }}
      state={fromThisPage}
      preventScrollReset
      aria-haspopup="dialog"
      className={buttonStyle()}
    >
      Add Product
    </Link>
  );
}
