// Parses the faults that the control API receives.
import { merchantRefusals } from '../requests/daraja-errors.ts';
import type { Fields } from '../requests/request-fields.ts';
import {
  type Fault,
  type FaultOrder,
  type FaultTarget,
  faultKindsOf,
  faultTargets,
  type ScriptedFault,
} from './faults.ts';
import { spellings } from './spellings.ts';

export type ReadFaults = {
  orders: ReadonlyMap<FaultTarget, FaultOrder>;
  /** Null when the body has none: the current script stays. */
  script: ScriptedFault[] | null;
};

/**
 * Parses a body such as `{"pushes": {"next": 2, "kind": "unavailable"}}` or
 * `{"script": [{"target": "callbacks", "kind": "drop", "share": 0.2, "seed": 7}, {"target": "pushes", "kind": "busy", "occurrences": [3]}]}`,
 * @returns a sentence when the body is invalid
 */
export function readFaults(fields: Fields | null): ReadFaults | string {
  const names = Object.keys(fields ?? {});
  if (fields === null || names.length === 0) {
    return `Name faults for ${faultTargets.join(', ')}, or a script.`;
  }
  const orders = new Map<FaultTarget, FaultOrder>();
  let script: ScriptedFault[] | null = null;
  for (const name of names) {
    if (name === 'script') {
      const read = readScript(fields.script);
      if (typeof read === 'string') return read;
      script = read;
      continue;
    }
    const target = faultTargets.find((known) => known === name);
    if (!target) return `There are no faults for ${name}.`;
    const order = (fields[name] ?? {}) as Fields;
    const fault = readFault(target, order);
    if (fault === null || !isCount(order.next)) return `${name}: {next, ${fieldsOf(target)}}`;
    orders.set(target, { ...fault, next: order.next });
  }
  return { orders, script };
}

function readScript(value: unknown): ScriptedFault[] | string {
  if (!Array.isArray(value)) return 'A script is a list of faults.';
  const script: ScriptedFault[] = [];
  for (const [index, entry] of value.entries()) {
    const line = (entry ?? {}) as Fields;
    const target = faultTargets.find((known) => known === line.target);
    if (!target) return `Line ${index + 1} of the script needs a target: ${faultTargets.join(' | ')}`;
    const fault = readFault(target, line);
    const occurrences = readOccurrences(line);
    if (fault === null || occurrences === null) {
      return `Line ${index + 1} of the script: {target, occurrences: [1, …] or share (0 to 1) and seed, ${fieldsOf(target)}}`;
    }
    script.push({ ...fault, target, occurrences });
  }
  return script;
}

function readOccurrences({ occurrences, share, seed = 1 }: Fields): ScriptedFault['occurrences'] | null {
  if (Array.isArray(occurrences) && occurrences.every(isCount)) return { among: occurrences };
  if (typeof share === 'number' && share >= 0 && share <= 1 && isCount(seed)) return { share, seed };
  return null;
}

function readFault(target: FaultTarget, fields: Fields): Fault | null {
  const {
    kind,
    delayMs = 0,
    times = 2,
    retryAfterS = null,
    resultCode = 1,
    spelling = 'receipt-small',
    refusal = null,
  } = fields;
  const knownKind = faultKindsOf(target).find((candidate) => candidate === kind);
  const isRetryAfter = retryAfterS === null || isCount(retryAfterS);
  const isRefusal =
    (refusal === null) === (kind !== 'refuse') &&
    (refusal === null || Object.hasOwn(merchantRefusals, String(refusal)));
  const isCode = typeof resultCode === 'string' || typeof resultCode === 'number';
  const isSpelling = spellings.some((known) => known === spelling);
  if (
    knownKind === undefined ||
    !isCount(delayMs) ||
    !isCount(times) ||
    !isRetryAfter ||
    !isCode ||
    !isSpelling ||
    !isRefusal
  ) {
    return null;
  }
  return { kind: knownKind, delayMs, times, retryAfterS, resultCode, spelling, refusal } as Fault;
}

function fieldsOf(target: FaultTarget): string {
  return `kind: ${faultKindsOf(target).join(' | ')}, delayMs?, times?, retryAfterS?, resultCode?, spelling?, refusal? (${Object.keys(merchantRefusals).join(' | ')})`;
}

function isCount(value: unknown): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0;
}
