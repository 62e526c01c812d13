// Where the focus goes when the row or card that had it is gone: work by keyboard goes on where it was.
import { useEffect, useLayoutEffect, useRef } from 'react';

/**
 * A card that moved to another group gets the focus back; one that left the screen hands it to the card after it.
 * @param attribute names the rows: 'data-row', with the row's id
 * @param target what to focus within a row, a selector; the last one that matches
 */
export function useLostFocus(attribute: `data-${string}`, target: string): void {
  const held = useRef<{ row: Element; ids: readonly string[]; isVisible: boolean } | null>(null);
  useEffect(() => {
    const idOf = (row: Element) => row.getAttribute(attribute) ?? '';
    const onFocus = ({ target: focused }: Event) => {
      const row = focused instanceof Element ? focused.closest(`[${attribute}]`) : null;
      if (!row || !(focused instanceof Element)) {
        held.current = null;
        return;
      }
      const rows = [...document.querySelectorAll(`[${attribute}]`)];
      const here = rows.indexOf(row);
      const ids = [row, ...rows.slice(here + 1), ...rows.slice(0, here).reverse()].map(idOf);
      held.current = { row, ids, isVisible: focused.matches(':focus-visible') };
    };
    // A press beside the rows gives the focus up without giving it to anything.
    const onPress = ({ target: pressed }: Event) => {
      if (!(pressed instanceof Element && pressed.closest(`[${attribute}]`))) held.current = null;
    };
    document.addEventListener('focusin', onFocus);
    document.addEventListener('pointerdown', onPress);
    return () => {
      document.removeEventListener('focusin', onFocus);
      document.removeEventListener('pointerdown', onPress);
    };
  }, [attribute]);
  useLayoutEffect(() => {
    const lost = held.current;
    if (!lost || lost.row.isConnected || document.activeElement !== document.body) return;
    for (const id of lost.ids) {
      const row = document.querySelector(`[${attribute}="${CSS.escape(id)}"]`);
      const next = row && [...row.querySelectorAll<HTMLElement>(target)].at(-1);
      if (!next) continue;
      // Without a visible focus the page must not move under a finger.
      next.focus({ preventScroll: !lost.isVisible });
      return;
    }
  });
}
