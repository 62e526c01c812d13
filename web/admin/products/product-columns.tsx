// A product in the list (docs/product.md#products-screen).
import { Link, useSearchParams } from 'react-router';
import { formatKes } from '../../../domain/money.ts';
import { Badge } from '../../ui/badge.tsx';
import { Button } from '../../ui/button.tsx';
import { ProductImage } from '../../ui/product-image.tsx';
import { fromThisPage } from '../dialogs/use-dialog-url-close.ts';
import { StaffIcon, type StaffIconName } from '../layout/staff-icons.tsx';
import type { Column } from '../list/row-list.tsx';
import { withProductDialog } from './product-dialog.tsx';
import type { ListedProduct } from './product-queries.ts';
import { SoldOutMenu, SoldOutNote } from './sold-out.tsx';

/** Up to this stock the list shows the number of units. */
const enough = 10;

interface Handlers {
  /** Whether it is being activated or deactivated. */
  isToggling(product: ListedProduct): boolean;
  onToggle(product: ListedProduct): void;
  onDelete(product: ListedProduct): void;
}

export function productColumns(handlers: Handlers): Column<ListedProduct>[] {
  return [
    { title: 'Image', show: (product) => <Thumbnail product={product} /> },
    {
      title: 'Name',
      show: (product) => (
        <span className="block min-w-0 wrap-anywhere">
          <span className="block font-semibold">{product.name}</span>
          {product.tagline ? (
            <span className="mt-0.5 block max-w-96 text-sm text-ink-soft">{product.tagline}</span>
          ) : null}
        </span>
      ),
    },
    { title: 'Price', isNumber: true, show: (product) => <ProductPrice {...product} /> },
    {
      title: 'Category',
      show: ({ category }) => <span className="inline-block min-w-28">{category || 'Uncategorized'}</span>,
    },
    {
      title: 'Stock',
      isNumber: true,
      show: (product) => (
        <>
          <Stock units={product.stock_quantity ?? 0} />
          <SoldOutNote product={product} />
        </>
      ),
    },
    {
      title: 'Status',
      show: ({ is_active }) => <StatusBadge isActive={is_active} />,
    },
    {
      title: 'Actions',
      show: (product) => (
        <div className="-my-1 flex items-center gap-1">
          <ToggleButton product={product} {...handlers} />
          <EditLink product={product} />
          <DeleteButton product={product} {...handlers} />
          <SoldOutMenu product={product} />
        </div>
      ),
    },
  ];
}

/** On phones: name, price and stock next to the controls. */
export function ProductRow({ product, handlers }: { product: ListedProduct; handlers: Handlers }) {
  const { name, tagline, is_active, category, stock_quantity, price, previous_price } = product;
  return (
    <div className="grid grid-cols-[minmax(0,1fr)_auto] items-center gap-x-3 py-0.5">
      <div className="grid grid-cols-[auto_minmax(0,1fr)] items-center gap-x-3 text-sm leading-5.5">
        <Thumbnail product={product} />
        <div className="grid min-w-0 grid-cols-1 items-center gap-x-6 sm:grid-cols-2">
          <div className="min-w-0">
            <p className="line-clamp-2 leading-5 font-semibold wrap-anywhere" title={name}>
              {name}
            </p>
            {tagline ? <p className="truncate text-xs leading-5 text-ink-soft">{tagline}</p> : null}
          </div>
          <div className="min-w-0">
            <p className="flex flex-wrap items-center gap-x-2 whitespace-nowrap tabular-nums">
              <StatusBadge isActive={is_active} isSmall />
              <span>{formatKes(price)}</span>
              {previous_price === null ? null : <PreviousPrice cents={previous_price} />}
            </p>
            <p className="flex gap-2 whitespace-nowrap">
              <Stock units={stock_quantity ?? 0} isInline />
              <span className="truncate text-ink-soft">{category || 'Uncategorized'}</span>
            </p>
            <SoldOutNote product={product} />
          </div>
        </div>
      </div>
      <div className="grid justify-items-center sm:flex sm:items-center sm:gap-1">
        <ToggleButton product={product} {...handlers} />
        {/* On phones no wider than the button above. */}
        <span className="flex max-sm:-mx-0.5">
          <EditLink product={product} />
          <DeleteButton product={product} {...handlers} />
          <SoldOutMenu product={product} />
        </span>
      </div>
    </div>
  );
}

const StatusBadge = ({ isActive, isSmall }: { isActive: boolean; isSmall?: boolean }) => (
  <Badge tone={isActive ? 'green' : 'grey'} isSmall={isSmall}>
    {isActive ? 'Active' : 'Inactive'}
  </Badge>
);

type ActionProps = Handlers & { product: ListedProduct };

const ToggleButton = ({ product, isToggling, onToggle }: ActionProps) => (
  <Button
    tone="quiet"
    isBusy={isToggling(product)}
    onClick={() => onToggle(product)}
    className="min-w-30 px-4!"
  >
    {product.is_active ? 'Deactivate' : 'Activate'}
    <span className="sr-only"> {product.name}</span>
  </Button>
);

// Busy until the list has the product as it is after a toggle: deleting one that has changed since it was shown is refused.
const DeleteButton = ({ product, isToggling, onDelete }: ActionProps) => (
  <button
    type="button"
    aria-label={`Delete ${product.name}`}
    title="Delete"
    aria-busy={isToggling(product) || undefined}
    aria-disabled={isToggling(product) || undefined}
    onClick={() => (isToggling(product) ? undefined : onDelete(product))}
    className={`${iconButton} hover:bg-danger-soft hover:text-danger`}
  >
    <ActionIcon name="bin" />
  </button>
);

const PreviousPrice = ({ cents }: { cents: number }) => (
  <span className="text-xs leading-5.5 whitespace-nowrap text-ink-soft">
    <span className="sr-only">Previous price </span>
    <s>{formatKes(cents)}</s>
  </span>
);

function ProductPrice({ price, previous_price }: ListedProduct) {
  if (previous_price === null) return formatKes(price);
  return (
    <>
      {formatKes(price)}
      <span className="block">
        <PreviousPrice cents={previous_price} />
      </span>
    </>
  );
}

const iconButton =
  'grid size-11 shrink-0 place-items-center rounded-pill text-ink-soft transition-colors hover:bg-paper-deep hover:text-ink ' +
  'aria-busy:cursor-progress aria-busy:opacity-50';

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
    <span className="@container grid size-12 shrink-0 place-items-center overflow-hidden rounded-md bg-paper-deep text-ink-faint">
      {product.image_url ? (
        <ProductImage src={product.image_url} alt="" sizes="56px" className="size-full text-2xl!" />
      ) : (
        <StaffIcon name="image" className="size-6" />
      )}
    </span>
  );
}

function Stock({ units, isInline = false }: { units: number; isInline?: boolean }) {
  const figure = `${units.toLocaleString('en-KE')}${isInline ? ' left' : ''}`;
  if (units >= enough) return figure;
  return (
    <span className={`font-bold ${units === 0 ? 'text-danger' : 'text-tone-orange'}`}>
      {isInline ? (units === 0 ? null : `${figure} · `) : figure}
      <span className={isInline ? '' : 'block text-xs whitespace-nowrap'}>
        {units === 0 ? 'Out of stock' : 'Low'}
      </span>
    </span>
  );
}
