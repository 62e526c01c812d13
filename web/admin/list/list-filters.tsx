// Filters of a list besides its search: quick filters with row counts, dates, riders. Rarely used ones are collapsed.
import { type ReactNode, useId, useState } from 'react';
import { Button } from '../../ui/button.tsx';
import { Icon } from '../../ui/icons.tsx';
import { StaffIcon } from '../layout/sidebar/staff-icons.tsx';
import { usePart } from '../ui/use-part.ts';
import { type CountedRows, countFigure, countText } from './count-text.ts';
import { type DayFilter, dayChoices } from './days.ts';
import { box, FilterSelect } from './list-toolbar.tsx';
import type { SavedViews } from './saved-views.ts';
import type { ListFilters } from './use-list-filters.ts';

interface MoreFiltersProps {
  /** Default: Filters. */
  label?: string;
  /** Number of active filters behind the button. */
  setCount?: number;
  /** The member's views of the list, where it has some. */
  views?: SavedViews;
  /** Called when it opens, for what is loaded then. */
  onOpen?(): void;
  children: ReactNode;
}

const loadOptions = () => import('./list-options.tsx');

/** Rarely used filters and actions behind one button, in a line of their own below the search. */
export function MoreFilters({ label = 'Filters', setCount = 0, views, onOpen, children }: MoreFiltersProps) {
  const id = useId();
  const [isOpen, setOpen] = useState(false);
  const options = usePart(loadOptions, isOpen && views !== undefined);
  return (
    <>
      <Button
        tone="quiet"
        aria-expanded={isOpen}
        aria-controls={id}
        onClick={() => {
          if (!isOpen) onOpen?.();
          setOpen(!isOpen);
        }}
        className="shrink-0 px-3! sm:px-4!"
      >
        <StaffIcon name="settings" className="size-4.5 sm:hidden" />
        <span className="max-sm:sr-only">{label} </span>
        {setCount > 0 ? <span>({setCount})</span> : null}
        <Icon name="chevron" className={`size-4 max-sm:hidden ${isOpen ? 'rotate-180' : ''}`} />
      </Button>
      <div
        id={id}
        className={`${isOpen ? 'grid grid-cols-2 md:flex md:flex-wrap md:items-center md:justify-end' : 'hidden'} order-last min-w-0 basis-full gap-2`}
      >
        {children}
        {options && views ? <options.ListOptions views={views} /> : null}
      </div>
    </>
  );
}

interface DayFilterProps {
  filters: Pick<ListFilters<DayFilter>, 'values' | 'set'>;
}

export function DayFilterSelect({ filters: { values, set } }: DayFilterProps) {
  return (
    <>
      <FilterSelect
        label="Days"
        value={values.day}
        options={dayChoices}
        onChoose={(value) => set('day', value)}
      />
      {values.day === 'range' ? (
        <fieldset className="contents">
          <legend className="sr-only">Days, in Nairobi</legend>
          {(['from', 'until'] as const).map((name) => (
            <label key={name} className="flex items-center gap-1.5 text-sm">
              <span className="capitalize">{name}</span>
              <input
                type="date"
                value={values[name]}
                onChange={(event) => set(name, event.target.value)}
                className={`${box} min-w-0 grow px-2`}
              />
            </label>
          ))}
        </fieldset>
      ) : null}
    </>
  );
}

interface RiderFilterProps {
  filters: Pick<ListFilters<{ rider: string }>, 'values' | 'set'>;
  riders: readonly { name: string }[];
}

export function RiderFilterSelect({ filters: { values, set }, riders }: RiderFilterProps) {
  return (
    <FilterSelect
      label="Rider"
      value={values.rider}
      options={[
        { value: '', label: 'All riders' },
        ...riders.map(({ name }) => ({ value: name, label: name })),
      ]}
      onChoose={(rider) => set('rider', rider)}
    />
  );
}

export interface QuickFilter {
  label: string;
  /** Number of rows; undefined until loaded. */
  count: number | undefined;
  isOn: boolean;
  isUrgent?: boolean;
  /** Id of the part of the page that it shows, where it does not filter. */
  controls?: string;
  onToggle(): void;
}

interface QuickFiltersProps {
  filters: readonly QuickFilter[];
  /** Views that the member keeps. */
  views?: SavedViews;
  /** Begins a choice of rows, where the rows show no boxes. */
  onSelect?: (() => void) | undefined;
}

/** Filters for waiting work with their counts, of which empty ones are hidden, and own views. */
export function QuickFilters({ filters, views, onSelect }: QuickFiltersProps) {
  const visible = [
    ...filters.filter(({ count, isOn }) => isOn || (count ?? 0) > 0),
    ...(views?.views ?? []).map(
      (view): QuickFilter => ({
        label: view.name,
        count: undefined,
        isOn: view.search === views?.current,
        onToggle: () => views?.show(view),
      }),
    ),
  ];
  return (
    <fieldset className="flex min-w-0 flex-1 gap-1.5 overflow-x-auto py-0.5 max-sm:-mx-3 max-sm:px-3 xl:flex-wrap xl:gap-1 xl:overflow-visible">
      <legend className="sr-only">What waits</legend>
      {visible.map(({ label, count, isOn, isUrgent, controls, onToggle }) => (
        <button
          key={label}
          type="button"
          aria-pressed={controls ? undefined : isOn}
          aria-expanded={controls ? isOn : undefined}
          aria-controls={controls}
          onClick={onToggle}
          className={`inline-flex min-h-9 shrink-0 items-center gap-1.5 rounded-pill border px-3 text-sm xl:gap-1 xl:px-2.5 font-semibold transition-colors ${
            isOn
              ? 'border-dusk-800 bg-dusk-800 text-white'
              : 'border-line-strong bg-card hover:border-dusk-500'
          }`}
        >
          {label}
          {count === undefined ? null : (
            <span
              className={`rounded-pill px-1.5 text-xs leading-5 font-bold tabular-nums ${
                isOn ? 'bg-white/20' : isUrgent ? 'bg-danger text-white' : 'bg-paper-deep'
              }`}
            >
              {countFigure(count)}
            </span>
          )}
        </button>
      ))}
      {onSelect ? (
        <button
          type="button"
          onClick={onSelect}
          className="ml-auto min-h-9 shrink-0 px-2 text-sm font-semibold text-ink-soft underline lg:hidden"
        >
          Select
        </button>
      ) : null}
    </fieldset>
  );
}

/** Number of matching rows. */
export const RowCount = ({ count, ...rows }: CountedRows & { count: number | undefined }) => (
  <p role="status" className="text-sm whitespace-nowrap text-ink-soft tabular-nums">
    {count === undefined ? '' : countText(count, rows)}
  </p>
);
