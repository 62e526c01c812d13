// Trouble on demand: the control API can spoil the next N of something, or chosen ones of all that come (a script).
import { createHash } from 'node:crypto';

const endpoints = [
  'tokens',
  'pushes',
  'queries',
  'registrations',
  'statements',
  'reversals',
  'statuses',
] as const;
export type Endpoint = (typeof endpoints)[number];

/** What the simulator sends to the shop by itself. */
const messages = ['callbacks', 'confirmations', 'results'] as const;
export type Message = (typeof messages)[number];

/** Answers of the shop's customers and of M-PESA's core that can be chosen. */
const verdicts = ['reversalResults', 'statusResults'] as const;
type Verdict = (typeof verdicts)[number];

const answerFaultKinds = [
  /** The firewall's HTML instead of an answer (HTTP 403); nothing happens. */
  'forbidden-html',
  /** HTTP 503 with HTML; nothing happens. */
  'unavailable',
  /** HTTP 400 with no body at all; nothing happens. */
  'empty-400',
  /** HTTP 429 of the gateway, with Retry-After where `retryAfterS` is set; nothing happens. */
  'too-many',
  /** "Invalid Access Token", whatever the token; nothing happens. */
  'invalid-token',
  /** The connection breaks before anything happens. */
  'drop-connection',
  /** It happens, but the connection breaks before the answer. */
  'lose-answer',
  /** It happens, but the answer is HTTP 500 with a web page. */
  'spoil-answer',
  /** It happens, and the answer takes `delayMs` longer. */
  'delay',
  /** HTTP 500 500.001.1001 "The transaction is being processed", the noise of real queries; nothing happens. */
  'busy',
] as const;

const messageFaultKinds = [
  /** Never sent. */
  'drop',
  /** Sent `times` times at once. */
  'duplicate',
  /** Sent `delayMs` later. */
  'delay',
] as const;

const verdictFaultKinds = [
  /** It ends with `resultCode`, and nothing is carried out. */
  'fail',
] as const;

type FaultDetails = {
  delayMs: number;
  times: number;
  retryAfterS: number | null;
  resultCode: number | string;
};
type AnswerFault = FaultDetails & { kind: (typeof answerFaultKinds)[number] };
type MessageFault = FaultDetails & { kind: (typeof messageFaultKinds)[number] };
type VerdictFault = FaultDetails & { kind: (typeof verdictFaultKinds)[number] };
export type Fault = AnswerFault | MessageFault | VerdictFault;

export type FaultTarget = Endpoint | Message | Verdict;
export const faultTargets: readonly FaultTarget[] = [...endpoints, ...messages, ...verdicts];

/** The kinds that make sense for a target. */
export function faultKindsOf(target: FaultTarget): readonly Fault['kind'][] {
  if ((endpoints as readonly string[]).includes(target)) return answerFaultKinds;
  return (messages as readonly string[]).includes(target) ? messageFaultKinds : verdictFaultKinds;
}

/** The next `next` of a target. */
export type FaultOrder = Fault & { next: number };

/** One line of a script: which of a target's occurrences, counted from 1 when the script was set, are spoilt. */
export type ScriptedFault = Fault & {
  target: FaultTarget;
  occurrences: { among: readonly number[] } | { share: number; seed: number };
};

export type Faults = {
  order(orders: ReadonlyMap<FaultTarget, FaultOrder>): void;
  /** Replaces the script and counts from 1 again. */
  follow(script: readonly ScriptedFault[]): void;
  /** The fault of the next answer, which is used up by asking. */
  takeAnswerFault(endpoint: Endpoint): AnswerFault | null;
  takeMessageFault(message: Message): MessageFault | null;
  takeVerdictFault(verdict: Verdict): VerdictFault | null;
  /** What is ordered and not used up, by target. */
  pending(): Record<FaultTarget, FaultOrder | null>;
  script(): readonly ScriptedFault[];
  reset(): void;
};

/** @param onFault called for each fault that takes effect */
export function noFaults(onFault: (target: FaultTarget, fault: Fault, occurrence: number) => void): Faults {
  const orders = new Map<FaultTarget, FaultOrder>();
  const seen = new Map<FaultTarget, number>();
  let script: readonly ScriptedFault[] = [];

  function take(target: FaultTarget): Fault | null {
    const occurrence = (seen.get(target) ?? 0) + 1;
    seen.set(target, occurrence);
    const fault =
      takeOrdered(target) ??
      script.find((line) => line.target === target && isMeant(line, occurrence)) ??
      null;
    if (fault) onFault(target, fault, occurrence);
    return fault;
  }

  function takeOrdered(target: FaultTarget): Fault | null {
    const ordered = orders.get(target);
    if (!ordered || ordered.next === 0) return null;
    ordered.next -= 1;
    return ordered;
  }

  return {
    order(given) {
      for (const [target, fault] of given) orders.set(target, { ...fault });
    },
    follow(given) {
      script = given;
      seen.clear();
    },
    takeAnswerFault: (endpoint) => take(endpoint) as AnswerFault | null,
    takeMessageFault: (message) => take(message) as MessageFault | null,
    takeVerdictFault: (verdict) => take(verdict) as VerdictFault | null,
    pending() {
      const open = faultTargets.map((target) => {
        const fault = orders.get(target);
        return [target, fault && fault.next > 0 ? fault : null] as const;
      });
      return Object.fromEntries(open) as Record<FaultTarget, FaultOrder | null>;
    },
    script: () => script,
    reset() {
      orders.clear();
      seen.clear();
      script = [];
    },
  };
}

/** The same seed spoils the same occurrences, in every run. */
function isMeant({ target, kind, occurrences }: ScriptedFault, occurrence: number): boolean {
  if ('among' in occurrences) return occurrences.among.includes(occurrence);
  const { seed, share } = occurrences;
  const drawn = createHash('sha256').update(`${seed} ${target} ${kind} ${occurrence}`).digest();
  return drawn.readUInt32BE(0) / 2 ** 32 < share;
}
