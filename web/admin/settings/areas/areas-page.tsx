// Areas of delivery: their fees, promises and order. An area is edited while the URL has `?edit=<id>`, or `?edit=new`.
import { type KeyboardEvent, type PointerEvent, useEffect, useRef, useState } from 'react';
import { Link } from 'react-router';
import { Badge } from '../../../ui/badge.tsx';
import { Button } from '../../../ui/button.tsx';
import { Icon } from '../../../ui/icons.tsx';
import { dataOf } from '../../data/table-answer.ts';
import { useSave } from '../../data/use-save.ts';
import { useDialogOpener } from '../../dialogs/use-dialog-parameter.ts';
import { useMember } from '../../layout/roles/use-member.tsx';
import { describeStaffPage } from '../../layout/staff-page.ts';
import { ScreenLoadState } from '../../ui/load-states.tsx';
import { useSettings } from '../settings-queries.ts';
import type { Route } from './+types/areas-page.ts';
import { AreaDialog, newArea } from './area-editor.tsx';
import { changeArea, useAreas, useEstimates } from './area-queries.ts';
import { type AreaEstimate, type AreaRow, describeArea, describeEstimate, moved } from './area-values.ts';

export const meta: Route.MetaFunction = ({ matches }) => describeStaffPage(matches, 'Delivery areas');

export default function AreasPage() {
  const { tables } = useMember().staff;
  const areas = useAreas();
  const settings = useSettings();
  const estimates = useEstimates();
  const open = useDialogOpener('edit');
  /** The order while it is dragged or saved; null: as it is stored. */
  const [order, setOrder] = useState<readonly string[] | null>(null);
  const [announcement, setAnnouncement] = useState('');
  const list = useRef<HTMLUListElement>(null);
  const sort = useSave({
    write: async (ids: readonly string[]) =>
      dataOf(await tables.rpc('sort_delivery_areas', { ids: [...ids] })),
    failure: 'Failed to move the area',
    refresh: ['settings'],
  });
  const stored = areas.data;
  const isSorting = sort.isPending;
  // Once it is stored, or was refused, the stored order counts.
  useEffect(() => {
    if (!isSorting && stored) setOrder(null);
  }, [isSorting, stored]);
  if (!stored || !settings.data) return <ScreenLoadState noun="areas" queries={[areas, settings]} />;
  const shopFee = settings.data.delivery_fee;
  const rows = order ? order.flatMap((id) => stored.find((row) => row.id === id) ?? []) : stored;

  function save(next: readonly string[]) {
    if (next.every((id, index) => id === stored?.[index]?.id)) {
      setOrder(null);
      return;
    }
    setOrder(next);
    sort.mutate(next);
  }
  function move(row: AreaRow, to: number) {
    const from = rows.indexOf(row);
    if (isSorting || from < 0 || to < 0 || to >= rows.length) return;
    save(moved(rows, from, to).map(({ id }) => id));
    setAnnouncement(`${row.name} is now number ${to + 1} of ${rows.length}.`);
  }
  /** The row under the pointer takes the place of the dragged one. */
  function drag(event: PointerEvent<HTMLElement>, row: AreaRow) {
    if (isSorting) return;
    const handle = event.currentTarget;
    handle.setPointerCapture(event.pointerId);
    let ids = rows.map(({ id }) => id);
    const follow = ({ clientY }: { clientY: number }) => {
      const items = [...(list.current?.children ?? [])];
      const over = items.findIndex((item) => {
        const { top, bottom } = item.getBoundingClientRect();
        return clientY >= top && clientY < bottom;
      });
      const at = ids.indexOf(row.id);
      if (over < 0 || over === at) return;
      ids = moved(ids, at, over);
      setOrder(ids);
    };
    const end = (isKept: boolean) => {
      handle.removeEventListener('pointermove', follow);
      handle.removeEventListener('pointerup', drop);
      handle.removeEventListener('pointercancel', cancel);
      if (isKept) save(ids);
      else setOrder(null);
    };
    const drop = () => end(true);
    const cancel = () => end(false);
    handle.addEventListener('pointermove', follow);
    handle.addEventListener('pointerup', drop);
    handle.addEventListener('pointercancel', cancel);
  }

  return (
    <div className="grid max-w-5xl grid-cols-[minmax(0,1fr)] gap-4">
      <div className="flex flex-wrap items-center justify-between gap-x-6 gap-y-1">
        <p className="basis-full text-sm">
          <Link to="/admin/settings?section=delivery" className="tap font-semibold underline">
            Settings
          </Link>
        </p>
        <h1 className="text-2xl md:text-3xl">Delivery areas</h1>
        <Button onClick={() => open(newArea)} aria-haspopup="dialog">
          New area
        </Button>
        <p className="basis-full text-sm text-ink-soft">
          In the order in which customers see them. Orders keep their area, so areas are switched off instead
          of deleted.
        </p>
      </div>
      <ul
        ref={list}
        aria-label="Delivery areas"
        className="grid divide-y divide-line rounded-lg border border-line bg-card"
      >
        {rows.map((row, index) => (
          <Area
            key={row.id}
            row={row}
            shopFee={shopFee}
            estimate={estimates.get(row.id) ?? null}
            isFirst={index === 0}
            isLast={index === rows.length - 1}
            onMove={(step) => move(row, index + step)}
            onDrag={(event) => drag(event, row)}
          />
        ))}
      </ul>
      <p aria-live="polite" className="sr-only">
        {announcement}
      </p>
      <AreaDialog areas={stored} shopFee={shopFee} estimates={estimates} />
    </div>
  );
}

interface AreaProps {
  row: AreaRow;
  shopFee: number;
  /** Null: fewer than twenty deliveries in 30 days. */
  estimate: AreaEstimate | null;
  isFirst: boolean;
  isLast: boolean;
  onMove(step: 1 | -1): void;
  onDrag(event: PointerEvent<HTMLElement>): void;
}

function Area({ row, shopFee, estimate, isFirst, isLast, onMove, onDrag }: AreaProps) {
  const { tables } = useMember().staff;
  const open = useDialogOpener('edit');
  const toggle = useSave({
    write: (is_active: boolean) => changeArea(tables, row, { is_active }),
    success: (_, isActive) => (isActive ? `${row.name} is offered again` : `${row.name} is not offered now`),
    failure: 'Failed to change the area',
    refresh: ['settings'],
  });
  function onKeyDown(event: KeyboardEvent) {
    const step = event.key === 'ArrowUp' ? -1 : event.key === 'ArrowDown' ? 1 : null;
    if (step === null) return;
    event.preventDefault();
    onMove(step);
  }
  return (
    <li
      aria-label={row.name}
      className="flex flex-wrap items-center gap-x-2 gap-y-1 py-1 pr-2 md:flex-nowrap"
    >
      <button
        type="button"
        aria-label={`Move ${row.name}: drag it, or use the arrow keys`}
        onPointerDown={onDrag}
        onKeyDown={onKeyDown}
        className="grid size-11 shrink-0 cursor-grab touch-none place-items-center text-ink-faint hover:text-ink active:cursor-grabbing"
      >
        <Icon name="menu" className="size-4" />
      </button>
      <div className="min-w-0 flex-1 basis-40">
        <p className="flex flex-wrap items-center gap-x-2 leading-tight">
          <span className={`font-semibold wrap-anywhere ${row.is_active ? '' : 'text-ink-soft'}`}>
            {row.name}
          </span>
          {row.is_active ? null : (
            <Badge tone="grey" isSmall>
              Off
            </Badge>
          )}
        </p>
        <p className="text-sm text-ink-soft tabular-nums">{describeArea(row, shopFee)}</p>
        {estimate ? (
          <p
            className={`text-sm tabular-nums ${isSlower(row, estimate) ? 'font-semibold' : 'text-ink-soft'}`}
          >
            {describeEstimate(estimate)}
          </p>
        ) : null}
      </div>
      <div className="flex items-center gap-1 max-md:ml-11 max-md:grow">
        <MoveButton label={`Move ${row.name} up`} isUp isDisabled={isFirst} onClick={() => onMove(-1)} />
        <MoveButton label={`Move ${row.name} down`} isDisabled={isLast} onClick={() => onMove(1)} />
        <Button
          tone="quiet"
          isBusy={toggle.isPending}
          onClick={() => toggle.mutate(!row.is_active)}
          aria-label={`${row.is_active ? 'Switch off' : 'Switch on'}: ${row.name}`}
          className="min-h-11! px-4! max-md:ml-auto"
        >
          {row.is_active ? 'Switch off' : 'Switch on'}
        </Button>
        <Button
          tone="quiet"
          onClick={() => open(row.id)}
          aria-haspopup="dialog"
          aria-label={`Edit: ${row.name}`}
          className="min-h-11! px-4!"
        >
          Edit
        </Button>
      </div>
    </li>
  );
}

/** Whether nine of ten deliveries take longer than promised. */
const isSlower = (row: AreaRow, { p90 }: AreaEstimate): boolean =>
  !row.needs_agreement && p90 > row.promise_to_minutes;

interface MoveButtonProps {
  label: string;
  isUp?: boolean;
  isDisabled: boolean;
  onClick(): void;
}

function MoveButton({ label, isUp = false, isDisabled, onClick }: MoveButtonProps) {
  return (
    <button
      type="button"
      aria-label={label}
      // Stays focusable: a row that was moved to an end keeps the focus.
      aria-disabled={isDisabled || undefined}
      onClick={() => {
        if (!isDisabled) onClick();
      }}
      className="grid size-11 place-items-center rounded-md text-ink-soft hover:bg-paper-deep hover:text-ink aria-disabled:opacity-30"
    >
      <Icon name="chevron" className={`size-5 ${isUp ? 'rotate-180' : ''}`} />
    </button>
  );
}
