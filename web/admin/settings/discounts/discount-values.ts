// A discount code in the form, in the database, and in words.
import { formatKes } from '../../../../domain/money.ts';
import { nairobiDay } from '../../../../domain/nairobi-time.ts';
import { formatDate } from '../../ui/time/dates.ts';
import { dayAfter } from '../../ui/time/nairobi-day.ts';

/** As `list_discount_codes` returns it. Amounts in cents. */
export interface DiscountRow {
  id: string;
  code: string;
  percent: number | null;
  amount_cents: number | null;
  minimum_cents: number;
  starts_at: string | null;
  ends_at: string | null;
  max_uses: number | null;
  max_uses_per_phone: number | null;
  is_active: boolean;
  created_at: string;
  updated_at: string;
  /** Orders with the code, without cancelled unpaid ones. */
  uses: number;
  /** Those of them that wait for their payment. */
  waiting: number;
  /** The discounts of paid orders, and what they paid. */
  cost_cents: number;
  sold_cents: number;
  /** Its discount cannot change any more. */
  has_orders: boolean;
}

export interface DiscountForm {
  code: string;
  kind: 'percent' | 'amount';
  /** In percent or shillings. */
  value: string;
  /** In shillings. Empty: none. */
  minimum: string;
  /** Days in Nairobi. Empty: at once, and without end. */
  firstDay: string;
  lastDay: string;
  /** Empty: no limit. */
  maxUses: string;
  maxUsesPerPhone: string;
}
export type DiscountProblems = Partial<Record<keyof DiscountForm, string>>;

const firstDayOf = ({ starts_at }: DiscountRow): string =>
  starts_at ? nairobiDay(Date.parse(starts_at)) : '';
/** The day of its last moment. */
const lastDayOf = ({ ends_at }: DiscountRow): string => (ends_at ? nairobiDay(Date.parse(ends_at) - 1) : '');
const textOf = (count: number | null): string => (count === null ? '' : String(count));

/** @param row null for a new code */
export const formOf = (row: DiscountRow | null): DiscountForm => ({
  code: row?.code ?? '',
  kind: row && row.amount_cents !== null ? 'amount' : 'percent',
  value: row ? String(row.percent ?? (row.amount_cents ?? 0) / 100) : '',
  minimum: row && row.minimum_cents > 0 ? String(row.minimum_cents / 100) : '',
  firstDay: row ? firstDayOf(row) : '',
  lastDay: row ? lastDayOf(row) : '',
  maxUses: textOf(row?.max_uses ?? null),
  maxUsesPerPhone: row ? textOf(row.max_uses_per_phone) : '1',
});

/** A code as the database stores it. */
export const plainCode = (typed: string): string => typed.replace(/\s/g, '').toUpperCase();

const readCount = (text: string): number | null =>
  /^[1-9]\d{0,8}$/.test(text.trim()) ? Number(text.trim()) : null;

/** Whole shillings, up to a million. */
const isAmount = (text: string): boolean => (readCount(text) ?? Number.POSITIVE_INFINITY) <= 1_000_000;

/** The problems of a form, in the order of its fields. */
export function checkDiscount(form: DiscountForm): DiscountProblems {
  const problems: DiscountProblems = {};
  if (!/^[A-Z0-9][A-Z0-9-]{1,18}[A-Z0-9]$/.test(plainCode(form.code)))
    problems.code = 'A code has 3 to 20 letters, digits and hyphens';
  if (form.kind === 'percent') {
    const percent = readCount(form.value);
    if (percent === null || percent > 100) problems.value = 'A percentage is a whole number from 1 to 100';
  } else if (!isAmount(form.value)) problems.value = 'An amount is whole shillings, at least 1';
  if (form.minimum.trim() !== '' && form.minimum.trim() !== '0' && !isAmount(form.minimum))
    problems.minimum = 'The minimum is whole shillings, or empty';
  if (form.firstDay && form.lastDay && form.lastDay < form.firstDay)
    problems.lastDay = 'The last day is before the first';
  for (const field of ['maxUses', 'maxUsesPerPhone'] as const) {
    if (form[field].trim() !== '' && readCount(form[field]) === null)
      problems[field] = 'A whole number from 1, or empty for no limit';
  }
  return problems;
}

/**
 * A checked form as columns.
 * @param row as it was read: a day that was not changed keeps its exact time
 */
export function toColumns(form: DiscountForm, row: DiscountRow | null) {
  const isPercent = form.kind === 'percent';
  return {
    code: plainCode(form.code),
    percent: isPercent ? readCount(form.value) : null,
    amount_cents: isPercent ? null : (readCount(form.value) ?? 0) * 100,
    minimum_cents: (readCount(form.minimum) ?? 0) * 100,
    starts_at:
      row && form.firstDay === firstDayOf(row)
        ? row.starts_at
        : form.firstDay
          ? `${form.firstDay}T00:00:00+03:00`
          : null,
    ends_at:
      row && form.lastDay === lastDayOf(row)
        ? row.ends_at
        : form.lastDay
          ? `${dayAfter(form.lastDay, 1)}T00:00:00+03:00`
          : null,
    max_uses: readCount(form.maxUses),
    max_uses_per_phone: readCount(form.maxUsesPerPhone),
  };
}

/** Such as `10 % off`. */
export const describeValue = ({ percent, amount_cents }: DiscountRow): string =>
  amount_cents === null ? `${percent} % off` : `${formatKes(amount_cents)} off`;

/** The conditions of a code, such as `from KES 1,000 · once per phone · until 3 Dec 2026`. */
export function describeConditions(row: DiscountRow): string {
  const { minimum_cents, max_uses_per_phone, starts_at, ends_at } = row;
  return [
    minimum_cents > 0 ? `drinks from ${formatKes(minimum_cents)}` : null,
    max_uses_per_phone === null
      ? null
      : max_uses_per_phone === 1
        ? 'once per phone'
        : `${max_uses_per_phone} times per phone`,
    starts_at ? `from ${formatDate(starts_at)}` : null,
    ends_at ? `until ${formatDate(new Date(Date.parse(ends_at) - 1).toISOString())}` : null,
  ]
    .filter(Boolean)
    .join(' · ');
}

/** Whether a code can be used now, in a word. */
export function stateOf(
  row: DiscountRow,
  now: number,
): { label: string; tone: 'green' | 'grey' | 'blue'; isOpen: boolean } {
  const closed = (label: string) => ({ label, tone: 'grey', isOpen: false }) as const;
  if (!row.is_active) return closed('Ended');
  if (row.ends_at && Date.parse(row.ends_at) <= now) return closed('Over');
  if (row.max_uses !== null && row.uses >= row.max_uses) return closed('Used up');
  return row.starts_at && Date.parse(row.starts_at) > now
    ? { label: 'Not yet', tone: 'blue', isOpen: true }
    : { label: 'Active', tone: 'green', isOpen: true };
}
