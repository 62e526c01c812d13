// The simulator's time: it runs like the real one, and can be moved forward by the control API.

export type SimulatorClock = {
  now(): number;
  /** Runs the work once that moment has come; the returned function calls it off. */
  at(moment: number, work: () => void | Promise<void>): () => void;
  /** Everything that becomes due by it runs at once, in order. */
  advance(byMs: number): void;
  /** Back to the time it was given, with nothing left to do. */
  reset(): void;
  /** Nothing happens any more. */
  stop(): void;
};

type Appointment = { moment: number; work: () => void | Promise<void>; timer: NodeJS.Timeout | undefined };

/** A timer cannot be set further ahead than this; a longer wait is made of several. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

export function startClock(source: { now(): number }): SimulatorClock {
  const appointments = new Set<Appointment>();
  let advancedMs = 0;
  let isStopped = false;

  const now = () => source.now() + advancedMs;

  function wait(appointment: Appointment): void {
    clearTimeout(appointment.timer);
    const waitMs = Math.min(Math.max(appointment.moment - now(), 0), LONGEST_TIMER_MS);
    appointment.timer = setTimeout(() => {
      if (now() < appointment.moment) {
        wait(appointment);
        return;
      }
      appointments.delete(appointment);
      Promise.resolve()
        .then(appointment.work)
        .catch((problem: unknown) => console.error('daraja simulator:', problem));
    }, waitMs);
  }

  function callAllOff(): void {
    for (const appointment of appointments) clearTimeout(appointment.timer);
    appointments.clear();
  }

  return {
    now,
    at(moment, work) {
      if (isStopped) return () => undefined;
      const appointment: Appointment = { moment, work, timer: undefined };
      appointments.add(appointment);
      wait(appointment);
      return () => {
        clearTimeout(appointment.timer);
        appointments.delete(appointment);
      };
    },
    advance(byMs) {
      advancedMs += byMs;
      for (const appointment of [...appointments].sort((a, b) => a.moment - b.moment)) wait(appointment);
    },
    reset() {
      advancedMs = 0;
      callAllOff();
    },
    stop() {
      isStopped = true;
      callAllOff();
    },
  };
}
