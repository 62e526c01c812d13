// The area of delivery: chips and a search, or a select where there are no scripts.
import { type KeyboardEvent, useId, useLayoutEffect, useRef, useState } from 'react';
import {
  type DeliveryArea,
  describePromise,
  feeIn,
  findAreas,
  type GuessedArea,
} from '../../domain/deliveries/delivery-area.ts';
import { formatKsh } from '../../domain/money.ts';
import { inputStyle, SelectField } from './field.tsx';
import { Icon } from './icons.tsx';

interface AreaFieldProps {
  areas: readonly DeliveryArea[];
  /** The chosen one, or the one that was recognised by the location. */
  chosen: GuessedArea<DeliveryArea> | null;
  isGuessed: boolean;
  /** In cents. */
  shopFee: number;
  /** When an order arrives, in place of the promise of its area, such as `Opens at 08:00, arrives by 08:45`. */
  arrival?: string | null;
  isDisabled?: boolean;
  problem?: string | undefined;
  onChoose(areaId: string): void;
}

export function AreaField({
  areas,
  chosen,
  isGuessed,
  shopFee,
  arrival = null,
  isDisabled = false,
  problem,
  onChoose,
}: AreaFieldProps) {
  const [isOpen, setOpen] = useState(false);
  const [search, setSearch] = useState('');
  const [isAll, setAll] = useState(false);
  const searchField = useRef<HTMLInputElement>(null);
  const changeButton = useRef<HTMLButtonElement>(null);
  /** Whether the focus follows the next change: what had it disappears. */
  const movesFocus = useRef(false);
  useLayoutEffect(() => {
    if (!movesFocus.current) return;
    movesFocus.current = false;
    (searchField.current ?? changeButton.current)?.focus();
  });
  const labelId = useId();
  const problemId = useId();
  if (areas.length === 0) return null;
  const found = findAreas(search, areas);
  /** On narrow screens, so that the fields below stay near. */
  const hidden = isAll || search.trim() !== '' ? 0 : Math.max(0, found.length - shownFirst);

  function choose(area: DeliveryArea) {
    movesFocus.current = true;
    setOpen(false);
    setSearch('');
    onChoose(area.id);
  }
  function open() {
    movesFocus.current = true;
    setOpen(true);
  }
  /** Arrows move between the chips, and Enter in the search takes the first of them. */
  function move(event: KeyboardEvent<HTMLElement>) {
    const chips = [...event.currentTarget.querySelectorAll<HTMLElement>('[data-area]')].filter(
      (chip) => chip.offsetParent,
    );
    const at = chips.indexOf(event.target as HTMLElement);
    const isInSearch = event.target instanceof HTMLInputElement;
    if (event.key === 'Enter' && isInSearch) {
      event.preventDefault();
      if (found[0] && search.trim() !== '') choose(found[0]);
      return;
    }
    if (event.key === 'Escape' && isOpen && chosen) {
      // Not the dialog around it.
      event.stopPropagation();
      movesFocus.current = true;
      setOpen(false);
      return;
    }
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (step === undefined || (isInSearch && event.key !== 'ArrowDown')) return;
    event.preventDefault();
    if (at + step < 0) event.currentTarget.querySelector('input')?.focus();
    else chips[Math.min(at + step, chips.length - 1)]?.focus();
  }

  return (
    // biome-ignore lint/a11y/useSemanticElements: a fieldset has no place for the error beside its legend
    <div
      role="group"
      aria-labelledby={labelId}
      aria-describedby={problem ? problemId : undefined}
      data-area-field
      className="grid grid-cols-[minmax(0,1fr)] content-start gap-1.5"
    >
      <p id={labelId} className="text-sm font-semibold text-ink">
        Area
      </p>
      {chosen && !isOpen ? (
        <div
          data-chosen-area
          className="flex min-h-12 items-center gap-3 rounded-md border border-line-strong bg-card py-1 pr-1 pl-4"
        >
          <Icon name="pin" className="size-4.5 shrink-0 text-ember-600" />
          <p role="status" className="min-w-0 flex-1 leading-tight">
            <span className="font-semibold wrap-anywhere">{chosen.area.name}</span>
            {isGuessed ? <span className="text-sm text-ink-soft"> (from the address)</span> : null}
            <span className="block text-sm text-ink-soft">
              {describeArea(chosen.area, shopFee, arrival !== null)}
              {arrival === null || chosen.area.needs_agreement ? null : `. ${arrival}`}
            </span>
          </p>
          <button
            ref={changeButton}
            type="button"
            name="areaId"
            disabled={isDisabled}
            onClick={open}
            className="min-h-11 shrink-0 rounded-md px-3 font-semibold text-dusk-600 underline underline-offset-2 hover:text-dusk-800"
          >
            Change<span className="sr-only"> the area</span>
          </button>
        </div>
      ) : (
        // biome-ignore lint/a11y/noStaticElementInteractions: keys of the search and the chips
        <div onKeyDown={move} data-area-choice className="grid grid-cols-[minmax(0,1fr)] gap-2">
          <input
            ref={searchField}
            type="search"
            name="areaId"
            aria-label="Search areas"
            placeholder="Search or choose"
            autoComplete="off"
            enterKeyHint="done"
            disabled={isDisabled}
            value={search}
            onChange={(event) => setSearch(event.target.value)}
            className={inputStyle}
          />
          <ul data-shortened={hidden > 0 || undefined} className="flex flex-wrap gap-1.5 empty:hidden">
            {found.map((area, index) => (
              <li key={area.id} className={hidden > 0 && index >= shownFirst ? 'max-md:hidden' : ''}>
                <button
                  type="button"
                  data-area={area.name}
                  disabled={isDisabled}
                  aria-pressed={chosen?.area.id === area.id}
                  onClick={() => choose(area)}
                  className={`${chip} border-line-strong bg-card hover:border-dusk-500 aria-pressed:border-ember-600 aria-pressed:bg-ember-50`}
                >
                  {area.name}
                  {area.fee_cents === null || area.needs_agreement || area.fee_cents === shopFee ? null : (
                    <span className="font-normal text-ink-soft"> · {feeText(area.fee_cents)}</span>
                  )}
                </button>
              </li>
            ))}
            {hidden > 0 ? (
              <li className="md:hidden">
                <button
                  type="button"
                  data-area=""
                  disabled={isDisabled}
                  onClick={(event) => {
                    // The pressed button disappears: the focus goes to the first area that appears.
                    const list = event.currentTarget.closest('ul');
                    setAll(true);
                    requestAnimationFrame(() =>
                      list?.querySelectorAll<HTMLElement>('[data-area]')[shownFirst]?.focus(),
                    );
                  }}
                  className={`${chip} border-transparent text-dusk-600 underline underline-offset-2`}
                >
                  {hidden} more
                </button>
              </li>
            ) : null}
          </ul>
          {found.length === 0 ? (
            <p role="status" className="text-sm text-ink-soft">
              No area is called that. Type your location below, and we find the area by it.
            </p>
          ) : null}
        </div>
      )}
      {problem ? (
        <p id={problemId} className="text-sm font-semibold text-danger">
          {problem}
        </p>
      ) : null}
    </div>
  );
}

/** Areas that a narrow screen shows at first. */
const shownFirst = 6;
const chip = 'min-h-11 max-w-full rounded-pill border px-3.5 text-left text-sm font-semibold';

interface AreaSelectProps {
  areas: readonly DeliveryArea[];
  defaultValue: string;
  /** In cents. */
  shopFee: number;
  problem?: string | undefined;
}

/** Without scripts. */
export function AreaSelect({ areas, defaultValue, shopFee, problem }: AreaSelectProps) {
  return areas.length === 0 ? null : (
    <SelectField label="Area" name="areaId" defaultValue={defaultValue} problem={problem}>
      <option value="">By the location below</option>
      {areas.map((area) => (
        <option key={area.id} value={area.id}>
          {`${area.name}: ${describeArea(area, shopFee)}`}
        </option>
      ))}
    </SelectField>
  );
}

const feeText = (cents: number): string => (cents === 0 ? 'Free' : formatKsh(cents));

/** Fee and promise, such as `KSh 200.00, 15-60 minutes`. */
const describeArea = (area: DeliveryArea, shopFee: number, hasArrival = false): string =>
  area.needs_agreement
    ? 'Fee and day are agreed by phone first'
    : `${feeText(feeIn(area, shopFee))}${hasArrival ? '' : `, ${describePromise(area)}`}`;
