// Search, brand, flavour and sort of the product list: a form that sends itself where there are no scripts.
import { useEffect, useRef } from 'react';
import { type CatalogueQuery, readCatalogueQuery, type SortOrder } from '../../../domain/catalogue.ts';
import { FlavourDot } from '../../ui/flavour.tsx';
import { Icon } from '../../ui/icons.tsx';

const sortLabels: Record<SortOrder, string> = {
  popularity: 'Popularity',
  brand: 'Brand',
  flavor: 'Flavor',
  price: 'Price',
};

interface CatalogueFormProps {
  query: CatalogueQuery;
  brands: string[];
  categories: string[];
  onChange: (query: CatalogueQuery) => void;
}

const box =
  'block w-full min-h-12 rounded-md border border-line-strong bg-card text-base text-ink hover:border-dusk-500';

function readForm(form: HTMLFormElement): CatalogueQuery {
  const entries = [...new FormData(form)].map(([name, value]) => [name, String(value)]);
  return readCatalogueQuery(new URLSearchParams(entries));
}

export function CatalogueForm({ query, brands, categories, onChange }: CatalogueFormProps) {
  const form = useRef<HTMLFormElement>(null);

  // What was typed before scripts arrived counts too.
  // biome-ignore lint/correctness/useExhaustiveDependencies: once, when the form comes alive
  useEffect(() => {
    if (!form.current) return;
    const early = readForm(form.current);
    if (JSON.stringify(early) !== JSON.stringify(query)) onChange(early);
  }, []);

  return (
    <search aria-label="Filter drinks">
      <form
        ref={form}
        action="/shop"
        onChange={(event) => onChange(readForm(event.currentTarget))}
        onSubmit={(event) => {
          event.preventDefault();
          onChange(readForm(event.currentTarget));
        }}
        className="grid grid-cols-1 gap-3 rounded-2xl bg-card p-4 shadow-lg md:gap-5 md:p-6"
      >
        <div className="grid gap-3 min-[21.5rem]:grid-cols-2 md:grid-cols-[1fr_11rem_11rem] lg:grid-cols-[1fr_13rem_13rem]">
          <div className="relative max-md:min-[21.5rem]:col-span-2">
            <label
              htmlFor="shop-search"
              // On a phone the drinks are to be seen too: the field says by itself what it is for.
              className="mb-1.5 block text-sm font-semibold max-md:sr-only"
            >
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
              placeholder="Mango, ginger…"
              className={`${box} pr-14 pl-4 placeholder:text-ink-faint`}
            />
            <button
              type="submit"
              aria-label="Search"
              className="absolute right-0 bottom-0 grid size-12 place-items-center rounded-md text-dusk-700 hover:text-leaf-700"
            >
              <Icon name="search" />
            </button>
          </div>
          <Choice id="shop-brand" name="brand" label="Brand" defaultValue={query.brand ?? ''}>
            <option value="">All brands</option>
            {brands.map((brand) => (
              <option key={brand}>{brand}</option>
            ))}
          </Choice>
          <Choice id="shop-sort" name="sort" label="Sort by" defaultValue={query.sort}>
            {Object.entries(sortLabels).map(([value, label]) => (
              <option key={value} value={value}>
                {label}
              </option>
            ))}
          </Choice>
        </div>
        <fieldset className="min-w-0">
          <legend className="mb-1.5 text-sm font-semibold max-md:sr-only">Flavor</legend>
          <div className="-mx-4 flex gap-2 overflow-x-auto px-4 py-1 [scrollbar-width:none] md:mx-0 md:flex-wrap md:px-0 lg:grid lg:grid-cols-5">
            <FlavourChoice value="" label="All flavors" isChosen={!query.category} />
            {categories.map((category) => (
              <FlavourChoice
                key={category}
                value={category}
                label={category}
                isChosen={query.category === category}
              />
            ))}
          </div>
        </fieldset>
      </form>
    </search>
  );
}

function Choice({
  id,
  label,
  children,
  ...select
}: { id: string; label: string } & React.ComponentProps<'select'>) {
  return (
    <div className="relative">
      <label htmlFor={id} className="mb-1.5 block text-sm font-semibold">
        {label}
      </label>
      <select {...select} id={id} className={`${box} appearance-none pr-8 pl-3 md:pr-11 md:pl-4`}>
        {children}
      </select>
      <Icon
        name="chevron"
        className="pointer-events-none absolute right-2 bottom-3.5 size-5 md:right-3.5 text-dusk-700"
      />
    </div>
  );
}

function FlavourChoice({ value, label, isChosen }: { value: string; label: string; isChosen: boolean }) {
  return (
    <label className="relative inline-flex min-h-11 shrink-0 cursor-pointer items-center gap-2 rounded-pill border border-line-strong px-3.5 text-sm font-semibold whitespace-nowrap text-ink-soft transition-colors hover:border-dusk-600 hover:text-ink has-checked:border-dusk-800 has-checked:bg-dusk-800 has-checked:text-white forced-colors:has-checked:border-[Highlight] forced-colors:has-checked:text-[Highlight] has-focus-visible:outline-3 has-focus-visible:outline-offset-2 has-focus-visible:outline-(--ring)">
      <input type="radio" name="category" value={value} defaultChecked={isChosen} className="sr-only" />
      {value ? <FlavourDot category={value} className="size-3.5" /> : null}
      {label}
    </label>
  );
}
