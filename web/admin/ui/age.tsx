// The time since an event, updated while visible.
import { useSyncExternalStore } from 'react';
import { formatAge, formatDateTime } from './dates.ts';

const tickMs = 20_000;
let now = Date.now();
const listeners = new Set<() => void>();
let timer: ReturnType<typeof setInterval> | undefined;

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  if (!timer) {
    now = Date.now();
    timer = setInterval(() => {
      now = Date.now();
      for (const each of listeners) each();
    }, tickMs);
  }
  return () => {
    listeners.delete(listener);
    if (listeners.size > 0) return;
    clearInterval(timer);
    timer = undefined;
  };
}

/** The time in steps of some seconds, the same for all components on the screen. */
export const useNow = (): number => useSyncExternalStore(subscribe, () => now);

export function Age({ at }: { at: string }) {
  return (
    <time dateTime={at} title={formatDateTime(at)} className="whitespace-nowrap tabular-nums">
      {formatAge(at, useNow())}
    </time>
  );
}
