// Blocking time of a page by processor time, from a browser's trace. Lighthouse counts elapsed time; on a machine with few cores,
// where the browser's other processes run concurrently, half of that is waiting for a core.

interface TraceEvent {
  name: string;
  /** `X` for a complete event with a duration. */
  ph: string;
  pid: number;
  tid: number;
  /** Begin, duration and processor time, in microseconds. */
  ts: number;
  dur?: number;
  tdur?: number;
  args?: { data?: { documentLoaderURL?: string } };
}

export interface Trace {
  traceEvents: TraceEvent[];
}

/** Lighthouse's slowdown factors of a phone, in general and for layout tasks. */
const slowdown = 4;
const slowdownOfLayout = 2;
/** Tasks up to this duration in milliseconds do not count as blocking. */
const maxTaskMs = 50;

/**
 * Milliseconds above 50 ms of each task of the page's main thread on Lighthouse's phone. Counted from the navigation, not from the
 * first paint as in Lighthouse, so the result is an upper bound.
 */
export function blockingByProcessorTime({ traceEvents }: Trace): number {
  const start = traceEvents.findLast(
    ({ name, args }) => name === 'navigationStart' && args?.data?.documentLoaderURL?.startsWith('http'),
  );
  if (!start) throw new Error('The trace contains no page');
  const ofPage = traceEvents.filter(
    ({ pid, tid, ts }) => pid === start.pid && tid === start.tid && ts >= start.ts,
  );
  const layouts = ofPage.filter(({ name }) => name === 'Layout');
  return ofPage
    .filter(({ name, ph }) => ph === 'X' && name.endsWith('RunTask'))
    .map(({ ts, dur = 0, tdur = 0 }) => {
      const laysOut = layouts.some((layout) => layout.ts >= ts && layout.ts < ts + dur);
      return Math.max(0, (tdur / 1000) * (laysOut ? slowdownOfLayout : slowdown) - maxTaskMs);
    })
    .reduce((sum, blocked) => sum + blocked, 0);
}
