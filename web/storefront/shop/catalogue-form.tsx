// Search, brand, flavour and sort of the product list: a form that works without JavaScript. The filters are a sheet
// on phones and a row next to the search from 768 px on. The sheet is a popover, which opens without JavaScript too.
import { useEffect, useRef, useState } from 'react';
import {
  type CatalogueQuery,
  type ListOrder,
  readCatalogueQuery,
  sortOrders,
  usualOrder,
} from '../../../domain/products/catalogue.ts';
import { Button } from '../../ui/button.tsx';
import { useDialogEntry } from '../../ui/dialog/dialog-history.ts';
import { FlavourDot } from '../../ui/flavour.tsx';
import { Icon } from '../../ui/icons.tsx';

const sortLabels: Record<ListOrder, string> = {
  match: 'Best match',
  popularity: 'Popularity',
  brand: 'Brand',
  flavor: 'Flavor',
  price: 'Price',
};

interface CatalogueFormProps {
  query: CatalogueQuery;
  brands: string[];
  categories: string[];
  /** Number of matching products. */
  count: number;
  onChange: (query: CatalogueQuery) => void;
  isSheetOpen: boolean;
  onSheetToggle: (isOpen: boolean) => void;
}

const box =
  'block w-full min-h-12 rounded-md border border-line-strong bg-card text-base text-ink hover:border-dusk-500 md:min-h-11 md:text-sm';

function readForm(form: HTMLFormElement): CatalogueQuery {
  const entries = [...new FormData(form)].map(([name, value]) => [name, String(value)]);
  return readCatalogueQuery(new URLSearchParams(entries));
}

function isPopoverOpen(element: HTMLElement | null): boolean {
  try {
    return element?.matches(':popover-open') ?? false;
  } catch {
    // Browsers without popovers do not support the selector.
    return false;
  }
}

export function CatalogueForm({
  query,
  brands,
  categories,
  count,
  onChange,
  isSheetOpen,
  onSheetToggle,
}: CatalogueFormProps) {
  const form = useRef<HTMLFormElement>(null);
  const sheet = useRef<HTMLDivElement>(null);
  const closer = useRef<HTMLButtonElement>(null);
  // Without popovers the filters unfold in the form; without JavaScript, too, they are then always unfolded.
  const [unfolds, setUnfolds] = useState(false);
  const usual = usualOrder(query.search);
  const chosenSort = query.sort === usual ? '' : query.sort;
  // A sort leaves nothing out.
  const chosenCount = [query.brand, query.category].filter(Boolean).length;

  // Text that was typed before hydration counts too.
  // biome-ignore lint/correctness/useExhaustiveDependencies: once, on hydration
  useEffect(() => {
    if (!form.current) return;
    const early = readForm(form.current);
    if (JSON.stringify(early) !== JSON.stringify(query)) onChange(early);
    // A sheet that was opened before hydration stays open. A form that is mounted again has a closed one.
    onSheetToggle(isPopoverOpen(sheet.current));
    setUnfolds(!window.CSS.supports('selector(:popover-open)'));
  }, []);
  // By its button: the sheet closes wherever the button does.
  const close = () => (unfolds ? onSheetToggle(false) : closer.current?.click());
  useDialogEntry(isSheetOpen, () => {
    close();
    return true;
  });

  return (
    <search aria-label="Filter drinks" className="md:contents">
      <form
        ref={form}
        action="/shop"
        onChange={(event) => onChange(readForm(event.currentTarget))}
        onSubmit={(event) => {
          event.preventDefault();
          close();
          onChange(readForm(event.currentTarget));
        }}
        className="flex flex-wrap gap-2 md:contents"
      >
        {/* With large text the button wraps below the field. */}
        <div className="relative min-w-[min(10rem,100%)] flex-1">
          <label htmlFor="shop-search" className="sr-only">
            Search
          </label>
          <input
            id="shop-search"
            name="search"
            maxLength={100}
            type="search"
            autoComplete="off"
            enterKeyHint="search"
            defaultValue={query.search}
            placeholder="Search drinks"
            className={`${box} pr-12 pl-4 placeholder:text-ink-faint`}
          />
          <button
            type="submit"
            aria-label="Search"
            className="absolute right-0 bottom-0 grid size-12 place-items-center rounded-md md:size-11 text-dusk-700 hover:text-leaf-700"
          >
            <Icon name="search" />
          </button>
        </div>
        <button
          type="button"
          popoverTarget="shop-filters"
          {...(unfolds && { 'aria-expanded': isSheetOpen, onClick: () => onSheetToggle(!isSheetOpen) })}
          className="inline-flex min-h-12 items-center gap-2 rounded-md border border-line-strong bg-card px-3.5 font-semibold text-ink hover:border-dusk-500 md:hidden"
        >
          <Icon name="filters" className="size-5 max-[25rem]:hidden" />
          Filters
          {chosenCount > 0 ? (
            <span className="grid size-6 place-items-center rounded-pill bg-dusk-800 text-xs text-white tabular-nums">
              {chosenCount}
              <span className="sr-only"> chosen</span>
            </span>
          ) : null}
        </button>
        <div
          ref={sheet}
          id="shop-filters"
          popover="auto"
          data-unfolded={unfolds ? isSheetOpen : undefined}
          onToggle={({ currentTarget }) => onSheetToggle(isPopoverOpen(currentTarget))}
          className="filter-sheet"
        >
          <div className="flex items-center justify-between md:hidden">
            <h2 className="text-2xl">Filters</h2>
            <button
              type="button"
              popoverTarget="shop-filters"
              popoverTargetAction="hide"
              ref={closer}
              {...(unfolds && { onClick: close })}
              aria-label="Close filters"
              className="-mr-2 grid size-12 place-items-center rounded-pill hover:bg-paper-deep"
            >
              <Icon name="close" className="size-6" />
            </button>
          </div>
          <div className="grid grid-cols-2 gap-3 md:contents">
            <Choice id="shop-brand" name="brand" label="Brand" defaultValue={query.brand ?? ''}>
              <option value="">All brands</option>
              {brands.map((brand) => (
                <option key={brand}>{brand}</option>
              ))}
            </Choice>
            <Choice id="shop-sort" name="sort" label="Sort by" isLabelled defaultValue={chosenSort}>
              {/* No value: without JavaScript, a newly typed text is then sorted by best match. */}
              <option value="">{sortLabels[usual]}</option>
              {sortOrders
                .filter((order) => order !== usual)
                .map((order) => (
                  <option key={order} value={order}>
                    {sortLabels[order]}
                  </option>
                ))}
            </Choice>
          </div>
          <Flavours categories={categories} chosen={query.category} />
          <Button type="submit" size="large" className="md:hidden">
            {count === 1 ? 'Show 1 drink' : `Show ${count} drinks`}
          </Button>
        </div>
      </form>
    </search>
  );
}

function Choice({
  id,
  label,
  isLabelled = false,
  children,
  ...select
}: { id: string; label: string; isLabelled?: boolean } & React.ComponentProps<'select'>) {
  return (
    <div className="relative min-w-0">
      <label
        htmlFor={id}
        className={`mb-1.5 block text-sm font-semibold md:mb-0 ${isLabelled ? 'md:pointer-events-none md:absolute md:top-3 md:left-4 md:text-xs md:font-normal md:text-ink-soft' : 'md:sr-only'}`}
      >
        {label}
      </label>
      <select
        {...select}
        id={id}
        className={`${box} appearance-none pr-8 pl-3 md:pr-10 ${isLabelled ? 'md:pl-19' : 'md:pl-4'}`}
      >
        {children}
      </select>
      <Icon
        name="chevron"
        className="pointer-events-none absolute right-2 bottom-3.5 size-5 text-dusk-700 md:right-3 md:bottom-3"
      />
    </div>
  );
}

function Flavours({ categories, chosen }: { categories: string[]; chosen: string | null }) {
  return (
    <fieldset className="min-w-0 md:col-span-full">
      <legend className="mb-1.5 text-sm font-semibold md:sr-only">Flavor</legend>
      <div className="flex flex-wrap gap-2 md:-mx-1 md:flex-nowrap md:gap-1.5 md:overflow-x-auto md:p-1 md:[scrollbar-width:none]">
        {['', ...categories].map((category) => (
          <label
            key={category}
            className="relative inline-flex min-h-11 shrink-0 cursor-pointer items-center gap-2 rounded-pill border border-line-strong px-3 text-sm font-semibold whitespace-nowrap text-ink-soft transition-colors md:gap-1.5 md:border-dusk-500 md:bg-dusk-900 md:px-2.5 md:text-xs md:text-dusk-100 hover:border-dusk-600 hover:text-ink md:hover:border-white md:hover:text-white has-checked:border-dusk-800 has-checked:bg-dusk-800 has-checked:text-white md:has-checked:border-ember-300 md:has-checked:bg-ember-300 md:has-checked:text-ink has-focus-visible:outline-3 has-focus-visible:outline-offset-2 has-focus-visible:outline-(--ring)"
          >
            <input
              type="radio"
              name="category"
              value={category}
              defaultChecked={category === (chosen ?? '')}
              // Scrolls it fully into view: in the scrolling row only its edge may be visible.
              onFocus={({ currentTarget }) =>
                currentTarget.parentElement?.scrollIntoView({ block: 'nearest', inline: 'nearest' })
              }
              className="sr-only"
            />
            {category ? (
              <FlavourDot category={category} className="size-3.5 md:ring-1 md:ring-white/60" />
            ) : null}
            {category || 'All flavors'}
          </label>
        ))}
      </div>
    </fieldset>
  );
}
