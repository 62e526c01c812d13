// Restores focus after a step or question is closed.
import { useEffect, useRef } from 'react';

/**
 * @param open the open step or question; null if none
 * @param goBack called with the closed step, after the screen is rendered without it
 */
export function useWayBack<Open>(open: Open | null, goBack: (from: Open) => void): void {
  const before = useRef<Open | null>(null);
  useEffect(() => {
    if (before.current !== null && open === null) goBack(before.current);
    before.current = open;
  });
}
