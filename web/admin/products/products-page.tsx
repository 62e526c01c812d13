// The products: search, filters, activation, and the dialogs to add, edit and delete (docs/product.md#products-screen).
import { useState } from 'react';
import { Link, useSearchParams } from 'react-router';
import { Button, buttonStyle } from '../../ui/button.tsx';
import { fromThisPage } from '../dialogs/use-dialog-url-close.ts';
import { useMember } from '../layout/roles/use-member.tsx';
import { describeStaffPage } from '../layout/staff-page.ts';
import type { CsvColumn } from '../list/export/csv.ts';
import { ExportButton } from '../list/export/export-button.tsx';
import { MoreFilters, QuickFilters } from '../list/list-filters.tsx';
import { FilterSelect, SearchBox } from '../list/list-toolbar.tsx';
import { ListFrame, noneFound, RowList } from '../list/row-list.tsx';
import { useListFilters } from '../list/use-list-filters.ts';
import { useRowKeys } from '../list/use-row-keys.ts';
import { ImplausibleDialog } from '../prices/implausible-dialog.tsx';
import { questionsAboutProduct } from '../prices/plausible-figures.ts';
import type { Route } from './+types/products-page.ts';
import { CategoriesDialog } from './categories-dialog.tsx';
import { DeleteProduct } from './delete-product.tsx';
import { ProductRow, productColumns } from './product-columns.tsx';
import { ProductDialog, withProductDialog } from './product-dialog.tsx';
import {
  type ListedProduct,
  readProducts,
  useCategories,
  useLowStockCount,
  useProducts,
} from './product-queries.ts';
import { useStockChanges } from './stock/use-stock-changes.ts';
import { SynonymsDialog } from './synonyms/synonyms-dialog.tsx';
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

const orders = [
  { value: '', label: 'Newest first' },
  { value: 'stock', label: 'Least stock first' },
  { value: '-stock', label: 'Most stock first' },
  { value: 'name', label: 'Name, A to Z' },
  { value: '-name', label: 'Name, Z to A' },
  { value: 'price', label: 'Lowest price first' },
  { value: '-price', label: 'Highest price first' },
];

export default function ProductsPage() {
  const { tables } = useMember().staff;
  const filters = useListFilters({ search: '', category: '', stock: '', sort: '' });
  const { search, category, stock } = filters.values;
  const products = useProducts(filters.values);
  useRowKeys(products.rows);
  const categories = useCategories();
  const lowStockCount = useLowStockCount();
  const { toggle, isToggling, withPendingToggle } = useProductToggle();
  const { step, type, isChangingStock, withPendingStock } = useStockChanges();
  const [asked, setAsked] = useState<{ questions: string[]; save(): void } | null>(null);
  const [isManaging, setManaging] = useState(false);
  const [isEditingSearch, setEditingSearch] = useState(false);
  const [deleted, setDeleted] = useState<{ product: ListedProduct; isOpen: boolean } | null>(null);

  const handlers = {
    isChangingStock,
    onStep: step,
    onType(product: ListedProduct, seen: number, units: number, reason: string) {
      const save = () => type(product, seen, units, reason);
      const { price } = product;
      const questions = questionsAboutProduct({ price, stock: seen }, { price, stock: units }, null);
      if (questions.length > 0) setAsked({ questions, save });
      else save();
    },
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
              <FilterSelect
                label="Sort by"
                value={filters.values.sort}
                options={orders}
                onChoose={(sort) => filters.set('sort', sort)}
              />
              <Button tone="quiet" aria-haspopup="dialog" onClick={() => setManaging(true)}>
                Manage Categories
              </Button>
              <Link to="/admin/products/pages" className={buttonStyle('quiet')}>
                Flavor and Brand Pages
              </Link>
              <Button tone="quiet" aria-haspopup="dialog" onClick={() => setEditingSearch(true)}>
                Search Words
              </Button>
              <ExportButton name="products" read={readProducts(tables, filters.values)} columns={exported} />
            </MoreFilters>
          </>
        }
        chips={
          lowStockCount || stock ? (
            <QuickFilters
              filters={[
                {
                  label: 'Low on stock',
                  count: lowStockCount,
                  isUrgent: true,
                  ...filters.toggle('stock', 'low'),
                },
              ]}
            />
          ) : null
        }
      >
        <RowList
          {...products}
          rows={products.rows.map((product) => withPendingStock(withPendingToggle(product)))}
          label="Products"
          columns={productColumns(handlers)}
          compact={(product) => <ProductRow product={product} handlers={handlers} />}
          skeletons={3}
          sorting={{ value: filters.values.sort, set: (value) => filters.set('sort', value) }}
          empty={
            search || category || stock
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
      <ImplausibleDialog
        questions={asked?.questions ?? null}
        onCancel={() => setAsked(null)}
        onConfirm={() => {
          setAsked(null);
          asked?.save();
        }}
      />
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
      to={{ search: withProductDialog(parameters, { kind: 'new', id: '1' }).toString() }}
      state={fromThisPage}
      preventScrollReset
      aria-haspopup="dialog"
      className={buttonStyle()}
    >
      Add Product
    </Link>
  );
}
