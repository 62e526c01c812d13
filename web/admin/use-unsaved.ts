// What is typed and not saved is asked about before it is lost, however somebody leaves.
import { useCallback, useEffect, useRef } from 'react';
import { type Location, useBlocker } from 'react-router';

export interface Unsaved {
  /** Whether the member is being asked if it may go. */
  isAsked: boolean;
  stay(): void;
  leave(): void;
  /** Whether there is anything from now on, also before the screen is drawn anew. Stable. */
  note(isUnsaved: boolean): void;
}

/** Of a dialog that is open while the address says so. */
const anyAddress = (from: Location, to: Location): boolean =>
  from.pathname !== to.pathname || from.search !== to.search;

/**
 * @param isUnsaved whether there is anything; who learns of it otherwise leaves it at false and notes it
 * @param isAway whether a step would lose it
 */
export function useUnsaved(isUnsaved: boolean, isAway = anyAddress): Unsaved {
  const isThere = useRef(isUnsaved);
  useEffect(() => {
    isThere.current = isUnsaved;
  }, [isUnsaved]);
  const leaving = useBlocker(
    ({ currentLocation, nextLocation }) => isThere.current && isAway(currentLocation, nextLocation),
  );
  useEffect(() => {
    const ask = (event: BeforeUnloadEvent) => {
      if (isThere.current) event.preventDefault();
    };
    window.addEventListener('beforeunload', ask);
    return () => window.removeEventListener('beforeunload', ask);
  }, []);
  const note = useCallback((has: boolean) => {
    isThere.current = has;
  }, []);
  return {
    isAsked: leaving.state === 'blocked',
    stay: () => leaving.reset?.(),
    leave() {
      note(false);
      leaving.proceed?.();
    },
    note,
  };
}
