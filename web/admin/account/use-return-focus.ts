// Restores focus after a step or question is closed.
import { useEffect, useRef } from 'react';

/**
 * @param open the open step or question; null if none
 * @param onClosed called with the closed step, after the screen is rendered without it
 */
export function useReturnFocus<Open>(open: Open | null, onClosed: (from: Open) => void): void {
  const before = useRef<Open | null>(null);
  useEffect(() => {
    if (before.current !== null && open === null) onClosed(before.current);
    before.current = open;
  });
}
