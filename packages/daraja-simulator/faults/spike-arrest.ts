// Limits queries per shortcode as the gateway in front of Daraja does ("spike arrest").
import type { SimulatorClock } from '../ledger/clock.ts';
import type { QueryLimit } from '../settings.ts';

export type SpikeArrest = {
  /** Whether this query is admitted; rejected queries do not count. */
  admits(shortcode: string): boolean;
  reset(): void;
};

export function createSpikeArrest(limit: QueryLimit, clock: SimulatorClock): SpikeArrest {
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

/** The gateway's own error, in another format than Daraja's. */
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
