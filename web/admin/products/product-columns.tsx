// A product in the list (specification §2, Admin Products).
import { Link, useSearchParams } from 'react-router';
import { formatKes } from '../../../domain/money.ts';
import { Badge } from '../../ui/badge.tsx';
import { Button } from '../../ui/button.tsx';
import { fromThisPage } from '../../ui/dialog-history.ts';
import { ProductImage } from '../../ui/product-image.tsx';
import { StaffIcon, type StaffIconName } from '../layout/staff-icons.tsx';
import type { Column } from '../list/row-list.tsx';
import { withProductDialog } from './product-dialog.tsx';
import type { ListedProduct } from './product-queries.ts';

/** From so many units on nothing needs to be said about the stock. */
const enough = 10;

interface Handlers {
  /** Whether it is being activated or deactivated. */
  isToggling(product: ListedProduct): boolean;
  onToggle(product: ListedProduct): void;
  onDelete(product: ListedProduct): void;
}

export function productColumns({ isToggling, onToggle, onDelete }: Handlers): Column<ListedProduct>[] {
  return [
    { title: 'Image', card: 'nowhere', show: (product) => <Thumbnail product={product} /> },
    {
      title: 'Name',
      card: 'heading',
      show: (product) => (
        <span className="flex items-center gap-3">
          <span className="contents table:hidden">
            <Thumbnail product={product} />
          </span>
          <span className="min-w-0">
            <span className="block font-semibold">{product.name}</span>
            {product.tagline ? (
              <span className="mt-0.5 block max-w-96 text-sm text-ink-soft">{product.tagline}</span>
            ) : null}
          </span>
        </span>
      ),
    },
    { title: 'Price', isNumber: true, show: (product) => <ProductPrice {...product} /> },
    {
      title: 'Category',
      show: ({ category }) => (
        <span className="table:inline-block table:min-w-28">{category || 'Uncategorized'}</span>
      ),
    },
    { title: 'Stock', isNumber: true, show: ({ stock_quantity }) => <Stock units={stock_quantity ?? 0} /> },
    {
      title: 'Status',
      card: 'corner',
      show: ({ is_active }) => (
        <Badge tone={is_active ? 'green' : 'grey'}>{is_active ? 'Active' : 'Inactive'}</Badge>
      ),
    },
    {
      title: 'Actions',
      card: 'actions',
      show: (product) => (
        <div className="flex items-center gap-1 table:-my-1">
          <Button
            tone="quiet"
            isBusy={isToggling(product)}
            onClick={() => onToggle(product)}
            className="min-w-30 px-4!"
          >
            {product.is_active ? 'Deactivate' : 'Activate'}
            <span className="sr-only"> {product.name}</span>
          </Button>
          <EditLink product={product} />
          <button
            type="button"
            aria-label={`Delete ${product.name}`}
            title="Delete"
            onClick={() => onDelete(product)}
            className={`${iconButton} hover:bg-danger-soft hover:text-danger`}
          >
            <ActionIcon name="bin" />
          </button>
        </div>
      ),
    },
  ];
}

function ProductPrice({ price, previous_price }: ListedProduct) {
  if (previous_price === null) return formatKes(price);
  return (
    <>
      {formatKes(price)}
      <span className="block text-xs whitespace-nowrap text-ink-soft">
        <span className="sr-only">Previous price </span>
        <s>{formatKes(previous_price)}</s>
      </span>
    </>
  );
}

const iconButton =
  'grid size-11 shrink-0 place-items-center rounded-pill text-ink-soft transition-colors hover:bg-paper-deep hover:text-ink';

const ActionIcon = ({ name }: { name: StaffIconName }) => <StaffIcon name={name} className="size-5" />;

function EditLink({ product }: { product: ListedProduct }) {
  const [parameters] = useSearchParams();
  return (
    <Link
      to={{ search: withProductDialog(parameters, product.id).toString() }}
      state={fromThisPage}
      preventScrollReset
      aria-label={`Edit ${product.name}`}
      aria-haspopup="dialog"
      title="Edit"
      className={iconButton}
    >
      <ActionIcon name="pencil" />
    </Link>
  );
}

function Thumbnail({ product }: { product: ListedProduct }) {
  return (
    <span className="@container grid size-14 shrink-0 table:size-12 place-items-center overflow-hidden rounded-md bg-paper-deep text-ink-faint">
      {product.image_url ? (
        <ProductImage src={product.image_url} alt="" sizes="56px" className="size-full text-2xl!" />
      ) : (
        <StaffIcon name="picture" className="size-6" />
      )}
    </span>
  );
}

function Stock({ units }: { units: number }) {
  const figure = units.toLocaleString('en-KE');
  if (units >= enough) return figure;
  return (
    <span className={`font-bold ${units === 0 ? 'text-danger' : 'text-tone-orange'}`}>
      {figure}
      <span className="block text-xs whitespace-nowrap">{units === 0 ? 'Out of stock' : 'Low'}</span>
    </span>
  );
}
