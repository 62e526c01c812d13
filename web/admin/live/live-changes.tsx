import { useEffect } from 'react';
import { useEventToasts } from './use-event-toasts.ts';
import { type LiveState, useLiveChanges } from './use-live-changes.ts';

interface LiveChangesProps {
  isActive: boolean;
  onState(state: LiveState): void;
}

/** Shows changes of the shop's tables on every screen, and reports whether they arrive. */
export function LiveChanges({ isActive, onState }: LiveChangesProps) {
  const state = useLiveChanges(useEventToasts(), isActive);
  useEffect(() => onState(state), [state, onState]);
  return null;
}
