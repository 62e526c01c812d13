// What is typed into a dialog and not saved is asked about before it is lost, however somebody leaves.
import { useEffect, useRef } from 'react';
import { useBlocker } from 'react-router';

export interface Unsaved {
  /** Whether the member is being asked if it may go. */
  isAsked: boolean;
  stay(): void;
  leave(): void;
  /** It is saved: nothing is left to ask about. */
  done(): void;
}

/** @param isUnsaved whether there is anything; of a dialog that is open while the address says so */
export function useUnsaved(isUnsaved: boolean): Unsaved {
  const isThere = useRef(isUnsaved);
  useEffect(() => {
    isThere.current = isUnsaved;
  }, [isUnsaved]);
  const leaving = useBlocker(
    ({ currentLocation: from, nextLocation: to }) =>
      isThere.current && (from.pathname !== to.pathname || from.search !== to.search),
  );
  useEffect(() => {
    const ask = (event: BeforeUnloadEvent) => {
      if (isThere.current) event.preventDefault();
    };
    window.addEventListener('beforeunload', ask);
    return () => window.removeEventListener('beforeunload', ask);
  }, []);
  const done = () => {
    isThere.current = false;
  };
  return {
    isAsked: leaving.state === 'blocked',
    stay: () => leaving.reset?.(),
    leave() {
      done();
      leaving.proceed?.();
    },
    done,
  };
}
