// Confirms before unsaved changes are lost by any kind of navigation.
import { useCallback, useEffect, useRef } from 'react';
import { type Location, useBlocker } from 'react-router';

export interface Unsaved {
  /** Whether the confirmation is shown. */
  isBlocked: boolean;
  stay(): void;
  leave(): void;
  /** Sets whether there are unsaved changes, effective before the next render. Stable. */
  note(isUnsaved: boolean): void;
}

/** Whether it is a dialog that is open while the URL says so. */
const anyAddress = (from: Location, to: Location): boolean =>
  from.pathname !== to.pathname || from.search !== to.search;

/** For a form of a whole screen. */
export const isAnotherScreen = (from: Location, to: Location): boolean => from.pathname !== to.pathname;

/**
 * @param isUnsaved whether there are unsaved changes; false for callers that set it later
 * @param isAway whether a navigation would lose them
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
    const confirmLeaving = (event: BeforeUnloadEvent) => {
      if (isThere.current) event.preventDefault();
    };
    window.addEventListener('beforeunload', confirmLeaving);
    return () => window.removeEventListener('beforeunload', confirmLeaving);
  }, []);
  const note = useCallback((has: boolean) => {
    isThere.current = has;
  }, []);
  return {
    isBlocked: leaving.state === 'blocked',
    stay: () => leaving.reset?.(),
    leave() {
      note(false);
      leaving.proceed?.();
    },
    note,
  };
}

/** Whether the screen has unsaved changes: reported to a `beforeunload` event, or typed into a dialog. */
export function hasUnsavedChanges(): boolean {
  return (
    !window.dispatchEvent(new Event('beforeunload', { cancelable: true })) ||
    document.querySelector('[role=dialog][data-state=open] form') !== null
  );
}
