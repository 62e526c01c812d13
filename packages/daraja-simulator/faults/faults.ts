// Fault injection: the control API sets faults for the next N occurrences of a target, or for chosen ones (a script).
import { createHash } from 'node:crypto';
import type { MerchantRefusal } from '../requests/daraja-errors.ts';
import type { Spelling } from './spellings.ts';

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

/** Messages that the simulator sends to the shop, and lines of its statement. */
const messages = ['callbacks', 'confirmations', 'results', 'lines'] as const;
export type Message = (typeof messages)[number];

/** Results of requests that M-PESA executes later. */
const resultTargets = ['reversalResults', 'statusResults'] as const;
type ResultTarget = (typeof resultTargets)[number];

const answerFaultKinds = [
  /** The firewall's HTML page (HTTP 403); the request has no effect. */
  'forbidden-html',
  /** HTTP 503 with HTML; no effect. */
  'unavailable',
  /** HTTP 400 without a body; no effect. */
  'empty-400',
  /** HTTP 429 from the gateway, with Retry-After if `retryAfterS` is set; no effect. */
  'too-many',
  /** "Invalid Access Token" for any token; no effect. */
  'invalid-token',
  /** The error of `refusal`, whose cause is the merchant's settings or app; no effect. */
  'refuse',
  /** The connection is closed before the request has an effect. */
  'drop-connection',
  /** The request takes effect, but the connection is closed before the response. */
  'lose-answer',
  /** The request takes effect, but the response is HTTP 500 with a web page. */
  'spoil-answer',
  /** The request takes effect, and the response takes `delayMs` longer. */
  'delay',
  /** HTTP 500 500.001.1001 "The transaction is being processed", as real queries often get; no effect. */
  'busy',
] as const;

const messageFaultKinds = [
  /** Never sent. */
  'drop',
  /** Sent `times` times at once. */
  'duplicate',
  /** Sent `delayMs` later. */
  'delay',
  /** Receipts, amounts or times are written in another way: `spelling`. */
  'spell',
] as const;

const callbackFaultKinds = [
  ...messageFaultKinds,
  /** A success has `resultCode` beside its amount and receipt. */
  'contradict',
] as const;

const lineFaultKinds = [
  /** Missing in this response. */
  'drop',
  'spell',
] as const;

const resultFaultKinds = [
  /** The request ends with `resultCode` and has no effect. */
  'fail',
] as const;

type FaultDetails = {
  delayMs: number;
  times: number;
  retryAfterS: number | null;
  resultCode: number | string;
  spelling: Spelling;
  refusal: MerchantRefusal | null;
};
type AnswerFault = FaultDetails & { kind: (typeof answerFaultKinds)[number] };
type MessageFault = FaultDetails & { kind: (typeof callbackFaultKinds)[number] };
type ResultFault = FaultDetails & { kind: (typeof resultFaultKinds)[number] };
export type Fault = AnswerFault | MessageFault | ResultFault;

export type FaultTarget = Endpoint | Message | ResultTarget;
export const faultTargets: readonly FaultTarget[] = [...endpoints, ...messages, ...resultTargets];

/** The kinds that are valid for a target. */
export function faultKindsOf(target: FaultTarget): readonly Fault['kind'][] {
  if ((endpoints as readonly string[]).includes(target)) return answerFaultKinds;
  if (target === 'callbacks') return callbackFaultKinds;
  if (target === 'lines') return lineFaultKinds;
  return (messages as readonly string[]).includes(target) ? messageFaultKinds : resultFaultKinds;
}

/** A fault for the next `next` occurrences. */
export type FaultOrder = Fault & { next: number };

/** One line of a script: the affected occurrences of a target, counted from 1 when the script was set. */
export type ScriptedFault = Fault & {
  target: FaultTarget;
  occurrences: { among: readonly number[] } | { share: number; seed: number };
};

export type Faults = {
  order(orders: ReadonlyMap<FaultTarget, FaultOrder>): void;
  /** Replaces the script and counts from 1 again. */
  follow(script: readonly ScriptedFault[]): void;
  /** Returns the fault of the next answer and counts the occurrence. */
  takeAnswerFault(endpoint: Endpoint): AnswerFault | null;
  takeMessageFault(message: Message): MessageFault | null;
  takeResultFault(target: ResultTarget): ResultFault | null;
  /** Remaining faults by target. */
  pending(): Record<FaultTarget, FaultOrder | null>;
  script(): readonly ScriptedFault[];
  reset(): void;
};

/** @param onFault called for each fault that takes effect */
export function createFaults(
  onFault: (target: FaultTarget, fault: Fault, occurrence: number) => void,
): Faults {
  const orders = new Map<FaultTarget, FaultOrder>();
  const counts = new Map<FaultTarget, number>();
  let script: readonly ScriptedFault[] = [];

  function take(target: FaultTarget): Fault | null {
    const occurrence = (counts.get(target) ?? 0) + 1;
    counts.set(target, occurrence);
    const fault =
      takeOrdered(target) ??
      script.find((line) => line.target === target && isAffected(line, occurrence)) ??
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
    order(entries) {
      for (const [target, fault] of entries) orders.set(target, { ...fault });
    },
    follow(newScript) {
      script = newScript;
      counts.clear();
    },
    takeAnswerFault: (endpoint) => take(endpoint) as AnswerFault | null,
    takeMessageFault: (message) => take(message) as MessageFault | null,
    takeResultFault: (target) => take(target) as ResultFault | null,
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
      counts.clear();
      script = [];
    },
  };
}

/** The same seed affects the same occurrences in every run. */
function isAffected({ target, kind, occurrences }: ScriptedFault, occurrence: number): boolean {
  if ('among' in occurrences) return occurrences.among.includes(occurrence);
  const { seed, share } = occurrences;
  const drawn = createHash('sha256').update(`${seed} ${target} ${kind} ${occurrence}`).digest();
  return drawn.readUInt32BE(0) / 2 ** 32 < share;
}
