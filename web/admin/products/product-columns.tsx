// A product in the list (docs/product.md#products-screen).
import { Link, useSearchParams } from 'react-router';
import { formatKes } from '../../../domain/money.ts';
import { Badge } from '../../ui/badge.tsx';
import { ProductImage } from '../../ui/product-image.tsx';
import { fromThisPage } from '../dialogs/use-dialog-url-close.ts';
import { StaffIcon, type StaffIconName } from '../layout/sidebar/staff-icons.tsx';
import type { Column } from '../list/row-list.tsx';
import { RowMenu } from '../list/row-menu.tsx';
import { withProductDialog } from './product-dialog.tsx';
import type { ListedProduct } from './product-queries.ts';
import { SoldOutNote, useSoldOutActions } from './stock/sold-out.tsx';
import { type StockHandlers, StockLevel, StockStepper } from './stock/stock-stepper.tsx';

interface Handlers extends StockHandlers {
  /** Whether it is being activated or deactivated. */
  isToggling(product: ListedProduct): boolean;
  onToggle(product: ListedProduct): void;
  onDelete(product: ListedProduct): void;
}

/** Rows of 52 px: two lines, or a control. */
export function productColumns(handlers: Handlers): Column<ListedProduct>[] {
  return [
    { title: 'Image', width: '4.25rem', show: (product) => <Thumbnail product={product} /> },
    {
      title: 'Name',
      sort: 'name',
      show: ({ name, tagline }) => (
        <span className="block min-w-0 leading-5">
          <span className="block truncate font-semibold" title={name}>
            {name}
          </span>
          {tagline ? (
            <span className="block truncate text-xs leading-5 text-ink-soft" title={tagline}>
              {tagline}
            </span>
          ) : null}
        </span>
      ),
    },
    {
      title: 'Price',
      width: '7rem',
      sort: 'price',
      isNumber: true,
      show: (product) => <ProductPrice {...product} />,
    },
    {
      title: 'Category',
      width: '8.5rem',
      show: ({ category }) => (
        <span className="block truncate" title={category ?? undefined}>
          {category || 'Uncategorized'}
        </span>
      ),
    },
    {
      title: 'Stock',
      sort: 'stock',
      width: '14.5rem',
      show: (product) => (
        <div className="flex items-center gap-2">
          <StockStepper product={product} {...handlers} />
          <span className="grid">
            <StockLevel {...product} />
            <SoldOutNote product={product} />
          </span>
        </div>
      ),
    },
    {
      title: 'Status',
      width: '6.5rem',
      show: ({ is_active }) => <StatusBadge isActive={is_active} />,
    },
    {
      title: 'Actions',
      width: '12.5rem',
      show: (product) => <RowActions product={product} {...handlers} />,
    },
  ];
}

/** Without space for a table: what it is, and below it the stock with the controls. */
export function ProductRow({ product, handlers }: { product: ListedProduct; handlers: Handlers }) {
  const { name, tagline, is_active, category, price, previous_price } = product;
  return (
    <div className="flex flex-wrap items-center gap-x-3 gap-y-1 py-1 text-sm leading-5">
      <div className="flex min-w-0 flex-1 basis-48 items-center gap-x-3">
        <Thumbnail product={product} />
        <div className="min-w-0">
          <p className="line-clamp-2 font-semibold wrap-anywhere" title={name}>
            {name}
          </p>
          <p className="truncate text-xs leading-4 text-ink-soft">
            <span>{category || 'Uncategorized'}</span>
            {tagline ? ` · ${tagline}` : null}
          </p>
          <p className="flex min-w-0 items-center gap-x-2 overflow-hidden whitespace-nowrap tabular-nums">
            <span>{formatKes(price)}</span>
            {previous_price === null ? null : <PreviousPrice cents={previous_price} />}
            <StatusBadge isActive={is_active} isSmall />
            <StockLevel {...product} />
            <SoldOutNote product={product} />
          </p>
        </div>
      </div>
      <div className="flex min-w-0 items-center justify-between gap-x-2 max-sm:basis-full">
        <StockStepper product={product} {...handlers} />
        <RowActions product={product} {...handlers} />
      </div>
    </div>
  );
}

const StatusBadge = ({ isActive, isSmall }: { isActive: boolean; isSmall?: boolean }) => (
  <Badge tone={isActive ? 'green' : 'grey'} isSmall={isSmall}>
    {isActive ? 'Active' : 'Inactive'}
  </Badge>
);

type ActionProps = Pick<Handlers, 'isToggling' | 'onToggle' | 'onDelete'> & { product: ListedProduct };

/** A switch; its name says what it does. */
function ToggleButton({ product, isToggling, onToggle }: ActionProps) {
  const { name, is_active } = product;
  const isBusy = isToggling(product);
  const action = is_active ? 'Deactivate' : 'Activate';
  return (
    <button
      type="button"
      title={action}
      aria-busy={isBusy || undefined}
      aria-disabled={isBusy || undefined}
      onClick={() => (isBusy ? undefined : onToggle(product))}
      className="grid h-9 w-12 shrink-0 place-items-center rounded-md aria-busy:cursor-progress aria-busy:opacity-50 rows:h-11 rows:w-11"
    >
      <span
        aria-hidden="true"
        className={`flex h-5.5 w-9.5 items-center rounded-pill border px-0.5 transition-colors forced-colors:border-[ButtonText] ${
          is_active ? 'justify-end border-leaf-700 bg-leaf-600' : 'border-line-strong bg-paper-deep'
        }`}
      >
        <span
          className={`size-4 rounded-pill forced-colors:bg-[ButtonText] ${is_active ? 'bg-white' : 'bg-ink-soft'}`}
        />
      </span>
      <span className="sr-only">
        {action} {name}
      </span>
    </button>
  );
}

function RowActions(actions: ActionProps) {
  const { product } = actions;
  const [parameters] = useSearchParams();
  const soldOutActions = useSoldOutActions(product);
  const linkTo = (kind: 'edit' | 'copy') => ({
    to: { search: withProductDialog(parameters, { kind, id: product.id }).toString() },
    state: fromThisPage,
  });
  return (
    <span className="flex shrink-0 items-center">
      <ToggleButton {...actions} />
      <Link
        {...linkTo('edit')}
        preventScrollReset
        aria-label={`Edit ${product.name}`}
        aria-haspopup="dialog"
        title="Edit"
        data-row-link
        className={iconButton}
      >
        <ActionIcon name="pencil" />
      </Link>
      <DeleteButton {...actions} />
      <RowMenu
        name={product.name}
        actions={() => [...soldOutActions(), { label: 'Duplicate', ...linkTo('copy') }]}
      />
    </span>
  );
}

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
  <span className="text-xs leading-5 whitespace-nowrap text-ink-soft">
    <span className="sr-only">Previous price </span>
    <s>{formatKes(cents)}</s>
  </span>
);

function ProductPrice({ price, previous_price }: ListedProduct) {
  if (previous_price === null) return formatKes(price);
  return (
    <>
      {formatKes(price)}
      <span className="block leading-4">
        <PreviousPrice cents={previous_price} />
      </span>
    </>
  );
}

const iconButton =
  'grid size-9 shrink-0 place-items-center rounded-pill text-ink-soft transition-colors hover:bg-paper-deep hover:text-ink rows:size-11 ' +
  'aria-busy:cursor-progress aria-busy:opacity-50';

const ActionIcon = ({ name }: { name: StaffIconName }) => <StaffIcon name={name} className="size-5" />;

function Thumbnail({ product }: { product: ListedProduct }) {
  return (
    <span className="@container grid size-11 shrink-0 place-items-center overflow-hidden rounded-md bg-paper-deep text-ink-faint">
      {product.image_url ? (
        <ProductImage src={product.image_url} alt="" sizes="56px" className="size-full text-2xl!" />
      ) : (
        <StaffIcon name="image" className="size-6" />
      )}
    </span>
  );
}
