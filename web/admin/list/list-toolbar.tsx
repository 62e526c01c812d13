// The toolbar of a list: search, filters and actions.
import { type ReactNode, useId } from 'react';
import { Icon } from '../../ui/icons.tsx';
import { useTypedSearch } from './use-list-filters.ts';

export const box =
  'min-h-11 rounded-md border border-line-strong bg-card text-sm text-ink transition-[border-color] hover:border-dusk-500';

/** Controls in a line above the rows. */
export function ListToolbar({ children }: { children: ReactNode }) {
  return <div className="flex flex-wrap items-center gap-3">{children}</div>;
}

interface SearchBoxProps {
  /** Such as 'Search orders...' (docs/product.md#staff-screens). */
  placeholder: string;
  searched: string;
  onSearch(text: string): void;
}

export function SearchBox({ placeholder, searched, onSearch }: SearchBoxProps) {
  const { typed, type, searchNow } = useTypedSearch(searched, onSearch);
  return (
    <search className="min-w-0 flex-1 basis-28 lg:max-w-72 lg:min-w-44">
      <form
        className="relative"
        onSubmit={(event) => {
          event.preventDefault();
          searchNow();
        }}
      >
        <Icon
          name="search"
          className="pointer-events-none absolute top-1/2 left-3 size-4.5 -translate-y-1/2 text-ink-faint"
        />
        <input
          type="search"
          aria-label={placeholder.replace(/\.+$/, '')}
          placeholder={placeholder}
          value={typed}
          maxLength={200}
          autoComplete="off"
          onChange={(event) => type(event.target.value)}
          className={`${box} w-full pr-2 pl-9 placeholder:text-ink-faint`}
        />
      </form>
    </search>
  );
}

interface FilterSelectProps<Value> {
  label: string;
  value: Value;
  /** The first option means no filter and has the value ''. */
  options: readonly { value: Value; label: string }[];
  onChoose(value: Value): void;
}

export function FilterSelect<Value extends string>({
  label,
  value,
  options,
  onChoose,
}: FilterSelectProps<Value>) {
  const id = useId();
  return (
    <>
      <label htmlFor={id} className="sr-only">
        {label}
      </label>
      <select
        id={id}
        value={value}
        onChange={({ target }) => {
          const chosen = options.find((option) => option.value === target.value);
          if (chosen) onChoose(chosen.value);
        }}
        className={`${box} max-w-full min-w-0 px-2 font-semibold sm:max-w-56 sm:px-3`}
      >
        {options.some((option) => option.value === value) ? null : <option value={value}>{value}</option>}
        {options.map((option) => (
          <option key={option.value} value={option.value}>
            {option.label}
          </option>
        ))}
      </select>
    </>
  );
}

interface SortSelectProps {
  /** '' for the list's own order. */
  value: string;
  choices: readonly (readonly [value: string, label: string])[];
  onChoose(value: string): void;
}

/** The order of a list where its columns have no titles to press. */
export const SortSelect = ({ value, choices, onChoose }: SortSelectProps) => (
  <FilterSelect
    label="Order of the list"
    value={value}
    options={[{ value: '', label: 'Usual order' }, ...choices.map(([key, label]) => ({ value: key, label }))]}
    onChoose={onChoose}
  />
);
