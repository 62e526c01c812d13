// Subscriptions to table changes, as far as they go today: they are answered in the protocol's terms and then refused.
import { createHash } from 'node:crypto';

/** A subscription as the client sees it accepted: its own words and a number. */
export type AcceptedBinding = Record<string, unknown> & { id: number };

/**
 * Numbers subscriptions: positive, and the same for the same words.
 * @param bindings what the client asked for; the answer has the same order and keys, which the client compares
 */
export function acceptBindings(bindings: readonly Record<string, unknown>[]): AcceptedBinding[] {
  return bindings.map((binding) => ({ ...binding, id: numberOf(binding) }));
}

/** Why a subscription cannot be served, as the text of a system message. */
export function subscriptionProblem(binding: Record<string, unknown>): string {
  const { event = '*', schema = 'public', table = '*', filter = '' } = binding;
  return (
    'Unable to subscribe to changes with given parameters. Please check Realtime is enabled for the given connect ' +
    `parameters: [event: ${event}, schema: ${schema}, table: ${table}, filters: [${filter}]]`
  );
}

function numberOf(binding: Record<string, unknown>): number {
  const sorted = Object.entries(binding).sort(([a], [b]) => (a < b ? -1 : 1));
  const hash = createHash('sha256').update(JSON.stringify(sorted)).digest();
  return (hash.readUInt32BE(0) >>> 5) + 1;
}
