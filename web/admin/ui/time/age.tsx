// The time since an event, updated while visible.
import { useSyncExternalStore } from 'react';
import { formatAge, formatDateTime } from './dates.ts';

const tickMs = 20_000;
let now = Date.now();
const listeners = new Set<() => void>();
let timer: ReturnType<typeof setInterval> | undefined;

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  timer ??= setInterval(() => {
    for (const each of listeners) each();
  }, tickMs);
  return () => {
    listeners.delete(listener);
    if (listeners.size > 0) return;
    clearInterval(timer);
    timer = undefined;
  };
}

/** Changes in steps alone, so that all components of a render and of the next ones have the same time. */
export function readNow(): number {
  const time = Date.now();
  // Half a step, so that a timer which is a little early still shows the next one. Backwards, too: devices correct clocks.
  if (Math.abs(time - now) >= tickMs / 2) now = time;
  return now;
}

/** The time in steps of some seconds, the same for all components on the screen. */
export const useNow = (): number => useSyncExternalStore(subscribe, readNow);

export function Age({ at }: { at: string }) {
  return (
    <time dateTime={at} title={formatDateTime(at)} className="whitespace-nowrap tabular-nums">
      {formatAge(at, useNow())}
    </time>
  );
}
