// Brings the focus back when what had it is over.
import { useEffect, useRef } from 'react';

/**
 * @param open what is open, such as a step or a question; null when nothing is
 * @param goBack is called with what was open, once nothing is any more and the screen is drawn without it
 */
export function useWayBack<Open>(open: Open | null, goBack: (from: Open) => void): void {
  const before = useRef<Open | null>(null);
  useEffect(() => {
    if (before.current !== null && open === null) goBack(before.current);
    before.current = open;
  });
}
