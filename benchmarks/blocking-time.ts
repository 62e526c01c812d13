// Blocking time of a page from a browser's trace, counted in time of the processor. Lighthouse counts the time that passed: on a
// machine of few cores, where the browser's other processes run at the same time, half of that is waiting for a core.

interface TraceEvent {
  name: string;
  /** `X` for one that begins and ends. */
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

/** How much slower than this machine Lighthouse takes a phone to be, and for tasks that lay out. */
const slowdown = 4;
const slowdownOfLayout = 2;
/** Milliseconds of a task that nobody notices. */
const unnoticed = 50;

/**
 * What the tasks of the page's main thread take above 50 ms each on Lighthouse's phone, in milliseconds. Counted from the moment
 * the page is asked for, not from its first paint as Lighthouse does: rather too much than too little.
 */
export function blockingByProcessorTime({ traceEvents }: Trace): number {
  const start = traceEvents.findLast(
    ({ name, args }) => name === 'navigationStart' && args?.data?.documentLoaderURL?.startsWith('http'),
  );
  if (!start) throw new Error('The trace has no page in it');
  const ofPage = traceEvents.filter(
    ({ pid, tid, ts }) => pid === start.pid && tid === start.tid && ts >= start.ts,
  );
  const layouts = ofPage.filter(({ name }) => name === 'Layout');
  return ofPage
    .filter(({ name, ph }) => ph === 'X' && name.endsWith('RunTask'))
    .map(({ ts, dur = 0, tdur = 0 }) => {
      const laysOut = layouts.some((layout) => layout.ts >= ts && layout.ts < ts + dur);
      return Math.max(0, (tdur / 1000) * (laysOut ? slowdownOfLayout : slowdown) - unnoticed);
    })
    .reduce((sum, blocked) => sum + blocked, 0);
}
