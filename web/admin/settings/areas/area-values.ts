// An area of delivery in the form, in the database, and in words.
import { describePromise } from '../../../../domain/deliveries/delivery-area.ts';
import { formatKes } from '../../../../domain/money.ts';
import type { Database } from '../../../../supabase/types.ts';

export type AreaRow = Database['public']['Tables']['delivery_areas']['Row'];

export interface AreaForm {
  name: string;
  /** `shop`: the fee of the settings. `agreed`: fee and day are agreed with each customer. */
  pricing: 'shop' | 'own' | 'agreed';
  /** In shillings. */
  fee: string;
  /** In minutes. */
  from: string;
  to: string;
  /** Separated by commas or lines. */
  spellings: string;
}
export type AreaProblems = Partial<Record<keyof AreaForm, string>>;

/** @param row null for a new area */
export const formOf = (row: AreaRow | null): AreaForm => ({
  name: row?.name ?? '',
  pricing: row?.needs_agreement ? 'agreed' : row && row.fee_cents !== null ? 'own' : 'shop',
  fee: row && row.fee_cents !== null ? String(row.fee_cents / 100) : '',
  from: String(row?.promise_from_minutes ?? 15),
  to: String(row?.promise_to_minutes ?? 60),
  spellings: row?.spellings.join(', ') ?? '',
});

const readWhole = (text: string): number | null =>
  /^\d{1,7}$/.test(text.trim()) ? Number(text.trim()) : null;

const longestMinutes = 40_320;
const isPromise = (minutes: number | null): minutes is number =>
  minutes !== null && minutes >= 1 && minutes <= longestMinutes;

const readSpellings = (text: string): string[] =>
  text
    .split(/[,\n]/)
    .map((spelling) => spelling.trim())
    .filter(Boolean);

/** The promise in words as it is typed; null while it is none. */
export function typedPromise({ from, to }: Pick<AreaForm, 'from' | 'to'>): string | null {
  const [least, most] = [readWhole(from), readWhole(to)];
  return isPromise(least) && isPromise(most) && most >= least
    ? describePromise({ promise_from_minutes: least, promise_to_minutes: most })
    : null;
}

/** The problems of a form, in the order of its fields. */
export function checkArea(form: AreaForm): AreaProblems {
  const problems: AreaProblems = {};
  const name = form.name.trim();
  if (name.length < 2 || name.length > 60) problems.name = 'A name has 2 to 60 characters';
  if (form.pricing === 'own' && (readWhole(form.fee) ?? 1_000_001) > 1_000_000)
    problems.fee = 'A fee is whole shillings. 0 means free';
  if (form.pricing !== 'agreed') {
    if (!isPromise(readWhole(form.from))) problems.from = 'Whole minutes, from 1 to 40,320 (four weeks)';
    if (!isPromise(readWhole(form.to))) problems.to = 'Whole minutes, from 1 to 40,320 (four weeks)';
    else if (!problems.from && typedPromise(form) === null) problems.to = 'This is less than the earliest';
  }
  const spellings = readSpellings(form.spellings);
  if (spellings.length > 200) problems.spellings = 'At most 200 other names';
  else if (spellings.some((spelling) => spelling.length > 60))
    problems.spellings = 'Each name has at most 60 characters: separate them with commas';
  return problems;
}

/**
 * A checked form as columns.
 * @param row as it was read: what the form does not show stays
 */
export function toColumns(form: AreaForm, row: AreaRow | null) {
  const isAgreed = form.pricing === 'agreed';
  return {
    name: form.name.trim(),
    needs_agreement: isAgreed,
    fee_cents:
      form.pricing === 'own' ? (readWhole(form.fee) ?? 0) * 100 : isAgreed ? (row?.fee_cents ?? null) : null,
    promise_from_minutes: isAgreed ? (row?.promise_from_minutes ?? 1440) : (readWhole(form.from) ?? 15),
    promise_to_minutes: isAgreed ? (row?.promise_to_minutes ?? 4320) : (readWhole(form.to) ?? 60),
    spellings: readSpellings(form.spellings),
  };
}

/** Such as `KES 200 · 15-60 minutes`. */
export const describeArea = (row: AreaRow, shopFee: number): string =>
  row.needs_agreement
    ? 'Fee and day agreed with each customer'
    : `${feeOf(row.fee_cents, shopFee)} · ${describePromise(row)}`;

const feeOf = (own: number | null, shopFee: number): string =>
  own === null
    ? `${shopFee === 0 ? 'Free' : formatKes(shopFee)}, as the shop`
    : own === 0
      ? 'Free'
      : formatKes(own);

/** What deliveries to an area took in the last 30 days, in minutes from the payment. */
export interface AreaEstimate {
  deliveries: number;
  median: number;
  /** Within which nine of ten arrived. */
  p90: number;
  /** The hour of the day with the longest one, of those with enough deliveries. */
  slowest: { hour: number; p90: number } | null;
}

type EstimateRow = Database['public']['Functions']['delivery_estimates']['Returns'][number];

/** The estimates by the id of their area; none for areas with fewer than twenty deliveries. */
export function estimatesByArea(rows: readonly EstimateRow[]): Map<string, AreaEstimate> {
  const estimates = new Map<string, AreaEstimate>();
  for (const { area_id, hour, deliveries, median_minutes, p90_minutes } of rows) {
    if (hour === null) {
      estimates.set(area_id, { deliveries, median: median_minutes, p90: p90_minutes, slowest: null });
    }
  }
  for (const { area_id, hour, p90_minutes } of rows) {
    const found = estimates.get(area_id);
    if (found && hour !== null && p90_minutes > (found.slowest?.p90 ?? found.p90)) {
      found.slowest = { hour, p90: p90_minutes };
    }
  }
  return estimates;
}

/** Such as `Took 38 minutes, 9 of 10 up to 55 (24 deliveries in 30 days). Slowest from 18:00: 70`. */
export const describeEstimate = ({ deliveries, median, p90, slowest }: AreaEstimate): string =>
  `Took ${median} minutes, 9 of 10 up to ${p90} (${deliveries} deliveries in 30 days)${
    slowest === null ? '' : `. Slowest from ${String(slowest.hour).padStart(2, '0')}:00: ${slowest.p90}`
  }`;

/** The minutes to promise by what deliveries took, in steps of five. */
export const suggestedMinutes = ({ p90 }: AreaEstimate): number => Math.ceil(p90 / 5) * 5;

/** The list with one area at another place. */
export function moved<Row>(rows: readonly Row[], from: number, to: number): Row[] {
  const next = [...rows];
  const [row] = next.splice(from, 1);
  if (row !== undefined) next.splice(Math.max(0, Math.min(to, rows.length - 1)), 0, row);
  return next;
}
