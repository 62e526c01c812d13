// Limits queries per shortcode the way the gateway in front of Daraja does.
import type { SimulatorClock } from './clock.ts';
import type { QueryLimit } from './settings.ts';

export type SpikeArrest = {
  /** Whether this query may pass; one that may not does not count. */
  admits(shortcode: string): boolean;
  reset(): void;
};

export function arrestSpikes(limit: QueryLimit, clock: SimulatorClock): SpikeArrest {
  const admittedAt = new Map<string, number[]>();

  return {
    admits(shortcode) {
      const now = clock.now();
      const recent = (admittedAt.get(shortcode) ?? []).filter((moment) => now - moment < limit.perMs);
      const latest = recent.at(-1);
      const isTooClose =
        limit.evenly === true && latest !== undefined && now - latest < limit.perMs / limit.requests;
      const isAdmitted = recent.length < limit.requests && !isTooClose;
      admittedAt.set(shortcode, isAdmitted ? [...recent, now] : recent);
      return isAdmitted;
    },
    reset() {
      admittedAt.clear();
    },
  };
}

/** The gateway's own answer, which has nothing of Daraja's error shape. */
export function spikeArrestResponse(limit: QueryLimit, retryAfterS: number | null = null): Response {
  const rate = `messagesPerPeriod=${limit.requests}, periodInMicroseconds=${limit.perMs * 1000}, maxBurstMessageCount=1.0`;
  return Response.json(
    {
      fault: {
        faultstring: `Spike arrest violation. Allowed rate : MessageRate{${rate}}`,
        detail: { errorcode: 'policies.ratelimit.SpikeArrestViolation' },
      },
    },
    { status: 429, headers: retryAfterS === null ? {} : { 'retry-after': String(retryAfterS) } },
  );
}
