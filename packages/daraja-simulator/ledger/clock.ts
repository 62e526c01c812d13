// The simulator's clock: runs in real time and can be advanced by the control API.

export type SimulatorClock = {
  now(): number;
  /** Runs the work at that time; the returned function cancels it. */
  at(moment: number, work: () => void | Promise<void>): () => void;
  /** Runs everything that becomes due at once, in order. */
  advance(byMs: number): void;
  /** Returns to the source's time and cancels all work. */
  reset(): void;
  /** Cancels all work, also future calls of `at`. */
  stop(): void;
};

type ScheduledTask = { moment: number; work: () => void | Promise<void>; timer: NodeJS.Timeout | undefined };

/** Maximum delay of `setTimeout`; longer waits use several timers. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

export function startClock(source: { now(): number }): SimulatorClock {
  const scheduled = new Set<ScheduledTask>();
  let advancedMs = 0;
  let isStopped = false;

  const now = () => source.now() + advancedMs;

  function wait(task: ScheduledTask): void {
    clearTimeout(task.timer);
    const waitMs = Math.min(Math.max(task.moment - now(), 0), LONGEST_TIMER_MS);
    task.timer = setTimeout(() => {
      if (now() < task.moment) {
        wait(task);
        return;
      }
      scheduled.delete(task);
      Promise.resolve()
        .then(task.work)
        .catch((problem: unknown) => console.error('daraja simulator:', problem));
    }, waitMs);
  }

  function cancelAll(): void {
    for (const task of scheduled) clearTimeout(task.timer);
    scheduled.clear();
  }

  return {
    now,
    at(moment, work) {
      if (isStopped) return () => undefined;
      const task: ScheduledTask = { moment, work, timer: undefined };
      scheduled.add(task);
      wait(task);
      return () => {
        clearTimeout(task.timer);
        scheduled.delete(task);
      };
    },
    advance(byMs) {
      advancedMs += byMs;
      for (const task of [...scheduled].sort((a, b) => a.moment - b.moment)) wait(task);
    },
    reset() {
      advancedMs = 0;
      cancelAll();
    },
    stop() {
      isStopped = true;
      cancelAll();
    },
  };
}
