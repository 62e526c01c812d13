// Single keys of a list: j and k go to the next and the previous row, x chooses it, / searches, Escape ends a choice. Enter opens a
// row by its link. n begins a new order on every screen. They are ignored while typing, in dialogs and menus, and where the member switched them off (WCAG 2.1.4).
import { useEffect, useRef, useSyncExternalStore } from 'react';
import { readStored, writeStored } from '../../lib/browser/browser-storage.ts';
import type { Selection } from './use-selection.ts';

const key = 'jani.staff.single-keys';
const listeners = new Set<() => void>();
const areOn = () => readStored(key) !== 'off';

/** Whether single keys are on, for this device, and a function that switches them. */
export function useSingleKeys(): [areOn: boolean, set: (areOn: boolean) => void] {
  const value = useSyncExternalStore((listener) => {
    listeners.add(listener);
    return () => listeners.delete(listener);
  }, areOn);
  return [
    value,
    (next) => {
      writeStored(key, next ? 'on' : 'off');
      for (const listener of listeners) listener();
    },
  ];
}

const busy =
  'input:not([type=checkbox]), textarea, select, [contenteditable=true], [role=menu], [role=dialog], [role=alertdialog], dialog';

/** Whether a press is a single key that may do something: not while somebody types, and where they are switched on. */
export function isSingleKey(event: KeyboardEvent): boolean {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || !areOn()) return false;
  const at = event.target instanceof Element ? event.target : null;
  return !at?.closest(busy) && !document.querySelector('[role=dialog][data-state=open], dialog[open]');
}

export function useRowKeys<Row extends { id: string }>(
  rows: readonly Row[],
  selection?: Selection<Row>,
): void {
  const onKey = useRef<(event: KeyboardEvent) => void>(undefined);
  useEffect(() => {
    onKey.current = (event) => {
      if (!isSingleKey(event)) return;
      const shown = [...document.querySelectorAll<HTMLElement>('[data-row]')];
      const here = shown.findIndex((row) => row.contains(document.activeElement));
      const go = (to: number) => {
        const row = shown[Math.min(Math.max(to, 0), shown.length - 1)];
        row?.querySelector<HTMLElement>('[data-row-link]')?.focus();
        row?.scrollIntoView({ block: 'nearest' });
      };
      if (event.key === 'j') go(here + 1);
      else if (event.key === 'k') go(here === -1 ? 0 : here - 1);
      else if (event.key === '/') document.querySelector<HTMLElement>('main input[type=search]')?.focus();
      else if (event.key === 'x' && selection) {
        const row = rows.find(({ id }) => id === shown[here]?.dataset.row);
        if (row) selection.toggle(row);
      } else if (event.key === 'Escape' && selection && selection.rows.length > 0) selection.clear();
      else return;
      event.preventDefault();
    };
  });
  useEffect(() => {
    const listen = (event: KeyboardEvent) => onKey.current?.(event);
    window.addEventListener('keydown', listen);
    return () => window.removeEventListener('keydown', listen);
  }, []);
}
